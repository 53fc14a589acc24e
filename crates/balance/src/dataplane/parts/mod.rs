//! Pieces that several mechanisms are made of.

pub mod flowlets;
