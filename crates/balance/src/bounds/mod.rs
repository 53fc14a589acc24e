//! Bounds that no balancer exceeds, as entries that a comparison can name next to balancers. The
//! simulator computes them instead of sending packets; this module holds only their names and
//! parameters.

pub mod fastpass;
pub mod optimum;

/// The computation behind the entry of a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// Fluid rates that ideal splitting achieves at best (mechanisms.md P29).
    FluidOptimum,
    /// An arbiter that assigns a timeslot and a path to every packet (mechanisms.md P23).
    Fastpass,
}
