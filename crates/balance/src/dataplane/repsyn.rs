//! RepSYN: only the handshake of a short flow is replicated; data goes over the connection that opens first
//! (mechanisms.md P19; Liu et al., RepNet).
//!
//! It costs a few packets where RepFlow doubles the data. Replicated flows begin with a handshake whatever the transport's
//! setting, as that is what they race; compare with other balancers where all flows have one.
//!
//! - Helps: short flows, at the cost of a few packets: the handshake finds the quicker path.
//! - Hurts: where congestion comes after the handshake; it makes every flow begin with one.

use crate::dataplane::{Race, ecmp, repflow};
use crate::registry::{Build, Entry, Granularity, Reorders, World};

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "repsyn",
    title: "RepSYN",
    summary: "Opens two connections for a short flow and sends it over the one whose handshake is done first.",
    source: "P19; RepNet",
    granularity: Granularity::Flow,
    reorders: Reorders::Never,
    senses: "which handshake is done first",
    worlds: &[World::Simulator],
    params: repflow::PARAMS,
    example: "repsyn",
    needs: |_, params| repflow::needs(params, Race::Handshake),
    build: Build::Switch(|env, _| ecmp::by_default(env)),
};
