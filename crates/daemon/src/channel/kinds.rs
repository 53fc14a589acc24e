//! Message types, as logs and metrics name them.

use openflow::{Message, wire};
use prometheus_client::metrics::counter::Counter;

pub(crate) const COUNT: usize = NAMES.len();

/// Names by type number (OpenFlow 1.3, section 7.1).
pub(crate) const NAMES: [&str; 30] = [
    "hello",
    "error",
    "echo_request",
    "echo_reply",
    "experimenter",
    "features_request",
    "features_reply",
    "get_config_request",
    "get_config_reply",
    "set_config",
    "packet_in",
    "flow_removed",
    "port_status",
    "packet_out",
    "flow_mod",
    "group_mod",
    "port_mod",
    "table_mod",
    "multipart_request",
    "multipart_reply",
    "barrier_request",
    "barrier_reply",
    "queue_get_config_request",
    "queue_get_config_reply",
    "role_request",
    "role_reply",
    "get_async_request",
    "get_async_reply",
    "set_async",
    "meter_mod",
];

pub(crate) fn of(message: &Message) -> usize {
    usize::from(wire::type_of(message))
}

/// Counts messages by type. Consecutive messages of one type are added in one step: a contended
/// counter costs as much as decoding a field.
#[derive(Debug)]
pub(crate) struct Count<'a> {
    counters: &'a [Counter; COUNT],
    kind: usize,
    pending: u64,
}

impl<'a> Count<'a> {
    pub(crate) fn new(counters: &'a [Counter; COUNT]) -> Count<'a> {
        Count { counters, kind: 0, pending: 0 }
    }
    pub(crate) fn note(&mut self, kind: usize) {
        if kind != self.kind {
            self.flush();
            self.kind = kind;
        }
        self.pending += 1;
    }
    fn flush(&mut self) {
        if self.pending > 0 {
            self.counters[self.kind].inc_by(std::mem::take(&mut self.pending));
        }
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use openflow::{Envelope, Xid};

    use super::*;

    /// The type is the second byte of a message.
    #[test]
    fn kinds_match_wire_types() {
        for (message, name) in [
            (Message::Hello { versions: 16 }, "hello"),
            (Message::EchoReply(Vec::new()), "echo_reply"),
            (Message::FeaturesRequest, "features_request"),
            (Message::BarrierReply, "barrier_reply"),
            (Message::GetAsyncRequest, "get_async_request"),
        ] {
            let kind = of(&message);
            let mut bytes = Vec::new();
            wire::encode(&Envelope { xid: Xid(1), message }, &mut bytes).expect("it fits");
            assert_eq!((usize::from(bytes[1]), NAMES[kind]), (kind, name));
        }
    }
}
