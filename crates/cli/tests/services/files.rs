//! An experiment file with services on both platforms: `anabranch run`, `anabranch testbed run`,
//! `anabranch testbed validate`.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

/// Pages by nginx, files by vsftpd and jobs by the compute server, for the built-in clients and for
/// wget. Requests are so slow that they rarely overlap: the speed of both platforms then depends
/// only on rates and core time.
const FILE: &str = include_str!("../data/services.toml");

fn anabranch(folder: &Path, arguments: &[&str]) {
    let done = Command::new(assert_cmd::cargo::cargo_bin!("anabranch")).args(arguments).current_dir(folder).output();
    let done = done.expect("it can be started");
    let output = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{arguments:?}: {output}");
    println!("{output}");
}

fn runs(folder: &Path, platform: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(platform).join("summary.json")).expect("results");
    let summary: Value = serde_json::from_str(&text).expect("JSON");
    summary["runs"].as_array().expect("runs").clone()
}

#[test]
#[ignore = "needs root, Open vSwitch, nginx, vsftpd and wget: scripts/test soak"]
fn services_run_and_agree_on_both_platforms() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("served.toml"), FILE).expect("room");
    anabranch(folder, &["run", "served.toml", "--quiet", "--out", "sim"]);
    anabranch(folder, &["testbed", "run", "served.toml", "--quiet", "--out", "real"]);
    let runs = runs(folder, "real");
    assert_eq!(runs.len(), 2);
    for (run, client) in runs.iter().zip(["builtin", "wget"]) {
        let (requests, testbed) = (&run["requests"], &run["testbed"]);
        println!("{client}: {requests}; {testbed}");
        assert_eq!((&run["platform"], &testbed["source"]), (&"testbed".into(), &client.into()));
        for (class, wanted) in requests["classes"].as_array().expect("classes").iter().zip([24, 8, 8]) {
            let pages = if class["class"] == "pages" { 2 * wanted } else { wanted };
            assert_eq!((&class["completed"], &class["failed"]), (&wanted.into(), &0.into()), "{class}");
            // Round robin: each server has half of the pages.
            assert_eq!(class["pages"], serde_json::json!([pages / 2, pages / 2]), "{class}");
        }
        let connections = &requests["connections"];
        assert_eq!((&connections["opened"], &connections["completed"]), (&64.into(), &64.into()), "{connections}");
        // The work is really done: 12 s of core time on both servers within the run.
        let busy =
            |server: &Value| server["busy_share"].as_f64().unwrap_or(0.0) * 2.0 * run["end_us"].as_f64().unwrap_or(0.0);
        let busy: f64 = requests["servers"].as_array().expect("servers").iter().map(busy).sum();
        assert!(busy > 11.5e6, "{busy} us of cores");
    }
    anabranch(folder, &["testbed", "validate", "sim", "real"]);
}
