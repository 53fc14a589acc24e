//! A daemon that does not run for longer than the echo timeout keeps its switches.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Fabric, daemon, fat_tree, metric, wait};
use net::Time;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const ECHO_TIMEOUT: Time = Time::from_ms(1000);
const PAUSE: Duration = Duration::from_secs(3);

/// Environment variable that makes this test program serve: only another process can be stopped.
const SERVES: &str = "ANABRANCH_TEST_SERVES";

/// A daemon in a process of its own; killed when dropped.
struct Served {
    child: Child,
    openflow: SocketAddr,
    http: SocketAddr,
}

impl Served {
    fn start() -> Served {
        let program = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(program);
        command.args(["--exact", "paused_daemon_keeps_its_switches", "--nocapture"]).env(SERVES, "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let line = lines.find_map(|line| Some(line.split_once("listens: ")?.1.to_owned())).expect("its addresses");
        let (openflow, http) = line.split_once(' ').expect("two addresses");
        let address = |text: &str| text.parse().expect("an address");
        Served { openflow: address(openflow), http: address(http), child }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("the process runs");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves until standard input ends.
fn serve() {
    let daemon = daemon(&fat_tree(), |settings| {
        settings.control.echo_interval = Time::from_ms(300);
        settings.control.echo_timeout = ECHO_TIMEOUT;
    });
    println!("listens: {} {}", daemon.openflow, daemon.http.expect("HTTP is on"));
    std::io::stdin().read_to_end(&mut Vec::new()).expect("the end of the input");
}

#[test]
fn paused_daemon_keeps_its_switches() {
    if std::env::var_os(SERVES).is_some() {
        return serve();
    }
    let served = Served::start();
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
