//! Parameters of Hermes, with the values of the paper and of the authors' code.

use crate::params::Param;

const fn time(name: &'static str, default: &'static str, doc: &'static str) -> Param {
    Param::scaled(name, default).doc(doc)
}

const fn share(name: &'static str, default: &'static str, unit: &'static str, doc: &'static str) -> Param {
    Param::number(name, 0.0..=1.0, default).unit(unit).doc(doc)
}

/// All parameters, in the order of `anabranch list`.
pub(super) const PARAMS: &[Param] = &[
    Param::choice("signal", &["rtt", "one-way"], "rtt")
        .doc("The measured quantity: round trips, or one-way delays by perfect clocks."),
    Param::choice("ecn", &["auto", "on", "off"], "auto")
        .doc("Whether marks count: always, never, or from the first one seen."),
    time("good", "0.5hop", "A path is good below the base RTT plus this; published: 20-40us at a hop delay of 80 us."),
    time("congested", "1.5hop", "And congested above the base RTT plus this; published: 1.5 hop delays, 120us."),
    time("better", "1hop", "RTT by which a notably better path is faster (D_rtt); published: one hop delay, 80us."),
    share("ecn_share", "0.4", "", "Share of marks between good and congested (T_ecn)."),
    share(
        "ecn_better",
        "0.05",
        "",
        "Share of marks by which a notably better path has fewer (D_ecn); published: 3-10 %.",
    ),
    Param::count("min_sent", 0..=1 << 40, "600000")
        .unit("bytes")
        .doc("Bytes a flow must have sent before it may leave a congested path (S); published: 100-800 KB."),
    share(
        "max_rate",
        "0.3",
        "host links",
        "A flow leaves a congested path only while slower than this share of a host link (R); published: 20-40 %.",
    ),
    time(
        "t_dre",
        "0.375rtt",
        "Time between two decays of the rate estimators; published: 30us at a base RTT of 80 us.",
    ),
    Param::number("alpha", 0.001..=1.0, "0.2").doc("Share the rate estimators forget at each decay."),
    time("probe", "6.25rtt", "Interval of probes to each edge; published: 100-500us at a base RTT of 80 us."),
    Param::count("probes", 0..=8, "2")
        .doc("Random paths probed each interval, in addition to the best one so far; 0 for no probing."),
    Param::count("probe_bytes", 40..=1500, "64").unit("bytes").doc("Size of a probe and of its reply."),
    time(
        "probe_timeout",
        "25rtt",
        "A probe without a reply within this time is lost; 2ms at a base RTT of 80 us (not published).",
    ),
    Param::count("timeouts", 0..=1000, "3")
        .doc("A path is a blackhole for a pair after more than this number of timeouts without any acknowledgement."),
    Param::choice("duplicates", &["count", "ignore"], "count").doc(
        "Whether data that arrives twice counts as a timeout of the path of its acknowledgements (not published).",
    ),
    Param::number("retx", 1e-4..=1.0, "0.01")
        .doc("Share of retransmitted packets above which an uncongested path is considered to drop at random."),
    time("retx_window", "125rtt", "Time over which that share is taken; published: 10ms at a base RTT of 80 us."),
    time("failed_for", "12500rtt", "How long a failed path is avoided; 1 s at a base RTT of 80 us (not published)."),
    time(
        "wait",
        "1.25rtt",
        "After a move is rejected a flow waits this long; authors' code: 100us at a base RTT of 80 us.",
    ),
    share(
        "probability",
        "0.5",
        "",
        "Chance that a move off a congested path is made; authors' code: 0.5, the paper: 1.",
    ),
    share(
        "drift",
        "0.01",
        "",
        "Share of the difference by which averages of an idle path drift back each tick; authors' code: 1 %; 0: never.",
    ),
    time("drift_tick", "0.75rtt", "Time between two such ticks; authors' code: 60us at a base RTT of 80 us."),
];
