//! Source-routed ECMP: one hash at the first switch picks the whole path, as htsim and the ns-3
//! reference program of this repository do. `ecmp` draws a next hop at every tier; this draws one
//! of all paths.
//!
//! - Helps: to compare with simulators that route at the source: the same hash gives the same
//!   paths.
//! - Hurts: like ECMP: large flows collide and stay.

use crate::dataplane::{Cx, EdgeBalancer, PacketView, Paths};
use crate::entry::{Entry, FlowLevel};
use crate::hash::mix;
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("ecmp-path", "ECMP by path")
    .summary("Hashes each flow once onto one of all equal-cost paths.")
    .flow_level(FlowLevel::Path)
    .source("P02 at path granularity; csg-htsim's per-flow path choice")
    .params(&[Param::choice("key", &["five-tuple", "hosts"], "five-tuple").doc(
        "Hashed fields; `hosts` is mix(((src << 20) | dst) + 0x9e3779b97f4a7c15), the rule shared with the \
         reference programs.",
    )])
    .example("ecmp-path:key=hosts")
    .edge(|_, params| Box::new(EcmpPath { hosts_only: params.text("key") == "hosts" }));

struct EcmpPath {
    hosts_only: bool,
}

impl EdgeBalancer for EcmpPath {
    fn choose_path(&mut self, _: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let hash = if self.hosts_only {
            let pair = u64::from(packet.src.0) << 20 | u64::from(packet.dst.0);
            mix(pair.wrapping_add(0x9e37_79b9_7f4a_7c15))
        } else {
            mix(packet.hash)
        };
        paths.live[(hash % paths.live.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::dataplane::testing::{Bench, packet};

    #[test]
    fn flows_of_host_pair_share_path_only_with_key_hosts() {
        let mut hosts = Bench::edge("ecmp-path:key=hosts", 16);
        let mut tuple = Bench::edge("ecmp-path", 16);
        let distinct = |bench: &mut Bench| {
            (0..200).map(|flow| bench.choose_path(&packet(flow), None)).collect::<BTreeSet<_>>().len()
        };
        assert_eq!(distinct(&mut hosts), 1);
        assert_eq!(distinct(&mut tuple), 16);
    }
}
