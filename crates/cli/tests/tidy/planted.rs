//! Each rule finds a planted fault.

use std::path::Path;

use serde_json::json;

use crate::ratchet::{Counts, Difference, differences, is_update_allowed, lowered, parse, render};
use crate::rules::{self, Finding, Glossary};
use crate::source::Source;
use crate::tree::{group, parse_diff};

const RUST: &str = "crates/net/src/route.rs";
/// The lines of an empty list of findings.
const NONE: [usize; 0] = [];

fn rust(text: &str) -> Source {
    Source::parse(RUST, text)
}

fn lines(findings: &[Finding]) -> Vec<usize> {
    findings.iter().map(|finding| finding.line).collect()
}

/// A list with the one banned word `gizmo`, which is allowed in the title "Gizmo Networks".
fn gizmo() -> Glossary {
    Glossary::parse("\\b[Gg]izmos?\\b\tdevice\n^Gadget is\ta noun\n", "^docs/\tGizmo Networks\ttitle of a paper\n")
}

fn banned_lines(path: &str, text: &str) -> Vec<usize> {
    lines(&gizmo().banned_words(&Source::parse(path, text)))
}

#[test]
fn banned_word_in_comment_doc_or_literal_is_found() {
    let text = "//! A gizmo.\n/// Gizmos.\nfn gizmo() {} // gizmo\n/* gizmo\n * gizmo */\nf(\"gizmo\");\nf(r#\"a\n\"gizmo\"\"#);\n";
    assert_eq!(banned_lines(RUST, text), [1, 2, 3, 4, 5, 6, 8]);
}

#[test]
fn banned_word_in_code_is_not_found() {
    let text = "fn gizmo<'a>() -> char { let gizmo = '\"'; br\"\"; gizmo }\nlet r#gizmo = b'\\''; // but\n";
    assert_eq!(banned_lines(RUST, text), NONE);
}

#[test]
fn banned_word_anchored_to_line_start_is_found_after_marker_and_escape() {
    let text = "//! Gadget is\n/// A Gadget is\nf(\"x\\nGadget is\");\nf(\"one \\\n   Gadget is\");\n";
    assert_eq!(banned_lines(RUST, text), [1, 3, 5]);
}

#[test]
fn banned_word_as_format_argument_is_not_found() {
    assert_eq!(banned_lines(RUST, "f(\"{gizmo} {gizmo:?}\");\nf(\"{gizmo} gizmo\");\n// {gizmo}\n"), [2, 3]);
}

#[test]
fn banned_word_twice_in_line_counts_once_per_pattern() {
    assert_eq!(banned_lines(RUST, "f(\"gizmo\", \"gizmo\"); // gizmo\n"), [1]);
}

#[test]
fn banned_word_in_toml_is_found_in_comments_only() {
    let text = "gizmo = \"# gizmo \\\" # gizmo\" # gizmo\nb = '# gizmo'\nc = \"\"\"\n# gizmo\n\"\"\"\n# gizmo\n";
    assert_eq!(banned_lines("experiments/a.toml", text), [1, 6]);
}

#[test]
fn banned_word_in_markdown_is_found_outside_code_blocks() {
    let text = "A gizmo.\n```text\ngizmo\n```\n| gizmo |\n~~~~\n~~~\ngizmo\n~~~~\ngizmo\n";
    assert_eq!(banned_lines("book/a.md", text), [1, 5, 10]);
    assert_eq!(banned_lines(RUST, "/// ```\n/// gizmo\n/// ```\n/// gizmo\n"), [4]);
}

#[test]
fn banned_word_in_data_or_allowed_title_is_not_found() {
    assert_eq!(banned_lines("data/a.md", "A gizmo.\n"), NONE);
    assert_eq!(banned_lines("docs/a.md", "Gizmo Networks\nGizmo Networks of gizmos\n"), [2]);
    assert_eq!(banned_lines("book/a.md", "Gizmo Networks\n"), [1]);
}

#[test]
fn banned_words_of_the_committed_list_are_found_with_replacement() {
    // In pieces, because this literal is checked too.
    let findings = Glossary::get().banned_words(&rust(concat!("\n// Who", "ever sends.\n")));
    let message = findings.iter().map(Finding::to_string).collect::<String>();
    let expected = concat!(":2: banned `Who", "ever`; write: the sender, the client, the caller, any host that");
    assert_eq!(message, format!("{RUST}{expected}"));
}

#[test]
fn comment_over_120_columns_is_found() {
    let long = "x".repeat(118);
    let text = format!("// {long}\nlet a = \"{long}\";\n/// ```\n/// {long}\n/// ```\nf(); // {long}\n//{long}\n");
    assert_eq!(lines(&rules::long_lines(&rust(&text))), [1, 6]);
    let text = format!("a = \"{long}\"\n# {long}x\n");
    assert_eq!(lines(&rules::long_lines(&Source::parse("a.toml", &text))), [2]);
}

#[test]
fn markdown_prose_over_120_columns_is_found() {
    let long = "x".repeat(121);
    let text = format!("{long}\n| {long} |\n```\n{long}\n```\n[a](https://example.org/{long})\n");
    assert_eq!(lines(&rules::long_lines(&Source::parse("a.md", &text))), [1]);
}

#[test]
fn function_over_70_lines_is_found() {
    let body = |lines: usize| "    f('{', \"}\", r#\"}\"#); // }\n".repeat(lines);
    let text = format!("fn short() {{\n{}}}\n/* {{ */ fn long(a: [u8; 3]) {{\n{}}}\n", body(68), body(69));
    let findings = rules::long_functions(&rust(&text));
    assert_eq!(lines(&findings), [71]);
    assert!(findings[0].to_string().contains("function `long` of 71 lines"), "{}", findings[0]);
}

#[test]
fn function_without_body_and_function_type_are_not_found() {
    let tail = "\n".repeat(80);
    assert_eq!(lines(&rules::long_functions(&rust(&format!("trait A {{ fn a(); }}\n{tail}fn b() {{}}\n")))), NONE);
    assert_eq!(lines(&rules::long_functions(&rust(&format!("struct A(fn () -> u8);{tail}{{}}\n")))), NONE);
}

#[test]
fn file_over_600_lines_is_found() {
    assert_eq!(lines(&rules::long_files(&rust(&"\n".repeat(600)))), NONE);
    assert_eq!(lines(&rules::long_files(&rust(&"\n".repeat(601)))), [1]);
    assert_eq!(lines(&rules::long_files(&Source::parse("docs/a.md", &"\n".repeat(601)))), NONE);
}

#[test]
fn doc_comment_of_four_words_is_found() {
    let text =
        "/// Bytes.\na: u8,\n/// One of four words.\n/// Second line.\nb: u8,\n/// Bytes sent per second\nc: u8,\n";
    assert_eq!(lines(&rules::short_docs(&rust(text))), [1, 6]);
    assert_eq!(
        lines(&rules::short_docs(&rust("/// Bytes sent since the start.\n//// Bytes.\n//! Net.\n// Why.\n"))),
        NONE
    );
}

#[test]
fn file_named_like_folder_or_utils_is_found() {
    let paths = ["crates/net/src/route/route.rs", "src/utils.rs", "src/route/mod.rs", "src/route.rs", "docs/docs.md"];
    let findings = rules::file_names(&paths);
    let found: Vec<&str> = findings.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(found, paths[..2]);
}

#[test]
fn path_of_one_machine_is_found() {
    let text = format!("a\n/{0}/main\nb /{1}/x\nnet/{0}/x\n./{1}/y\n", "work", "farm");
    assert_eq!(lines(&rules::machine_paths(&Source::parse("scripts/test", &text))), [2, 3, 5]);
}

#[test]
fn placeholder_in_code_is_found() {
    let text = "// todo!()\nf(\"todo!()\");\ntodo!();\nunimplemented! { }\n";
    assert_eq!(lines(&rules::placeholders(&rust(text))), [3, 4]);
}

#[test]
fn ignore_without_reason_is_found() {
    let text = "#[ignore]\n#[ignore = \"\"]\n#[cfg_attr(miri, ignore)]\n#[ignore = \"needs root\"]\n// #[ignore]\n";
    assert_eq!(lines(&rules::placeholders(&rust(text))), [1, 2, 3]);
}

#[test]
fn fuzz_target_without_file_is_found() {
    let metadata = json!({
        "workspace_root": "/tree/fuzz",
        "packages": [{"targets": [{"src_path": "/tree/fuzz/fuzz_targets/a.rs"}]}],
    });
    let check = |manifest: &str, path: &str| {
        let findings = rules::fuzz_targets(&metadata, Path::new("/tree"), manifest, &[path]);
        findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("\n")
    };
    let excluded = "[workspace]\nexclude = [\"fuzz\"]\n";
    assert_eq!(check(excluded, "fuzz/fuzz_targets/a.rs"), "");
    assert!(check(excluded, "fuzz/fuzz_targets/b.rs").contains("`fuzz/fuzz_targets/a.rs` does not exist"));
    assert!(check(excluded, "fuzz/fuzz_targets/b.rs").contains("fuzz_targets/b.rs:1: fuzz target is not listed"));
    assert!(check("[workspace]\n", "fuzz/fuzz_targets/a.rs").contains("fuzz/ belongs to the workspace"));
    let empty = rules::fuzz_targets(&json!({}), Path::new("/tree"), excluded, &[]);
    assert_eq!(empty.len(), 2, "{empty:?}");
}

fn counts(rows: &[(&str, usize)]) -> Counts {
    rows.iter().map(|(group, count)| (("long-lines".to_owned(), (*group).to_owned()), *count)).collect()
}

#[test]
fn count_above_or_below_the_committed_one_is_found() {
    let (committed, measured) = (counts(&[("a", 2), ("b", 2), ("c", 2)]), counts(&[("a", 3), ("b", 2), ("d", 1)]));
    let expected = [("a", 2, 3), ("c", 2, 0), ("d", 0, 1)];
    let expected = expected.map(|(group, committed, measured)| Difference { group: group.into(), committed, measured });
    assert_eq!(differences("long-lines", &committed, &measured), expected);
    assert_eq!(differences("long-files", &committed, &measured), []);
}

#[test]
fn update_lowers_counts_and_raises_none() {
    let (committed, measured) = (counts(&[("a", 2), ("b", 2), ("c", 2)]), counts(&[("a", 3), ("b", 1), ("d", 1)]));
    assert_eq!(lowered(Some(&committed), &measured), counts(&[("a", 2), ("b", 1)]));
    assert_eq!(lowered(None, &measured), measured);
}

#[test]
fn update_in_ci_is_not_allowed() {
    assert!(is_update_allowed(Some("1"), None));
    assert!(!is_update_allowed(Some("1"), Some("true")));
    assert!(!is_update_allowed(None, None));
}

#[test]
fn ratchet_file_is_read_as_written() {
    let written = counts(&[("crates/net", 2), ("docs", 1)]);
    assert_eq!(render(&written), "long-lines\tcrates/net\t2\nlong-lines\tdocs\t1\n");
    assert_eq!(parse(&render(&written)), written);
    for faulty in ["long-lines\tdocs\t0\n", "other\tdocs\t1\n", "long-lines\tdocs\n"] {
        assert!(std::panic::catch_unwind(|| parse(faulty)).is_err(), "{faulty}");
    }
}

#[test]
fn path_is_grouped_by_crate_or_top_folder() {
    let paths = ["crates/net/src/lib.rs", "docs/a/b.md", "README.md"];
    assert_eq!(paths.map(group), ["crates/net", "docs", "."]);
}

#[test]
fn diff_without_context_yields_added_lines() {
    let diff =
        "--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@ fn a\n@@ -3,2 +4,3 @@\n@@ -9,2 +10,0 @@\n--- a/y.rs\n+++ /dev/null\n";
    let changes = parse_diff(diff);
    assert_eq!(changes.into_iter().collect::<Vec<_>>(), [("x.rs".to_owned(), vec![1..=1, 4..=6])]);
}
