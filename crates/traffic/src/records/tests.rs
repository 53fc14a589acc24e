use super::*;
use net::random::RandomStream;

const FOLDERS: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/records/"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/operators/flows/"),
];

fn text(name: &str) -> String {
    let read = |folder: &&str| std::fs::read_to_string(format!("{folder}{name}")).ok();
    FOLDERS.iter().find_map(read).unwrap_or_else(|| panic!("{name} is in no folder"))
}

/// Rows of a CSV file by the names of its header.
fn rows(name: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let text = text(name);
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        header.iter().zip(line.split(',')).map(|(name, value)| ((*name).to_owned(), value.to_owned())).collect()
    };
    lines.map(row).collect()
}

/// A flow that was sent: both directions, whose acknowledgements are flows of headers.
struct Sent {
    ends: (IpAddr, IpAddr),
    ports: (u16, u16),
    size: f64,
    packets: f64,
    acknowledgements: f64,
}

fn truth() -> Vec<Sent> {
    let details = rows("truth_details.csv");
    let sent =
        |(flow, more): (std::collections::BTreeMap<String, String>, &std::collections::BTreeMap<String, String>)| {
            assert_eq!(flow["id"], more["id"]);
            Sent {
                ends: (more["src_ip"].parse().unwrap(), more["dst_ip"].parse().unwrap()),
                ports: (more["src_port"].parse().unwrap(), more["dst_port"].parse().unwrap()),
                size: flow["size_bytes"].parse().unwrap(),
                packets: more["packets"].parse().unwrap(),
                acknowledgements: more["ack_packets"].parse().unwrap(),
            }
        };
    rows("truth_flows.csv").into_iter().zip(&details).map(sent).collect()
}

/// Bytes of IP packets of both directions: 52 bytes of headers, and 8 more in the first.
fn true_ip_bytes(flows: &[Sent]) -> f64 {
    flows.iter().map(|flow| flow.size + 52.0 * (flow.packets + flow.acknowledgements) + 16.0).sum()
}

fn edges() -> Edges {
    let faces_host = |port: &std::collections::BTreeMap<String, String>| port["peer"].starts_with("srv");
    let edge = |port: std::collections::BTreeMap<String, String>| {
        (port["agent"].parse().unwrap(), port["ifindex"].parse().unwrap())
    };
    rows("ports.csv").into_iter().filter(faces_host).map(edge).collect()
}

/// The rack of an address is its third byte.
fn rack(address: IpAddr) -> Option<String> {
    let IpAddr::V4(address) = address else { return None };
    Some(format!("rack{}", address.octets()[2]))
}

fn read(name: &str) -> Records {
    read_records(name, &text(name), None).unwrap()
}

#[test]
fn formats_give_the_volume_within_their_intervals() {
    let (flows, edges) = (truth(), edges());
    let bytes = true_ip_bytes(&flows);
    let payload: f64 = flows.iter().map(|flow| flow.size).sum();
    for name in ["sflow.csv", "nfdump.csv"] {
        let found = estimate(&read(name).records, Some(&edges), &rack);
        assert!(found.ip_bytes.contains(bytes), "{name}: {:?} of {bytes}", found.ip_bytes);
        assert!(found.payload_bytes.contains(payload), "{name}: {:?} of {payload}", found.payload_bytes);
        // Without the ports a packet would count at every switch; the largest exporter is nearer.
        let without = estimate(&read(name).records, None, &rack);
        assert!((0.8..1.3).contains(&(without.ip_bytes.value / bytes)), "{name}: {}", without.ip_bytes.value / bytes);
        assert!(without.warnings.iter().any(|warning| warning.contains("6 exporters")));
        let naive: f64 = read(name).records.iter().map(|record| record.ip_bytes).sum();
        assert!(naive > 1.8 * bytes, "{name}");
    }
}

#[test]
fn other_formats_are_read_whole() {
    let (default, old) = (read("nfdump-default-leaf0.csv"), read("nfdump-1.7.3-leaf0-unscaled.csv"));
    assert_eq!((default.records.len(), default.records[0].sampling), (383, 1000));
    // The totals after `Summary` are no records.
    assert_eq!((old.records.len(), old.records[0].sampling), (383, 1));
    let multiplied = read_records("old", &text("nfdump-1.7.3-leaf0-unscaled.csv"), Some(1000)).unwrap();
    assert_eq!(multiplied.records[0].packets, default.records[0].packets);
    let close = |a: Option<(f64, f64)>, b: Option<(f64, f64)>| (a.unwrap().0 - b.unwrap().0).abs() < 1e-3;
    assert!(close(old.records[0].time_s, default.records[0].time_s));
    let (goflow, sflow) = (read("goflow2.jsonl"), read("sflow.jsonl"));
    assert_eq!((goflow.records.len(), goflow.records[0].packets, goflow.records[0].sampling), (200, 1000.0, 1000));
    let (lines, records) = (read("sflow.csv").records, &sflow.records);
    assert!(
        records.len() >= 40 && records.iter().zip(&lines).all(|(a, b)| a.ip_bytes == b.ip_bytes && a.opens == b.opens)
    );
    let zeek = read("conn.log");
    let cut = zeek.warnings.iter().find(|warning| warning.contains("their sizes are too small"));
    assert!(zeek.records.len() > 300 && cut.is_some(), "{:?}", zeek.warnings);
    let vpc = read("vpc-flow.log");
    assert!(vpc.records.len() > 100 && vpc.warnings[0].contains("NODATA"), "{:?}", vpc.warnings);
}

/// Draws samples of one packet in `sampling` where packets enter the network.
fn sampled(flows: &[Sent], sampling: u32, random: &mut RandomStream) -> Vec<Record> {
    let mut records = Vec::new();
    let rate = f64::from(sampling);
    for flow in flows {
        let reverse = ((flow.ends.1, flow.ends.0), (flow.ports.1, flow.ports.0));
        for ((ends, ports), packets, payload, opens) in
            [((flow.ends, flow.ports), flow.packets, flow.size, true), (reverse, flow.acknowledgements, 0.0, false)]
        {
            // Gaps between samples are geometric.
            let gap = |random: &mut RandomStream| ((1.0 - random.next_f64()).ln() / (1.0 - 1.0 / rate).ln()).floor();
            let mut at = gap(random);
            while at < packets {
                // The first packet opens the connection, the others share the payload.
                let size = if at == 0.0 { 8.0 } else { payload / (packets - 1.0).max(1.0) };
                records.push(Record {
                    source: ends.0,
                    destination: ends.1,
                    ports,
                    packets: rate,
                    ip_bytes: (size + 52.0) * rate,
                    payload_bytes: None,
                    sampling,
                    time_s: None,
                    seen_at: None,
                    opens: opens && at == 0.0,
                });
                at += 1.0 + gap(random);
            }
        }
    }
    records
}

/// Of 100 samplings at 1:1000 the 95 % intervals contain the truth in at least 90.
#[test]
fn intervals_contain_the_truth_of_resampled_traffic() {
    let flows = truth();
    let payload: f64 = flows.iter().map(|flow| flow.size).sum();
    let mut pairs: std::collections::BTreeMap<(String, String), f64> = std::collections::BTreeMap::new();
    for flow in &flows {
        *pairs.entry((rack(flow.ends.0).unwrap(), rack(flow.ends.1).unwrap())).or_default() += flow.size;
    }
    let mut random = RandomStream::new(1, "sampling");
    let (mut hits, mut of_pairs, mut seen_pairs) = ([0; 4], 0, 0);
    for _ in 0..100 {
        let found = estimate(&sampled(&flows, 1000, &mut random), None, &rack);
        let mean = payload / flows.len() as f64;
        let truths = [
            found.payload_bytes.contains(payload),
            found.ip_bytes.contains(true_ip_bytes(&flows)),
            found.flows.is_some_and(|count| count.contains(flows.len() as f64)),
            found.mean_size.is_some_and(|size| size.contains(mean)),
        ];
        hits.iter_mut().zip(truths).for_each(|(hits, is_hit)| *hits += usize::from(is_hit));
        for (pair, truth) in &pairs {
            of_pairs += usize::from(found.pairs.get(pair).is_some_and(|estimate| estimate.contains(*truth)));
            seen_pairs += 1;
        }
    }
    let share = 100.0 * of_pairs as f64 / seen_pairs as f64;
    // 98, 98, 98 and 99 of 100, and 95.4 % of the entries.
    assert!(hits.iter().all(|hits| *hits >= 90) && share >= 90.0, "{hits:?} {share}");
}

#[test]
fn wrong_files_are_errors_with_a_line() {
    let error = |text: &str| read_records("a.csv", text, None).unwrap_err().to_string();
    for (text, expected) in [
        ("", "a.csv:1: this is none of"),
        ("FLOW,1,2", "a.csv:1: a FLOW line has 20 fields, not 3"),
        ("srcAddr,dstAddr,packets\n", "the column `bytes` is missing"),
        ("srcAddr,dstAddr,packets,bytes\n10.0.0.1,x,1,1", "a.csv:2: the destination `x` is not understood"),
        ("srcAddr,dstAddr,packets,bytes\n10.0.0.1,10.0.0.2,-1,1", "a.csv:2: packets `-1` is out of range"),
        ("{\"a\": 1}", "a.csv:1: is neither a datagram"),
        ("{", "a.csv:1: is not valid JSON"),
        ("#fields\tts\n1", "a.csv:2: `id.orig_h` is missing"),
        ("version account-id\n2 3", "a.csv:2: `start` is missing"),
    ] {
        let found = error(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn damaged_files_never_panic() {
    let mut random = RandomStream::new(1, "damage");
    for name in ["nfdump-default-leaf0.csv", "sflow.jsonl", "goflow2.jsonl", "conn.log", "vpc-flow.log", "sflow.csv"] {
        let whole = text(name);
        for _ in 0..40 {
            let mut bytes = whole.as_bytes()[..whole.len().min(6000)].to_vec();
            let at = random.next_below(bytes.len() as u64) as usize;
            match random.next_below(3) {
                0 => bytes.truncate(at),
                1 => bytes[at] = (random.next_below(95) + 32) as u8,
                _ => drop(bytes.splice(at..(at + 30).min(bytes.len()), b"-99999999999999999999".iter().copied())),
            }
            if let Ok(found) = read_records(name, &String::from_utf8_lossy(&bytes), None) {
                estimate(&found.records, None, &rack);
            }
        }
    }
}
