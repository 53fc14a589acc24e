//! `--until-sure`, on the command line.

use crate::common::{assert_rejected, read_json, succeed};

const TIE: &str = "compare --topology leaf-spine:leaves=2,spines=2,hosts_per_leaf=2 --flows 300 --load 0.4 --no-flows \
                   --set name=\"tie\"";

/// Two seeds for hashing are a true tie: it ends as one, and its file gives the same bytes again.
#[test]
fn tie_ends_as_a_tie_and_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let printed = succeed(path, &format!("{TIE} --balancers ecmp,ecmp:hash=threshold --until-sure 20% --out out"));
    assert!(printed.contains("every comparison with a best balancer is decided with "), "{printed}");
    let summary = read_json(path.join("out/summary.json"));
    let verdict = &summary["verdicts"][0];
    assert_eq!((verdict["tied"].as_array().unwrap().len(), verdict["undecided"].as_array().unwrap().len()), (1, 0));
    assert_eq!(summary["margin"], 0.2);
    let first = std::fs::read(path.join("out/summary.json")).unwrap();
    succeed(path, "run out/experiment.toml --out again --no-flows");
    assert_eq!(std::fs::read(path.join("again/summary.json")).unwrap(), first);
}

#[test]
fn clear_differences_need_few_seeds() {
    let folder = tempfile::tempdir().unwrap();
    let printed =
        succeed(folder.path(), &format!("{TIE} --balancers ecmp,spt --until-sure 1% --seeds-max 8 --out out"));
    assert!(printed.contains("ecmp wins") || printed.contains("spt takes"), "{printed}");
}

#[test]
fn wrong_shares_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    assert_rejected(folder.path(), &format!("{TIE} --until-sure 5"), &["--until-sure", "5%"]);
    assert_rejected(folder.path(), &format!("{TIE} --margin 1% --until-sure 5%"), &["cannot be used with"]);
    assert_rejected(folder.path(), &format!("{TIE} --seeds-max 9"), &["--until-sure"]);
}
