//! The command as users run it: bad input, determinism, interruption, output.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{SMALL as FILE, assert_rejected, folder_with, outcome, printed_json, read_json, succeed};

/// Parts of [`FILE`] that tests replace.
const SPEC: &str = "spec = \"leaf-spine:leaves=2,spines=2,hosts_per_leaf=2\"";
const TRAFFIC: &str = "workload = \"web-search\"\nload = [0.3, 0.6]\nflows = 30\n";

fn folder() -> TempDir {
    folder_with(FILE)
}

/// Runs a command that must be rejected: exit code 2, empty standard output, no results, and
/// `words` in the error.
fn assert_no_results(folder: &Path, command: &str, words: &[&str]) {
    assert_rejected(folder, command, &[&["error: "], words].concat());
    assert!(!folder.join("results").exists(), "{command} left partial results");
}

#[test]
fn errors_in_files_show_file_line_and_key() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("flows = 30", "flow = 30", &["traffic.flow: there is no such key", "bad.toml:9:1", "did you mean `flows`?"]),
        ("seeds = 2", "seeds = 0", &["seeds: 0 is not from 1", "bad.toml:2:9", "2 | seeds = 0", "^"]),
        ("[0.3, 0.6]", "[0.3, 0]", &["traffic.load: 0 is not a valid load", "bad.toml:8:14"]),
        ("leaves=2", "leaves=0", &["topology.spec: leaf-spine: leaves = 0: must be at least 1", "bad.toml:5:8"]),
        ("leaf-spine:leaves=2,spines=2,hosts_per_leaf=2", "fat-tree:k=5", &["k = 5: must be even", "bad.toml:5"]),
        ("hosts_per_leaf=2", "hosts_per_leaf=0", &["hosts_per_leaf = 0", "bad.toml:5"]),
        ("hosts_per_leaf=2", "host_rate=0Gbps", &["host_rate", "above zero", "bad.toml:5"]),
        ("web-search", "web-serch", &["did you mean `web-search`?", "bad.toml:7"]),
        ("web-search", "fixed:size=0B", &["traffic.workload", "bad.toml:7"]),
        ("\"web-search\"", "\"file:path=falls.cdf\"", &["falls.cdf:2: probability", "bad.toml:7"]),
        ("\"web-search\"", "\"file:path=ends.cdf\"", &["ends.cdf:2", "must end at 1", "bad.toml:7"]),
        (SPEC, "file = \"cut.graphml\"", &["cut.graphml:", "bad.toml:5"]),
        (SPEC, "file = \"cut.topo\"", &["cut.topo:", "bad.toml:5"]),
        (SPEC, "file = \"apart.json\"", &["apart.json", "disconnected"]),
        (TRAFFIC, "flow_list = \"cut.cm\"\n", &["cut.cm:", "bad.toml:7"]),
        (TRAFFIC, "flow_list = \"cut.csv\"\n", &["cut.csv:", "bad.toml:7"]),
    ];
    let folder = folder();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("falls.cdf", "0 0.5\n10 0.4\n20 1\n");
    write("ends.cdf", "0 0\n10 0.9\n");
    write("cut.graphml", "<graphml><graph>\n<node id=\"0\"");
    write("cut.topo", "Nodes\n");
    write("cut.cm", "Nodes 4\nConnections 2\n0->1 start 0 size 10\n");
    write("cut.csv", "src,dst\n0,");
    write(
        "apart.json",
        r#"{"format": "topology/1", "name": "apart", "units": {"throughput": "Mbit/s", "latency": "ms"},
            "nodes": [{"id": "a", "role": "server"}, {"id": "b", "role": "server"}], "links": []}"#,
    );
    for (good, bad, words) in cases {
        write("bad.toml", &FILE.replace(good, bad));
        assert_no_results(folder.path(), "run bad.toml", words);
        assert_no_results(folder.path(), "check bad.toml", words);
    }
}

#[test]
fn errors_in_options_name_the_option() {
    let folder = folder();
    let path = folder.path();
    assert_no_results(path, "compare --topology fat-tree:k=5", &["--topology fat-tree:k=5", "must be even"]);
    assert_no_results(path, "compare --load 0", &["--load 0", "is not a valid load"]);
    assert_no_results(path, "compare --load x", &["--load x", "traffic.load"]);
    assert_no_results(path, "compare --balancers ecpm", &["--balancers ecpm", "did you mean `ecmp`?"]);
    assert_no_results(path, "compare --flows 0", &["--flows 0", "traffic.flows"]);
    assert_no_results(path, "compare --seeds -1", &["--seeds -1"]);
    assert_no_results(path, "compare --topology gone.graphml", &["cannot read gone.graphml"]);
    assert_no_results(path, "run small.toml --set trafic.load=1", &["--set trafic.load=1", "did you mean `traffic`?"]);
    assert_no_results(
        path,
        "compare --failure link-down:any --failure switch-down:core9",
        &["--failure switch-down:core9", "failure.1.switch", "did you mean `core"],
    );
    assert_no_results(path, "compare --failure link-dwn:any", &["--failure link-dwn:any", "did you mean `link-down`?"]);
    assert_no_results(path, "run small.toml --set seeds", &["there is no `=`", "hint: "]);
    assert_no_results(
        path,
        "run gone.toml",
        &["cannot read the experiment file", "gone.toml", "anabranch list experiments"],
    );
    assert_no_results(path, "run small.toml --platform mars", &["--platform", "there is only `sim`"]);
    assert_no_results(path, "run small.toml --platform testbed", &["--platform", "anabranch testbed run"]);
    assert_no_results(path, "compare --load 60%", &["--load 60%", "0.6 is 60 %"]);
    assert_no_results(path, "run small.toml --set transport.gain=\"6%\"", &["transport.gain", "write 0.06 for 6%"]);
    assert_no_results(path, "topology abilene", &["no such topology", ".graphml"]);
    assert_no_results(path, "topology fat-tre:k=4", &["did you mean `fat-tree`?"]);
    assert_no_results(path, "report nowhere", &["no finished results", "hint: "]);
    assert_no_results(path, "list nonsense", &["nonsense"]);
}

#[test]
fn loads_of_one_or_more_only_warn() {
    let folder = folder();
    let (code, _, stderr) = outcome(folder.path(), &["check", "small.toml", "--set", "traffic.load=1.2"]);
    assert_eq!(code, 0);
    assert!(stderr.starts_with("warning: ") && !stderr.contains("60 %"), "{stderr}");
    let (_, _, stderr) = outcome(folder.path(), &["check", "small.toml", "--set", "traffic.load=60"]);
    assert!(stderr.contains("0.6 is 60 %"), "{stderr}");
}

#[test]
fn the_summary_is_the_same_on_one_and_two_threads() {
    let folder = folder();
    for jobs in ["1", "2"] {
        let stdout = succeed(folder.path(), &format!("run small.toml --out {jobs} --jobs {jobs}"));
        assert!(stdout.contains("★") && stdout.contains("report: "), "{stdout}");
    }
    let read = |jobs: &str, name: &str| fs::read(folder.path().join(jobs).join(name)).unwrap();
    for name in ["summary.json", "flows.parquet", "report.html"] {
        assert_eq!(read("1", name), read("2", name), "{name}");
    }
}

#[test]
fn written_flow_lists_replay_to_the_same_completion_times() {
    let folder = folder();
    succeed(folder.path(), "run small.toml --write-flow-lists --out drawn --set traffic.load=[0.6] --seeds 1");
    let list = "drawn/flow-lists/load-0.6-seed-1.csv";
    assert!(folder.path().join(list).is_file());
    let replay = FILE
        .replace("workload = \"web-search\"\n", &format!("flow_list = \"{list}\"\n"))
        .replace("load = [0.3, 0.6]\nflows = 30\n", "")
        .replace("seeds = 2", "seeds = 1");
    fs::write(folder.path().join("replay.toml"), replay).unwrap();
    succeed(folder.path(), "run replay.toml --out replayed");
    let runs = |out: &str| read_json(folder.path().join(out).join("summary.json"))["runs"].clone();
    let (drawn, replayed) = (runs("drawn"), runs("replayed"));
    for (a, b) in drawn.as_array().unwrap().iter().zip(replayed.as_array().unwrap()) {
        assert_eq!(a["fct_us"], b["fct_us"]);
        assert_eq!(a["packets"], b["packets"]);
    }
}

#[test]
fn merged_parts_are_the_bytes_of_one_run() {
    let folder = folder();
    succeed(folder.path(), "run small.toml --out one");
    for part in ["1/3", "2/3", "3/3"] {
        succeed(folder.path(), &format!("run small.toml --shard {part}"));
    }
    let stdout = succeed(
        folder.path(),
        "merge results/small-shards/3-of-3 results/small-shards/1-of-3 results/small-shards/2-of-3",
    );
    assert!(stdout.ends_with("report: results/small/report.html\n"), "{stdout}");
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read("results/small/SHA256SUMS"), read("one/SHA256SUMS"));
    assert_rejected(
        folder.path(),
        "merge results/small-shards/1-of-3 --out two",
        &["runs are in none of the folders, such as", "run the parts that are missing"],
    );
    assert_rejected(folder.path(), "run small.toml --shard 4/3", &["there is no part 4 of 3"]);
}

#[test]
fn partial_results_say_what_is_missing() {
    let folder = folder();
    for part in ["1/3", "2/3"] {
        succeed(folder.path(), &format!("run small.toml --seeds 3 --shard {part}"));
    }
    let merge = "merge --partial results/small-shards/1-of-3 results/small-shards/2-of-3";
    let (code, stdout, stderr) = outcome(folder.path(), &merge.split(' ').collect::<Vec<_>>());
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("note: Partial results: "), "{stderr}");
    assert!(stdout.ends_with("report: results/small-partial/report.html\n"), "{stdout}");
    let page = fs::read_to_string(folder.path().join("results/small-partial/report.html")).unwrap();
    assert!(page.contains("Partial results: "));
}

/// The script of a job array, run as Slurm would, in an arbitrary order.
#[test]
fn script_of_slurm_gives_the_bytes_of_one_run() {
    let folder = folder();
    succeed(folder.path(), "run small.toml --out one");
    let script = succeed(folder.path(), "cluster slurm small.toml --parts 3 --set seeds=2");
    assert!(script.contains("#SBATCH --array=1-3\n") && script.contains(" --set 'seeds=2' "), "{script}");
    let script = succeed(folder.path(), "cluster slurm small.toml --parts 3");
    fs::write(folder.path().join("sweep.sh"), script).unwrap();
    let program = assert_cmd::cargo::cargo_bin("anabranch");
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    for part in ["2", "3", "1"] {
        assert!(!folder.path().join("results/small/summary.json").exists(), "merged before all parts have ended");
        let mut bash = std::process::Command::new("bash");
        bash.arg("sweep.sh").current_dir(folder.path()).env("PATH", &path).env("SLURM_ARRAY_TASK_ID", part);
        let output = bash.output().expect("bash");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read("results/small/SHA256SUMS"), read("one/SHA256SUMS"));
}

#[test]
fn files_for_clusters_hold_the_experiment() {
    let folder = folder();
    let manifest =
        succeed(folder.path(), "cluster kubernetes small.toml --parts 2 --memory 512Mi --image here/anabranch:1");
    for text in [
        "completions: 2\n",
        "memory: 512Mi",
        "image: here/anabranch:1\n",
        "claimName: anabranch-results",
        "suspend: true\n",
    ] {
        assert!(manifest.contains(text), "{text} in {manifest}");
    }
    let ray = succeed(folder.path(), "cluster ray small.toml");
    assert!(ray.contains("--on ray") && ray.contains("cluster_name: anabranch-small\n"), "{ray}");
    assert_rejected(folder.path(), "cluster slurm small.toml --memory 2", &["a number and Mi or Gi"]);
    assert_rejected(folder.path(), "cluster kubernetes small.toml --image a;b", &["letters, digits and"]);
}

#[test]
fn clusters_need_the_python_package() {
    let folder = folder();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("anabranch"));
    command.args(["run", "small.toml", "--on", "ray"]).current_dir(folder.path());
    let output = command.env("ANABRANCH_PYTHON", "/nonexistent/python").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("cannot run `/nonexistent/python`") && stderr.contains("ANABRANCH_PYTHON"), "{stderr}");
    assert_rejected(folder.path(), "run small.toml --on ray --jobs 2", &["cannot be used with"]);
}

#[test]
fn quiet_prints_the_table_only() {
    let folder = folder();
    let (code, stdout, stderr) = outcome(folder.path(), &["run", "small.toml", "--quiet", "--seeds", "1"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("mean slowdown") && !stdout.contains("report:"), "{stdout}");
}

#[test]
fn claims_are_printed_after_table() {
    let folder = folder();
    let claim = "[[expect]]\nid = \"X1\"\nclaim = \"it is quick\"\nmetric = \"fct_mean_us\"\nbalancer = \"ecmp\"\n\
                 within = [0, 0.5]\nlowest_load_only = true\nreason = \"light is slower\"\n";
    fs::write(folder.path().join("claim.toml"), format!("{FILE}{claim}")).unwrap();
    let (code, stdout, stderr) = outcome(folder.path(), &["run", "claim.toml", "--seeds", "1"]);
    assert_eq!(code, 0, "a claim that fails is a result: {stderr}");
    let line = stdout.lines().find(|line| line.starts_with("X1 ")).expect("a line for the claim");
    assert!(line.starts_with("X1 fails: it is quick — fails at 30 %: "), "{line}");
    assert!(line.ends_with(", above 0 µs to 0.5 µs; light is slower"), "{line}");
    let spray_only = ["check", "claim.toml", "--set", "balancers=[\"spray\"]"];
    let (code, _, stderr) = outcome(folder.path(), &spray_only);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("note: X1 is not judged: expect.0.balancer: `ecmp` is not among"), "{stderr}");
    fs::write(folder.path().join("bad.toml"), format!("{FILE}{claim}").replace("fct_mean_us", "fct_mean")).unwrap();
    let words = ["expect.0.metric: unknown metric `fct_mean`", "bad.toml:13:10", "did you mean `fct_mean_us`?"];
    assert_rejected(folder.path(), "run bad.toml", &words);
}

#[test]
fn comparison_title_names_workload_and_topology() {
    let folder = folder();
    let compare = "compare --topology diamond --balancers ecmp --seeds 1 --flows 5";
    succeed(folder.path(), &format!("{compare} --out out"));
    let page = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(page.contains("<h1>web-search on diamond</h1>"));
    succeed(folder.path(), &format!("{compare} --out own --set title=mine"));
    assert!(fs::read_to_string(folder.path().join("own/report.html")).unwrap().contains("<h1>mine</h1>"));
}

#[test]
fn interrupted_sweep_resumes_without_repeating_runs() {
    // As in a power cut, and Ctrl-C.
    resumes_after(Signal::SIGKILL, None);
    resumes_after(Signal::SIGINT, Some(130));
}

/// Ends a sweep after its second run by a signal, checks its exit code, and resumes it.
fn resumes_after(signal: Signal, expected: Option<i32>) {
    let folder = folder();
    let binary = assert_cmd::cargo::cargo_bin("anabranch");
    let run = "run small.toml --jobs 1 --set traffic.flows=1500";
    let mut child = std::process::Command::new(binary)
        .args(run.split(' '))
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let records = folder.path().join("results/small/runs.jsonl");
    let lines = || fs::read_to_string(&records).map_or(0, |text| text.lines().count());
    while lines() < 2 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal::kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    // The signal may also come after the last run.
    let code = child.wait().unwrap().code();
    let before = lines();
    assert!(before >= 2);
    let is_complete = folder.path().join("results/small/summary.json").exists();
    assert!(code == expected || is_complete && code == Some(0), "{code:?}");
    let first = fs::read_to_string(&records).unwrap().lines().next().unwrap().to_owned();
    succeed(folder.path(), run);
    // The first run was not repeated: its wall time is unchanged.
    assert_eq!(fs::read_to_string(&records).unwrap().lines().next().unwrap(), first);
    succeed(folder.path(), &format!("{run} --out whole"));
    let read = |name: &str| fs::read(folder.path().join(name).join("summary.json")).unwrap();
    assert_eq!(read("results/small"), read("whole"));
}

#[test]
fn unwritable_output_is_rejected_before_first_run() {
    let folder = folder();
    fs::write(folder.path().join("file"), "").unwrap();
    let words = ["error: cannot write to file/x", "caused by: ", "hint: name a folder"];
    assert_rejected(folder.path(), "run small.toml --out file/x", &words);
}

#[test]
fn lists_and_topologies_print_json() {
    let folder = folder();
    fs::create_dir(folder.path().join("experiments")).unwrap();
    fs::copy(folder.path().join("small.toml"), folder.path().join("experiments/small.toml")).unwrap();
    for what in
        "balancers topologies workloads patterns arrivals collectives transports experiments keys settings".split(' ')
    {
        let items = printed_json(folder.path(), &format!("list {what} --json"));
        assert!(!items.as_array().unwrap().is_empty(), "{what}");
        assert!(outcome(folder.path(), &["list", what]).1.lines().count() > 1, "{what}");
    }
    let balancers = printed_json(folder.path(), "list balancers --json");
    let text = succeed(folder.path(), "list balancers");
    for (name, kind) in [("ecmp", "dataplane"), ("hedera", "central"), ("optimum", "bound")] {
        let item = balancers.as_array().unwrap().iter().find(|item| item["name"] == name).unwrap();
        assert_eq!(item["kind"], kind);
        assert!(text.contains(&format!("{name} ({kind})\n")), "{text}");
    }
    let ecmp = balancers.as_array().unwrap().iter().find(|item| item["name"] == "ecmp").unwrap();
    assert_eq!((&ecmp["decides"], &ecmp["reorders"]), (&"switch".into(), &"never".into()));
    assert_eq!(ecmp["parameters"][1]["takes"], "one of per-switch, none");
    let keys = printed_json(folder.path(), "list keys --json");
    let rate = keys.as_array().unwrap().iter().find(|item| item["name"] == "topology.rate").unwrap();
    assert_eq!((&rate["takes"], &rate["default"]), (&"bandwidth".into(), &"10Gbps".into()));
    let network = printed_json(folder.path(), "topology fat-tree:k=8 --json");
    assert_eq!((&network["hosts"], &network["cables"]), (&128.into(), &384.into()));
    assert_eq!(network["paths_from_first_host"][2]["equal_cost_max"], 16);
    assert_eq!(network["bisection_bps"], 640_000_000_000u64);
    let json = succeed(folder.path(), "topology leaf-spine --export json");
    fs::write(folder.path().join("out.json"), json).unwrap();
    let stdout = succeed(folder.path(), "topology out.json");
    assert!(stdout.contains("hosts       128"), "{stdout}");
}

#[test]
fn closed_pipe_exits_with_success() {
    let folder = folder();
    let binary = assert_cmd::cargo::cargo_bin("anabranch");
    let mut child = std::process::Command::new(binary)
        .args(["completions", "bash"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

fn canon() -> TempDir {
    let folder = folder();
    let canon = folder.path().join("canon");
    fs::create_dir(&canon).unwrap();
    let table = "[matrix]\ntitle = \"web search\"\nloads = [0.6]\nflows = 20\n";
    fs::write(canon.join("1.toml"), format!("{}{table}", FILE.replace("small", "web"))).unwrap();
    let cut = "[[failure]]\nkind = \"blackhole\"\nswitch = \"spine0\"\nfraction = 1.0\n[stop]\nuntil = \"30ms\"\n[matrix]\nloads = [0.3]\n";
    fs::write(canon.join("2.toml"), format!("{}{cut}", FILE.replace("small", "cut"))).unwrap();
    let few = FILE.replace("small", "few").replace(", \"spray\"", "").replace("[0.3, 0.6]", "0.3");
    fs::write(canon.join("3.toml"), few).unwrap();
    folder
}

#[test]
fn matrix_is_identical_on_one_and_two_threads() {
    let folder = canon();
    for jobs in ["1", "2"] {
        let stdout = succeed(folder.path(), &format!("matrix canon --out {jobs} --jobs {jobs}"));
        assert!(stdout.contains("web search") && stdout.contains("report: "), "{stdout}");
    }
    let read = |jobs: &str, name: &str| fs::read(folder.path().join(jobs).join(name)).unwrap();
    for name in ["matrix.json", "matrix.csv", "matrix.md", "report.html", "web/summary.json", "cut/report.html"] {
        assert_eq!(read("1", name), read("2", name), "{name}");
    }
    let matrix: Value = serde_json::from_slice(&read("1", "matrix.json")).unwrap();
    assert_eq!((&matrix["schema"], &matrix["name"]), (&3.into(), &"canon".into()));
    let columns = matrix["columns"].as_array().unwrap();
    let headings: Vec<&str> = columns.iter().map(|column| column["title"].as_str().unwrap()).collect();
    assert_eq!(headings, ["web search", "cut", "few"]);
    let of = |column: &Value, key: &str| column["cells"][0][key].as_u64().unwrap();
    assert_eq!((of(&columns[0], "flows_started"), of(&columns[1], "flows_started")), (2 * 20, 2 * 30));
    assert!(of(&columns[1], "flows_completed") < 60, "a blackhole leaves flows unfinished");
    assert_eq!(columns[2]["cells"].as_array().unwrap().len(), 1);
    let markdown = String::from_utf8(read("1", "matrix.md")).unwrap();
    let spray = markdown.lines().find(|line| line.starts_with("| spray")).expect("a row");
    assert!(
        spray.contains("(1 missing)") && spray.ends_with("| — |") && spray.contains("flows unfinished)"),
        "{spray}"
    );
    // The page can be regenerated from the folder, and the folder of an experiment repeats it.
    fs::remove_file(folder.path().join("1/report.html")).unwrap();
    assert_eq!(succeed(folder.path(), "report 1"), "report: 1/report.html\n");
    assert_eq!(read("1", "report.html"), read("2", "report.html"));
    succeed(folder.path(), "run 1/web/experiment.toml --out again --no-flows");
    assert_eq!(read("again", "summary.json"), read("1", "web/summary.json"));
}

#[test]
fn matrix_reuses_existing_runs_and_honours_overrides() {
    let folder = canon();
    let args = ["matrix", "canon", "--quiet", "--balancers", "ecmp,spt", "--set", "traffic.flows=10"];
    let (code, stdout, stderr) = outcome(folder.path(), &[&args[..], &["--seeds", "1"]].concat());
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("spt") && !stdout.contains("spray"), "{stdout}");
    let records = folder.path().join("results/canon/web/runs.jsonl");
    let first = fs::read_to_string(&records).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(outcome(folder.path(), &[&args[..], &["--seeds", "2"]].concat()).0, 0);
    let text = fs::read_to_string(&records).unwrap();
    // The first run was not repeated: its wall time is unchanged.
    assert!(text.starts_with(&first), "the first run was repeated");
    assert_eq!(text.lines().count(), 4);
}

#[test]
fn matrix_errors_name_cause_and_fix() {
    let folder = canon();
    let path = folder.path();
    fs::create_dir(path.join("empty")).unwrap();
    assert_no_results(path, "matrix nothing", &["no such file or folder: nothing", "hint: name a folder"]);
    assert_no_results(path, "matrix empty", &["there is no experiment file in empty", "hint: "]);
    assert_no_results(path, "matrix small.toml small.toml", &["both named `small`", "hint: give one of them"]);
    assert_no_results(path, "matrix canon --balancers ecpm", &["--balancers ecpm", "did you mean `ecmp`?"]);
    fs::write(path.join("canon/4.toml"), format!("{FILE}[matrix]\nload = 1\n")).unwrap();
    assert_no_results(path, "matrix canon", &["matrix.load: there is no such key", "canon/4.toml:11:1", "`loads`"]);
}

#[test]
fn bounds_are_printed_and_errors_explained() {
    let folder = tempfile::tempdir().unwrap();
    let narrow = "bound --topology leaf-spine:leaves=4,spines=8,hosts_per_leaf=16 --pattern stride";
    let (code, text, stderr) = outcome(folder.path(), &narrow.split(' ').collect::<Vec<_>>());
    assert_eq!((code, stderr.as_str()), (0, ""));
    let numbers = |name: &str| -> Vec<f64> {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split_whitespace().skip(1).take(2).map(|word| word.parse().unwrap()).collect()
    };
    assert_eq!((numbers("hose"), numbers("cut"), numbers("mcf")), (vec![1.0; 2], vec![0.5; 2], vec![0.5; 2]), "{text}");
    let json = printed_json(folder.path(), &format!("{narrow} --json"));
    assert_eq!((json["mcf"]["least"].as_f64(), json["pairs"].as_u64()), (Some(0.5), Some(64)));
    assert_no_results(folder.path(), "bound --pattern random-pairs", &["draws a new pair", "stride, random-bijection"]);
    assert_no_results(folder.path(), "bound --pattern strde", &["did you mean `stride`?"]);
    assert_no_results(folder.path(), "bound --topology fat-tree:k=5", &["k = 5"]);
    assert_no_results(folder.path(), "bound --eps 0", &["--eps 0", "0.001 to 1"]);
}

#[test]
fn bounds_run_next_to_balancers() {
    let folder = folder();
    succeed(folder.path(), "run small.toml --quiet --set balancers=[\"ecmp\",␣\"optimum\",␣\"fastpass:order=srpt\"]");
    let found = fs::read_dir(folder.path().join("results")).unwrap().next().unwrap().unwrap().path();
    let summary = read_json(found.join("summary.json"));
    let runs = summary["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * 2 * 3);
    for run in runs {
        assert_eq!(run["flows"]["completed"], 30, "{run}");
        let is_ecmp = run["balancer"] == "ecmp";
        assert_eq!(run["packets"]["sent"].as_u64().unwrap() > 0, is_ecmp);
        assert!(run["slowdown_min"].as_f64().unwrap() >= 1.0);
    }
}

fn compared_with(folder: &Path, failures: &[&str], out: &str) -> Value {
    let failures: String = failures.iter().map(|failure| format!(" --failure {failure}")).collect();
    let network = "--topology leaf-spine:leaves=4,spines=4,hosts_per_leaf=2 --flows 60 --workload fixed:size=200KB";
    succeed(folder, &format!("compare {network} --seeds 2 --balancers ecmp,spray --out {out}{failures}"));
    read_json(folder.join(out).join("summary.json"))
}

#[test]
fn command_line_failures_apply_and_repeat_from_results() {
    let folder = folder();
    let failures = ["random-drop:switch=spine0,probability=0.02", "link-rate:20%,fraction=0.2"];
    let summary = compared_with(folder.path(), &failures, "out");
    let setting = summary["setting"].to_string();
    // 20 % of 16 cables.
    assert!(
        setting.contains("spine0: loses 0.02 of its packets") && setting.contains(": at 0.2 of its rate"),
        "{setting}"
    );
    for run in summary["runs"].as_array().unwrap() {
        assert!(run["packets"]["dropped"]["random"].as_u64().unwrap() > 0, "{run}");
    }
    succeed(folder.path(), "run out/experiment.toml --out again");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("out/points.csv"), read("again/points.csv"));
    let intact = compared_with(folder.path(), &[], "intact");
    assert_eq!(intact["runs"][0]["packets"]["dropped"]["random"], 0);
}

#[test]
fn collectives_have_completion_times_and_replay() {
    let folder = folder();
    let ring = "collective = \"ring-all-reduce:size=80KB,repeat=3\"\nplacement = \"strided\"\n";
    fs::write(folder.path().join("ring.toml"), FILE.replace(TRAFFIC, ring)).unwrap();
    let stdout = succeed(folder.path(), "run ring.toml --out out --write-flow-lists --seeds 1");
    assert!(stdout.contains("group time"), "{stdout}");
    let summary = read_json(folder.path().join("out/summary.json"));
    for run in summary["runs"].as_array().unwrap() {
        let groups = &run["groups"];
        assert_eq!((groups["time_us"]["count"].as_u64(), groups["unfinished"].as_u64()), (Some(3), Some(0)));
        // Six steps of 20 KB at 10 Gb/s take at least 96 us; three in a row end with the run.
        let mean = groups["time_us"]["mean"].as_f64().unwrap();
        assert!(mean > 96.0 && run["end_us"].as_f64().unwrap() >= 3.0 * mean - 1.0, "{groups}");
        assert_eq!(run["flows"]["completed"], 3 * 24);
    }
    // A replay of the written list gives the same figures, except that it knows of no collectives.
    let lists: Vec<_> = fs::read_dir(folder.path().join("out/flow-lists")).unwrap().collect();
    let list = lists[0].as_ref().unwrap().path();
    let replay = format!("flow_list = \"{}\"\n", list.display());
    fs::write(folder.path().join("replay.toml"), FILE.replace(TRAFFIC, &replay)).unwrap();
    succeed(folder.path(), "run replay.toml --out again --seeds 1");
    let again = read_json(folder.path().join("again/summary.json"));
    let [first, again] = [&summary, &again].map(|summary| &summary["runs"][0]["groups"]);
    assert!(first["bus_gbps_mean"].as_f64().unwrap() > 0.0 && again["bus_gbps_mean"] == 0.0, "{first} {again}");
    for figure in ["time_us", "unfinished", "time_lower_bound_mean_us"] {
        assert_eq!(again[figure], first[figure], "{figure}");
    }
}

#[test]
fn bounds_are_compared_but_never_ranked() {
    let folder = canon();
    let stdout = succeed(folder.path(), "matrix canon/1.toml --balancers optimum,fastpass,ecmp --out out");
    let line = |name: &str| stdout.lines().find(|line| line.contains(name)).expect("a line").to_owned();
    assert!(stdout.contains("of optimum") && line("optimum (bound)").contains("100 %"), "{stdout}");
    assert!(line("ecmp").contains('★') && !line("(bound)").contains('★'), "{stdout}");
    let summary = read_json(folder.path().join("out/web/summary.json"));
    let point = |name: &str| {
        let points = summary["points"].as_array().unwrap();
        points.iter().find(|point| point["balancer"] == name).expect("a point").clone()
    };
    assert_eq!(
        (&point("ecmp")["rank"], &point("optimum")["rank"], &point("fastpass")["rank"]),
        (&1.into(), &0.into(), &0.into())
    );
    // As documented: the optimum's mean slowdown / the balancer's, seed by seed.
    let slowdown = |name: &str, seed: u64| {
        let runs = summary["runs"].as_array().unwrap();
        let run = runs.iter().find(|run| run["balancer"] == name && run["seed"] == seed).expect("a run");
        run["slowdown_lower_bound_mean"].as_f64().unwrap()
    };
    let shares: Vec<f64> = [1, 2].map(|seed| slowdown("optimum", seed) / slowdown("ecmp", seed)).to_vec();
    let share = point("ecmp")["share_of_optimum"]["mean"].as_f64().unwrap();
    assert!((share - (shares[0] + shares[1]) / 2.0).abs() < 1e-12, "{share} {shares:?}");
    let verdict = summary["verdicts"][0]["sentence"].as_str().unwrap();
    assert!(verdict.starts_with("ecmp has mean slowdown") && !verdict.contains("optimum"), "{verdict}");
}

#[test]
fn bench_compares_balancers_in_turns() {
    let folder = tempfile::tempdir().unwrap();
    let rows = printed_json(folder.path(), "bench sim --scenarios S4 --repeat 1 --balancers ecmp,spray --json");
    let names: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["balancer"].as_str().unwrap()).collect();
    assert_eq!((names, rows[0]["ratio"].as_f64()), (vec!["ecmp", "spray"], Some(1.0)));
    assert!(rows[1]["ratio"].as_f64().unwrap() > 0.0);
    assert_no_results(folder.path(), "bench sim --balancers emcp", &["did you mean `ecmp`?"]);
}

#[test]
fn bench_compares_with_several_reference_programs() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    for (name, cpu_s) in [("slow", 2), ("fast", 1)] {
        let path = folder.path().join(name);
        let figures = format!("packet_hops=3000 cpu_s={cpu_s} peak_rss_mb=1");
        let script = format!("#!/bin/sh\n[ \"$1\" = --version ] && echo '{name} (a build)' || echo '{figures}'\n");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let command = "bench sim --scenarios S4 --repeat 1 --reference ./slow --reference ./fast --json";
    let references = printed_json(folder.path(), command)[0]["references"].clone();
    let versions: Vec<&str> = (0..2).map(|i| references[i]["version"].as_str().unwrap()).collect();
    assert_eq!(versions, ["slow (a build)", "fast (a build)"]);
    let ratio = |i: usize| references[i]["ratio"].as_f64().unwrap();
    assert!((ratio(0) / ratio(1) - 2.0).abs() < 1e-9, "{references}");
}
