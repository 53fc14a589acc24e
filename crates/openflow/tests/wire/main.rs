//! Bytes of OpenFlow 1.3: to values and back, damaged, and as Open vSwitch writes and reads them.

mod captures;
mod damage;
mod fuzz_corpus;
mod goldens;
mod lengths;
mod live;
mod live_monitor;
mod open_vswitch;
mod partial;
mod refusals;
mod round_trip;
mod switch;
mod unencodable;
mod values;

use std::path::{Path, PathBuf};

use anabranch_openflow::Envelope;
use anabranch_openflow::wire::{decode, encode};

/// Returns the files of a directory of this crate with their contents, by path.
fn files_in(directory: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    files.sort();
    files
}

fn bytes_from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Encodes a message that has an encoding.
fn bytes_of(envelope: &Envelope) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(envelope, &mut bytes).unwrap();
    bytes
}

/// Decodes bytes that must contain complete messages only.
fn messages_of(mut bytes: &[u8]) -> Vec<Envelope> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let (envelope, length) = decode(bytes).unwrap().expect("a whole message");
        messages.push(envelope);
        bytes = &bytes[length..];
    }
    messages
}
