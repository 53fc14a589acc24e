//! Senders: congestion control, loss recovery, and their parameters.

pub(crate) mod coupling;
pub(crate) mod cubic;
pub(crate) mod dcqcn;
pub(crate) mod nscc;
pub(crate) mod sack;
pub(crate) mod scoreboard;
pub(crate) mod tcp;
pub(crate) mod transport_params;
