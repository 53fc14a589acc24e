//! Virtual services: foreign rules with the match and priority of connection rules.

use crate::common::TestNetwork;
use crate::services::*;
use net::{FiveTuple, NodeIx, Time};
use openflow::{Action, FlowMod, FlowStats, Instructions, Message};

const FOREIGN: u64 = 0x1234 << 48 | 7;

/// Replaces a current or former rule by a foreign one, which sends packets to every controller.
fn overwrite(network: &mut TestNetwork, node: NodeIx, rule: &FlowStats) {
    let add = FlowMod::add(rule.table, rule.priority, rule.match_, Instructions::apply(vec![Action::to_controller()]));
    network.inject(node, Message::FlowMod(FlowMod { cookie: FOREIGN, ..add }));
}
fn reconnect(network: &mut TestNetwork, node: NodeIx) {
    network.disconnect(node);
    network.run(Time::from_ms(10));
    network.reconnect(Some(node));
}
fn foreign(network: &TestNetwork, node: NodeIx) -> Vec<FlowStats> {
    let bare = |entry: FlowStats| FlowStats { duration_ns: 0, packets: 0, bytes: 0, ..entry };
    network.switches[&node].entries().into_iter().filter(|entry| entry.cookie == FOREIGN).map(bare).collect()
}

/// One connection cannot be served, whichever of its rules is occupied; its client is rejected, and
/// others are served.
#[test]
fn foreign_rule_is_left_alone_and_others_are_served() {
    for priority in [520, 510] {
        // Another network shows which rules it would get.
        let mut other = up(one(all_protocols()));
        assert_eq!(request(&mut other, tcp(0, 5000)), Some(12));
        let rules = connection_rules(&other);
        let (_, rule) = rules.iter().find(|(_, rule)| rule.priority == priority).expect("a rule of the connection");
        let mut network = up(one(all_protocols()));
        let node = edge_of(&network, 0);
        overwrite(&mut network, node, rule);
        reconnect(&mut network, node);
        let before = foreign(&network, node);
        network.to_hosts.clear();
        assert_eq!(
            (request(&mut network, tcp(0, 5000)), received_frames(&network, 0).len()),
            (None, 1),
            "priority {priority}"
        );
        assert_eq!(network.rejections(), 1);
        let others: Vec<FiveTuple> = (1..9).map(|port| tcp(0, 5000 + port)).collect();
        assert!(others.iter().all(|tuple| request(&mut network, *tuple).is_some()), "at once");
        assert_eq!((foreign(&network, node), before.len()), (before.clone(), 1));
        // The return rule of another member has another match.
        let again = request(&mut network, tcp(0, 5000));
        assert_eq!(again.is_some(), priority == 510, "{again:?}");
        assert_eq!(foreign(&network, node), before);
        network.assert_exact();
    }
}

/// A foreign rule that overwrote one of a connection while its switch was disconnected is not
/// overwritten in turn.
#[test]
fn later_foreign_rule_ends_the_connection() {
    for priority in [520, 510] {
        let mut network = up(one(all_protocols()));
        assert_eq!(request(&mut network, tcp(0, 5000)), Some(12));
        let node = edge_of(&network, 0);
        let rules = connection_rules(&network);
        let (_, rule) = rules.iter().find(|(_, rule)| rule.priority == priority).expect("a rule of the connection");
        overwrite(&mut network, node, rule);
        reconnect(&mut network, node);
        assert_eq!(foreign(&network, node).len(), 1);
        // If the rule to the member is occupied, the return rule idles out; if the return rule is,
        // another member has another match.
        let expected = if priority == 520 { None } else { Some(13) };
        assert_eq!(request(&mut network, tcp(0, 5000)), expected);
        network.run(Time::from_s(60));
        assert_eq!((foreign(&network, node).len(), connection_rules(&network).len()), (1, 0));
        assert_eq!(network.controller.inspect().services()[0].counts.connections, 0);
        network.assert_exact();
    }
}
