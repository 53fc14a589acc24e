//! Addressing modes of data-centre networks: what the Ethernet address that a host sends to says about
//! the place of the receiver.

/// How hosts are addressed, and how switches find them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Addressing {
    /// Hosts send to the Ethernet address of the receiver; switches forward by IPv4 address.
    #[default]
    Flat,
    /// PortLand: hosts send to a pseudo-MAC address that contains the location of the receiver.
    PortLand,
    /// SEATTLE: switches find the location of a host in a directory that all switches share.
    Seattle,
    /// VL2: hosts send to the location address of the receiver's switch, which a directory tells them.
    Vl2,
    /// TRILL: switches route frames to the receiver's switch, and learn locations from frames that arrive.
    Trill,
}

/// An addressing mode, for lists and documentation.
#[derive(Clone, Copy, Debug)]
pub struct AddressingInfo {
    /// The mode that this row describes.
    pub mode: Addressing,
    /// Name in experiment files and configuration files.
    pub name: &'static str,
    /// Name in reports and documents.
    pub title: &'static str,
    /// Description for users: function and requirements.
    pub summary: &'static str,
    /// Sections and papers that define it.
    pub source: &'static str,
    /// Central balancers that it works with; empty for all.
    pub balancers: &'static [&'static str],
}

/// All addressing modes, in the order of the enum.
pub const ADDRESSING_MODES: [AddressingInfo; 5] = [
    AddressingInfo {
        mode: Addressing::Flat,
        name: "flat",
        title: "Flat addresses",
        summary: "hosts send to the Ethernet address of the receiver; every switch has a rule for each block of host \
                  addresses, and the balancer chooses the next hops",
        source: "",
        balancers: &[],
    },
    AddressingInfo {
        mode: Addressing::PortLand,
        name: "portland",
        title: "PortLand",
        summary: "edge switches translate between Ethernet addresses and pseudo-MAC addresses of pod, position, port \
                  and number; switches forward by prefix. Needs a multi-rooted tree",
        source: "A01; F0 section 2.4.1; SIGCOMM 2009 (PortLand)",
        balancers: &["sdn-ecmp"],
    },
    AddressingInfo {
        mode: Addressing::Seattle,
        name: "seattle",
        title: "SEATTLE",
        summary: "consistent hashing assigns each host to a switch that knows its location; other switches learn it \
                  with the first packet, and send along shortest paths with the location as VLAN label",
        source: "A02; F0 section 2.4.2; SIGCOMM 2008 (SEATTLE)",
        balancers: &["sdn-ecmp"],
    },
    AddressingInfo {
        mode: Addressing::Vl2,
        name: "vl2",
        title: "VL2",
        summary: "a directory answers ARP requests with the location address of the receiver's switch, or refuses; \
                  switches forward by location address, over random intermediate switches",
        source: "A03; F0 section 2.4.3; SIGCOMM 2009 (VL2)",
        balancers: &["sdn-ecmp", "sdn-vlb"],
    },
    AddressingInfo {
        mode: Addressing::Trill,
        name: "trill",
        title: "TRILL",
        summary: "ARP requests and frames to unknown locations go to all edge ports, from which every switch of hosts \
                  learns the location of the sender; switches forward along shortest paths with the receiver's \
                  switch as VLAN label",
        source: "F0 section 2.2; GLOBECOM 2009 (TRILL); RFC 6325",
        balancers: &["sdn-ecmp"],
    },
];

impl Addressing {
    /// Returns the name in files.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the description for lists and documents.
    pub fn info(self) -> &'static AddressingInfo {
        &ADDRESSING_MODES[self as usize]
    }

    /// Returns the mode of a name in files.
    pub fn named(name: &str) -> Option<Addressing> {
        ADDRESSING_MODES.iter().find(|info| info.name == name).map(|info| info.mode)
    }

    /// Checks that the mode can work with a balancer, by its name.
    ///
    /// # Errors
    /// Says which balancers it works with.
    pub fn check_balancer(self, balancer: &str) -> Result<(), String> {
        let accepted = self.info().balancers;
        if accepted.is_empty() || accepted.contains(&balancer) {
            return Ok(());
        }
        let (name, accepted) = (self.name(), accepted.join(" or "));
        Err(format!(
            "addressing = \"{name}\" decides the next hops itself and needs the balancer {accepted}, not {balancer}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_listed_in_their_order() {
        for (number, info) in ADDRESSING_MODES.iter().enumerate() {
            assert_eq!((info.mode as usize, Addressing::named(info.name)), (number, Some(info.mode)));
        }
        assert_eq!(Addressing::named("ring"), None);
    }

    #[test]
    fn balancers_are_checked() {
        assert_eq!(Addressing::Flat.check_balancer("hedera"), Ok(()));
        assert_eq!(Addressing::Vl2.check_balancer("sdn-vlb"), Ok(()));
        let said = Addressing::PortLand.check_balancer("hedera").unwrap_err();
        assert!(said.ends_with("needs the balancer sdn-ecmp, not hedera"), "{said}");
    }
}
