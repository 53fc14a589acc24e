//! A limit of wrong tokens per source address.
//!
//! A source that has sent too many gets status 429 without a comparison, even for a right token:
//! otherwise the limit would not slow down a search. Sources are forgotten when their budget is
//! full again, and the number of sources is bounded.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::source::source_of;
use crate::token_bucket::TokenBucket;

/// Wrong tokens per second of a source, and the burst as time at that rate.
const PER_S: u32 = 1;
const BURST: Duration = Duration::from_secs(20);
/// Time between two log lines about a source.
const LOG_PERIOD: Duration = Duration::from_secs(60);
/// Log lines about all sources per second, with bursts of ten.
const LOG_BURST: Duration = Duration::from_secs(10);
const SOURCES_MAX: usize = 4096;

#[derive(Debug)]
struct Source {
    budget: TokenBucket,
    /// Wrong tokens since the latest log line.
    count: u64,
    logged: Option<Instant>,
}

#[derive(Debug)]
struct State {
    sources: BTreeMap<IpAddr, Source>,
    log_budget: TokenBucket,
}

#[derive(Debug)]
pub(crate) struct WrongTokens(Mutex<State>);

impl Default for WrongTokens {
    fn default() -> WrongTokens {
        let log_budget = TokenBucket::new(1, LOG_BURST);
        WrongTokens(Mutex::new(State { sources: BTreeMap::new(), log_budget }))
    }
}

impl WrongTokens {
    /// Returns how long a source must wait before its next token is compared; `None` if it need not
    /// wait.
    pub(crate) fn must_wait(&self, from: IpAddr) -> Option<Duration> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = state.sources.get_mut(&source_of(from))?.budget.until_available();
        (!wait.is_zero()).then_some(wait)
    }

    /// Counts a wrong token of a source, and logs it once per period.
    pub(crate) fn note(&self, from: IpAddr) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State { sources, log_budget } = &mut *state;
        let from = source_of(from);
        if sources.len() >= SOURCES_MAX && !sources.contains_key(&from) {
            sources.retain(|_, source| !source.budget.is_full());
            if sources.len() >= SOURCES_MAX {
                sources.pop_first();
            }
        }
        let source = sources.entry(from).or_insert_with(|| Source {
            budget: TokenBucket::new(PER_S, BURST),
            count: 0,
            logged: None,
        });
        source.budget.take();
        source.count += 1;
        if source.logged.is_none_or(|logged| logged.elapsed() >= LOG_PERIOD) && log_budget.take() {
            tracing::warn!(
                %from,
                count = source.count,
                "wrong API token; more of them within {} s are not logged (hint: the tokens are in the file `tokens` of [api])",
                LOG_PERIOD.as_secs()
            );
            (source.count, source.logged) = (0, Some(Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sources_have_separate_budgets_and_are_bounded() {
        let wrong = WrongTokens::default();
        let [one, other]: [IpAddr; 2] =
            ["2001:db8::1", "2001:db8:0:1::1"].map(|text| text.parse().expect("an address"));
        (0..19).for_each(|_| wrong.note(one));
        assert_eq!(wrong.must_wait(one), None);
        wrong.note("2001:db8::ffff".parse().expect("an address of the same host"));
        assert!(wrong.must_wait(one).is_some_and(|wait| wait <= Duration::from_secs(1)));
        assert_eq!(wrong.must_wait(other), None);
        (0..10_000u32).for_each(|last| wrong.note(std::net::Ipv4Addr::from_bits(0x0a00_0000 + last).into()));
        assert_eq!(wrong.0.lock().expect("the sources").sources.len(), SOURCES_MAX);
    }
}
