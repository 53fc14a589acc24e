//! No file makes the readers panic, and a wrong one is answered with where and what.

use anabranch_traffic::{
    Arrivals, CoflowOptions, Pattern, StartUnit, parse_cdf, parse_workload, read_cm, read_coflows, read_csv,
};
use net::{Bandwidth, Time, Topology, TopologyBuilder};
use proptest::prelude::*;

const CDF: &str = "# t: a table\n# interpolation: linear\n0 0\n180 0.1 # a comment\n216 0.2\n1e6 1\n";
const CSV: &str = "# description: a list\nid,src,dst,size_bytes,start_us,after,group\n0,0,1,1000,0.5,,3\n1,1,2,2000,2,,0\n7,2,0,3000,1,1,0\n";
const CM: &str = "Nodes 4\nConnections 3\nTriggers 1\n0->1 id 1 start 0 size 2000000 send_done_trigger 1\n1->2 id 2 trigger 1 size 2000000\n2->3 start 5 size 10\ntrigger id 1 oneshot\n";
const COFLOWS: &str = "4 3\n7 0 2 0 1 1 2:3.0\n8 1500 1 3 2 0:1.0 3:0.5\n9 2000 1 1 1 1:2\n";

fn star(host_count: u32) -> Topology {
    let mut builder = TopologyBuilder::new("star");
    let switch = builder.switch("s", 1, None);
    for host in 0..host_count {
        let host = builder.host(format!("h{host}"), host / 2, None);
        builder.connect(host, switch, Bandwidth::from_gbps(10), Time::from_us(1));
    }
    builder.build().unwrap()
}

/// Every reader on one text; the answers are of no interest, only that there are some.
fn read_all(text: &str) {
    let topology = star(4);
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
    ]
    .into_iter()
    .flatten()
    {
        assert!(list.flows.iter().all(|flow| flow.src != flow.dst && flow.size_bytes > 0));
    }
}

#[test]
fn files_cut_at_every_byte_do_not_panic() {
    for text in [CDF, CSV, CM, COFLOWS] {
        for end in 0..=text.len() {
            read_all(&text[..end]);
        }
    }
}

proptest! {
    #[test]
    fn changed_bytes_do_not_panic(
        which in 0usize..4,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = [CDF, CSV, CM, COFLOWS][which].as_bytes().to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        read_all(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn changed_characters_do_not_panic(
        which in 0usize..4,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), "[0-9a-z,:.>#\n -]{0,12}"), 1..4),
    ) {
        // Likelier than random bytes to leave something that almost reads.
        let mut text = [CDF, CSV, CM, COFLOWS][which].to_owned();
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
        let _ = parse_workload(&text, &mut |_| Ok(CDF.to_owned()));
    }
}

#[test]
fn flow_size_tables_are_refused_with_line_and_reason() {
    for (text, message) in [
        ("", "t.cdf:1: there are no points; write lines of `size_bytes cumulative_probability`"),
        ("# only\n# comments\n", "t.cdf:2: there are no points; write lines of `size_bytes cumulative_probability`"),
        ("0 0\n10 0.5\n5 1\n", "t.cdf:3: size 5 is below the 10 before it; sort the lines by size"),
        (
            "0 0\n10 0.5\n\n20 0.4\n30 1",
            "t.cdf:4: probability 0.4 is below the 0.5 before it; cumulative probabilities never fall",
        ),
        ("0 0\n10 0.9\n", "t.cdf:2: the last probability is 0.9; the table must end at 1"),
        ("0 0\n-10 1\n", "t.cdf:2: size is -10; it cannot be negative"),
        ("0 -0.5\n10 1\n", "t.cdf:1: probability is -0.5; it cannot be negative"),
        ("0 0\n10 NaN\n", "t.cdf:2: probability is NaN; give a finite number"),
        ("0 0\ninf 1\n", "t.cdf:2: size is inf; give a finite number"),
        ("0 0\n10 x\n", "t.cdf:2: `x` is not a number"),
        ("0 0\n10 0.5 3\n", "t.cdf:2: expected `size_bytes cumulative_probability`, found 3 columns"),
        ("0 0\n10 1.5\n20 1.6", "t.cdf:2: probability 1.5 is above 1"),
        (
            "0 0\n10 15\n20 100\n",
            "t.cdf:2: probability 15 is above 1: the table seems to be in percent (its last value is 100); divide the second column by 100",
        ),
        ("0 0.5\n0 1\n", "t.cdf:2: all flows have size 0; a flow needs at least 1 byte"),
        ("0 0\n1e300 1\n", "t.cdf:2: size 10000000000"),
        (
            "# interpolation: cubic\n0 0\n1 1\n",
            "t.cdf:1: interpolation `cubic` is unknown; write `# interpolation: linear` or `step`",
        ),
        (
            "# interpolation: step\n0 0\n# interpolation: linear\n1 1\n",
            "t.cdf:3: the interpolation is given twice, differently; keep one of the lines",
        ),
    ] {
        let found = parse_cdf("t.cdf", text).unwrap_err().to_string();
        assert!(found.starts_with(message), "{found}\nnot {message}");
    }
}

#[test]
fn csv_lists_are_refused_with_line_and_reason() {
    let header = "src,dst,size_bytes,start_ns\n";
    for (text, message) in [
        ("# nothing\n".to_owned(), "t.csv:1: the header line, such as `src,dst,size_bytes,start_ns`, is missing"),
        ("src,dst,size_bytes\n".to_owned(), "t.csv:1: a start column, such as `start_ns`, is missing"),
        ("src,dst,start_ns\n".to_owned(), "t.csv:1: column `size_bytes` is missing"),
        ("src,dst,dst,size_bytes,start_s\n".to_owned(), "t.csv:1: column `dst` is there twice"),
        ("src,dst,size_bytes,start_s,start_ms\n".to_owned(), "t.csv:1: the start column is there twice"),
        (
            "src,dst,bytes,start_s\n".to_owned(),
            "t.csv:1: `bytes` is unknown here; expected id, src, dst, size_bytes, start_ps",
        ),
        (format!("{header}0,1,5,0\n0,4,5,0\n"), "t.csv:3: host 4 does not exist; there are 4, numbered from 0"),
        (format!("{header}# c\n\n2,2,5,0\n"), "t.csv:4: host 2 sends to itself; sender and receiver must differ"),
        (format!("{header}0,1,0,0\n"), "t.csv:2: size `0` is not at least 1 byte"),
        (format!("{header}0,1,5,-1\n"), "t.csv:2: time `-1` is not a decimal number, 0 or more, in range"),
        (format!("{header}0,1,5,5m\n"), "t.csv:2: time `5m` is not a decimal number, 0 or more, in range"),
        (format!("{header}0,x,5,0\n"), "t.csv:2: host `x` is not a whole number in range"),
        (format!("{header}0,1,5\n"), "t.csv:2: the header promises 4 columns, but there are 3"),
        ("id,src,dst,size_bytes,start_s\n1,0,1,5,0\n1,1,2,5,0\n".to_owned(), "t.csv:3: id 1 is there twice"),
        (
            "src,dst,size_bytes,start_s,after\n0,1,5,0,\n0,1,5,0,9\n".to_owned(),
            "t.csv:3: it waits for flow 9, which is not in the file; it would never start",
        ),
        (
            "src,dst,size_bytes,start_s,after\n0,1,5,0,1\n0,1,5,0,0\n".to_owned(),
            "t.csv:2: flow 0 waits, directly or through others, for itself; it would never start",
        ),
    ] {
        let found = read_csv("t.csv", &text, &star(4)).unwrap_err().to_string();
        assert!(found.starts_with(message), "{found}\nnot {message}");
    }
}

#[test]
fn connection_matrices_are_refused_with_line_and_reason() {
    for (text, message) in [
        ("", "t.cm:1: the line `Nodes n` is missing"),
        ("Nodes 2\n", "t.cm:1: the line `Connections n` is missing"),
        ("Nodes 2\nNodes 3\n", "t.cm:2: the line `Nodes` is there twice"),
        ("0->1 start 0 size 5\n", "t.cm:1: the line `Nodes n` before the connections is missing"),
        ("Nodes 2\nConnections 2\n0->1 start 0 size 5\n", "t.cm:3: the header promises 2 connections, but there are 1"),
        (
            "Nodes 2\nConnections 0\nTriggers 2\ntrigger id 1 oneshot\n",
            "t.cm:4: the header promises 2 triggers, but there are 1",
        ),
        (
            "Nodes 2\nConnections 1\n0->2 start 0 size 5\n",
            "t.cm:3: host 2 does not exist; there are 2, numbered from 0",
        ),
        (
            "Nodes 2\nConnections 1\n1->1 start 0 size 5\n",
            "t.cm:3: host 1 sends to itself; sender and receiver must differ",
        ),
        ("Nodes 2\nConnections 1\n0->1 start 0\n", "t.cm:3: `size` is missing"),
        ("Nodes 2\nConnections 1\n0->1 size 5\n", "t.cm:3: `start` or `trigger` is missing"),
        ("Nodes 2\nConnections 1\n0->1 start 0 size\n", "t.cm:3: the value of `size` is missing"),
        ("Nodes 2\nConnections 1\n0->1 start 0 size 0\n", "t.cm:3: size `0` is not at least 1 byte"),
        (
            "Nodes 2\nConnections 1\n0->1 start 0 trigger 1 size 5\n",
            "t.cm:3: `start` and `trigger` exclude each other; keep one",
        ),
        (
            "Nodes 2\nConnections 1\n0->1 start 0 size 5 prio 1\n",
            "t.cm:3: `prio` is unknown here; expected id, start, trigger, size, send_done_trigger",
        ),
        (
            "Nodes 2\nConnections 1\n0-1 start 0 size 5\n",
            "t.cm:3: `0-1` is unknown here; expected Nodes, Connections, Triggers, trigger or a connection `src->dst`",
        ),
        (
            "Nodes 2\nTriggers 1\ntrigger id 1 barrier\n",
            "t.cm:3: `barrier` is unknown here; expected oneshot, the only kind of trigger supported",
        ),
        (
            "Nodes 2\nConnections 1\nTriggers 1\n0->1 trigger 1 size 5\ntrigger id 1 oneshot\n",
            "t.cm:4: no connection fires trigger 1; it would never start",
        ),
        (
            "Nodes 2\nConnections 1\n0->1 trigger 1 size 5 send_done_trigger 1\n",
            "t.cm:3: trigger 1 is not declared by a line `trigger id 1 oneshot`; it would never start",
        ),
        (
            "Nodes 2\nConnections 1\nTriggers 1\n0->1 trigger 1 size 5 send_done_trigger 1\ntrigger id 1 oneshot\n",
            "t.cm:4: its trigger waits, directly or through others, for itself; it would never start",
        ),
        (
            "Nodes 2\nConnections 2\n0->1 start 0 size 5 send_done_trigger 1\n1->0 start 0 size 5 send_done_trigger 1\n",
            "t.cm:4: trigger 1 is fired by two connections; one is supported",
        ),
    ] {
        let found = read_cm("t.cm", text, StartUnit::Picoseconds).unwrap_err().to_string();
        assert_eq!(found, message);
    }
}

#[test]
fn coflow_traces_are_refused_with_line_and_reason() {
    for (text, message) in [
        ("", "t.txt:1: the line `racks coflows` is missing"),
        ("4\n", "t.txt:1: coflows is missing"),
        ("4 2\n1 0 1 0 1 1:1\n", "t.txt:2: the header promises 2 coflows, but there are 1"),
        ("4 1\n1 0 2 0\n", "t.txt:2: a mapper is missing"),
        ("4 1\n1 0 2 0 1\n", "t.txt:2: number of reducers is missing"),
        ("4 1\n1 0 1 4 1 1:1\n", "t.txt:2: rack 4 does not exist; there are 4, numbered from 0"),
        ("4 1\n1 0 1 0 1 1\n", "t.txt:2: `1` is unknown here; expected a reducer `rack:megabytes`"),
        ("4 1\n1 0 1 0 1 1:-2\n", "t.txt:2: megabytes `-2` is not a number, 0 or more"),
        ("4 1\n1 0 1 0 1 1:1 7\n", "t.txt:2: `7` is unknown here; expected the end of the line"),
        ("4 1\n1 0 0 1 1:1\n", "t.txt:2: a mapper or a reducer is missing"),
        (
            "4 1\n1 1e30 1 0 1 1:1\n",
            "t.txt:2: arrival at 1000000000000000000000000000 s is beyond the 213 days a run can last",
        ),
    ] {
        let found = read_coflows("t.txt", text, &star(4), &CoflowOptions::default());
        assert_eq!(found.unwrap_err().to_string(), message);
    }
    let options = CoflowOptions { size_scale: 0.0, ..CoflowOptions::default() };
    let error = read_coflows("t.txt", COFLOWS, &star(4), &options).unwrap_err();
    assert_eq!(error.to_string(), "t.txt:1: size scale 0 is not above 0");
}
