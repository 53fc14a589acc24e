//! The files of the workspace and the lines that differ from the last commit.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::source::Source;

/// Every text file of the workspace.
pub struct Tree {
    pub files: Vec<Source>,
}

impl Tree {
    /// Reads the workspace once per process.
    pub fn get() -> &'static Self {
        static TREE: LazyLock<Tree> = LazyLock::new(Tree::read);
        &TREE
    }

    fn read() -> Self {
        let root = workspace();
        let mut paths = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .map_or_else(|| walk(&root), |output| output.split_terminator('\0').map(str::to_owned).collect());
        paths.sort();
        paths.dedup();
        // A file deleted since the last commit is still in the index; a file that is not UTF-8 is binary.
        let files = paths
            .iter()
            .filter_map(|path| Some(Source::parse(path, &fs::read_to_string(root.join(path)).ok()?)))
            .collect();
        Self { files }
    }
}

pub fn workspace() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/cli is two folders deep");
    root.to_owned()
}

/// Returns the crate of a path (`crates/net`), its top folder (`docs`), or `.` for a file of the root folder.
pub fn group(path: &str) -> &str {
    let first = path.find('/').map_or(".", |end| &path[..end]);
    if first != "crates" {
        return first;
    }
    let crate_folder = &path["crates/".len()..];
    crate_folder.find('/').map_or(first, |end| &path[.."crates/".len() + end])
}

/// Runs git in the workspace. Returns `None` if git is missing or fails, for example outside a checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(workspace()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lists the files below the workspace without git, except hidden and generated ones.
fn walk(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("folders of the workspace are readable") {
            let path = entry.expect("entries of the workspace are readable").path();
            let below = path.strip_prefix(root).expect("the walk starts at the root").to_string_lossy().into_owned();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || matches!(name.as_ref(), "target" | "__pycache__") || below == "results" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                paths.push(below);
            }
        }
    }
    paths
}

/// The lines of the working tree that differ from the last commit. Empty without git.
pub fn changed_lines() -> BTreeMap<String, Vec<RangeInclusive<usize>>> {
    let arguments =
        ["diff", "--unified=0", "--no-color", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/", "HEAD"];
    let mut changes = parse_diff(&git(&arguments).unwrap_or_default());
    let untracked = git(&["ls-files", "-z", "--others", "--exclude-standard"]).unwrap_or_default();
    changes.extend(untracked.split_terminator('\0').map(|path| (path.to_owned(), vec![1..=usize::MAX])));
    changes
}

/// Returns the added lines per file of a diff without context lines.
pub fn parse_diff(diff: &str) -> BTreeMap<String, Vec<RangeInclusive<usize>>> {
    let mut changes: BTreeMap<String, Vec<RangeInclusive<usize>>> = BTreeMap::new();
    let mut path = None;
    for line in diff.lines() {
        if let Some(name) = line.strip_prefix("+++ b/") {
            path = Some(name.to_owned());
        } else if let (Some(header), Some(path)) = (line.strip_prefix("@@ "), &path) {
            let Some(added) = header.split(' ').find_map(|field| field.strip_prefix('+')) else { continue };
            let (start, count) = added.split_once(',').unwrap_or((added, "1"));
            if let (Ok(start), Ok(count @ 1..)) = (start.parse::<usize>(), count.parse::<usize>()) {
                changes.entry(path.clone()).or_default().push(start..=start + count - 1);
            }
        }
    }
    changes
}
