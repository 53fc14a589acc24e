//! A small experiment for tests.

use std::path::Path;

use crate::input::{Experiment, FileError, Override};

pub(crate) const SMALL: &str = include_str!("../tests/data/fixed-size.toml");

pub(crate) fn read_small(overrides: &[(&str, &str)]) -> Result<Experiment, FileError> {
    let overrides: Vec<Override> = overrides.iter().map(|(key, value)| Override::set(key, value)).collect();
    Experiment::parse("small.toml", SMALL, "small", Path::new("."), &overrides)
}

pub(crate) fn small(overrides: &[(&str, &str)]) -> Experiment {
    read_small(overrides).expect("the file of the test is valid")
}
