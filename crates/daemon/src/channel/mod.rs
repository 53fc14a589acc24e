//! Channels to switches: sockets on one side, batches of messages on the other.
//!
//! One task per connection reads and writes. It decodes received bytes into a batch, offers the
//! batch to the engine and reads on when the engine has taken it. A switch that sends too fast
//! waits in its socket, and has one batch in a round as every other switch. Batches shrink while
//! they are full and rounds take long ([`Hub::share`]). A switch above its message rate is not read
//! from until its token bucket refills ([`crate::token_bucket`]). Output is encoded into the buffer of the
//! connection and leaves in one write: the engine writes if the socket accepts it immediately,
//! otherwise the task does.
//!
//! A connection without a message occupies only a socket and a task: the controller learns of it
//! with the first message.

mod connection;
mod hub;
pub(crate) mod kinds;
mod listener;
mod peer;
mod shared_writer;

pub(crate) use hub::{Hub, Round};
pub(crate) use listener::listen;
pub(crate) use peer::{Closing, Peer};
