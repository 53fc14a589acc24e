//! Errors of newcomers: each message says what is wrong, where, and how to fix it.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::common::{SMALL, assert_rejected, folder_with, outcome, printed_json, succeed};

fn folder() -> TempDir {
    folder_with(&SMALL.replace("seeds = 2", "seeds = 1").replace("[0.3, 0.6]", "[0.6]"))
}

#[test]
fn unreadable_files_are_rejected_with_hint() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("empty.toml"), "\n").unwrap();
    fs::write(path.join("sizes.csv"), "a,b\n1,2\n").unwrap();
    assert_rejected(path, "run empty.toml", &["the experiment file is empty", "empty.toml", "hint: start from"]);
    assert_rejected(path, "run .", &["this is a folder", "anabranch matrix FOLDER"]);
    assert_rejected(path, "compare --topology gone.graphml", &["cannot read gone.graphml", "to the current folder"]);
    assert_rejected(path, "topology gone.topo", &["cannot read gone.topo", "anabranch list topologies"]);
    assert_rejected(path, "compare --workload file:path=sizes.csv", &["sizes.csv:1", "separated by a space"]);
    assert_rejected(path, "compare --out small.toml", &["cannot write to small.toml", "this is a file, not a folder"]);
}

#[test]
fn invalid_options_are_rejected_with_hint() {
    let folder = folder();
    let path = folder.path();
    assert_rejected(path, "compare --balancers ecmp␣spray", &["separated by commas, such as `ecmp,spray`"]);
    assert_rejected(path, "compare --failure link-rate:any", &["`link-rate` needs it, such as fraction=0.2"]);
    assert_rejected(path, "serve --listen 6653", &["write an address and a port, such as 0.0.0.0:6653"]);
    assert_rejected(path, "simtest --seeds 0", &["--seeds"]);
    assert_rejected(path, "list balancers ecpm", &["`ecpm` is not in the list", "did you mean `ecmp`?"]);
    for command in ["list", "run", "check", "topology", "report"] {
        assert_rejected(path, command, &["Usage: anabranch ", "--help"]);
    }
}

#[test]
fn results_of_another_experiment_are_kept() {
    let folder = folder();
    let path = folder.path();
    let stdout = succeed(path, "run small.toml --out kept");
    assert!(!stdout.contains("wins") && stdout.contains("may be chance"), "{stdout}");
    let kept = fs::read(path.join("kept/summary.json")).unwrap();
    assert_rejected(path, "compare --out kept", &["kept holds the results of another experiment, `small`", "--out"]);
    assert_eq!(fs::read(path.join("kept/summary.json")).unwrap(), kept);
    // The same experiment may continue there.
    succeed(path, "run small.toml --out kept --seeds 2");
}

#[test]
fn lists_explain_marks_and_filter_by_name() {
    let folder = folder();
    let all = succeed(folder.path(), "list balancers");
    assert!(all.contains("from P02;") && all.contains("P… and S… are numbers in the catalogue"), "{all}");
    let (code, one, _) = outcome(folder.path(), &["list", "balancers", "hermes", "conga"]);
    assert_eq!((code, one.matches("\n    from ").count()), (0, 2), "{one}");
    assert_eq!(printed_json(folder.path(), "list keys traffic.load --json").as_array().unwrap().len(), 1);
}

#[test]
fn folder_of_a_running_command_is_refused() {
    let folder = folder();
    let path = folder.path();
    let mut first = Command::new(assert_cmd::cargo::cargo_bin("anabranch"))
        .args(["run", "small.toml", "--quiet", "--jobs", "1", "--set", "traffic.flows=100000"])
        .current_dir(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !path.join("results/small/experiment.toml").exists() && first.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let words = ["another process writes to the results folder results/small", "hint: wait until it ends, or name"];
    let (code, _, stderr) = outcome(path, &["run", "small.toml"]);
    let was_running = first.try_wait().unwrap().is_none();
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(was_running, "the first command ended too early for this test");
    assert_eq!(code, 2, "{stderr}");
    words.iter().for_each(|words| assert!(stderr.contains(words), "{words}: {stderr}"));
    // The lock ends with the process.
    succeed(path, "run small.toml --set traffic.flows=10");
}

#[test]
fn edited_record_is_refused_with_its_line() {
    let folder = folder();
    let path = folder.path();
    succeed(path, "run small.toml");
    let records = path.join("results/small/runs.jsonl");
    let text = fs::read_to_string(&records).unwrap();
    let edited = text.replacen("\"slowdown_min\":", "\"slowdown_min\":9", 1);
    fs::write(&records, &edited).unwrap();
    for command in ["run small.toml", "report results/small"] {
        let (code, _, stderr) = outcome(path, &command.split(' ').collect::<Vec<_>>());
        assert_eq!(code, 2, "{stderr}");
        for words in ["runs.jsonl:1 was changed after its run", "hint: delete the line"] {
            assert!(stderr.contains(words), "{command}: {stderr}");
        }
    }
    // As the hint says.
    fs::write(&records, edited.split_once('\n').unwrap().1).unwrap();
    succeed(path, "run small.toml");
    assert!(!fs::read_to_string(&records).unwrap().contains("\"slowdown_min\":9"));
}

/// Below the size of the program image, the kernel ends the process before its first instruction.
/// From there on there must be results or a message, but no crash.
#[cfg(target_os = "linux")]
#[test]
fn little_memory_ends_in_results_or_a_message() {
    let folder = folder();
    let program = assert_cmd::cargo::cargo_bin("anabranch");
    let image_kib = fs::metadata(&program).unwrap().len() >> 10;
    let (mut kib, mut completed) = (image_kib + (2 << 10), 0);
    while completed < 3 {
        assert!(kib < image_kib + (1 << 20), "1 GiB is enough for a small run");
        let command = format!("ulimit -v {kib}; exec \"$0\" run small.toml --quiet --jobs 16 --out {kib}");
        // Printing a backtrace needs memory, too, and may wait forever for its own lock.
        let mut run = Command::new("sh");
        run.args(["-c", &command]).arg(&program).current_dir(folder.path()).env_remove("RUST_BACKTRACE");
        let output = run.output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            completed += 1;
        } else {
            assert!(!stderr.is_empty() && !stderr.contains("panicked"), "{kib} KiB: {:?}: {stderr}", output.status);
            assert_ne!(output.status.signal(), Some(11), "{kib} KiB: {stderr}");
        }
        kib += 1 << 10;
    }
}
