//! The parts of the controller depend on each other in one direction only.

use std::fs;
use std::path::{Path, PathBuf};

/// Modules of the crate, lowest first. A module uses those before it and itself.
const LAYERS: &[&str] = &[
    "hosts",
    "addressing",
    "limits",
    "changes",
    "channels",
    "updater",
    "observer",
    "planner",
    "vip",
    "edge",
    "inspect",
    "format",
    "controller",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the code of every source file with its path below `src`.
fn code() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    sources(&root, &mut found);
    found.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a source file");
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let name = path.strip_prefix(&root).expect("a path below the root").display().to_string();
        (name, text.lines().filter(is_code).collect::<Vec<_>>().join("\n"))
    };
    found.into_iter().map(read).collect()
}

fn layer_of(name: &str) -> Option<usize> {
    let module = name.split(['/', '.']).next()?;
    LAYERS.iter().position(|layer| *layer == module)
}

#[test]
fn no_part_uses_a_part_above_it() {
    let mut upward = Vec::new();
    for (name, text) in code() {
        let Some(own) = layer_of(&name) else {
            assert_eq!(name, "lib.rs", "every module of the crate has its place in LAYERS");
            continue;
        };
        for (above, layer) in LAYERS.iter().enumerate().skip(own + 1) {
            if text.contains(&format!("crate::{layer}::")) || text.contains(&format!("crate::{layer};")) {
                upward.push(format!("{name} (layer {own}) uses {layer} (layer {above})"));
            }
        }
    }
    assert!(upward.is_empty(), "{upward:#?}");
}

#[test]
fn controller_is_implemented_in_one_file() {
    let implements = |(name, text): (String, String)| text.contains("impl Controller").then_some(name);
    let files: Vec<String> = code().into_iter().filter_map(implements).collect();
    assert_eq!(files, ["controller.rs"]);
}
