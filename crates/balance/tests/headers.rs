//! Every balancer's file begins with a header that its page in the book is made of: what it is,
//! where it helps, where it hurts.

use std::fs;
use std::path::{Path, PathBuf};

use anabranch_balance::registry;

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn every_header_says_where_it_helps_and_where_it_hurts() {
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    for entry in registry::all() {
        let name = format!("\"{}\",", entry.name);
        let declares = |text: &&String| {
            let declaration = text.split_once("ENTRY: Entry =").map(|(_, after)| after.trim_start());
            let arguments = declaration.and_then(|declaration| declaration.strip_prefix("Entry::declare("));
            arguments.is_some_and(|arguments| arguments.trim_start().starts_with(&name))
        };
        let mut of = texts.iter().filter(declares);
        let (Some(text), None) = (of.next(), of.next()) else {
            panic!("`{}` has no file with an entry that begins with its name", entry.name)
        };
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        for label in ["//! - Helps: ", "//! - Hurts: "] {
            let count = header.iter().filter(|line| line.starts_with(label) && line.len() > label.len() + 10).count();
            assert_eq!(count, 1, "the header of `{}` has {count} lines that begin with `{label}`", entry.name);
        }
    }
}
