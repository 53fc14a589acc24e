//! A daemon that does not run for longer than the echo timeout keeps its switches.

mod common;

use std::time::Duration;

use common::{Fabric, Process, fat_tree, metric, wait};
use net::Time;
use nix::sys::signal::Signal;

const ECHO_TIMEOUT: Time = Time::from_ms(1000);
const PAUSE: Duration = Duration::from_secs(3);

#[test]
fn paused_daemon_keeps_its_switches() {
    let started = Process::start("paused_daemon_keeps_its_switches", |settings| {
        settings.control.echo_interval = Time::from_ms(300);
        settings.control.echo_timeout = ECHO_TIMEOUT;
    });
    let Some(served) = started else { return };
    let fabric = Fabric::start(fat_tree(), served.openflow);
    fabric.wait_reached();
    let connects = fabric.with(|wires| wires.connects);
    for turn in 0..3 {
        served.signal(Signal::SIGSTOP);
        std::thread::sleep(PAUSE);
        served.signal(Signal::SIGCONT);
        // Long enough for the timeout of a switch whose bytes were not read.
        fabric.assert_reached_for(Duration::from_millis(1500), "after the pause");
        assert_eq!(metric(served.http, "switches"), 20, "turn {turn}");
        assert_eq!(fabric.with(|wires| wires.connects), connects, "turn {turn}: switches had to connect again");
    }
    // A switch that is really silent is still disconnected.
    let node = *fabric.with(|wires| wires.nodes.keys().copied().collect::<Vec<_>>()).first().expect("a switch");
    fabric.with(move |wires| wires.nodes.get_mut(&node).expect("a switch").mute());
    wait("the silent switch is disconnected", || metric(served.http, "switches") == 19);
}
