//! Hosts: attachment, discovery by ARP, and limits.

pub(crate) mod arp;
pub(crate) mod candidates;
pub(crate) mod limits;
pub(crate) mod recovery;
