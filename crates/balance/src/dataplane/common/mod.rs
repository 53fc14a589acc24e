//! Components shared by several mechanisms.

pub(crate) mod adaptive;
pub(crate) mod branches;
pub(crate) mod class_pairs;
pub mod congestion_from_leaf;
pub(crate) mod departures;
pub mod dre;
pub mod flowlets;
pub(crate) mod flows;
pub mod forest;
pub(crate) mod least;
pub(crate) mod member_sets;
#[cfg(test)]
pub(crate) mod one_flow;
pub(crate) mod path_order;
pub mod paths;
pub(crate) mod port_quality;
pub(crate) mod probe_paths;
pub(crate) mod rounds;
pub(crate) mod rules;
pub mod sensing;
pub(crate) mod sent_packets;
pub(crate) mod sent_paths;
pub(crate) mod sent_values;
pub mod vlans;
pub mod wrr;

pub(crate) use branches::{Branches, BranchesTo};
pub(crate) use class_pairs::{ClassPairs, distances};
pub(crate) use congestion_from_leaf::{CongestionFromLeaf, Utilisations, pack, unpack};
pub(crate) use departures::Departures;
pub(crate) use dre::{Dre, DreRule, power};
pub(crate) use flows::{FlowTable, SwitchFlows};
pub(crate) use least::{least, random_port, shortest_queue};
pub(crate) use member_sets::MemberSets;
pub(crate) use path_order::PathCycles;
pub(crate) use paths::{
    KnownLive, PathIndex, PathLinks, PathSets, crossing, distinct, empty_delays, is_live, links_to_forwarders, rank_of,
};
pub(crate) use rounds::Rounds;
pub(crate) use rules::{at_start, at_switch, by_packet};
pub(crate) use sensing::{ALPHA, T_DRE, sensing};
pub(crate) use sent_packets::SentPackets;
pub(crate) use sent_paths::{SentPaths, remembered};
pub(crate) use sent_values::SentValues;
pub(crate) use vlans::{Plan, Tagged, Vlans};
pub(crate) use wrr::{START, SmoothWrr, deck};
