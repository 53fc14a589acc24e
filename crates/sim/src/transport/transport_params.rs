//! Parameters of senders, shared by all flows, from the configuration and the size of the network.

use crate::scenario::{Dcqcn, RdmaRecovery, TransportConfig, TransportKind};
use crate::transport::nscc::NsccParams;

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
    fn packet_timeout(&self) -> u64 {
        let queues = self.drain.saturating_mul(3);
        self.base_rtt.saturating_add(queues).max(3 * self.base_rtt).max(1)
    }
}

/// Method by which a sender detects losses: duplicate acknowledgements (NewReno), RFC 6675, RoCE,
/// IRN, or per-packet time-outs, trimming and far overtaking (`Spray`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recovery {
    Cumulative,
    Sack,
    GoBackN,
    Selective,
    Spray,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum CongestionParams {
    /// Reno's, with DCTCP's reduction if a gain is set.
    Reno,
    Cubic,
    Nscc(NsccParams),
    Rate(Dcqcn),
}

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
    /// DCTCP gain; `None` for the others.
    pub(crate) gain: Option<f64>,
    pub(crate) recovery: Recovery,
    pub(crate) congestion: CongestionParams,
    /// Minimum time-out while at most this number of segments is in flight; 0 for a single minimum.
    pub(crate) low_rto: u64,
    pub(crate) low_rto_segments: u32,
}

impl TransportParams {
    pub(crate) fn new(config: &TransportConfig, extent: &NetworkScale) -> TransportParams {
        let tcp = TransportParams {
            initial_window: f64::from(config.initial_window_packets),
            max_window: extent.window,
            min_rto: config.min_rto.as_ps(),
            initial_rto: config.min_rto.as_ps().max(3 * extent.base_rtt),
            dup_ack_threshold: config.dup_ack_threshold,
            limited_transmit: if config.limited_transmit { 2 } else { 0 },
            max_timeouts: config.max_timeouts,
            gain: if let TransportKind::Dctcp { gain } = config.kind { Some(gain) } else { None },
            recovery: if config.sack { Recovery::Sack } else { Recovery::Cumulative },
            congestion: CongestionParams::Reno,
            low_rto: 0,
            low_rto_segments: 0,
        };
        match config.kind {
            TransportKind::Udp(_) => TransportParams { recovery: Recovery::Cumulative, ..tcp },
            TransportKind::NewReno | TransportKind::Dctcp { .. } => tcp,
            TransportKind::Cubic => TransportParams { congestion: CongestionParams::Cubic, ..tcp },
            TransportKind::Spray(spray) => {
                let timeout = spray.packet_timeout.map_or(extent.packet_timeout(), net::Time::as_ps);
                let window = extent.product.min(f64::from(extent.window));
                let congestion = NsccParams {
                    base_rtt: extent.base_rtt,
                    target: spray.target_delay.map_or(extent.base_rtt * 3 / 4, net::Time::as_ps).max(1),
                    product: extent.product,
                    max_window: (1.5 * extent.product).min(f64::from(extent.window)),
                    is_marking: extent.is_marking,
                };
                let overtaken = (extent.product as u32).saturating_add(extent.queue_packets);
                TransportParams {
                    initial_window: window,
                    dup_ack_threshold: spray.reorder_packets.unwrap_or(overtaken),
                    recovery: Recovery::Spray,
                    congestion: CongestionParams::Nscc(congestion),
                    ..tcp.with_timeout(timeout)
                }
            }
            TransportKind::Rdma(rdma) => {
                let timeout = rdma.packet_timeout.map_or(extent.packet_timeout(), net::Time::as_ps);
                let congestion = CongestionParams::Rate(rdma.dcqcn);
                let params = TransportParams { initial_window: f64::INFINITY, congestion, ..tcp.with_timeout(timeout) };
                match rdma.recovery {
                    RdmaRecovery::GoBackN => TransportParams { recovery: Recovery::GoBackN, ..params },
                    RdmaRecovery::Selective => TransportParams {
                        recovery: Recovery::Selective,
                        dup_ack_threshold: 1,
                        low_rto: (timeout / 3).max(2 * extent.base_rtt).min(timeout),
                        low_rto_segments: 3,
                        ..params
                    },
                }
            }
        }
    }

    fn with_timeout(self, timeout: u64) -> TransportParams {
        TransportParams { min_rto: timeout, initial_rto: timeout, ..self }
    }

    pub(crate) fn has_extension(&self) -> bool {
        self.recovery != Recovery::Cumulative || !matches!(self.congestion, CongestionParams::Reno)
    }

    pub(crate) fn is_selective(&self) -> bool {
        !matches!(self.recovery, Recovery::Cumulative | Recovery::GoBackN)
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
