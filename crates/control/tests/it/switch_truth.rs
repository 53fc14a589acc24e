//! What switches really have: rules changed behind the controller's back, missing features, stolen
//! datapath ids, and a second controller with the same owner.

use crate::common::{AMPLE, TestNetwork, config_for, fat_tree, quiet};
use anabranch_control::{CloseReason, Config, Controller, Event, Output};
use balance::central::CentralEnv;
use balance::{Build, Spec};
use net::{NodeIx, Time};
use openflow::{
    ConnectionId, Envelope, FlowMod, FlowModCommand, FromController, Instructions, Match, Message, MultipartRequest,
    TableId, ToController,
};
use switch::Switch;

const AUDITED: Time = Time::from_s(3);

fn audited(config: Config) -> Config {
    Config { audit_interval: Some(AUDITED), ..config }
}

/// Returns the rules restored so far: removed, changed, added.
fn restored(network: &TestNetwork) -> [usize; 3] {
    let mut sum = [0; 3];
    for (_, event) in &network.events {
        if let Event::RulesRestored { removed, changed, added, .. } = event {
            sum = [sum[0] + removed, sum[1] + changed, sum[2] + added];
        }
    }
    sum
}

fn first_switch(network: &TestNetwork) -> NodeIx {
    *network.switches.keys().next().expect("a switch")
}

fn by_other(network: &mut TestNetwork, node: NodeIx, change: FlowMod) {
    let now = network.now;
    let switch = network.switches.get_mut(&node).expect("a switch");
    switch.flow_mod_by_other(now, change).expect("the switch accepts it");
}

/// Deletes all rules of a switch, as `ovs-ofctl del-flows` does.
fn delete_all(network: &mut TestNetwork, node: NodeIx) {
    let all = FlowMod::add(TableId::ALL, 0, Match::default(), Instructions::default());
    by_other(network, node, FlowMod { command: FlowModCommand::Delete, ..all });
}

#[test]
fn rules_deleted_behind_the_controllers_back_return_within_5_s() {
    let config = audited(config_for(&fat_tree()));
    let mut network = TestNetwork::new(fat_tree(), config, quiet(), AMPLE).connected();
    network.run_and_settle(Time::from_s(10));
    assert_eq!(restored(&network), [0; 3], "nothing differs");
    let node = first_switch(&network);
    let rules = network.switches[&node].entries().len();
    delete_all(&mut network, node);
    assert!(!network.unreached().is_empty());
    network.run_and_settle(Time::from_s(5));
    assert_eq!(restored(&network), [rules, 0, 0]);
    assert!(network.unreached().is_empty());
    network.assert_exact();
}

#[test]
fn rules_deleted_on_all_switches_return_within_5_s() {
    let config = audited(config_for(&fat_tree()));
    let mut network = TestNetwork::new(fat_tree(), config, quiet(), AMPLE).connected();
    let nodes: Vec<NodeIx> = network.switches.keys().copied().collect();
    nodes.iter().for_each(|node| delete_all(&mut network, *node));
    network.run_and_settle(Time::from_s(5));
    assert!(network.unreached().is_empty());
    network.assert_exact();
}

/// A switch may drop requests, for instance because it is overloaded.
#[test]
fn audit_without_reply_is_repeated() {
    let config = audited(config_for(&fat_tree()));
    let mut network = TestNetwork::new(fat_tree(), config, quiet(), AMPLE).connected();
    let node = first_switch(&network);
    delete_all(&mut network, node);
    network.is_lost = |message| {
        use MultipartRequest::{Aggregate, Flow};
        matches!(message, Message::MultipartRequest(Aggregate(_) | Flow(_)))
    };
    network.run_and_settle(Time::from_s(10));
    assert!(!network.unreached().is_empty());
    network.is_lost = |_| false;
    network.run_and_settle(Time::from_s(35));
    assert!(network.unreached().is_empty());
    network.assert_exact();
}

#[test]
fn changed_and_added_rules_are_corrected() {
    let config = audited(config_for(&fat_tree()));
    let mut network = TestNetwork::new(fat_tree(), config, quiet(), AMPLE).connected();
    let node = first_switch(&network);
    let rule = network.switches[&node].entries().into_iter().find(|rule| rule.table == TableId(1)).expect("a rule");
    let add = FlowMod::add(rule.table, rule.priority, rule.match_, Instructions::default());
    by_other(&mut network, node, FlowMod { cookie: rule.cookie, ..add.clone() });
    by_other(&mut network, node, FlowMod { cookie: rule.cookie, priority: 3, ..add });
    network.run_and_settle(Time::from_s(8));
    assert_eq!(restored(&network), [0, 1, 1]);
    network.assert_exact();
}

#[test]
fn foreign_rules_are_left_alone_by_audits() {
    let config = audited(config_for(&fat_tree()));
    let mut network = TestNetwork::new(fat_tree(), config, quiet(), AMPLE).connected();
    let node = first_switch(&network);
    let foreign = FlowMod::add(TableId(2), 9, Match::default(), Instructions::default());
    by_other(&mut network, node, FlowMod { cookie: 77, ..foreign });
    let sent = network.sent.len();
    network.run_and_settle(Time::from_s(20));
    assert_eq!(restored(&network), [0; 3]);
    let is_change = |message: &Message| matches!(message, Message::FlowMod(_) | Message::GroupMod(_));
    assert!(!network.sent[sent..].iter().any(|(_, _, message)| is_change(message)));
    assert!(network.switches[&node].entries().iter().any(|rule| rule.cookie == 77));
}

#[test]
fn flow_monitor_restores_rules_at_once() {
    let config = Config { uses_extensions: true, ..audited(config_for(&fat_tree())) };
    let mut network = TestNetwork::new(fat_tree(), config, quiet(), AMPLE);
    network.replace_switches(|config| {
        config.supports_tcp_flags = true;
        config.support.flow_monitors = true;
        config.description.manufacturer = "Nicira, Inc.".into();
    });
    let mut network = network.connected();
    network.run_and_settle(Time::from_ms(100));
    let node = first_switch(&network);
    delete_all(&mut network, node);
    // The switch reports with its next input.
    network.run_and_settle(Time::from_ms(200));
    assert!(restored(&network)[0] > 0, "{:?}", restored(&network));
    network.assert_exact();
}

#[test]
fn switches_without_groups_get_single_next_hops() {
    let mut network = TestNetwork::new(fat_tree(), config_for(&fat_tree()), quiet(), AMPLE);
    network.replace_switches(|config| config.support.groups = false);
    let network = &mut network.connected();
    assert_eq!(network.rejections(), 0, "no group is sent");
    assert!(network.controller.inspect().switches().all(|switch| switch.spread == "single"));
    assert!(network.unreached().is_empty());
    network.assert_exact();
}

/// The table takes half of the rules: hosts of the switch itself come first.
#[test]
fn full_table_keeps_rules_to_hosts_of_the_switch() {
    let topology = fat_tree();
    let mut config = config_for(&topology);
    // The hosts of an edge switch are learned after its table is full of rules to distant hosts.
    let edge = config.hosts[0].datapath;
    let late: Vec<_> = config.hosts.extract_if(.., |host| host.datapath == edge).collect();
    let mut network = TestNetwork::new(topology, config, quiet(), (14, 100)).connected();
    network.run(Time::from_s(1));
    for number in 0..late.len() as u32 {
        network.announce(number);
        network.run(Time::from_s(1));
    }
    network.run_and_settle(Time::from_s(5));
    let node = network.switches.iter().find(|(_, switch)| switch.datapath() == edge).expect("the edge switch").0;
    let rules = network.switches[node].entries();
    for known in &late {
        let is_last_hop = |rule: &openflow::FlowStats| {
            rule.priority == 60_000 && rule.match_.ipv4_dst.is_some_and(|to| to.value == known.ipv4)
        };
        assert!(rules.iter().any(is_last_hop), "{}", known.ipv4);
    }
}

/// A switch and controllers, with messages that arrive at once.
struct Bench {
    now: Time,
    switch: Switch,
    controllers: Vec<Controller>,
    events: Vec<(usize, Event)>,
    closed: Vec<ConnectionId>,
}

fn controller(config: &Config) -> Controller {
    let spec = Spec::parse("sdn-ecmp").expect("a balancer of the registry");
    let Build::Central(build) = spec.entry.build else { panic!("a central balancer") };
    Controller::new(config.clone(), build(&CentralEnv { seed: 1 }, &spec.params))
}

impl Bench {
    fn new(configs: &[Config]) -> Bench {
        let topology = fat_tree();
        let edge = config_for(&topology).hosts[0].datapath;
        let mut configs_of_switches =
            switch::testing::switches(&topology).map(|node| switch::testing::config(&topology, node));
        let switch = Switch::new(configs_of_switches.find(|config| config.datapath == edge).expect("the edge switch"));
        let controllers = configs.iter().map(controller).collect();
        Bench { now: Time::ZERO, switch, controllers, events: Vec::new(), closed: Vec::new() }
    }

    /// Connects the switch to a controller. Connections have the number of the controller.
    fn connect(&mut self, number: usize) {
        let connection = ConnectionId(number as u32);
        self.controllers[number].handle(self.now, ToController::Connected(connection));
        self.switch.connected(self.now, connection);
        self.exchange();
    }

    fn exchange(&mut self) {
        loop {
            let mut is_quiet = true;
            for number in 0..self.controllers.len() {
                while let Some(output) = self.controllers[number].poll_output() {
                    is_quiet = false;
                    self.pass_down(number, output);
                }
            }
            while let Some(output) = self.switch.poll_output() {
                if let switch::Output::Message(connection, envelope) = output {
                    is_quiet = false;
                    let controller = &mut self.controllers[connection.0 as usize];
                    controller.handle(self.now, ToController::Message(connection, envelope));
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    fn pass_down(&mut self, number: usize, output: Output) {
        match output {
            Output::Channel(FromController::Message(connection, envelope)) => {
                self.switch.handle(self.now, connection, envelope);
            }
            Output::Channel(FromController::Close(connection)) => self.closed.push(connection),
            Output::Event(event) => self.events.push((number, event)),
            Output::Agents(_) => {}
        }
    }

    fn run(&mut self, time: Time) {
        let end = self.now + time;
        loop {
            let due = self.controllers.iter().filter_map(Controller::poll_timeout).min();
            let Some(due) = due.filter(|due| *due <= end) else { break };
            self.now = self.now.max(due);
            for controller in &mut self.controllers {
                if controller.poll_timeout().is_some_and(|due| due <= self.now) {
                    controller.handle_timeout(self.now);
                }
            }
            self.exchange();
        }
        self.now = end;
    }

    fn is_demoted(&self, number: usize) -> bool {
        self.events.iter().any(|(of, event)| *of == number && matches!(event, Event::Demoted(_)))
    }
}

#[test]
fn later_instance_becomes_master_and_the_earlier_one_stops() {
    let config = Config { requests_mastership: true, ..audited(config_for(&fat_tree())) };
    let mut bench = Bench::new(&[config.clone(), config]);
    bench.connect(0);
    bench.run(Time::from_s(5));
    assert!(!bench.is_demoted(0));
    bench.connect(1);
    bench.run(Time::from_s(20));
    assert!(bench.is_demoted(0) && !bench.is_demoted(1), "{:?}", bench.events);
    let inspected: Vec<bool> =
        bench.controllers.iter().flat_map(|one| one.inspect().switches().map(|switch| switch.is_slave)).collect();
    assert_eq!(inspected, [true, false]);
    // The earlier one does not fight: neither its echoes nor its audits change anything.
    let demotions = bench.events.iter().filter(|(_, event)| matches!(event, Event::Demoted(_))).count();
    assert_eq!(demotions, 1);
}

#[test]
fn instance_that_lost_a_switch_stays_its_slave_when_it_connects_again() {
    let config = Config { requests_mastership: true, ..audited(config_for(&fat_tree())) };
    let mut bench = Bench::new(&[config.clone(), config]);
    bench.connect(0);
    bench.run(Time::from_s(5));
    bench.connect(1);
    bench.run(Time::from_s(20));
    bench.controllers[0].handle(bench.now, ToController::Disconnected(ConnectionId(0)));
    bench.switch.disconnected(bench.now, ConnectionId(0));
    bench.connect(0);
    bench.run(Time::from_s(20));
    let inspected: Vec<bool> =
        bench.controllers.iter().flat_map(|one| one.inspect().switches().map(|switch| switch.is_slave)).collect();
    assert_eq!(inspected, [true, false], "{:?}", bench.events);
}

/// Without roles, both write: they notice each other.
#[test]
fn two_controllers_with_one_owner_notice_each_other() {
    let with_hosts = |hosts: &[usize]| {
        let all = config_for(&fat_tree());
        let hosts = hosts.iter().map(|host| all.hosts[*host]).collect();
        audited(Config { hosts, ..all })
    };
    let mut bench = Bench::new(&[with_hosts(&[0]), with_hosts(&[1])]);
    bench.connect(0);
    bench.run(Time::from_s(2));
    bench.connect(1);
    bench.run(Time::from_s(30));
    for number in [0, 1] {
        let audits = bench.events.iter().filter_map(|(of, event)| match event {
            Event::RulesRestored { audits, .. } if *of == number => Some(*audits),
            _ => None,
        });
        assert!(audits.max().is_some_and(|audits| audits > 2), "controller {number}: {:?}", bench.events);
    }
}

/// Sends the first messages of a switch on a connection, up to its features.
fn present(
    controller: &mut Controller,
    now: Time,
    connection: ConnectionId,
    datapath: openflow::DatapathId,
) -> Vec<Output> {
    let mut outputs = Vec::new();
    let drain = |controller: &mut Controller, outputs: &mut Vec<Output>| {
        outputs.extend(std::iter::from_fn(|| controller.poll_output()));
    };
    controller.handle(now, ToController::Connected(connection));
    drain(controller, &mut outputs);
    let hello = Envelope { xid: openflow::Xid(0), message: Message::Hello { versions: 1 << 4 } };
    controller.handle(now, ToController::Message(connection, hello));
    drain(controller, &mut outputs);
    let request = outputs.iter().find_map(|output| match output {
        Output::Channel(FromController::Message(to, Envelope { xid, message: Message::FeaturesRequest }))
            if *to == connection =>
        {
            Some(*xid)
        }
        _ => None,
    });
    let features = openflow::Features { datapath, buffers: 0, tables: 4, auxiliary: 0, capabilities: 0 };
    let xid = request.expect("a request for features");
    let reply = Envelope { xid, message: Message::FeaturesReply(features) };
    controller.handle(now, ToController::Message(connection, reply));
    outputs.clear();
    drain(controller, &mut outputs);
    outputs
}

fn is_close(output: &Output, of: ConnectionId) -> bool {
    matches!(output, Output::Channel(FromController::Close(connection)) if *connection == of)
}

#[test]
fn datapath_id_of_a_living_switch_cannot_be_taken() {
    let mut bench = Bench::new(&[config_for(&fat_tree())]);
    bench.connect(0);
    let (datapath, thief) = (bench.switch.datapath(), ConnectionId(9));
    for _ in 0..10 {
        let outputs = present(&mut bench.controllers[0], bench.now, thief, datapath);
        assert!(!outputs.iter().any(|output| is_close(output, ConnectionId(0))), "{outputs:?}");
        outputs.into_iter().for_each(|output| bench.pass_down(0, output));
        bench.exchange();
        assert_eq!(bench.closed, [thief], "the connected switch has answered");
        let reason = CloseReason::DatapathInUse { datapath };
        assert!(bench.events.iter().any(|(_, event)| *event == Event::Closed { connection: thief, reason }));
        bench.closed.clear();
        bench.run(Time::from_ms(10));
    }
    assert_eq!(bench.controllers[0].inspect().connection_of(datapath), Some(ConnectionId(0)));
}

#[test]
fn switch_that_connects_again_is_admitted_when_its_old_connection_is_silent() {
    let mut bench = Bench::new(&[config_for(&fat_tree())]);
    bench.connect(0);
    let (datapath, again) = (bench.switch.datapath(), ConnectionId(9));
    // Nothing answers on the old connection any more.
    let outputs = present(&mut bench.controllers[0], bench.now, again, datapath);
    assert!(!outputs.iter().any(|output| is_close(output, again)));
    let later = bench.now + Time::from_ms(1000);
    bench.controllers[0].handle_timeout(later);
    let asked = std::iter::from_fn(|| bench.controllers[0].poll_output()).any(|output| {
        matches!(output, Output::Channel(FromController::Message(to, Envelope { message: Message::MultipartRequest(_), .. })) if to == again)
    });
    assert!(asked, "its table read-back begins");
    // A connection that is closed makes way at once.
    let mut bench = Bench::new(&[config_for(&fat_tree())]);
    bench.connect(0);
    present(&mut bench.controllers[0], bench.now, again, datapath);
    bench.controllers[0].handle(bench.now, ToController::Disconnected(ConnectionId(0)));
    bench.controllers[0].handle_timeout(bench.now);
    let asked = std::iter::from_fn(|| bench.controllers[0].poll_output()).any(|output| {
        matches!(output, Output::Channel(FromController::Message(to, Envelope { message: Message::MultipartRequest(_), .. })) if to == again)
    });
    assert!(asked);
}
