//! Bytes of OpenFlow 1.3: to values and back, damaged, and as Open vSwitch writes and reads them.

mod captures;
mod damage;
mod fuzz_corpus;
mod goldens;
mod live;
mod open_vswitch;
mod refusals;
mod round_trip;
mod split;
mod switch;
mod values;

use anabranch_openflow::Envelope;
use anabranch_openflow::wire::{decode, encode};

/// The bytes of a message that must have some.
fn bytes_of(envelope: &Envelope) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(envelope, &mut bytes).unwrap();
    bytes
}

/// All messages of bytes that must hold nothing else.
fn messages_of(mut bytes: &[u8]) -> Vec<Envelope> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let (envelope, length) = decode(bytes).unwrap().expect("a whole message");
        messages.push(envelope);
        bytes = &bytes[length..];
    }
    messages
}
