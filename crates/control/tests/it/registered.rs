//! Every registered central balancer on real switches, with traffic before, during and after
//! failures.

use crate::common::{AMPLE, TestNetwork, config_for, fat_tree, udp};
use anabranch_control::Config;
use balance::central::{AgentReport, CentralEnv};
use balance::registry::CENTRAL;
use balance::{Build, Spec};
use net::Time;

#[test]
fn central_balancers_serve_a_fat_tree_through_a_failure() {
    let mut served = 0;
    for entry in CENTRAL {
        let Build::Central(build) = entry.build else { continue };
        served += 1;
        let spec = Spec::parse(entry.example).expect("an example is valid");
        let config = Config { poll_interval: Time::from_ms(500), ..config_for(&fat_tree()) };
        let balancer = build(&CentralEnv { seed: 3 }, &spec.params);
        let mut network = TestNetwork::with(fat_tree(), config, balancer, AMPLE).connected();
        network.assert_exact();
        assert!(network.unreached().is_empty(), "{}", entry.name);
        let flows: Vec<_> = (0..16).map(|host| udp(host, (host + 8) % 16, 4_000 + host as u16)).collect();
        for tuple in &flows {
            network.report(AgentReport::Started { tuple: *tuple, bytes: 2_000_000, size: Some(50_000_000) });
        }
        let cable =
            network.cable(net::NodeIx(0), network.topology.link(network.topology.out_links(net::NodeIx(0))[0]).to);
        for turn in 0..4_000 {
            flows.iter().for_each(|tuple| {
                network.send(*tuple);
            });
            network.run(Time::from_ms(5));
            match turn {
                1_500 => network.set_cable(cable, false),
                2_500 => network.set_cable(cable, true),
                _ => {}
            }
        }
        assert!(!network.packets.iter().any(|packet| packet.visited.len() > 12), "{}: a packet looped", entry.name);
        let lost = network.packets.iter().rev().skip(16).filter(|packet| packet.delivered.is_none()).count();
        assert!(lost < 16 * 3, "{}: {lost} lost at one failure", entry.name);
        for tuple in flows {
            network.report(AgentReport::Ended { tuple, bytes: 50_000_000 });
        }
        network.assert_settled();
        assert!(network.unreached().is_empty(), "{} after a failure", entry.name);
    }
    assert_eq!(served, CENTRAL.len());
    assert!(served > 0, "no central balancer is registered");
}
