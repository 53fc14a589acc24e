//! Decodes any bytes as a stream of OpenFlow messages: complete, incomplete or rejected, but without panic.
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
