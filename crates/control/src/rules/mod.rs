//! Rules and groups of each switch: desired and installed state, and the messages that reconcile
//! them.

pub(crate) mod installers;
pub(crate) mod order;
pub(crate) mod store;
pub(crate) mod unconfirmed;
