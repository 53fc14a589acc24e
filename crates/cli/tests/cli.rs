//! The command as users meet it: bad input, determinism, interruption, output.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;

mod common;
use common::outcome;

const FILE: &str = r#"name = "small"
seeds = 2
balancers = ["ecmp", "spray"]
[topology]
spec = "leaf-spine:leaves=2,spines=2,hosts_per_leaf=2"
[traffic]
workload = "web-search"
load = [0.3, 0.6]
flows = 30
"#;

/// A folder with the small experiment in it.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small.toml"), FILE).unwrap();
    folder
}

/// Runs something that must be refused: exit 2, nothing on standard output, no results, and these words.
fn refused(folder: &Path, args: &[&str], words: &[&str]) {
    let (code, stdout, stderr) = outcome(folder, args);
    assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
    assert!(stderr.contains("error: "), "{args:?}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{args:?}: `{word}` is not in\n{stderr}");
    }
    assert!(!folder.join("results").exists(), "{args:?} left something half-written");
}

#[test]
fn mistakes_in_files_show_file_line_and_key() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("flows = 30", "flow = 30", &["traffic.flow: there is no such key", "bad.toml:9:1", "did you mean `flows`?"]),
        ("seeds = 2", "seeds = 0", &["seeds: 0 is not from 1", "bad.toml:2:9", "2 | seeds = 0", "^"]),
        ("[0.3, 0.6]", "[0.3, 0]", &["traffic.load: 0 is not a load", "bad.toml:8:14"]),
        ("leaves=2", "leaves=0", &["topology.spec: leaf-spine: leaves = 0: must be at least 1", "bad.toml:5:8"]),
        ("leaf-spine:leaves=2,spines=2,hosts_per_leaf=2", "fat-tree:k=5", &["k = 5: must be even", "bad.toml:5"]),
        ("hosts_per_leaf=2", "hosts_per_leaf=0", &["hosts_per_leaf = 0", "bad.toml:5"]),
        ("hosts_per_leaf=2", "host_rate=0Gbps", &["host_rate", "above zero", "bad.toml:5"]),
        ("web-search", "web-serch", &["did you mean `web-search`?", "bad.toml:7"]),
        ("web-search", "fixed:size=0B", &["traffic.workload", "bad.toml:7"]),
        ("\"web-search\"", "\"file:path=falls.cdf\"", &["falls.cdf:2: probability", "bad.toml:7"]),
        ("\"web-search\"", "\"file:path=ends.cdf\"", &["ends.cdf:2", "must end at 1", "bad.toml:7"]),
        (
            "spec = \"leaf-spine:leaves=2,spines=2,hosts_per_leaf=2\"",
            "file = \"cut.graphml\"",
            &["cut.graphml:", "bad.toml:5"],
        ),
        (
            "spec = \"leaf-spine:leaves=2,spines=2,hosts_per_leaf=2\"",
            "file = \"cut.topo\"",
            &["cut.topo:", "bad.toml:5"],
        ),
        (
            "spec = \"leaf-spine:leaves=2,spines=2,hosts_per_leaf=2\"",
            "file = \"apart.json\"",
            &["apart.json", "disconnected"],
        ),
        (
            "workload = \"web-search\"\nload = [0.3, 0.6]\nflows = 30\n",
            "flow_list = \"cut.cm\"\n",
            &["cut.cm:", "bad.toml:7"],
        ),
        (
            "workload = \"web-search\"\nload = [0.3, 0.6]\nflows = 30\n",
            "flow_list = \"cut.csv\"\n",
            &["cut.csv:", "bad.toml:7"],
        ),
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
        refused(folder.path(), &["run", "bad.toml"], words);
        refused(folder.path(), &["check", "bad.toml"], words);
    }
}

#[test]
fn mistakes_in_options_name_the_option() {
    let folder = folder();
    let path = folder.path();
    refused(path, &["compare", "--topology", "fat-tree:k=5"], &["--topology fat-tree:k=5", "must be even"]);
    refused(path, &["compare", "--load", "0"], &["--load 0", "is not a load"]);
    refused(path, &["compare", "--load", "x"], &["--load x", "traffic.load"]);
    refused(path, &["compare", "--balancers", "ecpm"], &["--balancers ecpm", "did you mean `ecmp`?"]);
    refused(path, &["compare", "--flows", "0"], &["--flows 0", "traffic.flows"]);
    refused(path, &["compare", "--seeds", "-1"], &["--seeds -1"]);
    refused(path, &["compare", "--topology", "gone.graphml"], &["cannot read gone.graphml"]);
    refused(
        path,
        &["run", "small.toml", "--set", "trafic.load=1"],
        &["--set trafic.load=1", "did you mean `traffic`?"],
    );
    refused(
        path,
        &["compare", "--failure", "link-down:any", "--failure", "switch-down:core9"],
        &["--failure switch-down:core9", "failure.1.switch", "did you mean `core"],
    );
    refused(path, &["compare", "--failure", "link-dwn:any"], &["--failure link-dwn:any", "did you mean `link-down`?"]);
    refused(path, &["run", "small.toml", "--set", "seeds"], &["there is no `=`", "hint: "]);
    refused(
        path,
        &["run", "gone.toml"],
        &["cannot read the experiment file", "gone.toml", "anabranch list experiments"],
    );
    refused(path, &["run", "small.toml", "--world", "mars"], &["--world", "there is only `sim`"]);
    refused(path, &["run", "small.toml", "--world", "testbed"], &["--world", "anabranch testbed run"]);
    refused(path, &["compare", "--load", "60%"], &["--load 60%", "0.6 is 60 %"]);
    refused(path, &["run", "small.toml", "--set", "transport.gain=\"6%\""], &["transport.gain", "write 0.06 for 6%"]);
    refused(path, &["topology", "abilene"], &["no such topology", ".graphml"]);
    refused(path, &["topology", "fat-tre:k=4"], &["did you mean `fat-tree`?"]);
    refused(path, &["report", "nowhere"], &["no finished results", "hint: "]);
    refused(path, &["list", "nonsense"], &["nonsense"]);
}

#[test]
fn loads_of_one_and_more_only_warn() {
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
        let (code, stdout, stderr) = outcome(folder.path(), &["run", "small.toml", "--out", jobs, "--jobs", jobs]);
        assert_eq!(code, 0, "{stderr}");
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
    let run = |args: &[&str]| assert_eq!(outcome(folder.path(), args).0, 0, "{args:?}");
    run(&["run", "small.toml", "--write-flow-lists", "--out", "drawn", "--set", "traffic.load=[0.6]", "--seeds", "1"]);
    let list = "drawn/flow-lists/load-0.6-seed-1.csv";
    assert!(folder.path().join(list).is_file());
    let replay = FILE
        .replace("workload = \"web-search\"\n", &format!("flow_list = \"{list}\"\n"))
        .replace("load = [0.3, 0.6]\nflows = 30\n", "")
        .replace("seeds = 2", "seeds = 1");
    fs::write(folder.path().join("replay.toml"), replay).unwrap();
    run(&["run", "replay.toml", "--out", "replayed"]);
    let runs = |out: &str| {
        let text = fs::read_to_string(folder.path().join(out).join("summary.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["runs"].clone()
    };
    let (drawn, replayed) = (runs("drawn"), runs("replayed"));
    for (a, b) in drawn.as_array().unwrap().iter().zip(replayed.as_array().unwrap()) {
        assert_eq!(a["fct_us"], b["fct_us"]);
        assert_eq!(a["packets"], b["packets"]);
    }
}

#[test]
fn quiet_prints_the_table_only() {
    let folder = folder();
    let (code, stdout, stderr) = outcome(folder.path(), &["run", "small.toml", "--quiet", "--seeds", "1"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("mean slowdown") && !stdout.contains("report:"), "{stdout}");
}

#[test]
fn claims_are_told_after_the_table() {
    let folder = folder();
    let claim = "[[expect]]\nid = \"X1\"\nclaim = \"it is quick\"\nmetric = \"fct_mean_us\"\nbalancer = \"ecmp\"\n\
                 within = [0, 0.5]\nlightest_load = true\nreason = \"light is slower\"\n";
    fs::write(folder.path().join("claim.toml"), format!("{FILE}{claim}")).unwrap();
    let (code, stdout, stderr) = outcome(folder.path(), &["run", "claim.toml", "--seeds", "1"]);
    assert_eq!(code, 0, "a claim that is not reproduced is a result: {stderr}");
    let line = stdout.lines().find(|line| line.starts_with("X1 ")).expect("a line for the claim");
    assert!(line.starts_with("X1 not reproduced: it is quick — fails at 30 %: "), "{line}");
    assert!(line.ends_with(", above 0 µs to 0.5 µs; light is slower"), "{line}");
    let spray_only = ["check", "claim.toml", "--set", "balancers=[\"spray\"]"];
    let (code, _, stderr) = outcome(folder.path(), &spray_only);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("note: X1 is not judged: expect.0.balancer: `ecmp` is not among"), "{stderr}");
    fs::write(folder.path().join("bad.toml"), format!("{FILE}{claim}").replace("fct_mean_us", "fct_mean")).unwrap();
    let (code, _, stderr) = outcome(folder.path(), &["run", "bad.toml"]);
    assert_eq!(code, 2);
    for words in ["expect.0.metric: there is no metric `fct_mean`", "bad.toml:13:10", "did you mean `fct_mean_us`?"] {
        assert!(stderr.contains(words), "{words} is not in\n{stderr}");
    }
}

#[test]
fn a_comparison_is_called_by_what_is_compared() {
    let folder = folder();
    let args = ["compare", "--topology", "diamond", "--balancers", "ecmp", "--seeds", "1", "--flows", "5"];
    let (code, _, stderr) = outcome(folder.path(), &[&args[..], &["--out", "out"]].concat());
    assert_eq!(code, 0, "{stderr}");
    let page = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(page.contains("<h1>web-search on diamond</h1>"));
    outcome(folder.path(), &[&args[..], &["--out", "own", "--set", "title=mine"]].concat());
    assert!(fs::read_to_string(folder.path().join("own/report.html")).unwrap().contains("<h1>mine</h1>"));
}

#[cfg(unix)]
#[test]
fn an_interrupted_sweep_goes_on_where_it_was() {
    let folder = folder();
    let binary = assert_cmd::cargo::cargo_bin("anabranch");
    let args = ["run", "small.toml", "--jobs", "1", "--set", "traffic.flows=1500"];
    let mut child = std::process::Command::new(binary)
        .args(args)
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
    // Killed outright, as by a power cut; a clean Ctrl-C leaves no less.
    let _ = child.kill();
    child.wait().unwrap();
    let before = lines();
    assert!(before >= 2);
    assert!(!folder.path().join("results/small/summary.json").exists() || before == 8);
    let first = fs::read_to_string(&records).unwrap().lines().next().unwrap().to_owned();
    let (code, _, stderr) = outcome(folder.path(), &args);
    assert_eq!(code, 0, "{stderr}");
    // The first run was taken over, not repeated: its wall time is what it was.
    assert_eq!(fs::read_to_string(&records).unwrap().lines().next().unwrap(), first);
    let (code, _, _) = outcome(folder.path(), &[&args[..], &["--out", "whole"]].concat());
    assert_eq!(code, 0);
    let read = |name: &str| fs::read(folder.path().join(name).join("summary.json")).unwrap();
    assert_eq!(read("results/small"), read("whole"));
}

#[test]
fn output_that_cannot_be_written_is_said_before_anything_runs() {
    let folder = folder();
    fs::write(folder.path().join("file"), "").unwrap();
    let (code, _, stderr) = outcome(folder.path(), &["run", "small.toml", "--out", "file/x"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("error: cannot write to file/x") && stderr.contains("caused by: "), "{stderr}");
    assert!(stderr.contains("hint: name a folder"), "{stderr}");
}

#[test]
fn lists_and_topologies_are_json_if_asked() {
    let folder = folder();
    fs::create_dir(folder.path().join("experiments")).unwrap();
    fs::copy(folder.path().join("small.toml"), folder.path().join("experiments/small.toml")).unwrap();
    for what in [
        "balancers",
        "topologies",
        "workloads",
        "patterns",
        "arrivals",
        "collectives",
        "transports",
        "experiments",
        "keys",
        "settings",
    ] {
        let (code, stdout, stderr) = outcome(folder.path(), &["list", what, "--json"]);
        assert_eq!(code, 0, "{stderr}");
        let items: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert!(!items.as_array().unwrap().is_empty(), "{what}");
        assert!(outcome(folder.path(), &["list", what]).1.lines().count() > 1, "{what}");
    }
    let (_, stdout, _) = outcome(folder.path(), &["list", "balancers", "--json"]);
    let balancers: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let (_, text, _) = outcome(folder.path(), &["list", "balancers"]);
    for (name, kind) in [("ecmp", "dataplane"), ("hedera", "central"), ("optimum", "bound")] {
        let item = balancers.as_array().unwrap().iter().find(|item| item["name"] == name).unwrap();
        assert_eq!(item["kind"], kind);
        assert!(text.contains(&format!("{name} ({kind})\n")), "{text}");
    }
    let ecmp = balancers.as_array().unwrap().iter().find(|item| item["name"] == "ecmp").unwrap();
    assert_eq!((&ecmp["decides"], &ecmp["reorders"]), (&"switch".into(), &"never".into()));
    assert_eq!(ecmp["parameters"][1]["takes"], "one of per-switch, none");
    let (_, stdout, _) = outcome(folder.path(), &["list", "keys", "--json"]);
    let keys: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let rate = keys.as_array().unwrap().iter().find(|item| item["name"] == "topology.rate").unwrap();
    assert_eq!((&rate["takes"], &rate["default"]), (&"bandwidth".into(), &"10Gbps".into()));
    let (_, stdout, _) = outcome(folder.path(), &["topology", "fat-tree:k=8", "--json"]);
    let facts: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&facts["hosts"], &facts["cables"]), (&128.into(), &384.into()));
    assert_eq!(facts["paths_from_first_host"][2]["equal_cost_max"], 16);
    assert_eq!(facts["bisection_bps"], 640_000_000_000u64);
    let (_, json, _) = outcome(folder.path(), &["topology", "leaf-spine", "--export", "json"]);
    fs::write(folder.path().join("out.json"), json).unwrap();
    let (code, stdout, stderr) = outcome(folder.path(), &["topology", "out.json"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("hosts       128"), "{stdout}");
}

#[test]
fn a_closed_pipe_is_success() {
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

/// A folder `canon` of three tiny experiments, the last of them without one of the balancers.
fn canon() -> TempDir {
    let folder = folder();
    let canon = folder.path().join("canon");
    fs::create_dir(&canon).unwrap();
    let table = "[table]\ntitle = \"web search\"\nloads = [0.6]\nflows = 20\n";
    fs::write(canon.join("1.toml"), format!("{}{table}", FILE.replace("small", "web"))).unwrap();
    let cut = "[[failure]]\nkind = \"blackhole\"\nswitch = \"spine0\"\nfraction = 1.0\n[stop]\nuntil = \"30ms\"\n[table]\nloads = [0.3]\n";
    fs::write(canon.join("2.toml"), format!("{}{cut}", FILE.replace("small", "cut"))).unwrap();
    let few = FILE.replace("small", "few").replace(", \"spray\"", "").replace("[0.3, 0.6]", "0.3");
    fs::write(canon.join("3.toml"), few).unwrap();
    folder
}

#[test]
fn a_matrix_sets_experiments_side_by_side_the_same_on_one_and_two_threads() {
    let folder = canon();
    for jobs in ["1", "2"] {
        let (code, stdout, stderr) = outcome(folder.path(), &["matrix", "canon", "--out", jobs, "--jobs", jobs]);
        assert_eq!(code, 0, "{stderr}");
        assert!(stdout.contains("web search") && stdout.contains("report: "), "{stdout}");
    }
    let read = |jobs: &str, name: &str| fs::read(folder.path().join(jobs).join(name)).unwrap();
    for name in ["matrix.json", "matrix.csv", "matrix.md", "report.html", "web/summary.json", "cut/report.html"] {
        assert_eq!(read("1", name), read("2", name), "{name}");
    }
    let matrix: serde_json::Value = serde_json::from_slice(&read("1", "matrix.json")).unwrap();
    assert_eq!((&matrix["schema"], &matrix["name"]), (&1.into(), &"canon".into()));
    let columns = matrix["columns"].as_array().unwrap();
    let headings: Vec<&str> = columns.iter().map(|column| column["title"].as_str().unwrap()).collect();
    assert_eq!(headings, ["web search", "cut", "few"]);
    let of = |column: &serde_json::Value, key: &str| column["cells"][0][key].as_u64().unwrap();
    assert_eq!((of(&columns[0], "flows_started"), of(&columns[1], "flows_started")), (2 * 20, 2 * 30));
    assert!(of(&columns[1], "flows_completed") < 60, "a blackhole leaves flows unfinished");
    assert_eq!(columns[2]["cells"].as_array().unwrap().len(), 1);
    let markdown = String::from_utf8(read("1", "matrix.md")).unwrap();
    let spray = markdown.lines().find(|line| line.starts_with("| spray")).expect("a row");
    assert!(
        spray.contains("(1 missing)") && spray.ends_with("| — |") && spray.contains("flows unfinished)"),
        "{spray}"
    );
    // The page can be made again from the folder, and the folder of an experiment repeats it.
    fs::remove_file(folder.path().join("1/report.html")).unwrap();
    let (code, stdout, stderr) = outcome(folder.path(), &["report", "1"]);
    assert_eq!((code, stdout.as_str()), (0, "report: 1/report.html\n"), "{stderr}");
    assert_eq!(read("1", "report.html"), read("2", "report.html"));
    assert_eq!(outcome(folder.path(), &["run", "1/web/experiment.toml", "--out", "again", "--no-flows"]).0, 0);
    assert_eq!(read("again", "summary.json"), read("1", "web/summary.json"));
}

#[test]
fn a_matrix_takes_over_what_is_there_and_can_be_reduced() {
    let folder = canon();
    let args = ["matrix", "canon", "--quiet", "--balancers", "ecmp,spt", "--set", "traffic.flows=10"];
    let (code, stdout, stderr) = outcome(folder.path(), &[&args[..], &["--seeds", "1"]].concat());
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("spt") && !stdout.contains("spray"), "{stdout}");
    let records = folder.path().join("results/canon/web/runs.jsonl");
    let first = fs::read_to_string(&records).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(outcome(folder.path(), &[&args[..], &["--seeds", "2"]].concat()).0, 0);
    let text = fs::read_to_string(&records).unwrap();
    // The wall time of the first run is what it was: it was not done again.
    assert!(text.starts_with(&first), "the first run was done again");
    assert_eq!(text.lines().count(), 4);
}

#[test]
fn mistakes_in_a_matrix_say_what_to_do() {
    let folder = canon();
    let path = folder.path();
    fs::create_dir(path.join("empty")).unwrap();
    refused(path, &["matrix"], &["there is no file or folder experiments/canon", "hint: name a folder"]);
    refused(path, &["matrix", "empty"], &["there is no experiment file in empty", "hint: "]);
    refused(path, &["matrix", "small.toml", "small.toml"], &["both named `small`", "hint: give one of them"]);
    refused(path, &["matrix", "canon", "--balancers", "ecpm"], &["--balancers ecpm", "did you mean `ecmp`?"]);
    fs::write(path.join("canon/4.toml"), format!("{FILE}[table]\nload = 1\n")).unwrap();
    refused(path, &["matrix", "canon"], &["table.load: there is no such key", "canon/4.toml:11:1", "`loads`"]);
}

#[test]
fn bounds_are_printed_and_mistakes_explained() {
    let folder = tempfile::tempdir().unwrap();
    let narrow = ["bound", "--topology", "leaf-spine:leaves=4,spines=8,hosts_per_leaf=16", "--pattern", "stride"];
    let (code, text, stderr) = outcome(folder.path(), &narrow);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let numbers = |name: &str| -> Vec<f64> {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split_whitespace().skip(1).take(2).map(|word| word.parse().unwrap()).collect()
    };
    assert_eq!((numbers("hose"), numbers("cut"), numbers("mcf")), (vec![1.0; 2], vec![0.5; 2], vec![0.5; 2]), "{text}");
    let (code, json, _) = outcome(folder.path(), &[&narrow[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, json["mcf"]["least"].as_f64(), json["pairs"].as_u64()), (0, Some(0.5), Some(64)));
    refused(
        folder.path(),
        &["bound", "--pattern", "random-pairs"],
        &["draws a pair of its own", "stride, random-bijection"],
    );
    refused(folder.path(), &["bound", "--pattern", "strde"], &["did you mean `stride`?"]);
    refused(folder.path(), &["bound", "--topology", "fat-tree:k=5"], &["k = 5"]);
    refused(folder.path(), &["bound", "--eps", "0"], &["--eps 0", "0.001 to 1"]);
}

#[test]
fn bounds_stand_beside_balancers_in_a_comparison() {
    let folder = folder();
    let args = ["run", "small.toml", "--quiet", "--set", "balancers=[\"ecmp\", \"optimum\", \"fastpass:order=srpt\"]"];
    let (code, _, stderr) = outcome(folder.path(), &args);
    assert_eq!(code, 0, "{stderr}");
    let found = fs::read_dir(folder.path().join("results")).unwrap().next().unwrap().unwrap().path();
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(found.join("summary.json")).unwrap()).unwrap();
    let runs = summary["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * 2 * 3);
    for run in runs {
        assert_eq!(run["flows"]["completed"], 30, "{run}");
        let is_ecmp = run["balancer"] == "ecmp";
        assert_eq!(run["packets"]["sent"].as_u64().unwrap() > 0, is_ecmp);
        assert!(run["slowdown_min"].as_f64().unwrap() >= 1.0);
    }
}

/// A small comparison with this failure; its summary.
fn compared_with(folder: &Path, failures: &[&str], out: &str) -> serde_json::Value {
    let mut args = vec!["compare", "--topology", "leaf-spine:leaves=4,spines=4,hosts_per_leaf=2", "--flows", "60"];
    args.extend(["--seeds", "2", "--balancers", "ecmp,spray", "--workload", "fixed:size=200KB", "--out", out]);
    for failure in failures {
        args.extend(["--failure", *failure]);
    }
    let (code, _, stderr) = outcome(folder, &args);
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&fs::read_to_string(folder.join(out).join("summary.json")).unwrap()).unwrap()
}

#[test]
fn failures_of_the_command_line_happen_and_can_be_repeated_from_the_results() {
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
    let (code, _, stderr) = outcome(folder.path(), &["run", "out/experiment.toml", "--out", "again"]);
    assert_eq!(code, 0, "{stderr}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("out/points.csv"), read("again/points.csv"));
    let intact = compared_with(folder.path(), &[], "intact");
    assert_eq!(intact["runs"][0]["packets"]["dropped"]["random"], 0);
}

#[test]
fn collectives_run_from_a_file_and_have_completion_times() {
    let folder = folder();
    let traffic = "workload = \"web-search\"\nload = [0.3, 0.6]\nflows = 30\n";
    let ring = "collective = \"ring-all-reduce:size=80KB,repeat=3\"\nplacement = \"strided\"\n";
    fs::write(folder.path().join("ring.toml"), FILE.replace(traffic, ring)).unwrap();
    let args = ["run", "ring.toml", "--out", "out", "--write-flow-lists", "--seeds", "1"];
    let (code, stdout, stderr) = outcome(folder.path(), &args);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("group time"), "{stdout}");
    let text = fs::read_to_string(folder.path().join("out/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    for run in summary["runs"].as_array().unwrap() {
        let groups = &run["groups"];
        assert_eq!((groups["time_us"]["count"].as_u64(), groups["unfinished"].as_u64()), (Some(3), Some(0)));
        // Six steps of 20 KB at 10 Gb/s take 96 us and more; three in a row end with the run.
        let mean = groups["time_us"]["mean"].as_f64().unwrap();
        assert!(mean > 96.0 && run["end_us"].as_f64().unwrap() >= 3.0 * mean - 1.0, "{groups}");
        assert_eq!(run["flows"]["completed"], 3 * 24);
    }
    // The list that was sent gives the same again.
    let lists: Vec<_> = fs::read_dir(folder.path().join("out/flow-lists")).unwrap().collect();
    let list = lists[0].as_ref().unwrap().path();
    let replay = format!("flow_list = \"{}\"\n", list.display());
    fs::write(folder.path().join("replay.toml"), FILE.replace(traffic, &replay)).unwrap();
    let (code, _, stderr) = outcome(folder.path(), &["run", "replay.toml", "--out", "again", "--seeds", "1"]);
    assert_eq!(code, 0, "{stderr}");
    let text = fs::read_to_string(folder.path().join("again/summary.json")).unwrap();
    let again: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(again["runs"][0]["groups"], summary["runs"][0]["groups"]);
}

#[test]
fn bounds_are_compared_with_and_win_nothing() {
    let folder = canon();
    let (code, stdout, stderr) =
        outcome(folder.path(), &["matrix", "canon/1.toml", "--balancers", "optimum,fastpass,ecmp", "--out", "out"]);
    assert_eq!(code, 0, "{stderr}");
    let line = |name: &str| stdout.lines().find(|line| line.contains(name)).expect("a line").to_owned();
    assert!(stdout.contains("of optimum") && line("optimum (bound)").contains("100 %"), "{stdout}");
    assert!(line("ecmp").contains('★') && !line("(bound)").contains('★'), "{stdout}");
    let text = fs::read_to_string(folder.path().join("out/web/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
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
        run["slowdown_bound_mean"].as_f64().unwrap()
    };
    let shares: Vec<f64> = [1, 2].map(|seed| slowdown("optimum", seed) / slowdown("ecmp", seed)).to_vec();
    let share = point("ecmp")["share_of_optimum"]["mean"].as_f64().unwrap();
    assert!((share - (shares[0] + shares[1]) / 2.0).abs() < 1e-12, "{share} {shares:?}");
    let verdict = summary["verdicts"][0]["sentence"].as_str().unwrap();
    assert!(verdict.starts_with("ecmp has mean slowdown") && !verdict.contains("optimum"), "{verdict}");
}

#[test]
fn balancers_take_turns_on_the_bench() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["bench", "sim", "--scenarios", "S4", "--repeat", "1", "--balancers", "ecmp,spray", "--json"];
    let (code, json, stderr) = outcome(folder.path(), &args);
    assert_eq!(code, 0, "{stderr}");
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    let names: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["balancer"].as_str().unwrap()).collect();
    assert_eq!((names, rows[0]["ratio"].as_f64()), (vec!["ecmp", "spray"], Some(1.0)));
    assert!(rows[1]["ratio"].as_f64().unwrap() > 0.0);
    refused(folder.path(), &["bench", "sim", "--balancers", "emcp"], &["did you mean `ecmp`?"]);
}
