//! What attacks do, against controllers whose behaviour is known.

mod support;

use std::time::Duration;

use anabranch_ofload::{Attack, Force, Load, Options, Ordeal, Schedule, Shape, Target, besiege};
use support::{Controller, Manner, echo_packet, start};

const SHORT: Schedule = Schedule { loops: 2, warm_up: 1, duration: Duration::from_millis(300) };
const FORCE: Force = Force { connections: 50, noisy: 8, rate: 20_000.0 };

fn run(controller: &Controller, attacks: &[Attack], loops: u32) -> Vec<Ordeal> {
    let shape = Shape::Star { switches: 4, hosts: 5 };
    let quiet = Duration::from_millis(50);
    let options = Options { shape, load: Load::Rate(1_000.0), quiet, ..Options::new(controller.address) };
    let target = Target { name: "test".to_owned(), options, pid: Some(std::process::id()) };
    besiege(target, attacks, FORCE, Schedule { loops, ..SHORT }, &mut |_| {}).expect("the controller works")
}

#[test]
fn every_attack_does_what_it_is_called() {
    // A thread per connection: nobody disturbs anybody.
    let controller = start(Manner::Answers(|packet, _, _| vec![echo_packet(packet)]));
    let ordeals = run(&controller, &[Attack::HalfMessages, Attack::Silent, Attack::Flood], 2);
    for ordeal in &ordeals {
        let (usual, attacked) = (ordeal.usual.counts, ordeal.attacked.counts);
        assert_eq!(usual.unanswered + attacked.unanswered + attacked.connections_lost, 0, "{ordeal:?}");
        assert!(usual.answered > 400 && attacked.answered > 400, "{ordeal:?}");
        assert_eq!(ordeal.deeds.len(), 2);
        assert!(ordeal.resident_before > Some(0) && ordeal.resident_max >= ordeal.resident_before, "{ordeal:?}");
    }
    let [half, silent, flood] = &ordeals[..] else { panic!("three attacks: {ordeals:?}") };
    for deeds in &half.deeds {
        assert!(deeds.connections >= 50 && deeds.open_max == 50 && deeds.closed == 0, "{deeds:?}");
        assert!(deeds.bytes > 50 * 80, "{deeds:?}");
    }
    for deeds in &silent.deeds {
        assert!(deeds.connections >= 50 && deeds.bytes == 0, "{deeds:?}");
    }
    for deeds in &flood.deeds {
        // 0.3 s at 20,000/s, less what a busy machine does not manage.
        assert!(deeds.packet_ins > 2_000 && deeds.answered > 1_000, "{deeds:?}");
    }
}

#[test]
fn controllers_that_let_others_wait_are_found_out() {
    // One connection after the other gets its answers, and each flooding probe holds the lock of all for 30 ms. One loop: its
    // backlog outlasts the attack.
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let controller = start(Manner::Answers(|packet, headers, _| {
        let _held = LOCK.lock().expect("nobody panics with it");
        // The flooding switch is numbered above all others: 10.16.1.x.
        if headers.ipv4_src.octets()[1] == 16 {
            std::thread::sleep(Duration::from_millis(30));
        }
        vec![echo_packet(packet)]
    }));
    let ordeals = run(&controller, &[Attack::Flood], 1);
    assert!(!ordeals[0].faults().is_empty(), "{ordeals:?}");
}

#[test]
fn controllers_that_close_those_who_send_noise_see_them_again() {
    let controller = start(Manner::ClosesAfter(u64::MAX));
    let ordeals = run(&controller, &[Attack::RandomBytes], 2);
    let deeds = ordeals[0].deeds[0];
    assert!(deeds.connections > 8 && deeds.bytes > 0, "{deeds:?}");
}
