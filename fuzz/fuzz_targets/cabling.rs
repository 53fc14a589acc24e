//! Imports any text as a file of an operator: accepted or rejected, but without panic.
#![no_main]

use anabranch_net::import::{ImportOptions, cabling};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = cabling::read("fuzz", &[("leaf0.json", text)], &ImportOptions::default());
});
