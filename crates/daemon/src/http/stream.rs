//! The event stream (server-sent events).

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use balance::central::AgentCommand;
use control::Event;
use net::FiveTuple;
use serde::Serialize;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::{Stream, StreamExt};
use utoipa::ToSchema;

use super::model::SwitchPort;
use crate::events::{DaemonEvent, conflict_name, departure_name, dpid, limit_name};
use crate::server::Handle;

/// Interval of keep-alive comments, so that proxies do not close an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// An event.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum EventMessage {
    /// A switch has connected and is in use.
    SwitchUp {
        /// Datapath id, 16 hexadecimal digits.
        dpid: String,
    },
    SwitchDown {
        /// Datapath id, 16 hexadecimal digits.
        dpid: String,
    },
    LinkUp {
        from: SwitchPort,
        to: SwitchPort,
    },
    LinkDown {
        from: SwitchPort,
        to: SwitchPort,
    },
    /// A host was seen for the first time or at a new location.
    HostSeen {
        ipv4: String,
        mac: String,
        /// Switch port the host is connected to.
        location: SwitchPort,
    },
    /// The addressing mode cannot address this network or this host.
    AddressingRefused {
        reason: String,
    },
    /// A flapping port is damped: it is treated as down until it has been stable for some seconds.
    PortDamped {
        port: SwitchPort,
    },
    /// A host was ignored because a limit is reached. Sent once for a port or for the network,
    /// until hosts are accepted again.
    HostOverLimit {
        ipv4: String,
        mac: String,
        /// Switch port the host is connected to.
        location: SwitchPort,
        /// The reached key of `[limits]`: `hosts` or `hosts_per_port`.
        limit: String,
    },
    /// A learned host was forgotten.
    HostGone {
        ipv4: String,
        mac: String,
        /// Switch port the host was connected to.
        location: SwitchPort,
        /// `idle`, `port_down`, `evicted`, or `link_found` (its port leads to a switch).
        reason: String,
    },
    /// Alarm: a host used the address of another one, and was ignored. Sent at most once a minute
    /// for an address and a port.
    AddressConflict {
        ipv4: String,
        /// Ethernet address of the host that has the address.
        mac: String,
        /// Switch port of the host that has the address.
        location: SwitchPort,
        claim_mac: String,
        /// Switch port from which the address was claimed.
        claim_location: SwitchPort,
        /// `duplicate` (both hosts are there), `pinned` (the host is configured), or `flapping` (the
        /// address has moved too often).
        reason: String,
    },
    /// Alarm: a discovery probe arrived at a port with the role `host`: hosts relay frames, or a
    /// switch is connected there. Sent at most once a minute for a port.
    ProbeAtHostPort {
        port: SwitchPort,
    },
    FlowMigrated {
        flow: FlowTuple,
    },
    /// A member of a pool is up or down.
    MemberState {
        pool: u16,
        /// Id of the member within the pool.
        member: u32,
        ipv4: String,
        is_up: bool,
        state: String,
    },
    /// A switch was disconnected: its ports, groups and rules need more memory than `[limits]
    /// read_back_bytes` allows.
    ReadBackTooLarge {
        dpid: String,
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// Rules with the owner of this controller were removed, changed or added behind its back, and
    /// are restored.
    RulesRestored {
        dpid: String,
        removed: usize,
        changed: usize,
        added: usize,
    },
    /// Another controller is the master of a switch now.
    SwitchDemoted {
        dpid: String,
    },
    SwitchError {
        dpid: String,
        /// Name of the error in the specification.
        error: String,
        message: String,
    },
    /// The report threshold of agents has changed.
    ReportThreshold {
        /// Bytes after which an agent reports a flow.
        bytes: u64,
    },
    /// The rate limit of a flow has changed; the agent of its source applies it.
    RateLimit {
        flow: FlowTuple,
        /// Maximum rate, in bit/s; null for no limit.
        rate_bps: Option<u64>,
    },
    /// Events were lost because the reader was too slow. It should read the state of the network
    /// again.
    EventsLost {
        count: u64,
    },
}

/// Five-tuple of a flow.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(super) struct FlowTuple {
    src: String,
    dst: String,
    /// IP protocol; 0 if the flow is all traffic between two hosts.
    protocol: u8,
    src_port: u16,
    dst_port: u16,
}

impl FlowTuple {
    pub(super) fn new(tuple: &FiveTuple) -> FlowTuple {
        FlowTuple {
            src: tuple.src.to_string(),
            dst: tuple.dst.to_string(),
            protocol: tuple.protocol,
            src_port: tuple.src_port,
            dst_port: tuple.dst_port,
        }
    }
}

impl EventMessage {
    /// Returns the message of an event; `None` if the event is not for clients.
    fn new(event: DaemonEvent) -> Option<EventMessage> {
        Some(match event {
            DaemonEvent::Event(event) => return EventMessage::of_controller(event),
            DaemonEvent::Command(AgentCommand::SetReportThreshold(bytes)) => EventMessage::ReportThreshold { bytes },
            DaemonEvent::Command(AgentCommand::SetRateLimit { tuple, rate }) => {
                EventMessage::RateLimit { flow: FlowTuple::new(&tuple), rate_bps: rate.map(|rate| rate.as_bps()) }
            }
        })
    }
    fn of_controller(event: Event) -> Option<EventMessage> {
        let end = SwitchPort::new;
        Some(match event {
            Event::SwitchUp(datapath) => EventMessage::SwitchUp { dpid: dpid(datapath) },
            Event::SwitchDown(datapath) => EventMessage::SwitchDown { dpid: dpid(datapath) },
            Event::LinkUp { from, to } => EventMessage::LinkUp { from: end(from), to: end(to) },
            Event::LinkDown { from, to } => EventMessage::LinkDown { from: end(from), to: end(to) },
            Event::Host(host) => EventMessage::HostSeen {
                ipv4: host.ipv4.to_string(),
                mac: host.mac.to_string(),
                location: end((host.datapath, host.port)),
            },
            Event::AddressingRefused { reason } => EventMessage::AddressingRefused { reason },
            Event::PortDamped { datapath, port } => EventMessage::PortDamped { port: end((datapath, port)) },
            Event::HostRefused { host, limit } => EventMessage::HostOverLimit {
                ipv4: host.ipv4.to_string(),
                mac: host.mac.to_string(),
                location: end((host.datapath, host.port)),
                limit: limit_name(limit).to_owned(),
            },
            Event::HostGone { host, why } => EventMessage::HostGone {
                ipv4: host.ipv4.to_string(),
                mac: host.mac.to_string(),
                location: end((host.datapath, host.port)),
                reason: departure_name(why).to_owned(),
            },
            Event::AddressConflict { host, claim, why } => EventMessage::AddressConflict {
                ipv4: host.ipv4.to_string(),
                mac: host.mac.to_string(),
                location: end((host.datapath, host.port)),
                claim_mac: claim.mac.to_string(),
                claim_location: end((claim.datapath, claim.port)),
                reason: conflict_name(why).to_owned(),
            },
            Event::ProbeAtHostPort { datapath, port } => EventMessage::ProbeAtHostPort { port: end((datapath, port)) },
            Event::FlowMigrated(tuple) => EventMessage::FlowMigrated { flow: FlowTuple::new(&tuple) },
            Event::Member { pool, member, address, state } => EventMessage::MemberState {
                pool: pool.0,
                member: member.0,
                ipv4: address.to_string(),
                is_up: state == control::vip::MemberState::Up,
                state: state.words().to_string(),
            },
            Event::ReadBackTooLarge { datapath, limit_bytes } => {
                EventMessage::ReadBackTooLarge { dpid: dpid(datapath), limit_bytes: limit_bytes as u64 }
            }
            Event::RulesRestored { datapath, removed, changed, added, .. } => {
                EventMessage::RulesRestored { dpid: dpid(datapath), removed, changed, added }
            }
            Event::Demoted(datapath) => EventMessage::SwitchDemoted { dpid: dpid(datapath) },
            Event::Closed { .. } => return None,
            Event::SwitchError { datapath, error, message } => {
                EventMessage::SwitchError { dpid: dpid(datapath), error: format!("{error:?}"), message }
            }
        })
    }

    /// Returns the message with its name, which JSON has as the field `event`.
    fn sent(&self) -> Result<Sent, axum::Error> {
        let value = serde_json::to_value(self).map_err(axum::Error::new)?;
        Sent::default().event(value["event"].as_str().unwrap_or_default()).json_data(self)
    }
}

/// Streams events, each with its name and a JSON object, from the time of the request on.
#[utoipa::path(
    get, path = "/v1/events", tag = "operation",
    responses((status = 200, description = "The event stream", body = EventMessage, content_type = "text/event-stream"))
)]
pub(super) async fn events(State(handle): State<Handle>) -> Sse<impl Stream<Item = Result<Sent, Infallible>>> {
    let stream = BroadcastStream::new(handle.events.subscribe()).filter_map(|received| {
        let model = match received {
            Ok(event) => EventMessage::new(event)?,
            Err(BroadcastStreamRecvError::Lagged(count)) => EventMessage::EventsLost { count },
        };
        Some(Ok(model.sent().unwrap_or_else(|_| Sent::default().comment("event cannot be serialised"))))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}
