//! RepFlow: a short flow is sent twice, over connections whose ports hash differently; the first to
//! complete counts (mechanisms.md P19; Xu and Li, INFOCOM 2014).
//!
//! When all data of one copy is acknowledged, its sender resets the others; their packets in flight
//! drain. Long flows are sent once, by ECMP. The size of a flow must be known at its start.
//!
//! - Helps: short flows under ECMP: the copy that meets no long flow wins.
//! - Hurts: where short flows are much of the load, since their bytes are sent twice; sizes must be
//!   known at the start.

use crate::dataplane::{Connection, Copies, Needs, Race, ecmp};
use crate::entry::Entry;
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("repflow", "RepFlow")
    .summary("Sends short flows over two connections at once and takes the one that completes first.")
    .source("P19; INFOCOM 2014")
    .params(PARAMS)
    .needs(|_, params| needs(params, Race::Data))
    .switch(|env, _| ecmp::by_default(env));

/// Parameters of RepFlow and RepSYN.
pub(super) const PARAMS: &[Param] = &[
    Param::count("max_size", 1..=1_000_000_000_000, "100000").unit("bytes").doc("Largest flow that is replicated."),
    Param::count("copies", 2..=8, "2").doc("Number of connections of a replicated flow."),
    Param::choice("force_distinct", &["no", "yes"], "no").doc(
        "Whether hosts choose ports until the copies leave the first switch on different links, if there are \
         enough of them.",
    ),
];

pub(super) fn needs(params: &Params, race: Race) -> Needs {
    Needs {
        connection: Connection::Copies(Copies {
            count: params.count("copies") as u8,
            max_bytes: params.count("max_size"),
            race,
            force_distinct: params.text("force_distinct") == "yes",
        }),
        ..Needs::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::dataplane::testing::{Bench, needs, packet};
    use crate::dataplane::{Connection, Copies, Race};

    #[test]
    fn parameters_reach_the_hosts() {
        for (name, race) in [("repflow", Race::Data), ("repsyn", Race::Handshake)] {
            let expected = Copies { count: 2, max_bytes: 100_000, race, force_distinct: false };
            assert_eq!(needs(name).connection, Connection::Copies(expected));
            let expected = Copies { count: 3, max_bytes: 50_000, race, force_distinct: true };
            let given = format!("{name}:max_size=50000,copies=3,force_distinct=yes");
            assert_eq!(needs(&given).connection, Connection::Copies(expected));
            let (mut own, mut ecmp) = (Bench::switch(name, 6), Bench::switch("ecmp", 6));
            assert!((0..500).all(|flow| own.choose(&packet(flow)) == ecmp.choose(&packet(flow))));
        }
    }
}
