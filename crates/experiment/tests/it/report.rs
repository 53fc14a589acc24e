//! The report page: complete, self-contained, well-formed, and reproducible.

use crate::support::{Recipe, results};
use anabranch_experiment::report;
use anabranch_experiment::summary::{ClaimVerdict, Fault, Judgement, RunRecord, Summary, Testbed};

fn parsed(html: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(html, options).expect("the page is well-formed")
}

/// To look at the pages: ANABRANCH_REPORT_DIR=/some/dir cargo test -p anabranch-experiment --test it
fn keep(name: &str, html: &str) {
    if let Some(dir) = std::env::var_os("ANABRANCH_REPORT_DIR") {
        let path = std::path::Path::new(&dir).join(format!("{}.html", name.replace(' ', "-")));
        std::fs::write(path, html).expect("ANABRANCH_REPORT_DIR is writable");
    }
}

fn page(recipe: &Recipe) -> String {
    let (summary, records) = results(recipe);
    let html = report::html(&summary, &records);
    keep(recipe.name, &html);
    html
}

fn text_of(node: roxmltree::Node<'_, '_>) -> String {
    node.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect()
}

#[test]
fn a_sweep_has_every_section_for_every_load() {
    let html = page(&Recipe::sweep());
    let document = parsed(&html);
    let count = |class: &str| {
        document
            .descendants()
            .filter(|node| node.attribute("class").is_some_and(|c| c.split(' ').any(|c| c == class)))
            .count()
    };
    assert_eq!(count("panel"), 3);
    assert_eq!(count("verdict"), 3);
    assert_eq!(count("results"), 3);
    // Four against load (throughput is the same for all); per panel two distributions, two by size,
    // four tiers, two of queues and three heat maps.
    assert_eq!(count("plot"), 4 + 3 * (2 + 2 + 4 + 2 + 3));
    let text = text_of(document.root_element());
    for expected in
        ["anabranch run web-search-on-a-fat-tree.toml", "Seeds: 1, 2, 3.", "=\u{a0}completed", "dropped: queue"]
    {
        assert!(text.contains(expected), "{expected} is missing");
    }
    // No packet was lost to this cause: a column of zeros would only make the table wider than the
    // page.
    assert!(!text.contains("dropped: random"));
}

#[test]
fn testbed_runs_list_injected_faults() {
    let (mut summary, records) = results(&Recipe::single());
    let simulated = text_of(parsed(&report::html(&summary, &records)).root_element());
    assert!(simulated.contains("Simulated time") && !simulated.contains("Injected faults"));
    let fault =
        Fault { kind: "controller-killed <&".into(), link: None, at_us: 3.02e6, lost: 43, longest_gap_us: 55_456.8 };
    let versions = [("openvswitch".to_owned(), "3.1.0".to_owned())].into();
    let testbed = Testbed { versions, preflight_sent: 13_334, faults: vec![fault], ..Testbed::default() };
    summary.runs.iter_mut().for_each(|run| run.testbed = Some(testbed.clone()));
    let html = report::html(&summary, &records);
    let text = text_of(parsed(&html).root_element());
    for expected in
        ["controller-killed <&", "3.02\u{a0}s", "43", "55\u{a0}ms", "3.1.0", "13334 packets", "anabranch testbed run"]
    {
        assert!(text.contains(expected), "{expected} is missing");
    }
    assert!(!text.contains("Simulated time") && !text.contains("to the last digit"));
}

#[test]
fn one_load_needs_no_tabs_and_no_curves_against_load() {
    let html = page(&Recipe::single());
    let document = parsed(&html);
    assert!(!document.descendants().any(|node| node.attribute("class") == Some("tabs")));
    assert!(!text_of(document.root_element()).contains("Against load"));
}

#[test]
fn unfinished_flows_and_warnings_are_at_the_top() {
    let html = page(&Recipe::troubled());
    let document = parsed(&html);
    let answer = document.descendants().find(|node| node.attribute("class") == Some("verdicts")).expect("verdicts");
    assert!(text_of(answer).contains("hermes-rtt left 680 of 20000 flows unfinished"));
    assert!(text_of(answer).contains("Not every flow completed."));
    assert!(text_of(answer).contains("One seed only"));
    let (mut summary, records) = results(&Recipe::troubled());
    for verdict in &mut summary.verdicts {
        verdict.sentence.clear();
    }
    let html = report::html(&summary, &records);
    assert!(html.contains("Not every flow completed: hermes-rtt left 680 of 20,000 flows (3.4\u{a0}%)"));
    let header = document.descendants().find(|node| node.has_tag_name("header")).expect("header");
    assert!(text_of(header).contains("load 1.05 is 1 or more"));
}

#[test]
fn published_claims_follow_the_answer() {
    let (mut summary, records) = results(&Recipe::sweep());
    assert!(!report::html(&summary, &records).contains("id=\"claims\""));
    let claim = |id: &str, verdict, reason: Option<&str>| ClaimVerdict {
        id: id.into(),
        claim: "<b>spray</b> is best & ecmp worst".into(),
        verdict,
        sentence: "holds at 2 of 6 loads; fails at 30 %: 20.3 ms <against> 18.2 ms".into(),
        points: vec![],
        reason: reason.map(str::to_owned),
    };
    summary.claims = vec![
        claim("E1", Judgement::Holds, None),
        claim("E2", Judgement::WithinNoise, None),
        claim("E3", Judgement::Fails, Some("<i>sparse</i> \"feedback\"")),
    ];
    let html = report::html(&summary, &records);
    let document = parsed(&html);
    let section = document.descendants().find(|node| node.attribute("id") == Some("claims")).expect("the claims");
    let answer = section.prev_sibling_element().expect("a section before it");
    assert_eq!(answer.attribute("class"), Some("verdicts"));
    let text = text_of(section);
    for words in ["1 holds, 1 is within noise, 1 fails", "<b>spray</b> is best", "<i>sparse</i> \"feedback\""] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(!section.descendants().any(|node| node.has_tag_name("b") || node.has_tag_name("i")));
    let badges: Vec<String> = section.descendants().filter(|node| node.has_tag_name("span")).map(text_of).collect();
    assert_eq!(badges, ["holds", "within noise", "fails"]);
}

#[test]
fn accounting_mismatch_is_flagged() {
    let (mut summary, records) = results(&Recipe::single());
    assert!(!report::html(&summary, &records).contains("does not balance"));
    summary.runs[0].packets.delivered -= 1;
    assert!(report::html(&summary, &records).contains("does not balance"));
}

#[test]
fn the_same_results_give_the_same_page_in_any_order_of_records() {
    let (mut summary, mut records) = results(&Recipe::sweep());
    let first = report::html(&summary, &records);
    records.reverse();
    for (run, record) in summary.runs.iter_mut().zip(&mut records) {
        run.engine.wall_s *= 3.0;
        record.summary.engine.wall_s *= 2.0;
    }
    assert!(first == report::html(&summary, &records), "the page depends on the order of records or on wall time");
}

#[test]
fn the_page_loads_nothing() {
    for recipe in [Recipe::sweep(), Recipe::troubled()] {
        let html = page(&recipe);
        for scheme in ["http://", "https://", "@import", "url("] {
            assert!(!html.contains(scheme), "{scheme} in the page of {}", recipe.name);
        }
        let document = parsed(&html);
        let links =
            document.descendants().flat_map(|node| node.attributes()).filter(|a| matches!(a.name(), "src" | "href"));
        for link in links {
            assert!(link.value().starts_with("data:") || link.value().starts_with('#'), "{}", link.value());
        }
    }
}

#[test]
fn names_cannot_become_markup() {
    let hostile = "<script>alert('x')</script>\"'&";
    let (summary, records) = results(&Recipe { loads: vec![None], ..Recipe::sweep() });
    let infect = |json: String| json.replace("hermes-rtt", &hostile.replace('"', "\\\""));
    let mut summary: Summary =
        serde_json::from_str(&infect(serde_json::to_string(&summary).expect("JSON"))).expect("JSON");
    let records: Vec<RunRecord> =
        serde_json::from_str(&infect(serde_json::to_string(&records).expect("JSON"))).expect("JSON");
    for text in [&mut summary.experiment, &mut summary.file, &mut summary.anabranch] {
        text.push_str(hostile);
    }
    summary.warnings.push(hostile.into());
    summary.setting.push((hostile.into(), hostile.into()));
    let html = report::html(&summary, &records);
    let document = parsed(&html);
    assert_eq!(document.descendants().filter(|node| node.has_tag_name("script")).count(), 1);
    let handlers = document.descendants().flat_map(|node| node.attributes()).filter(|a| a.name().starts_with("on"));
    assert_eq!(handlers.count(), 0);
    assert!(html.matches("&lt;script&gt;alert(").count() > 20, "the name is shown, as text");
}

#[test]
fn pictures_and_tables_can_be_read_aloud() {
    let html = page(&Recipe::sweep());
    let document = parsed(&html);
    for plot in document.descendants().filter(|node| node.attribute("role") == Some("img")) {
        assert!(plot.attribute("aria-label").is_some_and(|label| label.len() > 10));
    }
    for head in document.descendants().filter(|node| node.has_tag_name("th")) {
        assert!(head.attribute("scope").is_some(), "a heading cell without scope");
    }
    for figure in document.descendants().filter(|node| node.has_tag_name("figure")) {
        assert!(figure.children().any(|node| node.has_tag_name("figcaption")));
    }
    assert_eq!(document.descendants().filter(|node| node.has_tag_name("h1")).count(), 1);
}

#[test]
fn poor_results_still_make_a_page() {
    let (summary, records) = results(&Recipe { loads: vec![None], ..Recipe::sweep() });
    parsed(&report::html(&summary, &[]));
    let mut empty = summary.clone();
    (empty.runs, empty.points, empty.verdicts) = (vec![], vec![], vec![]);
    parsed(&report::html(&empty, &[]));
    let mut nothing_completed = summary;
    for point in &mut nothing_completed.points {
        (point.flows_completed, point.slowdown_mean, point.small_fct_mean_us) = Default::default();
    }
    let mut records = records;
    for record in &mut records {
        record.summary.fct_us = Default::default();
        record.detail.fct_quantiles_us.clear();
        record.detail.tiers.clear();
        record.detail.heat = None;
    }
    let html = report::html(&nothing_completed, &records);
    parsed(&html);
    assert!(!html.contains("NaN") && !html.contains("inf "));
}

#[test]
fn a_large_sweep_stays_small_enough_to_open() {
    let loads = (1..=9).map(|tenth| Some(f64::from(tenth) / 10.0)).collect();
    let balancers = vec!["ecmp", "spray", "hermes-rtt", "wcmp", "spt", "drill", "conga"];
    let html = page(&Recipe { name: "large", loads, balancers, seeds: 2, ..Recipe::sweep() });
    assert!(html.len() < 4_000_000, "{} bytes", html.len());
}

fn crowd() -> Recipe {
    const NAMES: &str = "ecmp spray hermes-rtt b03 b04 b05 b06 b07 b08 b09 b10 b11 b12 b13 b14 b15 b16 b17 b18 b19 \
                         b20 b21 b22 b23 b24 b25 b26 b27 b28 b29 optimum";
    Recipe {
        name: "crowd",
        balancers: NAMES.split(' ').collect(),
        loads: vec![Some(0.3), Some(0.6)],
        ..Recipe::sweep()
    }
}

#[test]
fn many_balancers_are_grey_except_the_best_few() {
    let html = page(&crowd());
    let document = parsed(&html);
    let of_class = |class: &'static str| {
        document
            .descendants()
            .filter(move |node| node.attribute("class").is_some_and(|c| c.split(' ').any(|c| c == class)))
    };
    let legends: Vec<String> = of_class("legend").map(text_of).collect();
    assert!(legends.iter().any(|legend| legend.contains("24 others, by name on hovering")), "{legends:?}");
    // A grey curve has its name; figures with space for a few state that they show only some.
    let grey =
        of_class("grey").filter(|node| node.attribute("class").is_some_and(|class| class.starts_with("line grey")));
    let named = grey.filter(|node| node.children().any(|child| child.has_tag_name("title"))).count();
    assert!(named >= 24 * 4, "{named}");
    assert!(html.contains("the 6 best of 30 balancers"));
    // The tables list all balancers.
    let results: Vec<_> = of_class("results").collect();
    assert_eq!(results.len(), 2);
    assert_eq!(results[0].descendants().filter(|node| node.has_tag_name("tr")).count(), 1 + 31);
    assert_eq!(of_class("about").count(), 31);
    assert!(html.len() < 6_000_000, "{} bytes", html.len());
}

#[test]
fn bound_is_drawn_separately_and_never_best() {
    let recipe = Recipe { balancers: vec!["ecmp", "spray", "optimum"], ..Recipe::single() };
    let html = page(&recipe);
    let document = parsed(&html);
    let bounds = document.descendants().find(|node| node.attribute("class") == Some("bounds")).expect("its own body");
    assert!(text_of(bounds).starts_with("\noptimumbound"), "{}", text_of(bounds));
    assert!(text_of(document.root_element()).contains("Share of optimum"));
    let answer = document.descendants().find(|node| node.attribute("class") == Some("sentence")).expect("the answer");
    assert!(!text_of(answer).contains("optimum"));
    assert!(html.contains("class=\"line bound\"") && html.contains("optimum (bound)"));
    let question = document.descendants().find(|node| node.attribute("class") == Some("question")).expect("one");
    assert!(text_of(question).starts_with("Which of ecmp and spray completes"));
    assert!(!page(&Recipe::single()).contains("Share of optimum</th>"));
}

#[test]
fn each_balancer_is_introduced_with_its_costs() {
    let (mut summary, records) = results(&Recipe::single());
    for run in summary.runs.iter_mut().filter(|run| run.balancer == "hermes-rtt") {
        run.overhead = anabranch_experiment::summary::Overhead {
            messages: 1000,
            bytes: 64_000,
            data_bytes: 6_400_000,
            control_plane: None,
        };
        run.loss.timeouts = 7;
        run.parameters = vec![("good".into(), "1.5".into())];
    }
    let html = report::html(&summary, &records);
    let document = parsed(&html);
    let block = document.descendants().find(|node| node.attribute("id") == Some("b3")).expect("the third balancer");
    let text = text_of(block);
    for words in ["hermes-rtt", "P13.2", "good = 1.5 base RTTs", "3,000", "192\u{a0}KB, 1.0\u{a0}% of data", "21"] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

#[test]
fn the_matrix_page_is_as_self_contained_as_the_others() {
    use anabranch_experiment::matrix::{Matrix, Part};
    let part = |recipe: &Recipe, folder: &str| Part {
        title: recipe.name.to_owned(),
        folder: folder.to_owned(),
        summary: results(recipe).0,
    };
    let troubled = Recipe { name: "<b>trouble</b> & \"more\"", ..Recipe::troubled() };
    let parts = [part(&crowd(), "crowd"), part(&troubled, "größe")];
    let matrix = Matrix::build("both", &parts);
    let html = report::matrix_html(&matrix);
    keep("matrix", &html);
    let document = parsed(&html);
    let links = document.descendants().filter_map(|node| node.attribute("href")).filter(|href| !href.starts_with('#'));
    let links: Vec<&str> = links.collect();
    assert_eq!(links[..2], ["crowd/report.html"; 2]);
    assert_eq!(links[2..], ["gr%C3%B6%C3%9Fe/report.html"; 2]);
    for scheme in ["http://", "https://", "@import", "url(", "NaN"] {
        assert!(!html.contains(scheme), "{scheme}");
    }
    let heat =
        document.descendants().find(|node| node.attribute("class") == Some("heat sortable")).expect("the matrix");
    let cells = heat.descendants().filter(|node| node.has_tag_name("td")).count();
    assert_eq!(cells, matrix.rows.len() * (2 + matrix.columns.len()), "every balancer has every column");
    let missing = heat.descendants().filter(|node| node.attribute("title") == Some("not run here")).count();
    let known: usize = matrix.columns.iter().map(|column| column.cells.len()).sum();
    assert_eq!(missing + known, matrix.rows.len() * matrix.columns.len());
    for cell in heat.descendants().filter(|node| node.has_tag_name("td")) {
        assert!(cell.attribute("data-v").is_some(), "a cell that cannot be sorted by");
    }
    assert!(!document.descendants().any(|node| node.has_tag_name("b") && text_of(node) == "trouble"));
}
