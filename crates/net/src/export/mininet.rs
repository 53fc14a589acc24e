//! A Mininet script: the topology as a Python class for `mn --custom`.

use std::fmt::Write as _;

use crate::topology::{NodeKind, Topology};

/// Returns a Python module with a class `AnabranchTopo(Topo)`, registered in `topos` as
/// `anabranch`. Run it with `mn --custom FILE --topo anabranch --link tc`.
///
/// Names are `h1`, `h2`, ... and `s1`, `s2`, ... in the order of the topology, because Mininet
/// derives interface names (at most 15 characters) and datapath ids from them. Comments give the
/// names of the topology. Rates are in Mbit/s, one per end of a link. Ports are numbered as here,
/// from 1. Hosts that forward are marked, because Mininet needs routing set up on them.
pub fn mininet(topology: &Topology) -> String {
    let names = short_names(topology);
    let mut body = String::new();
    for (node, short) in topology.nodes().iter().zip(&names) {
        let (call, note) = match node.kind {
            NodeKind::Switch => ("addSwitch", ""),
            NodeKind::Host if node.forwards => ("addHost", ", forwards for others"),
            NodeKind::Host => ("addHost", ""),
        };
        let name = one_line(&node.name);
        let _ = writeln!(body, "        self.{call}({short:?})  # {name}{note}");
    }
    let mut next_port = vec![0u32; topology.nodes().len()];
    for pair in topology.links().chunks(2) {
        let link = &pair[0];
        let mut port = |node: usize| {
            next_port[node] += 1;
            next_port[node]
        };
        let (port1, port2) = (port(link.from.ix()), port(link.to.ix()));
        let (a, b) = (&names[link.from.ix()], &names[link.to.ix()]);
        let [bw1, bw2] = [&pair[0], &pair[1]].map(|link| link.rate.as_bps_f64() / 1e6);
        let delay = link.delay.as_us_f64();
        let link = format!("link({a:?}, {b:?}, {port1}, {port2}, bw1={bw1}, bw2={bw2}, delay=\"{delay}us\")");
        let _ = writeln!(body, "        {link}");
    }
    let title = one_line(topology.name()).replace(['"', '\\'], "'");
    format!(
        "\"\"\"Topology {title}, exported by Anabranch.\"\"\"\n\n\
         from mininet.topo import Topo\n\n\n\
         class AnabranchTopo(Topo):\n    \"\"\"{title}\"\"\"\n\n    def build(self):\n\
         \x20       def link(a, b, port1, port2, bw1, bw2, delay):\n\
         \x20           self.addLink(\n                a, b, port1=port1, port2=port2,\n\
         \x20               params1={{\"bw\": bw1, \"delay\": delay}},\n\
         \x20               params2={{\"bw\": bw2, \"delay\": delay}},\n            )\n\n\
         {body}\n\ntopos = {{\"anabranch\": AnabranchTopo}}\n"
    )
}

fn short_names(topology: &Topology) -> Vec<String> {
    let (mut hosts, mut switches) = (0, 0);
    let short = |node: &crate::Node| {
        let (letter, count) = match node.kind {
            NodeKind::Host => ('h', &mut hosts),
            NodeKind::Switch => ('s', &mut switches),
        };
        *count += 1;
        format!("{letter}{count}")
    };
    topology.nodes().iter().map(short).collect()
}

/// Replaces all characters that would end a comment or a line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == '\u{2028}' || c == '\u{2029}' { ' ' } else { c }).collect()
}
