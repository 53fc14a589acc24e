use super::*;
use crate::import::matrix::read_matrix;
use crate::testing::pods;
use crate::workloads::parse_workload;

fn options(sizes: &str) -> DemandOptions {
    let sizes = parse_workload(sizes, &mut |_| Err("no files here".into())).unwrap();
    DemandOptions { sizes, time_scale: 1.0, rate_scale: 1.0, flows: None, until: None, names: Vec::new() }
}

const MATRIX: &str = "time_s,e0>e1,e1>e0,e2>e2,e3>e0\n0,8,0,1,0\n10,80,0,1,0\n30,0,16,1,0\n";

fn bytes(list: &FlowList, pair: (u32, u32), from_s: u64, to_s: u64) -> f64 {
    let span = Time::from_s(from_s)..Time::from_s(to_s);
    let inside = |flow: &&Flow| flow.start.time().is_some_and(|at| span.contains(&at));
    // Two hosts in each rack.
    let of_pair = list.flows.iter().filter(|flow| (flow.src.0 / 2, flow.dst.0 / 2) == pair).filter(inside);
    of_pair.map(|flow| flow.size_bytes as f64).sum()
}

#[test]
fn each_pair_has_the_rate_of_the_matrix_in_every_row() {
    let matrix = read_matrix("m.csv", MATRIX).unwrap();
    let (list, warnings) = matrix.flows(&pods(2, 2, 2), &options("fixed:size=1KB"), 1).unwrap();
    assert!(warnings.is_empty());
    assert_eq!(FlowList::sorted(list.flows.clone(), list.description.clone()), Ok(list.clone()));
    for (pair, from_s, to_s, mbps) in
        [((0, 1), 0, 10, 8.0), ((0, 1), 10, 30, 80.0), ((1, 0), 30, 50, 16.0), ((2, 2), 0, 50, 1.0)]
    {
        let expected = mbps * 1e6 / 8.0 * (to_s - from_s) as f64;
        let flows = expected / 1e3;
        let deviations = (bytes(&list, pair, from_s, to_s) - expected) / 1e3 / flows.sqrt();
        assert!(deviations.abs() < 4.0, "{pair:?} from {from_s} s: {deviations} standard deviations");
    }
    assert_eq!(bytes(&list, (0, 1), 30, 50), 0.0);
    assert_eq!(bytes(&list, (1, 0), 0, 30), 0.0);
    assert_eq!(bytes(&list, (3, 0), 0, 50), 0.0);
    // The last row holds as long as the one before it: until 50 s.
    assert!(list.last_start() < Time::from_s(50) && list.last_start() > Time::from_s(49));
    assert!(list.flows.iter().all(|flow| flow.src != flow.dst));
    assert_eq!(matrix.flows(&pods(2, 2, 2), &options("fixed:size=1KB"), 1).unwrap().0, list);
}

#[test]
fn scales_stretch_time_and_rate_apart() {
    let matrix = read_matrix("m.csv", MATRIX).unwrap();
    let scaled = DemandOptions { time_scale: 0.1, rate_scale: 10.0, ..options("fixed:size=1KB") };
    let (list, _) = matrix.flows(&pods(2, 2, 2), &scaled, 1).unwrap();
    let (plain, _) = matrix.flows(&pods(2, 2, 2), &options("fixed:size=1KB"), 1).unwrap();
    // A tenth of the time at ten times the rate: the same flows, ten times as fast.
    assert_eq!(list.flows.len(), plain.flows.len());
    for (fast, slow) in list.flows.iter().zip(&plain.flows) {
        let (fast_at, slow_at) = (fast.start.time().unwrap(), slow.start.time().unwrap());
        assert_eq!((fast.src, fast.dst), (slow.src, slow.dst));
        assert!((fast_at.as_s_f64() * 10.0 - slow_at.as_s_f64()).abs() < 1e-6);
    }
    let limited = DemandOptions { flows: Some(100), ..options("fixed:size=1KB") };
    assert_eq!(matrix.flows(&pods(2, 2, 2), &limited, 1).unwrap().0.flows, plain.flows[..100]);
    let early = DemandOptions { until: Some(Time::from_s(5)), ..options("fixed:size=1KB") };
    assert!(matrix.flows(&pods(2, 2, 2), &early, 1).unwrap().0.last_start() < Time::from_s(5));
}

#[test]
fn single_rows_and_single_hosts() {
    let one = read_matrix("m.csv", "time_s,e0>e1,e0>e0\n0,8,4\n").unwrap();
    let topology = pods(2, 1, 1);
    assert_eq!(one.flows(&topology, &options("fixed:size=1KB"), 1), Err(TrafficError::NoEnd));
    let hundred = DemandOptions { flows: Some(100), ..options("fixed:size=1KB") };
    let (list, warnings) = one.flows(&topology, &hundred, 1).unwrap();
    assert_eq!(list.flows.len(), 100);
    assert_eq!(warnings, [Warning::LocalDemands { count: 1, mbps: 4.0 }]);
    let silent = read_matrix("m.csv", "time_s,e0>e1\n0,0\n1,0\n").unwrap();
    assert!(silent.flows(&topology, &options("fixed:size=1KB"), 1).unwrap_err().to_string().contains("no flow at all"));
}

#[test]
fn names_are_mapped_or_refused() {
    let refused = |text: &str, names: &[(&str, &str)]| {
        let names = names.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
        let options = DemandOptions { names, ..options("fixed:size=1KB") };
        let matrix = read_matrix("m.csv", text).unwrap();
        matrix.flows(&pods(2, 1, 1), &options, 1).map(|(list, _)| list.flows.len()).map_err(|error| error.to_string())
    };
    let two = "time_s,e0>edge1\n0,80\n1,80\n";
    assert_eq!(
        refused("time_s,e0>cores\n0,80\n1,80\n", &[]).unwrap_err(),
        "topology `test` has no node `cores` of m.csv; did you mean `core`?"
    );
    assert!(refused(two, &[]).unwrap_err().contains("there are core, e0,"));
    assert!(refused(two, &[("edge1", "e1")]).unwrap() > 10_000);
    assert!(refused("time_s,h0>h1\n0,80\n1,80\n", &[]).unwrap() > 10_000);
    assert!(refused("time_s,e0>core\n0,80\n1,80\n", &[]).unwrap_err().contains("node `core` has no hosts"));
}
