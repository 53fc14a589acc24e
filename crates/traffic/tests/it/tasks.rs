//! Execution traces of GOAL and Chakra become the flows and tasks that their files describe.

use std::io::{BufRead, BufReader, Cursor, Write};
use std::path::{Path, PathBuf};

use anabranch_traffic::{
    CollectiveSpec, FlowList, ImportError, RankOptions, Start, TaskOptions, TaskTrace, collectives, read_chakra,
    read_csv, read_goal, write_csv,
};
use net::Topology;
use proptest::prelude::*;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces").join(name)
}

fn hosts(count: u32) -> Topology {
    net::spec::parse(&format!("single-switch:hosts={count}")).unwrap()
}

fn goal(text: &str) -> Result<TaskTrace, ImportError> {
    read_goal("t.goal", &mut Cursor::new(text))
}

fn chakra(format: &str, ranks: &[Vec<u8>]) -> Result<TaskTrace, ImportError> {
    let file = |(rank, bytes): (usize, &Vec<u8>)| -> (String, Box<dyn BufRead>) {
        (format!("t.{rank}.{format}"), Box::new(Cursor::new(bytes.clone())))
    };
    read_chakra("t", &mut ranks.iter().enumerate().map(file))
}

fn sample(format: &str) -> Vec<Vec<u8>> {
    (0..8).map(|rank| std::fs::read(data(&format!("chakra/all_reduce.{rank}.{format}"))).unwrap()).collect()
}

fn flows(trace: &TaskTrace, hosts_count: u32) -> FlowList {
    trace.flows(&hosts(hosts_count), &TaskOptions::default(), 1).unwrap()
}

/// Sender, receiver, size of all flows, in order.
fn pairs(list: &FlowList) -> Vec<(u32, u32, u64)> {
    let mut pairs: Vec<_> = list.flows.iter().map(|flow| (flow.src.0, flow.dst.0, flow.size_bytes)).collect();
    pairs.sort_unstable();
    pairs
}

fn ring(bytes: u64) -> FlowList {
    let spec = CollectiveSpec::parse(&format!("ring-all-reduce:size={bytes}B")).unwrap();
    collectives(&hosts(8), &[spec], &RankOptions::default(), 1).unwrap()
}

#[test]
fn a_ring_of_goal_sends_what_our_ring_sends() {
    let text = std::fs::read_to_string(data("goal/all_reduce_ring.goal")).unwrap();
    let list = flows(&goal(&text).unwrap(), 8);
    assert_eq!(pairs(&list), pairs(&ring(8 << 20)));
    let graph = list.tasks.as_ref().unwrap();
    // A receipt for each transfer, and seven computations for each rank.
    assert_eq!((graph.flow_count(), graph.computation_count()), (112, 112 + 56));
    assert_eq!(list.flows.iter().filter(|flow| flow.start == Start::At(net::Time::ZERO)).count(), 8);
    assert!(list.description.starts_with("execution trace t.goal of 112 transfers and 168 other tasks on 8 ranks"));
    let written = read_csv("t.csv", &write_csv(&list), &hosts(8)).unwrap_err();
    assert!(written.problem.contains("after `after-tasks` is not"), "{written}");
}

#[test]
fn both_forms_of_chakra_are_the_same_and_send_what_our_ring_sends() {
    let binary = chakra("et", &sample("et")).unwrap();
    let text = chakra("json", &sample("json")).unwrap();
    assert_eq!(binary, text);
    assert_eq!(pairs(&flows(&binary, 8)), pairs(&ring(64 << 20)));
    assert!(flows(&binary, 8).flows.iter().all(|flow| flow.start == Start::AfterTasks && flow.group == 2));
    let options = TaskOptions { size_scale: 0.5, ..TaskOptions::default() };
    let half = binary.flows(&hosts(8), &options, 1).unwrap();
    assert_eq!(half.total_bytes(), ring(32 << 20).total_bytes());
    let ranks = RankOptions { count: Some(4), ..RankOptions::default() };
    let refused = binary.flows(&hosts(8), &TaskOptions { ranks, ..options }, 1).unwrap_err();
    assert_eq!(refused.to_string(), "the trace is of 8 ranks, not 4; leave `ranks` out");
    let refused = binary.flows(&hosts(7), &options, 1).unwrap_err();
    assert_eq!(refused.to_string(), "8 ranks on 7 hosts; there are from 2 to as many ranks as hosts");
}

const SMALL: &str = "num_ranks 2\nrank 0 {\na1: calc 5 cpu 2 // why\nb: send 8 b to 1 tag 42 cpu 0 nic 0\n\
    b requires a1\n}\n/* two\nlines */ rank 1 {\nrecv 8b from 0 tag 42\nsend 0b to 0\n}\n";

#[test]
fn statements_are_read_in_all_their_forms() {
    let open = goal(SMALL).unwrap_err();
    assert_eq!(open.to_string(), "t.goal:10: the send from rank 1 to rank 0 with tag 0 has no recv; add the recv");
    let text = SMALL
        .replace("a1: calc", "recv 0b from 1\nx requires a1\nx: send 3b to 0 tag 9\nrecv 3b from 0 tag 9\na1: calc");
    let list = flows(&goal(&text).unwrap(), 2);
    // The message of rank 0 to itself takes no time, and one without payload has a byte.
    assert_eq!(pairs(&list), [(0, 1, 8), (1, 0, 1)]);
    assert_eq!(list.tasks.unwrap().computation_count(), 5);
}

#[test]
fn goal_traces_are_refused_with_line_and_reason() {
    let rank = |body: &str| format!("num_ranks 2\nrank 0 {{\n{body}\n}}\n");
    let cases = [
        (String::new(), "1: the line `num_ranks n` is missing"),
        ("rank 0 {".into(), "1: the line `num_ranks n` before the first block is missing"),
        ("num_ranks 2\nnum_ranks 2".into(), "2: `num_ranks` is there twice"),
        ("num_ranks -1".into(), "1: number of ranks `-1` is not a whole number in range"),
        ("num_ranks 2\nrank 2 {".into(), "2: rank 2 does not exist; there are 2, numbered from 0"),
        ("num_ranks 2\nrank 0 {\n}\nrank 0 {".into(), "4: rank 0 is there twice"),
        ("num_ranks 2\nrank 0 {\n".into(), "2: `}`, the end of the block of rank 0, is missing"),
        ("num_ranks 2\n/* x".into(), "2: `*/`, the end of a comment, is missing"),
        ("num_ranks 2\ncalc 5".into(), "2: the line `rank r {` before its tasks is missing"),
        (rank("calc 5"), "4: there is no transfer between two ranks; nothing would be sent"),
        (rank("a: calc 99999999999999999"), "3: time `99999999999999999` is not at most 200 days in nanoseconds"),
        (rank("a: calc x"), "3: time `x` is not a whole number in range"),
        (rank("a: calc 5 gpu 1"), "3: `gpu` is unknown here; expected tag, cpu or nic"),
        (rank("a: calc 5\na: calc 5"), "4: label `a` is there twice"),
        (rank("a b: calc 5"), "3: label `a b` is not one word"),
        (rank("a: wait 5"), "3: `wait` is unknown here; expected send, recv or calc"),
        (
            rank("wait 5"),
            "3: `wait` is unknown here; expected num_ranks n, rank r {, }, send, recv, calc, or a requires b",
        ),
        (rank("a: calc 5\na requires l07"), "4: label `l07` is not defined in the block of rank 0; define it there"),
        (rank("send 8 to 1"), "3: size `8` is not a number of bytes such as 8b"),
        (rank("send 8b from 1"), "3: `to rank` after the size is missing"),
        (rank("send 8b to 7"), "3: rank 7 does not exist; there are 2, numbered from 0"),
        (rank("send 8b to 1 tag 4294967296"), "3: tag `4294967296` is not a whole number in range"),
        (rank("send 8b to 1 tag"), "3: the number after `tag` is missing"),
        (
            rank("recv 8b from 1 tag -1"),
            "3: `tag -1` (any tag) is not supported: messages form pairs in order of each tag",
        ),
        (
            rank("recv 8b from -1"),
            "3: `recv from -1` (any source) is not supported: the sender would follow from the order of arrival; \
             name the rank of the sender",
        ),
        (rank("recv 8b from 1 tag 3"), "3: the recv from rank 1 to rank 0 with tag 3 has no send; add the send"),
        (
            format!("{}rank 1 {{\na: recv 8b from 0\nb: calc 5\na requires b\nb irequires a\n}}", rank("send 8b to 1")),
            "9: it waits, directly or through others, for itself; remove a dependency of this circle",
        ),
        (" ".repeat(70_000), "1: the line is longer than 65536 bytes; write one statement a line"),
    ];
    for (text, expected) in cases {
        assert_eq!(goal(&text).expect_err(&text).to_string(), format!("t.goal:{expected}"));
    }
    let error = read_goal("t.goal", &mut Cursor::new(b"num_ranks 2\n\xff\n")).unwrap_err();
    assert_eq!(error.to_string(), "t.goal:2: the line is not UTF-8 text");
}

#[test]
fn a_collective_of_too_many_transfers_is_refused_before_they_are_made() {
    let all_to_all = node(3, "COMM_COLL_NODE", &attributes(&[("comm_type", 6), ("comm_size", 1 << 30)]));
    let error = json(&vec![all_to_all; 4_500]).unwrap_err().to_string();
    assert!(error.starts_with("t.0.json:1: node 3: that is more than 20000000 tasks; use a shorter trace"), "{error}");
}

#[test]
#[ignore = "reads 20 million tasks"]
fn tasks_beyond_the_limit_are_refused_when_they_come() {
    // A reader without an end: the error comes although the file does not.
    struct Endless(u64);
    impl std::io::Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0 += 1;
            let text = if self.0 == 1 { "num_ranks 1\nrank 0 {\n".to_owned() } else { "calc 1\n".repeat(1000) };
            buffer[..text.len()].copy_from_slice(text.as_bytes());
            Ok(text.len())
        }
    }
    let error = read_goal("t.goal", &mut BufReader::new(Endless(0))).unwrap_err();
    assert_eq!(error.line, 20_000_003);
    assert!(error.problem.starts_with("that is more than 20000000 tasks; use a shorter trace"), "{error}");
}

/// A node in the JSON of `chakra_jsonizer`.
fn node(id: u64, kind: &str, more: &str) -> String {
    format!("{{\"id\": \"{id}\", \"type\": \"{kind}\"{more}}}")
}

fn attributes(pairs: &[(&str, u64)]) -> String {
    let pair = |(name, value): &(&str, u64)| format!("{{\"name\": \"{name}\", \"int64Val\": \"{value}\"}}");
    format!(", \"attr\": [{}]", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
}

fn json(ranks: &[String]) -> Result<TaskTrace, ImportError> {
    chakra("json", &ranks.iter().map(|nodes| format!("{{}}{nodes}").into_bytes()).collect::<Vec<_>>())
}

#[test]
fn messages_groups_and_barriers_of_chakra_are_read() {
    let collective = |id, kind: u64, group: &str| {
        let attributes = attributes(&[("comm_type", kind), ("comm_size", 100)]);
        let name = format!(", {{\"name\": \"pg_name\", \"stringVal\": \"{group}\"}}]");
        node(id, "COMM_COLL_NODE", &attributes.replace(']', &name))
    };
    let send = node(1, "COMM_SEND_NODE", &attributes(&[("comm_dst", 1), ("comm_size", 70), ("comm_tag", 4)]));
    let receipt = node(1, "COMM_RECV_NODE", &attributes(&[("comm_src", 0), ("comm_tag", 4)]));
    let wait = node(9, "METADATA_NODE", ", \"ctrlDeps\": [\"1\", \"2\"]");
    let rank = |own: &str, kind, group| format!("{own}{}{wait}{}", collective(2, kind, group), collective(3, 9, "all"));
    let list = flows(
        &json(&[rank(&send, 2, "a"), rank(&receipt, 2, "a"), rank(&node(1, "MEM_LOAD_NODE", ""), 6, "b")]).unwrap(),
        3,
    );
    // All-gather of two ranks with 100 bytes each; the third one is alone in its group.
    assert_eq!(pairs(&list), [(0, 1, 70), (0, 1, 100), (1, 0, 100)]);
    let groups: Vec<u32> = list.flows.iter().map(|flow| flow.group).collect();
    assert_eq!(groups, [1, 2, 2]);
}

#[test]
fn chakra_traces_are_refused_with_place_and_reason() {
    let both = |nodes: &str| json(&[nodes.to_owned(), nodes.to_owned()]).unwrap_err().to_string();
    let reduce = |kind| node(3, "COMM_COLL_NODE", &attributes(&[("comm_type", kind), ("comm_size", 9)]));
    for (nodes, expected) in [
        (node(3, "COMM_FOO_NODE", ""), "1: `COMM_FOO_NODE` is unknown here; expected METADATA_NODE, ..."),
        (node(3, "INVALID_NODE", ""), "1: node 3: `INVALID_NODE` is unknown here; expected METADATA_NODE, ..."),
        (
            node(3, "COMP_NODE", ", \"durationMicros\": \"99999999999999\""),
            "1: node 3: duration `99999999999999` is not at most...",
        ),
        (node(3, "COMP_NODE", ", \"durationMicros\": -1"), "1: durationMicros `-1` is not a whole number in range"),
        (
            node(3, "COMP_NODE", ", \"dataDeps\": [7]"),
            "1: node 3: it waits for node 7, which is not in the file; add the node or remove the dependency",
        ),
        (node(3, "COMP_NODE", "") + &node(3, "COMP_NODE", ""), "1: node 3 is there twice"),
        (
            node(3, "COMP_NODE", ", \"dataDeps\": [3]") + &reduce(0).replace('3', "4"),
            "1: node 3: it waits, directly or...",
        ),
        (reduce(1), "1: node 3: `REDUCE` is unknown here; expected ALL_REDUCE, ALL_GATHER, BROADCAST, ..."),
        (node(3, "COMM_COLL_NODE", ""), "1: node 3: attribute `comm_type` is missing"),
        (node(3, "COMM_SEND_NODE", &attributes(&[("comm_dst", 1)])), "1: node 3: attribute `comm_size` is missing"),
        (
            node(3, "COMM_RECV_NODE", &attributes(&[("comm_dst", 1)])),
            "1: node 3: comm_dst 1 is not 0, the rank of this file;...",
        ),
        ("\n{".into(), "2: is not valid JSON: EOF while parsing an object at line 2 column 1"),
        ("[".repeat(1000), "1: is not valid JSON: recursion limit exceeded..."),
        ("5".into(), "1: is not an object; write the objects of chakra_jsonizer in a row"),
    ] {
        let (found, expected) = (both(&nodes), format!("t.0.json:{expected}"));
        let is_right = expected.strip_suffix("...").map_or(found == expected, |begin| found.starts_with(begin));
        assert!(is_right, "{found}\nnot {expected}");
    }
    let twice = reduce(0) + &reduce(0).replace('3', "4");
    let error = json(&[reduce(0), twice]).unwrap_err().to_string();
    let counts = "rank 1 has 2 collectives of this group, but rank 0 has 1; every rank must take part in all";
    assert_eq!(error, format!("t.1.json:1: node 3: {counts}"));
    let error = json(&[reduce(0), reduce(7)]).unwrap_err().to_string();
    assert_eq!(
        error,
        "t.1.json:1: node 3: collective 1 of its group has another comm_type or comm_size than at rank 0"
    );
    let feeder = std::fs::read(data("chakra/feeder.0.json")).unwrap();
    assert!(chakra("json", &[feeder]).unwrap_err().problem.starts_with("this is the JSON of Chakra's feeder"));
    for (bytes, expected) in [
        (&b""[..], "byte 0: the file is empty"),
        (
            &[0x1f, 0x8b, 8][..],
            "byte 0: the file is compressed by gzip, which is not read; decompress it with `gunzip`",
        ),
        (&[0, 5, 1][..], "byte 1: the file ends within a message; it is incomplete"),
        (&[0, 0x80][..], "byte 1: the file ends within a message; it is incomplete"),
        (&[0xff; 11][..], "byte 0: a length has more than 10 bytes"),
        // A length of 2^60.
        (
            &[0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10][..],
            "byte 1: a message of 1152921504606846976 bytes is above the limit of 16777216; is this a Chakra trace?",
        ),
        (&[0, 2, 0x52, 9][..], "byte 1: a field of 9 bytes is longer than its message"),
        (&[0, 2, 0x0b, 9][..], "byte 1: wire type 3 of field 1 is unknown; is this a Chakra trace?"),
        (&[0, 2, 0x18, 9][..], "byte 1: node 0: `type 9` is unknown here; expected METADATA_NODE, MEM_LOAD_NODE, ..."),
    ] {
        let found = chakra("et", &[bytes.to_vec()]).unwrap_err().to_string();
        let expected = format!("t.0.et: {expected}");
        let is_right = expected.strip_suffix("...").map_or(found == expected, |begin| found.starts_with(begin));
        assert!(is_right, "{found}\nnot {expected}");
    }
}

/// Reads damaged bytes in every format; a list that comes of them is in range.
fn read_all(bytes: &[u8]) {
    let others = |format: &str| sample(format)[1..].to_vec();
    for trace in [
        read_goal("t.goal", &mut Cursor::new(bytes)),
        chakra("et", &[&[bytes.to_vec()][..], &others("et")].concat()),
        chakra("json", &[&[bytes.to_vec()][..], &others("json")].concat()),
    ]
    .into_iter()
    .flatten()
    {
        if let Ok(list) = trace.flows(&hosts(8), &TaskOptions::default(), 1) {
            assert!(list.flows.iter().all(|flow| flow.src != flow.dst && flow.size_bytes > 0));
        }
    }
}

#[test]
fn files_cut_at_every_byte_do_not_panic() {
    for whole in [SMALL.as_bytes(), &sample("et")[0], &sample("json")[0]] {
        (0..whole.len()).for_each(|end| read_all(&whole[..end]));
    }
}

proptest! {
    #[test]
    fn changed_bytes_do_not_panic(
        which in 0..3usize,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = [SMALL.as_bytes().to_vec(), sample("et").remove(0), sample("json").remove(0)][which].clone();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        read_all(&bytes);
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }

    #[test]
    fn random_statements_do_not_panic(text in "((a|b)(: | requires | irequires )|calc 3|send 1b to 1|a|b|\n){0,40}") {
        read_all(format!("num_ranks 2\nrank 0 {{\n{text}\n}}\nrank 1 {{\nrecv 1b from 0\n}}\n").as_bytes());
    }
}

fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1000
}

/// A ring all-reduce of 1024 ranks in 200 MB of text; run it alone, in a release build.
#[test]
#[ignore = "writes 200 MB; a measurement"]
fn a_large_file_takes_the_memory_of_its_graph() {
    let path = std::env::temp_dir().join(format!("anabranch-{}.goal", std::process::id()));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    let ranks = 1024;
    writeln!(file, "num_ranks {ranks}").unwrap();
    for rank in 0..ranks {
        writeln!(file, "rank {rank} {{").unwrap();
        for step in 0..1480 {
            let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            writeln!(file, "s{step}: send 1048576b to {next} tag {step} cpu 0 nic 0").unwrap();
            writeln!(file, "r{step}: recv 1048576b from {last} tag {step} cpu 0 nic 0").unwrap();
            writeln!(file, "c{step}: calc 20000 cpu 0\nc{step} requires r{step}").unwrap();
            if step > 0 {
                writeln!(file, "s{step} requires c{}", step - 1).unwrap();
            }
        }
        writeln!(file, "}}").unwrap();
    }
    file.flush().unwrap();
    let megabytes = std::fs::metadata(&path).unwrap().len() as f64 / 1e6;
    let begin = std::time::Instant::now();
    let trace = read_goal("large.goal", &mut BufReader::new(std::fs::File::open(&path).unwrap()));
    let seconds = begin.elapsed().as_secs_f64();
    std::fs::remove_file(&path).unwrap();
    let described = trace.unwrap().describe(&TaskOptions::default());
    println!(
        "{megabytes:.0} MB in {seconds:.2} s: {:.0} MB/s, peak {} MB; {described}",
        megabytes / seconds,
        peak_mb()
    );
    assert!(peak_mb() < 700, "{} MB", peak_mb());
}
