//! Parameters of senders, shared by all flows, from the configuration and the size of the network.

use crate::scenario::TransportConfig;

#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkScale {
    /// Longest round-trip time in the empty network, picoseconds.
    pub(crate) base_rtt: u64,
    /// Receive window of TCP, packets.
    pub(crate) window: u32,
    /// Bandwidth-delay product of the fastest host link, packets.
    pub(crate) product: f64,
    /// A switch queue: packets, and the drain time at the slowest switch link, picoseconds.
    pub(crate) queue_packets: u32,
    pub(crate) drain: u64,
    pub(crate) is_marking: bool,
}

impl NetworkScale {
    /// Returns the time-out of single packets: the base round-trip time and three full queues.
    pub(crate) fn packet_timeout(&self) -> u64 {
        let queues = self.drain.saturating_mul(3);
        self.base_rtt.saturating_add(queues).max(3 * self.base_rtt).max(1)
    }
}

/// Parameters that all transports have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransportParams {
    pub(crate) initial_window: f64,
    pub(crate) max_window: u32,
    pub(crate) min_rto: u64,
    pub(crate) initial_rto: u64,
    pub(crate) dup_ack_threshold: u32,
    /// New segments that duplicate ACKs may release: 2, or 0 for none.
    pub(crate) limited_transmit: u32,
    pub(crate) max_timeouts: u32,
    /// Minimum time-out while at most this number of segments is in flight; 0 for a single minimum.
    pub(crate) low_rto: u64,
    pub(crate) low_rto_segments: u32,
}

impl TransportParams {
    pub(crate) fn new(config: &TransportConfig, scale: &NetworkScale) -> TransportParams {
        let tcp = TransportParams {
            initial_window: f64::from(config.initial_window_packets),
            max_window: scale.window,
            min_rto: config.min_rto.as_ps(),
            initial_rto: config.min_rto.as_ps().max(3 * scale.base_rtt),
            dup_ack_threshold: config.dup_ack_threshold,
            limited_transmit: if config.limited_transmit { 2 } else { 0 },
            max_timeouts: config.max_timeouts,
            low_rto: 0,
            low_rto_segments: 0,
        };
        config.kind.params(tcp, scale)
    }

    pub(crate) fn with_timeout(self, timeout: u64) -> TransportParams {
        TransportParams { min_rto: timeout, initial_rto: timeout, ..self }
    }
}

#[cfg(test)]
impl NetworkScale {
    /// Returns 100 us, a window of 1000 packets, a product and a queue of 100.
    pub(crate) fn of_tests() -> NetworkScale {
        let (base_rtt, drain) = (100_000_000, 120_000_000);
        NetworkScale { base_rtt, window: 1000, product: 100.0, queue_packets: 100, drain, is_marking: true }
    }
}
