//! Addressing modes: the address that hosts send to, and what it says about the place of the
//! receiver (F0 sections 2.4.1 to 2.4.3; mechanisms.md A01 to A03).
//!
//! This module is pure. PortLand: numbers of switches (`location`), addresses (`pmac`) of hosts
//! (`fabric_manager`) and next hops by prefix (`routes`). SEATTLE: the assignment of hosts to
//! switches (`hash_ring`). SEATTLE, TRILL and VL2: shortest paths (`shortest`). The planner makes rules of
//! them.

pub(crate) mod cabling;
pub(crate) mod fabric_manager;
pub(crate) mod hash_ring;
pub(crate) mod location;
pub mod pmac;
pub(crate) mod routes;
pub(crate) mod shortest;

use net::{Addressing, Topology};

pub use location::Location;

/// Checks that an addressing mode can work in a network.
///
/// # Errors
/// A sentence that says what the mode needs.
pub fn check_topology(mode: Addressing, topology: &Topology) -> Result<(), String> {
    match mode {
        Addressing::Flat | Addressing::Seattle | Addressing::Vl2 | Addressing::Trill => Ok(()),
        Addressing::PortLand => {
            let cabling = cabling::Cabling::of(topology);
            location::Locator::default().locate(&cabling).map_err(|error| error.to_string())
        }
    }
}
