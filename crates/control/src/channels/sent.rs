//! Transaction numbers of switch-owned rules, in case a switch rejects or confirms them.

use std::collections::VecDeque;

use net::FiveTuple;
use openflow::Xid;

/// Maximum number of remembered counting rules of a connection.
const COUNTERS_MAX: usize = 512;
/// Maximum number of remembered messages about connections to virtual services on one channel.
const INSTALLS_MAX: usize = 24_576;

/// Transaction numbers of the latest counting rules sent on a connection.
#[derive(Debug, Default)]
pub(crate) struct RecentXids(VecDeque<(Xid, FiveTuple)>);

impl RecentXids {
    pub(crate) fn note(&mut self, xid: Xid, tuple: FiveTuple) {
        if self.0.len() >= COUNTERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((xid, tuple));
    }
    pub(crate) fn take(&mut self, xid: Xid) -> Option<FiveTuple> {
        let at = self.0.iter().position(|(sent, _)| *sent == xid)?;
        self.0.remove(at).map(|(_, tuple)| tuple)
    }
}

/// Unconfirmed messages about connections to virtual services on one channel, oldest first.
#[derive(Debug, Default)]
pub(crate) struct PendingInstalls(VecDeque<(Xid, Install)>);

/// A message about a connection to a virtual service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Install {
    Rule(FiveTuple),
    /// Confirms everything before it.
    Barrier(FiveTuple),
}

impl PendingInstalls {
    /// Records a message. Returns the oldest one if the limit is exceeded.
    pub(crate) fn note(&mut self, xid: Xid, sent: Install) -> Option<(Xid, Install)> {
        self.0.push_back((xid, sent));
        if self.0.len() > INSTALLS_MAX { self.0.pop_front() } else { None }
    }
    /// Handles a barrier reply. Returns the connection whose rules it confirms, if any.
    pub(crate) fn confirm(&mut self, xid: Xid) -> Option<FiveTuple> {
        let position = self.0.iter().position(|(sent, _)| *sent == xid)?;
        match self.0.drain(..=position).next_back()? {
            (_, Install::Barrier(tuple)) => Some(tuple),
            (_, Install::Rule(_)) => None,
        }
    }
    pub(crate) fn refuse(&mut self, xid: Xid) -> Option<FiveTuple> {
        let position = self.0.iter().position(|(sent, what)| *sent == xid && matches!(what, Install::Rule(_)))?;
        self.0.remove(position).map(|(_, sent)| match sent {
            Install::Rule(tuple) | Install::Barrier(tuple) => tuple,
        })
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    #[test]
    fn recent_xids_are_bounded_and_match_once() {
        let tuple = |port| {
            let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
            FiveTuple { src, dst, protocol: 6, src_port: port, dst_port: 80 }
        };
        let mut recent = RecentXids::default();
        for number in 0..=COUNTERS_MAX as u32 {
            recent.note(Xid(number), tuple(number as u16));
        }
        assert_eq!((recent.take(Xid(0)), recent.take(Xid(1)), recent.take(Xid(1))), (None, Some(tuple(1)), None));
    }
}
