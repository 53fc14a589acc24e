//! Looks at a run at regular intervals of simulated time, for programs that change something then.
//!
//! The engines of all partitions stand still meanwhile, so a change acts at the same time in each, and
//! a run is the same on any number of threads.

use net::Time;

pub use crate::links::network::LinkSample;

/// Callback of a run at the end of each interval.
pub trait Watch: Send {
    /// Returns the interval; longer than zero.
    fn interval(&self) -> Time;

    /// Looks at the state of the network. The run ends early with [`crate::SimError::Interrupted`] if
    /// this returns false.
    fn look(&mut self, state: &NetworkState<'_>) -> bool;
}

/// State of a network between two steps of a run.
#[derive(Clone, Copy, Debug)]
pub struct NetworkState<'a> {
    pub now: Time,
    /// Flows that have started and not ended.
    pub flows_running: u64,
    /// Flows that completed or failed.
    pub flows_ended: u64,
    /// Samples of all links, indexed by [`net::LinkIx`].
    pub links: &'a [LinkSample],
}

/// A watch with its next look.
pub(crate) struct Watched<'a> {
    watch: &'a mut dyn Watch,
    pub(crate) next: u64,
    links: Vec<LinkSample>,
    pub(crate) is_stopped: bool,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(watch: &'a mut dyn Watch) -> Watched<'a> {
        let next = watch.interval().as_ps().max(1);
        Watched { watch, next, links: Vec::new(), is_stopped: false }
    }

    pub(crate) fn look(&mut self, links: impl Iterator<Item = LinkSample>, flows_running: u64, flows_ended: u64) {
        self.links.clear();
        self.links.extend(links);
        let now = Time::from_ps(self.next);
        self.is_stopped |= !self.watch.look(&NetworkState { now, flows_running, flows_ended, links: &self.links });
        self.next += self.watch.interval().as_ps().max(1);
    }
}
