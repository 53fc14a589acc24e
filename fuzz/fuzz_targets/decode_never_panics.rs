//! Any bytes as a stream of OpenFlow messages are answered, waited for or refused, but never panic.
#![no_main]

use anabranch_openflow::wire::decode;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Some(length) = match decode(rest) {
        Ok(Some((_, length))) => Some(length),
        Ok(None) => None,
        Err(error) => error.skip,
    } {
        rest = &rest[length..];
    }
});
