//! Attacks on controllers with known behaviour.

use std::time::Duration;

use crate::common::{Behaviour, Controller, echo_packet, star, start, target};
use anabranch_ofload::{Attack, AttackIntensity, AttackReport, Load, Schedule, measure_under_attack};

const SHORT: Schedule = Schedule { loops: 2, warm_up: 1, duration: Duration::from_millis(300) };
const INTENSITY: AttackIntensity = AttackIntensity { connections: 50, noisy: 8, rate: 20_000.0 };

fn run(controller: &Controller, attacks: &[Attack], loops: u32) -> Vec<AttackReport> {
    let target = target("test", star(controller, 4, 5, Load::Rate(1_000.0)));
    measure_under_attack(target, attacks, INTENSITY, Schedule { loops, ..SHORT }, &mut |_| {})
        .expect("the controller works")
}

#[test]
fn attack_kinds_behave_as_named() {
    // The controller has a thread per connection, so connections are independent.
    let controller = start(Behaviour::Replies(|packet, _, _| vec![echo_packet(packet)]));
    let reports = run(&controller, &[Attack::HalfMessages, Attack::Silent, Attack::Flood], 2);
    for report in &reports {
        let (baseline, attacked) = (report.baseline.counts, report.attacked.counts);
        assert_eq!(baseline.unanswered + attacked.unanswered + attacked.connections_lost, 0, "{report:?}");
        assert!(baseline.answered > 400 && attacked.answered > 400, "{report:?}");
        assert_eq!(report.attacker.len(), 2);
        assert!(report.resident_before > Some(0) && report.resident_max >= report.resident_before, "{report:?}");
    }
    let [half, silent, flood] = &reports[..] else { panic!("three reports: {reports:?}") };
    for stats in &half.attacker {
        assert!(stats.connections >= 50 && stats.open_max == 50 && stats.closed == 0, "{stats:?}");
        assert!(stats.bytes > 50 * 80, "{stats:?}");
    }
    for stats in &silent.attacker {
        assert!(stats.connections >= 50 && stats.bytes == 0, "{stats:?}");
    }
    for stats in &flood.attacker {
        // 0.3 s at 20,000/s, with a margin for a busy machine.
        assert!(stats.packet_ins > 2_000 && stats.answered > 1_000, "{stats:?}");
    }
}

#[test]
fn controller_with_shared_lock_is_reported() {
    // A lock makes connections wait for each other, and each probe of the flood holds it for 30 ms.
    // One loop: its backlog outlasts the attack.
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let controller = start(Behaviour::Replies(|packet, headers, _| {
        let _held = LOCK.lock().expect("no holder panics");
        // The flooding switch has the highest number: 10.16.1.x.
        if headers.ipv4_src.octets()[1] == 16 {
            std::thread::sleep(Duration::from_millis(30));
        }
        vec![echo_packet(packet)]
    }));
    let reports = run(&controller, &[Attack::Flood], 1);
    assert!(!reports[0].faults().is_empty(), "{reports:?}");
}

#[test]
fn closed_noise_connections_reconnect() {
    let controller = start(Behaviour::ClosesAfter(u64::MAX));
    let reports = run(&controller, &[Attack::RandomBytes], 2);
    let stats = reports[0].attacker[0];
    assert!(stats.connections > 8 && stats.bytes > 0, "{stats:?}");
}
