//! No file makes the importers panic, and errors name position and cause.

use anabranch_traffic::FlowList;
use anabranch_traffic::{
    Arrivals, CoflowOptions, CollectiveSpec, DemandOptions, ImportError, Pattern, StartUnit, TrainingOptions,
    parse_cdf, parse_workload, read_cm, read_coflows, read_csv, read_matrix, read_training,
};
use net::Topology;
use proptest::prelude::*;

const CDF: &str = "# t: a table\n# interpolation: linear\n0 0\n180 0.1 # a comment\n216 0.2\n1e6 1\n";
const CSV: &str = "# description: a list\nid,src,dst,size_bytes,start_us,after,group\n0,0,1,1000,0.5,,3\n1,1,2,2000,2,,0\n7,2,0,3000,1,1,0\n";
const CM: &str = "Nodes 4\nConnections 3\nTriggers 1\n0->1 id 1 start 0 size 2000000 send_done_trigger 1\n1->2 id 2 trigger 1 size 2000000\n2->3 start 5 size 10\ntrigger id 1 oneshot\n";
const COFLOWS: &str = "4 3\n7 0 2 0 1 1 2:3.0\n8 1500 1 3 2 0:1.0 3:0.5\n9 2000 1 1 1 1:2\n";
const TRACE: &str = "[rank0 ~ rank3]\ncomm_type,comm_group,comm_group_size,msg_size,src,count\nCommType.all_reduce,CommGroup.tp_group,2,1000,None,1\nCommType.broadcast,CommGroup.dp_group,2,70,1,1\nCommType.epoch_end,None,None,0,None,1\n";
const WORKLOAD: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2\n2\na -1 100 ALLREDUCE 10 200 ALLTOALL 20 400 ALLGATHER 40 7\nb -1 1000 NONE 0 2000 ALLREDUCE 80 4000 BROADCAST 9 7\n";
const MATRIX: &str = "# c\ntime_s,h0>h1,h1>h0,leaf0>h2\n0,1,0.5,2\n300,2e0,1,0\n";
const ALL: [&str; 7] = [CDF, CSV, CM, COFLOWS, TRACE, WORKLOAD, MATRIX];

fn network() -> Topology {
    net::spec::parse("leaf-spine:leaves=2,spines=1,hosts_per_leaf=2").unwrap()
}

/// Checks that each text is refused with these words after the name of the file, with `head` before
/// all texts. Words that end in `...` are a beginning.
fn refused<T>(head: &str, read: impl Fn(&str) -> Result<T, ImportError>, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let error = read(&format!("{head}{text}")).err().expect(text);
        assert_eq!(error.to_string(), format!("{}:{}: {}", error.file, error.line, error.problem));
        let found = format!("{}: {}", error.line, error.problem);
        let is_right = expected.strip_suffix("...").map_or(found == *expected, |begin| found.starts_with(begin));
        assert!(is_right, "{text}: {found}\nnot {expected}");
    }
}

/// Every reader on one text; the answers are of no interest, only that there are some.
fn read_all(text: &str) {
    let topology = network();
    if let Ok(sizes) = parse_cdf("t.cdf", text) {
        assert!(sizes.mean_bytes() > 0.0);
        for u in [0.0, 0.1, 0.5, 0.999, 1.0] {
            assert!(sizes.quantile(u) >= 1);
        }
    }
    for list in [
        read_csv("t.csv", text, &topology).ok(),
        read_cm("t.cm", text, StartUnit::Microseconds).ok().map(|matrix| matrix.list),
        read_coflows("t.txt", text, &topology, &CoflowOptions::default()).ok().map(|read| read.0),
        training("t.csv", text, &topology),
        training("t.txt", text, &topology),
        demands(text, &topology),
    ]
    .into_iter()
    .flatten()
    {
        assert!(list.flows.iter().all(|flow| flow.src != flow.dst && flow.size_bytes > 0));
    }
}

fn training(file: &str, text: &str, topology: &Topology) -> Option<FlowList> {
    let trace = read_training(file, text).ok()?;
    Some(trace.flows(topology, &TrainingOptions::default(), 1).ok()?.0)
}

fn demands(text: &str, topology: &Topology) -> Option<FlowList> {
    let sizes = parse_workload("fixed:size=10KB", &mut |_| Err("none".into())).unwrap();
    let (time_scale, rate_scale, flows) = (1.0, 1.0, Some(200));
    let options = DemandOptions { sizes, time_scale, rate_scale, flows, until: None, names: Vec::new() };
    Some(read_matrix("t.csv", text).ok()?.flows(topology, &options, 1).ok()?.0)
}

#[test]
fn the_undamaged_texts_are_read() {
    let topology = network();
    assert_eq!(training("t.csv", TRACE, &topology).unwrap().total_bytes(), 2 * 2 * 1000 + 2 * 70);
    assert!(training("t.txt", WORKLOAD, &topology).is_some() && demands(MATRIX, &topology).is_some());
}

#[test]
fn files_cut_at_every_byte_do_not_panic() {
    for text in ALL {
        for end in 0..=text.len() {
            read_all(&text[..end]);
        }
    }
}

proptest! {
    #[test]
    fn changed_bytes_do_not_panic(
        which in 0..ALL.len(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = ALL[which].as_bytes().to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        read_all(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn changed_characters_do_not_panic(
        which in 0..ALL.len(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), "[0-9a-z,:.>#\n -]{0,12}"), 1..4),
    ) {
        // Likelier than random bytes to leave a text that is almost valid.
        let mut text = ALL[which].to_owned();
        for (place, new) in changes {
            let place = place.index(text.len());
            if text.is_char_boundary(place) {
                text.insert_str(place, &new);
            }
        }
        read_all(&text);
    }

    #[test]
    fn no_specification_panics(text in "(stride|incast|staggered|fixed|uniform|on-off|file)?[:=,a-z0-9._-]{0,30}") {
        let _ = Pattern::parse(&text);
        let _ = Arrivals::parse(&text);
        let _ = CollectiveSpec::parse(&text);
        let _ = parse_workload(&text, &mut |_| Ok(CDF.to_owned()));
    }
}

#[test]
fn flow_size_tables_are_refused_with_line_and_reason() {
    let cases = [
        ("", "1: there are no points; write lines of `size_bytes cumulative_probability`"),
        ("# only\n# comments\n", "2: there are no points; write lines of `size_bytes cumulative_probability`"),
        ("0 0\n10 0.5\n5 1\n", "3: size 5 is below the 10 before it; sort the lines by size"),
        (
            "0 0\n10 0.5\n\n20 0.4\n30 1",
            "4: probability 0.4 is below the 0.5 before it; cumulative probabilities never fall",
        ),
        ("0 0\n10 0.9\n", "2: the last probability is 0.9; the table must end at 1"),
        ("0 0\n-10 1\n", "2: size is -10; it cannot be negative"),
        ("0 -0.5\n10 1\n", "1: probability is -0.5; it cannot be negative"),
        ("0 0\n10 NaN\n", "2: probability is NaN; give a finite number"),
        ("0 0\ninf 1\n", "2: size is inf; give a finite number"),
        ("0 0\n10 x\n", "2: `x` is not a number"),
        (
            "0 0\n10 0.5 3\n",
            "2: expected `size_bytes cumulative_probability`, separated by a space; this line has 3 columns",
        ),
        ("0 0\n10 1.5\n20 1.6", "2: probability 1.5 is above 1"),
        (
            "0 0\n10 15\n20 100\n",
            "2: probability 15 is above 1: the table seems to be in percent (its last value is 100); divide the second column by 100",
        ),
        ("0 0.5\n0 1\n", "2: all flows have size 0; a flow needs at least 1 byte"),
        ("0 0\n1e300 1\n", "2: size 10000000000..."),
        (
            "# interpolation: cubic\n0 0\n1 1\n",
            "1: interpolation `cubic` is unknown; write `# interpolation: linear` or `step`",
        ),
        (
            "# interpolation: step\n0 0\n# interpolation: linear\n1 1\n",
            "3: the interpolation is given twice, differently; keep one of the lines",
        ),
    ];
    refused("", |text| parse_cdf("t.cdf", text), &cases);
}

#[test]
fn csv_lists_are_refused_with_line_and_reason() {
    let read = |text: &str| read_csv("t.csv", text, &network());
    let cases = [
        ("# nothing\n", "1: the header line, such as `src,dst,size_bytes,start_ns`, is missing"),
        ("src,dst,size_bytes\n", "1: a start column, such as `start_ns`, is missing"),
        ("src,dst,start_ns\n", "1: column `size_bytes` is missing"),
        ("src,dst,dst,size_bytes,start_s\n", "1: column `dst` is there twice"),
        ("src,dst,size_bytes,start_s,start_ms\n", "1: the start column is there twice"),
        ("src,dst,bytes,start_s\n", "1: `bytes` is unknown here; expected id, src, dst, size_bytes, start_ps..."),
        ("id,src,dst,size_bytes,start_s\n1,0,1,5,0\n1,1,2,5,0\n", "3: id 1 is there twice"),
        (
            "src,dst,size_bytes,start_s,after\n0,1,5,0,\n0,1,5,0,9\n",
            "3: it waits for flow 9, which is not in the file; it would never start",
        ),
        (
            "src,dst,size_bytes,start_s,after\n0,1,5,0,1\n0,1,5,0,0\n",
            "2: flow 0 waits, directly or through others, for itself; it would never start",
        ),
    ];
    refused("", read, &cases);
    let cases = [
        ("0,1,5,0\n0,4,5,0\n", "3: host 4 does not exist; there are 4, numbered from 0"),
        ("# c\n\n2,2,5,0\n", "4: host 2 sends to itself; sender and receiver must differ"),
        ("0,1,0,0\n", "2: size `0` is not at least 1 byte"),
        ("0,1,5,-1\n", "2: time `-1` is not a decimal number, 0 or more, in range"),
        ("0,1,5,5m\n", "2: time `5m` is not a decimal number, 0 or more, in range"),
        ("0,x,5,0\n", "2: host `x` is not a whole number in range"),
        ("0,1,5\n", "2: the header promises 4 columns, but there are 3"),
    ];
    refused("src,dst,size_bytes,start_ns\n", read, &cases);
}

#[test]
fn connection_matrices_are_refused_with_line_and_reason() {
    let read = |text: &str| read_cm("t.cm", text, StartUnit::Picoseconds);
    let cases = [
        ("", "1: the line `Nodes n` is missing"),
        ("Nodes 2\n", "1: the line `Connections n` is missing"),
        ("Nodes 2\nNodes 3\n", "2: the line `Nodes` is there twice"),
        ("0->1 start 0 size 5\n", "1: the line `Nodes n` before the connections is missing"),
        ("Nodes 2\nConnections 2\n0->1 start 0 size 5\n", "3: the header promises 2 connections, but there are 1"),
        (
            "Nodes 2\nConnections 0\nTriggers 2\ntrigger id 1 oneshot\n",
            "4: the header promises 2 triggers, but there are 1",
        ),
        (
            "Nodes 2\nTriggers 1\ntrigger id 1 barrier\n",
            "3: `barrier` is unknown here; expected oneshot, the only kind of trigger supported",
        ),
        (
            "Nodes 2\nConnections 2\n0->1 start 0 size 5 send_done_trigger 1\n1->0 start 0 size 5 send_done_trigger 1\n",
            "4: trigger 1 is fired by two connections; one is supported",
        ),
    ];
    refused("", read, &cases);
    let cases = [
        ("0->2 start 0 size 5\n", "3: host 2 does not exist; there are 2, numbered from 0"),
        ("1->1 start 0 size 5\n", "3: host 1 sends to itself; sender and receiver must differ"),
        ("0->1 start 0\n", "3: `size` is missing"),
        ("0->1 size 5\n", "3: `start` or `trigger` is missing"),
        ("0->1 start 0 size\n", "3: the value of `size` is missing"),
        ("0->1 start 0 size 0\n", "3: size `0` is not at least 1 byte"),
        ("0->1 start 0 trigger 1 size 5\n", "3: `start` and `trigger` exclude each other; keep one"),
        (
            "0->1 start 0 size 5 prio 1\n",
            "3: `prio` is unknown here; expected id, start, trigger, size, send_done_trigger",
        ),
        (
            "0-1 start 0 size 5\n",
            "3: `0-1` is unknown here; expected Nodes, Connections, Triggers, trigger or a connection `src->dst`",
        ),
        (
            "Triggers 1\n0->1 trigger 1 size 5\ntrigger id 1 oneshot\n",
            "4: no connection fires trigger 1; it would never start",
        ),
        (
            "0->1 trigger 1 size 5 send_done_trigger 1\n",
            "3: trigger 1 is not declared by a line `trigger id 1 oneshot`; it would never start",
        ),
        (
            "Triggers 1\n0->1 trigger 1 size 5 send_done_trigger 1\ntrigger id 1 oneshot\n",
            "4: its trigger waits, directly or through others, for itself; it would never start",
        ),
    ];
    refused("Nodes 2\nConnections 1\n", read, &cases);
}

#[test]
fn coflow_traces_are_refused_with_line_and_reason() {
    let cases = [
        ("", "1: the line `racks coflows` is missing"),
        ("4\n", "1: coflows is missing"),
        ("4 2\n1 0 1 0 1 1:1\n", "2: the header promises 2 coflows, but there are 1"),
        ("4 1\n1 0 2 0\n", "2: a mapper is missing"),
        ("4 1\n1 0 2 0 1\n", "2: number of reducers is missing"),
        ("4 1\n1 0 1 4 1 1:1\n", "2: rack 4 does not exist; there are 4, numbered from 0"),
        ("4 1\n1 0 1 0 1 1\n", "2: `1` is unknown here; expected a reducer `rack:megabytes`"),
        ("4 1\n1 0 1 0 1 1:-2\n", "2: megabytes `-2` is not a number, 0 or more"),
        ("4 1\n1 0 1 0 1 1:1 7\n", "2: `7` is unknown here; expected the end of the line"),
        ("4 1\n1 0 0 1 1:1\n", "2: a mapper or a reducer is missing"),
        (
            "4 1\n1 1e30 1 0 1 1:1\n",
            "2: arrival at 1000000000000000000000000000 s is beyond the 213 days a run can last",
        ),
    ];
    refused("", |text| read_coflows("t.txt", text, &network(), &CoflowOptions::default()), &cases);
    let options = CoflowOptions { size_scale: 0.0, ..CoflowOptions::default() };
    let cases = [(COFLOWS, "1: size scale 0 is not above 0")];
    refused("", |text| read_coflows("t.txt", text, &network(), &options), &cases);
}

#[test]
fn training_traces_are_refused_with_line_and_reason() {
    let read = |text: &str| read_training("t.csv", text);
    let cases = [
        ("", "1: the line `[rank0 ~ rank127]` is missing"),
        ("[rank0 ~ rank3]\n", "1: the line of column names is missing"),
        ("src,dst\n", "1: `src,dst` is unknown here; expected the ranks of the trace, such as..."),
        ("[rank9 ~ rank3]\n", "1: rank 3 is below rank 9"),
        ("[rank0 ~ rank4294967295]\n", "1: rank 4294967295 is below rank 0"),
        ("[rank0 ~ rank3]\ncomm_type,msg_size\n", "2: column `comm_group` is missing"),
    ];
    refused("", read, &cases);
    let cases = [
        ("CommType.all_reduce,CommGroup.all,4\n", "3: the header promises 4 columns, but there are 3"),
        ("CommType.isend,CommGroup.all,4,5\n", "3: `isend` is unknown here; expected all_reduce,..."),
        ("all_reduce,ep_group,4,5\n", "3: `ep_group` is unknown here; expected tp_group, dp_group or all"),
        ("all_reduce,all,4,-5\n", "3: msg_size `-5` is not a whole number in range"),
        ("all_reduce,tp_group,0,5\n", "3: the group has no members"),
        ("all_reduce,tp_group,None,5\n", "3: comm_group_size `None` is not a whole number in range"),
    ];
    refused("[rank0 ~ rank3]\ncomm_type,comm_group,comm_group_size,msg_size\n", read, &cases);
    let read = |text: &str| read_training("t.txt", text);
    let cases = [
        ("", "1: the kind of the workload is missing"),
        ("MICRO\n", "1: the number of layers is missing"),
        ("DATA\n1\n", "1: `DATA` is unknown here; expected MICRO or HYBRID..."),
        ("HYBRID_TRANSFORMER_FWD_IN_BCKWD\n", "1: `model_parallel_NPU_group: n` is missing"),
        ("MICRO\n2\na -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n", "3: the header promises 2 layers, but there are 1"),
    ];
    refused("", read, &cases);
    let cases = [
        ("a -1 1 NONE 0 1 NONE 0 1 NONE 0\n", "3: the header promises 12 columns, but there are 11"),
        ("a\n", "3: the header promises 12 columns, but there are 1"),
        ("a -1 1 SUM 0 1 NONE 0 1 NONE 0 1\n", "3: `SUM` is unknown here; expected NONE, ALLREDUCE,..."),
        ("a -1 x NONE 0 1 NONE 0 1 NONE 0 1\n", "3: time `x` is not a decimal number..."),
    ];
    refused("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2\n1\n", read, &cases);
    assert!(read_training("t.json", "").unwrap_err().to_string().contains("must end in .csv"));
}

#[test]
fn traffic_matrices_are_refused_with_line_and_reason() {
    let cases = [
        ("# none\n", "1: the header line, such as `time_s,a>b,b>a`, is missing"),
        ("time,a>b\n", "1: `time_s` as the first column is missing"),
        ("time_s\n", "1: a pair of nodes such as `a>b` is missing"),
        ("time_s,ab\n", "1: `ab` is unknown here; expected a pair of nodes such as `a>b`"),
        ("time_s,a>b,a>b\n", "1: column `a>b` is there twice"),
        ("time_s,a>b\n", "1: a row of rates is missing"),
        ("time_s,a>b\n0,1\n0,2\n", "3: the time is not later than that of the row before; sort the rows by time"),
        ("time_s,a>b\n5,1\n4,2\n", "3: the time is not later..."),
        ("time_s,a>b\n0,1,2\n", "2: the header promises 2 columns, but there are 3"),
        ("time_s,a>b\n0,-1\n", "2: rate `-1` is not a number of Mbit/s, 0 or more"),
        ("time_s,a>b\n0,NaN\n", "2: rate `NaN` is not a number..."),
        ("time_s,a>b\nx,1\n", "2: time `x` is not a decimal number..."),
    ];
    refused("", |text| read_matrix("m.csv", text), &cases);
}

#[test]
fn the_abilene_matrices_fit_the_topology_zoo() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/topologies/zoo/Abilene.graphml");
    let text = std::fs::read_to_string(&path).unwrap();
    let options = net::import::ImportOptions { hosts_per_node: 2, ..net::import::ImportOptions::default() };
    let topology = net::import::read(&path, &text, &options).unwrap().topology;
    // Names as in the matrices of 2004; the second router in Atlanta is not in the graph.
    let routers = "ATLA-M5 ATLAng CHINng DNVRng HSTNng IPLSng KSCYng LOSAng NYCMng SNVAng STTLng WASHng";
    let pairs: Vec<String> =
        routers.split(' ').flat_map(|from| routers.split(' ').map(move |to| format!("{from}>{to}"))).collect();
    let row = |at| format!("{at}{}\n", ",1.5".repeat(pairs.len()));
    let text = format!("time_s,{}\n{}{}", pairs.join(","), row(0), row(300));
    let list = demands(&text, &topology).unwrap();
    assert_eq!(list.flows.len(), 200);
    let senders: std::collections::BTreeSet<u32> = list.flows.iter().map(|flow| flow.src.0).collect();
    assert!(senders.len() > 18, "11 cities of 2 hosts: {senders:?}");
}
