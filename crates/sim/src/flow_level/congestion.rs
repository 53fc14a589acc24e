//! Flows that meet others at a full link: queues there, marks or losses, and the windows that follow.
//!
//! A sender that has a link alone is limited by its interface, and its window grows far beyond what
//! the path can hold. When a second flow joins such a link, the queue grows by what that flow sends,
//! until the threshold of marks (or losses) is reached. From then on both reduce their windows once
//! in each round trip: the newcomer, whose estimate of congestion begins at its maximum, to almost
//! nothing, the incumbent slowly, because its estimate begins near zero (Alizadeh et al., DCTCP,
//! SIGCOMM 2010, section 3.5; Alizadeh, Javanmard, Prabhakar, Analysis of DCTCP, SIGMETRICS 2011).
//! Only then do their windows converge, by one packet in each round trip and a cut in each period of
//! the sawtooth.
//!
//! The windows of newcomers are followed round by round. The incumbents share the rest max-min
//! fairly; of their windows, only the time is followed in which they are too large.

use super::run::FlowRun;
use super::sender::Sender;

/// The law by which windows shrink.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowLaw {
    /// Gain of the average share of marks (DCTCP); `None` for a fixed reduction.
    pub(super) gain: Option<f64>,
    /// Share of the window lost by a reduction, if marks or losses are in every round trip.
    pub(super) reduction: f64,
    /// Queue from which packets are marked or lost, packets.
    pub(super) threshold: f64,
}

/// The queue before a link, as of its last change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkQueue {
    packets: f64,
    /// Flow id (and 1) of the incumbent whose window keeps the queue.
    keeper: u32,
}

/// Congestion that a flow finds on its path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Congestion {
    /// Delay of all queues on the path, picoseconds.
    pub(super) delay: u64,
    /// Whether the queue of a link reaches the threshold, and the share of the packets of the round
    /// that join it before.
    is_marked: bool,
    unmarked: f64,
    /// Fair window, packets, if the flows at such a link have already adapted to each other.
    fair_window: Option<f64>,
}

impl Congestion {
    /// Returns whether the window must shrink at once, next to flows that have not adapted yet.
    pub(super) fn is_reducing(&self) -> bool {
        self.is_marked && self.fair_window.is_none()
    }
}

impl FlowRun<'_> {
    /// Returns the congestion on the path of a flow that sent `packets` in this round.
    pub(super) fn congestion(&mut self, number: u32, packets: f64) -> Congestion {
        let mut found = Congestion::default();
        let rtt = self.senders[number as usize].rtt as f64;
        let mut delay = 0.0;
        // The first link is the interface of a host, at which flows take turns.
        for place in 1..self.shares.memberships.hops(number).len() {
            let hop = self.shares.memberships.hops(number)[place];
            if hop.weight == 0.0 {
                continue;
            }
            // What acknowledgements take of a link elsewhere leaves a part of this one unused.
            let unused = 2.0 * self.acks.share * self.shares.capacity(hop.link);
            let demand = (packets * self.packet * hop.weight / rtt.max(1.0)).max(unused);
            self.find_rivals(number, place, demand);
            let Some(first) = self.rivals.first() else {
                self.link_queues[hop.link as usize].packets = 0.0;
                continue;
            };
            let keeper = self.senders[*first as usize].id + 1;
            let step = self.packet / self.shares.capacity(hop.link);
            let product = rtt / step;
            let flows = self.rivals.len() as f64 + 1.0;
            let standing = self.queues.packets(flows as u32, product, step);
            let before = self.link_queues[hop.link as usize];
            let is_kept = self.rivals.iter().any(|rival| self.senders[*rival as usize].id + 1 == before.keeper);
            let (arriving, waiting) = if self.has_standing_queue {
                (standing, standing)
            } else {
                // No more than the windows hold, beyond what is on the wire.
                let windows: f64 = self.rivals.iter().map(|rival| self.window_of(*rival)).sum();
                let before = if is_kept { before.packets } else { 0.0 };
                let held = |own: f64| (windows + own - product).max(0.0);
                (before.min(held(0.0)), (before + packets * hop.weight).min(held(packets)))
            };
            self.link_queues[hop.link as usize] = LinkQueue { packets: waiting, keeper };
            delay += hop.weight * arriving * step;
            let threshold = self.law.threshold.min(standing);
            if packets == 0.0 || waiting < threshold {
                continue;
            }
            let unmarked = ((threshold - arriving) / packets.max(1.0)).clamp(0.0, 1.0);
            found.unmarked = if found.is_marked { found.unmarked.min(unmarked) } else { unmarked };
            found.is_marked = true;
            let fair = (product + self.law.threshold) / flows;
            if self.has_standing_queue {
                found.fair_window = Some(found.fair_window.map_or(fair, |least: f64| least.min(fair)));
            }
            for rival in std::mem::take(&mut self.rivals) {
                if self.has_standing_queue {
                    self.set_incumbent(rival, fair);
                } else {
                    self.reduce_incumbent(rival, waiting * step);
                }
            }
        }
        found.delay = delay.round() as u64;
        found
    }

    /// Finds the flows that fill a link together with this one: those that no window limits, and
    /// that arrive over another link. A link is full with the rate that this flow demands.
    fn find_rivals(&mut self, number: u32, place: usize, demand: f64) {
        self.rivals.clear();
        self.has_standing_queue = false;
        let hops = self.shares.memberships.hops(number);
        let link = hops[place].link;
        if !self.shares.is_full(link, demand) {
            return;
        }
        let own = if self.is_split { hops[0].link } else { hops[place - 1].link };
        let (mut first, mut differ, mut holds_back) = (None, false, false);
        for member in self.shares.memberships.members(link) {
            let sender = &self.senders[member.flow as usize];
            if member.flow == number || !sender.is_steady() || member.weight == 0.0 {
                continue;
            }
            let from = match self.is_split {
                true => self.shares.memberships.hops(member.flow).first().map(|hop| hop.link),
                false => self.shares.memberships.link_before(*member),
            };
            if from != Some(own) {
                self.rivals.push(member.flow);
            }
            differ |= *first.get_or_insert(from) != from;
            holds_back |= self.shares.bottleneck(member.flow) == link;
        }
        // Flows that are held back elsewhere may fill a link exactly, but keep no queue there.
        self.has_standing_queue = differ && holds_back;
    }

    /// Returns the window of a flow that no window limits, packets: it grows with every packet in
    /// slow start, and by one in each round trip after its first reduction.
    fn window_of(&self, number: u32) -> f64 {
        let sender = &self.senders[number as usize];
        let since = self.ledger.now - sender.window_time;
        let growth = if sender.is_slow_start {
            (sender.rate * since as f64) / self.packet
        } else {
            since as f64 / (sender.rtt + sender.found.delay).max(1) as f64
        };
        (sender.window / self.packet + growth).min(self.max_window / self.packet)
    }

    /// Reduces the window of an incumbent once in a round trip through a queue.
    fn reduce_incumbent(&mut self, number: u32, queue: f64) {
        let (now, window) = (self.ledger.now, self.window_of(number));
        let (law, packet) = (self.law, self.packet);
        let sender = &mut self.senders[number as usize];
        let rounds = (now - sender.reduced) as f64 / (sender.rtt.max(1) as f64 + queue);
        if rounds < 0.9 {
            return;
        }
        sender.found.delay = queue as u64;
        sender.alpha = law.after(sender.alpha, rounds);
        sender.window = packet * (window * (1.0 - law.cut(sender.alpha))).max(2.0);
        (sender.is_slow_start, sender.reduced, sender.window_time) = (false, now, now);
    }

    /// Sets the window of an incumbent that has adapted to others, packets.
    fn set_incumbent(&mut self, number: u32, window: f64) {
        if self.window_of(number) > window {
            let sender = &mut self.senders[number as usize];
            sender.window = window * self.packet;
            (sender.is_slow_start, sender.window_time) = (false, self.ledger.now);
        }
    }

    /// Sets the window of the next round of a flow that its window limits.
    pub(super) fn adapt_window(&mut self, number: u32) {
        let (law, packet, most) = (self.law, self.packet, self.max_window);
        let sender: &mut Sender = &mut self.senders[number as usize];
        let found = sender.found;
        let window = match std::mem::take(&mut sender.reduced_window) {
            0.0 => sender.window,
            reduced => reduced,
        };
        let gain = law.gain.unwrap_or(1.0);
        match found.fair_window.filter(|_| found.is_marked) {
            // One cut in each period of the sawtooth, on average.
            Some(fair_window) => {
                let period = law.period(fair_window);
                sender.alpha += gain * (1.0 / period - sender.alpha);
                sender.window = window + packet - window * law.cut(sender.alpha) / period;
            }
            None if found.is_marked => {
                sender.alpha += gain * (1.0 - found.unmarked - sender.alpha);
                let grown = if sender.is_slow_start { window * (1.0 + found.unmarked) } else { window };
                let reduced = grown * (1.0 - law.cut(sender.alpha));
                // Until the first mark returns, acknowledgements still release two packets each.
                let released = if sender.is_slow_start { 2.0 * window * found.unmarked } else { 0.0 };
                sender.window = reduced.max(released);
                sender.reduced_window = reduced;
            }
            None => {
                sender.alpha *= 1.0 - gain;
                sender.window = if sender.is_slow_start { 2.0 * window } else { window + packet };
            }
        }
        sender.is_slow_start &= !found.is_marked;
        sender.window = sender.window.clamp(2.0 * packet, most);
    }
}

impl WindowLaw {
    /// Returns the share of the window that one reduction takes.
    fn cut(&self, alpha: f64) -> f64 {
        if self.gain.is_some() { alpha * self.reduction } else { self.reduction }
    }

    /// Returns the average share of marks after one round trip with marks, which followed `rounds`
    /// without.
    fn after(&self, alpha: f64, rounds: f64) -> f64 {
        self.gain.map_or(1.0, |gain| {
            let faded = alpha * (1.0 - gain).powf((rounds - 1.0).max(0.0));
            faded + gain * (1.0 - faded)
        })
    }

    /// Returns the round trips between two reductions of a window: √(2 W) / 2 with DCTCP, else the
    /// packets that a reduction takes.
    fn period(&self, window: f64) -> f64 {
        let rounds = if self.gain.is_some() { (2.0 * window).sqrt() / 2.0 } else { window * self.reduction };
        rounds.max(1.0)
    }
}
