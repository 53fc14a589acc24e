//! Header at the start of every datagram.

/// Length in bytes, and the minimum length of a datagram.
pub const LENGTH: usize = 24;

const MAGIC: u32 = 0x616e_6272;

/// Header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Position of the flow in the list.
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
