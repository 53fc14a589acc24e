//! Parameters of the rate estimators on links, for mechanisms that use them.

use net::Time;

use crate::dataplane::{Scale, Sensing};
use crate::params::{Param, Params};

/// The time between two decays.
pub const T_DRE: Param = Param::scaled("t_dre", "0.4rtt")
    .doc("Time between two decays of the rate estimators; CONGA: t_dre / alpha = 160us at a base RTT of 80 us.");

/// The share forgotten at each decay.
pub const ALPHA: Param =
    Param::number("alpha", 0.001..=1.0, "0.2").doc("Share the rate estimators forget at each decay.");

/// Returns the estimators of [`T_DRE`] and [`ALPHA`], read with `bits` bits.
pub fn sensing(scale: &Scale, params: &Params, bits: u8) -> Sensing {
    Sensing { interval: params.scaled(T_DRE.name, scale).max(Time::from_ns(1)), decay: params.number(ALPHA.name), bits }
}
