//! The load balancers: each one file of pure logic plus one line in a registry.
//!
//! A balancer sees facts of the network in the field's terms. It never sees a socket, an OpenFlow message,
//! a clock or an event queue; time, randomness and state reach it through its arguments.

pub mod bounds;
pub mod central;
pub mod dataplane;
pub mod hash;
pub mod params;
pub mod registry;
pub mod server;

pub use bounds::Bound;
pub use central::{CentralBalancer, CentralEnv};
pub use dataplane::{
    Arrival, Commands, Connection, Control, ControlArrival, Copies, Coupling, Cx, Delivery, Duplicate, Duties,
    EdgeBalancer, EdgeEnv, HostBalancer, HostEnv, HostFeedback, HostLoss, HostPacket, Loss, Lossless, Members, Needs,
    PacketView, PathFeedback, PathLoss, Paths, PortTelemetry, Race, Receiving, Scale, Sensing, Shared, Subflows,
    SwitchBalancer, SwitchEnv,
};
pub use params::{Param, ParamKind, Params};
pub use registry::{Build, Entry, Granularity, Reorders, Spec, SpecError, World};
pub use server::{ServerBalancer, ServerEnv};
