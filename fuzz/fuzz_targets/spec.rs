//! Parses any text as a topology spec: accepted or rejected, but without panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = anabranch_net::spec::parse(text);
});
