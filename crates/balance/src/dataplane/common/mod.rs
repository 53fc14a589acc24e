//! Components shared by several mechanisms.

pub(crate) mod adaptive;
pub mod congestion_from_leaf;
pub mod dre;
pub mod flowlets;
pub(crate) mod flows;
pub mod forest;
pub(crate) mod least;
pub(crate) mod member_sets;
pub(crate) mod path_order;
pub mod paths;
pub(crate) mod port_quality;
pub(crate) mod rounds;
pub(crate) mod rules;
pub mod sensing;
pub mod vlans;
pub mod wrr;

pub(crate) use congestion_from_leaf::{CongestionFromLeaf, Utilisations, pack, unpack};
pub(crate) use dre::{Dre, DreRule, power};
pub(crate) use flows::FlowTable;
pub(crate) use least::least;
pub(crate) use member_sets::MemberSets;
pub(crate) use path_order::PathCycles;
pub(crate) use paths::{
    KnownLive, PathIndex, PathLinks, PathSets, crossing, distinct, is_live, links_to_forwarders, rank_of,
};
pub(crate) use rounds::Rounds;
pub(crate) use rules::{at_start, at_switch, by_packet};
pub(crate) use sensing::{ALPHA, T_DRE, sensing};
pub(crate) use vlans::{Plan, Tagged, Vlans};
pub(crate) use wrr::{START, SmoothWrr, deck};
