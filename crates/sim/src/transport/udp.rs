//! UDP: packets at a given rate, without acknowledgements.

use balance::hash::mix;
use net::{Bandwidth, RandomStream};

use crate::SimError;
use crate::checks::wrong;
use crate::scenario::{SimConfig, TransportConfig};
use crate::timers::NEVER;
use crate::transport::params::TransportParams;
use crate::transport::sender::{SendState, Sent, TimerEffect};
use crate::transport::{About, Acks, Kind, Properties, SenderEnv, Sending};

/// Configuration: the rate of each flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UdpRate {
    /// Bits per second on the wire, evenly spaced.
    Constant(Bandwidth),
    /// A rate drawn uniformly from this range for every packet, as D-ITG's uniform option does.
    UniformPackets { min_per_s: f64, max_per_s: f64 },
}

impl Default for UdpRate {
    /// Returns a rate of zero, which the checks refuse: UDP has no default.
    fn default() -> UdpRate {
        UdpRate::Constant(Bandwidth::from_bps(0))
    }
}

impl Kind for UdpRate {
    const ABOUT: About = About {
        name: "udp",
        title: "UDP",
        summary: "a rate, and no reaction to anything",
        source: "",
        keys: &[&["rate", "min_packets", "max_packets"]],
    };

    type Sender = Pacer;

    fn properties(&self, config: &TransportConfig) -> Properties {
        Properties { acks: Acks::None, is_tcp: false, couples_subflows: false, ..Properties::tcp(config) }
    }

    fn check(&self, _config: &SimConfig) -> Result<(), SimError> {
        match *self {
            UdpRate::Constant(rate) if rate.as_bps() == 0 => Err(wrong("transport.rate", rate, "must be above 0")),
            UdpRate::UniformPackets { min_per_s, max_per_s }
                if !(min_per_s > 0.0 && max_per_s >= min_per_s && max_per_s < 1e12) =>
            {
                Err(wrong("transport.rate", format!("{min_per_s}..{max_per_s} packets/s"), "0 < min <= max must hold"))
            }
            _ => Ok(()),
        }
    }

    fn sender(&self, env: &SenderEnv<'_>) -> Pacer {
        Pacer { rate: *self, seed: RandomStream::new(env.seed, "udp").next_u64(), next_send: NEVER }
    }
}

/// The pace of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    rate: UdpRate,
    seed: u64,
    /// Time of the next packet; [`NEVER`] if it is due.
    next_send: u64,
}

impl Sending for Pacer {
    fn begin(&mut self, _line_bps: u64) {
        self.next_send = NEVER;
    }

    fn can_send(&self, state: &SendState, _params: &TransportParams) -> bool {
        state.next < state.total && self.next_send == NEVER
    }

    fn on_sent(&mut self, _state: &mut SendState, sent: &Sent) {
        let gap = match self.rate {
            UdpRate::Constant(rate) => rate.time_for(sent.bytes).as_ps(),
            UdpRate::UniformPackets { min_per_s, max_per_s } => {
                let draw = unit(mix(self.seed ^ mix(u64::from(sent.flow) << 32 | u64::from(sent.segment))));
                (1e12 / (min_per_s + (max_per_s - min_per_s) * draw)) as u64
            }
        };
        self.next_send = sent.now + gap.max(sent.limit.map_or(1, |rate| rate.time_for(sent.bytes).as_ps()));
    }

    fn on_timer(&mut self, _state: &mut SendState, _params: &TransportParams, _now: u64) -> TimerEffect {
        self.next_send = NEVER;
        TimerEffect::Resume { again: None }
    }

    fn deadline(&mut self, state: &SendState, _params: &TransportParams, _current: u64, _now: u64) -> u64 {
        if state.next == state.total { NEVER } else { self.next_send }
    }
}

/// Returns a number in [0, 1) from random bits.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
