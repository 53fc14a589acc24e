//! Properties shared by several server balancers, and the published oracles.

mod consistency;
mod geni;
mod laws;
mod paths;
mod services;
mod uplinks;
