//! Schema types of the API, separate from the internal types, so that these can change
//! independently.

use std::collections::BTreeMap;

use balance::Spec;
use balance::central::WeightedPath;
use balance::entry::Entry;
use control::{FlowDetail, HostInfo, LinkInfo, SwitchInfo};
use net::{LinkIx, Time};
use openflow::{Action, Bucket, DatapathId, GroupDescription, PortNo, SetField};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::engine::Engine;
use crate::events::dpid;

/// A port of a switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct End {
    /// Datapath id of the switch, 16 hexadecimal digits.
    #[schema(example = "00000000000000a1")]
    pub(crate) switch: String,
    /// Port number.
    pub(crate) port: u32,
}

/// A switch that has connected since the controller started.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Switch {
    /// Datapath id, 16 hexadecimal digits.
    #[schema(example = "00000000000000a1")]
    pub(crate) switch: String,
    /// Whether the switch is connected.
    pub(crate) is_connected: bool,
    /// Peer address of the connection; null while disconnected.
    pub(crate) address: Option<String>,
    /// Time since the switch connected or disconnected, in seconds.
    pub(crate) since_s: f64,
    /// Number of tables of the pipeline; null while disconnected.
    pub(crate) tables: Option<u8>,
    /// Round-trip time of the latest echo request, in µs.
    pub(crate) rtt_us: Option<f64>,
    /// Number of desired rules.
    pub(crate) rules: usize,
    /// Number of desired groups.
    pub(crate) groups: usize,
    /// Number of rules that the switch rejected.
    pub(crate) rules_refused: usize,
    /// How the switch maps flows to next hops: `groups`, by its own hash; `bundles`, by Open
    /// vSwitch's hash with a basis that differs between switches; `shuffled-groups`, by select
    /// groups that contain every bucket several times, in an order that differs between switches.
    #[schema(example = "bundles")]
    pub(crate) spread: &'static str,
    /// Whether everything sent to the switch has been confirmed.
    pub(crate) is_settled: bool,
    /// Ports of the switch.
    pub(crate) ports: Vec<Port>,
}

/// A port as its switch describes it.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Port {
    /// Port number.
    pub(crate) port: u32,
    /// Port name.
    pub(crate) name: String,
    /// Ethernet address of the port.
    pub(crate) mac: String,
    /// Whether the port is up.
    pub(crate) is_up: bool,
    /// Speed reported by the switch, in kbit/s; virtual ports report wrong speeds.
    pub(crate) speed_kbps: u32,
}

/// A directed link between switches.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Link {
    /// Sending port.
    pub(crate) from: End,
    /// Receiving port.
    pub(crate) to: End,
    /// Whether the link is up.
    pub(crate) is_alive: bool,
    /// Configured capacity, in bit/s.
    pub(crate) capacity_bps: u64,
    /// Measured one-way latency, in µs.
    pub(crate) latency_us: Option<f64>,
    /// Load by the latest counter samples, in bit/s; null unless the balancer requests counters.
    pub(crate) load_bps: Option<u64>,
}

/// A host at its current location.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Host {
    /// IPv4 address.
    pub(crate) ipv4: String,
    /// Ethernet address.
    pub(crate) mac: String,
    /// Switch port the host is connected to.
    pub(crate) at: End,
    /// Whether that port is up.
    pub(crate) is_alive: bool,
}

/// A flow known to the balancer.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Flow {
    /// Source address.
    pub(crate) src: String,
    /// Destination address.
    pub(crate) dst: String,
    /// IP protocol; 0 if the flow is all traffic between two hosts.
    pub(crate) protocol: u8,
    /// Source port.
    pub(crate) src_port: u16,
    /// Destination port.
    pub(crate) dst_port: u16,
    /// Time since the flow was first seen, in seconds.
    pub(crate) age_s: f64,
    /// Bytes counted so far.
    pub(crate) bytes: u64,
    /// Rate between the last two counter samples, in bit/s.
    pub(crate) rate_bps: Option<u64>,
    /// Total size in bytes, if the host reported it.
    pub(crate) size_bytes: Option<u64>,
    /// Sending ports of the flow's own path; null if it follows splits or default routes.
    pub(crate) path: Option<Vec<End>>,
}

/// The desired routing. Precedence: paths of single flows (see `/v1/flows`), traffic splits,
/// default routes.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Paths {
    /// Traffic between two edge switches divided over weighted paths.
    pub(crate) pairs: Vec<Pair>,
    /// Default routes: next hops of all other traffic.
    pub(crate) next_hops: Vec<NextHops>,
}

/// A traffic split: traffic between two edge switches, divided by hash.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Pair {
    /// Datapath id of the source switch.
    pub(crate) from: String,
    /// Datapath id of the destination switch.
    pub(crate) to: String,
    /// Paths of the split.
    pub(crate) paths: Vec<SharedPath>,
}

/// A path with its weight.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct SharedPath {
    /// Share relative to the other paths.
    pub(crate) weight: u16,
    /// Sending ports along the path.
    pub(crate) path: Vec<End>,
}

/// Next hops at a switch towards an edge switch.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct NextHops {
    /// Datapath id of the switch.
    pub(crate) at: String,
    /// Datapath id of the destination switch.
    pub(crate) to: String,
    /// Ports of the next hops.
    pub(crate) hops: Vec<SharedPort>,
}

/// A port with its weight.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct SharedPort {
    /// Port number.
    pub(crate) port: u32,
    /// Share relative to the other ports.
    pub(crate) weight: u16,
}

/// A desired select group.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Group {
    /// Datapath id of the switch.
    pub(crate) switch: String,
    /// Group id.
    pub(crate) group: u32,
    /// Buckets of the group.
    pub(crate) buckets: Vec<GroupBucket>,
}

/// A bucket of a group.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct GroupBucket {
    /// Share relative to the other buckets.
    pub(crate) weight: u16,
    /// Port that must be up for the bucket to be used.
    pub(crate) watch_port: Option<u32>,
    /// Actions in the syntax of `ovs-ofctl`.
    pub(crate) actions: Vec<String>,
}

/// Counters of the controller since its start.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Statistics {
    /// Time since the start, in seconds.
    pub(crate) uptime_s: f64,
    /// Number of open connections.
    pub(crate) connections: usize,
    /// Number of open connections that have not finished the handshake.
    pub(crate) handshaking: usize,
    /// Number of OpenFlow sessions.
    pub(crate) sessions: usize,
    /// Whether no message waits to be sent or confirmed.
    pub(crate) is_settled: bool,
    /// Flow-mods sent.
    pub(crate) flow_mods: u64,
    /// Group-mods sent.
    pub(crate) group_mods: u64,
    /// Packet-ins received.
    pub(crate) packet_ins: u64,
    /// Packet-outs sent.
    pub(crate) packet_outs: u64,
    /// Statistics requests sent.
    pub(crate) polls: u64,
    /// Decisions of the balancer.
    pub(crate) decisions: u64,
    /// Flows migrated between paths.
    pub(crate) moves: u64,
    /// Counter samples ignored because the switch had not refreshed them.
    pub(crate) stale_samples: u64,
    /// First packets and reports of flows over the limit of flows, which the balancer does not
    /// receive.
    pub(crate) flows_untold: u64,
    /// Packets from hosts over the host limits.
    pub(crate) hosts_refused: u64,
    /// ARP requests for unknown hosts that were suppressed: repeated too soon, or above the rate of
    /// their port.
    pub(crate) questions_dropped: u64,
}

/// A balancer with its parameters.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Balancer {
    /// Specification, as on the command line.
    #[schema(example = "hedera:policy=gff")]
    pub(crate) spec: String,
    /// Name of the balancer.
    pub(crate) name: String,
    /// Human-readable name.
    pub(crate) title: String,
    /// One-sentence description.
    pub(crate) summary: String,
    /// Values of all parameters.
    pub(crate) parameters: BTreeMap<String, String>,
}

/// The balancer to use from now on.
#[derive(Clone, PartialEq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BalancerWanted {
    /// Specification, as on the command line; omitted parameters have their defaults.
    #[schema(example = "ecmp")]
    pub(crate) spec: String,
}

/// An available balancer.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct BalancerKind {
    /// Name of the balancer.
    pub(crate) name: String,
    /// Human-readable name.
    pub(crate) title: String,
    /// One-sentence description.
    pub(crate) summary: String,
    /// Publication that describes the balancer.
    pub(crate) source: String,
    /// Parameters of the balancer.
    pub(crate) parameters: Vec<Parameter>,
}

/// A parameter of a balancer.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Parameter {
    /// Name of the parameter.
    pub(crate) name: String,
    /// Default value.
    pub(crate) default: String,
    /// Meaning of the parameter.
    pub(crate) meaning: String,
}

impl End {
    pub(crate) fn new((datapath, port): (DatapathId, PortNo)) -> End {
        End { switch: dpid(datapath), port: port.0 }
    }
}

impl Switch {
    pub(crate) fn new(engine: &Engine, info: SwitchInfo) -> Switch {
        let peer = info.connection.and_then(|connection| engine.hub.peer(connection));
        let port = |port: openflow::PortDesc| Port {
            port: port.port.0,
            mac: port.hw_addr.to_string(),
            is_up: port.is_live(),
            speed_kbps: port.speed_kbps,
            name: port.name,
        };
        Switch {
            switch: dpid(info.datapath),
            is_connected: info.connection.is_some(),
            address: peer.map(|peer| peer.address.to_string()),
            since_s: engine.clock.now().saturating_sub(info.since).as_s_f64(),
            tables: info.features.map(|features| features.tables),
            rtt_us: info.rtt.map(Time::as_us_f64),
            rules: info.rules_wanted,
            groups: info.groups_wanted,
            rules_refused: info.rules_refused,
            spread: info.spread,
            is_settled: info.is_settled,
            ports: info.ports.into_iter().map(port).collect(),
        }
    }
}

impl Link {
    pub(crate) fn new(info: LinkInfo) -> Link {
        Link {
            from: End::new(info.from),
            to: End::new(info.to),
            is_alive: info.is_alive,
            capacity_bps: info.capacity.as_bps(),
            latency_us: info.latency.map(Time::as_us_f64),
            load_bps: info.load.map(|load| load.as_bps()),
        }
    }
}

impl Host {
    pub(crate) fn new(info: HostInfo) -> Host {
        let known = info.known;
        Host {
            ipv4: known.ipv4.to_string(),
            mac: known.mac.to_string(),
            at: End::new((known.datapath, known.port)),
            is_alive: info.is_alive,
        }
    }
}

/// Returns the sending ports along a path.
fn ends(engine: &Engine, path: &[LinkIx]) -> Vec<End> {
    let topology = engine.controller.topology();
    let end = |link: &LinkIx| {
        let datapath = engine.controller.datapath_of(topology.link(*link).from)?;
        Some(End::new((datapath, engine.controller.port_of(*link)?)))
    };
    path.iter().filter_map(end).collect()
}

impl Flow {
    pub(crate) fn new(engine: &Engine, flow: &FlowDetail) -> Flow {
        let (info, tuple) = (flow.facts, flow.facts.tuple);
        Flow {
            src: tuple.src.to_string(),
            dst: tuple.dst.to_string(),
            protocol: tuple.protocol,
            src_port: tuple.src_port,
            dst_port: tuple.dst_port,
            age_s: engine.clock.now().saturating_sub(info.started).as_s_f64(),
            bytes: info.bytes,
            rate_bps: info.rate.map(|rate| rate.as_bps()),
            size_bytes: info.size,
            path: flow.path.as_ref().map(|path| ends(engine, path)),
        }
    }
}

impl Paths {
    pub(crate) fn new(engine: &Engine) -> Paths {
        let controller = &engine.controller;
        let switch = |node| controller.datapath_of(node).map(dpid);
        let shared = |path: &WeightedPath| SharedPath { weight: path.weight, path: ends(engine, &path.path) };
        let pairs = controller.placements().splits().iter().filter_map(|((from, to), paths)| {
            Some(Pair { from: switch(*from)?, to: switch(*to)?, paths: paths.iter().map(shared).collect() })
        });
        let table = controller.hops().into_iter().flat_map(|table| &table.0);
        let next_hops = table.filter_map(|((at, to), hops)| {
            let hop = |hop: &balance::central::NextHop| {
                Some(SharedPort { port: controller.port_of(hop.link)?.0, weight: hop.weight })
            };
            Some(NextHops { at: switch(*at)?, to: switch(*to)?, hops: hops.iter().filter_map(hop).collect() })
        });
        Paths { pairs: pairs.collect(), next_hops: next_hops.collect() }
    }
}

impl Group {
    pub(crate) fn new(datapath: DatapathId, group: GroupDescription) -> Group {
        let bucket = |bucket: &Bucket| GroupBucket {
            weight: bucket.weight,
            watch_port: (bucket.watch_port != PortNo::ANY).then_some(bucket.watch_port.0),
            actions: bucket.actions.iter().map(action_text).collect(),
        };
        Group { switch: dpid(datapath), group: group.group.0, buckets: group.buckets.iter().map(bucket).collect() }
    }
}

/// Returns an action in the syntax of `ovs-ofctl`.
fn action_text(action: &Action) -> String {
    match action {
        Action::Output { port, .. } => format!("output:{}", port.0),
        Action::Group(group) => format!("group:{}", group.0),
        Action::PushVlan(eth_type) => format!("push_vlan:{eth_type:#06x}"),
        Action::PopVlan => "pop_vlan".to_owned(),
        Action::Bundle(bundle) => {
            let members: Vec<String> = bundle.ports().map(|port| port.0.to_string()).collect();
            format!("bundle(symmetric_l3l4+udp,{},hrw,ofport,members:{})", bundle.basis, members.join(","))
        }
        Action::SetField(SetField::VlanVid(vid)) => format!("set_field:{vid}->vlan_vid"),
        other => format!("{other:?}"),
    }
}

impl Statistics {
    pub(crate) fn new(engine: &Engine) -> Statistics {
        let tally = engine.controller.tally();
        Statistics {
            uptime_s: engine.clock.now().as_s_f64(),
            connections: engine.hub.count(),
            handshaking: engine.hub.handshaking(),
            sessions: engine.controller.session_count(),
            is_settled: engine.controller.is_settled(),
            flow_mods: tally.flow_mods,
            group_mods: tally.group_mods,
            packet_ins: tally.packet_ins,
            packet_outs: tally.packet_outs,
            polls: tally.polls,
            decisions: tally.decisions,
            moves: tally.moves,
            stale_samples: tally.stale_samples,
            flows_untold: tally.flows_untold,
            hosts_refused: tally.hosts_refused,
            questions_dropped: tally.questions_dropped,
        }
    }
}

impl Balancer {
    pub(crate) fn new(spec: &Spec) -> Balancer {
        Balancer {
            spec: spec.label(),
            name: spec.entry.name.to_owned(),
            title: spec.entry.title.to_owned(),
            summary: spec.entry.summary.to_owned(),
            parameters: spec.params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    }
}

impl BalancerKind {
    pub(crate) fn new(entry: &Entry) -> BalancerKind {
        let parameter = |param: &balance::params::Param| Parameter {
            name: param.name.to_owned(),
            default: param.default.to_owned(),
            meaning: param.doc.to_owned(),
        };
        BalancerKind {
            name: entry.name.to_owned(),
            title: entry.title.to_owned(),
            summary: entry.summary.to_owned(),
            source: entry.source.to_owned(),
            parameters: entry.params.iter().map(parameter).collect(),
        }
    }
}
