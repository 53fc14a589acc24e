//! What passes between a controller and the world around it, wherever that is: sockets or a simulator.

use crate::message::Envelope;

/// One connection of a switch to the controller; numbered by whoever accepts it, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u32);

/// What happens to a controller.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and a box would cost each an allocation")]
pub enum ToController {
    /// A switch opened a connection.
    Connected(ConnectionId),
    /// A message arrived.
    Message(ConnectionId, Envelope),
    /// The connection is gone; nothing sent on it that was not acknowledged may be taken as done.
    Disconnected(ConnectionId),
}

/// What a controller wants done.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and a box would cost each an allocation")]
pub enum FromController {
    /// Send a message.
    Message(ConnectionId, Envelope),
    /// Close the connection: the peer broke the protocol, or does not answer.
    Close(ConnectionId),
}
