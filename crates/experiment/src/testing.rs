//! A small experiment for tests.

use std::path::Path;

use crate::input::{Experiment, Override};

pub(crate) const SMALL: &str = r#"
name = "small"
seeds = 2
balancers = ["ecmp", "spray"]
[topology]
spec = "leaf-spine:leaves=2,spines=2,hosts_per_leaf=2"
[traffic]
workload = "fixed:size=10KB"
load = [0.1, 0.5]
flows = 20
"#;

/// Parses [`SMALL`] with overrides.
pub(crate) fn small(overrides: &[(&str, &str)]) -> Experiment {
    let overrides: Vec<Override> = overrides.iter().map(|(key, value)| Override::set(key, value)).collect();
    Experiment::parse("small.toml", SMALL, "small", Path::new("."), &overrides).expect("the file of the test is valid")
}
