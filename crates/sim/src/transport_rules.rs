//! Parameters of senders, resolved from the configuration and the size of the network; all flows of a run share them.

use crate::dcqcn::DcqcnRules;
use crate::nscc::NsccRules;
use crate::scenario::{RdmaRecovery, TransportConfig, TransportKind};

/// What the parameters of transports scale with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Longest round trip in the empty network, picoseconds.
    pub(crate) base_rtt: u64,
    /// Receive window of TCP, packets.
    pub(crate) window: u32,
    /// Bandwidth-delay product of the fastest host link, packets.
    pub(crate) product: f64,
    /// A switch queue: packets, and the time the slowest switch link takes to drain it, picoseconds.
    pub(crate) queue_packets: u32,
    pub(crate) drain: u64,
    /// Whether switches mark.
    pub(crate) is_marking: bool,
}

impl Extent {
    /// The default time-out of transports that time packets, in picoseconds.
    fn packet_timeout(&self) -> u64 {
        let queues = self.drain.saturating_mul(3);
        self.base_rtt.saturating_add(queues).max(3 * self.base_rtt).max(1)
    }
}

/// How a sender finds out what to send again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recovery {
    /// Duplicate acknowledgements (NewReno).
    Cumulative,
    /// RFC 6675.
    Sack,
    /// RoCE.
    GoBackN,
    /// IRN.
    Selective,
    /// Per-packet time-outs, trimming, far overtaking.
    Spray,
}

/// Law of window or rate, with its parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LawRules {
    /// Reno's, with DCTCP's reduction where a gain is set.
    Reno,
    Cubic,
    Nscc(NsccRules),
    Rate(DcqcnRules),
}

/// Parameters shared by all flows of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpRules {
    pub(crate) initial_window: f64,
    pub(crate) max_window: u32,
    pub(crate) min_rto: u64,
    pub(crate) initial_rto: u64,
    pub(crate) dup_ack_threshold: u32,
    /// New segments that duplicate ACKs may let out: 2, or 0 for none.
    pub(crate) limited_transmit: u32,
    pub(crate) max_timeouts: u32,
    /// DCTCP gain; `None` for the others.
    pub(crate) gain: Option<f64>,
    pub(crate) recovery: Recovery,
    pub(crate) law: LawRules,
    /// The least time-out while no more than this many segments are in flight; 0 to have only one.
    pub(crate) low_rto: u64,
    pub(crate) low_rto_segments: u32,
}

impl TcpRules {
    pub(crate) fn new(config: &TransportConfig, extent: &Extent) -> TcpRules {
        let tcp = TcpRules {
            initial_window: f64::from(config.initial_window_packets),
            max_window: extent.window,
            min_rto: config.min_rto.as_ps(),
            initial_rto: config.min_rto.as_ps().max(3 * extent.base_rtt),
            dup_ack_threshold: config.dup_ack_threshold,
            limited_transmit: if config.limited_transmit { 2 } else { 0 },
            max_timeouts: config.max_timeouts,
            gain: match config.kind {
                TransportKind::Dctcp { gain } => Some(gain),
                _ => None,
            },
            recovery: if config.sack { Recovery::Sack } else { Recovery::Cumulative },
            law: LawRules::Reno,
            low_rto: 0,
            low_rto_segments: 0,
        };
        match config.kind {
            TransportKind::Udp(_) => TcpRules { recovery: Recovery::Cumulative, ..tcp },
            TransportKind::NewReno | TransportKind::Dctcp { .. } => tcp,
            TransportKind::Cubic => TcpRules { law: LawRules::Cubic, ..tcp },
            TransportKind::Spray(spray) => {
                let timeout = spray.packet_timeout.map_or(extent.packet_timeout(), net::Time::as_ps);
                let window = extent.product.min(f64::from(extent.window));
                let law = NsccRules {
                    base_rtt: extent.base_rtt,
                    target: spray.target_delay.map_or(extent.base_rtt * 3 / 4, net::Time::as_ps).max(1),
                    product: extent.product,
                    most: (1.5 * extent.product).min(f64::from(extent.window)),
                    is_marking: extent.is_marking,
                };
                let overtaken = (extent.product as u32).saturating_add(extent.queue_packets);
                TcpRules {
                    initial_window: window,
                    dup_ack_threshold: spray.reorder_packets.unwrap_or(overtaken),
                    recovery: Recovery::Spray,
                    law: LawRules::Nscc(law),
                    ..tcp.with_timeout(timeout)
                }
            }
            TransportKind::Rdma(rdma) => {
                let timeout = rdma.packet_timeout.map_or(extent.packet_timeout(), net::Time::as_ps);
                let law = LawRules::Rate(DcqcnRules::new(&rdma.dcqcn));
                let rules = TcpRules { initial_window: f64::INFINITY, law, ..tcp.with_timeout(timeout) };
                match rdma.recovery {
                    RdmaRecovery::GoBackN => TcpRules { recovery: Recovery::GoBackN, ..rules },
                    RdmaRecovery::Selective => TcpRules {
                        recovery: Recovery::Selective,
                        dup_ack_threshold: 1,
                        low_rto: (timeout / 3).max(2 * extent.base_rtt).min(timeout),
                        low_rto_segments: 3,
                        ..rules
                    },
                }
            }
        }
    }

    fn with_timeout(self, timeout: u64) -> TcpRules {
        TcpRules { min_rto: timeout, initial_rto: timeout, ..self }
    }

    /// Whether senders have more state than NewReno and DCTCP need.
    pub(crate) fn has_more(&self) -> bool {
        self.recovery != Recovery::Cumulative || !matches!(self.law, LawRules::Reno)
    }

    /// Whether acknowledgements name the segment that caused them.
    pub(crate) fn is_selective(&self) -> bool {
        !matches!(self.recovery, Recovery::Cumulative | Recovery::GoBackN)
    }
}

#[cfg(test)]
impl Extent {
    /// 100 us, a window of 1000 packets, a product and a queue of 100.
    pub(crate) fn of_tests() -> Extent {
        let (base_rtt, drain) = (100_000_000, 120_000_000);
        Extent { base_rtt, window: 1000, product: 100.0, queue_packets: 100, drain, is_marking: true }
    }
}
