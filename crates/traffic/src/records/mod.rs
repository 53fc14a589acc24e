//! Records of flows and packets, as collectors and taps write them, and the traffic that they indicate.
//!
//! Exporters see one packet in N, and every exporter on the path of a packet may see it. So
//! [`estimate`] counts packets where they enter the network, and gives every figure an interval.

mod estimate;
mod read;

use core::net::IpAddr;

pub use estimate::{Edges, Estimate, Estimates, estimate};
pub use read::read_records;

/// A flow, a part of it, or a packet, in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Ports of source and destination.
    pub ports: (u16, u16),
    /// Packets; those of samples are multiplied.
    pub packets: f64,
    /// Bytes of IP packets, headers included; those of samples are multiplied.
    pub ip_bytes: f64,
    /// Bytes without headers, if the source knows them.
    pub payload_bytes: Option<f64>,
    /// One packet in this number was sampled; 1 if all are counted.
    pub sampling: u32,
    /// First and last packet, seconds.
    pub time_s: Option<(f64, f64)>,
    /// Address of the switch that saw it, and the number of the port where it came in.
    pub seen_at: Option<(IpAddr, u32)>,
    /// Whether the first packet of the side that opens the connection is in it.
    pub opens: bool,
}

/// Source, destination and their ports.
type FlowKey = (IpAddr, IpAddr, (u16, u16));

impl Record {
    fn key(&self) -> FlowKey {
        (self.source, self.destination, self.ports)
    }
}

/// The records of a file, with warnings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    pub records: Vec<Record>,
    /// One line for everything that was not read.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests;
