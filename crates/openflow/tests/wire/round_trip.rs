//! Encoding and decoding of random values.

use anabranch_openflow::wire::{decode, encode};
use anabranch_openflow::wire_len;
use proptest::prelude::*;

use crate::values::envelope;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn values_survive(envelope in envelope(), behind in proptest::collection::vec(any::<u8>(), 0..9)) {
        let mut bytes = vec![0xee; 3];
        encode(&envelope, &mut bytes).unwrap();
        prop_assert_eq!(&bytes[..3], [0xee; 3]);
        let mut bytes = bytes.split_off(3);
        prop_assert_eq!(bytes.len(), wire_len(&envelope.message));
        prop_assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), bytes.len());
        let length = bytes.len();
        // What follows belongs to the next message.
        bytes.extend(behind);
        prop_assert_eq!(decode(&bytes), Ok(Some((envelope, length))));
    }
}
