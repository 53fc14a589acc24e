use super::*;
use crate::import::json;
use crate::topology::Topology;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/operators/");

fn load(names: &[&str]) -> Vec<(String, String)> {
    let text =
        |name: &str| std::fs::read_to_string(format!("{FOLDER}{name}")).unwrap_or_else(|e| panic!("{name}: {e}"));
    names.iter().map(|name| ((*name).to_owned(), text(name))).collect()
}

fn read_all(files: &[(String, String)]) -> Result<Imported, ImportError> {
    let files: Vec<File<'_>> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    super::read("net", &files, &ImportOptions::default())
}

fn imported(names: &[&str]) -> Imported {
    read_all(&load(names)).unwrap_or_else(|error| panic!("{names:?}: {error}"))
}

fn truth() -> Topology {
    let files = load(&["topology1/leaf-spine.json"]);
    json::read(&files[0].0, &files[0].1, &ImportOptions::default()).unwrap().topology
}

/// Cables by names, with rates.
fn cables(topology: &Topology, with_rates: bool) -> Vec<(String, String, u64)> {
    let name = |node| topology.node(node).name.clone();
    let mut cables: Vec<(String, String, u64)> = topology
        .links()
        .chunks(2)
        .map(|pair| {
            let (a, b) = (name(pair[0].from), name(pair[0].to));
            let rate = if with_rates { pair[0].rate.as_bps() / 1_000_000 } else { 0 };
            if a < b { (a, b, rate) } else { (b, a, rate) }
        })
        .collect();
    cables.sort();
    cables
}

fn hosts(topology: &Topology) -> Vec<String> {
    topology.hosts().iter().map(|node| topology.node(*node).name.clone()).collect()
}

const SWITCHES: [&str; 6] = ["leaf0", "leaf1", "leaf2", "leaf3", "spine0", "spine1"];

fn of_switches(folder: &str, ending: &str) -> Vec<String> {
    SWITCHES.iter().map(|name| format!("{folder}/{name}.{ending}")).collect()
}

/// Every format tells the same network, its order of hosts included: numbers of hosts are those of the
/// flows.
#[test]
fn formats_agree_with_the_truth() {
    let truth = truth();
    let (sonic, lldp) = (of_switches("sonic", "config_db.json"), of_switches("lldp", "lldpctl.json"));
    let both: Vec<&str> = sonic.iter().chain(&lldp).map(String::as_str).collect();
    let (sonic, lldp): (Vec<&str>, Vec<&str>) = (both[..6].to_vec(), both[6..].to_vec());
    let with_rates: [&[&str]; 4] =
        [&sonic, &both, &["netbox/cables.json", "netbox/interfaces.json"], &["netjson/leaf-spine.json", sonic[0]]];
    for (files, has_rates) in with_rates[..3].iter().map(|files| (*files, true)).chain([
        (&lldp[..], false),
        (&["containerlab/leaf-spine.clab.yml"][..], false),
        (&["batfish/layer1_topology.json"][..], false),
        (&["netjson/leaf-spine.json"][..], false),
    ]) {
        let found = imported(files);
        assert_eq!(cables(&found.topology, has_rates), cables(&truth, has_rates), "{files:?}");
        assert_eq!(hosts(&found.topology), hosts(&truth), "{files:?}");
        let tier = |name: &str| found.topology.nodes().iter().find(|node| node.name == name).unwrap().tier;
        assert_eq!((tier("leaf3").0, tier("spine0").0), (1, 2), "{files:?}");
        let warns = found.warnings.iter().any(|warning| warning.contains("have no rate"));
        assert!(
            warns != has_rates || files[0].starts_with("netjson") || files[0].starts_with("containerlab"),
            "{files:?}: {:#?}",
            found.warnings
        );
    }
    // The odd cables: two of 10 Gb/s, and a slow one.
    let of = |a: &str, b: &str| {
        cables(&truth, true)
            .into_iter()
            .filter(|cable| cable.0 == a && cable.1 == b)
            .map(|cable| cable.2)
            .collect::<Vec<_>>()
    };
    assert_eq!((of("leaf2", "spine0"), of("leaf3", "spine1")), (vec![10_000, 10_000], vec![10_000]));
}

#[test]
fn files_of_one_device_have_its_cables() {
    for file in [
        "sonic/leaf0.minigraph.xml",
        "lldp/leaf0.eos.json",
        "lldp/leaf0.eos-detail.json",
        "lldp/leaf0.junos.json",
        "lldp/leaf0.nxos.json",
        "lldp/leaf0.lldpctl.json",
    ] {
        let found = imported(&[file]).topology;
        let truth: Vec<_> =
            cables(&truth(), false).into_iter().filter(|cable| cable.0 == "leaf0" || cable.1 == "leaf0").collect();
        assert_eq!(cables(&found, false), truth, "{file}");
    }
    // One neighbour is an object instead of a list.
    let found = imported(&["lldp/srv-0-0.lldpctl.json"]).topology;
    assert_eq!(cables(&found, false), [("leaf0".to_owned(), "srv-0-0".to_owned(), 0)]);
}

#[test]
fn infragraph_has_rates_and_numbered_hosts() {
    let found = imported(&["infragraph/leaf-spine.yaml"]).topology;
    let rates = |topology: &Topology| {
        let mut rates: Vec<u64> = cables(topology, true).into_iter().map(|cable| cable.2).collect();
        rates.sort_unstable();
        rates
    };
    assert_eq!(rates(&found), rates(&truth()));
    assert_eq!(hosts(&found)[9..12], ["srv9", "srv10", "srv11"]);
    assert_eq!(found.links()[0].delay, Time::from_ns(100));
}

#[test]
fn slow_cable_of_infiniband_is_kept() {
    let found = imported(&["cluster/ibnetdiscover.txt"]).topology;
    let all = cables(&found, true);
    assert_eq!((all.len(), found.hosts().len()), (32, 16));
    let slow: Vec<_> = all.iter().filter(|cable| cable.2 != 200_000).collect();
    assert_eq!(slow, [&("ibleaf3".to_owned(), "ibspine1".to_owned(), 100_000)]);
}

#[test]
fn other_labs_work() {
    let found = imported(&["containerlab/clos02.clab.yml"]);
    assert_eq!((found.topology.hosts().len(), found.topology.links().len()), (4, 32));
    assert!(
        found.warnings.iter().any(|warning| warning.contains("16 of 16 cables have no rate")),
        "{:#?}",
        found.warnings
    );
}

/// Changes a text of a sample.
fn changed(file: &str, from: &str, to: &str) -> Vec<(String, String)> {
    let mut files = load(&[file]);
    assert!(files[0].1.contains(from), "{file} has no {from}");
    files[0].1 = files[0].1.replacen(from, to, 1);
    files
}

#[test]
fn contradictions_are_shown() {
    // The plan swaps two servers; LLDP saw it otherwise.
    let mut files = changed("sonic/leaf0.config_db.json", "\"name\": \"srv-0-0\"", "\"name\": \"srv-0-9\"");
    files.extend(load(&["lldp/leaf0.lldpctl.json"]));
    let found = read_all(&files).unwrap();
    let warning =
        found.warnings.iter().find(|warning| warning.contains("what a device saw is used")).expect("a warning");
    assert!(warning.contains("leaf0 ethernet0 to srv-0-0") && warning.contains("srv-0-9"), "{warning}");
    assert!(
        hosts(&found.topology).contains(&"srv-0-0".to_owned())
            && !hosts(&found.topology).contains(&"srv-0-9".to_owned())
    );
    // Two rates of one cable.
    let mut files = changed("sonic/spine0.config_db.json", "\"speed\": \"25000\"", "\"speed\": \"10000\"");
    files.extend(load(&["sonic/leaf0.config_db.json"]));
    let found = read_all(&files).unwrap();
    assert!(
        found.warnings.iter().any(|warning| warning.contains("has 10Gbps and 25Gbps in the files")),
        "{:#?}",
        found.warnings
    );
    // A port that is down has no cable.
    let found =
        read_all(&changed("sonic/leaf0.config_db.json", "\"admin_status\": \"up\"", "\"admin_status\": \"down\""))
            .unwrap();
    assert!(
        found.warnings.iter().any(|warning| warning.contains("is down, so the cable is not used")),
        "{:#?}",
        found.warnings
    );
    assert_eq!(found.topology.links().len(), 2 * 9);
}

#[test]
fn nothing_is_dropped_silently() {
    let found = imported(&["sonic/leaf2.config_db.json"]);
    assert!(
        found.warnings.iter().any(|warning| warning.contains("not used for the network: BGP_NEIGHBOR, INTERFACE")),
        "{:#?}",
        found.warnings
    );
}

#[test]
fn wrong_files_are_errors_with_a_place() {
    let error = |name: &str, text: &str| read_all(&[(name.to_owned(), text.to_owned())]).unwrap_err().to_string();
    for (name, text, expected) in [
        ("a.json", "{\"x\": 1}", "a.json: file: the JSON has none of the known keys"),
        ("a.json", "{\"lldp\": ", "a.json:1:9"),
        ("a.xml", "<a>", "a.xml:1:"),
        ("a.xml", "<a/>", "<a> is not that of a minigraph"),
        (
            "a.yml",
            "topology: {nodes: {a: {}}, links: [{endpoints: [\"a:1\"]}]}",
            "topology.links[0]: needs two endpoints",
        ),
        ("a.yml", "topology: {nodes: {a: {}}, links: [{endpoints: [\"a:1\", \"b:1\"]}]}", "`b` is no node"),
        ("a.yml", "a: [", "a.yml:"),
        ("a.yml", "a: 1", "neither `topology.nodes` nor `instances`"),
        ("a.json", "{\"edges\": [{\"node1\": {}}]}", "edges[0]: lacks node1.hostname"),
        ("a.json", "{\"results\": [{\"id\": 1}]}", "results[0]: is neither a cable"),
        ("a.json", "{\"format\": \"topology/1\"}", "use it as it is"),
        ("a.txt", "Switch\t4 \"S-1\"\n[1] nothing", "a.txt:2:1: a port without its peer"),
        ("a.yml", "instances: [{name: a, device: b}]", "`b` is no device"),
        ("a.yml", "instances: []\nconnections: []", "older schema"),
        ("a.json", "{\"lldp\": {}}", "net"),
    ] {
        let found = error(name, text);
        assert!(found.contains(expected), "{text}: {found}");
    }
}

/// Regardless of the damage, reading ends with a network or an error.
#[test]
fn damaged_files_never_panic() {
    let mut random = crate::random::RandomStream::new(1, "damage");
    let files = [
        "sonic/leaf0.config_db.json",
        "sonic/leaf0.minigraph.xml",
        "lldp/leaf0.lldpctl.json",
        "lldp/leaf0.nxos.json",
        "containerlab/leaf-spine.clab.yml",
        "infragraph/leaf-spine.yaml",
        "netbox/cables.json",
        "cluster/ibnetdiscover.txt",
    ];
    for (name, text) in load(&files) {
        for _ in 0..60 {
            let mut bytes = text.clone().into_bytes();
            let at = random.next_below(bytes.len() as u64) as usize;
            match random.next_below(3) {
                0 => bytes.truncate(at),
                1 => bytes[at] = (random.next_below(95) + 32) as u8,
                _ => drop(bytes.splice(at..(at + 40).min(text.len()), b"999999999999".iter().copied())),
            }
            let _ = read_all(&[(name.clone(), String::from_utf8_lossy(&bytes).into_owned())]);
        }
    }
}
