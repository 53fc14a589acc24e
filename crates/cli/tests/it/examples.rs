//! The experiment files of the repository: every file is valid, and every balancer has an example.

use std::path::{Path, PathBuf};

use experiment::Experiment;
use experiment::reproduction::is_index;

use crate::common::{EXPERIMENTS, files_below};

/// Returns the files below a folder of experiments.
fn files(folder: &str) -> Vec<PathBuf> {
    files_below(&Path::new(EXPERIMENTS).join(folder), "toml").into_iter().filter(|path| !is_index(path)).collect()
}

#[test]
fn every_balancer_has_an_example() {
    let entries: Vec<&balance::Entry> = balance::registry::all().collect();
    for entry in &entries {
        let file = Path::new(EXPERIMENTS).join(format!("balancers/{}.toml", entry.name));
        let experiment = Experiment::load(&file, &[]).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        assert_eq!(experiment.balancers[0].entry.name, entry.name, "the example is about its balancer");
        assert!(experiment.balancers.len() > 1, "{} is compared with nothing", entry.name);
        assert!(experiment.question.is_some(), "{} asks nothing", entry.name);
    }
    assert_eq!(files("balancers").len(), entries.len(), "a stray example");
}

#[test]
fn every_experiment_is_valid_alone_and_in_matrix() {
    let files = files("");
    for file in &files {
        for experiment in [Experiment::load(file, &[]), Experiment::load_for_matrix(file, &[])] {
            let experiment = experiment.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert!(experiment.run_count() > 0);
        }
    }
    assert!(files.len() > 40, "{}", files.len());
}

#[test]
fn the_canon_has_every_balancer() {
    for file in files("canon") {
        let experiment = Experiment::load(&file, &[]).unwrap();
        let has = |name: &str| experiment.balancers.iter().any(|spec| spec.label() == name);
        for entry in balance::registry::DATAPLANE.iter().filter(|entry| !entry.is_bound()) {
            assert!(has(entry.name), "{} lacks {}", file.display(), entry.name);
        }
        assert!(has("optimum"), "{}", file.display());
    }
}
