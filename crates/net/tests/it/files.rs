//! Tests of the importers on all committed files, and of the exporters against the importers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anabranch_net::families::{FatTree, GeniWan, Size};
use anabranch_net::import::{self, ImportOptions, Imported};
use anabranch_net::{Bandwidth, Routes, Topology, export, spec};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/topologies")
}

/// Returns the committed files with an extension of an importer, sorted.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data().join(folder)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let known = ["json", "graphml", "topo"];
    let extension = |path: &PathBuf| path.extension().and_then(|e| e.to_str()).map(str::to_owned);
    paths.retain(|path| extension(path).is_some_and(|e| known.contains(&e.as_str())));
    paths.sort();
    paths
}

fn load(path: &Path) -> Imported {
    let text = std::fs::read_to_string(path).unwrap();
    import::read(path, &text, &ImportOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn load_named(name: &str) -> Topology {
    load(&data().join(name)).topology
}

/// Returns whether two topologies are equal apart from the name.
fn same(a: &Topology, b: &Topology) -> bool {
    let text = |t: &Topology| format!("{:?} {:?} {:?}", t.nodes(), t.links(), t.hosts());
    text(a) == text(b)
}

#[test]
fn every_committed_file_loads() {
    let counts = ["", "zoo", "htsim"].map(|folder| {
        let files = files(folder);
        files.iter().for_each(|path| drop(load(path)));
        files.len()
    });
    assert_eq!(counts, [4, 14, 15]);
}

#[test]
fn zoo_networks_match_index() {
    let index = std::fs::read_to_string(data().join("zoo/index.csv")).unwrap();
    for row in index.lines().skip(1) {
        // The second column may contain quoted commas; the columns after it do not.
        let columns: Vec<&str> = row.rsplitn(10, ',').collect();
        let number = |from_end: usize| columns[from_end].parse::<u64>().unwrap();
        let name = row.split(',').next().unwrap();
        let imported = load(&data().join(format!("zoo/{name}.graphml")));
        let size = Size::of(&imported.topology);
        let (nodes, edges, self_loops) = (number(8), number(7), number(5));
        assert_eq!((size.switches, size.hosts), (nodes, nodes), "{name}");
        assert_eq!(size.cables, nodes + edges - self_loops, "{name}");
        let dropped = imported.warnings.iter().filter(|warning| warning.contains("to itself is dropped")).count();
        assert_eq!(dropped as u64, self_loops, "{name}");
    }
}

#[test]
fn htsim_networks_match_their_names() {
    for path in files("htsim") {
        let topology = load(&path).topology;
        let name = path.file_stem().unwrap().to_str().unwrap();
        let number = name.split('_').find_map(|part| part.parse::<usize>().ok());
        let hosts = number.unwrap_or(if name == "test" { 8 } else { 32 });
        assert_eq!(topology.hosts().len(), hosts, "{name}");
    }
    let paths = |file: &str| {
        let topology = load_named(file);
        let routes = Routes::intact(&topology);
        let last = anabranch_net::HostIx(topology.hosts().len() as u32 - 1);
        routes.path_count(topology.hosts()[0], routes.class_of(last))
    };
    assert_eq!(paths("htsim/fat_tree_128_1os.topo"), 16);
    assert_eq!(paths("htsim/fat_tree_128_4os.topo"), 4);
    assert_eq!(paths("htsim/leaf_spine_1024_oversub.topo"), 8);
}

#[test]
fn geni_file_equals_built_in_network() {
    let built = GeniWan::default().build().unwrap();
    assert!(same(&load_named("geni_wan.json"), &built));
}

#[test]
fn macedonia_file_equals_fat_tree_with_80_hosts() {
    let tree = FatTree {
        hosts_per_edge: Some(10),
        host_rate: Bandwidth::from_mbps(1),
        fabric_rate: Bandwidth::from_mbps(10),
        ..FatTree::default()
    };
    let (file, built) = (load_named("macedonia_fattree.json"), tree.build().unwrap());
    assert_eq!(Size::of(&file), Size::of(&built));
    let (a, b) = (Routes::intact(&file), Routes::intact(&built));
    for from in 0..80 {
        for to in (0..80).map(anabranch_net::HostIx) {
            let count =
                |topology: &Topology, routes: &Routes| routes.path_count(topology.hosts()[from], routes.class_of(to));
            assert_eq!(count(&file, &a), count(&built, &b), "h{from} to {to:?}");
        }
    }
    let tier_and_rack = |topology: &Topology| -> Vec<_> {
        let hosts = topology.hosts().iter();
        hosts.map(|host| (topology.node(*host).rack, topology.node(*host).pod)).collect()
    };
    assert_eq!(tier_and_rack(&file), tier_and_rack(&built));
}

fn every_topology() -> Vec<Topology> {
    let built = spec::FAMILIES.iter().map(|family| spec::parse(family.name).unwrap());
    let imported = ["", "zoo"].into_iter().flat_map(files);
    built.chain(imported.map(|path| load(&path).topology)).collect()
}

#[test]
fn exported_files_import_unchanged() {
    let options = ImportOptions::default();
    for topology in every_topology() {
        for (file, text) in [("net.json", export::json(&topology)), ("net.graphml", export::graphml(&topology))] {
            let back = import::read(Path::new(file), &text, &options);
            let back = back.unwrap_or_else(|error| panic!("{}: {error}", topology.name()));
            assert!(same(&back.topology, &topology), "{} as {file}", topology.name());
            assert!(back.warnings.is_empty());
        }
    }
}

/// Builds the class with a stub of Mininet and prints hosts, switches, links and the sum of rates.
const PYTHON: &str = r#"
import sys, types
calls = {"addHost": 0, "addSwitch": 0, "links": 0, "bw": 0.0}
class Topo:
    def addHost(self, name): calls["addHost"] += 1
    def addSwitch(self, name): calls["addSwitch"] += 1
    def addLink(self, a, b, port1, port2, params1, params2):
        calls["links"] += 1
        assert params1["delay"].endswith("us") and port1 > 0 and port2 > 0
        calls["bw"] += params1["bw"] + params2["bw"]
sys.modules["mininet"] = types.ModuleType("mininet")
sys.modules["mininet.topo"] = topo = types.ModuleType("mininet.topo")
topo.Topo = Topo
scope = {}
exec(compile(sys.stdin.read(), "topology.py", "exec"), scope)
scope["topos"]["anabranch"]().build()
print(calls["addHost"], calls["addSwitch"], calls["links"], "%.2f" % calls["bw"])
"#;

/// Returns `None` without Python.
fn run_python(script: &str) -> Option<String> {
    use std::io::Write;
    let mut command = Command::new("python3");
    command.args(["-c", PYTHON]).stdin(std::process::Stdio::piped());
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().ok()?;
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(script.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{script}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn mininet_scripts_build_the_network() {
    for topology in every_topology() {
        let Some(output) = run_python(&export::mininet(&topology)) else {
            eprintln!("python3 is not installed; the scripts are not checked");
            return;
        };
        let size = Size::of(&topology);
        let mbps: f64 = topology.links().iter().map(|l| l.rate.as_bps_f64() / 1e6).sum();
        let expected = format!("{} {} {} {mbps:.2}", size.hosts, size.switches, size.cables);
        assert_eq!(output.trim(), expected, "{}", topology.name());
    }
}
