//! Replies of a host that answers requests.

use openflow::frame;

/// Returns the response of a stateless HTTP server, if there is one.
pub(super) fn serve(bytes: &[u8], status: u16) -> Option<Vec<u8>> {
    use openflow::frame::{Echo, Segment, echo, flags, icmp_echo, segment, tcp, tcp_reset};
    let headers = frame::parse(bytes).ok()?;
    let (macs, addresses) = ([headers.eth_dst, headers.eth_src], [headers.ipv4_dst, headers.ipv4_src]);
    if let Some(asked) = echo(bytes).filter(|echo| !echo.is_reply) {
        return Some(icmp_echo(macs, addresses, Echo { is_reply: true, ..asked }));
    }
    let got = segment(bytes).ok()??;
    let ports = [headers.l4_dst, headers.l4_src];
    let ack = got.seq.wrapping_add(got.sequence_len());
    let answer =
        |flags, seq, payload: &[u8]| tcp(macs, addresses, ports, &Segment { flags, seq, ack, window: 9, payload });
    match (got.has(flags::SYN), got.payload.is_empty()) {
        (true, _) if status == 0 => tcp_reset(bytes),
        (true, _) => Some(answer(flags::SYN | flags::ACK, 1_000_000, b"")),
        (false, false) => {
            let page = format!("HTTP/1.1 {status} Reason\r\nContent-Length: 0\r\n\r\n");
            Some(answer(flags::ACK | flags::PSH, 1_000_001, page.as_bytes()))
        }
        (false, true) => None,
    }
}
