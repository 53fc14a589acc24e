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

use super::model::End;
use crate::events::{DaemonEvent, dpid, limit_name};
use crate::server::Handle;

/// Interval of keep-alive comments, so that proxies do not close an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// An event.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum EventModel {
    /// A switch has connected and is in use.
    SwitchUp {
        /// Datapath id, 16 hexadecimal digits.
        switch: String,
    },
    /// A switch has disconnected.
    SwitchDown {
        /// Datapath id, 16 hexadecimal digits.
        switch: String,
    },
    /// A directed link is up.
    LinkUp {
        /// Sending port.
        from: End,
        /// Receiving port.
        to: End,
    },
    /// A directed link is down.
    LinkDown {
        /// Sending port.
        from: End,
        /// Receiving port.
        to: End,
    },
    /// A host was seen for the first time or at a new location.
    Host {
        /// IPv4 address.
        ipv4: String,
        /// Ethernet address.
        mac: String,
        /// Switch port the host is connected to.
        at: End,
    },
    /// A flapping port is damped: it is treated as down until it has been stable for some seconds.
    PortDamped {
        /// The port.
        at: End,
    },
    /// A host was ignored because a limit is reached. Sent once for a port or for the network,
    /// until hosts are accepted again.
    HostRefused {
        /// IPv4 address.
        ipv4: String,
        /// Ethernet address.
        mac: String,
        /// Switch port the host is connected to.
        at: End,
        /// The reached key of `[limits]`: `hosts` or `hosts_per_port`.
        limit: String,
    },
    /// A flow has migrated to another path.
    FlowMoved {
        /// The flow.
        flow: FlowName,
    },
    /// A member of a pool is up or down.
    Member {
        /// Id of the pool.
        pool: u16,
        /// Id of the member within the pool.
        member: u32,
        /// IPv4 address of the member.
        ipv4: String,
        /// Whether the member is up.
        is_up: bool,
        /// Human-readable state.
        state: String,
    },
    /// A switch was disconnected: its ports, groups and rules need more memory than `[limits]
    /// read_back_bytes` allows.
    ReadBackTooLarge {
        /// Datapath id of the switch.
        switch: String,
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// A switch sent an error.
    Refused {
        /// Datapath id of the switch.
        switch: String,
        /// Name of the error in the specification.
        error: String,
        /// Explanation of the error.
        words: String,
    },
    /// The report threshold of agents has changed.
    ReportAbove {
        /// Bytes after which an agent reports a flow.
        bytes: u64,
    },
    /// The rate limit of a flow has changed; the agent of its source applies it.
    Pace {
        /// The flow.
        flow: FlowName,
        /// Maximum rate, in bit/s; null for no limit.
        rate_bps: Option<u64>,
    },
    /// Events were lost because the reader was too slow. It should read the state of the network
    /// again.
    Missed {
        /// Number of lost events.
        count: u64,
    },
}

/// Five-tuple of a flow.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(super) struct FlowName {
    /// Source address.
    src: String,
    /// Destination address.
    dst: String,
    /// IP protocol; 0 if the flow is all traffic between two hosts.
    protocol: u8,
    /// Source port.
    src_port: u16,
    /// Destination port.
    dst_port: u16,
}

impl FlowName {
    pub(super) fn new(tuple: &FiveTuple) -> FlowName {
        FlowName {
            src: tuple.src.to_string(),
            dst: tuple.dst.to_string(),
            protocol: tuple.protocol,
            src_port: tuple.src_port,
            dst_port: tuple.dst_port,
        }
    }
}

impl EventModel {
    fn new(happening: &DaemonEvent) -> EventModel {
        match happening {
            DaemonEvent::Event(Event::SwitchUp(datapath)) => EventModel::SwitchUp { switch: dpid(*datapath) },
            DaemonEvent::Event(Event::SwitchDown(datapath)) => EventModel::SwitchDown { switch: dpid(*datapath) },
            DaemonEvent::Event(Event::LinkUp { from, to }) => {
                EventModel::LinkUp { from: End::new(*from), to: End::new(*to) }
            }
            DaemonEvent::Event(Event::LinkDown { from, to }) => {
                EventModel::LinkDown { from: End::new(*from), to: End::new(*to) }
            }
            DaemonEvent::Event(Event::Host(host)) => EventModel::Host {
                ipv4: host.ipv4.to_string(),
                mac: host.mac.to_string(),
                at: End::new((host.datapath, host.port)),
            },
            DaemonEvent::Event(Event::PortDamped { datapath, port }) => {
                EventModel::PortDamped { at: End::new((*datapath, *port)) }
            }
            DaemonEvent::Event(Event::HostRefused { host, limit }) => EventModel::HostRefused {
                ipv4: host.ipv4.to_string(),
                mac: host.mac.to_string(),
                at: End::new((host.datapath, host.port)),
                limit: limit_name(*limit).to_owned(),
            },
            DaemonEvent::Event(Event::FlowMigrated(tuple)) => EventModel::FlowMoved { flow: FlowName::new(tuple) },
            DaemonEvent::Event(Event::Member { pool, member, address, state }) => EventModel::Member {
                pool: pool.0,
                member: member.0,
                ipv4: address.to_string(),
                is_up: *state == control::vip::MemberState::Up,
                state: state.words().to_string(),
            },
            DaemonEvent::Event(Event::ReadBackTooLarge { datapath, limit_bytes }) => {
                EventModel::ReadBackTooLarge { switch: dpid(*datapath), limit_bytes: *limit_bytes as u64 }
            }
            DaemonEvent::Event(Event::SwitchError { datapath, error, message }) => {
                EventModel::Refused { switch: dpid(*datapath), error: format!("{error:?}"), words: message.clone() }
            }
            DaemonEvent::Order(AgentCommand::SetReportThreshold(bytes)) => EventModel::ReportAbove { bytes: *bytes },
            DaemonEvent::Order(AgentCommand::SetRateLimit { tuple, rate }) => {
                EventModel::Pace { flow: FlowName::new(tuple), rate_bps: rate.map(|rate| rate.as_bps()) }
            }
        }
    }
    fn name(&self) -> &'static str {
        match self {
            EventModel::SwitchUp { .. } => "switch_up",
            EventModel::SwitchDown { .. } => "switch_down",
            EventModel::LinkUp { .. } => "link_up",
            EventModel::LinkDown { .. } => "link_down",
            EventModel::Host { .. } => "host",
            EventModel::PortDamped { .. } => "port_damped",
            EventModel::HostRefused { .. } => "host_refused",
            EventModel::FlowMoved { .. } => "flow_moved",
            EventModel::Member { .. } => "member",
            EventModel::ReadBackTooLarge { .. } => "read_back_too_large",
            EventModel::Refused { .. } => "refused",
            EventModel::ReportAbove { .. } => "report_above",
            EventModel::Pace { .. } => "pace",
            EventModel::Missed { .. } => "missed",
        }
    }
}

/// Streams events, each with its name and a JSON object, from the time of the request on.
#[utoipa::path(
    get,
    path = "/v1/events",
    tag = "operation",
    responses((status = 200, description = "The event stream", body = EventModel, content_type = "text/event-stream"))
)]
pub(super) async fn events(State(handle): State<Handle>) -> Sse<impl Stream<Item = Result<Sent, Infallible>>> {
    let stream = BroadcastStream::new(handle.events.subscribe()).map(|received| {
        let model = match received {
            Ok(happening) => EventModel::new(&happening),
            Err(BroadcastStreamRecvError::Lagged(count)) => EventModel::Missed { count },
        };
        let sent = Sent::default().event(model.name());
        Ok(sent.json_data(&model).unwrap_or_else(|_| Sent::default().comment("event cannot be serialised")))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}
