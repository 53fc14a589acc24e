//! Flow monitors of a real Open vSwitch; `flow_monitor.rs` of the library says what was tried.

use anabranch_openflow::flow_monitor::monitor_error;
use anabranch_openflow::*;

use crate::switch::{Captured, Controller, Switch, is_available};

/// Receives the next update that the switch sends unasked.
fn update(captured: &mut Captured, controller: &mut Controller, name: &str) -> MultipartReply {
    let is_update =
        |envelope: &Envelope| envelope.xid == Xid(0) && matches!(envelope.message, Message::MultipartReply { .. });
    match captured.until(controller, name, is_update) {
        Message::MultipartReply { reply, .. } => reply,
        other => panic!("{name}: {other:?}"),
    }
}

fn rule(event: FlowEvent, priority: u16, match_: Match, actions: Vec<Action>) -> FlowChange {
    let instructions = Instructions::apply(actions);
    let (table, cookie) = (TableId(0), 0x99);
    FlowChange { event, table, priority, idle_timeout_s: 0, hard_timeout_s: 0, cookie, match_, instructions }
}

fn full(change: FlowChange) -> MultipartReply {
    MultipartReply::FlowMonitor(vec![FlowUpdate::Full(change)])
}

#[test]
fn monitors_of_a_real_switch_are_understood() {
    if !is_available() {
        return;
    }
    let switch = Switch::start();
    switch.add_bridge("s1", "OpenFlow13");
    let mut controller = Controller::of(&switch, "s1");
    let mut captured = Captured::default();
    captured.until(&mut controller, "hello", |_| true);
    controller.send(0, Message::Hello { versions: 1 << 4 });

    changes_of_others(&mut captured, &mut controller, &switch);
    own_changes(&mut captured, &mut controller);
    refusals(&mut captured, &mut controller);

    // Without a monitor nothing is reported; the barrier reply is the next message.
    controller.send(70, Message::FlowMonitor(FlowMonitorControl::Cancel(5)));
    captured.ask(&mut controller, "barrier_reply", Message::BarrierRequest);
    switch.ofctl("del-flows", "s1", "ip");
    controller.send(71, Message::BarrierRequest);
    assert_eq!(controller.receive().0.message, Message::BarrierReply);
    captured.0.retain(|name, _| name.starts_with("monitor") || name.contains("unknown_monitor"));
    captured.write();
}

fn changes_of_others(captured: &mut Captured, controller: &mut Controller, switch: &Switch) {
    let ip = Match { eth_type: Some(0x0800), ..Match::default() };
    let rule = |event, port| rule(event, 7, ip, vec![Action::output(PortNo(port))]);
    switch.ofctl("add-flow", "s1", "priority=7,cookie=0x99,ip,idle_timeout=60,hard_timeout=70,actions=output:1");
    let mut monitor = FlowMonitorRequest::all(5);
    monitor.flags.initial = true;
    let reply = captured.ask_multipart(controller, "monitor_initial", MultipartRequest::FlowMonitor(vec![monitor]));
    let timed = FlowChange { idle_timeout_s: 60, hard_timeout_s: 70, ..rule(FlowEvent::Added, 1) };
    assert_eq!(reply, full(timed.clone()));

    switch.ofctl("mod-flows", "s1", "ip,actions=output:2");
    let reply = update(captured, controller, "monitor_modified");
    let modified = FlowChange { event: FlowEvent::Modified, ..timed };
    assert_eq!(reply, full(FlowChange { instructions: rule(FlowEvent::Added, 2).instructions, ..modified }));

    // In place of the first rule: an addition, and no removal.
    switch.ofctl("add-flow", "s1", "priority=7,cookie=0x99,ip,actions=output:1");
    assert_eq!(update(captured, controller, "monitor_added"), full(rule(FlowEvent::Added, 1)));
    switch.ofctl("del-flows", "s1", "ip");
    let removed = rule(FlowEvent::Deleted(RemovedReason::Delete), 1);
    assert_eq!(update(captured, controller, "monitor_deleted"), full(removed));

    switch.ofctl("add-flow", "s1", "priority=9,reg0=5,actions=drop");
    let reply = update(captured, controller, "monitor_foreign");
    assert!(matches!(&reply, MultipartReply::Partial { opaque, .. } if opaque.len() == 1), "{reply:?}");
}

fn own_changes(captured: &mut Captured, controller: &mut Controller) {
    let match_ = Match { eth_type: Some(0x0806), ..Match::default() };
    let add = FlowMod::add(TableId(0), 5, match_, Instructions::apply(vec![Action::output(PortNo(1))]));
    controller.send(0x42, Message::FlowMod(add));
    controller.send(0x43, Message::BarrierRequest);
    let abbreviated = MultipartReply::FlowMonitor(vec![FlowUpdate::Abbreviated(Xid(0x42))]);
    assert_eq!(update(captured, controller, "monitor_abbreviated"), abbreviated);
    assert_eq!(controller.receive().0, Envelope { xid: Xid(0x43), message: Message::BarrierReply });
}

/// A number in use, and Nicira's and OpenFlow 1.4's monitors in OpenFlow 1.3.
fn refusals(captured: &mut Captured, controller: &mut Controller) {
    let again = MultipartRequest::FlowMonitor(vec![FlowMonitorRequest::all(5)]);
    controller.send(60, Message::MultipartRequest(again));
    let error = controller.receive_any().unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadRequest(BadRequest::BadVersion), "{error}");

    let unknown = Message::FlowMonitor(FlowMonitorControl::Cancel(99));
    assert_eq!(captured.error(controller, "error_unknown_monitor", unknown), monitor_error::UNKNOWN_MONITOR);
    let nicira = MultipartRequest::Experimenter { experimenter: 0x2320, kind: 2, data: vec![0; 16] };
    let error = captured.error(controller, "nicira", Message::MultipartRequest(nicira));
    assert_eq!(error, ErrorKind::BadRequest(BadRequest::BadExpType));
    let later = MultipartRequest::Other { kind: 16, body: vec![0; 24] };
    let error = captured.error(controller, "later", Message::MultipartRequest(later));
    assert_eq!(error, ErrorKind::BadRequest(BadRequest::BadMultipart));
}
