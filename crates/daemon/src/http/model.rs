//! What the API shows: its own copies, so that what is inside can change without it.

use std::collections::BTreeMap;

use balance::Spec;
use balance::central::WeightedPath;
use balance::registry::Entry;
use control::{FlowAt, HostAt, LinkFacts, SwitchFacts};
use net::{LinkIx, Time};
use openflow::{Action, Bucket, DatapathId, GroupDescription, PortNo, SetField};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::engine::Engine;
use crate::events::dpid;

/// A port of a switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct End {
    /// Number of the switch, 16 hexadecimal digits.
    #[schema(example = "00000000000000a1")]
    pub(crate) switch: String,
    /// Number of the port.
    pub(crate) port: u32,
}

/// A switch that has been in use since the controller started.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Switch {
    /// Number, 16 hexadecimal digits.
    #[schema(example = "00000000000000a1")]
    pub(crate) switch: String,
    /// Whether it is connected.
    pub(crate) is_connected: bool,
    /// Address it is connected from.
    pub(crate) address: Option<String>,
    /// How long it has been connected, or away, s.
    pub(crate) since_s: f64,
    /// Tables of its pipeline, while it is connected.
    pub(crate) tables: Option<u8>,
    /// Round trip of the latest echo, µs.
    pub(crate) rtt_us: Option<f64>,
    /// Rules it should have.
    pub(crate) rules: usize,
    /// Groups it should have.
    pub(crate) groups: usize,
    /// Rules it would not have.
    pub(crate) rules_refused: usize,
    /// How it divides flows among next hops: `groups`, by its own hash; `bundles`, Open vSwitch's hash with a basis of its
    /// own; `shuffled-groups`, every bucket several times in an order of its own.
    #[schema(example = "bundles")]
    pub(crate) spread: &'static str,
    /// Whether everything sent to it has been confirmed.
    pub(crate) is_settled: bool,
    /// Its ports.
    pub(crate) ports: Vec<Port>,
}

/// A port as its switch describes it.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Port {
    /// Number.
    pub(crate) port: u32,
    /// Name.
    pub(crate) name: String,
    /// Ethernet address.
    pub(crate) mac: String,
    /// Whether packets pass.
    pub(crate) is_up: bool,
    /// Rate as the switch reports it, kbit/s; virtual ports report wrong ones.
    pub(crate) speed_kbps: u32,
}

/// A directed link between switches.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Link {
    /// Sending end.
    pub(crate) from: End,
    /// Receiving end.
    pub(crate) to: End,
    /// Whether it is believed alive.
    pub(crate) is_alive: bool,
    /// Configured capacity, bit/s.
    pub(crate) capacity_bps: u64,
    /// One-way latency as measured, µs.
    pub(crate) latency_us: Option<f64>,
    /// Load by the latest counters, bit/s; only where the balancer has counters polled.
    pub(crate) load_bps: Option<u64>,
}

/// A host where it is now.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Host {
    /// IPv4 address.
    pub(crate) ipv4: String,
    /// Ethernet address.
    pub(crate) mac: String,
    /// Where it is.
    pub(crate) at: End,
    /// Whether its port is alive.
    pub(crate) is_alive: bool,
}

/// A flow the balancer knows.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Flow {
    /// Sender's address.
    pub(crate) src: String,
    /// Receiver's address.
    pub(crate) dst: String,
    /// IP protocol; 0 where a flow is all traffic of a pair of hosts.
    pub(crate) protocol: u8,
    /// Sender's port.
    pub(crate) src_port: u16,
    /// Receiver's port.
    pub(crate) dst_port: u16,
    /// Time since it was first seen, s.
    pub(crate) age_s: f64,
    /// Bytes counted.
    pub(crate) bytes: u64,
    /// Rate over the last two samples, bit/s.
    pub(crate) rate_bps: Option<u64>,
    /// Bytes it will have sent in all, where its host said so.
    pub(crate) size_bytes: Option<u64>,
    /// Path of its own; null if it goes with all others.
    pub(crate) path: Option<Vec<End>>,
}

/// Where traffic goes, from the most to the least particular: flows (see there), pairs of switches, everything else.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Paths {
    /// Traffic between two switches divided among paths.
    pub(crate) pairs: Vec<Pair>,
    /// Next hops of all other traffic.
    pub(crate) next_hops: Vec<NextHops>,
}

/// Traffic between the hosts of two switches, divided by hash.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Pair {
    /// Switch of the senders.
    pub(crate) from: String,
    /// Switch of the receivers.
    pub(crate) to: String,
    /// Its paths.
    pub(crate) paths: Vec<SharedPath>,
}

/// A path with its share.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct SharedPath {
    /// Share relative to the other paths.
    pub(crate) weight: u16,
    /// Sending ports on the way.
    pub(crate) path: Vec<End>,
}

/// Next hops at a switch towards another.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct NextHops {
    /// At this switch.
    pub(crate) at: String,
    /// Towards the hosts of this one.
    pub(crate) to: String,
    /// By these ports.
    pub(crate) hops: Vec<SharedPort>,
}

/// A port with its share.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct SharedPort {
    /// Number of the port.
    pub(crate) port: u32,
    /// Share relative to the others.
    pub(crate) weight: u16,
}

/// A select group that should be on a switch.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Group {
    /// Switch.
    pub(crate) switch: String,
    /// Number of the group.
    pub(crate) group: u32,
    /// Alternatives.
    pub(crate) buckets: Vec<GroupBucket>,
}

/// An alternative of a group.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct GroupBucket {
    /// Share relative to the others.
    pub(crate) weight: u16,
    /// Port whose life decides about it.
    pub(crate) watch_port: Option<u32>,
    /// What it does.
    pub(crate) actions: Vec<String>,
}

/// What control has cost since the controller started.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Statistics {
    /// How long it has been running, s.
    pub(crate) uptime_s: f64,
    /// Open connections.
    pub(crate) connections: usize,
    /// Those of them that have not finished the handshake.
    pub(crate) handshaking: usize,
    /// Conversations the controller keeps in mind.
    pub(crate) sessions: usize,
    /// Whether nothing is waiting to be sent or confirmed anywhere.
    pub(crate) is_settled: bool,
    /// Rule changes sent.
    pub(crate) flow_mods: u64,
    /// Group changes sent.
    pub(crate) group_mods: u64,
    /// Packets received from switches.
    pub(crate) packet_ins: u64,
    /// Packets sent by switches for the controller.
    pub(crate) packet_outs: u64,
    /// Statistics requests sent.
    pub(crate) polls: u64,
    /// Times the balancer was asked.
    pub(crate) decisions: u64,
    /// Flows moved between paths.
    pub(crate) moves: u64,
    /// Counter samples not used because the switch had not refreshed them.
    pub(crate) stale_samples: u64,
    /// First packets and reports of flows beyond the limit of flows: the balancer was not told.
    pub(crate) flows_untold: u64,
    /// Packets from hosts beyond the limits of hosts.
    pub(crate) hosts_refused: u64,
    /// Questions for unknown hosts (ARP) that were not passed on: asked a moment ago, or more than a port may ask.
    pub(crate) questions_dropped: u64,
}

/// A balancer with its parameters.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Balancer {
    /// As it is written on the command line.
    #[schema(example = "hedera:policy=gff")]
    pub(crate) spec: String,
    /// Name.
    pub(crate) name: String,
    /// Name for people.
    pub(crate) title: String,
    /// What it does.
    pub(crate) summary: String,
    /// Values of all its parameters.
    pub(crate) parameters: BTreeMap<String, String>,
}

/// A balancer wanted from now on.
#[derive(Clone, PartialEq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BalancerWanted {
    /// As it is written on the command line; parameters not named have their defaults.
    #[schema(example = "ecmp")]
    pub(crate) spec: String,
}

/// A balancer there is.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct BalancerKind {
    /// Name.
    pub(crate) name: String,
    /// Name for people.
    pub(crate) title: String,
    /// What it does.
    pub(crate) summary: String,
    /// Where it was published.
    pub(crate) source: String,
    /// Its parameters.
    pub(crate) parameters: Vec<Parameter>,
}

/// A parameter of a balancer.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Parameter {
    /// Name.
    pub(crate) name: String,
    /// Value if nothing is said.
    pub(crate) default: String,
    /// What it means.
    pub(crate) meaning: String,
}

impl End {
    pub(crate) fn new((datapath, port): (DatapathId, PortNo)) -> End {
        End { switch: dpid(datapath), port: port.0 }
    }
}

impl Switch {
    pub(crate) fn new(engine: &Engine, facts: SwitchFacts) -> Switch {
        let peer = facts.connection.and_then(|connection| engine.hub.peer(connection));
        let port = |port: openflow::PortDesc| Port {
            port: port.port.0,
            mac: port.hw_addr.to_string(),
            is_up: port.is_live(),
            speed_kbps: port.speed_kbps,
            name: port.name,
        };
        Switch {
            switch: dpid(facts.datapath),
            is_connected: facts.connection.is_some(),
            address: peer.map(|peer| peer.address.to_string()),
            since_s: engine.clock.now().saturating_sub(facts.since).as_s_f64(),
            tables: facts.features.map(|features| features.tables),
            rtt_us: facts.rtt.map(Time::as_us_f64),
            rules: facts.rules_wanted,
            groups: facts.groups_wanted,
            rules_refused: facts.rules_refused,
            spread: facts.spread,
            is_settled: facts.is_settled,
            ports: facts.ports.into_iter().map(port).collect(),
        }
    }
}

impl Link {
    pub(crate) fn new(facts: LinkFacts) -> Link {
        Link {
            from: End::new(facts.from),
            to: End::new(facts.to),
            is_alive: facts.is_alive,
            capacity_bps: facts.capacity.as_bps(),
            latency_us: facts.latency.map(Time::as_us_f64),
            load_bps: facts.load.map(|load| load.as_bps()),
        }
    }
}

impl Host {
    pub(crate) fn new(facts: HostAt) -> Host {
        let known = facts.known;
        Host {
            ipv4: known.ipv4.to_string(),
            mac: known.mac.to_string(),
            at: End::new((known.datapath, known.port)),
            is_alive: facts.is_alive,
        }
    }
}

/// Sending ports along a path.
fn ends(engine: &Engine, path: &[LinkIx]) -> Vec<End> {
    let topology = engine.controller.topology();
    let end = |link: &LinkIx| {
        let datapath = engine.controller.datapath_of(topology.link(*link).from)?;
        Some(End::new((datapath, engine.controller.port_of(*link)?)))
    };
    path.iter().filter_map(end).collect()
}

impl Flow {
    pub(crate) fn new(engine: &Engine, flow: &FlowAt) -> Flow {
        let (facts, tuple) = (flow.facts, flow.facts.tuple);
        Flow {
            src: tuple.src.to_string(),
            dst: tuple.dst.to_string(),
            protocol: tuple.protocol,
            src_port: tuple.src_port,
            dst_port: tuple.dst_port,
            age_s: engine.clock.now().saturating_sub(facts.started).as_s_f64(),
            bytes: facts.bytes,
            rate_bps: facts.rate.map(|rate| rate.as_bps()),
            size_bytes: facts.size,
            path: flow.path.as_ref().map(|path| ends(engine, path)),
        }
    }
}

impl Paths {
    pub(crate) fn new(engine: &Engine) -> Paths {
        let controller = &engine.controller;
        let switch = |node| controller.datapath_of(node).map(dpid);
        let shared = |path: &WeightedPath| SharedPath { weight: path.weight, path: ends(engine, &path.path) };
        let pairs = controller.placements().pairs().iter().filter_map(|((from, to), paths)| {
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
            actions: bucket.actions.iter().map(words).collect(),
        };
        Group { switch: dpid(datapath), group: group.group.0, buckets: group.buckets.iter().map(bucket).collect() }
    }
}

/// An action, as `ovs-ofctl` writes it.
fn words(action: &Action) -> String {
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
