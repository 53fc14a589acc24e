//! Importing any text as .topo answers or refuses, but never panics.
#![no_main]

use anabranch_net::import::{ImportOptions, read};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = read(std::path::Path::new("fuzz.topo"), text, &ImportOptions::default());
});
