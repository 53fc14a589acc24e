//! The updater alone: desired rules in, messages out.

use net::{NodeIx, Time};
use openflow::{Action, ConnectionId, DatapathId, FlowMod, FlowStats, Match, Message, PortNo, headers::ether};

use super::block::Block;
use super::compile::{Purpose, divided_key};
use super::*;
use crate::Output;

const NODE: NodeIx = NodeIx(0);

fn rule(port: u32) -> Entry {
    let match_ = Match { eth_type: Some(ether::IPV4), ..Match::default() };
    let instructions = openflow::Instructions::apply(vec![Action::output(PortNo(port))]);
    Compiler { owner: 7 }.classify(9, match_, instructions)
}

/// Returns the sent changes of rules.
fn sent(updater: &mut Updater, channels: &mut Channels) -> Vec<FlowMod> {
    updater.dispatch(Time::ZERO, channels, |_| Some(DatapathId(1)));
    let changes = std::iter::from_fn(|| channels.next_output()).filter_map(|output| match output {
        Output::Channel(openflow::FromController::Message(_, envelope)) => match envelope.message {
            Message::FlowMod(change) => Some(change),
            _ => None,
        },
        _ => None,
    });
    changes.collect()
}

#[test]
fn only_the_difference_is_sent_and_tickets_tell_when_it_is_confirmed() {
    let (mut updater, mut channels) = (Updater::new(7), Channels::default());
    let (key, first) = rule(1);
    channels.add_ready(ConnectionId(1), DatapathId(1));
    updater.switch(NODE).reconcile(&[], &[], false);
    updater.set((NODE, key, Some(first.clone())));
    let ticket = updater.ticket(NODE);
    assert_eq!(sent(&mut updater, &mut channels).len(), 1);
    assert!(!updater.is_confirmed(NODE, ticket) && !updater.is_settled());
    let barrier = updater.switches[&NODE].barriers.front().expect("a barrier follows").0;
    updater.switch(NODE).barrier(barrier);
    assert!(updater.is_confirmed(NODE, ticket) && updater.is_settled());
    updater.set((NODE, key, Some(first)));
    assert_eq!(sent(&mut updater, &mut channels), [], "nothing has changed");
    updater.set((NODE, key, None));
    let gone = sent(&mut updater, &mut channels);
    assert_eq!(gone.iter().map(|change| change.command).collect::<Vec<_>>(), [openflow::FlowModCommand::DeleteStrict]);
}

#[test]
fn disconnected_switch_gets_nothing_and_does_not_delay_others() {
    let (mut updater, mut channels) = (Updater::new(7), Channels::default());
    let (key, wanted) = rule(1);
    updater.set((NODE, key, Some(wanted)));
    assert_eq!(sent(&mut updater, &mut channels), []);
    let ticket = updater.ticket(NODE);
    assert!(updater.is_confirmed(NODE, ticket), "its table read-back will settle it");
}

/// Nothing is sent if the rules of a former instance are the desired ones: no barrier confirms that they
/// are in effect.
#[test]
fn right_rules_of_a_former_instance_are_confirmed_without_a_message() {
    let (mut updater, mut channels) = (Updater::new(7), Channels::default());
    let (key, wanted) = rule(1);
    channels.add_ready(ConnectionId(1), DatapathId(1));
    let left = FlowStats {
        table: key.table,
        priority: key.priority.0,
        cookie: wanted.cookie,
        match_: key.match_,
        instructions: wanted.instructions.clone(),
        ..FlowStats::default()
    };
    assert!(updater.switch(NODE).reconcile(&[left], &[], false));
    assert_eq!(updater.unconfirmed(Time::ZERO), BTreeSet::from([NODE]), "it is not desired yet");
    updater.set((NODE, key, Some(wanted)));
    assert_eq!(sent(&mut updater, &mut channels), []);
    assert_eq!(updater.unconfirmed(Time::ZERO), BTreeSet::new());
    let (_, another) = rule(2);
    updater.set((NODE, key, Some(another)));
    assert_eq!(sent(&mut updater, &mut channels).len(), 1);
    assert_eq!(updater.unconfirmed(Time::ZERO), BTreeSet::new(), "packets must not avoid it during an ordinary change");
}

/// Sends everything, with a reply to every barrier. Returns the changes of rules.
fn settle(updater: &mut Updater, channels: &mut Channels) -> Vec<FlowMod> {
    let mut changes = Vec::new();
    loop {
        changes.extend(sent(updater, channels));
        let Some((barrier, ..)) = updater.switches[&NODE].barriers.back().copied() else { return changes };
        updater.switch(NODE).barrier(barrier);
    }
}

#[test]
fn rule_rejected_for_want_of_its_group_is_sent_again_with_the_group() {
    let (mut updater, mut channels) = (Updater::new(7), Channels::default());
    channels.add_ready(ConnectionId(1), DatapathId(1));
    updater.switch(NODE).reconcile(&[], &[], false);
    let host = core::net::Ipv4Addr::new(10, 0, 0, 1);
    let (key, wanted) =
        (divided_key(Block::exact(host)), updater.compiler.divided(&[(PortNo(1), 1, None), (PortNo(2), 1, None)]));
    updater.set((NODE, key, Some(wanted)));
    assert_eq!(settle(&mut updater, &mut channels).len(), 1);
    // Another program deletes the group, and with it the rule.
    updater.switch(NODE).correct_rule(key, None);
    assert_eq!(sent(&mut updater, &mut channels).len(), 1);
    let xid = *updater.switches[&NODE].sent.keys().next().expect("the rule was sent");
    let missing = ErrorKind::BadAction(openflow::BadAction::BadOutGroup);
    updater.refused(NODE, xid, missing).expect("it was sent");
    assert_eq!(settle(&mut updater, &mut channels), []);
    assert_eq!(updater.switch(NODE).correct_groups(&[]), 1);
    let again = settle(&mut updater, &mut channels);
    assert_eq!(again.iter().map(|change| change.match_).collect::<Vec<_>>(), [key.match_]);
}

/// Open vSwitch's user-space datapath keeps flows to a dead next hop if their match changes with the
/// rule: `Installer::stay_divided`.
#[test]
fn bundle_that_shrinks_to_one_next_hop_stays_a_bundle() {
    let compiler = Compiler { owner: 7 };
    let key = divided_key(Block::exact(core::net::Ipv4Addr::new(10, 0, 0, 1)));
    let ports_of = |method: HashingMethod, history: &[&[u32]]| {
        let mut switch = Installer::new(7);
        switch.set_hashing_method(method);
        for ports in history {
            let ports: Vec<PortNo> = ports.iter().map(|port| PortNo(*port)).collect();
            switch.set(key, compiler.spread_alike(Purpose::Base, &ports));
            let sent = switch.desired.get(&key).cloned();
            switch.put_installed(key, sent);
        }
        switch.desired.get(&key).map(|rule| rule.instructions.apply.clone())
    };
    let bundle = HashingMethod::Bundle(DatapathId(1));
    let ports_in = |history: &[&[u32]]| match ports_of(bundle, history).as_deref() {
        Some([Action::Bundle(bundle)]) => bundle.ports().map(|port| port.0).collect(),
        _ => Vec::new(),
    };
    assert_eq!(ports_in(&[&[3, 4], &[4]]), [4, 4], "Open vSwitch hashes only for more than one member");
    assert_eq!(ports_in(&[&[3, 4], &[4], &[3]]), [3, 3], "the flows of the bundle may still be there");
    assert_eq!(ports_in(&[&[3, 4], &[4], &[3, 4]]), [3, 4]);
    let output = Some(vec![Action::output(PortNo(4))]);
    assert_eq!(ports_of(bundle, &[&[3], &[4]]), output, "no flow matches ports");
    assert_eq!(ports_of(bundle, &[&[3, 4], &[], &[4]]), output);
    assert_eq!(ports_of(HashingMethod::Group, &[&[3, 4], &[4]]), output);
}

/// A restarted controller would otherwise change rules of an unchanged network.
#[test]
fn bundle_of_one_next_hop_is_kept_when_it_is_read_back() {
    let compiler = Compiler { owner: 7 };
    let key = divided_key(Block::exact(core::net::Ipv4Addr::new(10, 0, 0, 1)));
    let installer = || {
        let mut switch = Installer::new(7);
        switch.set_hashing_method(HashingMethod::Bundle(DatapathId(1)));
        switch
    };
    let mut former = installer();
    for ports in [&[PortNo(3), PortNo(4)][..], &[PortNo(4)]] {
        former.set(key, compiler.spread_alike(Purpose::Base, ports));
        let sent = former.desired.get(&key).cloned();
        former.put_installed(key, sent);
    }
    let mut restarted = installer();
    restarted.set(key, compiler.spread_alike(Purpose::Base, &[PortNo(4)]));
    restarted.reconcile(&former.entries(), &[], false);
    assert!(restarted.is_settled(), "nothing must change");
    assert_eq!(restarted.desired.get(&key), former.desired.get(&key));
}
