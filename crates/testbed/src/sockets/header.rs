//! The first bytes of every datagram.

/// Length, bytes: no datagram is shorter.
pub const LENGTH: usize = 24;

const MAGIC: u32 = 0x616e_6272;

/// What a datagram says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Position of the flow in the list.
    pub flow: u32,
    /// Number of the packet in its flow, from 0.
    pub sequence: u64,
    /// When it was sent, nanoseconds of CLOCK_MONOTONIC.
    pub sent_ns: u64,
}

impl Header {
    /// Puts it at the front of a payload of at least [`LENGTH`] bytes.
    pub fn write(&self, payload: &mut [u8]) {
        payload[..4].copy_from_slice(&MAGIC.to_be_bytes());
        payload[4..8].copy_from_slice(&self.flow.to_be_bytes());
        payload[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        payload[16..24].copy_from_slice(&self.sent_ns.to_be_bytes());
    }

    /// Reads it; `None` for what is not ours.
    pub fn read(payload: &[u8]) -> Option<Header> {
        let (magic, rest) = payload.split_first_chunk::<4>()?;
        let (flow, rest) = rest.split_first_chunk::<4>()?;
        let (sequence, rest) = rest.split_first_chunk::<8>()?;
        let sent_ns = rest.first_chunk::<8>()?;
        (u32::from_be_bytes(*magic) == MAGIC).then(|| Header {
            flow: u32::from_be_bytes(*flow),
            sequence: u64::from_be_bytes(*sequence),
            sent_ns: u64::from_be_bytes(*sent_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_other_bytes_are_not_ours() {
        let header = Header { flow: 7, sequence: 1 << 40, sent_ns: 123 };
        let mut payload = [0; 30];
        header.write(&mut payload);
        assert_eq!(Header::read(&payload), Some(header));
        (0..LENGTH).for_each(|length| assert_eq!(Header::read(&payload[..length]), None));
        payload[0] ^= 1;
        assert_eq!(Header::read(&payload), None);
    }
}
