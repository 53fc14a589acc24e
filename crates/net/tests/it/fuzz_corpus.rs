//! The checks of the fuzz targets on stable Rust: committed corpora, and real files damaged.

use std::path::{Path, PathBuf};

use anabranch_net::import::{self, ImportError, ImportOptions, Imported};
use anabranch_net::spec;
use proptest::prelude::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn import_as(extension: &str, bytes: &[u8]) -> Result<Imported, ImportError> {
    let text = String::from_utf8_lossy(bytes);
    let path = PathBuf::from(format!("fuzz.{extension}"));
    import::read(&path, &text, &ImportOptions::default())
}

/// Real files small enough to be truncated at every byte.
const VICTIMS: [(&str, &str); 5] = [
    ("json", "geni_wan.json"),
    ("json", "geni_two_servers.json"),
    ("topo", "htsim/leaf_spine_tiny.topo"),
    ("topo", "htsim/fat_tree_128_4os.topo"),
    ("graphml", "zoo/Nsfnet.graphml"),
];

fn victim(which: usize) -> (&'static str, Vec<u8>) {
    let (extension, file) = VICTIMS[which];
    let path = root().join("data/topologies").join(file);
    (extension, std::fs::read(path).unwrap())
}

#[test]
fn committed_corpora_never_panic() {
    let mut replayed = 0;
    for target in ["graphml", "topo", "json", "spec"] {
        for entry in std::fs::read_dir(root().join("fuzz/corpus").join(target)).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            match target {
                "spec" => drop(spec::parse(&String::from_utf8_lossy(&bytes))),
                _ => drop(import_as(target, &bytes)),
            }
            replayed += 1;
        }
    }
    assert!(replayed >= 20, "{replayed} files are too few to be the corpora");
}

#[test]
fn truncated_files_fail_at_their_end() {
    for (which, (_, file)) in VICTIMS.iter().enumerate() {
        let (extension, bytes) = victim(which);
        for end in 0..bytes.len() {
            let Err(error) = import_as(extension, &bytes[..end]) else {
                // Only white space or the optional last lines of a `.topo` file may be missing.
                assert!(bytes.len() - end < 40, "{} at {end}", file);
                continue;
            };
            // Text that is well-formed up to the cut must be reported at its end.
            let lines = String::from_utf8_lossy(&bytes[..end]).lines().count().max(1) as u32;
            match error {
                ImportError::Text { line, .. } => {
                    assert!((1..=lines + 1).contains(&line), "line {line} of {lines}");
                }
                other => panic!("{} cut at {end}: no line in `{other}`", file),
            }
        }
    }
}

proptest! {
    #[test]
    fn damaged_files_never_panic(
        which in 0..VICTIMS.len(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let (extension, mut bytes) = victim(which);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = import_as(extension, &bytes);
    }

    #[test]
    fn files_with_other_numbers_never_panic(
        which in 0..VICTIMS.len(),
        at in any::<prop::sample::Index>(),
        number in prop_oneof!["[0-9]{1,20}", "-[0-9]{1,3}", "[0-9]\\.[0-9]{1,3}e[0-9]{1,3}"],
    ) {
        let (extension, bytes) = victim(which);
        let text = String::from_utf8(bytes).unwrap();
        let digits: Vec<(usize, &str)> = text.match_indices(|c: char| c.is_ascii_digit()).collect();
        let (start, _) = digits[at.index(digits.len())];
        let changed = [&text[..start], number.as_str(), &text[start + 1..]].concat();
        let _ = import_as(extension, changed.as_bytes());
    }

    #[test]
    fn any_text_never_panics(text in "\\PC{0,200}") {
        for extension in ["json", "graphml", "topo"] {
            let _ = import_as(extension, text.as_bytes());
        }
        let _ = spec::parse(&text);
    }

    #[test]
    fn any_spec_of_a_family_never_panics(
        family in 0..spec::FAMILIES.len(),
        values in proptest::collection::vec(
            prop_oneof!["[0-9]", "[0-9]{9,12}", "[0-9]{1,3}Gbps", "[0-9]{1,3}us", "[1-9]/[1-9](/[1-9])?"],
            8,
        ),
    ) {
        let family = &spec::FAMILIES[family];
        let given = family.params.iter().zip(&values);
        let given: Vec<String> = given.map(|(param, value)| format!("{}={value}", param.name)).collect();
        let text = format!("{}:{}", family.name, given.join(","));
        let _ = spec::parse(&text);
    }
}
