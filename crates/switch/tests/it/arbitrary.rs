//! Arbitrary messages in any order: no panic, one outcome each, consistent state and figures.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use crate::common::{Bench, C, config, port_desc, tcp, to};
use anabranch_switch::{Config, Output, Support, Switch};
use net::Time;
use openflow::frame::build;
use openflow::*;
use proptest::prelude::*;

const OTHER: ConnectionId = ConnectionId(2);
/// A connection that only monitors the rules.
const OBSERVER: ConnectionId = ConnectionId(3);

fn ports() -> impl Strategy<Value = PortNo> {
    let reserved = vec![
        PortNo::IN_PORT,
        PortNo::TABLE,
        PortNo::NORMAL,
        PortNo::FLOOD,
        PortNo::ALL,
        PortNo::CONTROLLER,
        PortNo::LOCAL,
        PortNo::ANY,
    ];
    prop_oneof![20 => (1u32..5).prop_map(PortNo), 1 => (0u32..6).prop_map(PortNo), 1 => prop::sample::select(reserved), 1 => any::<u32>().prop_map(PortNo)]
}

fn groups() -> impl Strategy<Value = GroupId> {
    prop_oneof![16 => (1u32..4).prop_map(GroupId), 2 => (4u32..6).prop_map(GroupId), 1 => Just(GroupId::ALL), 1 => Just(GroupId::ANY)]
}

fn tables() -> impl Strategy<Value = TableId> {
    prop_oneof![16 => (0u8..3).prop_map(TableId), 1 => Just(TableId(3)), 1 => Just(TableId::ALL)]
}

fn action() -> impl Strategy<Value = Action> {
    let field = (0u8..6, any::<u16>()).prop_map(|(kind, value)| match kind {
        0 => SetField::VlanVid(value % 4100),
        1 => SetField::VlanPcp((value % 9) as u8),
        2 => SetField::IpDscp((value % 65) as u8),
        3 => SetField::Ipv4Dst(u32::from(value).into()),
        4 => SetField::TcpDst(value),
        _ => SetField::EthDst(MacAddr([2, 0, 0, 0, 0, value as u8])),
    });
    prop_oneof![
        16 => (ports(), prop_oneof![Just(0u16), Just(64), Just(0xffff), any::<u16>()])
            .prop_map(|(port, max_len)| Action::Output { port, max_len }),
        12 => groups().prop_map(Action::Group),
        4 => field.prop_map(Action::SetField),
        1 => prop_oneof![Just(0x8100u16), Just(0x88a8)].prop_map(Action::PushVlan),
        1 => Just(Action::PopVlan),
        1 => prop_oneof![Just(Action::SetQueue(1)), Just(Action::DecNwTtl)],
    ]
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    prop::collection::vec(action(), 0..3)
}

fn match_() -> impl Strategy<Value = Match> {
    let tagged = Match { vlan: Some(VlanMatch::Tagged), ..Match::default() };
    prop_oneof![
        3 => (1u8..5).prop_map(to),
        1 => (1u8..5).prop_map(|dst| Match { ip_proto: Some(6), ..to(dst) }),
        1 => Just(tagged),
        1 => ports().prop_map(|port| Match { in_port: Some(port), ..Match::default() }),
        1 => any::<u8>().prop_map(|dscp| Match { ip_dscp: Some(dscp), ..Match::default() }),
        1 => Just(Match::default()),
    ]
}

prop_compose! {
    fn flow_mod()(
        command in prop::sample::select(vec![
            FlowModCommand::Add, FlowModCommand::Add, FlowModCommand::Add, FlowModCommand::Modify,
            FlowModCommand::ModifyStrict, FlowModCommand::Delete, FlowModCommand::DeleteStrict,
        ]),
        (table, priority, match_) in (tables(), 0u16..3, match_()),
        (apply, write, clear) in (actions(), actions(), any::<bool>()),
        (goto, meter) in (prop::option::weighted(0.3, tables()), prop::option::weighted(0.05, Just(1u32))),
        (idle_timeout_s, hard_timeout_s) in (0u16..4, 0u16..4),
        (out_port, out_group) in (
            prop_oneof![3 => Just(PortNo::ANY), 1 => ports()],
            prop_oneof![3 => Just(GroupId::ANY), 1 => groups()],
        ),
        (cookie, cookie_mask) in (0u64..4, prop::sample::select(vec![0u64, 1, u64::MAX])),
        buffer in prop_oneof![6 => Just(BufferId::NO_BUFFER), 1 => (0u32..5).prop_map(BufferId)],
        flags in any::<(bool, bool, bool)>(),
    ) -> FlowMod {
        let instructions = Instructions { meter, apply, clear, write, metadata: None, goto };
        let flags = FlowModFlags {
            send_flow_removed: flags.0, check_overlap: flags.1, reset_counts: flags.2, ..FlowModFlags::default()
        };
        FlowMod {
            cookie, cookie_mask, table, command, idle_timeout_s, hard_timeout_s, priority, buffer, out_port, out_group,
            flags, match_, instructions,
        }
    }
}

prop_compose! {
    fn group_mod()(
        command in prop::sample::select(vec![
            GroupModCommand::Add, GroupModCommand::Add, GroupModCommand::Modify, GroupModCommand::Delete,
        ]),
        kind in prop::sample::select(vec![
            GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover,
        ]),
        group in groups(),
        buckets in prop::collection::vec(
            (0u16..5, prop_oneof![2 => Just(PortNo::ANY), 1 => ports()], prop_oneof![4 => Just(GroupId::ANY), 1 => groups()],
                prop::collection::vec(action(), 0..3)),
            0..3,
        ),
    ) -> GroupMod {
        let bucket = |(weight, watch_port, watch_group, actions)| {
            // Groups that a type never accepts are rare; otherwise too few groups would exist.
            let weight = if kind == GroupKind::Select { weight } else { weight / 4 };
            let can_watch = matches!(kind, GroupKind::Select | GroupKind::FastFailover) || weight > 0;
            let watch_port = if can_watch { watch_port } else { PortNo::ANY };
            let watch_group = if can_watch { watch_group } else { GroupId::ANY };
            Bucket { weight, watch_port, watch_group, actions }
        };
        GroupMod { command, kind, group, buckets: buckets.into_iter().map(bucket).collect() }
    }
}

fn request() -> impl Strategy<Value = MultipartRequest> {
    let selection = || {
        (tables(), match_(), ports(), groups()).prop_map(|(table, match_, out_port, out_group)| FlowSelection {
            table,
            match_,
            out_port,
            out_group,
            ..FlowSelection::all()
        })
    };
    prop_oneof![
        Just(MultipartRequest::Desc),
        Just(MultipartRequest::Flow(FlowSelection::all())),
        selection().prop_map(MultipartRequest::Flow),
        selection().prop_map(MultipartRequest::Aggregate),
        Just(MultipartRequest::Table),
        ports().prop_map(MultipartRequest::Port),
        groups().prop_map(MultipartRequest::Group),
        Just(MultipartRequest::GroupDesc),
        Just(MultipartRequest::GroupFeatures),
        Just(MultipartRequest::PortDesc),
        Just(MultipartRequest::Queue { port: PortNo::ANY, queue: QueueId::ALL }),
        (0u32..2).prop_map(|meter| MultipartRequest::Meter(MeterId(meter))),
        Just(MultipartRequest::TableFeatures(Vec::new())),
        monitor().prop_map(|monitor| MultipartRequest::FlowMonitor(vec![monitor])),
        Just(MultipartRequest::Other { kind: 77, body: vec![1] }),
    ]
}

fn monitor() -> impl Strategy<Value = FlowMonitorRequest> {
    (0u32..3, any::<[bool; 6]>(), tables(), match_(), ports()).prop_map(|(id, flags, table, match_, out_port)| {
        let [initial, add, delete, modify, instructions, own] = flags;
        let flags = FlowMonitorFlags { initial, add, delete, modify, instructions, own };
        FlowMonitorRequest { id, flags, out_port, table, match_ }
    })
}

fn message() -> impl Strategy<Value = Message> {
    let data = prop_oneof![
        3 => (1u8..5).prop_map(|dst| build(&tcp(1, dst, 9), 20)),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    let packet_out =
        (prop_oneof![2 => Just(BufferId::NO_BUFFER), 1 => (0u32..5).prop_map(BufferId)], ports(), actions(), data)
            .prop_map(|(buffer, in_port, actions, data)| PacketOut { buffer, in_port, actions, data });
    let port_mod = (ports(), 1u32..3, 0u32..2).prop_map(|(port, mask, config)| PortMod {
        port,
        hw_addr: port_desc(port.0).hw_addr,
        config,
        mask,
        advertise: 0,
    });
    let roles = vec![ControllerRole::NoChange, ControllerRole::Equal, ControllerRole::Master, ControllerRole::Slave];
    let role = (prop::sample::select(roles), 0u64..4).prop_map(|(role, generation)| Role { role, generation });
    prop_oneof![
        12 => flow_mod().prop_map(Message::FlowMod),
        8 => group_mod().prop_map(Message::GroupMod),
        5 => packet_out.prop_map(Message::PacketOut),
        4 => request().prop_map(Message::MultipartRequest),
        2 => port_mod.prop_map(Message::PortMod),
        1 => role.prop_map(Message::RoleRequest),
        1 => Just(Message::BarrierRequest),
        1 => (0u32..3).prop_map(|id| Message::FlowMonitor(FlowMonitorControl::Cancel(id))),
        1 => Just(Message::FeaturesRequest),
        1 => Just(Message::GetConfigRequest),
        1 => Just(Message::BarrierReply),
        1 => prop::collection::vec(any::<u8>(), 0..4).prop_map(Message::EchoRequest),
        1 => (0u32..64).prop_map(|versions| Message::Hello { versions }),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Message(ConnectionId, Box<Message>),
    Frame(PortNo, u8),
    Link(PortNo, bool),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (prop::sample::select(vec![C, C, OTHER]), message()).prop_map(|(by, message)| Step::Message(by, Box::new(message))),
        2 => (ports(), 1u8..5).prop_map(|(port, dst)| Step::Frame(port, dst)),
        1 => (ports(), any::<bool>()).prop_map(|(port, is_live)| Step::Link(port, is_live)),
        1 => (0u64..2500).prop_map(Step::Wait),
    ]
}

fn is_answer(request: &Message, reply: &Message) -> bool {
    use Message::*;
    matches!(
        (request, reply),
        (EchoRequest(_), EchoReply(_))
            | (FeaturesRequest, FeaturesReply(_))
            | (GetConfigRequest, GetConfigReply(_))
            | (BarrierRequest, BarrierReply)
            | (RoleRequest(_), RoleReply(_))
            | (MultipartRequest(_), MultipartReply { .. })
            | (_, Error { .. })
    )
}

fn needs_answer(request: &Message) -> bool {
    use Message::*;
    !matches!(request, FlowMod(_) | GroupMod(_) | PacketOut(_) | PortMod(_) | FlowMonitor(_) | Hello { .. })
}

/// Asserts the replies to one request: none, one, or the parts of one.
fn assert_outcome(request: &Message, answers: &[Message]) {
    assert!(answers.iter().all(|answer| is_answer(request, answer)), "{request:?}: {answers:?}");
    let goes_on = |answer: &Message| matches!(answer, Message::MultipartReply { has_more: true, .. });
    match answers.split_last() {
        None => assert!(!needs_answer(request), "{request:?} has no answer"),
        Some((last, parts)) => assert!(parts.iter().all(goes_on) && !goes_on(last), "{request:?}: {answers:?}"),
    }
}

/// Asserts that reference counts of groups match the entries, and all references exist.
fn assert_consistent(bench: &mut Bench) {
    let (entries, groups) = (bench.switch.entries(), bench.switch.groups());
    let tally = bench.switch.tally();
    assert_eq!((tally.entries as usize, tally.groups as usize), (entries.len(), groups.len()));
    assert!(tally.entries <= tally.entries_max);
    let mut references: BTreeMap<GroupId, u32> = groups.iter().map(|group| (group.group, 0)).collect();
    let mut note = |used: Vec<GroupId>| {
        let mut used = used;
        used.sort();
        used.dedup();
        for group in used {
            *references.get_mut(&group).expect("the group exists") += 1;
        }
    };
    let called = |action: &Action| if let Action::Group(group) = action { Some(*group) } else { None };
    for FlowStats { instructions, .. } in &entries {
        note(instructions.apply.iter().chain(&instructions.write).filter_map(called).collect());
    }
    for group in &groups {
        let watched = group.buckets.iter().map(|bucket| bucket.watch_group).filter(|group| *group != GroupId::ANY);
        let calls = group.buckets.iter().flat_map(|bucket| bucket.actions.iter().filter_map(called));
        note(calls.chain(watched).collect());
    }
    let parts = bench.ask(Message::MultipartRequest(MultipartRequest::Group(GroupId::ALL)));
    let said = parts.into_iter().flat_map(|part| match part {
        Message::MultipartReply { reply: MultipartReply::Group(groups), .. } => groups,
        other => panic!("{other:?}"),
    });
    assert_eq!(said.map(|group| (group.group, group.references)).collect::<BTreeMap<_, _>>(), references);
}

type RuleKey = (TableId, u16, Match);
type Rule = (Instructions, u64);

/// The rules as a monitor of them all reports them.
#[derive(Default)]
struct Mirror(BTreeMap<RuleKey, Rule>);

impl Mirror {
    fn apply(&mut self, outputs: &[Output]) {
        for output in outputs {
            let Output::Message(OBSERVER, Envelope { message, .. }) = output else { continue };
            let Message::MultipartReply { reply: MultipartReply::FlowMonitor(updates), .. } = message else { continue };
            for update in updates {
                let FlowUpdate::Full(change) = update else { panic!("the observer changes nothing") };
                let key = (change.table, change.priority, change.match_);
                let rule = (change.instructions.clone(), change.cookie);
                let was = match change.event {
                    FlowEvent::Deleted(_) => self.0.remove(&key),
                    FlowEvent::Added | FlowEvent::Modified => self.0.insert(key, rule),
                };
                assert!(was.is_some() || change.event == FlowEvent::Added, "{change:?}");
            }
        }
    }

    fn assert_equals(&self, switch: &Switch) {
        let rule = |entry: FlowStats| ((entry.table, entry.priority, entry.match_), (entry.instructions, entry.cookie));
        assert_eq!(self.0, switch.entries().into_iter().map(rule).collect());
    }
}

fn play(steps: &[Step]) -> Vec<Output> {
    let support = Support { flow_monitors: true, ..Support::default() };
    let switch = Switch::new(Config { support, ..config() });
    let mut bench = Bench::of(switch.with_part_entries(NonZeroUsize::MIN));
    bench.open(OTHER);
    bench.open(OBSERVER);
    let all = MultipartRequest::FlowMonitor(vec![FlowMonitorRequest::all(1)]);
    assert_eq!(bench.ask_as(OBSERVER, Message::MultipartRequest(all)).len(), 1);
    let (mut outputs, mut mirror, mut seen) = (Vec::new(), Mirror::default(), 0);
    for (ix, step) in steps.iter().enumerate() {
        match step {
            Step::Message(by, message) => {
                let xid = Xid(1_000_000 + ix as u32);
                bench.handle(*by, xid, (**message).clone());
                let came = bench.drain();
                let mut answers = Vec::new();
                for output in &came {
                    match output {
                        Output::Message(to, envelope) if envelope.xid == xid => {
                            assert_eq!(to, by, "answers go to who asked");
                            answers.push(envelope.message.clone());
                        }
                        Output::Message(_, envelope) => assert_eq!(envelope.xid, Xid(0), "{envelope:?}"),
                        Output::Frame(port, _) => assert!((1..=4).contains(&port.0)),
                    }
                }
                assert_outcome(message, &answers);
                outputs.extend(came);
            }
            Step::Frame(port, dst) => {
                bench.switch.receive(bench.now, *port, &build(&tcp(1, *dst, 9), 20));
                outputs.extend(bench.drain());
            }
            Step::Link(port, is_live) => {
                bench.switch.set_port_live(bench.now, *port, *is_live);
                outputs.extend(bench.drain());
            }
            Step::Wait(ms) => {
                bench.now += Time::from_ms(*ms);
                bench.switch.handle_timeout(bench.now);
                assert!(bench.switch.poll_timeout().is_none_or(|at| at > bench.now));
                outputs.extend(bench.drain());
            }
        }
        mirror.apply(&outputs[seen..]);
        seen = outputs.len();
        mirror.assert_equals(&bench.switch);
        assert_consistent(&mut bench);
    }
    outputs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_messages_have_one_outcome_each_and_the_same_one_again(steps in prop::collection::vec(step(), 1..60)) {
        prop_assert_eq!(play(&steps), play(&steps));
    }
}
