//! Addressing modes: the address that hosts send to, and what it says about the place of the
//! receiver (F0 sections 2.4.1 to 2.4.3; mechanisms.md A01 to A03).
//!
//! This module is pure: numbers of switches ([`location`]), addresses ([`pmac`]), numbers of
//! interfaces ([`fabric_manager`]) and next hops by prefix ([`routes`]). The planner makes rules of
//! them.

pub(crate) mod cabling;
pub(crate) mod fabric_manager;
pub(crate) mod location;
pub mod pmac;
pub(crate) mod routes;

use net::Topology;

pub use location::Location;

/// How hosts are addressed, and how switches find them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Addressing {
    /// Hosts send to the Ethernet address of the receiver; switches forward by IPv4 address.
    #[default]
    Flat,
    /// PortLand: hosts send to a pseudo-MAC address that contains the location of the receiver.
    PortLand,
}

/// An addressing mode, for lists and documentation.
#[derive(Clone, Copy, Debug)]
pub struct AddressingInfo {
    pub mode: Addressing,
    /// Name in experiment files and configuration files.
    pub name: &'static str,
    pub title: &'static str,
    pub summary: &'static str,
    pub source: &'static str,
}

/// All addressing modes.
pub const ADDRESSING_MODES: [AddressingInfo; 2] = [
    AddressingInfo {
        mode: Addressing::Flat,
        name: "flat",
        title: "Flat addresses",
        summary: "hosts send to the Ethernet address of the receiver; every switch has a rule for each block of \
                  host addresses, and the balancer chooses the next hops",
        source: "",
    },
    AddressingInfo {
        mode: Addressing::PortLand,
        name: "portland",
        title: "PortLand",
        summary: "edge switches translate between Ethernet addresses and pseudo-MAC addresses of pod, position, port \
                  and number; other switches forward by prefix. Needs a multi-rooted tree; next hops are those of \
                  sdn-ecmp",
        source: "A01; F0 section 2.4.1; SIGCOMM 2009 (PortLand)",
    },
];

impl Addressing {
    pub fn name(self) -> &'static str {
        self.info().name
    }

    pub fn info(self) -> &'static AddressingInfo {
        ADDRESSING_MODES.iter().find(|info| info.mode == self).expect("every mode is listed")
    }

    /// Checks that a mode can work in a network and with a balancer, by its name.
    ///
    /// # Errors
    /// A sentence that says what the mode needs.
    pub fn check(self, topology: &Topology, balancer: &str) -> Result<(), String> {
        self.check_balancer(balancer)?;
        match self {
            Addressing::Flat => Ok(()),
            Addressing::PortLand => {
                let cabling = cabling::Cabling::of(topology);
                location::Locator::default().locate(&cabling).map_err(|error| error.to_string())
            }
        }
    }

    /// Checks that a mode can work with a balancer, by its name.
    ///
    /// # Errors
    /// A sentence that says which balancers it works with.
    pub fn check_balancer(self, balancer: &str) -> Result<(), String> {
        let accepted: &[&str] = match self {
            Addressing::Flat => return Ok(()),
            Addressing::PortLand => &["sdn-ecmp"],
        };
        if accepted.contains(&balancer) {
            return Ok(());
        }
        Err(format!("the addressing mode `{}` forwards as {} does, not {balancer}", self.name(), accepted.join(" or ")))
    }
}
