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
    /// Whether the claim was reproduced.
    pub verdict: ClaimOutcome,
    /// Human-readable list of the points at which the claim holds and fails.
    pub sentence: String,
    /// One entry per (variant, load) of the claim, loads ascending; for a rise one per step, from
    /// the second load on.
    pub points: Vec<ClaimPoint>,
    /// The reason from the experiment file; null if the claim was reproduced or has no reason.
    pub reason: Option<String>,
}

/// Whether a claim was reproduced: `reproduced`, `not reproduced: within noise` or `not
/// reproduced`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The claim fails at no point and holds at more than half of them.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// The claim fails at no point, but at half of them or more the sign is wrong within noise.
    #[serde(rename = "not reproduced: within noise")]
    WithinNoise,
    /// The claim fails at one point or more.
    #[serde(rename = "not reproduced")]
    NotReproduced,
}

impl ClaimOutcome {
    /// Returns the text in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            ClaimOutcome::Reproduced => "reproduced",
            ClaimOutcome::WithinNoise => "not reproduced: within noise",
            ClaimOutcome::NotReproduced => "not reproduced",
        }
    }
}

/// Whether a claim holds at one point: `holds`, `within noise` or `fails`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub enum PointOutcome {
    /// As claimed.
    #[serde(rename = "holds")]
    Holds,
    /// Not as claimed, but the 95 % interval of the difference contains 0 (with one seed: within 2
    /// %).
    #[serde(rename = "within noise")]
    WithinNoise,
    /// Not as claimed, or no flow completed that could be compared.
    #[default]
    #[serde(rename = "fails")]
    Fails,
}

/// A claim at one (variant, load).
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct ClaimPoint {
    /// As in the runs.
    pub variant: String,
    /// As in the runs.
    pub load: Option<f64>,
    /// Whether the claim holds here.
    pub outcome: PointOutcome,
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
