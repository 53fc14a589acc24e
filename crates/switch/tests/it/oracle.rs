//! Comparison with a model that scans all entries, field by field, as the specification describes.

use core::net::Ipv4Addr;
use std::cmp::Reverse;

use crate::common::{Bench, config, tcp};
use anabranch_switch::{Config, Switch};
use openflow::headers::{ether, protocol};
use openflow::{
    Action, ErrorKind, FlowMod, FlowModCommand, FlowModFailed, FlowModFlags, FlowStats, GroupId, Headers, Instructions,
    MacAddr, Masked, Match, Message, PortNo, TableId, VlanMatch,
};
use proptest::prelude::*;

const TABLES: u8 = 3;
const ROOM: usize = 8;

fn is<T: PartialEq>(wanted: Option<T>, has: T) -> bool {
    wanted.is_none_or(|wanted| wanted == has)
}

fn agrees(wanted: Option<(u64, u64)>, has: u64) -> bool {
    wanted.is_none_or(|(value, mask)| has & mask == value)
}

fn mac_bits(mac: MacAddr) -> u64 {
    mac.0.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

fn mac(masked: Option<Masked<MacAddr>>) -> Option<(u64, u64)> {
    masked.map(|masked| (mac_bits(masked.value), mac_bits(masked.mask)))
}

fn ip(masked: Option<Masked<Ipv4Addr>>) -> Option<(u64, u64)> {
    masked.map(|masked| (u64::from(u32::from(masked.value)), u64::from(u32::from(masked.mask))))
}

fn metadata(masked: Option<Masked<u64>>) -> Option<(u64, u64)> {
    masked.map(|masked| (masked.value, masked.mask))
}

fn bits(flags: Option<Masked<u16>>) -> Option<(u64, u64)> {
    flags.map(|flags| (u64::from(flags.value), u64::from(flags.mask)))
}

fn matches(m: &Match, in_port: PortNo, noted: u64, headers: &Headers) -> bool {
    let is_arp = headers.eth_type == ether::ARP;
    let is_vlan = match m.vlan {
        None => true,
        Some(VlanMatch::Untagged) => headers.vlan.is_none(),
        Some(VlanMatch::Tagged) => headers.vlan.is_some(),
        Some(VlanMatch::Id(vid)) => headers.vlan == Some(vid),
    };
    let (src, dst) = (u64::from(u32::from(headers.ipv4_src)), u64::from(u32::from(headers.ipv4_dst)));
    let is_proto = |proto| headers.ip_proto == proto;
    is(m.in_port, in_port)
        && agrees(metadata(m.metadata), noted)
        && agrees(mac(m.eth_dst), mac_bits(headers.eth_dst))
        && agrees(mac(m.eth_src), mac_bits(headers.eth_src))
        && is(m.eth_type, headers.eth_type)
        && is_vlan
        && (m.vlan_pcp.is_none() || headers.vlan.is_some() && is(m.vlan_pcp, headers.vlan_pcp))
        && is(m.ip_dscp, headers.ip_dscp)
        && is(m.ip_ecn, headers.ip_ecn)
        && is(m.ip_proto, headers.ip_proto)
        && (is_arp || agrees(ip(m.ipv4_src), src) && agrees(ip(m.ipv4_dst), dst))
        && (!is_arp || is(m.arp_op, headers.arp_op) && agrees(ip(m.arp_spa), src) && agrees(ip(m.arp_tpa), dst))
        && (!is_proto(protocol::TCP) || is(m.tcp_src, headers.l4_src) && is(m.tcp_dst, headers.l4_dst))
        && agrees(bits(m.tcp_flags), u64::from(headers.tcp_flags))
        && (!is_proto(protocol::UDP) || is(m.udp_src, headers.l4_src) && is(m.udp_dst, headers.l4_dst))
}

#[derive(Clone, Copy)]
struct Relation {
    covers: bool,
    overlaps: bool,
}

fn exact<T: PartialEq>(a: Option<T>, b: Option<T>) -> Relation {
    let covers = a.is_none() || a == b;
    Relation { covers, overlaps: covers || b.is_none() }
}

fn masked(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Relation {
    let ((a, am), (b, bm)) = (a.unwrap_or((0, 0)), b.unwrap_or((0, 0)));
    Relation { covers: am & bm == am && b & am == a, overlaps: (a ^ b) & am & bm == 0 }
}

fn vlan(a: Option<VlanMatch>, b: Option<VlanMatch>) -> Relation {
    let covers = match (a, b) {
        (None, _) | (Some(VlanMatch::Tagged), Some(VlanMatch::Tagged | VlanMatch::Id(_))) => true,
        (a, b) => a == b,
    };
    let is_below = matches!((a, b), (_, None) | (Some(VlanMatch::Id(_)), Some(VlanMatch::Tagged)));
    Relation { covers, overlaps: covers || is_below }
}

fn relate(a: &Match, b: &Match) -> Relation {
    let fields = [
        exact(a.in_port, b.in_port),
        masked(metadata(a.metadata), metadata(b.metadata)),
        masked(mac(a.eth_dst), mac(b.eth_dst)),
        masked(mac(a.eth_src), mac(b.eth_src)),
        exact(a.eth_type, b.eth_type),
        vlan(a.vlan, b.vlan),
        exact(a.vlan_pcp, b.vlan_pcp),
        exact(a.ip_dscp, b.ip_dscp),
        exact(a.ip_ecn, b.ip_ecn),
        exact(a.ip_proto, b.ip_proto),
        masked(ip(a.ipv4_src), ip(b.ipv4_src)),
        masked(ip(a.ipv4_dst), ip(b.ipv4_dst)),
        exact(a.tcp_src, b.tcp_src),
        exact(a.tcp_dst, b.tcp_dst),
        masked(bits(a.tcp_flags), bits(b.tcp_flags)),
        exact(a.udp_src, b.udp_src),
        exact(a.udp_dst, b.udp_dst),
        exact(a.arp_op, b.arp_op),
        masked(ip(a.arp_spa), ip(b.arp_spa)),
        masked(ip(a.arp_tpa), ip(b.arp_tpa)),
    ];
    Relation { covers: fields.iter().all(|field| field.covers), overlaps: fields.iter().all(|field| field.overlaps) }
}

#[derive(Default)]
struct Model(Vec<FlowStats>);

impl Model {
    fn is_same(entry: &FlowStats, flow_mod: &FlowMod) -> bool {
        let there_and_back =
            relate(&entry.match_, &flow_mod.match_).covers && relate(&flow_mod.match_, &entry.match_).covers;
        entry.table == flow_mod.table && entry.priority == flow_mod.priority && there_and_back
    }

    fn is_meant(entry: &FlowStats, flow_mod: &FlowMod) -> bool {
        use FlowModCommand::{DeleteStrict, ModifyStrict};
        let is_table = flow_mod.table == TableId::ALL || flow_mod.table == entry.table;
        let is_cookie = entry.cookie & flow_mod.cookie_mask == flow_mod.cookie & flow_mod.cookie_mask;
        let is_match = match flow_mod.command {
            ModifyStrict | DeleteStrict => Model::is_same(entry, &FlowMod { table: entry.table, ..flow_mod.clone() }),
            _ => relate(&flow_mod.match_, &entry.match_).covers,
        };
        is_table && is_cookie && is_match
    }

    fn flow_mod(&mut self, flow_mod: &FlowMod) -> Result<(), ErrorKind> {
        match flow_mod.command {
            FlowModCommand::Add => return self.add(flow_mod),
            FlowModCommand::Modify | FlowModCommand::ModifyStrict => {
                for entry in self.0.iter_mut().filter(|entry| Model::is_meant(entry, flow_mod)) {
                    entry.instructions = flow_mod.instructions.clone();
                    if flow_mod.flags.reset_counts {
                        (entry.packets, entry.bytes) = (0, 0);
                    }
                }
            }
            FlowModCommand::Delete | FlowModCommand::DeleteStrict => {
                let sends = |entry: &FlowStats| {
                    flow_mod.out_port == PortNo::ANY
                        || entry.instructions.apply.contains(&Action::output(flow_mod.out_port))
                        || entry.instructions.write.contains(&Action::output(flow_mod.out_port))
                };
                // No entry uses a group here.
                let is_gone = |entry: &FlowStats| {
                    Model::is_meant(entry, flow_mod) && sends(entry) && flow_mod.out_group == GroupId::ANY
                };
                self.0.retain(|entry| !is_gone(entry));
            }
        }
        Ok(())
    }

    fn add(&mut self, flow_mod: &FlowMod) -> Result<(), ErrorKind> {
        let rivals = |entry: &&FlowStats| entry.table == flow_mod.table && entry.priority == flow_mod.priority;
        let overlaps = |entry: &FlowStats| relate(&entry.match_, &flow_mod.match_).overlaps;
        if flow_mod.flags.check_overlap && self.0.iter().filter(rivals).any(overlaps) {
            return Err(ErrorKind::FlowModFailed(FlowModFailed::Overlap));
        }
        let same = self.0.iter().position(|entry| Model::is_same(entry, flow_mod));
        if same.is_none() && self.0.iter().filter(|entry| entry.table == flow_mod.table).count() == ROOM {
            return Err(ErrorKind::FlowModFailed(FlowModFailed::TableFull));
        }
        let old = same.map(|at| self.0.remove(at)).filter(|_| !flow_mod.flags.reset_counts);
        let (packets, bytes) = old.map_or((0, 0), |old| (old.packets, old.bytes));
        self.0.push(FlowStats {
            table: flow_mod.table,
            priority: flow_mod.priority,
            flags: flow_mod.flags,
            cookie: flow_mod.cookie,
            packets,
            bytes,
            match_: flow_mod.match_,
            instructions: flow_mod.instructions.clone(),
            ..FlowStats::default()
        });
        self.0.sort_by_key(|entry| (entry.table, Reverse(entry.priority), entry.match_));
        Ok(())
    }

    /// Follows a packet that the switch has counted, on one of the best entries of each table.
    fn follow(&mut self, counted: &[FlowStats], in_port: PortNo, headers: &Headers) {
        let (mut noted, mut table) = (0, Some(TableId(0)));
        while let Some(at) = table {
            let is_match = |entry: &FlowStats| entry.table == at && matches(&entry.match_, in_port, noted, headers);
            let best = self.0.iter().filter(|entry| is_match(entry)).map(|entry| entry.priority).max();
            let hit: Vec<usize> = (0..self.0.len())
                .filter(|ix| self.0[*ix].table == at && counted[*ix].packets > self.0[*ix].packets)
                .collect();
            assert_eq!(hit.len(), usize::from(best.is_some()), "{at:?}: {hit:?} of {:#?} for {headers:?}", self.0);
            let Some(&ix) = hit.first() else { return };
            assert!(is_match(&self.0[ix]) && Some(self.0[ix].priority) == best, "{:?} for {headers:?}", self.0[ix]);
            let entry = &mut self.0[ix];
            (entry.packets, entry.bytes) = (entry.packets + 1, entry.bytes + 100);
            if let Some(metadata) = entry.instructions.metadata {
                noted = noted & !metadata.mask | metadata.value;
            }
            table = entry.instructions.goto;
        }
    }
}

fn addresses() -> impl Strategy<Value = Masked<Ipv4Addr>> {
    (0u32..4, prop::sample::select(vec![32u32, 31, 30, 0])).prop_map(|(host, len)| {
        let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
        Masked { value: Ipv4Addr::from((0x0a00_0000 | host) & mask), mask: Ipv4Addr::from(mask) }
    })
}

fn macs() -> impl Strategy<Value = Masked<MacAddr>> {
    (0u8..4, prop::sample::select(vec![0xffu8, 0xfe, 0x01])).prop_map(|(last, mask)| {
        if mask == 0xff {
            Masked::<MacAddr>::exact(MacAddr([2, 0, 0, 0, 1, last]))
        } else {
            Masked { value: MacAddr([0, 0, 0, 0, 0, last & mask]), mask: MacAddr([0, 0, 0, 0, 0, mask]) }
        }
    })
}

fn maybe<T: Clone + std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.35, strategy)
}

fn match_() -> impl Strategy<Value = Match> {
    let vlans = prop_oneof![Just(VlanMatch::Untagged), Just(VlanMatch::Tagged), (5u16..7).prop_map(VlanMatch::Id)];
    let metadata = (0u64..4, 1u64..4).prop_map(|(value, mask)| Masked { value: value & mask, mask });
    let bits = (0u16..4, 0u16..4).prop_map(|(value, mask)| Masked { value: value & mask, mask });
    let low = (maybe(1u32..3), maybe(metadata), maybe(macs()), maybe(macs()), maybe(vlans), maybe(0u8..2));
    let kind = prop_oneof![Just(0u8), Just(ether::IPV4 as u8), Just(1), Just(protocol::TCP), Just(protocol::UDP)];
    let high = (kind, maybe(addresses()), maybe(addresses()), maybe(80u16..82), maybe(80u16..82), maybe(0u8..2));
    (low, high, maybe(bits)).prop_map(
        |((in_port, metadata, eth_dst, eth_src, vlan, pcp), (kind, src, dst, l4_src, l4_dst, ecn), tcp_flags)| {
            let is_tagged = matches!(vlan, Some(VlanMatch::Tagged | VlanMatch::Id(_)));
            let in_port = in_port.map(PortNo);
            let base = Match {
                in_port,
                metadata,
                eth_dst,
                eth_src,
                vlan,
                vlan_pcp: pcp.filter(|_| is_tagged),
                ..Match::default()
            };
            let ipv4 = Match { eth_type: Some(ether::IPV4), ip_ecn: ecn, ipv4_src: src, ipv4_dst: dst, ..base };
            match kind {
                0 => ipv4,
                1 => Match {
                    eth_type: Some(ether::ARP),
                    arp_spa: src,
                    arp_tpa: dst,
                    arp_op: l4_src.map(|op| op - 79),
                    ..base
                },
                protocol::TCP => {
                    Match { ip_proto: Some(protocol::TCP), tcp_src: l4_src, tcp_dst: l4_dst, tcp_flags, ..ipv4 }
                }
                protocol::UDP => Match { ip_proto: Some(protocol::UDP), udp_src: l4_src, udp_dst: l4_dst, ..ipv4 },
                _ => base,
            }
        },
    )
}

fn flow_mod() -> impl Strategy<Value = FlowMod> {
    use FlowModCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
    let commands = prop_oneof![
        6 => Just(Add), 1 => Just(Modify), 1 => Just(ModifyStrict), 1 => Just(Delete), 1 => Just(DeleteStrict)
    ];
    let place = (0..TABLES, 0u16..3, match_(), commands, any::<bool>());
    let cookies =
        (0u64..4, prop::sample::select(vec![0u64, 1, 3]), prop_oneof![3 => Just(PortNo::ANY), 1 => Just(PortNo(2))]);
    let noted = maybe((0u64..4).prop_map(|value| Masked { value, mask: 3 }));
    let flags = (prop::bool::weighted(0.2), any::<bool>());
    (place, cookies, (2u32..4, noted, 1u8..3, any::<bool>()), flags).prop_map(
        |((table, priority, match_, command, is_all), (cookie, cookie_mask, out_port), does, flags)| {
            let (port, metadata, next, goes_on) = does;
            let goto = Some(TableId(table + next)).filter(|next| goes_on && next.0 < TABLES);
            let apply = vec![Action::output(PortNo(port))];
            let instructions = Instructions { apply, metadata, goto, ..Instructions::default() };
            let is_all = is_all && matches!(command, Delete | DeleteStrict);
            let table = if is_all { TableId::ALL } else { TableId(table) };
            let flags = FlowModFlags { check_overlap: flags.0, reset_counts: flags.1, ..FlowModFlags::default() };
            let add = FlowMod::add(table, priority, match_, instructions);
            FlowMod { command, cookie, cookie_mask, out_port, flags, ..add }
        },
    )
}

fn packet() -> impl Strategy<Value = (PortNo, Headers)> {
    let tags = prop::option::of((5u16..8, 0u8..2));
    (1u32..3, 0u8..4, 0u8..4, 0u8..3, 80u16..82, 80u16..82, tags, 0u8..2, 0u16..4).prop_map(
        |(in_port, src, dst, kind, l4_src, l4_dst, tag, ip_ecn, tcp_flags)| {
            let (vlan, vlan_pcp) = (tag.map(|tag| tag.0), tag.map_or(0, |tag| tag.1));
            let ip = Headers { l4_dst, vlan, vlan_pcp, ip_ecn, ..tcp(src, dst, l4_src) };
            let headers = match kind {
                0 => Headers { tcp_flags, ..ip },
                1 => Headers { ip_proto: protocol::UDP, ..ip },
                _ => Headers {
                    eth_type: ether::ARP,
                    ip_proto: 0,
                    ip_ecn: 0,
                    l4_src: 0,
                    l4_dst: 0,
                    arp_op: l4_src - 79,
                    ..ip
                },
            };
            (PortNo(in_port), headers)
        },
    )
}

fn bench() -> Bench {
    Bench::of(Switch::new(Config { supports_tcp_flags: true, ..config() }))
}

fn assert_same(bench: &Bench, model: &Model) {
    assert_eq!(bench.switch.entries(), model.0);
    assert_eq!(bench.switch.tally().entries as usize, model.0.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_switch_does_what_a_linear_scan_does(
        steps in prop::collection::vec(prop_oneof![flow_mod().prop_map(Ok), packet().prop_map(Err)], 1..80)
    ) {
        let (mut bench, mut model) = (bench(), Model::default());
        for step in steps {
            match step {
                Ok(flow_mod) => {
                    let expected = model.flow_mod(&flow_mod).err();
                    let got = bench.ask(Message::FlowMod(flow_mod.clone()));
                    let got = got.first().map(|answer| match answer {
                        Message::Error { kind, .. } => *kind,
                        other => panic!("{other:?}"),
                    });
                    prop_assert_eq!(got, expected, "{:?}", flow_mod);
                }
                Err((in_port, headers)) => {
                    let decision = bench.decide(in_port.0, &headers);
                    prop_assert!(bench.switch.is_current(&decision));
                    bench.switch.count(bench.now, in_port, &decision, 1, 100);
                    model.follow(&bench.switch.entries(), in_port, &headers);
                }
            }
            assert_same(&bench, &model);
        }
    }

    #[test]
    fn what_is_decided_depends_on_what_is_installed_not_on_how_it_came_there(
        mods in prop::collection::vec(flow_mod(), 1..12),
        packets in prop::collection::vec(packet(), 20),
    ) {
        let (mut one, mut other) = (bench(), bench());
        for flow_mod in mods {
            one.ask(Message::FlowMod(flow_mod));
        }
        // The same entries in reverse order, after some that are added and removed.
        for entry in one.switch.entries().into_iter().rev() {
            let add = FlowMod::add(entry.table, entry.priority, entry.match_, entry.instructions);
            let passing = FlowMod { priority: 9, ..add.clone() };
            other.ask(Message::FlowMod(passing.clone()));
            other.ask(Message::FlowMod(FlowMod { command: FlowModCommand::DeleteStrict, ..passing }));
            other.tell(Message::FlowMod(add));
        }
        for (in_port, headers) in packets {
            let (one, other) = (one.decide(in_port.0, &headers), other.decide(in_port.0, &headers));
            prop_assert_eq!(one.egress, other.egress);
            prop_assert_eq!(one.no_output, other.no_output);
        }
    }
}

#[test]
fn the_oracle_notices_a_difference() {
    let (mut bench, mut model) = (bench(), Model::default());
    bench.add(0, 1, Match::default(), Instructions::default());
    let decision = bench.decide(1, &tcp(1, 2, 80));
    bench.switch.count(bench.now, PortNo(1), &decision, 1, 100);
    let counted = bench.switch.entries();
    let _ = model.flow_mod(&FlowMod::add(TableId(0), 1, crate::common::to(3), Instructions::default()));
    let follow = std::panic::AssertUnwindSafe(|| model.follow(&counted, PortNo(1), &tcp(1, 2, 80)));
    assert!(std::panic::catch_unwind(follow).is_err());
}
