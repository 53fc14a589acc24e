//! BMP sessions: any bytes, in chunks of any size, are events or an error, never a panic.
//!
//! The first byte is the size of the chunks.
#![no_main]

use anabranch_bgp::bmp::Decoder;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((size, bytes)) = bytes.split_first() else { return };
    let (mut decoder, mut events) = (Decoder::default(), Vec::new());
    for chunk in bytes.chunks(usize::from(*size).max(1)) {
        if decoder.push(chunk, &mut events).is_err() {
            return;
        }
    }
});
