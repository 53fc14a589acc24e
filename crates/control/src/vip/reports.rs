//! Reports of agents on members: over HTTP through the driver, or in band as in F1: a datagram to
//! the health-check address with `"<response time, ms> <connections> <CPU, %>"`.

use core::net::Ipv4Addr;

use balance::server::ServerStats;
use net::Time;
use openflow::Headers;
use openflow::headers::protocol;

use super::{Parts, VipService};
use crate::SwitchPort;

/// UDP port of reports (F1).
pub const REPORT_PORT: u16 = 9876;
/// Age at which statistics no longer count: three of F1's intervals.
pub(super) const STALE_AFTER: Time = Time::from_s(15);

impl VipService {
    /// Handles a report of an agent about its server. Returns whether the server is a member of any
    /// pool. It counts for 15 s.
    pub(crate) fn member_report(&mut self, now: Time, address: Ipv4Addr, stats: ServerStats) -> bool {
        let stats = ServerStats { at: Some(now), ..stats };
        let pools = self.pools.values_mut();
        pools.map(|pool| pool.report(address, stats)).fold(false, |any, is_member| any | is_member)
    }

    /// Handles a packet to the health-check address that may be a report. Returns whether it is
    /// one. The source must be a host at its known port.
    pub(super) fn on_report(&mut self, on: &mut Parts<'_>, at: SwitchPort, headers: &Headers, data: &[u8]) -> bool {
        if headers.ip_proto != protocol::UDP || headers.l4_dst != REPORT_PORT {
            return false;
        }
        let host = on.observer.network.host_at(headers.ipv4_src);
        let is_there = host.is_some_and(|host| host.known.end() == at);
        if let Some(facts) = datagram(data).and_then(parse_report).filter(|_| is_there) {
            self.member_report(on.cx.now, headers.ipv4_src, facts);
        }
        true
    }
}

/// Returns the payload of an untagged UDP packet.
fn datagram(data: &[u8]) -> Option<&[u8]> {
    let above = data.get(14..)?;
    let header_len = usize::from(above.first()? & 0x0f) * 4;
    let end = usize::from(u16::from_be_bytes([*above.get(2)?, *above.get(3)?]));
    above.get(header_len + 8..end.min(above.len()))
}

/// Returns the statistics in the text of a report; `None` if it is not one.
fn parse_report(text: &[u8]) -> Option<ServerStats> {
    let mut words = core::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let mut number = || words.next()?.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    let (response_ms, connections, cpu) = (number()?, number()?, number()?);
    if response_ms > 1e9 || connections > f64::from(u32::MAX) || cpu > 100.0 {
        return None;
    }
    Some(ServerStats {
        connections: Some(connections as u32),
        cpu: Some(cpu / 100.0),
        response: Some(Time::from_s_f64(response_ms / 1e3)),
        ..ServerStats::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_reports_are_parsed() {
        let facts = parse_report(b"12.5 7 40\n").unwrap();
        assert_eq!((facts.response, facts.connections, facts.cpu), (Some(Time::from_us(12_500)), Some(7), Some(0.4)));
        for nonsense in [&b""[..], b"1 2", b"1 2 x", b"-1 2 3", b"nan 1 1", b"1 2 101", b"\xff 1 1"] {
            assert_eq!(parse_report(nonsense), None, "{nonsense:?}");
        }
        assert_eq!((datagram(b"short"), datagram(&[0; 60])), (None, None));
    }
}
