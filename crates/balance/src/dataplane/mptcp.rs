//! Multipath TCP: hosts split a flow over subflows with different ports, which switches hash like
//! any flow. Congestion control coupled across them moves load off congested paths (mechanisms.md
//! P11; RFC 6356, RFC 8684; Raiciu et al., SIGCOMM 2011).
//!
//! A subflow takes the next segment of the flow's data when its window allows, the one with the
//! lowest round-trip time first. The receive window is shared by the subflows. Data that times out
//! on one subflow is sent on the others too. Over DCTCP each subflow reduces by its own share of
//! marks, while growth is coupled; the classic setting is NewReno.
//!
//! - Helps: long flows over many paths; other subflows resend the losses of one, so that silent
//!   failures end no flow.
//! - Hurts: in incast, where many subflows make bursts of many small windows; hosts must support
//!   it.

use crate::dataplane::{Connection, Coupling, Needs, Subflows, ecmp};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("mptcp", "MPTCP")
    .summary("Splits each flow over several subflows with coupled windows, each hashed separately onto a path.")
    .source("P11; RFC 6356; RFC 8684; SIGCOMM 2011; F2")
    .granularity(Granularity::Subflow)
    .senses("losses, marks and round-trip times of its subflows")
    .params(&[SUBFLOWS, COUPLING, OPEN_AFTER, JOIN])
    .example("mptcp:subflows=4,open_after=15000")
    .needs(|_, params| Needs { connection: connection(params), ..Needs::default() })
    .switch(|env, _| ecmp::by_default(env));

/// Maximum number of subflows of a connection.
pub(super) const SUBFLOWS_MAX: usize = 8;

/// Number of subflows of each connection, once all are open.
pub(super) const SUBFLOWS: Param = Param::count("subflows", 1..=SUBFLOWS_MAX as u64, "8")
    .doc("Number of subflows of a connection; more than the number of paths have no benefit.");

/// Coupling of the windows of the subflows.
pub(super) const COUPLING: Param = Param::choice("coupling", &["lia", "olia", "none"], "lia")
    .doc("Coupling of window growth: linked increases (RFC 6356), opportunistic linked increases, or not at all.");

/// Size from which a connection has several subflows.
pub(super) const OPEN_AFTER: Param = Param::count("open_after", 0..=1_000_000_000_000, "100000")
    .unit("bytes")
    .doc("Bytes on the first subflow before the others open; 0 opens all at once, as the papers do.");

/// Joining of the other subflows.
pub(super) const JOIN: Param = Param::choice("join", &["free", "handshake"], "free").doc(
    "Joining of the others: without cost, or after the first acknowledged data and each with a handshake, as in Linux.",
);

/// Returns the mapping of a flow to subflows by these parameters.
pub(super) fn connection(params: &Params) -> Connection {
    Connection::Subflows(Subflows {
        count: params.count(SUBFLOWS.name) as u8,
        coupling: match params.text(COUPLING.name) {
            "olia" => Coupling::Olia,
            "none" => Coupling::None,
            _ => Coupling::Lia,
        },
        open_after_bytes: params.count(OPEN_AFTER.name),
        join_after_data: params.text(JOIN.name) == "handshake",
    })
}

#[cfg(test)]
mod tests {
    use crate::dataplane::testing::{Bench, needs, packet};
    use crate::dataplane::{Connection, Coupling, Subflows};
    use crate::registry::Spec;

    #[test]
    fn parameters_reach_the_hosts() {
        let expected =
            Subflows { count: 8, coupling: Coupling::Lia, open_after_bytes: 100_000, join_after_data: false };
        assert_eq!(needs("mptcp").connection, Connection::Subflows(expected));
        let expected = Subflows { count: 2, coupling: Coupling::Olia, open_after_bytes: 0, join_after_data: false };
        assert_eq!(needs("mptcp:subflows=2,coupling=olia,open_after=0").connection, Connection::Subflows(expected));
        assert!(Spec::parse("mptcp:subflows=9").is_err());
    }

    #[test]
    fn subflows_take_the_paths_ecmp_would_give_them() {
        let (mut mptcp, mut ecmp) = (Bench::switch("mptcp", 6), Bench::switch("ecmp", 6));
        assert!((0..500).all(|flow| mptcp.choose(&packet(flow)) == ecmp.choose(&packet(flow))));
    }
}
