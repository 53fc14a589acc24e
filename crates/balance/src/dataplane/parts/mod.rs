//! Pieces that several mechanisms are made of.

pub(crate) mod flows;
pub(crate) mod rounds;
