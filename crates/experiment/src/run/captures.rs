//! Files of captured packets, one for each run.

use sim::Outcome;

use crate::input::Variant;
use crate::results::pcapng::{self, Interface};
use crate::summary::RunSummary;

/// Returns the name of the file of a run, from everything that distinguishes runs.
pub(crate) fn name(run: &RunSummary) -> String {
    let load = run.load.map(|load| format!("-load{load}")).unwrap_or_default();
    let variant = if run.variant.is_empty() { String::new() } else { format!("-{}", run.variant) };
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_=.".contains(c) { c } else { '_' };
    let name: String = format!("{}{load}{variant}-seed{}", run.balancer, run.seed).chars().map(plain).collect();
    format!("captures/{name}.pcapng")
}

/// Returns the content of the file of a run.
pub(crate) fn file(variant: &Variant, outcome: &Outcome) -> Vec<u8> {
    let interface = |link: &net::LinkIx| Interface {
        name: variant.topology.link_name(*link),
        rate_bps: variant.topology.link(*link).rate.as_bps(),
    };
    let interfaces: Vec<Interface> = variant.config.probes.capture.links.iter().map(interface).collect();
    pcapng::file(&interfaces, &outcome.capture)
}
