//! The layers of the engine depend on each other in one direction only.

use std::fs;
use std::path::{Path, PathBuf};

/// Layers, lowest first, and the modules of the crate that they may use besides their own. The parts
/// of a packet's way know nothing of those that follow: links nothing of switches, switches nothing
/// of flows, transports nothing of the network.
const LAYERS: &[(&str, &[&str])] = &[
    ("timers", &[]),
    ("queue", &[]),
    ("packet", &["queue"]),
    ("links", &["failures", "numbering", "outcome", "packet", "queue", "scenario"]),
    ("switching", &["links", "numbering", "outcome", "packet", "queue", "scenario", "timers"]),
    ("transport", &["bits", "checks", "packet", "scenario", "timers", "SimError"]),
];

fn sources(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_file() {
        found.push(path.to_owned());
    } else {
        let entries = fs::read_dir(path).expect("a folder of sources");
        entries.for_each(|entry| sources(&entry.expect("an entry of a folder").path(), found));
    }
}

/// Returns the modules of the crate that a text uses.
fn used(text: &str) -> Vec<&str> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let parts = text.lines().filter(is_code).flat_map(|line| line.split("crate::").skip(1));
    parts.map(|rest| rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or(rest)).collect()
}

#[test]
fn no_layer_uses_one_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (layer, allowed) in LAYERS {
        let mut files = Vec::new();
        let folder = root.join(layer);
        sources(&if folder.is_dir() { folder } else { root.join(layer).with_extension("rs") }, &mut files);
        assert!(!files.is_empty(), "{layer} has moved");
        for file in files {
            let text = fs::read_to_string(&file).expect("a source file");
            let upward: Vec<&str> =
                used(&text).into_iter().filter(|name| name != layer && !allowed.contains(name)).collect();
            assert!(upward.is_empty(), "{} uses {upward:?}", file.display());
        }
    }
}

#[test]
fn uses_are_found_outside_comments() {
    assert_eq!(
        used("use crate::hosts::slots::Slot;\n// crate::engine\nlet x = crate::SimError::A;"),
        ["hosts", "SimError"]
    );
}
