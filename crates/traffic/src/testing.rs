//! Small topologies for the tests of this crate.

use net::{Bandwidth, Time, Topology, TopologyBuilder};

const HOST_LINK: (Bandwidth, Time) = (Bandwidth::from_gbps(10), Time::from_us(1));

/// Pods of racks of hosts under one core; host links 10 Gb/s, others 40 Gb/s.
pub(crate) fn pods(pod_count: u32, racks_per_pod: u32, hosts_per_rack: u32) -> Topology {
    let mut builder = TopologyBuilder::new("test");
    let core = builder.switch("core", 2, None);
    for pod in 0..pod_count {
        for rack in pod * racks_per_pod..(pod + 1) * racks_per_pod {
            let edge = builder.switch(format!("e{rack}"), 1, Some(pod));
            builder.connect(edge, core, Bandwidth::from_gbps(40), Time::from_us(1));
            builder.rack(edge, rack, Some(pod), hosts_per_rack, HOST_LINK);
        }
    }
    builder.build().expect("a tree is connected")
}

/// Hosts under one switch, without pods.
pub(crate) fn single_rack(host_count: u32) -> Topology {
    let mut builder = TopologyBuilder::new("test");
    let switch = builder.switch("s", 1, None);
    builder.rack(switch, 0, None, host_count, HOST_LINK);
    builder.build().expect("a star is connected")
}
