//! Verdicts on published claims.

use super::Stat;
use serde::{Deserialize, Serialize};

/// Verdict on a published claim.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ClaimVerdict {
    /// As in the experiment file, such as `E3.2`.
    pub id: String,
    /// The claim in a sentence, as in the experiment file.
    pub claim: String,
    /// The judgement over all points.
    pub verdict: Judgement,
    /// Human-readable list of the points at which the claim holds and fails.
    pub sentence: String,
    /// One entry per (variant, load) of the claim, loads ascending; for a rise one per step, from
    /// the second load on.
    pub points: Vec<ClaimPoint>,
    /// The reason from the experiment file; null if the claim holds or has no reason.
    pub reason: Option<String>,
}

/// Whether an expectation holds: a claim at one point or over all its points, or the equality of a
/// figure on two platforms.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub enum Judgement {
    /// As expected. Over several points: at more than half of them, and none fails.
    #[serde(rename = "holds")]
    Holds,
    /// Not as expected, but random draws explain the difference: its 95 % interval contains 0 (with
    /// one seed: within 2 %). Over several points: none fails, and at most half of them hold.
    #[serde(rename = "within noise")]
    WithinNoise,
    /// Not as expected, or no flow completed that could be compared. Over several points: at one of
    /// them or more.
    #[default]
    #[serde(rename = "fails")]
    Fails,
}

impl Judgement {
    pub const ALL: [Judgement; 3] = [Judgement::Holds, Judgement::WithinNoise, Judgement::Fails];

    /// Returns the text in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Judgement::Holds => "holds",
            Judgement::WithinNoise => "within noise",
            Judgement::Fails => "fails",
        }
    }

    /// Returns the judgement over several points.
    pub fn over(points: &[Judgement]) -> Judgement {
        let holds = points.iter().filter(|outcome| **outcome == Judgement::Holds).count();
        match points.contains(&Judgement::Fails) {
            true => Judgement::Fails,
            // If the sign is wrong at half of the points, large noise does not confirm the claim.
            false if 2 * holds > points.len() => Judgement::Holds,
            false => Judgement::WithinNoise,
        }
    }
}

/// A claim at one (variant, load).
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct ClaimPoint {
    /// As in the runs.
    pub variant: String,
    /// As in the runs.
    pub load: Option<f64>,
    /// Whether the claim holds here.
    pub outcome: Judgement,
    /// The metric of the claim's balancer over seeds; `null` if no flow completed that it could be
    /// computed from.
    pub value: Option<f64>,
    /// The compared value: the metric of the other balancer on the same seeds, or for a rise at the
    /// previous load.
    pub against: Option<f64>,
    /// `value` minus `against`, paired over seeds; all 0 if no balancers are compared.
    pub difference: Stat,
    /// Flows of the compared runs that started and did not complete; completion times exclude them.
    pub unfinished: u64,
}
