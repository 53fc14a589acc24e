//! The interface between a controller and its driver: sockets or a simulator.

use crate::message::Envelope;

/// A connection of a switch to the controller. The acceptor numbers connections and never reuses a
/// number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct ConnectionId(pub u32);

/// An input of a controller.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and a box would cost each an allocation")]
pub enum ToController {
    /// A switch connected.
    Connected(ConnectionId),
    /// A message arrived.
    Message(ConnectionId, Envelope),
    /// The connection is closed; messages without an acknowledgement may be lost.
    Disconnected(ConnectionId),
}

/// An output of a controller.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and a box would cost each an allocation")]
pub enum FromController {
    /// Send a message.
    Message(ConnectionId, Envelope),
    /// Close the connection: the peer broke the protocol or does not respond.
    Close(ConnectionId),
}
