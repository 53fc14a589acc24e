//! Messages that a real Open vSwitch sent (`tests/captures/README.md`).

use anabranch_openflow::wire::{VERSION, decode, encode};
use anabranch_openflow::{Envelope, Message, MultipartReply, wire_len};

use crate::{files_in, messages_of};

/// Asserts that bytes are decoded, and have the same meaning when encoded again.
pub fn check(name: &str, bytes: &[u8]) {
    for envelope in messages_of(bytes) {
        let mut written = Vec::new();
        encode(&envelope, &mut written).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(written.len(), wire_len(&envelope.message), "{name}");
        assert_eq!(decode(&written), Ok(Some((envelope, written.len()))), "{name}");
    }
}

/// The captured messages, by file name without its ending.
fn all() -> Vec<(String, Vec<u8>)> {
    let files = files_in("tests/captures").into_iter();
    let captures = files.filter(|(path, _)| path.extension().is_some_and(|extension| extension == "bin"));
    captures.map(|(path, bytes)| (path.file_stem().unwrap().to_str().unwrap().to_owned(), bytes)).collect()
}

#[test]
fn captures_are_understood() {
    let captures = all();
    assert!(captures.len() >= 30, "{} captures are too few", captures.len());
    for (name, bytes) in captures {
        check(&name, &bytes);
    }
}

/// Returns whether a message is encoded differently: Open vSwitch reports every port as live, and
/// has a different order of match fields.
fn is_written_otherwise(message: &Message) -> bool {
    match message {
        Message::PortStatus { .. } => true,
        Message::MultipartReply { reply, .. } => matches!(reply, MultipartReply::Flow(_)),
        _ => false,
    }
}

#[test]
fn captures_are_written_as_they_were() {
    let mut same = 0;
    for (name, bytes) in all() {
        let mut rest = &bytes[..];
        for envelope in messages_of(&bytes) {
            let (now, later) = rest.split_at(usize::from(u16::from_be_bytes([rest[2], rest[3]])));
            rest = later;
            let mut written = Vec::new();
            encode(&envelope, &mut written).unwrap();
            if matches!(envelope.message, Message::Hello { .. }) && now[0] != VERSION {
                continue; // A hello of 1.0 has no bitmap; the encoder writes one.
            }
            assert_eq!(written.len(), now.len(), "{name}");
            if !is_written_otherwise(&envelope.message) {
                assert_eq!(written, now, "{name}: {envelope:?}");
                same += 1;
            }
        }
    }
    assert!(same >= 25, "only {same}");
}

#[test]
fn damaged_captures_never_panic() {
    for (_, bytes) in all() {
        let mut bytes = bytes;
        bytes.truncate(1024);
        for at in 0..bytes.len() {
            let before = bytes[at];
            for value in [0, 1, 0x7f, 0x80, 0xff, before ^ 1, before.wrapping_add(8)] {
                bytes[at] = value;
                crate::damage::check(&bytes);
            }
            bytes[at] = before;
            crate::damage::check(&bytes[..at]);
        }
    }
}

#[test]
fn rules_of_others_survive_whole() {
    let foreign: Vec<_> = all().into_iter().filter(|(name, _)| name.starts_with("flow_foreign")).collect();
    assert_eq!(foreign.len(), 4);
    for (name, bytes) in foreign {
        let messages = messages_of(&bytes);
        let [Envelope { message: Message::MultipartReply { reply, .. }, .. }] = &messages[..] else { panic!("{name}") };
        let MultipartReply::Partial { known, opaque } = reply else { panic!("{name}: {reply:?}") };
        assert_eq!(**known, MultipartReply::Flow(Vec::new()), "{name}");
        assert_eq!(opaque.concat(), &bytes[16..], "{name}");
    }
}
