//! Header at the start of every datagram.

/// Length in bytes, and the minimum length of a datagram.
pub const LENGTH: usize = 24;

const MAGIC: u32 = 0x616e_6272;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub flow: u32,
    /// Number of the packet in its flow, from 0.
    pub sequence: u64,
    /// Sending time, nanoseconds of CLOCK_MONOTONIC.
    pub sent_ns: u64,
}

impl Header {
    /// Writes the header to a payload of at least [`LENGTH`] bytes.
    pub fn write(&self, payload: &mut [u8]) {
        payload[..4].copy_from_slice(&MAGIC.to_be_bytes());
        payload[4..8].copy_from_slice(&self.flow.to_be_bytes());
        payload[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        payload[16..24].copy_from_slice(&self.sent_ns.to_be_bytes());
    }

    /// Reads a header; `None` for datagrams of other programs.
    pub fn read(payload: &[u8]) -> Option<Header> {
        let word = |at: usize| Some(u64::from_be_bytes(*payload.get(at..)?.first_chunk()?));
        let (first, sequence, sent_ns) = (word(0)?, word(8)?, word(16)?);
        (first >> 32 == u64::from(MAGIC)).then_some(Header { flow: first as u32, sequence, sent_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_header_is_read_and_other_bytes_are_rejected() {
        let header = Header { flow: 7, sequence: 1 << 40, sent_ns: 123 };
        let mut payload = [0; 30];
        header.write(&mut payload);
        assert_eq!(Header::read(&payload), Some(header));
        (0..LENGTH).for_each(|length| assert_eq!(Header::read(&payload[..length]), None));
        payload[0] ^= 1;
        assert_eq!(Header::read(&payload), None);
    }
}
