//! Imports any text as `.topo`: accepted or rejected, but without panic.
#![no_main]

use anabranch_net::import::{ImportOptions, read};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = read(std::path::Path::new("fuzz.topo"), text, &ImportOptions::default());
});
