//! TCP NewReno (RFC 5681, RFC 6582): a packet more per round-trip time, and half after a loss.

use crate::scenario::TransportConfig;
use crate::transport::tcp::{self, CongestionControl, Tcp};
use crate::transport::{About, Kind, Properties, SenderEnv};

/// Configuration: nothing beyond that of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewReno;

impl Kind for NewReno {
    const ABOUT: About = About {
        name: "newreno",
        title: "TCP NewReno",
        summary: "halves the window at a loss",
        source: "RFC 5681, RFC 6582",
        keys: &[tcp::KEYS],
    };

    type Sender = Tcp<Reno>;

    fn properties(&self, config: &TransportConfig) -> Properties {
        Properties { linux: Some("reno"), ..Properties::tcp(config) }
    }

    fn sender(&self, env: &SenderEnv<'_>) -> Tcp<Reno> {
        Tcp::new(Reno, env)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reno;

impl CongestionControl for Reno {}
