//! Networks from files of operators, on the command line.

use crate::common::{assert_rejected, outcome, printed_json, read_json, succeed};

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

/// The truth is 3.92 GB of payload in 8,007 flows.
#[test]
fn samples_of_netflow_become_a_load_and_a_matrix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    succeed(path, &format!("import topology {OPERATORS}/sonic --out net.json --quiet"));
    let flows = format!("{OPERATORS}/flows");
    let command = format!(
        "import traffic {flows}/nfdump.csv --hosts {flows}/hosts.csv --ports {flows}/ports.csv --topology net.json --out traffic"
    );
    let printed = succeed(path, &command);
    assert!(printed.contains("load of the host links") && printed.contains("mean size of a flow"), "{printed}");
    let found = read_json(path.join("traffic/estimates.json"));
    let contains = |name: &str, truth: f64| {
        let number = |end: &str| found[name][end].as_f64().unwrap();
        assert!(number("low") <= truth && truth <= number("high"), "{name}: {}", found[name]);
    };
    contains("payload_bytes", 3.92e9);
    contains("flows", 8007.0);
    let matrix = std::fs::read_to_string(path.join("traffic/matrix.csv")).unwrap();
    assert!(matrix.contains("time_s,srv-0-0>"), "{}", &matrix[..200]);
    // Without the ports every switch counts, which is said.
    let (_, _, warnings) = outcome(path, &["import", "traffic", &format!("{flows}/nfdump.csv")]);
    assert!(warnings.contains("6 exporters may see the same packet"), "{warnings}");
    let wrong = format!("import traffic {flows}/nfdump.csv --hosts {flows}/ports.csv");
    assert_rejected(path, &wrong, &["ports.csv:1: the column `name` is missing"]);
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
