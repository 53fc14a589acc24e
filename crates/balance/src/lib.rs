//! The load balancers: each one file of pure logic plus one line in a registry.
//!
//! A balancer reads properties of the network in standard terms. It never reads a socket, an
//! OpenFlow message, a clock or an event queue: time, randomness and state are arguments.

pub mod bounds;
pub mod central;
pub mod dataplane;
mod draw;
pub mod entry;
pub mod hash;
pub mod params;
pub mod registry;
pub mod server;

pub use bounds::Bound;
pub use central::{CentralBalancer, CentralEnv};
pub use dataplane::{
    Arrival, Commands, Connection, Control, ControlArrival, Copies, Coupling, Cx, Delivery, Duplicate, EdgeBalancer,
    EdgeEnv, EdgeHooks, GapReport, HostBalancer, HostEnv, HostFeedback, HostLoss, HostPacket, Loss, Lossless, Needs,
    NeighbourMessage, NextHops, PacketView, PathFeedback, PathLoss, Paths, PortTelemetry, Race, Receiving, Scale,
    Sensing, Shared, Subflows, SwitchBalancer, SwitchEnv,
};
pub use entry::{Build, Entry, FlowLevel, Granularity, Platform, Reorders};
pub use params::{Param, ParamKind, Params};
pub use registry::{Spec, SpecError};
pub use server::{ServerBalancer, ServerEnv};
