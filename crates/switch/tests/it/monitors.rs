//! Flow monitors, and rules that others change. Where a capture of Open vSwitch
//! (`crates/openflow/tests/captures`) exists, the same changes must cause the same updates.

use crate::common::{Bench, C, config, out, to};
use anabranch_switch::{Config, Output, Support};
use net::Time;
use openflow::flow_monitor::monitor_error;
use openflow::headers::ether;
use openflow::wire::decode;
use openflow::*;

const OTHER: ConnectionId = ConnectionId(2);

fn bench() -> Bench {
    Bench::new(Config { support: Support { flow_monitors: true, ..Support::default() }, ..config() })
}

fn monitor(id: u32, change: impl FnOnce(&mut FlowMonitorRequest)) -> Message {
    let mut request = FlowMonitorRequest::all(id);
    change(&mut request);
    Message::MultipartRequest(MultipartRequest::FlowMonitor(vec![request]))
}

fn error(kind: ErrorKind) -> Vec<Message> {
    vec![Message::Error { kind, data: Vec::new() }]
}

/// Returns the updates of a connection, which have transaction id 0.
fn updates(bench: &mut Bench, of: ConnectionId) -> Vec<FlowUpdate> {
    let mut updates = Vec::new();
    for output in bench.drain() {
        let Output::Message(to, envelope) = output else { continue };
        if let Message::MultipartReply { reply: MultipartReply::FlowMonitor(part), .. } = envelope.message
            && to == of
        {
            assert_eq!(envelope.xid, Xid(0));
            updates.extend(part);
        }
    }
    updates
}

fn captured(name: &str) -> Vec<FlowUpdate> {
    let path = format!("{}/../openflow/tests/captures/{name}.bin", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    match decode(&bytes) {
        Ok(Some((
            Envelope { message: Message::MultipartReply { reply: MultipartReply::FlowMonitor(updates), .. }, .. },
            _,
        ))) => updates,
        other => panic!("{name}: {other:?}"),
    }
}

fn ip_rule(port: u32) -> FlowMod {
    let ip = Match { eth_type: Some(ether::IPV4), ..Match::default() };
    FlowMod { cookie: 0x99, ..FlowMod::add(TableId(0), 7, ip, out(port)) }
}

fn change(bench: &mut Bench, flow_mod: FlowMod) {
    bench.switch.flow_mod_by_other(bench.now, flow_mod).expect("a valid change");
}

/// The changes are those of the live test of Open vSwitch, `live_monitor.rs` of the codec.
#[test]
fn updates_equal_those_of_open_vswitch() {
    let mut bench = bench();
    change(&mut bench, FlowMod { idle_timeout_s: 60, hard_timeout_s: 70, ..ip_rule(1) });
    let reply = bench.ask(monitor(5, |request| request.flags.initial = true));
    let [Message::MultipartReply { reply: MultipartReply::FlowMonitor(initial), has_more: false }] = &reply[..] else {
        panic!("{reply:?}")
    };
    assert_eq!(*initial, captured("monitor_initial"));
    change(&mut bench, FlowMod { command: FlowModCommand::Modify, ..ip_rule(2) });
    assert_eq!(updates(&mut bench, C), captured("monitor_modified"));
    change(&mut bench, ip_rule(1));
    assert_eq!(updates(&mut bench, C), captured("monitor_added"));
    // A modification without effect.
    change(&mut bench, FlowMod { command: FlowModCommand::Modify, ..ip_rule(1) });
    assert_eq!(updates(&mut bench, C), []);
    change(&mut bench, FlowMod { command: FlowModCommand::Delete, cookie: 0, ..ip_rule(1) });
    assert_eq!(updates(&mut bench, C), captured("monitor_deleted"));
    let arp = Match { eth_type: Some(ether::ARP), ..Match::default() };
    bench.handle(C, Xid(0x42), Message::FlowMod(FlowMod::add(TableId(0), 5, arp, out(1))));
    assert_eq!(updates(&mut bench, C), captured("monitor_abbreviated"));
}

#[test]
fn own_changes_are_abbreviated_once_and_others_are_full() {
    let mut bench = bench();
    bench.open(OTHER);
    bench.ask(monitor(1, |_| ()));
    bench.ask_as(OTHER, monitor(1, |request| request.flags.own = true));
    for host in 1..=3 {
        bench.handle(C, Xid(host.into()), Message::FlowMod(FlowMod::add(TableId(0), 5, to(host), out(1))));
        let messages = bench.drain();
        assert_eq!(messages.len(), 2, "{messages:?}");
    }
    let all = FlowMod {
        command: FlowModCommand::Delete,
        table: TableId::ALL,
        ..FlowMod::add(TableId(0), 0, Match::default(), out(1))
    };
    bench.handle(C, Xid(9), Message::FlowMod(all.clone()));
    bench.handle(C, Xid(10), Message::FlowMod(all));
    let messages = bench.drain();
    let of = |wanted: ConnectionId| {
        messages.iter().filter_map(move |output| match output {
            Output::Message(to, Envelope { message: Message::MultipartReply { reply, .. }, .. }) if *to == wanted => {
                Some(reply)
            }
            _ => None,
        })
    };
    assert_eq!(of(C).collect::<Vec<_>>(), [&MultipartReply::FlowMonitor(vec![FlowUpdate::Abbreviated(Xid(9))])]);
    let MultipartReply::FlowMonitor(updates) = of(OTHER).next().expect("an update") else { panic!() };
    let is_deletion = |update: &FlowUpdate| {
        matches!(update, FlowUpdate::Full(FlowChange { event: FlowEvent::Deleted(RemovedReason::Delete), .. }))
    };
    assert!(updates.len() == 3 && updates.iter().all(is_deletion), "{updates:?}");
    assert_eq!(of(OTHER).count(), 1);
}

#[test]
fn updates_arrive_before_the_barrier_reply_and_in_parts() {
    let mut bench = bench();
    bench.ask(monitor(1, |request| request.flags.own = true));
    bench.handle(C, Xid(5), Message::FlowMod(ip_rule(1)));
    bench.handle(C, Xid(6), Message::BarrierRequest);
    let kinds: Vec<bool> =
        bench.messages().iter().map(|(_, message)| matches!(message, Message::MultipartReply { .. })).collect();
    assert_eq!(kinds, [true, false]);

    let switch = anabranch_switch::Switch::new(Config {
        support: Support { flow_monitors: true, ..Support::default() },
        ..config()
    });
    let mut bench = Bench::of(switch.with_part_entries(2.try_into().expect("not zero")));
    (1..=5).for_each(|host| bench.add(0, 5, to(host), out(1)));
    let parts = bench.ask(monitor(1, |request| request.flags.initial = true));
    let lengths = parts.iter().map(|part| match part {
        Message::MultipartReply { reply: MultipartReply::FlowMonitor(updates), has_more } => (updates.len(), *has_more),
        other => panic!("{other:?}"),
    });
    assert_eq!(lengths.collect::<Vec<_>>(), [(2, true), (2, true), (1, false)]);
}

#[test]
fn monitors_select_by_table_port_match_and_event() {
    let reported = |prepare: &dyn Fn(&mut FlowMonitorRequest)| {
        let mut bench = bench();
        bench.add(0, 5, to(1), out(1));
        bench.ask(monitor(1, |request| prepare(request)));
        change(&mut bench, FlowMod::add(TableId(0), 5, to(2), out(2)));
        change(&mut bench, FlowMod::add(TableId(1), 5, to(3), out(2)));
        // The rule no longer sends to port 1; before it did.
        change(&mut bench, FlowMod { command: FlowModCommand::Modify, ..FlowMod::add(TableId(0), 5, to(1), out(3)) });
        change(&mut bench, FlowMod::delete_strict(TableId(0), 5, to(2)));
        let letter = |update| match update {
            FlowUpdate::Full(FlowChange { event: FlowEvent::Added, .. }) => 'a',
            FlowUpdate::Full(FlowChange { event: FlowEvent::Modified, .. }) => 'm',
            FlowUpdate::Full(FlowChange { event: FlowEvent::Deleted(_), .. }) => 'd',
            FlowUpdate::Abbreviated(_) => 'x',
        };
        updates(&mut bench, C).into_iter().map(letter).collect::<String>()
    };
    assert_eq!(reported(&|_| ()), "aamd");
    assert_eq!(reported(&|request| request.table = TableId(1)), "a");
    assert_eq!(reported(&|request| request.out_port = PortNo(1)), "m");
    assert_eq!(reported(&|request| request.match_ = to(2)), "ad");
    assert_eq!(reported(&|request| request.flags.add = false), "md");
    assert_eq!(reported(&|request| request.flags.delete = false), "aam");
    assert_eq!(reported(&|request| request.flags.modify = false), "aad");
}

#[test]
fn expired_rules_and_rules_of_deleted_groups_are_reported() {
    let mut bench = bench();
    bench.ask(monitor(1, |_| ()));
    change(&mut bench, FlowMod { hard_timeout_s: 2, ..ip_rule(1) });
    updates(&mut bench, C);
    bench.now = Time::from_s(3);
    bench.switch.handle_timeout(bench.now);
    let [FlowUpdate::Full(gone)] = &updates(&mut bench, C)[..] else { panic!() };
    assert_eq!((gone.event, gone.hard_timeout_s), (FlowEvent::Deleted(RemovedReason::HardTimeout), 2));
}

#[test]
fn changes_by_others_remove_rules_and_are_reported_as_removed() {
    let mut bench = bench();
    let flags = FlowModFlags { send_flow_removed: true, ..FlowModFlags::default() };
    bench.tell(Message::FlowMod(FlowMod { flags, ..ip_rule(1) }));
    change(&mut bench, FlowMod::delete_strict(TableId(0), 7, ip_rule(1).match_));
    let messages = bench.messages();
    let [(C, Message::FlowRemoved(removed))] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!((removed.cookie, removed.reason), (0x99, RemovedReason::Delete));
    assert_eq!(bench.switch.tally().entries, 0);
    let refused = bench.switch.flow_mod_by_other(bench.now, FlowMod::add(TableId(9), 1, to(1), out(1)));
    assert_eq!(refused, Err(ErrorKind::FlowModFailed(FlowModFailed::BadTableId)));
    assert_eq!(bench.drain(), [], "the controller does not learn of it");
}

/// Open vSwitch reports only deletions while its peer does not read, and everything else after.
#[test]
fn paused_monitors_catch_up() {
    let mut bench = bench();
    change(&mut bench, FlowMod::add(TableId(0), 1, to(1), out(1)));
    change(&mut bench, FlowMod::add(TableId(0), 2, to(2), out(1)));
    bench.ask(monitor(1, |_| ()));
    let now = bench.now;
    let control = |control| (C, Message::FlowMonitor(control));
    bench.switch.pause_monitors(now, C, true);
    assert_eq!(bench.messages(), [control(FlowMonitorControl::Paused)]);
    change(&mut bench, FlowMod::add(TableId(0), 3, to(3), out(1)));
    change(&mut bench, FlowMod::add(TableId(0), 4, to(4), out(1)));
    change(&mut bench, FlowMod::delete_strict(TableId(0), 4, to(4)));
    change(&mut bench, FlowMod { command: FlowModCommand::Modify, ..FlowMod::add(TableId(0), 2, to(2), out(2)) });
    assert_eq!(bench.messages(), []);
    change(&mut bench, FlowMod::delete_strict(TableId(0), 1, to(1)));
    let [FlowUpdate::Full(gone)] = &updates(&mut bench, C)[..] else { panic!("only what was known before") };
    assert_eq!(gone.priority, 1);
    bench.switch.pause_monitors(now, C, false);
    let messages = bench.messages();
    let [(_, Message::MultipartReply { reply: MultipartReply::FlowMonitor(changes), .. }), resumed] = &messages[..]
    else {
        panic!("{messages:?}")
    };
    assert_eq!(*resumed, control(FlowMonitorControl::Resumed));
    let priorities = changes.iter().map(|update| match update {
        FlowUpdate::Full(change) => change.priority,
        FlowUpdate::Abbreviated(_) => panic!("{update:?}"),
    });
    assert_eq!(priorities.collect::<Vec<_>>(), [3, 2]);
    bench.switch.pause_monitors(now, C, false);
    assert_eq!(bench.messages(), [], "it is not paused");
}

#[test]
fn requests_that_are_refused_have_no_effect() {
    let mut bench = bench();
    assert_eq!(bench.ask(monitor(1, |_| ())).len(), 1);
    assert_eq!(bench.ask(monitor(1, |_| ())), error(monitor_error::MONITOR_EXISTS));
    let nothing = |request: &mut FlowMonitorRequest| request.flags = FlowMonitorFlags::default();
    assert_eq!(bench.ask(monitor(2, nothing)), error(monitor_error::BAD_FLAGS));
    let bad_table = error(ErrorKind::BadRequest(BadRequest::BadTableId));
    assert_eq!(bench.ask(monitor(2, |request| request.table = TableId(3))), bad_table);
    let two = vec![FlowMonitorRequest::all(2), FlowMonitorRequest::all(1)];
    let two = Message::MultipartRequest(MultipartRequest::FlowMonitor(two));
    assert_eq!(bench.ask(two), error(monitor_error::MONITOR_EXISTS));
    let cancel = |id| Message::FlowMonitor(FlowMonitorControl::Cancel(id));
    assert_eq!(bench.ask(cancel(2)), error(monitor_error::UNKNOWN_MONITOR));
    bench.tell(cancel(1));
    change(&mut bench, ip_rule(1));
    assert_eq!(bench.drain(), []);
    // Without the extension its experimenter is unknown.
    let mut bench = Bench::new(config());
    let unknown = error(ErrorKind::BadRequest(BadRequest::BadExperimenter));
    assert_eq!(bench.ask(monitor(1, |_| ())), unknown);
    assert_eq!(bench.ask(cancel(1)), unknown);
}
