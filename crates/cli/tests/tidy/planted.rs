//! Each rule finds a planted fault.

use std::collections::{BTreeMap, BTreeSet};

use crate::rules::{self, Finding, Glossary};
use crate::source::Source;
use crate::{committed, differences, group};

const RUST: &str = "crates/net/src/route.rs";

/// The lines that a rule finds in a text.
fn lines(rule: impl Fn(&Source) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
    rule(&Source::parse(path, text)).iter().map(|finding| finding.line).collect()
}

#[test]
fn banned_word_is_found_in_prose_only() {
    let banned = "\\b[Gg]izmos?\\b\tdevice\n^Gadget is\ta noun\n";
    let glossary = Glossary::parse(banned, "^docs/\tGizmo Networks\ttitle of a paper\n");
    let cases: [(&str, &str, &[usize]); _] = [
        // In comments, docs and literals.
        (RUST, "//! A gizmo.\n/// Gizmos.\nfn gizmo() {} // gizmo\n/* gizmo\n * gizmo */\n", &[1, 2, 3, 4, 5]),
        (RUST, "f(\"gizmo\");\nf(r#\"a\n\"gizmo\"\"#);\n", &[1, 3]),
        // Not in code.
        (RUST, "fn gizmo<'a>() -> char { let gizmo = '\"'; br\"\"; gizmo }\nlet r#gizmo = b'\\''; // but\n", &[]),
        // At the start of a line: after the marker and after an escape.
        (RUST, "//! Gadget is\n/// A Gadget is\nf(\"x\\nGadget is\");\nf(\"one \\\n   Gadget is\");\n", &[1, 3, 5]),
        // Not as an argument in a format string.
        (RUST, "f(\"{gizmo} {gizmo:?}\");\nf(\"{gizmo} gizmo\");\n// {gizmo}\n", &[2, 3]),
        // Once per line and pattern.
        (RUST, "f(\"gizmo\", \"gizmo\"); // gizmo\n", &[1]),
        // In comments of TOML.
        ("experiments/a.toml", "gizmo = \"# gizmo \\\" # gizmo\" # gizmo\nb = '# gizmo'\n", &[1]),
        ("experiments/a.toml", "c = \"\"\"\n# gizmo\n\"\"\"\n# gizmo\n", &[4]),
        // Outside code blocks of Markdown and docs.
        ("book/a.md", "A gizmo.\n```text\ngizmo\n```\n| gizmo |\n~~~~\n~~~\ngizmo\n~~~~\ngizmo\n", &[1, 5, 10]),
        (RUST, "/// ```\n/// gizmo\n/// ```\n/// gizmo\n", &[4]),
        // Not in data or in an allowed title.
        ("data/a.md", "A gizmo.\n", &[]),
        ("docs/a.md", "Gizmo Networks\nGizmo Networks of gizmos\n", &[2]),
        ("book/a.md", "Gizmo Networks\n", &[1]),
    ];
    for (path, text, expected) in cases {
        assert_eq!(lines(|file| glossary.banned_words(file), path, text), expected, "{text}");
    }
}

#[test]
fn banned_words_of_the_committed_list_are_found_with_replacement() {
    // In pieces, because this literal is checked too.
    let findings = Glossary::get().banned_words(&Source::parse(RUST, concat!("\n// Who", "ever sends.\n")));
    let message = findings.iter().map(Finding::to_string).collect::<String>();
    let expected = concat!(":2: banned `Who", "ever`; write: the sender, the client, the caller, any host that");
    assert_eq!(message, format!("{RUST}{expected}"));
}

#[test]
fn comment_over_120_columns_is_found() {
    let long = "x".repeat(118);
    let text = format!("// {long}\nlet a = \"{long}\";\n/// ```\n/// {long}\n/// ```\nf(); // {long}\n//{long}\n");
    assert_eq!(lines(rules::long_lines, RUST, &text), [1, 6]);
    assert_eq!(lines(rules::long_lines, "a.toml", &format!("a = \"{long}\"\n# {long}x\n")), [2]);
}

#[test]
fn markdown_prose_over_120_columns_is_found() {
    let long = "x".repeat(121);
    let text = format!("{long}\n| {long} |\n```\n{long}\n```\n[a](https://example.org/{long})\n");
    assert_eq!(lines(rules::long_lines, "a.md", &text), [1]);
}

#[test]
fn file_over_600_lines_is_found() {
    for (path, count, expected) in [(RUST, 600, &[][..]), (RUST, 601, &[1]), ("docs/a.md", 601, &[])] {
        assert_eq!(lines(rules::long_files, path, &"\n".repeat(count)), expected, "{path}: {count}");
    }
}

#[test]
fn doc_comment_of_four_words_is_found() {
    let text =
        "/// Bytes.\na: u8,\n/// One of four words.\n/// Second line.\nb: u8,\n/// Bytes sent per second\nc: u8,\n";
    assert_eq!(lines(rules::short_docs, RUST, text), [1, 6]);
    let long = "/// Bytes sent since the start.\n//// Bytes.\n//! Net.\n// Why.\n";
    assert!(lines(rules::short_docs, RUST, long).is_empty());
}

#[test]
fn file_named_like_folder_or_utils_is_found() {
    let paths = ["crates/net/src/route/route.rs", "src/utils.rs", "src/route/mod.rs", "src/route.rs", "docs/docs.md"];
    let found = paths.map(|path| !lines(rules::file_names, path, "").is_empty());
    assert_eq!(found, [true, true, false, false, false]);
}

#[test]
fn path_of_one_machine_is_found() {
    let text = format!("a\n/{0}/main\nb /{1}/x\nnet/{0}/x\n./{1}/y\n", "work", "farm");
    assert_eq!(lines(rules::machine_paths, "scripts/test", &text), [2, 3, 5]);
}

#[test]
fn fuzz_target_without_file_is_found() {
    let fuzz = "[[bin]]\npath = \"fuzz_targets/a.rs\"\n[workspace]\n";
    let check = |root: &str, fuzz: &str, path: &str| {
        rules::fuzz_targets(&root.parse().unwrap(), &fuzz.parse().unwrap(), &[path]).join("\n")
    };
    let excluded = "[workspace]\nexclude = [\"fuzz\"]\n";
    assert_eq!(check(excluded, fuzz, "fuzz/fuzz_targets/a.rs"), "");
    let other = check(excluded, fuzz, "fuzz/fuzz_targets/b.rs");
    assert!(other.contains("`fuzz/fuzz_targets/a.rs` does not exist"), "{other}");
    assert!(other.contains("fuzz_targets/b.rs: fuzz target is not listed"), "{other}");
    let included = check("[workspace]\n", fuzz, "fuzz/fuzz_targets/a.rs");
    assert!(included.contains("fuzz/ belongs to the workspace"), "{included}");
    let empty = check(excluded, "", "README.md");
    assert_eq!(empty.lines().count(), 2, "{empty}");
}

#[test]
fn count_above_or_below_the_committed_one_is_found() {
    let found = |text: &str| rules::short_docs(&Source::parse(RUST, text));
    let text = "/// One.\na: u8,\n/// Two.\nb: u8,\n/// Three.\nc: u8,\n";
    let measured = || BTreeMap::from([("a", found(text)), ("b", found("/// One.\n")), ("d", found("/// One.\n"))]);
    let committed = BTreeMap::from([("a", 2), ("b", 1), ("c", 2)]);
    let message = differences(&committed, measured(), || BTreeSet::from(["/// Two.".to_owned()]));
    let heads: Vec<&str> = message.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(heads[0], "a: 3 findings, committed 2; remove 1 of them:");
    assert!(heads[1].starts_with("c: 0 findings, committed 2; commit the lower number in crates/cli/"), "{message}");
    assert_eq!((heads[2], heads.len()), ("d: 1 findings, committed 0; remove 1 of them:", 3));
    let places: Vec<&str> = message.lines().skip(1).take(3).collect();
    assert!(places[0].starts_with("  crates/net/src/route.rs:3: ") && places[0].ends_with(" [changed line]"));
    assert!(!places[1].contains("changed line"), "{message}");
    let many = BTreeMap::from([("a", found(&"/// One.\na: u8,\n".repeat(25)))]);
    assert!(differences(&committed, many, BTreeSet::new).contains("\n  and 5 more\n"));
}

#[test]
fn ratchet_file_has_rows_of_known_rules() {
    let text = "long-lines\tcrates/net\t2\nlong-lines\tdocs\t1\nshort-docs\tdocs\t3\n";
    assert_eq!(committed(text, "long-lines"), BTreeMap::from([("crates/net", 2), ("docs", 1)]));
    for faulty in ["long-lines\tdocs\t0\n", "other\tdocs\t1\n", "long-lines\tdocs\n", "long-lines\tdocs\t1\t1\n"] {
        assert!(std::panic::catch_unwind(|| committed(faulty, "long-lines")).is_err(), "{faulty}");
    }
}

#[test]
fn path_is_grouped_by_crate_or_top_folder() {
    let paths = ["crates/net/src/lib.rs", "docs/a/b.md", "README.md"];
    assert_eq!(paths.map(group), ["crates/net", "docs", "."]);
}
