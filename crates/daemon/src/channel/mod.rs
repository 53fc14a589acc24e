//! Channels to switches: sockets on one side, batches of messages on the other.
//!
//! One task per connection reads and writes. What it has read it decodes into a batch, hands the batch to the engine and
//! reads on when the engine has taken it: a switch that sends too fast waits in its socket, and has one batch in every
//! round like everybody else. Batches get smaller while somebody fills them and rounds take long ([`Hub::share`]), and
//! whoever sends more messages than a second's allowance is not read from meanwhile ([`allowance`]). What the engine wants sent is
//! encoded into the connection's buffer and leaves in one write: by the engine itself where there is room at once, else by the task.
//!
//! A connection that has said nothing costs a socket and a task: the controller hears of it with its first message.

mod allowance;
mod connection;
mod hub;
pub(crate) mod kinds;
mod listener;
mod outlet;
mod peer;

pub(crate) use hub::{Hub, Round};
pub(crate) use listener::listen;
pub(crate) use peer::{Closing, Peer};
