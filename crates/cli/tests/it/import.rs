//! Networks from files of operators, on the command line.

use crate::common::{assert_rejected, outcome, printed_json, succeed};

const OPERATORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/operators");

#[test]
fn configurations_and_neighbours_become_a_network_that_can_be_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let command = format!("import topology {OPERATORS}/sonic {OPERATORS}/lldp/leaf0.lldpctl.json --out net.json");
    let (code, printed, warnings) = outcome(path, &command.split(' ').collect::<Vec<_>>());
    assert_eq!(
        (code, printed.as_str()),
        (0, "net.json: 32 hosts, 6 switches, 41 cables; anabranch topology shows it\n")
    );
    assert!(warnings.contains("leaf0.config_db.json: not used for the network: BGP_NEIGHBOR"), "{warnings}");
    let network = printed_json(path, "topology net.json --json");
    assert_eq!((&network["hosts"], &network["cables"]), (&32.into(), &41.into()));
    let run = "compare --topology net.json --balancers ecmp,wcmp --flows 50 --seeds 1 --out out --quiet";
    assert!(succeed(path, run).contains("wcmp"));
}

#[test]
fn what_cannot_be_imported_is_an_error_with_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("a.json"), "{\"lldp\": ").unwrap();
    assert_rejected(path, "import topology a.json", &["cannot import the network", "a.json:1:"]);
    assert_rejected(path, "import topology b.json", &["cannot read b.json"]);
    std::fs::create_dir(path.join("empty")).unwrap();
    assert_rejected(path, "import topology empty", &["empty has no files"]);
}
