//! Counts of the generator, against controllers with known replies.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{
    Behaviour, Controller, ONE, arp_reply_message, echo_packet, measure_one, rule, star, start, target,
};
use anabranch_ofload::{Load, Options, Report, ResponseCriterion, Schedule, Shape, measure};

const SHORT: Schedule = Schedule { loops: 3, warm_up: 1, duration: Duration::from_millis(200) };
fn options(controller: &Controller, load: Load) -> Options {
    star(controller, 4, 5, load)
}

fn run(options: Options, schedule: Schedule) -> Report {
    measure_one(options, schedule).expect("the controller works")
}

fn echoing() -> Controller {
    start(Behaviour::Replies(|packet, _, _| vec![echo_packet(packet)]))
}

fn assert_all_answered(report: &Report) {
    let counts = &report.counts;
    assert!(counts.answered > 100, "{counts:?}");
    assert_eq!(counts.answered, counts.packet_ins, "{counts:?}");
    let (unanswered, duplicates) = (counts.unanswered, counts.duplicates);
    assert_eq!((unanswered, duplicates, counts.unmatched, counts.errors, counts.connections_lost), (0, 0, 0, 0, 0));
}

#[test]
fn closed_loop_counts_every_response() {
    for window in [1, 64] {
        let controller = echoing();
        let report = run(options(&controller, Load::Window(window)), SHORT);
        assert_all_answered(&report);
        assert_eq!((report.loops.len(), report.counts.packet_outs), (3, report.counts.packet_ins));
        // Little's law with a full window in flight: window = rate × mean time; the median has the
        // same order of magnitude.
        let latency = report.latency.unwrap();
        assert!(latency.p50_us > 1.0 && latency.p50_us <= latency.p99_us && latency.p99_us <= latency.max_us);
        assert!(latency.max_us < 1e6 + 50e3, "{latency:?}");
        let waiting = f64::from(4 * window);
        assert!(latency.p50_us * 1e-6 * report.per_s.min < 2.0 * waiting, "{report:?}");
        assert!(report.controller_cpu_us.is_some() && report.resident_bytes.is_some());
    }
}

#[test]
fn counts_match_controller() {
    let controller = echoing();
    let report = run(options(&controller, Load::Window(8)), ONE);
    assert_eq!(controller.probes.load(Ordering::Relaxed), report.counts.packet_ins);
    assert_all_answered(&report);
}

#[test]
fn open_loop_keeps_rate() {
    let controller = echoing();
    let second = Schedule { duration: Duration::from_secs(1), ..ONE };
    let report = run(options(&controller, Load::Rate(2_000.0)), second);
    assert_all_answered(&report);
    // All packet-ins due within the loop: it ends between two of them, and a busy machine wakes
    // late.
    assert!((1_900..=2_000).contains(&report.counts.packet_ins), "{report:?}");
}

#[test]
fn open_loop_sends_packets_individually() {
    let controller = echoing();
    let shape = Shape::Star { switches: 1, hosts: 5 };
    let second = Schedule { duration: Duration::from_secs(1), ..ONE };
    let report = run(Options { shape, ..options(&controller, Load::Rate(500.0)) }, second);
    assert_all_answered(&report);
    // With one batch per tick of 10 ms, five packet-ins would arrive together.
    let reads = controller.reads.load(Ordering::Relaxed);
    assert!(2 * reads > report.counts.packet_ins, "{reads} reads brought {} packet-ins", report.counts.packet_ins);
}

#[test]
fn unanswered_packet_ins_counted() {
    // Every tenth probe of a switch is dropped.
    let controller = start(Behaviour::Replies(|packet, _, count| match count % 10 {
        0 => vec![],
        _ => vec![echo_packet(packet)],
    }));
    let response_timeout = Duration::from_millis(300);
    let report = run(Options { response_timeout, ..options(&controller, Load::Rate(1_000.0)) }, ONE);
    let counts = report.counts;
    assert_eq!(counts.answered + counts.unanswered, counts.packet_ins, "{counts:?}");
    assert!(counts.unanswered.abs_diff(counts.packet_ins / 10) <= 4, "a tenth per switch: {counts:?}");
    assert_eq!((counts.late, counts.duplicates), (0, 0));
}

#[test]
fn late_responses_count_as_unanswered() {
    let controller = start(Behaviour::Replies(|packet, _, count| {
        if count == 1 {
            std::thread::sleep(Duration::from_millis(400));
        }
        vec![echo_packet(packet)]
    }));
    let response_timeout = Duration::from_millis(100);
    let schedule = Schedule { duration: Duration::from_millis(600), ..ONE };
    let report = run(Options { response_timeout, ..options(&controller, Load::Window(1)) }, schedule);
    let counts = report.counts;
    assert!(counts.unanswered >= 4, "the first of each switch: {counts:?}");
    assert_eq!(counts.late, counts.unanswered, "all of them arrived late: {counts:?}");
}

#[test]
fn duplicates_counted_separately() {
    let controller = start(Behaviour::Replies(|packet, _, _| vec![echo_packet(packet), echo_packet(packet)]));
    let report = run(options(&controller, Load::Window(4)), ONE);
    let counts = report.counts;
    assert_eq!((counts.answered, counts.unanswered), (counts.packet_ins, 0), "{counts:?}");
    // The last duplicates may be in flight when the loop ends.
    assert!(counts.duplicates <= counts.answered && counts.duplicates + 16 >= counts.answered, "{counts:?}");
}

#[test]
fn flow_mods_match_ports_or_destination() {
    for has_ports in [true, false] {
        let controller = start(Behaviour::Replies(match has_ports {
            true => |_, headers, _| vec![rule(headers, true)],
            false => |_, headers, _| vec![rule(headers, false)],
        }));
        for applies_flow_mods in [false, true] {
            let requested = Options {
                response: ResponseCriterion::FlowMod,
                applies_flow_mods,
                ..options(&controller, Load::Window(4))
            };
            let report = run(requested, ONE);
            assert_all_answered(&report);
            assert_eq!((report.counts.flow_mods, report.counts.packet_outs), (report.counts.packet_ins, 0));
        }
    }
}

#[test]
fn arp_replies_answer() {
    let controller = start(Behaviour::Replies(|packet, headers, _| vec![arp_reply_message(packet, headers)]));
    for load in [Load::Window(1), Load::Window(20)] {
        let report = run(Options { response: ResponseCriterion::Arp, ..options(&controller, load) }, SHORT);
        assert_all_answered(&report);
    }
    // Five hosts form twenty pairs.
    let too_many = Options { response: ResponseCriterion::Arp, ..options(&controller, Load::Window(21)) };
    let error = measure_one(too_many, SHORT).unwrap_err();
    assert!(error.to_string().contains("form only 20 pairs"), "{error}");
}

#[test]
fn two_controllers_alternate_loops() {
    let fast = echoing();
    let slow = start(Behaviour::Replies(|packet, _, _| {
        std::thread::sleep(Duration::from_millis(2));
        vec![echo_packet(packet)]
    }));
    let [fast, slow] = [("fast", &fast), ("slow", &slow)].map(|(name, of)| target(name, options(of, Load::Window(1))));
    let reports = measure(vec![fast, slow], SHORT, &mut |_| {}).unwrap();
    reports.iter().for_each(assert_all_answered);
    // Four switches, each answered after 2 ms or more.
    assert!(reports[1].per_s.max < 4.0 * 500.0, "{reports:?}");
    assert!(reports[0].per_s.median > reports[1].per_s.median, "{reports:?}");
    assert!(reports[1].latency.unwrap().p50_us > 2_000.0);
    serde_json::to_string(&reports).expect("reports have a JSON form");
}

#[test]
fn fat_tree_paths_counted() {
    let controller = start(Behaviour::Replies(|packet, headers, _| vec![rule(headers, true), echo_packet(packet)]));
    let topology = net::spec::parse("fat-tree:k=4").unwrap();
    for response in [ResponseCriterion::PacketOut, ResponseCriterion::FlowMod] {
        let requested = options(&controller, Load::Window(2));
        let shape = Shape::Fabric(Box::new(topology.clone()));
        let report = run(Options { shape, response, applies_flow_mods: true, ..requested }, ONE);
        assert_all_answered(&report);
        assert_eq!(report.links.unwrap().directed, 64);
    }
}
