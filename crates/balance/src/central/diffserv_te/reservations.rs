//! Bandwidth of links that label-switched paths (LSPs) reserve, by class type and priority.
//!
//! Sources: RFC 4124 (class types CT0 to CT7, and unreserved bandwidth by class type and preemption
//! priority), RFC 4125 (Maximum Allocation Model, MAM), RFC 4127 (Russian Dolls Model, RDM).
//! Priority 0 is the most important. An LSP can preempt those whose holding priority is a larger
//! number than its setup priority.

/// Number of class types, and of priorities.
pub const CLASSES: usize = 8;

/// The class types that a bandwidth constraint limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Model {
    /// Constraint c limits class type c alone, and the link limits all together.
    MaximumAllocation,
    /// Constraint c limits class types c, c + 1, … together.
    RussianDolls,
}

/// A reservation along a path.
#[derive(Clone, PartialEq, Debug)]
pub struct Lsp {
    /// Class type, 0 to 7: a higher one is more important.
    pub class: usize,
    /// Priority with which it takes bandwidth.
    pub setup: usize,
    /// Priority with which it keeps bandwidth; not a larger number than `setup`.
    pub hold: usize,
    /// Reserved rate, bits per second.
    pub bandwidth: f64,
    /// Its links, by their numbers in the topology.
    pub links: Vec<usize>,
}

/// Relative differences that are ignored.
const EPSILON: f64 = 1e-9;

/// The links with their reservations.
#[derive(Clone, Debug)]
pub struct Reservations {
    model: Model,
    /// By class type: the share of each link.
    constraints: [f64; CLASSES],
    capacity: Vec<f64>,
    /// By link: reserved rates by class type and holding priority.
    reserved: Vec<[[f64; CLASSES]; CLASSES]>,
    /// LSPs by number, in the order in which they were established.
    lsps: Vec<Option<Lsp>>,
}

impl Reservations {
    /// Makes links without reservations. `shares` are the constraints of class types 0, 1, … as
    /// shares of the capacity. Class types without one have the last with Russian dolls, and
    /// nothing with maximum allocation.
    pub fn new(model: Model, shares: &[f64], capacity: Vec<f64>) -> Reservations {
        let last = if model == Model::RussianDolls { shares.last().copied().unwrap_or(1.0) } else { 0.0 };
        let constraints = std::array::from_fn(|class| shares.get(class).copied().unwrap_or(last));
        let reserved = vec![[[0.0; CLASSES]; CLASSES]; capacity.len()];
        Reservations { model, constraints, capacity, reserved, lsps: Vec::new() }
    }

    /// Returns the rate that class types reserve on a link with holding priorities up to this one.
    fn sum(&self, link: usize, classes: std::ops::Range<usize>, priority: usize) -> f64 {
        self.reserved[link][classes].iter().flat_map(|of_class| &of_class[..=priority]).sum()
    }

    /// Returns the limits that an LSP of a class type must observe: class types and their rate.
    fn limits(&self, link: usize, class: usize) -> Vec<(std::ops::Range<usize>, f64)> {
        let rate = |constraint: usize| self.constraints[constraint] * self.capacity[link];
        match self.model {
            Model::MaximumAllocation => vec![(class..class + 1, rate(class)), (0..CLASSES, self.capacity[link])],
            Model::RussianDolls => (0..=class).map(|doll| (doll..CLASSES, rate(doll))).collect(),
        }
    }

    /// Returns the rate that an LSP of a class type and setup priority can reserve on a link:
    /// reservations that it could preempt do not count.
    pub fn unreserved(&self, link: usize, class: usize, priority: usize) -> f64 {
        let left = |(classes, rate): (std::ops::Range<usize>, f64)| rate - self.sum(link, classes, priority);
        self.limits(link, class).into_iter().map(left).fold(f64::INFINITY, f64::min).max(0.0)
    }

    /// Returns whether a link can take an LSP of this rate.
    pub fn fits(&self, link: usize, class: usize, priority: usize, bandwidth: f64) -> bool {
        bandwidth > 0.0 && bandwidth <= self.unreserved(link, class, priority) + self.capacity[link] * EPSILON
    }

    /// Reserves an LSP on links that can take it. Returns its number, and the LSPs that it
    /// preempted.
    pub fn establish(&mut self, lsp: Lsp) -> (usize, Vec<(usize, Lsp)>) {
        let (number, setup) = (self.lsps.len(), lsp.setup);
        self.count(&lsp, 1.0);
        let (links, class) = (lsp.links.clone(), lsp.class);
        self.lsps.push(Some(lsp));
        let mut preempted = Vec::new();
        for link in links {
            while let Some(classes) = self.exceeded(link, class) {
                let is_victim = |(_, other): &(usize, &Lsp)| {
                    other.hold > setup && classes.contains(&other.class) && other.links.contains(&link)
                };
                let known = self.lsps.iter().enumerate().filter_map(|(nth, lsp)| Some((nth, lsp.as_ref()?)));
                // The least important one, and of those the latest.
                let Some((victim, _)) = known.filter(is_victim).max_by_key(|(nth, lsp)| (lsp.hold, *nth)) else {
                    break;
                };
                preempted.extend(self.release(victim).map(|lsp| (victim, lsp)));
            }
        }
        (number, preempted)
    }

    /// Returns the class types of a limit that is exceeded on a link, of those that apply to a
    /// class type.
    fn exceeded(&self, link: usize, class: usize) -> Option<std::ops::Range<usize>> {
        let is_exceeded = |(classes, rate): &(std::ops::Range<usize>, f64)| {
            self.sum(link, classes.clone(), CLASSES - 1) > rate + self.capacity[link] * EPSILON
        };
        self.limits(link, class).into_iter().find(is_exceeded).map(|(classes, _)| classes)
    }

    /// Removes an LSP and returns it; `None` if it has been removed before.
    pub fn release(&mut self, number: usize) -> Option<Lsp> {
        let lsp = self.lsps.get_mut(number)?.take()?;
        self.count(&lsp, -1.0);
        Some(lsp)
    }

    fn count(&mut self, lsp: &Lsp, sign: f64) {
        for link in &lsp.links {
            let reserved = &mut self.reserved[*link][lsp.class][lsp.hold];
            *reserved = (*reserved + sign * lsp.bandwidth).max(0.0);
        }
    }

    /// Returns whether every constraint of every link holds.
    pub fn are_within_bounds(&self) -> bool {
        (0..self.capacity.len()).all(|link| (0..CLASSES).all(|class| self.exceeded(link, class).is_none()))
    }
}
