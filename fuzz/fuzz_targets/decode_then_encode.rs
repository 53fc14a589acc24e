//! Encodes every decoded message: the length equals `wire_len`, and decoding again yields the same message.
#![no_main]

use anabranch_openflow::wire::{decode, encode};
use anabranch_openflow::wire_len;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(Some((envelope, _))) = decode(bytes) else { return };
    let mut written = Vec::new();
    encode(&envelope, &mut written).unwrap();
    assert_eq!(written.len(), wire_len(&envelope.message));
    assert_eq!(decode(&written).unwrap(), Some((envelope, written.len())));
});
