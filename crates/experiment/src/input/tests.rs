use super::*;
use crate::testing::{SMALL as GOOD, read_small as with};

pub(super) fn parse(text: &str) -> Result<Experiment, FileError> {
    Experiment::parse("bad.toml", text, "stem", Path::new("."), &[])
}

/// Returns the message of a rejected file, which must have these words and this hint.
pub(super) fn assert_rejected(result: Result<Experiment, FileError>, what: &str, message: &str, hint: &str) -> String {
    let error = result.expect_err(what);
    assert!(error.to_string().contains(message), "{what}: {error}");
    assert!(error.hint.clone().unwrap_or_default().contains(hint), "{what}: {error:?}");
    error.to_string()
}

#[test]
fn valid_file_is_read() {
    let experiment = parse(GOOD).unwrap();
    assert_eq!((experiment.name.as_str(), experiment.seeds.as_slice()), ("small", &[1, 2][..]));
    assert_eq!(experiment.run_count(), 8);
    assert_eq!(experiment.variants[0].config, sim::SimConfig::default());
    assert_eq!(experiment.file, GOOD);
    assert!(experiment.setting().iter().any(|(name, text)| name == "topology" && text.contains("4 hosts")));
}

#[test]
fn errors_show_line_key_and_hint() {
    let cases = [
        ("seeds = 2", "seeds = 0", "bad.toml:3: seeds: 0 is not from 1", ""),
        ("seeds = 2", "sedes = 2", "bad.toml:3: sedes: there is no such key", "did you mean `seeds`?"),
        ("flows = 20", "flow = 20", "bad.toml:10: traffic.flow: there is no such key", "did you mean `flows`?"),
        ("[traffic]", "[trafic]", "bad.toml:7: trafic: there is no such key", "did you mean `traffic`?"),
        ("\"ecmp\"", "\"ecpm\"", "bad.toml:4: balancers: unknown balancer `ecpm`; did you mean `ecmp`?", ""),
        ("\"spray\"", "\"ecmp\"", "bad.toml:4: balancers: `ecmp` is listed twice", ""),
        (
            "\"spray\"",
            "\"maglev\"",
            "bad.toml:4: balancers: `maglev` is a server balancer, and the file has only flows between hosts",
            "use a dataplane or central balancer (`anabranch list balancers`), or add [[server]]",
        ),
        ("leaves=2", "leaves=0", "bad.toml:6: topology.spec: leaf-spine: leaves = 0", ""),
        ("load = [0.1, 0.5]", "load = [0.1, 0]", "bad.toml:9: traffic.load: 0 is not a valid load", "0.6 is 60 %"),
        ("load = [0.1, 0.5]", "", "bad.toml:7: traffic.load: is missing", "poisson"),
        ("flows = 20", "", "bad.toml:7: traffic.flows: nothing says when to stop", ""),
        ("flows = 20", "flows = 0", "bad.toml:10: traffic.flows: 0 is not from 1", ""),
        ("size=10KB", "size=0B", "bad.toml:8: traffic.workload: workload `fixed:size=0B`", ""),
        ("\"fixed:size=10KB\"", "\"file:path=none.cdf\"", "bad.toml:8: traffic.workload: cannot read", ""),
        ("flows = 20", "flows = 20\n[transport]\nmss = \"0B\"", "bad.toml:12: transport.mss: 0B is not from 1", ""),
        ("flows = 20", "flows = 20\n[transport]\nmin_rto = 5", "transport.min_rto: 5 has no unit", "in quotes"),
        ("flows = 20", "flows = 20\n[switch]\nqueue = \"0pkt\"", "bad.toml:12: switch.queue: must be above zero", ""),
        ("flows = 20", "flows = 20\n[switch]\nqueue = \"1KB\"", "are less than one packet", ""),
        (
            "flows = 20",
            "flows = 20\n[[failure]]\nkind = \"link-down\"\nlink = \"leaf0 -> spine7\"",
            "bad.toml:13: failure.0.link: topology",
            "spine",
        ),
        (
            "flows = 20",
            "flows = 20\n[sweep]\nseeds = [1]",
            "bad.toml:12: sweep.seeds: is not swept",
            "write the list at `seeds`",
        ),
        ("name = \"small\"", "name = \"a/b\"", "bad.toml:2: name: `a/b` is not a valid folder name", ""),
        ("seeds = 2", "seeds = = 2", "bad.toml:3: ", ""),
    ];
    for (good, bad, message, hint) in cases {
        assert_rejected(parse(&GOOD.replace(good, bad)), bad, message, hint);
    }
}

#[test]
fn syntax_errors_show_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("bad.cdf", "0 0\n10 0.5\n");
    write("bad.csv", "nonsense\n");
    write("bad.cm", "Nodes 4\nConnections 1\n0->9 start 0 size 10\n");
    write("bad.graphml", "<graphml><graph>");
    write("bad.topo", "Nodes\n");
    let error = |from: &str, to: &str| {
        Experiment::parse("f.toml", &GOOD.replace(from, to), "f", folder.path(), &[]).expect_err(to).to_string()
    };
    let traffic = "workload = \"fixed:size=10KB\"\nload = [0.1, 0.5]\nflows = 20\n";
    let spec = "spec = \"leaf-spine:leaves=2,spines=2,hosts_per_leaf=2\"";
    assert!(error("fixed:size=10KB", "file:path=bad.cdf").contains("f.toml:8: traffic.workload: bad.cdf:2:"));
    assert!(
        error(traffic, "flow_list = \"bad.csv\"\n").contains("f.toml:8: traffic.flow_list: is not usable: bad.csv:1:")
    );
    assert!(error(traffic, "flow_list = \"bad.cm\"\n").contains("bad.cm:3:"));
    assert!(error(traffic, "flow_list = \"gone.csv\"\n").contains("cannot read gone.csv"));
    assert!(error(traffic, "flow_list = \"a.xls\"\n").contains("cannot read"));
    assert!(
        error(spec, "file = \"bad.graphml\"")
            .contains("f.toml:6: topology.file: is not a usable topology: bad.graphml:1:")
    );
    assert!(error(spec, "file = \"bad.topo\"").contains("bad.topo:1:"));
    assert!(error(spec, "file = \"bad.graphml\"\nspec = \"diamond\"").contains("cannot go with"));
}

#[test]
fn transport_keys_of_other_kinds_are_rejected() {
    let read = |sets: &[(&str, &str)]| with(sets).unwrap().variants[0].config.transport.clone();
    assert_eq!(read(&[("transport.kind", "cubic")]), sim::TransportConfig::cubic());
    assert!(!read(&[("transport.kind", "cubic"), ("transport.sack", "false")]).sack);
    assert!(!read(&[]).sack, "DCTCP as before");
    assert_eq!(read(&[("transport.kind", "spray")]), sim::TransportConfig::spray());
    assert_eq!(
        read(&[("transport.kind", "rdma"), ("transport.recovery", "selective")]),
        sim::TransportConfig::rdma(sim::RdmaRecovery::Selective)
    );
    for (kind, key, value, message) in [
        ("dctcp", "recovery", "selective", "transport.recovery: belongs to kind = \"rdma\" only"),
        ("spray", "gain", "0.5", "transport.gain: belongs to kind = \"dctcp\" or \"rdma\" or \"annulus\" only"),
        (
            "rdma",
            "min_rto",
            "1ms",
            "transport.min_rto: belongs to kind = \"dctcp\" or \"newreno\" or \"cubic\" or \"annulus\" only",
        ),
        ("udp", "sack", "true", "transport.sack: belongs to"),
    ] {
        assert_rejected(with(&[("transport.kind", kind), (&format!("transport.{key}"), value)]), key, message, "");
    }
    assert!(with(&[("switch.trimming", "true"), ("transport.kind", "spray")]).is_ok());
    let message = "only the spray transport supports trimmed packets";
    assert_rejected(with(&[("switch.trimming", "true")]), "trimming", message, "");
    let trims = [("switch.trimming", "true"), ("transport.kind", "spray"), ("switch.control_class", "false")];
    assert_rejected(with(&trims), "control_class", "trimmed headers need the control class", "");
    let pauses = [("switch.pfc", "true"), ("switch.control_class", "true")];
    assert_rejected(with(&pauses), "control_class", "with pfc = true the classes are those of flows", "");
    assert_rejected(with(&[("switch.reference_rate", "0bps")]), "reference_rate", "", "");
}

#[test]
fn overrides_appear_in_errors_and_in_the_written_file() {
    let experiment = with(&[("seeds", "[7]"), ("traffic.load", "0.9"), ("transport.kind", "newreno")]).unwrap();
    assert_eq!(experiment.seeds, [7]);
    assert_eq!(experiment.variants[0].loads, [Some(0.9)]);
    let again = parse(&experiment.file).unwrap();
    assert_eq!(again.variants[0].config, experiment.variants[0].config);
    assert_eq!(again.variants[0].canonical, experiment.variants[0].canonical);
    for (key, value, message) in [
        ("trafic.load", "0.3", "--set trafic.load=0.3: trafic: there is no such key"),
        ("traffic.load", "-1", "--set traffic.load=-1: traffic.load: -1 is not a valid load"),
        ("topology.spec", "fat-tree:k=5", "--set topology.spec=fat-tree:k=5: topology.spec: fat-tree: k = 5"),
        ("transport.min_rto", "0s", "transport.min_rto: must be above zero"),
        ("", "1", "is not a key"),
    ] {
        assert_rejected(with(&[(key, value)]), key, message, "");
    }
}

#[test]
fn load_of_one_or_more_gives_a_warning() {
    let experiment = with(&[("traffic.load", "[0.5, 1.2]")]).unwrap();
    assert_eq!(experiment.warnings.len(), 1, "{:?}", experiment.warnings);
}

#[test]
fn sweep_variants_share_unchanged_topologies() {
    let sweep = [("sweep.transport.min_rto", "[\"5ms\", \"200ms\"]"), ("sweep.host.resequencing", "[\"on\", \"off\"]")];
    let experiment = with(&sweep).unwrap();
    let labels: Vec<&str> = experiment.variants.iter().map(|variant| variant.label.as_str()).collect();
    assert_eq!(labels[1], "host.resequencing=on, transport.min_rto=200ms");
    assert_eq!((labels.len(), experiment.run_count()), (4, 32));
    assert!(Arc::ptr_eq(&experiment.variants[0].topology, &experiment.variants[3].topology));
    assert_ne!(experiment.variants[0].canonical, experiment.variants[1].canonical);
    assert_rejected(with(&[("sweep.transport.min_rto", "[\"5ms\", \"x\"]")]), "sweep", "transport.min_rto", "");
    let failures = with(&[("sweep.failure", "[[], [{kind = \"switch-down\", switch = \"spine0\"}]]")]).unwrap();
    assert_eq!(failures.variants[0].label, "failure=none");
    assert_eq!(failures.variants[1].config.failures.len(), 1);
}

#[test]
fn referenced_files_are_kept_as_inputs() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("sub/t.cdf"), "0 0\n10000 1\n").unwrap();
    let text = GOOD.replace("fixed:size=10KB", "file:path=sub/t.cdf");
    let first = Experiment::parse("f.toml", &text, "f", folder.path(), &[]).unwrap();
    assert!(first.file.contains("file:path=inputs/t.cdf"), "{}", first.file);
    std::fs::create_dir(folder.path().join("inputs")).unwrap();
    std::fs::write(folder.path().join("inputs/t.cdf"), &first.inputs[0].text).unwrap();
    let second = Experiment::parse("g.toml", &first.file, "f", folder.path(), &[]).unwrap();
    assert_eq!(first.variants[0].canonical, second.variants[0].canonical);
    assert_eq!(first.file, second.file);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[\\[\\]a-z=\"0-9.{},\n ]{0,80}") {
        let _ = parse(&text);
        let _ = parse(&format!("{GOOD}\n{text}"));
    }
}

const CLAIM: &str = "[[expect]]\nid = \"X1\"\nclaim = \"spray is no worse\"\nmetric = \"fct_mean_us\"\n\
                     balancer = \"spray\"\nat_most = \"ecmp\"\n";

fn claims(change: (&str, &str)) -> Result<Experiment, FileError> {
    assert!(CLAIM.contains(change.0), "{change:?}");
    parse(&format!("{GOOD}{}", CLAIM.replace(change.0, change.1)))
}

#[test]
fn claims_select_loads_in_order() {
    let at = |keys: &str| {
        let experiment = claims(("at_most = \"ecmp\"\n", &format!("at_most = \"ecmp\"\n{keys}\n"))).unwrap();
        experiment.claims[0].at[0].loads.iter().flatten().copied().collect::<Vec<f64>>()
    };
    assert_eq!(at(""), [0.1, 0.5]);
    assert_eq!(at("load_max = 0.3"), [0.1]);
    assert_eq!(at("load_min = 0.5"), [0.5]);
    assert_eq!(at("lowest_load_only = true"), [0.1]);
    let text = format!("{GOOD}{CLAIM}").replace("[0.1, 0.5]", "[0.5, 0.1]").replace("\"ecmp\", ", "");
    let text = text.replace("balancer = \"spray\"\nat_most = \"ecmp\"", "rises_with_load = true");
    let claim = parse(&text).unwrap().claims.remove(0);
    assert_eq!((claim.balancer.as_str(), claim.at[0].loads.as_slice()), ("spray", &[Some(0.1), Some(0.5)][..]));
}

#[test]
fn claim_errors_show_line_key_and_hint() {
    let most = "at_most = \"ecmp\"";
    let cases = [
        ("fct_mean_us", "fct_men_us", "bad.toml:14: expect.0.metric: unknown metric", "did you mean `fct_mean_us`?"),
        (most, "at_most = \"ecpm\"", "bad.toml:16: expect.0.at_most: `ecpm` is not among", "did you mean `ecmp`?"),
        ("\"spray\"", "\"sprya\"", "bad.toml:15: expect.0.balancer: `sprya` is not among", "did you mean `spray`?"),
        ("balancer = \"spray\"\n", "", "bad.toml:11: expect.0.balancer: is missing", "ecmp, spray"),
        ("\"spray\"", "\"ecmp\"", "expect.0.balancer: `ecmp` is compared with itself", ""),
        (most, "", "bad.toml:11: expect.0: the claim has no comparison", "at_most, at_least, within, rises_with_load"),
        (
            most,
            "at_most = \"ecmp\"\nwithin = [1, 2]",
            "bad.toml:17: expect.0.within: cannot go with `at_most`",
            "two claims",
        ),
        (most, "within = [2, 1]", "bad.toml:16: expect.0.within: the low end 2 is above", "within = [1, 2]"),
        (most, "within = 2", "expect.0.within: must be two numbers", "[low, high]"),
        (most, "within = [1, \"x\"]", "expect.0.within: must be two numbers", "[low, high]"),
        (most, "rises_with_load = false", "expect.0.rises_with_load: can only be true", "leave it out"),
        (
            most,
            "rises_with_load = true\nload_min = 0.5",
            "rises_with_load: needs at least two loads, and selects 1",
            "0.1",
        ),
        (most, "at_most = \"ecmp\"\nload_min = 0.6", "bad.toml:17: expect.0.load_min: selects no load", "0.1, 0.5"),
        (most, "at_most = \"ecmp\"\nload_max = 0.6\nlowest_load_only = true", "lowest_load_only: cannot go with", ""),
        (
            most,
            "at_most = \"ecmp\"\nvariant = \"a=b\"",
            "bad.toml:17: expect.0.variant: unknown variant",
            "has no [sweep]",
        ),
        ("id = \"X1\"", "", "expect.0.id: is missing", ""),
        ("claim = ", "clam = ", "bad.toml:13: expect.0.clam: there is no such key", "did you mean `claim`?"),
        ("[[expect]]", "[expect]", "expect: must be a list of tables", "write `[[expect]]`"),
    ];
    for (good, bad, message, hint) in cases {
        assert_rejected(claims((good, bad)), bad, message, hint);
    }
    assert_rejected(with(&[("sweep.expect.0.reason", "[\"a\"]")]), "sweep", "is not swept over", "");
}

#[test]
fn claims_are_left_out_if_arguments_replace_their_loads_or_balancers() {
    let text = format!("{GOOD}{CLAIM}load_max = 0.3\n{}", CLAIM.replace("X1", "X2"));
    let given = |key: &str, value: &str| {
        Experiment::parse("good.toml", &text, "stem", Path::new("."), &[Override::set(key, value)]).unwrap()
    };
    let other_loads = given("traffic.load", "0.9");
    assert_eq!((other_loads.claims.len(), other_loads.claims[0].id.as_str()), (1, "X2"));
    assert_eq!(other_loads.left_out, ["X1 is not judged: expect.0.load_max: selects no load of the experiment"]);
    // The file kept with the results runs again with the same judgements.
    let again = parse(&other_loads.file).unwrap();
    assert_eq!((again.claims, again.left_out), (other_loads.claims, Vec::new()));
    let other_balancers = given("balancers", "[\"spray\"]");
    assert_eq!((other_balancers.claims.len(), other_balancers.left_out.len()), (0, 2));
    assert!(!other_balancers.file.contains("expect"), "{}", other_balancers.file);
    assert_eq!(given("seeds", "1").claims.len(), 2);
}

const WITH_TABLE: &str = include_str!("../../tests/data/with-matrix.toml");

fn for_matrix(text: &str, overrides: &[Override]) -> Result<Experiment, FileError> {
    Experiment::parse_as(
        "table.toml",
        text,
        ("table", Context::below(Path::new("."))),
        overrides,
        Extent::Representative,
    )
}

#[test]
fn table_section_reduces_the_experiment_only_for_a_matrix() {
    let whole = Experiment::parse("table.toml", WITH_TABLE, "table", Path::new("."), &[]).unwrap();
    assert_eq!((whole.run_count(), whole.file.as_str()), (4 * 3 * 2 * 10, WITH_TABLE));
    let reduced = for_matrix(WITH_TABLE, &[]).unwrap();
    assert_eq!((reduced.run_count(), reduced.column.as_deref()), (2 * 2 * 2, Some("short flows")));
    let labels: Vec<&str> = reduced.variants.iter().map(|variant| variant.label.as_str()).collect();
    assert_eq!(labels, ["switch.queue=50pkt, transport.kind=newreno", "switch.queue=100pkt, transport.kind=newreno"]);
    assert_eq!((&reduced.variants[0].loads[..], reduced.variants[0].flow_counts[0]), (&[Some(0.5)][..], 20));
    // The reduced file is an experiment that gives the same runs.
    let again = Experiment::parse("again.toml", &reduced.file, "table", Path::new("."), &[]).unwrap();
    let prints = |experiment: &Experiment| -> Vec<String> {
        crate::run::plan::plan(experiment).into_iter().map(|run| run.fingerprint).collect()
    };
    assert_eq!((prints(&again), again.column), (prints(&reduced), reduced.column));
    let more = for_matrix(WITH_TABLE, &[Override::set("seeds", "1"), Override::set("traffic.load", "0.9")]).unwrap();
    assert_eq!((more.seeds, more.variants[0].loads.as_slice()), (vec![1], &[Some(0.9)][..]));
}

#[test]
fn claims_about_loads_missing_in_a_matrix_are_left_out() {
    let claim = |from: f64| {
        format!(
            "[[expect]]\nid = \"X\"\nclaim = \"c\"\nmetric = \"fct_mean_us\"\nbalancer = \"ecmp\"\nwithin = [0, 1e9]\n\
             load_min = {from}\n"
        )
    };
    let text = format!("{GOOD}[matrix]\nloads = [0.1]\n{}{}", claim(0.5), claim(0.1));
    assert_eq!(parse(&text).unwrap().claims.len(), 2);
    let reduced = for_matrix(&text, &[]).unwrap();
    assert_eq!((reduced.claims.len(), reduced.left_out.len()), (1, 1));
    assert!(parse(&reduced.file).is_ok(), "what is kept with the results can be run again: {}", reduced.file);
}

#[test]
fn table_section_errors_are_found_with_and_without_a_matrix() {
    for (good, bad, message) in [
        ("loads = 0.5", "load = 0.5", "matrix.load: there is no such key"),
        (
            "[\"newreno\"]",
            "[\"reno\"]",
            "matrix.variants: \"reno\" is not among the values of the axis `transport.kind`",
        ),
        ("transport.kind = [\"new", "transport.mss = [\"new", "matrix.variants: `transport.mss` is not swept over"),
        ("variants = {", "variants = 1 # {", "matrix.variants: must be a table, not a number"),
        ("[\"newreno\"]", "[]", "matrix.variants: chooses no value of `transport.kind`"),
    ] {
        let text = WITH_TABLE.replace(good, bad);
        let whole = Experiment::parse("table.toml", &text, "table", Path::new("."), &[]).unwrap_err();
        assert_eq!(whole.headline(), message);
        assert_eq!(for_matrix(&text, &[]).unwrap_err(), whole);
    }
    for (good, bad, message) in [
        ("loads = 0.5", "loads = 0", "traffic.load: 0 is not a valid load"),
        ("seeds = [4, 5]", "seeds = 0", "seeds: 0 is not from 1 to 100000"),
    ] {
        let error = for_matrix(&WITH_TABLE.replace(good, bad), &[]).unwrap_err();
        assert_eq!((error.headline().as_str(), error.place.to_string().starts_with("table.toml:1")), (message, true));
    }
    let swept = WITH_TABLE.replace("[matrix]", "\"matrix.flows\" = [1]\n[matrix]");
    let error = Experiment::parse("table.toml", &swept, "table", Path::new("."), &[]).unwrap_err();
    assert!(error.to_string().contains("is not swept over"), "{error}");
}

#[test]
fn measure_defaults_by_transport() {
    let measure = |overrides: &[(&str, &str)]| crate::testing::small(overrides).rule.rank_by;
    assert_eq!(measure(&[]), Measure::Slowdown);
    assert_eq!(measure(&[("transport.kind", "udp"), ("transport.rate", "1Gbps")]), Measure::Throughput);
    assert_eq!(measure(&[("rank_by", "throughput")]), Measure::Throughput);
    let explicit = [("transport.kind", "udp"), ("transport.rate", "1Gbps"), ("rank_by", "slowdown")];
    assert_eq!(measure(&explicit), Measure::Slowdown);
    let folder = tempfile::tempdir().unwrap();
    let read = |rank_by: &str| {
        let text = format!(
            "{rank_by}balancers = [\"ecmp\"]\n[topology]\nspec = \"leaf-spine\"\n\
             [traffic]\ncollective = \"ring-all-reduce:size=1MB\"\n"
        );
        Experiment::parse("c.toml", &text, "c", folder.path(), &[]).unwrap().rule.rank_by
    };
    assert_eq!((read(""), read("rank_by = \"slowdown\"\n")), (Measure::GroupTime, Measure::Slowdown));
}

const TRACE: &str = "[rank0 ~ rank3]\ncomm_type,comm_group,comm_group_size,msg_size\n\
    all_reduce,tp_group,2,1000\nall_gather,dp_group,2,4000\nall_reduce,tp_group,2,1000\n";

fn with_traffic(traffic: &str) -> Result<Experiment, FileError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.csv"), TRACE).unwrap();
    std::fs::write(folder.path().join("m.csv"), "time_s,leaf0>leaf1,leaf1>up\n0,80,8\n1,8,80\n").unwrap();
    let from = "workload = \"fixed:size=10KB\"\nload = [0.1, 0.5]\nflows = 20\n";
    Experiment::parse("bad.toml", &GOOD.replace(from, traffic), "stem", folder.path(), &[])
}

#[test]
fn collectives_traces_and_matrices_give_flows() {
    let flows = |experiment: &Experiment, seed| {
        let variant = &experiment.variants[0];
        variant.traffic.flows(&variant.topology, None, seed).unwrap()
    };
    let ring = with_traffic("collective = [\"ring-all-reduce:size=4KB\"]\nplacement = \"shuffled\"\n").unwrap();
    assert_eq!((ring.run_count(), flows(&ring, 1).total_bytes()), (4, 2 * 3 * 4000));
    assert_ne!(flows(&ring, 1).flows, flows(&ring, 2).flows);
    let trace = with_traffic("trace = \"t.csv\"\nmax_collectives = 2\n").unwrap();
    assert_eq!(flows(&trace, 1).total_bytes(), 2 * 2 * 1000 + 2 * 4000);
    assert_eq!(trace.inputs.len(), 1);
    assert!(trace.file.contains("trace = \"inputs/t.csv\""), "{}", trace.file);
    assert!(trace.warnings[0].contains("the last 1 collectives of the trace (4000 B"), "{:?}", trace.warnings);
    let matrix = "matrix = \"m.csv\"\nworkload = \"fixed:size=10KB\"\nrate_scale = 0.1\nnode_names = [\"up=leaf0\"]\n";
    let matrix = with_traffic(matrix).unwrap();
    assert_ne!(flows(&matrix, 1), flows(&matrix, 2));
    assert!(flows(&matrix, 1).flows.iter().all(|flow| flow.src.0 / 2 != flow.dst.0 / 2));
    for experiment in [ring, trace, matrix] {
        let setting = experiment.setting();
        assert!(setting.iter().any(|(name, text)| name == "traffic" && !text.is_empty()));
    }
}

#[test]
fn execution_traces_give_flows_with_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let goal = "num_ranks 2\nrank 0 {\nc: calc 9\ns: send 50b to 1\ns requires c\n}\nrank 1 {\nrecv 50b from 0\n}\n";
    std::fs::write(folder.path().join("t.goal"), goal).unwrap();
    let collective = r#"{}{"type": "COMM_COLL_NODE", "attr": [{"name": "comm_type", "int64Val": "0"},
        {"name": "comm_size", "int64Val": "4000"}]}"#;
    for rank in [0, 1, 2, 7] {
        std::fs::write(folder.path().join(format!("all.{rank}.json")), collective).unwrap();
    }
    let from = "workload = \"fixed:size=10KB\"\nload = [0.1, 0.5]\nflows = 20\n";
    let read = |traffic: &str| {
        let text = GOOD.replace(from, &format!("{traffic}\n"));
        Experiment::parse("tasks.toml", &text, "stem", folder.path(), &[])
    };
    for (traffic, stored, bytes) in [
        ("trace = \"t.goal\"\nsize_scale = 2", "inputs/t.goal", 100),
        ("trace = \"all.{rank}.json\"", "inputs/all.{rank}.json", 2 * 2 * 4000),
    ] {
        let experiment = read(traffic).unwrap();
        let variant = &experiment.variants[0];
        let list = variant.traffic.flows(&variant.topology, None, 1).unwrap();
        assert!(list.tasks.is_some() && list.total_bytes() == bytes, "{list:?}");
        assert!(experiment.file.contains(&format!("trace = \"{stored}\"")), "{}", experiment.file);
        let copies: Vec<String> = experiment.traces[0].copies().map(|(_, name)| format!("inputs/{name}")).collect();
        assert_eq!((copies.len() > 1, &copies[0]), (bytes > 100, &stored.replace("{rank}", "0")));
        // The content decides on the fingerprint of runs, not the path.
        assert!(
            variant.canonical.contains("trace = \"") && !variant.canonical.contains("t.goal"),
            "{}",
            variant.canonical
        );
    }
    for (traffic, message) in [
        ("trace = \"gone.goal\"", "traffic.trace: cannot read gone.goal"),
        ("trace = \"gone.{rank}.et\"", "traffic.trace: cannot read gone.0.et"),
        ("trace = \"all.0.et\"", "traffic.trace: names one file, but Chakra traces have one for each rank"),
        ("trace = \"t.goal\"\nranks = 3", "traffic.ranks: the trace is of 2 ranks, not 3; leave `ranks` out"),
        ("trace = \"t.goal\"\norder = \"group\"", "traffic.order: belongs to AICB and SimAI traces"),
    ] {
        let error = read(traffic).unwrap_err();
        assert!(error.headline().starts_with(message), "{}", error.headline());
    }
    // Hosts 0 to 3: rank 7 is not looked for, but rank 3 would be.
    std::fs::remove_file(folder.path().join("all.1.json")).unwrap();
    let error = read("trace = \"all.{rank}.json\"").unwrap_err();
    assert_eq!(error.headline(), "traffic.trace: rank 1 has no file, but rank 2 has `all.2.json`");
}

#[test]
fn traffic_source_errors_name_the_key() {
    for (traffic, message) in [
        (
            "collective = \"ring\"\n",
            "traffic.collective: there is no collective called `ring`; did you mean `ring-all-",
        ),
        ("collective = []\n", "traffic.collective: is an empty list"),
        ("collective = [3]\n", "traffic.collective: must be text in quotes, not a number"),
        ("collective = \"all-to-all:size=1KB\"\nranks = 9\n", "traffic.ranks: 9 ranks on 4 hosts"),
        ("collective = \"all-to-all:size=1KB,group_size=3\"\n", "traffic.collective: 4 ranks cannot be divided"),
        ("collective = \"all-to-all:size=1KB\"\nload = 0.5\n", "traffic.load: belongs to the flows in the background"),
        ("collective = \"all-to-all:size=1KB\"\ntrace = \"t.csv\"\n", "traffic.trace: cannot go with `collective`"),
        ("collective = \"all-to-all:size=1KB\"\norder = \"group\"\n", "traffic.order: cannot go with `collective`"),
        ("workload = \"web-search\"\nranks = 4\n", "traffic.ranks: belongs to `collective`, `trace` only"),
        ("trace = \"gone.csv\"\n", "traffic.trace: cannot read gone.csv"),
        ("trace = \"m.csv\"\n", "traffic.trace: is not usable: m.csv:1: `time_s,leaf0>leaf1,leaf1>up` is unknown"),
        ("trace = \"t.csv\"\nmax_bytes = \"3KB\"\n", "traffic.max_bytes: the first collective alone sends 4000 B"),
        ("trace = \"t.csv\"\norder = \"programm\"\n", "traffic.order: `programm` is not possible"),
        ("matrix = \"m.csv\"\n", "traffic.workload: is missing"),
        ("matrix = \"m.csv\"\nworkload = \"web-search\"\n", "traffic.matrix: topology `leaf-spine"),
        (
            "matrix = \"m.csv\"\nworkload = \"web-search\"\nnode_names = [\"up\"]\n",
            "traffic.node_names: `up` is not of the form",
        ),
        ("matrix = \"m.csv\"\nworkload = \"web-search\"\nnode_names = [\"up=leaf7\"]\n", "did you mean `leaf0`?"),
        ("matrix = \"t.csv\"\nworkload = \"web-search\"\n", "traffic.matrix: is not usable: t.csv:1: `time_s` as the"),
    ] {
        assert_rejected(with_traffic(traffic), traffic, message, "");
    }
}
