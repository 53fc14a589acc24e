//! A daemon in a separate process, for tests that stop it or limit its descriptors.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anabranch_daemon::Settings;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{daemon, fat_tree};

/// Environment variable that makes a test program serve.
const SERVES: &str = "ANABRANCH_TEST_SERVES";

/// It ends when it is dropped.
pub struct Process {
    child: Child,
    /// Open until the process ends, which reports the result of its test.
    _output: BufReader<ChildStdout>,
    pub openflow: SocketAddr,
    pub http: SocketAddr,
}

impl Process {
    /// Runs a daemon for a fat-tree in another process, which runs the test of this name up to this
    /// call. Returns `None` in that process, after it has served.
    pub fn start(test: &str, edit: impl FnOnce(&mut Settings)) -> Option<Process> {
        if std::env::var_os(SERVES).is_some() {
            serve(edit);
            return None;
        }
        let program = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(program);
        command.args(["--exact", test, "--nocapture"]).env(SERVES, "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut lines = output.by_ref().lines().map_while(Result::ok);
        let line = lines.find_map(|line| Some(line.split_once("listens: ")?.1.to_owned())).expect("its addresses");
        let (openflow, http) = line.split_once(' ').expect("two addresses");
        let address = |text: &str| text.parse().expect("an address");
        Some(Process { openflow: address(openflow), http: address(http), _output: output, child })
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("the process runs");
    }

    /// Returns the number of open files.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("Linux").count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // At the end of its input the process removes its files and ends.
        drop(self.child.stdin.take());
        let until = Instant::now() + Duration::from_secs(5);
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if Instant::now() > until {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Serves until standard input ends.
fn serve(edit: impl FnOnce(&mut Settings)) {
    let daemon = daemon(&fat_tree(), edit);
    println!("listens: {} {}", daemon.openflow, daemon.http.expect("HTTP is on"));
    std::io::stdin().read_to_end(&mut Vec::new()).expect("the end of the input");
}
