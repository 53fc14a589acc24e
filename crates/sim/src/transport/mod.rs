//! Transports: the senders of flows, without input and output.
//!
//! A transport is a line of the list below and the file that it names. The file holds the
//! configuration, which implements [`Kind`], and the state of a sender, which implements
//! [`Sending`]. TCP variants differ only in their congestion control: a variant is a
//! [`tcp::Tcp`] with a [`tcp::CongestionControl`].

pub mod annulus;
pub(crate) mod coupling;
pub mod cubic;
mod dcqcn;
pub mod dctcp;
mod hystart;
pub mod new_reno;
mod nscc;
mod pacing;
pub(crate) mod params;
pub mod rdma;
mod scoreboard;
pub(crate) mod sender;
pub mod spray;
pub(crate) mod tcp;
pub mod udp;

use crate::SimError;
use crate::scenario::{FeedbackRule, SimConfig, TransportConfig};
use params::{NetworkScale, TransportParams};
use sender::{AckInfo, Reply, SendState, Sent, TimerEffect};

/// Reaction of the receiver of a transport to data packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acks {
    /// Nothing: the sender ends when it has sent everything, and does not learn of losses.
    None,
    /// It acknowledges what has arrived without a gap.
    Cumulative,
    /// It also names the packet that caused the acknowledgement, if that is beyond a gap.
    Selective,
    /// It keeps nothing beyond a gap, and reports each gap once.
    InOrder,
    /// It stores every packet directly and names it, also one of which only the header arrived.
    EachPacket,
}

/// How hosts and switches treat the packets of a transport.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    pub acks: Acks,
    /// Whether packets are TCP segments on the wire; all others are UDP.
    pub is_tcp: bool,
    /// Whether switches mark its packets.
    pub is_ecn_capable: bool,
    /// Whether any packet order is fine, or must be seen: hosts then do not resequence.
    pub tolerates_reordering: bool,
    /// Whether MPTCP's subflows can couple their windows.
    pub couples_subflows: bool,
    /// Name of the same congestion control in Linux, if it has one.
    pub linux: Option<&'static str>,
    /// Minimum time between notifications of marks by a receiver, picoseconds; 0 for none.
    pub notify_interval: u64,
}

impl Properties {
    /// Returns those of TCP without ECN, which Linux may not have.
    pub(crate) fn tcp(config: &TransportConfig) -> Properties {
        let acks = if config.sack { Acks::Selective } else { Acks::Cumulative };
        Properties {
            acks,
            is_tcp: true,
            is_ecn_capable: false,
            tolerates_reordering: false,
            couples_subflows: !config.sack,
            linux: None,
            notify_interval: 0,
        }
    }
}

/// The standing queue before a link that several flows of a transport fill, as flow fidelity
/// computes it: between two bounds, or at the marking threshold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QueueLaw {
    /// DCTCP's, with its gain, 0 to 1.
    Sawtooth(f64),
    Threshold,
    /// This target delay of the window, picoseconds.
    Delay(f64),
    /// A full queue; this share of the window remains after a loss.
    DropTail(f64),
}

/// What users read about a transport. Files have its `name`, reports its `title`.
#[derive(Clone, Copy, Debug)]
pub struct About {
    pub name: &'static str,
    pub title: &'static str,
    /// The behaviour, in one line.
    pub summary: &'static str,
    pub source: &'static str,
    /// The keys of `[transport]` that it reads, beyond those of all transports: in groups, of which
    /// several transports may share one.
    pub keys: &'static [&'static [&'static str]],
}

impl About {
    /// Returns whether the transport reads a key of `[transport]` that not all of them do.
    pub fn reads(&self, key: &str) -> bool {
        self.keys.iter().any(|group| group.contains(&key))
    }
}

/// The configuration of a transport.
pub(crate) trait Kind: Copy {
    const ABOUT: About;
    type Sender: Clone;

    fn properties(&self, config: &TransportConfig) -> Properties {
        Properties::tcp(config)
    }

    /// Returns the queue in flow fidelity.
    fn queue_law(&self, _scale: &NetworkScale) -> QueueLaw {
        QueueLaw::DropTail(0.5)
    }

    /// Returns how switches send congestion feedback directly to its senders, if they do.
    fn feedback(&self) -> Option<FeedbackRule> {
        None
    }

    /// Checks what a library caller may have set wrong. The keys of files have their own checks.
    fn check(&self, _config: &SimConfig) -> Result<(), SimError> {
        Ok(())
    }

    /// Returns the receive window if the file gives none, packets; `scaled` is that of TCP, `product`
    /// the bandwidth-delay product of the fastest host link.
    fn window(&self, scaled: u32, _product: u32) -> u32 {
        scaled
    }

    /// Returns the parameters of all senders of a run, from those of TCP.
    fn params(&self, tcp: TransportParams, _scale: &NetworkScale) -> TransportParams {
        tcp
    }

    /// Creates the state of a sender.
    fn sender(&self, env: &SenderEnv<'_>) -> Self::Sender;
}

/// The run in which a transport creates the state of its senders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderEnv<'a> {
    pub(crate) config: &'a TransportConfig,
    pub(crate) scale: &'a NetworkScale,
    pub(crate) seed: u64,
    /// Words of a ring of bits that covers the window.
    pub(crate) words: usize,
}

/// The sender of a flow. The window, the sequence numbers and the round-trip times are in the
/// [`SendState`], which all transports share; what a method returns, the engine does.
pub(crate) trait Sending {
    /// Begins a flow, perhaps after another one. `line_bps` is the rate of the host's interface.
    fn begin(&mut self, _line_bps: u64) {}

    /// Returns whether a segment may be sent.
    fn can_send(&self, _state: &SendState, _params: &TransportParams) -> bool {
        false
    }

    /// Takes the segment to send, after [`Sending::can_send`]. Returns also whether it was sent before.
    fn take(&mut self, state: &mut SendState) -> (u32, bool) {
        state.take_new()
    }

    /// Returns whether everything was sent and the window would allow another segment (MPTCP).
    fn can_take(&self, _state: &SendState, _params: &TransportParams) -> bool {
        false
    }

    /// Handles a segment that has been sent.
    fn on_sent(&mut self, _state: &mut SendState, _sent: &Sent) {}

    /// Handles an acknowledgement. Returns also the number of segments it is the first to name.
    fn on_ack(&mut self, _state: &mut SendState, _params: &TransportParams, _arrived: &AckInfo) -> (Reply, u32) {
        (Reply::Continue, 0)
    }

    /// Handles congestion feedback that a switch sent directly: 1 to 63.
    fn on_feedback(&mut self, _feedback: u8, _now: u64) {}

    /// Handles a time-out of everything in flight, or of the handshake. Returns false if the flow must
    /// fail.
    fn on_timeout(&mut self, state: &mut SendState, params: &TransportParams) -> bool {
        state.back_off(params)
    }

    /// Handles the deadline of the flow's timer.
    fn on_timer(&mut self, state: &mut SendState, params: &TransportParams, _now: u64) -> TimerEffect {
        if state.in_flight() == 0 {
            return TimerEffect::Nothing;
        }
        TimerEffect::TimedOut { is_over: !self.on_timeout(state, params), again: None }
    }

    /// Returns the deadline of the flow's timer, which is `current`.
    #[inline]
    fn deadline(&mut self, state: &SendState, params: &TransportParams, current: u64, now: u64) -> u64 {
        state.retransmission_deadline(params, current, now)
    }

    /// Returns whether the timer restarts after the new acknowledgement just handled.
    fn restarts_timer(&self, _state: &SendState) -> bool {
        true
    }

    /// Forgets which segments were lost.
    fn stop(&mut self) {}
}

/// State of a slot that only receives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle;

impl Sending for Idle {}

/// Declares the transports: variant, configuration, state of a sender.
macro_rules! transports {
    ($($variant:ident($config:ty), $sender:ty;)*) => {
        /// A transport with its configuration.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum TransportKind {
            $($variant($config),)*
        }

        impl TransportKind {
            pub const ALL: &'static [About] = &[$(<$config as Kind>::ABOUT),*];
            pub const NAMES: &'static [&'static str] = &[$(<$config as Kind>::ABOUT.name),*];

            pub const fn about(&self) -> &'static About {
                match self { $(TransportKind::$variant(_) => &<$config as Kind>::ABOUT,)* }
            }

            /// Returns the transport of this name with its defaults.
            pub fn named(name: &str) -> Option<TransportKind> {
                $(if name == <$config as Kind>::ABOUT.name {
                    return Some(TransportKind::$variant(<$config>::default()));
                })*
                None
            }

            pub(crate) fn properties(&self, config: &TransportConfig) -> Properties {
                match self { $(TransportKind::$variant(kind) => kind.properties(config),)* }
            }

            pub(crate) fn queue_law(&self, scale: &NetworkScale) -> QueueLaw {
                match self { $(TransportKind::$variant(kind) => kind.queue_law(scale),)* }
            }

            pub(crate) fn feedback(&self) -> Option<FeedbackRule> {
                match self { $(TransportKind::$variant(kind) => kind.feedback(),)* }
            }

            pub(crate) fn check(&self, config: &SimConfig) -> Result<(), SimError> {
                match self { $(TransportKind::$variant(kind) => kind.check(config),)* }
            }

            pub(crate) fn window(&self, scaled: u32, product: u32) -> u32 {
                match self { $(TransportKind::$variant(kind) => kind.window(scaled, product),)* }
            }

            pub(crate) fn params(&self, tcp: TransportParams, scale: &NetworkScale) -> TransportParams {
                match self { $(TransportKind::$variant(kind) => kind.params(tcp, scale),)* }
            }

            pub(crate) fn sender(&self, env: &SenderEnv<'_>) -> Transport {
                match self { $(TransportKind::$variant(kind) => Transport::$variant(kind.sender(env)),)* }
            }
        }

        /// State of a sender beyond its [`SendState`].
        #[derive(Clone, Debug)]
        pub(crate) enum Transport {
            Idle(Idle),
            $($variant($sender),)*
        }

        /// Calls the method of the transport.
        macro_rules! of_transport {
            ($transport:expr, $own:ident => $call:expr) => {
                match $transport {
                    Transport::Idle($own) => $call,
                    $(Transport::$variant($own) => $call,)*
                }
            };
        }
    };
}

transports! {
    Dctcp(dctcp::Dctcp), tcp::Tcp<dctcp::Marks>;
    NewReno(new_reno::NewReno), tcp::Tcp<new_reno::Reno>;
    Cubic(cubic::Cubic), tcp::Tcp<cubic::Curve>;
    Spray(spray::Spray), Box<spray::Sprayed>;
    Rdma(rdma::Rdma), Box<rdma::Paced>;
    Udp(udp::UdpRate), udp::Pacer;
    Annulus(annulus::Annulus), Box<annulus::TwoLoops>;
}

impl TransportKind {
    /// Returns the name in files.
    pub const fn name(&self) -> &'static str {
        self.about().name
    }
}

impl Default for Transport {
    fn default() -> Transport {
        Transport::Idle(Idle)
    }
}

impl Transport {
    pub(crate) fn begin(&mut self, line_bps: u64) {
        of_transport!(self, own => own.begin(line_bps));
    }

    #[inline]
    pub(crate) fn can_send(&self, state: &SendState, params: &TransportParams) -> bool {
        of_transport!(self, own => own.can_send(state, params))
    }

    #[inline]
    pub(crate) fn take(&mut self, state: &mut SendState) -> (u32, bool) {
        of_transport!(self, own => own.take(state))
    }

    #[inline]
    pub(crate) fn can_take(&self, state: &SendState, params: &TransportParams) -> bool {
        of_transport!(self, own => own.can_take(state, params))
    }

    #[inline]
    pub(crate) fn on_sent(&mut self, state: &mut SendState, sent: &Sent) {
        of_transport!(self, own => own.on_sent(state, sent));
    }

    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        state: &mut SendState,
        params: &TransportParams,
        arrived: &AckInfo,
    ) -> (Reply, u32) {
        of_transport!(self, own => own.on_ack(state, params, arrived))
    }

    pub(crate) fn on_feedback(&mut self, feedback: u8, now: u64) {
        of_transport!(self, own => own.on_feedback(feedback, now));
    }

    pub(crate) fn on_timeout(&mut self, state: &mut SendState, params: &TransportParams) -> bool {
        of_transport!(self, own => own.on_timeout(state, params))
    }

    pub(crate) fn on_timer(&mut self, state: &mut SendState, params: &TransportParams, now: u64) -> TimerEffect {
        of_transport!(self, own => own.on_timer(state, params, now))
    }

    #[inline]
    pub(crate) fn deadline(&mut self, state: &SendState, params: &TransportParams, current: u64, now: u64) -> u64 {
        of_transport!(self, own => own.deadline(state, params, current, now))
    }

    #[inline]
    pub(crate) fn restarts_timer(&self, state: &SendState) -> bool {
        of_transport!(self, own => own.restarts_timer(state))
    }

    pub(crate) fn stop(&mut self) {
        of_transport!(self, own => own.stop());
    }
}
