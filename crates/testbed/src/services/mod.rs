//! Servers, their clients, and runs whose flows are requests.

pub mod compute;
pub mod front_end;
pub mod requests;
pub mod servers;
pub mod serving;
