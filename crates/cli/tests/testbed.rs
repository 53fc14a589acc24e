//! The testbed on this machine: a fat-tree of 20 real switches with 16 hosts.
//!
//! These tests need root, Mininet and Open vSwitch. If one is missing, they print a note and pass;
//! in CI they fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;
use tempfile::TempDir;

/// A machine has one testbed at a time.
static MACHINE: Mutex<()> = Mutex::new(());

/// Every host sends five packets to every other host, and all of them must arrive.
const PING_ALL: &str = include_str!("data/ping-all.toml");

/// Returns a folder with `file.toml` for one test and exclusive use of the machine; `None` if the testbed cannot
/// run.
fn machine() -> Option<(MutexGuard<'static, ()>, TempDir)> {
    let has =
        |tool: &str| ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].iter().any(|at| Path::new(at).join(tool).exists());
    let missing: Vec<&str> =
        ["mn", "ovs-vswitchd", "ovsdb-server", "tc", "ethtool"].into_iter().filter(|tool| !has(tool)).collect();
    let reason = match (geteuid().is_root(), missing.is_empty()) {
        (true, true) => {
            let guard = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
            let folder = tempfile::tempdir().expect("a folder for temporary files");
            fs::write(folder.path().join("file.toml"), PING_ALL).expect("a file can be written");
            return Some((guard, folder));
        }
        (false, _) => "not root".to_owned(),
        (true, false) => format!("{} not installed", missing.join(", ")),
    };
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "the testbed cannot be tested here: {reason}");
    eprintln!("skipped: {reason}");
    None
}

fn anabranch(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("anabranch"));
    command.args(arguments).current_dir(folder).env("ANABRANCH_TESTBED_DIR", state(folder));
    command
}

fn state(folder: &Path) -> PathBuf {
    folder.join("state")
}

fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs the command, which must end with this exit code and print these words.
fn assert_ends(folder: &Path, arguments: &[&str], code: i32, words: &str) {
    let output = anabranch(folder, arguments).output().expect("it runs");
    assert_eq!(output.status.code(), Some(code), "{}", text_of(&output));
    assert!(text_of(&output).contains(words), "{}", text_of(&output));
}

/// Checks that nothing is left: no interface, no journal, no process, and unchanged kernel
/// settings.
fn assert_clean(folder: &Path, settings: &str) {
    let interfaces = fs::read_dir("/sys/class/net").expect("a list of interfaces");
    let ours = interfaces
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| is_testbed_interface(name));
    assert_eq!(ours.collect::<Vec<_>>(), Vec::<String>::new());
    assert!(!state(folder).join("journal").exists());
    assert_eq!(processes_of(folder), Vec::<String>::new());
    assert_eq!(buffers(), settings);
}

/// Returns the command lines of the processes of a testbed.
fn processes_of(folder: &Path) -> Vec<String> {
    fs::read_dir("/proc")
        .expect("a list of processes")
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("cmdline")).ok())
        .filter(|line| line.contains(&*state(folder).to_string_lossy()) || line.contains("mininet:a"))
        .collect()
}

fn is_testbed_interface(name: &str) -> bool {
    let number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix("ab").is_some_and(|rest| number(rest.split("-eth").next().unwrap_or(rest)))
}

fn buffers() -> String {
    ["rmem_default", "wmem_default"]
        .map(|name| fs::read_to_string(format!("/proc/sys/net/core/{name}")).expect("a kernel setting"))
        .concat()
}

/// Starts a command and waits until its network is up.
fn start(folder: &Path, arguments: &[&str]) -> std::process::Child {
    let mut child =
        anabranch(folder, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let until = Instant::now() + Duration::from_secs(60);
    while !Path::new("/sys/class/net/ab1-eth1").exists() {
        assert!(child.try_wait().expect("it can be asked").is_none(), "it ended before its network was there");
        assert!(Instant::now() < until, "no network within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

/// Returns the summary in the folder `out`.
fn summary(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("out/summary.json")).expect("a summary")).expect("JSON")
}

#[test]
fn tcp_flows_of_all_pairs_complete() {
    let Some((_guard, folder)) = machine() else { return };
    let folder = folder.path();
    let tcp = ["--set", "transport={kind=\"cubic\"}", "--set", "traffic.workload=fixed:size=20KB"];
    assert_ends(folder, &[&["testbed", "run", "file.toml", "--out", "out"][..], &tcp].concat(), 0, "");
    let summary = summary(folder);
    let run = &summary["runs"][0];
    assert_eq!((&run["testbed"]["source"], &run["flows"]["completed"]), (&"sockets".into(), &240.into()), "{run}");
    let flows = fs::read_to_string(folder.join("out/flows.csv")).expect("a table");
    let mut rows = flows.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = rows.next().expect("a header");
    let column = |name: &str| names.iter().position(|known| *known == name).expect("a column");
    let (bytes, sent) = (column("delivered_bytes"), column("packets_sent"));
    for row in rows {
        // 20 kB are at least 14 full segments of 1,448 bytes.
        assert_eq!(row[bytes], "20000", "{row:?}");
        assert!(row[sent].parse::<u64>().is_ok_and(|sent| sent >= 14), "{row:?}");
    }
}

#[test]
fn all_pairs_complete_and_nothing_is_left() {
    let Some((_guard, folder)) = machine() else { return };
    let (folder, settings) = (folder.path(), buffers());
    assert_ends(folder, &["testbed", "run", "file.toml", "--out", "out"], 0, "");
    let summary = summary(folder);
    let run = &summary["runs"][0];
    assert_eq!((&run["platform"], &run["flows"]["completed"]), (&"testbed".into(), &240.into()), "{run}");
    let packets = &run["packets"];
    assert_eq!(
        (&packets["sent"], &packets["delivered"], &packets["in_flight"]),
        (&1200.into(), &1200.into(), &0.into())
    );
    let dropped = packets["dropped"].as_object().expect("causes");
    assert!(dropped.values().all(|count| *count == 0), "{dropped:?}");
    let proof = &run["testbed"];
    assert!(proof["preflight_sent"].as_u64() > Some(1000) && proof["preflight_lost"] == 0, "{proof}");
    // 16 x 15 flows: 16 x 1 stay at their edge switch, 16 x 2 in their pod, 16 x 12 cross one core
    // switch.
    let hops = run["engine"]["packet_hops"].as_u64().expect("a count");
    let expected = 5 * (16 * 2 + 32 * 4 + 192 * 6);
    assert!((expected..expected + 400).contains(&hops), "{hops} for {expected}");
    let bins = run["core"]["bins"].as_array().expect("bins");
    let busiest = bins.iter().map(|bin| bin["bb_rx"].as_f64().expect("a share")).fold(0.0, f64::max);
    assert!(busiest > 0.0, "{bins:?}");
    assert!(folder.join("out/report.html").is_file());
    assert_clean(folder, &settings);
}

#[test]
fn rest_of_crashed_testbed_is_removed() {
    let Some((_guard, folder)) = machine() else { return };
    let (folder, settings) = (folder.path(), buffers());
    assert_ends(folder, &["testbed", "up", "file.toml"], 0, "");
    assert_ends(folder, &["testbed", "up", "file.toml"], 2, "testbed down");
    let journal = fs::read_to_string(state(folder).join("journal")).expect("a journal");
    let first: Value = serde_json::from_str(journal.lines().next().expect("a line")).expect("JSON");
    let driver = Pid::from_raw(i32::try_from(first["driver"].as_i64().expect("a number")).expect("a process"));
    kill(driver, Signal::SIGKILL).expect("it is alive");
    // On a busy machine the process takes a while to die, and its network stays up as long.
    let stat = format!("/proc/{driver}/stat");
    let is_dead = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    let until = Instant::now() + Duration::from_secs(10);
    while !is_dead() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(Path::new("/sys/class/net/ab1-eth1").exists());
    assert_ends(folder, &["testbed", "down"], 0, "removed");
    assert_clean(folder, &settings);
    assert_ends(folder, &["testbed", "down"], 0, "nothing");
}

#[test]
fn running_testbed_is_removed() {
    let Some((_guard, folder)) = machine() else { return };
    let (folder, settings) = (folder.path(), buffers());
    assert_ends(folder, &["testbed", "up", "file.toml"], 0, "");
    assert_ends(folder, &["testbed", "down"], 0, "was up");
    assert_clean(folder, &settings);
}

#[test]
fn ctrl_c_cleans_up() {
    let Some((_guard, folder)) = machine() else { return };
    let (folder, settings) = (folder.path(), buffers());
    let child = start(folder, &["testbed", "run", "file.toml", "--out", "out"]);
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a process")), Signal::SIGINT).expect("it is alive");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text_of(&output));
    assert!(text_of(&output).contains("interrupted"), "{}", text_of(&output));
    assert_clean(folder, &settings);
}

#[test]
fn killed_run_cleans_up() {
    let Some((_guard, folder)) = machine() else { return };
    let (folder, settings) = (folder.path(), buffers());
    let mut child = start(folder, &["testbed", "run", "file.toml", "--out", "out"]);
    child.kill().expect("it is alive");
    child.wait().expect("it ends");
    let until = Instant::now() + Duration::from_secs(60);
    // On a busy machine the driver takes a while to end after it has removed its journal.
    while state(folder).join("journal").exists() || !processes_of(folder).is_empty() {
        assert!(Instant::now() < until, "the driver did not clean up after its parent was gone");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_clean(folder, &settings);
}

#[test]
fn user_without_root_gets_error() {
    let Some((_guard, folder)) = machine() else { return };
    // The program may be in a folder that other users cannot enter; its copy is not.
    let copy = tempfile::tempdir().expect("a folder");
    let program = copy.path().join("anabranch");
    fs::copy(assert_cmd::cargo::cargo_bin!("anabranch"), &program).expect("a copy");
    fs::copy(folder.path().join("file.toml"), copy.path().join("file.toml")).expect("a copy");
    let open = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(copy.path(), open).expect("a file of this test");
    for arguments in [&["testbed", "run", "file.toml"][..], &["testbed", "up", "file.toml"], &["testbed", "down"]] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(arguments);
        let output = command.current_dir(copy.path()).output().expect("setpriv is part of every Debian");
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        assert!(text_of(&output).contains("needs root"), "{}", text_of(&output));
    }
}
