//! Schema types of the API, separate from the internal types, so that these can change
//! independently.

use std::collections::BTreeMap;

use balance::Spec;
use balance::central::WeightedPath;
use balance::entry::Entry;
use balance::params::Param;
use control::{FlowDetail, HostInfo, LinkInfo, SwitchInfo};
use net::{LinkIx, Time};
use openflow::{Action, Bucket, DatapathId, GroupDescription, PortNo, SetField};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::engine::Engine;
use crate::events::dpid;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct SwitchPort {
    /// Datapath id of the switch, 16 hexadecimal digits.
    #[schema(example = "00000000000000a1")]
    pub(crate) dpid: String,
    pub(crate) port: u32,
}

/// A switch that has connected since the controller started.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Switch {
    /// Datapath id, 16 hexadecimal digits.
    #[schema(example = "00000000000000a1")]
    pub(crate) dpid: String,
    pub(crate) is_connected: bool,
    /// Peer address of the connection; null while disconnected.
    pub(crate) address: Option<String>,
    /// Time since the switch connected or disconnected, in seconds.
    pub(crate) state_duration_s: f64,
    /// Number of tables of the pipeline; null while disconnected.
    pub(crate) tables: Option<u8>,
    /// Round-trip time of the latest echo request, in µs.
    pub(crate) rtt_us: Option<f64>,
    pub(crate) rules: usize,
    pub(crate) groups: usize,
    /// Number of rules that the switch rejected.
    pub(crate) rules_refused: usize,
    /// Number of rules with one next hop instead of several, because the switch rejects groups.
    pub(crate) rules_with_single_next_hop: usize,
    /// Whether the switch has another controller as master: this one changes nothing there.
    pub(crate) has_other_master: bool,
    /// How the switch maps flows to next hops: `native`, by its own hash; `bundle`, by Open
    /// vSwitch's hash with a basis that differs between switches; `shuffled`, by select groups
    /// that contain every bucket several times, in an order that differs between switches; `single`,
    /// by one next hop for each destination, because the switch has no groups.
    #[schema(example = "bundle")]
    pub(crate) ecmp_hashing: &'static str,
    /// Whether everything sent to the switch has been confirmed.
    pub(crate) is_settled: bool,
    pub(crate) ports: Vec<Port>,
}

/// A port as its switch describes it.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Port {
    pub(crate) port: u32,
    pub(crate) name: String,
    pub(crate) mac: String,
    pub(crate) is_up: bool,
    /// Speed reported by the switch, in kbit/s; virtual ports report wrong speeds.
    pub(crate) speed_kbps: u32,
}

/// A directed link between switches.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Link {
    pub(crate) from: SwitchPort,
    pub(crate) to: SwitchPort,
    pub(crate) is_up: bool,
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
    pub(crate) ipv4: String,
    pub(crate) mac: String,
    /// Switch port the host is connected to.
    pub(crate) location: SwitchPort,
    /// Whether that port is up.
    pub(crate) is_up: bool,
}

/// A flow known to the balancer.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Flow {
    pub(crate) src: String,
    pub(crate) dst: String,
    /// IP protocol; 0 if the flow is all traffic between two hosts.
    pub(crate) protocol: u8,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    /// Time since the flow was first seen, in seconds.
    pub(crate) age_s: f64,
    pub(crate) bytes: u64,
    /// Rate between the last two counter samples, in bit/s.
    pub(crate) rate_bps: Option<u64>,
    /// Total size in bytes, if the host reported it.
    pub(crate) size_bytes: Option<u64>,
    /// Sending ports of the flow's own path; null if it follows splits or default routes.
    pub(crate) path: Option<Vec<SwitchPort>>,
}

/// The desired routing. Precedence: paths of single flows (see `/v1/flows`), traffic splits,
/// default routes.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Paths {
    /// Traffic between two edge switches divided over weighted paths.
    pub(crate) splits: Vec<Split>,
    /// Default routes: next hops of all other traffic.
    pub(crate) next_hops: Vec<NextHops>,
}

/// A traffic split: traffic between two edge switches, divided by hash.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Split {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) paths: Vec<SplitPath>,
}

#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct SplitPath {
    /// Share relative to the other paths.
    pub(crate) weight: u16,
    /// Sending ports along the path.
    pub(crate) path: Vec<SwitchPort>,
}

/// Next hops at a switch towards an edge switch.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct NextHops {
    pub(crate) dpid: String,
    pub(crate) to: String,
    pub(crate) hops: Vec<NextHop>,
}

#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct NextHop {
    pub(crate) port: u32,
    /// Share relative to the other ports.
    pub(crate) weight: u16,
}

#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Group {
    pub(crate) dpid: String,
    pub(crate) group: u32,
    pub(crate) buckets: Vec<GroupBucket>,
}

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
    pub(crate) connections: usize,
    /// Number of open connections that have not finished the handshake.
    pub(crate) handshaking: usize,
    pub(crate) sessions: usize,
    /// Whether no message waits to be sent or confirmed.
    pub(crate) is_settled: bool,
    pub(crate) flow_mods: u64,
    pub(crate) group_mods: u64,
    pub(crate) packet_ins: u64,
    pub(crate) packet_outs: u64,
    pub(crate) stats_requests: u64,
    pub(crate) balancer_decisions: u64,
    pub(crate) flow_migrations: u64,
    /// Counter samples ignored because the switch had not refreshed them.
    pub(crate) counter_samples_stale: u64,
    /// First packets and reports of flows over the limit of flows, which the balancer does not
    /// receive.
    pub(crate) flows_over_limit: u64,
    /// Rules and groups restored after a change behind the controller's back.
    pub(crate) rules_restored: u64,
    /// Packets from hosts over the host limits.
    pub(crate) host_packets_over_limit: u64,
    /// ARP requests that the controller has answered from its knowledge of hosts.
    pub(crate) arp_requests_answered: u64,
    /// ARP requests for unknown hosts that were relayed to all edge ports.
    pub(crate) arp_requests_relayed: u64,
    /// Locations that the directory of an addressing mode has told.
    pub(crate) directory_lookups: u64,
    /// Locations that the directory of an addressing mode has refused to tell.
    pub(crate) directory_lookups_refused: u64,
    /// Locations that were published, changed or withdrawn in that directory.
    pub(crate) directory_updates: u64,
    /// ARP requests for unknown hosts that were suppressed: repeated too soon, or above the rate of
    /// their port.
    pub(crate) arp_requests_suppressed: u64,
    /// ARP packets with a virtual sender address, or with that of a host at another port.
    pub(crate) arp_packets_rejected: u64,
    /// Packets that claimed the address of a host that is still at its port, or is configured.
    pub(crate) host_claims_rejected: u64,
    /// Discovery probes that arrived at ports with the role `host`.
    pub(crate) discovery_probes_rejected: u64,
}

/// A balancer with its parameters.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Balancer {
    /// Specification, as on the command line.
    #[schema(example = "hedera:policy=gff")]
    pub(crate) spec: String,
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) parameters: BTreeMap<String, String>,
}

/// The balancer to use from now on.
#[derive(Clone, PartialEq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BalancerRequest {
    /// Specification, as on the command line; omitted parameters have their defaults.
    #[schema(example = "ecmp")]
    pub(crate) spec: String,
}

/// An available balancer.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct BalancerKind {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) summary: &'static str,
    /// Publication that describes the balancer.
    pub(crate) source: &'static str,
    pub(crate) parameters: Vec<Parameter>,
}

#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) default: &'static str,
    pub(crate) meaning: &'static str,
}

impl SwitchPort {
    pub(crate) fn new((datapath, port): (DatapathId, PortNo)) -> SwitchPort {
        SwitchPort { dpid: dpid(datapath), port: port.0 }
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
            dpid: dpid(info.datapath),
            is_connected: info.connection.is_some(),
            address: peer.map(|peer| peer.address.to_string()),
            state_duration_s: engine.clock.now().saturating_sub(info.since).as_s_f64(),
            tables: info.features.map(|features| features.tables),
            rtt_us: info.rtt.map(Time::as_us_f64),
            rules: info.rules_wanted,
            groups: info.groups_wanted,
            rules_refused: info.rules_refused,
            rules_with_single_next_hop: info.rules_single,
            has_other_master: info.is_slave,
            ecmp_hashing: info.spread,
            is_settled: info.is_settled,
            ports: info.ports.into_iter().map(port).collect(),
        }
    }
}

impl Link {
    pub(crate) fn new(info: LinkInfo) -> Link {
        Link {
            from: SwitchPort::new(info.from),
            to: SwitchPort::new(info.to),
            is_up: info.is_alive,
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
            location: SwitchPort::new((known.datapath, known.port)),
            is_up: info.is_alive,
        }
    }
}

fn ends(engine: &Engine, path: &[LinkIx]) -> Vec<SwitchPort> {
    let topology = engine.controller.inspect().topology();
    let end = |link: &LinkIx| {
        let datapath = engine.controller.inspect().datapath_of(topology.link(*link).from)?;
        Some(SwitchPort::new((datapath, engine.controller.inspect().port_of(*link)?)))
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
        let switch = |node| controller.inspect().datapath_of(node).map(dpid);
        let shared = |path: &WeightedPath| SplitPath { weight: path.weight, path: ends(engine, &path.path) };
        let splits = controller.inspect().placements().splits().iter().filter_map(|((from, to), paths)| {
            Some(Split { from: switch(*from)?, to: switch(*to)?, paths: paths.iter().map(shared).collect() })
        });
        let columns = controller.inspect().hops().into_iter().flat_map(balance::central::HopTable::columns);
        let mut table: Vec<_> =
            columns.flat_map(|(to, column)| column.rows().iter().map(move |(at, hops)| (*at, to, hops))).collect();
        table.sort_unstable_by_key(|(at, to, _)| (*at, *to));
        let next_hops = table.into_iter().filter_map(|(at, to, hops)| {
            let hop = |hop: &balance::central::NextHop| {
                Some(NextHop { port: controller.inspect().port_of(hop.link)?.0, weight: hop.weight })
            };
            Some(NextHops { dpid: switch(at)?, to: switch(to)?, hops: hops.iter().filter_map(hop).collect() })
        });
        Paths { splits: splits.collect(), next_hops: next_hops.collect() }
    }
}

impl Group {
    pub(crate) fn new(datapath: DatapathId, group: GroupDescription) -> Group {
        let bucket = |bucket: &Bucket| GroupBucket {
            weight: bucket.weight,
            watch_port: (bucket.watch_port != PortNo::ANY).then_some(bucket.watch_port.0),
            actions: bucket.actions.iter().map(action_text).collect(),
        };
        Group { dpid: dpid(datapath), group: group.group.0, buckets: group.buckets.iter().map(bucket).collect() }
    }
}

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
            sessions: engine.controller.inspect().session_count(),
            is_settled: engine.controller.is_settled(),
            flow_mods: tally.flow_mods,
            group_mods: tally.group_mods,
            packet_ins: tally.packet_ins,
            packet_outs: tally.packet_outs,
            stats_requests: tally.polls,
            balancer_decisions: tally.decisions,
            flow_migrations: tally.moves,
            counter_samples_stale: tally.stale_samples,
            flows_over_limit: tally.flows_over_limit,
            rules_restored: tally.rules_restored,
            host_packets_over_limit: tally.hosts_refused,
            arp_requests_answered: tally.arp_requests_answered,
            arp_requests_relayed: tally.arp_requests_relayed,
            directory_lookups: tally.lookups,
            directory_lookups_refused: tally.lookups_refused,
            directory_updates: tally.directory_updates,
            arp_requests_suppressed: tally.arp_requests_suppressed,
            arp_packets_rejected: tally.arp_packets_rejected,
            host_claims_rejected: tally.host_claims_rejected,
            discovery_probes_rejected: tally.probes_rejected,
        }
    }
}

impl Balancer {
    pub(crate) fn new(spec: &Spec) -> Balancer {
        let Entry { name, title, summary, .. } = *spec.entry;
        let parameters = spec.params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Balancer { spec: spec.label(), name, title, summary, parameters }
    }
}

impl BalancerKind {
    pub(crate) fn new(entry: &Entry) -> BalancerKind {
        let &Entry { name, title, summary, source, params, .. } = entry;
        let parameter = |param: &Param| Parameter { name: param.name, default: param.default, meaning: param.doc };
        BalancerKind { name, title, summary, source, parameters: params.iter().map(parameter).collect() }
    }
}
