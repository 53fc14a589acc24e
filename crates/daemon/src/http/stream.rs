//! Events as they happen, as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use balance::central::AgentOrder;
use control::Event;
use net::FiveTuple;
use serde::Serialize;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::{Stream, StreamExt};
use utoipa::ToSchema;

use super::model::End;
use crate::events::{Happening, dpid, limit_name};
use crate::server::Handle;

/// Something is sent this often, so that whoever is in between does not take the stream for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Something that happened.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum EventModel {
    /// A switch is in use.
    SwitchUp {
        /// Its number.
        switch: String,
    },
    /// A switch is gone.
    SwitchDown {
        /// Its number.
        switch: String,
    },
    /// A directed link is alive.
    LinkUp {
        /// Sending end.
        from: End,
        /// Receiving end.
        to: End,
    },
    /// A directed link is dead.
    LinkDown {
        /// Sending end.
        from: End,
        /// Receiving end.
        to: End,
    },
    /// A host was seen for the first time, or elsewhere than before.
    Host {
        /// Its IPv4 address.
        ipv4: String,
        /// Its Ethernet address.
        mac: String,
        /// Where it is.
        at: End,
    },
    /// There is no room for a host that spoke. Told once for a port, or for the network, until there is room again.
    HostRefused {
        /// Its IPv4 address.
        ipv4: String,
        /// Its Ethernet address.
        mac: String,
        /// Where it is.
        at: End,
        /// Which of `[limits]` is reached: `hosts` or `hosts_per_port`.
        limit: String,
    },
    /// A flow goes by another path now.
    FlowMoved {
        /// Which flow.
        flow: FlowName,
    },
    /// A member of a pool can serve, or cannot any more.
    Member {
        /// Number of its pool.
        pool: u16,
        /// Its number there.
        member: u32,
        /// Its IPv4 address.
        ipv4: String,
        /// Whether it can serve.
        is_up: bool,
        /// What it is now, in words.
        state: String,
    },
    /// A switch refused something.
    Refused {
        /// Which switch.
        switch: String,
        /// The error of the specification.
        error: String,
        /// What it means.
        words: String,
    },
    /// Agents on hosts are to report flows that have sent more than this.
    ReportAbove {
        /// Bytes.
        bytes: u64,
    },
    /// The agent of the flow's source is to limit it.
    Pace {
        /// Which flow.
        flow: FlowName,
        /// Greatest rate, bit/s; null for no limit.
        rate_bps: Option<u64>,
    },
    /// So many events were missed: the reader was too slow. What it knows should be read anew.
    Missed {
        /// Number of events.
        count: u64,
    },
}

/// What names a flow.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(super) struct FlowName {
    /// Sender's address.
    src: String,
    /// Receiver's address.
    dst: String,
    /// IP protocol; 0 for all traffic of the pair.
    protocol: u8,
    /// Sender's port.
    src_port: u16,
    /// Receiver's port.
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
    fn new(happening: &Happening) -> EventModel {
        match happening {
            Happening::Event(Event::SwitchUp(datapath)) => EventModel::SwitchUp { switch: dpid(*datapath) },
            Happening::Event(Event::SwitchDown(datapath)) => EventModel::SwitchDown { switch: dpid(*datapath) },
            Happening::Event(Event::LinkUp { from, to }) => {
                EventModel::LinkUp { from: End::new(*from), to: End::new(*to) }
            }
            Happening::Event(Event::LinkDown { from, to }) => {
                EventModel::LinkDown { from: End::new(*from), to: End::new(*to) }
            }
            Happening::Event(Event::Host(host)) => EventModel::Host {
                ipv4: host.ipv4.to_string(),
                mac: host.mac.to_string(),
                at: End::new((host.datapath, host.port)),
            },
            Happening::Event(Event::HostRefused { host, limit }) => EventModel::HostRefused {
                ipv4: host.ipv4.to_string(),
                mac: host.mac.to_string(),
                at: End::new((host.datapath, host.port)),
                limit: limit_name(*limit).to_owned(),
            },
            Happening::Event(Event::Migrated(tuple)) => EventModel::FlowMoved { flow: FlowName::new(tuple) },
            Happening::Event(Event::Member { pool, member, address, state }) => EventModel::Member {
                pool: pool.0,
                member: member.0,
                ipv4: address.to_string(),
                is_up: *state == control::vip::MemberState::Up,
                state: state.words().to_string(),
            },
            Happening::Event(Event::Refused { datapath, error, words }) => {
                EventModel::Refused { switch: dpid(*datapath), error: format!("{error:?}"), words: words.clone() }
            }
            Happening::Order(AgentOrder::ReportAbove(bytes)) => EventModel::ReportAbove { bytes: *bytes },
            Happening::Order(AgentOrder::Pace { tuple, rate }) => {
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
            EventModel::HostRefused { .. } => "host_refused",
            EventModel::FlowMoved { .. } => "flow_moved",
            EventModel::Member { .. } => "member",
            EventModel::Refused { .. } => "refused",
            EventModel::ReportAbove { .. } => "report_above",
            EventModel::Pace { .. } => "pace",
            EventModel::Missed { .. } => "missed",
        }
    }
}

/// Events as they happen, each with its name and a JSON object, from the moment of the request on.
#[utoipa::path(
    get,
    path = "/v1/events",
    tag = "operation",
    responses((status = 200, description = "A stream without end", body = EventModel, content_type = "text/event-stream"))
)]
pub(super) async fn events(State(handle): State<Handle>) -> Sse<impl Stream<Item = Result<Sent, Infallible>>> {
    let stream = BroadcastStream::new(handle.events.subscribe()).map(|received| {
        let model = match received {
            Ok(happening) => EventModel::new(&happening),
            Err(BroadcastStreamRecvError::Lagged(count)) => EventModel::Missed { count },
        };
        let sent = Sent::default().event(model.name());
        Ok(sent.json_data(&model).unwrap_or_else(|_| Sent::default().comment("an event that is no JSON")))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}
