//! The experiment files of the repository: every file is valid, and every balancer has an example.

use std::path::{Path, PathBuf};

use experiment::Experiment;
use experiment::reproduction::is_index;

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_file = |path: &PathBuf| path.extension().is_some_and(|end| end == "toml") && !is_index(path);
    let mut files: Vec<PathBuf> = entries.filter(is_file).collect();
    files.sort();
    files
}

#[test]
fn every_balancer_has_an_example() {
    let entries: Vec<&balance::Entry> = balance::registry::all().collect();
    for entry in &entries {
        let file = experiments().join(format!("balancers/{}.toml", entry.name));
        let experiment = Experiment::load(&file, &[]).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        assert_eq!(experiment.balancers[0].entry.name, entry.name, "the example is about its balancer");
        assert!(experiment.balancers.len() > 1, "{} is compared with nothing", entry.name);
        assert!(experiment.question.is_some(), "{} asks nothing", entry.name);
    }
    assert_eq!(files(&experiments().join("balancers")).len(), entries.len(), "a stray example");
}

#[test]
fn every_experiment_is_valid_alone_and_in_matrix() {
    let mut count = 0;
    for folder in std::fs::read_dir(experiments()).unwrap().map(|entry| entry.unwrap().path()) {
        for file in files(&folder) {
            for experiment in [Experiment::load(&file, &[]), Experiment::load_for_matrix(&file, &[])] {
                let experiment = experiment.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                assert!(experiment.run_count() > 0);
            }
            count += 1;
        }
    }
    assert!(count > 40, "{count}");
}

#[test]
fn the_canon_has_every_balancer() {
    for file in files(&experiments().join("canon")) {
        let experiment = Experiment::load(&file, &[]).unwrap();
        let has = |name: &str| experiment.balancers.iter().any(|spec| spec.label() == name);
        for entry in balance::registry::DATAPLANE.iter().filter(|entry| !entry.is_bound()) {
            assert!(has(entry.name), "{} lacks {}", file.display(), entry.name);
        }
        assert!(has("optimum"), "{}", file.display());
    }
}
