use super::tests::{assert_rejected, parse};
use super::*;
use crate::testing::{SMALL as GOOD, read_small as with};

fn failing(texts: &[&str]) -> Result<Experiment, FileError> {
    let overrides: Vec<Override> =
        texts.iter().map(|text| Override::text("failure", text, format!("--failure {text}"))).collect();
    let text = GOOD.replace("leaves=2,spines=2", "leaves=8,spines=8");
    Experiment::parse("good.toml", &text, "stem", Path::new("."), &overrides)
}

fn failures(experiment: &Experiment) -> &[sim::Failure] {
    &experiment.variants[0].config.failures
}

fn failures_text(experiment: &Experiment) -> String {
    let setting = experiment.setting();
    setting.into_iter().find(|(name, _)| name == "failures").map(|(_, text)| text).unwrap_or_default()
}

#[test]
fn failure_texts_equal_failure_tables() {
    let experiment = failing(&[
        "link-down:leaf0->spine1,at=1ms,until=2ms,detection_delay=5us",
        "link-rate: leaf0 -> spine1 , fraction=0.2",
        "random-drop:switch=spine0,probability=0.02",
        "random-drop:spine1,probability=0.02",
        "random-drop:leaf2->spine0,probability=1e-3",
        "blackhole:spine0,fraction=0.5",
        "blackhole:spine1,fraction=0.5,from_rack=0,to_rack=7",
        "switch-down:spine0",
    ])
    .unwrap();
    assert_eq!(
        failures_text(&experiment),
        "leaf0 -> spine1: down from 1ms until 2ms, detected after 5us; \
         leaf0 -> spine1: at 0.2 of its rate from 0ps, detected after 10ms; \
         spine0, spine1: loses 0.02 of its packets from 0ps, unseen by routing; \
         leaf2 -> spine0: loses 0.001 of its packets from 0ps, unseen by routing; \
         spine0: loses 0.5 of the pairs from 0ps, unseen by routing; \
         spine1: loses 0.5 of the pairs from rack 0 to rack 7 from 0ps, unseen by routing; spine0: down from 0ps, detected after 10ms"
    );
    // The file kept with the results has the same failures, and so has one with tables.
    let again = parse(&experiment.file).unwrap();
    assert_eq!(failures(&again), failures(&experiment));
    assert_eq!(again.variants[0].canonical, experiment.variants[0].canonical);
    let table = format!(
        "{}[[failure]]\nkind = \"link-rate\"\nlink = \"leaf0 -> spine1\"\nfraction = 0.2\n",
        GOOD.replace("leaves=2,spines=2", "leaves=8,spines=8")
    );
    assert_eq!(failures(&parse(&table).unwrap()), &failures(&experiment)[1..2]);
    let swept = with(&[("sweep.failure", "[[], [\"switch-down:spine0\"], \"link-down:any\"]")]).unwrap();
    assert_eq!(swept.variants[1].label, "failure=[\"switch-down:spine0\"]");
    assert_eq!(swept.variants.iter().map(|variant| variant.config.failures.len()).collect::<Vec<_>>(), [0, 1, 1]);
}

#[test]
fn drawn_targets_depend_only_on_pick() {
    let of = |texts: &[&str]| failures(&failing(texts).unwrap()).to_vec();
    let fifth = of(&["link-rate:20%,fraction=0.2"]);
    // 64 cables between leaves and spines; 12.8 of them is 13.
    assert_eq!(fifth.len(), 13);
    assert_eq!(of(&["link-rate:20%,fraction=0.2"]), fifth);
    assert_eq!(of(&["link-rate:20%,fraction=0.2,selection_seed=1"]), fifth);
    assert_ne!(of(&["link-rate:20%,fraction=0.2,selection_seed=2"]), fifth);
    let half = of(&["link-rate:50%,fraction=0.2"]);
    assert!(fifth.iter().all(|failure| half.contains(failure)), "a greater share of a draw holds the lesser");
    assert!(failures_text(&failing(&["link-rate:20%,fraction=0.2"]).unwrap()).contains("… (13 in all): at 0.2"));
    let topology = failing(&["link-down:any"]).unwrap().variants[0].topology.clone();
    for pick in 0..50 {
        let [sim::Failure { kind: sim::FailureKind::LinkDown(link), .. }] =
            of(&[&format!("link-down:any,selection_seed={pick}")])[..]
        else {
            panic!("one link")
        };
        assert!(!topology.is_host_link(link) && topology.is_upward(link));
        let [sim::Failure { kind: sim::FailureKind::SwitchDown(node), .. }] =
            of(&[&format!("switch-down:any,selection_seed={pick}")])[..]
        else {
            panic!("one switch")
        };
        assert!(topology.node(node).name.starts_with("spine"));
    }
    // Several failures draw independently by default.
    let two = of(&["switch-down:any", "switch-down:any"]);
    assert_eq!(two[1], of(&["switch-down:any,selection_seed=2"])[0]);
    assert_eq!(of(&["switch-down:25%"]).len(), 2);
    // In a fat tree a share is of the cables between edge and aggregation.
    let tree = with(&[("topology.spec", "fat-tree:k=4"), ("failure", "[\"link-rate:100%,fraction=0.5\"]")]).unwrap();
    assert_eq!(failures(&tree).len(), 16);
}

#[test]
fn failure_errors_name_the_option_and_suggest_names() {
    for (text, message, hint) in [
        ("link-don:any", "--failure link-don:any: failure.0.kind: `link-don` is not possible", "`link-down`?"),
        ("link-down", "failure.0.link: is missing", "`link-down` needs link"),
        ("random-drop:probability=0.1", "failure.0.link: is missing", "needs link or switch"),
        ("link-down:leaf0->spine9", "failure.0.link: topology", "did you mean `spine0`?"),
        ("link-down:leaf0->leaf1", "failure.0.link: unknown link `leaf0->leaf1`", "`leaf0` has links to"),
        ("link-down:leaf0", "failure.0.link: `leaf0` is not a valid link", "a share of all such as 20%"),
        ("link-down:0%", "failure.0.link: `0%` is not a share", ""),
        ("link-down:x%", "failure.0.link: `x%` is not a share", ""),
        ("link-down:101%", "failure.0.link: `101%` is not a share", ""),
        ("link-down:any,selection_seed=-1", "failure.0.selection_seed: -1 is not 0 or more", ""),
        (
            "link-down:leaf0->spine1,selection_seed=1",
            "failure.0.selection_seed: belongs to link = \"any\"",
            "leave it out",
        ),
        ("link-rate:any", "failure.0.fraction: is missing", "`link-rate` needs it"),
        ("link-rate:any,fraction=2", "failure.0.fraction: 2 is not above 0 and at most 1", ""),
        ("link-down:any,fraction=0.2", "failure.0.fraction: does not belong to `link-down`", ""),
        ("link-down:switch=spine0", "failure.0.switch: does not belong to `link-down`", ""),
        ("random-drop:any,switch=spine0,probability=0.1", "failure.0.switch: cannot go with `link`", ""),
        ("blackhole:spin0,fraction=0.5", "failure.0.switch: topology", "did you mean `spine0`?"),
        ("blackhole:spine0,fraction=0.5,from_rack=0", "failure.0.to_rack: is missing", ""),
        (
            "blackhole:spine0,fraction=0.5,from_rack=0,to_rack=8",
            "failure.0.to_rack: unknown rack 8; the topology has racks 0 to 7",
            "",
        ),
        ("switch-down:spine0,from_rack=0", "failure.0.from_rack: does not belong", ""),
        ("switch-down:h0", "failure.0.switch: ", ""),
        ("link-down:any,until=1ms,at=2ms", "failure.0.until: must be later", ""),
        ("link-down:any,at=5", "failure.0.at: 5 has no unit", ""),
        ("link-down:any,atd=5ms", "failure.0.atd: there is no such key", "did you mean `at`?"),
        ("link-down:any,at=1ms,at=2ms", "`at` is given twice", ""),
        ("link-down:any,later", "`later` is not of the form key=value", "write a failure as"),
        ("link-down:any,", "`` is not of the form key=value", ""),
    ] {
        let error = assert_rejected(failing(&[text]), text, message, hint);
        assert!(error.starts_with(&format!("--failure {text}: ")), "{error}");
    }
    assert_rejected(with(&[("failure", "3")]), "number", "failure: must be a list of tables", "");
    let star = with(&[("topology.spec", "single-switch"), ("failure", "[\"switch-down:any\"]")]);
    assert_rejected(star, "star", "every switch of topology", "");
}

proptest::proptest! {
    #[test]
    fn no_failure_text_panics(text in "(link-down|link-rate|random-drop|blackhole|switch-down)?[:,=%>a-z0-9. -]{0,40}") {
        let _ = failing(&[&text]);
    }
}
