//! Reproductions on both platforms: the simulator compared with real switches, by the rules of
//! [`crate::validation`].

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Explanation, Reproduction, TestbedRun};
use crate::store::{Store, pretty};
use crate::summary::{Judgement, Summary};
use crate::validation::{ClaimRow, Validation};
use crate::{Error, report};

pub(super) const VALIDATION_FILE: &str = "validation.json";

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ValidationResult {
    pub schema: u32,
    pub anabranch: String,
    pub rows: Vec<ValidationRow>,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ValidationRow {
    pub document: String,
    pub ids: Vec<String>,
    pub file: String,
    /// Folder of the results, below that of the document, with one folder for each platform.
    #[serde(default)]
    pub name: String,
    pub verdict: ValidationVerdict,
    pub reason: String,
    pub validation: Validation,
}

/// Whether both platforms agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValidationVerdict {
    #[serde(rename = "reproduced")]
    Reproduced,
    /// No figure differs, but a claim of the file fails on one of the platforms.
    #[serde(rename = "platforms agree, claims do not hold")]
    ClaimsBroken,
    #[serde(rename = "platforms differ, explained")]
    Explained,
    #[serde(rename = "platforms differ")]
    Differ,
    /// No common figures or runs.
    #[serde(rename = "nothing compared")]
    Nothing,
}

impl ValidationResult {
    pub fn new(rows: Vec<ValidationRow>) -> ValidationResult {
        let anabranch = env!("CARGO_PKG_VERSION").to_owned();
        ValidationResult { schema: super::REPRODUCTION_SCHEMA_VERSION, anabranch, rows }
    }

    /// Writes `validation.json` and `report.html`, and returns the path of the report. If the folder
    /// has simulator results (`reproduction.json`), the page shows them, too.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let store = Store::create(folder)?;
        let reproduction: Option<Reproduction> = store.json(super::result::REPRODUCTION)?;
        let rows: Vec<&ValidationRow> = self.rows.iter().collect();
        store.write("report.html", report::reproduction_html(reproduction.as_ref(), &rows).as_bytes())?;
        store.write(VALIDATION_FILE, &pretty(self))?;
        Ok(store.path("report.html"))
    }
}

impl ValidationVerdict {
    pub const fn as_str(self) -> &'static str {
        match self {
            ValidationVerdict::Reproduced => "reproduced",
            ValidationVerdict::ClaimsBroken => "platforms agree, claims do not hold",
            ValidationVerdict::Explained => "platforms differ, explained",
            ValidationVerdict::Differ => "platforms differ",
            ValidationVerdict::Nothing => "nothing compared",
        }
    }
}

impl ValidationRow {
    pub fn of(document: &str, run: &TestbedRun, simulated: &Summary, emulated: &Summary) -> ValidationRow {
        let mut validation = Validation::of(simulated, emulated, &run.emulated.validation, &run.emulated.claims);
        explain(&mut validation, &run.explanations);
        let (verdict, reason) = verdict(&validation);
        ValidationRow {
            document: document.to_owned(),
            ids: run.ids.clone(),
            file: run.file.clone(),
            name: run.name.clone(),
            verdict,
            reason,
            validation,
        }
    }
}

/// Gives figures that differ the known reasons.
fn explain(validation: &mut Validation, explanations: &[Explanation]) {
    for row in validation.rows.iter_mut().filter(|row| row.verdict == Judgement::Fails) {
        let fits = |known: &&Explanation| {
            let is_of = (known.balancer.as_str(), known.metric.name()) == (row.balancer.as_str(), row.metric.as_str());
            let is_there = known.variant.as_ref().is_none_or(|variant| *variant == row.variant);
            is_of && is_there && (known.found.0..=known.found.1).contains(&row.difference)
        };
        row.reason = explanations.iter().find(fits).map(|known| known.reason.clone());
    }
}

fn verdict(validation: &Validation) -> (ValidationVerdict, String) {
    let [agree, noise, differ] = Judgement::ALL.map(|verdict| validation.count(verdict));
    let explained = validation.explained();
    let broken: Vec<&ClaimRow> = validation.broken_claims().collect();
    let holds = |claim: &&ClaimRow| claim.judgements().all(|judgement| judgement == Judgement::Holds);
    let held = validation.claims.iter().filter(holds).count();
    let mut reason = format!("{agree} of {} figures agree", validation.rows.len());
    if noise > 0 {
        reason += &format!(", {noise} within noise");
    }
    if differ > 0 {
        let known = match explained {
            0 => String::new(),
            all if all == differ => " (explained)".to_owned(),
            some => format!(" ({some} of them explained)"),
        };
        reason += &format!(", {differ} differ{known}");
    }
    if !validation.claims.is_empty() {
        reason += &format!("; {held} of {} claims hold in both", validation.claims.len());
    }
    if let Some(first) = broken.first() {
        let more = if broken.len() > 1 { format!(" (and {} more)", broken.len() - 1) } else { String::new() };
        let shared = first.otherwise().map_or(String::new(), |shared| {
            format!(" (over the seeds of the switches the simulator says: {})", shared.as_str())
        });
        reason += &format!("; does not hold: {}{shared}{more}", first.claim);
    }
    let verdict = match (validation.rows.is_empty(), differ, broken.is_empty()) {
        (true, ..) => ValidationVerdict::Nothing,
        (_, 1.., _) if explained == differ => ValidationVerdict::Explained,
        (_, 1.., _) => ValidationVerdict::Differ,
        (_, _, false) => ValidationVerdict::ClaimsBroken,
        _ => ValidationVerdict::Reproduced,
    };
    (verdict, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validation(verdicts: &[Judgement], claims: &[(Judgement, Judgement)]) -> Validation {
        let row = |verdict: &Judgement| crate::validation::Row {
            variant: String::new(),
            load: None,
            balancer: "spt".to_owned(),
            metric: "core_bb_rx".to_owned(),
            first: crate::summary::Stat::default(),
            second: crate::summary::Stat::default(),
            seeds: 1,
            first_all: crate::summary::Stat::default(),
            first_seeds: 1,
            difference: 0.15,
            noise: 0.0,
            verdict: *verdict,
            reason: None,
        };
        let claim = |outcomes: &(Judgement, Judgement)| ClaimRow {
            id: "E0.1".to_owned(),
            claim: "one path".to_owned(),
            first: Some(outcomes.0),
            second: Some(outcomes.1),
            first_shared: None,
            sentence: String::new(),
        };
        Validation {
            experiment: "x".to_owned(),
            platforms: ["sim".to_owned(), "testbed".to_owned()],
            from_s: 0.0,
            until_s: None,
            tolerance: 0.1,
            rows: verdicts.iter().map(row).collect(),
            claims: claims.iter().map(claim).collect(),
            left_out: Vec::new(),
        }
    }

    #[test]
    fn the_worse_of_figures_and_claims_decides() {
        use Judgement::{Fails, Holds, WithinNoise};
        let of = |verdicts: &[Judgement], claims: &[_]| verdict(&validation(verdicts, claims)).0;
        assert_eq!(of(&[Holds, WithinNoise], &[(Holds, Holds)]), ValidationVerdict::Reproduced);
        assert_eq!(of(&[Holds], &[(Holds, Fails)]), ValidationVerdict::ClaimsBroken);
        assert_eq!(of(&[Holds, Fails], &[(Holds, Holds)]), ValidationVerdict::Differ);
        assert_eq!(of(&[], &[]), ValidationVerdict::Nothing);
        let reason = verdict(&validation(&[Holds, WithinNoise, Fails], &[(Holds, Fails)])).1;
        assert_eq!(
            reason,
            "1 of 3 figures agree, 1 within noise, 1 differ; 0 of 1 claims hold in both; does not hold: one path"
        );
    }

    #[test]
    fn explanation_applies_only_in_its_range() {
        let explanation = Explanation {
            variant: None,
            balancer: "spt".to_owned(),
            metric: crate::claims::Metric::CoreBbRx,
            found: (0.1, 0.2),
            reason: "why".to_owned(),
        };
        let unexplained = validation(&[Judgement::Fails, Judgement::Holds], &[]);
        let explained = |explanation: &Explanation| {
            let mut both = unexplained.clone();
            explain(&mut both, std::slice::from_ref(explanation));
            both
        };
        let known = explained(&explanation);
        assert_eq!(known.rows.iter().map(|row| row.reason.as_deref()).collect::<Vec<_>>(), [Some("why"), None]);
        let (outcome, reason) = verdict(&known);
        assert_eq!(
            (outcome, reason.as_str()),
            (ValidationVerdict::Explained, "1 of 2 figures agree, 1 differ (explained)")
        );
        for other in [
            Explanation { found: (0.16, 0.3), ..explanation.clone() },
            Explanation { balancer: "ecmp".to_owned(), ..explanation.clone() },
            Explanation { metric: crate::claims::Metric::CoreBbTx, ..explanation.clone() },
            Explanation { variant: Some("v".to_owned()), ..explanation },
        ] {
            assert_eq!(explained(&other), unexplained);
        }
        assert_eq!(verdict(&unexplained).0, ValidationVerdict::Differ);
    }
}
