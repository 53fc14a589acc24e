//! RepSYN: only the handshake of a short flow is replicated; data uses the connection that opens
//! first (mechanisms.md P19; Liu et al., RepNet).
//!
//! It needs a few more packets, while RepFlow doubles the data. Replicated flows begin with a
//! handshake regardless of the transport's setting, since handshakes are what is replicated;
//! compare with other balancers with handshakes for all flows.
//!
//! - Helps: short flows, at the cost of a few packets: the handshake finds the quicker path.
//! - Hurts: where congestion comes after the handshake; it makes every flow begin with one.

use crate::dataplane::{Race, ecmp, repflow};
use crate::entry::Entry;

pub(crate) static ENTRY: Entry = Entry::declare("repsyn", "RepSYN")
    .summary("Opens two connections for a short flow and sends it over the one whose handshake completes first.")
    .source("P19; RepNet")
    .senses("which handshake completes first")
    .params(repflow::PARAMS)
    .needs(|_, params| repflow::needs(params, Race::Handshake))
    .switch(|env, _| ecmp::by_default(env));
