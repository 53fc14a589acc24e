//! Bytes that are cut or damaged are refused, or are another message; nothing panics.

use anabranch_openflow::wire::{HEADER_LEN, decode, encode};
use proptest::prelude::*;

use crate::goldens;
use crate::values::envelope;

/// Asserts of any bytes: a message ends within them and survives encoding and decoding; the offset
/// and `skip` of an error are within them.
pub fn check(bytes: &[u8]) {
    match decode(bytes) {
        Ok(None) => {}
        Ok(Some((envelope, length))) => {
            assert!((HEADER_LEN..=bytes.len()).contains(&length));
            let mut written = Vec::new();
            encode(&envelope, &mut written).unwrap_or_else(|error| panic!("{envelope:?}: {error}"));
            let again = decode(&written).unwrap_or_else(|error| panic!("{envelope:?}: {error}"));
            assert_eq!(again, Some((envelope, written.len())));
        }
        Err(error) => {
            let end = error.skip.unwrap_or(HEADER_LEN);
            assert!(error.offset <= end && end <= bytes.len(), "{error:?} in {} bytes", bytes.len());
            assert!(!error.message.is_empty());
        }
    }
}

#[test]
fn incomplete_golden_is_not_decoded() {
    for golden in goldens::all() {
        let bytes = golden.bytes();
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), Ok(None), "{} at {end}", golden.name);
        }
    }
}

/// The length in the header is that of the cut message.
#[test]
fn goldens_cut_and_declared_short_never_panic() {
    let mut refused = 0;
    for golden in goldens::all() {
        let bytes = golden.bytes();
        for end in 4..bytes.len() {
            let mut cut = bytes[..end].to_vec();
            cut[2..4].copy_from_slice(&(end as u16).to_be_bytes());
            check(&cut);
            refused += u32::from(decode(&cut).is_err());
        }
    }
    assert!(refused > 1000, "only {refused} refused");
}

#[test]
fn goldens_with_one_byte_changed_never_panic() {
    for golden in goldens::all() {
        let mut bytes = golden.bytes();
        // Further bytes, so that a larger length does not exceed them.
        let length = bytes.len();
        bytes.extend([0x5a; 300]);
        for at in 0..length {
            let before = bytes[at];
            for value in 0..=255 {
                bytes[at] = value;
                check(&bytes);
            }
            bytes[at] = before;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn values_damaged_anywhere_never_panic(
        envelope in envelope(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = crate::bytes_of(&envelope);
        for (at, value) in damage {
            // The header stays, so that the damage is inside.
            if bytes.len() > HEADER_LEN {
                let at = HEADER_LEN + at.index(bytes.len() - HEADER_LEN);
                bytes[at] = value;
            }
        }
        check(&bytes);
        let end = HEADER_LEN + end.index(bytes.len() - HEADER_LEN + 1);
        bytes.truncate(end);
        check(&bytes);
        bytes[2..4].copy_from_slice(&(end as u16).to_be_bytes());
        check(&bytes);
    }

    #[test]
    fn any_bytes_never_panic(
        kind in 0..30u8,
        mut bytes in proptest::collection::vec(prop_oneof![Just(0u8), 0..32u8, any::<u8>()], 8..200),
    ) {
        check(&bytes);
        let length = bytes.len() as u16;
        bytes[..2].copy_from_slice(&[4, kind]);
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        check(&bytes);
    }
}
