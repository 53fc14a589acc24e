//! The fabric manager of PortLand: pseudo-MAC addresses of hosts.
//!
//! Its state is soft. The translation rules of edge switches contain all of it, so a new controller
//! instance recovers it from the switches.

use std::collections::{BTreeMap, BTreeSet};

use core::net::Ipv4Addr;
use openflow::{DatapathId, MacAddr};

use super::location::Location;
use super::pmac::{PORT_MAX, Pmac};
use crate::{KnownHost, SwitchPort};

#[derive(Clone, Debug, Default)]
pub(crate) struct FabricManager {
    /// Numbers of the hosts at each port.
    numbers: BTreeMap<SwitchPort, Numbers>,
    /// Pseudo-MAC address of each host with its attachment.
    pub(crate) hosts: BTreeMap<Ipv4Addr, (KnownHost, Pmac)>,
}

/// Number of hosts at a port above which those that have left lose their number.
const REMEMBERED_MAX: usize = 1024;

#[derive(Clone, Debug, Default)]
struct Numbers {
    by_host: BTreeMap<MacAddr, u16>,
    /// Highest number ever given. A number is not used again while others are free: senders may still
    /// have the address of a host that has left.
    last: u16,
}

impl Numbers {
    fn number_of(&mut self, host: MacAddr) -> Option<u16> {
        if let Some(number) = self.by_host.get(&host) {
            return Some(*number);
        }
        let after = (self.last.saturating_add(1)..=u16::MAX).chain(1..=self.last);
        let number = after.into_iter().find(|number| !self.by_host.values().any(|other| other == number))?;
        self.last = number;
        self.by_host.insert(host, number);
        Some(number)
    }
}

impl FabricManager {
    /// Adds the number that a rule of a previous controller instance shows.
    pub(crate) fn recover(&mut self, at: SwitchPort, mac: MacAddr, vmid: u16) {
        let numbers = self.numbers.entry(at).or_default();
        if !numbers.by_host.values().any(|number| *number == vmid) {
            numbers.by_host.entry(mac).or_insert(vmid);
            numbers.last = numbers.last.max(vmid);
        }
    }

    /// Replaces the hosts. Returns those that cannot get an address, because the number of their port
    /// is too high.
    pub(crate) fn set_hosts(
        &mut self,
        hosts: impl Iterator<Item = KnownHost>,
        locations: &BTreeMap<DatapathId, Location>,
    ) -> Vec<KnownHost> {
        self.hosts.clear();
        let mut without = Vec::new();
        for host in hosts {
            let Some(Location::Edge { pod, position }) = locations.get(&host.datapath).copied() else { continue };
            let port = u8::try_from(host.port.0).ok().filter(|port| *port > 0 && host.port.0 <= PORT_MAX);
            let vmid = self.numbers.entry(host.end()).or_default().number_of(host.mac);
            match port.zip(vmid) {
                Some((port, vmid)) => drop(self.hosts.insert(host.ipv4, (host, Pmac { pod, position, port, vmid }))),
                None => without.push(host),
            }
        }
        for (at, numbers) in self.numbers.iter_mut().filter(|(_, numbers)| numbers.by_host.len() > REMEMBERED_MAX) {
            let here = self.hosts.values().filter(|(host, _)| host.end() == *at).map(|(host, _)| host.mac);
            let here: BTreeSet<MacAddr> = here.collect();
            numbers.by_host.retain(|mac, _| here.contains(mac));
        }
        without
    }

    #[cfg(test)]
    fn pmac_of(&self, address: Ipv4Addr) -> Option<Pmac> {
        self.hosts.get(&address).map(|(_, pmac)| *pmac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addressing::{cabling::Cabling, location::Locator};
    use openflow::PortNo;

    fn host(number: u8, switch: u64, port: u32) -> KnownHost {
        let ipv4 = Ipv4Addr::new(10, 0, 0, number);
        KnownHost { mac: MacAddr([2, 0, 0, 0, 0, number]), ipv4, datapath: DatapathId(switch), port: PortNo(port) }
    }
    fn edges() -> BTreeMap<DatapathId, Location> {
        [1, 2].map(|switch| (DatapathId(switch), Location::Edge { pod: 0, position: switch as u8 })).into()
    }

    #[test]
    fn every_host_of_a_fat_tree_has_another_address() {
        let topology = net::spec::parse("fat-tree:k=8").unwrap();
        let mut locator = Locator::default();
        locator.locate(&Cabling::of(&topology)).unwrap();
        let mut manager = FabricManager::default();
        let hosts = KnownHost::all_of(&topology);
        assert!(manager.set_hosts(hosts.iter().copied(), &locator.locations).is_empty());
        let addresses: BTreeSet<MacAddr> = manager.hosts.values().map(|(_, pmac)| pmac.encode()).collect();
        assert_eq!((hosts.len(), addresses.len()), (128, 128));
    }

    #[test]
    fn numbers_at_a_port_stay_and_are_not_used_again() {
        let mut manager = FabricManager::default();
        let vmids = |manager: &FabricManager| manager.hosts.values().map(|(_, pmac)| pmac.vmid).collect::<Vec<_>>();
        manager.set_hosts([host(1, 1, 3), host(2, 1, 3)].into_iter(), &edges());
        assert_eq!(vmids(&manager), [1, 2]);
        manager.set_hosts([host(2, 1, 3)].into_iter(), &edges());
        manager.set_hosts([host(2, 1, 3), host(3, 1, 3)].into_iter(), &edges());
        assert_eq!(vmids(&manager), [2, 3], "senders may still have the address of the first host");
        manager.set_hosts([host(2, 2, 1)].into_iter(), &edges());
        let moved = Pmac { pod: 0, position: 2, port: 1, vmid: 1 };
        assert_eq!(manager.pmac_of(Ipv4Addr::new(10, 0, 0, 2)), Some(moved));
    }

    #[test]
    fn hosts_at_high_ports_and_unlocated_switches_get_none() {
        let mut manager = FabricManager::default();
        let (high, elsewhere) = (host(1, 1, 256), host(2, 3, 1));
        assert_eq!(manager.set_hosts([high, elsewhere, host(3, 1, 255)].into_iter(), &edges()), [high]);
        assert_eq!(manager.hosts.len(), 1);
    }
}
