//! Memory of learned hosts.

#![allow(unsafe_code, reason = "a counting allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use net::Time;
use openflow::{DatapathId, MacAddr, PortNo};

use super::network::Network;
use crate::{Config, KnownHost};

struct Counting;

thread_local! {
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.set(LIVE_BYTES.get().wrapping_add(layout.size()));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.set(LIVE_BYTES.get().wrapping_sub(layout.size()));
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const LEAVES: u32 = 32;
const SPINES: u32 = 8;

/// Adds this number of hosts to every leaf, each at its own port.
fn add_hosts(network: &mut Network, config: &Config, ports: std::ops::Range<u32>) {
    for leaf in 0..LEAVES {
        for port in ports.clone() {
            let [_, _, high, low] = port.to_be_bytes();
            let known = KnownHost {
                mac: MacAddr([2, 0, 0, leaf as u8, high, low]),
                ipv4: [10, leaf as u8, high, low].into(),
                datapath: DatapathId(u64::from(leaf)),
                port: PortNo(port),
            };
            network.add_host(config, known, Time::ZERO);
        }
    }
    network.refresh(|_, _| Time::ZERO);
}

/// With topology, routes and the index of addresses, on a leaf-spine fabric of 40 switches. The rules
/// towards the host are not included.
#[test]
fn learned_host_takes_less_than_4_kib() {
    let config = Config::default();
    let mut network = Network::new(&config);
    for leaf in 0..LEAVES {
        for spine in 0..SPINES {
            let ends = [(leaf, spine + 1), (LEAVES + spine, leaf + 1)];
            let [a, b] = ends.map(|(switch, port)| (DatapathId(u64::from(switch)), PortNo(port)));
            network.add_link(&config, a, b);
            network.add_link(&config, b, a);
        }
    }
    add_hosts(&mut network, &config, 100..110);
    let (before, hosts) = (LIVE_BYTES.get(), network.host_counts().0);
    add_hosts(&mut network, &config, 110..300);
    let per_host = (LIVE_BYTES.get() - before) / (network.host_counts().0 - hosts);
    assert!((100..4096).contains(&per_host), "{per_host} bytes for a host");
}
