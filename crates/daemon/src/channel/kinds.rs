//! Message types, as logs and metrics name them.

use openflow::Message;
use prometheus_client::metrics::counter::Counter;

/// Number of message types in OpenFlow 1.3.
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

/// Returns the type number of a message.
pub(crate) fn of(message: &Message) -> usize {
    match message {
        Message::Hello { .. } => 0,
        Message::Error { .. } => 1,
        Message::EchoRequest(_) => 2,
        Message::EchoReply(_) => 3,
        Message::Experimenter { .. } => 4,
        Message::FeaturesRequest => 5,
        Message::FeaturesReply(_) => 6,
        Message::GetConfigRequest => 7,
        Message::GetConfigReply(_) => 8,
        Message::SetConfig(_) => 9,
        Message::PacketIn(_) => 10,
        Message::FlowRemoved(_) => 11,
        Message::PortStatus { .. } => 12,
        Message::PacketOut(_) => 13,
        Message::FlowMod(_) => 14,
        Message::GroupMod(_) => 15,
        Message::PortMod(_) => 16,
        Message::TableMod { .. } => 17,
        Message::MultipartRequest(_) => 18,
        Message::MultipartReply { .. } => 19,
        Message::BarrierRequest => 20,
        Message::BarrierReply => 21,
        Message::RoleRequest(_) => 24,
        Message::RoleReply(_) => 25,
        Message::GetAsyncRequest => 26,
        Message::GetAsyncReply(_) => 27,
        Message::SetAsync(_) => 28,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The type is the second byte of a message.
    #[test]
    fn kinds_match_wire_types() {
        let messages = [
            Message::Hello { versions: 16 },
            Message::EchoReply(Vec::new()),
            Message::FeaturesRequest,
            Message::BarrierReply,
            Message::GetAsyncRequest,
        ];
        for message in messages {
            let kind = of(&message);
            let mut bytes = Vec::new();
            openflow::wire::encode(&openflow::Envelope { xid: openflow::Xid(1), message }, &mut bytes)
                .expect("it fits");
            assert_eq!(usize::from(bytes[1]), kind, "{}", NAMES[kind]);
        }
    }
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
