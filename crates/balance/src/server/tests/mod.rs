//! Properties shared by several server balancers, and the published oracles.

mod geni;
mod laws;
mod paths;
mod services;
mod uplinks;
