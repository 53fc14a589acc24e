//! Sessions with switches and what switches report: ports, links, counters and packets.

pub(crate) mod counters;
pub(crate) mod damping;
pub(crate) mod discovery;
pub(crate) mod events;
pub(crate) mod ports;
pub(crate) mod session;
