//! Every registered central balancer on real switches: traffic arrives before, during and after failures.

mod world;

use anabranch_control::{Config, KnownHost};
use balance::central::{AgentReport, CentralEnv};
use balance::registry::{Build, CENTRAL, Spec};
use net::Time;
use world::{World, fat_tree, udp};

#[test]
fn every_central_balancer_serves_a_fat_tree_through_a_failure() {
    let mut served = 0;
    for entry in CENTRAL {
        let Build::Central(build) = entry.build else { continue };
        served += 1;
        let spec = Spec::parse(entry.example).expect("an example is valid");
        let config =
            Config { hosts: KnownHost::all_of(&fat_tree()), poll_interval: Time::from_ms(500), ..Config::default() };
        let balancer = build(&CentralEnv { seed: 3 }, &spec.params);
        let mut world = World::with(fat_tree(), config, balancer, (100_000, 10_000));
        world.connect_all();
        world.settle();
        world.assert_exact();
        assert!(world.unreached().is_empty(), "{}", entry.name);
        let flows: Vec<_> = (0..16).map(|host| udp(host, (host + 8) % 16, 4_000 + host as u16)).collect();
        for tuple in &flows {
            world.report(AgentReport::Started { tuple: *tuple, bytes: 2_000_000, size: Some(50_000_000) });
        }
        let cable = world.cable(net::NodeIx(0), world.topology.link(world.topology.out_links(net::NodeIx(0))[0]).to);
        for turn in 0..4_000 {
            flows.iter().for_each(|tuple| {
                world.send(*tuple);
            });
            world.run(Time::from_ms(5));
            match turn {
                1_500 => world.set_cable(cable, false),
                2_500 => world.set_cable(cable, true),
                _ => {}
            }
        }
        assert!(!world.packets.iter().any(|packet| packet.visited.len() > 12), "{}: a packet went round", entry.name);
        let lost = world.packets.iter().rev().skip(16).filter(|packet| packet.delivered.is_none()).count();
        assert!(lost < 16 * 3, "{}: {lost} lost at one failure", entry.name);
        for tuple in flows {
            world.report(AgentReport::Ended { tuple, bytes: 50_000_000 });
        }
        world.settle();
        world.assert_exact();
        assert!(world.unreached().is_empty(), "{} after a failure", entry.name);
    }
    assert_eq!(served, CENTRAL.len());
    assert!(served > 0, "no central balancer is registered");
}
