//! Reproductions in two worlds: what the simulator gives and what real switches give, by the rules of
//! [`crate::agreement`].

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::TestbedRun;
use crate::Error;
use crate::agreement::{Agreement, Closeness};
use crate::store::{Store, pretty};
use crate::summary::{ClaimOutcome, Summary};

/// What two worlds say of the experiments of documents.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct WorldsResult {
    /// [`super::REPRODUCTION_SCHEMA_VERSION`].
    pub schema: u32,
    /// Version of anabranch.
    pub anabranch: String,
    /// In the order of the indexes.
    pub rows: Vec<WorldsRow>,
}

/// One experiment file in two worlds.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct WorldsRow {
    /// The document.
    pub document: String,
    /// Experiments of the document it is about.
    pub ids: Vec<String>,
    /// The file, as the index names it.
    pub file: String,
    /// Whether the worlds agree, and the claims of the file hold.
    pub verdict: WorldsVerdict,
    /// Why, on a line.
    pub reason: String,
    /// Every figure compared, and every claim.
    pub agreement: Agreement,
}

/// Whether two worlds say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorldsVerdict {
    /// No figure differs, and every claim of the file holds in both.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// No figure differs, but some claim of the file does not hold in one of the worlds.
    #[serde(rename = "worlds agree, claims do not hold")]
    ClaimsBroken,
    /// Some figure differs by more than the tolerance and more than draws explain.
    #[serde(rename = "worlds differ")]
    Differ,
    /// There was nothing to compare.
    #[serde(rename = "nothing compared")]
    Nothing,
}

impl WorldsResult {
    /// Of this program.
    pub fn new(rows: Vec<WorldsRow>) -> WorldsResult {
        let anabranch = env!("CARGO_PKG_VERSION").to_owned();
        WorldsResult { schema: super::REPRODUCTION_SCHEMA_VERSION, anabranch, rows }
    }

    /// Writes `worlds.json`; answers its path.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let store = Store::create(folder)?;
        store.write("worlds.json", &pretty(self))?;
        Ok(store.path("worlds.json"))
    }
}

impl WorldsVerdict {
    /// In words, as in files.
    pub const fn words(self) -> &'static str {
        match self {
            WorldsVerdict::Reproduced => "reproduced",
            WorldsVerdict::ClaimsBroken => "worlds agree, claims do not hold",
            WorldsVerdict::Differ => "worlds differ",
            WorldsVerdict::Nothing => "nothing compared",
        }
    }
}

impl WorldsRow {
    /// Compares the results of both worlds.
    pub fn of(document: &str, run: &TestbedRun, simulated: &Summary, emulated: &Summary) -> WorldsRow {
        let agreement = Agreement::of(simulated, emulated, &run.emulated.agree);
        let (verdict, reason) = verdict(&agreement);
        WorldsRow {
            document: document.to_owned(),
            ids: run.ids.clone(),
            file: run.file.clone(),
            verdict,
            reason,
            agreement,
        }
    }
}

fn verdict(agreement: &Agreement) -> (WorldsVerdict, String) {
    let count = |closeness| agreement.count(closeness);
    let (agree, noise, differ) = (count(Closeness::Agrees), count(Closeness::WithinNoise), count(Closeness::Differs));
    let broken: Vec<&str> = agreement.broken_claims().map(|claim| claim.claim.as_str()).collect();
    let held = agreement.claims.iter().filter(|claim| {
        [claim.first, claim.second].into_iter().flatten().all(|outcome| outcome == ClaimOutcome::Reproduced)
    });
    let held = held.count();
    let mut words = format!("{agree} of {} figures agree", agreement.rows.len());
    if noise > 0 {
        words += &format!(", {noise} within noise");
    }
    if differ > 0 {
        words += &format!(", {differ} differ");
    }
    if !agreement.claims.is_empty() {
        words += &format!("; {held} of {} claims hold in both", agreement.claims.len());
    }
    if let Some(first) = broken.first() {
        let more = if broken.len() > 1 { format!(" (and {} more)", broken.len() - 1) } else { String::new() };
        words += &format!("; does not hold: {first}{more}");
    }
    let verdict = match (agreement.rows.is_empty(), differ, broken.is_empty()) {
        (true, ..) => WorldsVerdict::Nothing,
        (_, 1.., _) => WorldsVerdict::Differ,
        (_, _, false) => WorldsVerdict::ClaimsBroken,
        _ => WorldsVerdict::Reproduced,
    };
    (verdict, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::ClaimRow;

    fn agreement(closeness: &[Closeness], claims: &[(ClaimOutcome, ClaimOutcome)]) -> Agreement {
        let row = |closeness: &Closeness| crate::agreement::Row {
            variant: String::new(),
            load: None,
            balancer: "spt".to_owned(),
            metric: "core_bb_rx".to_owned(),
            first: crate::summary::Stat::default(),
            second: crate::summary::Stat::default(),
            seeds: 1,
            difference: 0.0,
            noise: 0.0,
            closeness: *closeness,
        };
        let claim = |outcomes: &(ClaimOutcome, ClaimOutcome)| ClaimRow {
            id: "E0.1".to_owned(),
            claim: "one path".to_owned(),
            first: Some(outcomes.0),
            second: Some(outcomes.1),
            sentence: String::new(),
        };
        Agreement {
            experiment: "x".to_owned(),
            worlds: ["sim".to_owned(), "testbed".to_owned()],
            from_s: 0.0,
            until_s: None,
            tolerance: 0.1,
            rows: closeness.iter().map(row).collect(),
            claims: claims.iter().map(claim).collect(),
            left_out: Vec::new(),
        }
    }

    #[test]
    fn the_worse_of_figures_and_claims_decides() {
        use ClaimOutcome::{NotReproduced, Reproduced};
        use Closeness::{Agrees, Differs, WithinNoise};
        let of = |closeness: &[Closeness], claims: &[_]| verdict(&agreement(closeness, claims)).0;
        assert_eq!(of(&[Agrees, WithinNoise], &[(Reproduced, Reproduced)]), WorldsVerdict::Reproduced);
        assert_eq!(of(&[Agrees], &[(Reproduced, NotReproduced)]), WorldsVerdict::ClaimsBroken);
        assert_eq!(of(&[Agrees, Differs], &[(Reproduced, Reproduced)]), WorldsVerdict::Differ);
        assert_eq!(of(&[], &[]), WorldsVerdict::Nothing);
        let words = verdict(&agreement(&[Agrees, WithinNoise, Differs], &[(Reproduced, NotReproduced)])).1;
        assert_eq!(
            words,
            "1 of 3 figures agree, 1 within noise, 1 differ; 0 of 1 claims hold in both; does not hold: one path"
        );
    }
}
