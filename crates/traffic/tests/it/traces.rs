//! Published lists of flows are imported as their headers describe them.

use anabranch_traffic::{
    CoflowOptions, ConnectionMatrix, Start, StartUnit, read_cm, read_coflows, read_csv, write_csv,
};
use net::{HostIx, Time, Topology};
use std::io::Write as _;
use std::path::Path;

fn racks(racks: u32, hosts: u32) -> Topology {
    net::spec::parse(&format!("leaf-spine:leaves={racks},spines=1,hosts_per_leaf={hosts}")).unwrap()
}

fn matrix(name: &str, unit: StartUnit) -> ConnectionMatrix {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/connection_matrices");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    read_cm(name, &text, unit).unwrap()
}

#[test]
fn every_connection_matrix_is_read() {
    for (name, hosts, flows) in [
        ("bidir.cm", 16, 2),
        ("foo2.cm", 128, 12),
        ("gen_random_incast_8192n_8c_0us_1Ms.cm", 8192, 8),
        ("gen_remote_incast_8192n_8c_16us_16Ms.cm", 8192, 8),
        ("incast.cm", 16, 15),
        ("incast_1024_100K.cm", 1024, 1023),
        ("incast_128.cm", 128, 127),
        ("incast_2to1_size4194304B.cm", 128, 2),
        ("one.cm", 16, 1),
        ("perm_1024n_1024c_0u_20000b.cm", 1024, 1024),
        ("perm_128n_128c_2MB.cm", 128, 128),
        ("perm_16n_16c_2MB.cm", 16, 16),
        ("perm_16n_16c_2MB_csg.cm", 16, 16),
        ("perm_32n_32c_2MB.cm", 32, 32),
    ] {
        let matrix = matrix(name, StartUnit::Picoseconds);
        assert_eq!((matrix.host_count, matrix.list.flows.len()), (hosts, flows), "{name}");
        if name.starts_with("perm") {
            let mut receivers: Vec<HostIx> = matrix.list.flows.iter().map(|flow| flow.dst).collect();
            receivers.sort_unstable();
            receivers.dedup();
            assert_eq!(receivers.len(), flows, "{name}");
        }
    }
}

#[test]
fn triggers_and_units_of_matrices() {
    let list = matrix("foo2.cm", StartUnit::Picoseconds).list;
    let (first, second) = (list.flows[0], list.flows[1]);
    assert_eq!((first.src, first.dst, first.start), (HostIx(103), HostIx(34), Start::At(Time::ZERO)));
    let delay = Time::ZERO;
    assert_eq!(second.start, Start::After { flow: 0, delay });
    let late = matrix("gen_remote_incast_8192n_8c_16us_16Ms.cm", StartUnit::Microseconds).list;
    assert_eq!(late.last_start(), Time::from_us(16));
    // Sorted by start.
    let starts: Vec<Time> = late.flows.iter().map(|flow| flow.start.time().unwrap()).collect();
    assert!(starts.is_sorted());
}

#[test]
fn matrices_survive_csv() {
    let list = matrix("foo2.cm", StartUnit::Picoseconds).list;
    assert_eq!(read_csv("foo2.csv", &write_csv(&list), &racks(8, 16)).unwrap(), list);
}

/// The Facebook trace has no licence to copy it; it is read from a folder of the developer's.
#[test]
fn the_facebook_trace_has_its_published_numbers() {
    let Some(folder) = std::env::var_os("ANABRANCH_SHARED_DATA") else {
        // Written past the test runner, which hides what passing tests print.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: the Facebook coflow trace may not be copied and is not checked; set ANABRANCH_SHARED_DATA to a folder holding traces/FB2010-1Hr-150-0.txt"
        );
        return;
    };
    let path = Path::new(&folder).join("traces/FB2010-1Hr-150-0.txt");
    let text = std::fs::read_to_string(&path).unwrap();
    let topology = racks(150, 2);
    let (list, warnings) = read_coflows("fb", &text, &topology, &CoflowOptions::default()).unwrap();
    assert!(warnings.is_empty());
    assert_eq!(list.flows.len(), 706_397);
    assert!((list.total_bytes() as f64 / 35.5e12 - 1.0).abs() < 0.002);
    let mut coflows: Vec<u32> = list.flows.iter().map(|flow| flow.group).collect();
    coflows.sort_unstable();
    coflows.dedup();
    assert_eq!(coflows.len(), 526);
    assert!((3_500.0..3_700.0).contains(&list.last_start().as_s_f64()));
    let _ = writeln!(std::io::stderr(), "checked the Facebook coflow trace");
}
