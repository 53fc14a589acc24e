//! Queues, load and packets of chosen links.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::support::{NEVER, experiment, options};
use anabranch_experiment::store::Store;
use anabranch_experiment::summary::Summary;
use anabranch_experiment::{Options, run};

const FILE: &str = r#"
seeds = 1
balancers = ["ecmp", "sdn-ecmp"]
topology = { spec = "leaf-spine:leaves=2,spines=1,hosts_per_leaf=4" }
traffic = { workload = "fixed:size=100KB", load = 0.6, flows = 40, pattern = "inter-rack" }
transport = { handshake = true }

[probes]
links = ["leaf0 -> spine0"]
capture = ["h0 -> leaf0", "leaf0 -> spine0"]
"#;

fn run_in(folder: &Path, overrides: &[(&str, &str)]) -> Summary {
    let experiment = experiment(FILE, overrides).unwrap_or_else(|error| panic!("{error}"));
    let options = Options { flows: false, ..options(folder, 1) };
    run(&experiment, &options, &(), &NEVER).unwrap()
}

#[test]
fn series_of_a_chosen_link_has_its_queue_and_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    run_in(folder.path(), &[]);
    let records = Store::open(folder.path()).records().unwrap();
    for record in &records {
        let [link] = &record.detail.links[..] else { panic!("one link is chosen") };
        assert_eq!(link.name, "leaf0 -> spine0");
        assert_eq!(link.queue_max_bytes.len(), link.carried_bytes.len());
        // The fabric is oversubscribed: the queue fills.
        assert!(link.queue_max_bytes.iter().max() > Some(&10_000), "{:?}", link.queue_max_bytes);
        assert!(link.queue_max_bytes.iter().zip(&link.queue_mean_bytes).all(|(max, mean)| *mean <= f64::from(*max)));
        assert!(link.utilisation.iter().all(|share| (0.0..=1.0).contains(share)));
        assert!(link.utilisation.iter().any(|share| *share > 0.9));
        // All data of hosts of leaf 0, and more: headers, acknowledgements.
        let carried: u64 = link.carried_bytes.iter().sum();
        assert!(carried > 1_000_000 && carried < 6_000_000, "{carried}");
    }
    let parquet = fs::read(folder.path().join("series.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let report = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(report.contains("Queues of single links over time"));
    let sums = fs::read_to_string(folder.path().join("SHA256SUMS")).unwrap();
    assert!(sums.contains("series.parquet") && sums.contains("captures/ecmp-load0.6-seed1.pcapng"));
}

#[test]
fn probes_do_not_change_a_run() {
    let [with, without] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let probed = run_in(with.path(), &[]);
    let plain = run_in(without.path(), &[("probes", "{}")]);
    for (probed, plain) in probed.runs.iter().zip(&plain.runs) {
        assert_eq!((&probed.fct_us, &probed.packets), (&plain.fct_us, &plain.packets), "{}", plain.balancer);
    }
    assert!(!without.path().join("series.parquet").exists() && !without.path().join("captures").exists());
}

/// A captured packet: time in ns, interface, length of the frame, headers.
type Captured = (u64, u32, u32, Vec<u8>);

fn packets(file: &[u8]) -> Vec<Captured> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut packets) = (0, Vec::new());
    while at < file.len() {
        if word(at) == 6 {
            let ns = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
            let captured = word(at + 20) as usize;
            packets.push((ns, word(at + 8), word(at + 24), file[at + 28..at + 28 + captured].to_vec()));
        }
        at += word(at + 4) as usize;
    }
    packets
}

#[test]
fn capture_has_the_headers_of_every_packet_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let summary = run_in(folder.path(), &[]);
    let flows = summary.runs[0].flows.completed;
    for balancer in ["ecmp", "sdn-ecmp"] {
        let file = fs::read(folder.path().join(format!("captures/{balancer}-load0.6-seed1.pcapng"))).unwrap();
        let packets = packets(&file);
        assert!(packets.windows(2).all(|two| two[0].0 <= two[1].0), "in the order of time");
        let mut data: BTreeMap<(u32, Vec<u8>), (u64, u64)> = BTreeMap::new();
        let mut syns = [0, 0];
        for (_, interface, len, headers) in &packets {
            // LLDP of the controller has no IPv4 header.
            if headers[12..14] != [8, 0] {
                assert_eq!((balancer, &headers[12..14]), ("sdn-ecmp", &[0x88, 0xcc][..]));
                continue;
            }
            let ip_len = u32::from(u16::from_be_bytes([headers[16], headers[17]]));
            assert_eq!(ip_len + 14, *len);
            let flags = headers[47];
            syns[*interface as usize] += u64::from(flags & 2 != 0 && flags & 16 == 0);
            if *interface == 0 {
                assert_eq!(headers[26..30], [10, 0, 0, 1], "the link of host 0");
            }
            let payload = u64::from(ip_len - 40);
            let sequence = u64::from(u32::from_be_bytes(headers[38..42].try_into().unwrap()));
            let flow = data.entry((*interface, headers[26..38].to_vec())).or_default();
            (flow.0, flow.1) = (flow.0 + payload, flow.1.max(sequence + payload));
        }
        // Every flow of host 0 appears at its link with all its bytes.
        let of_host: Vec<_> = data.iter().filter(|((interface, _), (_, end))| *interface == 0 && *end > 2).collect();
        assert_eq!(of_host.len() as u64, syns[0], "{of_host:?}");
        assert!(of_host.iter().all(|(_, (bytes, end))| *bytes >= 100_000 && *end == 100_001), "{of_host:?}");
        assert!(syns[0] > 0 && syns[1] > syns[0] && syns[1] < flows, "{syns:?}");
    }
}

#[test]
fn wrong_links_and_combinations_are_refused() {
    for (key, value, part) in [
        ("probes.capture", "[\"leaf0 -> spine7\"]", "no node `spine7`"),
        ("probes.capture", "[\"h0 -> spine0\"]", "unknown link"),
        ("probes.links", "[\"h0\"]", "not a valid link"),
        ("probes.links", "[\"h0 -> leaf0\", \"h0->leaf0\"]", "listed twice"),
        ("probes", "{ capture_packets = 5 }", "needs links"),
    ] {
        let error = experiment(FILE, &[(key, value)]).err().unwrap_or_else(|| panic!("{key} = {value} is possible"));
        assert!(error.to_string().contains(part), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    run_in(folder.path(), &[("probes.capture_packets", "10"), ("balancers", "ecmp")]);
    let file = fs::read(folder.path().join("captures/ecmp-load0.6-seed1.pcapng")).unwrap();
    assert_eq!(packets(&file).len(), 10);
    assert!(String::from_utf8_lossy(&file).contains("further packets are left out"));
}
