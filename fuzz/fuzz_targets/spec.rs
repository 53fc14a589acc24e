//! Any text as a topology spec answers or refuses, but never panics.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = anabranch_net::spec::parse(text);
});
