//! What no balancer can beat, as entries a comparison can name beside balancers. The simulator computes them instead
//! of sending packets; here is only what they are called and what they take.

pub mod fastpass;
pub mod optimum;

/// Which bound an entry stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// Rates of a fluid that any splitting could at best give (mechanisms.md P29).
    FluidOptimum,
    /// An arbiter that assigns a timeslot and a path to every packet (mechanisms.md P23).
    Fastpass,
}
