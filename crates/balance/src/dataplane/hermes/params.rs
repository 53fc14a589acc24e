//! Parameters of Hermes, with the paper's and the authors' values.

use crate::params::{Param, ParamKind};

const fn time(name: &'static str, default: &'static str, doc: &'static str) -> Param {
    Param { name, kind: ParamKind::Scaled, default, unit: "", doc }
}

const fn share(name: &'static str, default: &'static str, unit: &'static str, doc: &'static str) -> Param {
    Param { name, kind: ParamKind::Number { min: 0.0, max: 1.0 }, default, unit, doc }
}

/// All of them.
pub(super) const PARAMS: &[Param] = &[
    Param {
        name: "signal",
        kind: ParamKind::Choice(&["rtt", "one-way"]),
        default: "rtt",
        unit: "",
        doc: "What is measured: round trips, or one-way delays by perfect clocks.",
    },
    Param {
        name: "ecn",
        kind: ParamKind::Choice(&["auto", "on", "off"]),
        default: "auto",
        unit: "",
        doc: "Whether marks count: always, never, or from the first one seen.",
    },
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
    Param {
        name: "min_sent",
        kind: ParamKind::Count { min: 0, max: 1 << 40 },
        default: "600000",
        unit: "bytes",
        doc: "A flow is moved off a congested path only after it has sent more than this (S); published: 100-800 KB.",
    },
    share(
        "max_rate",
        "0.3",
        "host links",
        "And only while it is slower than this share of a host link (R); published: 20-40 %.",
    ),
    time(
        "t_dre",
        "0.375rtt",
        "Time between two decays of the rate estimators; published: 30us at a base RTT of 80 us.",
    ),
    Param {
        name: "alpha",
        kind: ParamKind::Number { min: 0.001, max: 1.0 },
        default: "0.2",
        unit: "",
        doc: "Share the rate estimators forget at each decay.",
    },
    time("probe", "6.25rtt", "Interval of probes to each edge; published: 100-500us at a base RTT of 80 us."),
    Param {
        name: "probes",
        kind: ParamKind::Count { min: 0, max: 8 },
        default: "2",
        unit: "",
        doc: "Random paths probed each interval, besides the best one remembered; 0 for no probing.",
    },
    Param {
        name: "probe_bytes",
        kind: ParamKind::Count { min: 40, max: 1500 },
        default: "64",
        unit: "bytes",
        doc: "Size of a probe and of its answer.",
    },
    time(
        "probe_timeout",
        "25rtt",
        "A probe not answered within this is lost; 2ms at a base RTT of 80 us (not published).",
    ),
    Param {
        name: "timeouts",
        kind: ParamKind::Count { min: 0, max: 1000 },
        default: "3",
        unit: "",
        doc: "More timeouts than this of a pair on a path, with nothing acknowledged, are a blackhole.",
    },
    Param {
        name: "duplicates",
        kind: ParamKind::Choice(&["count", "ignore"]),
        default: "count",
        unit: "",
        doc: "Data that arrives twice: counts as a timeout of the path its acknowledgements took (not published), or is ignored.",
    },
    Param {
        name: "retx",
        kind: ParamKind::Number { min: 1e-4, max: 1.0 },
        default: "0.01",
        unit: "",
        doc: "Share of packets sent again above which a path that is not congested drops at random.",
    },
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
        "Part of the way that averages of an idle path drift back each tick; authors' code: 1 %, 0 for never.",
    ),
    time("drift_tick", "0.75rtt", "Time between two such ticks; authors' code: 60us at a base RTT of 80 us."),
];
