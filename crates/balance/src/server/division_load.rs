//! Traffic division by load: each connection goes to the member that has exchanged the fewest bytes
//! with clients, according to counters (mechanisms.md S03, Load; F4).
//!
//! F4's controller requests counters at each connection and does not wait for them
//! (`poll=per-connection`): a connection is decided by what was known after the one before it.
//!
//! Readings: `bytes` is F4's: all bytes since the start, ties to the first. All connections before
//! the next refresh of the counters go to the same member, and all go to the first while there are
//! no counters. Two remedies exist. `rate` uses the bytes per second between the last two readings.
//! `inflight` uses bytes of ended connections plus those expected of running ones, without waiting
//! for counters (which count if they show more). Each is divided by the weight, F4's speed of the
//! link.
//!
//! Pitfall: a member that joins late gets everything until it has caught up (`bytes`, `inflight`).
//!
//! - Helps: with responses of different sizes.
//! - Hurts: with `bytes`: all connections before the next refresh of counters go to the same
//!   member, and a member that joins late gets everything until it has caught up.

use std::collections::BTreeMap;

use net::{FiveTuple, Time};

use crate::entry::Entry;
use crate::params::Param;
use crate::server::common::{DIRECTION, HTP, PATH, Pending, Picker, ServerFirst, TIES, least};
use crate::server::{Choice, Ended, Member, MemberId, Pool, Request, ServerCx, ServerNeeds};

const LOAD: Param = Param::choice("load", &["bytes", "rate", "inflight"], "bytes")
    .doc("Measure of load: counted bytes, their rate, or bytes including those still expected.");

const POLL: Param = Param::choice("poll", &["interval", "per-connection"], "interval").doc(
    "When counters are requested: at the controller's interval, or at each connection, which does not wait for them.",
);

const SIZE: Param = Param::count("size", 0..=1_000_000_000_000, "1000000")
    .unit("B")
    .doc("Bytes expected of a connection of unknown size, until one has ended (inflight); then their mean.");

pub(crate) static ENTRY: Entry = Entry::declare("division-load", "Division by load")
    .summary("Gives each request to the member with the fewest bytes per weight so far.")
    .source("S03 Load; F4")
    .senses("bytes of each member as counted")
    .params(&[PATH, TIES, HTP, DIRECTION, LOAD, POLL, SIZE])
    .server(|_, params| {
        let load = match params.text(LOAD.name) {
            "rate" => Load::Rate,
            "inflight" => Load::Inflight,
            _ => Load::Bytes,
        };
        let first_size = params.count(SIZE.name);
        let division = Division { load, first_size, ended_count: 0, ended_bytes: 0, records: BTreeMap::new() };
        let is_at_requests = params.text(POLL.name) == "per-connection";
        let needs = ServerNeeds { bytes: !is_at_requests, bytes_at_requests: is_at_requests, ..ServerNeeds::NONE };
        ServerFirst::boxed(needs, params, division)
    });

#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Bytes,
    Rate,
    Inflight,
}

#[derive(Clone, Default)]
struct Record {
    /// Time and value of the last count of bytes.
    last: Option<(Time, u64)>,
    /// Bytes per second between the last two counts.
    rate: f64,
    ended: u64,
    running: BTreeMap<FiveTuple, u64>,
    expected: u64,
}

struct Division {
    load: Load,
    first_size: u64,
    ended_count: u64,
    ended_bytes: u64,
    records: BTreeMap<MemberId, Record>,
}

impl Division {
    fn load_of(&self, member: &Member) -> f64 {
        let counted = member.stats.bytes.unwrap_or(0);
        let record = self.records.get(&member.id);
        match self.load {
            Load::Bytes => counted as f64,
            Load::Rate => record.map_or(0.0, |record| record.rate),
            Load::Inflight => {
                let placed = record.map_or(0, |record| record.ended.saturating_add(record.expected));
                placed.max(counted) as f64
            }
        }
    }

    fn expected(&self, request: &Request) -> u64 {
        let mean = self.ended_bytes.checked_div(self.ended_count).unwrap_or(self.first_size);
        request.size.unwrap_or(mean)
    }
}

impl Picker for Division {
    fn choose(&mut self, _: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        least(pending.candidates, |member| self.load_of(member) / f64::from(member.weight))
    }

    fn placed(&mut self, request: &Request, choice: &Choice, _: u32) {
        if self.load != Load::Inflight {
            return;
        }
        let expected = self.expected(request);
        let record = self.records.entry(choice.member).or_default();
        let replaced = record.running.insert(request.tuple, expected).unwrap_or(0);
        record.expected = record.expected.saturating_sub(replaced).saturating_add(expected);
    }

    fn ended(&mut self, request: &Request, ended: &Ended) {
        if self.load != Load::Inflight {
            return;
        }
        self.ended_count += 1;
        self.ended_bytes = self.ended_bytes.saturating_add(ended.bytes);
        if let Some(record) = self.records.get_mut(&ended.member) {
            let expected = record.running.remove(&request.tuple).unwrap_or(0);
            record.expected = record.expected.saturating_sub(expected);
            record.ended = record.ended.saturating_add(ended.bytes);
        }
    }

    fn counted(&mut self, member: &Member) {
        let (Some(bytes), Some(at)) = (member.stats.bytes, member.stats.bytes_at) else { return };
        let record = self.records.entry(member.id).or_default();
        match record.last {
            // A stale sample: the same bytes at the same time.
            Some((last, _)) if at <= last => return,
            Some((last, before)) => record.rate = bytes.saturating_sub(before) as f64 / (at - last).as_s_f64(),
            None => {}
        }
        record.last = Some((at, bytes));
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.records.retain(|member, _| pool.get(*member).is_some());
    }
}

#[cfg(test)]
mod tests {
    use net::Time;

    use crate::server::testing::Bench;

    #[test]
    fn all_requests_go_to_first_member_without_statistics() {
        // experiments.md F4, E4.3 round 1: 5 simultaneous connections, refreshed every 20 s. Load = No.
        let mut bench = Bench::new("division-load", &[1, 1, 1]);
        assert_eq!(bench.picks(5), [1; 5]);
        bench.wait(Time::from_s(20));
        bench.count(1, 25_000_000);
        bench.count(2, 0);
        bench.count(3, 0);
        assert_eq!(bench.picks(5), [2; 5], "all requests until the next refresh go to one");
        bench.count(2, 30_000_000);
        assert_eq!(bench.pick(), 3);
        bench.count(3, 25_000_000);
        assert_eq!(bench.pick(), 1, "a tie goes to the first");
    }

    #[test]
    fn bytes_are_divided_by_weight() {
        let mut bench = Bench::new("division-load", &[100, 100, 1000]);
        bench.count(1, 30);
        bench.count(2, 20);
        bench.count(3, 190);
        assert_eq!(bench.pick(), 3);
        bench.count(3, 210);
        assert_eq!(bench.pick(), 2);
    }

    #[test]
    fn the_rate_forgets_the_past() {
        let mut bench = Bench::new("division-load:load=rate", &[1, 1]);
        bench.count(1, 0);
        bench.count(2, 1_000_000);
        bench.wait(Time::from_s(1));
        bench.count(1, 500);
        bench.count(2, 1_000_100);
        assert_eq!(bench.pick(), 2, "100 B/s, although far more bytes in all");
        bench.count(2, 9_000_000);
        assert_eq!(bench.pick(), 2, "the same moment again is not a sample");
        bench.wait(Time::from_s(1));
        bench.count(2, 9_000_000);
        assert_eq!(bench.pick(), 1);
    }

    #[test]
    fn inflight_bytes_count_before_counters_show_them() {
        let mut bench = Bench::new("division-load:load=inflight", &[1, 1, 1]);
        bench.size = Some(100);
        let (requests, picked) = bench.placed(3);
        assert_eq!(picked, [1, 2, 3]);
        bench.end(&requests[2], 3, 10);
        assert_eq!(bench.pick(), 3, "it carried less than was expected");
        bench.count(1, 150);
        // 150, 100, 110.
        assert_eq!(bench.picks(2), [2, 3]);
        // Unknown sizes are the mean of ended connections, 10: 150, 200, 210.
        bench.size = None;
        assert_eq!(bench.picks(6), [1, 1, 1, 1, 1, 1]);
    }
}
