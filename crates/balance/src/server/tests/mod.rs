//! What several server balancers have in common, and the published oracles.

mod geni;
mod laws;
mod paths;
mod services;
mod uplinks;
