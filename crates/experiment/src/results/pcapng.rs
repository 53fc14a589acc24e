//! Writer of captures in the pcapng format (draft-ietf-opsawg-pcapng): a section header, one
//! interface for each link, and the packets in the order of arrival, with simulated time in
//! nanoseconds.

use sim::Capture;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// Written in the byte order of the file, which readers find out by it.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const ETHERNET: u16 = 1;
const NO_LENGTH: u64 = u64::MAX;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_APPLICATION: u16 = 4;
const OPTION_NAME: u16 = 2;
const OPTION_SPEED: u16 = 8;
const OPTION_RESOLUTION: u16 = 9;
/// Time stamps in units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// A link in a capture.
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) rate_bps: u64,
}

/// Returns the content of a file.
pub(crate) fn file(interfaces: &[Interface], capture: &Capture) -> Vec<u8> {
    let mut out = Vec::new();
    let mut header = Vec::new();
    header.extend(BYTE_ORDER.to_le_bytes());
    header.extend([1u16, 0].into_iter().flat_map(u16::to_le_bytes)); // Version 1.0.
    header.extend(NO_LENGTH.to_le_bytes());
    if capture.packets_left_out > 0 {
        let comment = format!("{} further packets are left out: see probes.capture_packets", capture.packets_left_out);
        option(&mut header, OPTION_COMMENT, comment.as_bytes());
    }
    option(&mut header, OPTION_APPLICATION, b"anabranch");
    option(&mut header, OPTION_END, b"");
    block(&mut out, SECTION_HEADER, &header);
    for interface in interfaces {
        let mut body = Vec::new();
        body.extend([ETHERNET, 0].into_iter().flat_map(u16::to_le_bytes));
        body.extend(0u32.to_le_bytes()); // No limit of captured bytes.
        option(&mut body, OPTION_NAME, interface.name.as_bytes());
        option(&mut body, OPTION_SPEED, &interface.rate_bps.to_le_bytes());
        option(&mut body, OPTION_RESOLUTION, &[NANOSECONDS]);
        option(&mut body, OPTION_END, b"");
        block(&mut out, INTERFACE, &body);
    }
    for packet in &capture.packets {
        let ns = packet.at.as_ps() / 1_000;
        let captured = packet.headers.len() as u32;
        let mut body = Vec::with_capacity(20 + packet.headers.len() + 3);
        // Time stamps have their upper half first.
        let words = [packet.link, (ns >> 32) as u32, ns as u32, captured, packet.frame_len];
        body.extend(words.into_iter().flat_map(u32::to_le_bytes));
        padded(&mut body, &packet.headers);
        block(&mut out, ENHANCED_PACKET, &body);
    }
    out
}

fn block(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let len = (body.len() as u32 + 12).to_le_bytes();
    out.extend(kind.to_le_bytes());
    out.extend(len);
    out.extend(body);
    out.extend(len);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    padded(body, value);
}

/// Adds bytes, and zeros up to a multiple of four.
fn padded(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend(bytes);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use net::Time;
    use sim::CapturedPacket;

    use super::*;

    /// Splits a file into blocks, and checks the length at both ends of each.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let len = word(bytes, 4) as usize;
            assert!(len.is_multiple_of(4) && word(bytes, len - 4) as usize == len);
            blocks.push((word(bytes, 0), bytes[8..len - 4].to_vec()));
            bytes = &bytes[len..];
        }
        blocks
    }

    #[test]
    fn file_has_a_section_an_interface_per_link_and_the_packets() {
        let interface = |name: &str| Interface { name: name.into(), rate_bps: 10_000_000_000 };
        let packet =
            CapturedPacket { at: Time::from_ps(5_000_000_000_001_999), link: 1, frame_len: 1514, headers: vec![7; 54] };
        let capture = Capture { packets: vec![packet], packets_left_out: 0 };
        let file = file(&[interface("a->b"), interface("b->c")], &capture);
        let blocks = blocks(&file);
        let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [SECTION_HEADER, INTERFACE, INTERFACE, ENHANCED_PACKET]);
        assert_eq!(blocks[0].1[..8], [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0]);
        assert_eq!(blocks[2].1[8..16], [2, 0, 4, 0, b'b', b'-', b'>', b'c']);
        let (_, body) = &blocks[3];
        let words: Vec<u32> = body[..20].chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        // 5,000 s and 1 ns, rounded down.
        let ns = u64::from(words[1]) << 32 | u64::from(words[2]);
        assert_eq!((words[0], ns, words[3], words[4]), (1, 5_000_000_000_001, 54, 1514));
        assert_eq!(body[20..74], [7; 54]);
        assert_eq!(body[74..], [0, 0]);
        let cut = Capture { packets: Vec::new(), packets_left_out: 3 };
        let text = String::from_utf8_lossy(&super::file(&[], &cut)).into_owned();
        assert!(text.contains("3 further packets are left out") && !String::from_utf8_lossy(&file).contains("further"));
    }
}
