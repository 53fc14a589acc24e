//! Small topologies for the tests of this crate.

use net::{Bandwidth, Time, Topology, TopologyBuilder};

/// Pods of racks of hosts under one core; host links 10 Gb/s, others 40 Gb/s.
pub(crate) fn pods(pod_count: u32, racks_per_pod: u32, hosts_per_rack: u32) -> Topology {
    let mut builder = TopologyBuilder::new("test");
    let core = builder.switch("core", 2, None);
    for pod in 0..pod_count {
        for rack in pod * racks_per_pod..(pod + 1) * racks_per_pod {
            let edge = builder.switch(format!("e{rack}"), 1, Some(pod));
            builder.connect(edge, core, Bandwidth::from_gbps(40), Time::from_us(1));
            for host in rack * hosts_per_rack..(rack + 1) * hosts_per_rack {
                let host = builder.host(format!("h{host}"), rack, Some(pod));
                builder.connect(host, edge, Bandwidth::from_gbps(10), Time::from_us(1));
            }
        }
    }
    builder.build().expect("a tree is connected")
}

/// Hosts under one switch, without pods.
pub(crate) fn single_rack(host_count: u32) -> Topology {
    let mut builder = TopologyBuilder::new("test");
    let switch = builder.switch("s", 1, None);
    for host in 0..host_count {
        let host = builder.host(format!("h{host}"), 0, None);
        builder.connect(host, switch, Bandwidth::from_gbps(10), Time::from_us(1));
    }
    builder.build().expect("a star is connected")
}
