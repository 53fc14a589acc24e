//! Reproductions in two worlds: what the simulator gives and what real switches give, by the rules of
//! [`crate::agreement`].

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Explanation, Reproduction, TestbedRun};
use crate::agreement::{Agreement, ClaimRow, Closeness, Row};
use crate::store::{Store, pretty};
use crate::summary::{ClaimOutcome, Summary};
use crate::{Error, report};

/// The name of the file.
pub(super) const WORLDS: &str = "worlds.json";

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
    /// Folder of the results, below that of the document, with one folder for each world.
    #[serde(default)]
    pub name: String,
    /// Whether the worlds agree, and the claims of the file hold.
    pub verdict: WorldsVerdict,
    /// Why, on a line.
    pub reason: String,
    /// Every figure compared, and every claim.
    pub agreement: Agreement,
    /// Why figures differ, of those where that is known.
    #[serde(default)]
    pub explained: Vec<Explained>,
}

/// Why one figure differs between the worlds.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Explained {
    /// Label of the variant.
    pub variant: String,
    /// Offered load.
    pub load: Option<f64>,
    /// Label of the balancer.
    pub balancer: String,
    /// Name of the metric, as in experiment files.
    pub metric: String,
    /// The reason, a sentence.
    pub reason: String,
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
    /// Some figures differ, and of each the index says why.
    #[serde(rename = "worlds differ, explained")]
    Explained,
    /// Some figure differs by more than the tolerance and more than draws explain, and nobody knows why.
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

    /// Writes `worlds.json`, and `report.html`; answers the path of the report. What the folder has of the simulator alone
    /// (`reproduction.json`) is on the page, too.
    ///
    /// # Errors
    /// The folder cannot be written, or what is in it is not of this program.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let store = Store::create(folder)?;
        let reproduction: Option<Reproduction> = store.json(super::result::REPRODUCTION)?;
        let rows: Vec<&WorldsRow> = self.rows.iter().collect();
        store.write("report.html", report::reproduction_html(reproduction.as_ref(), &rows).as_bytes())?;
        store.write(WORLDS, &pretty(self))?;
        Ok(store.path("report.html"))
    }
}

impl WorldsVerdict {
    /// In words, as in files.
    pub const fn words(self) -> &'static str {
        match self {
            WorldsVerdict::Reproduced => "reproduced",
            WorldsVerdict::ClaimsBroken => "worlds agree, claims do not hold",
            WorldsVerdict::Explained => "worlds differ, explained",
            WorldsVerdict::Differ => "worlds differ",
            WorldsVerdict::Nothing => "nothing compared",
        }
    }
}

impl WorldsRow {
    /// Compares the results of both worlds.
    pub fn of(document: &str, run: &TestbedRun, simulated: &Summary, emulated: &Summary) -> WorldsRow {
        let agreement = Agreement::of(simulated, emulated, &run.emulated.agree, &run.emulated.claims);
        let explained = explained(&agreement, &run.explanations);
        let (verdict, reason) = verdict(&agreement, explained.len());
        WorldsRow {
            document: document.to_owned(),
            ids: run.ids.clone(),
            file: run.file.clone(),
            name: run.name.clone(),
            verdict,
            reason,
            agreement,
            explained,
        }
    }

    /// Why a figure differs, if that is known.
    pub fn reason_of(&self, row: &Row) -> Option<&str> {
        let is_of = |known: &&Explained| {
            (&known.variant, known.load, &known.balancer, &known.metric)
                == (&row.variant, row.load, &row.balancer, &row.metric)
        };
        self.explained.iter().find(is_of).map(|known| known.reason.as_str())
    }
}

/// Figures that differ as much as was found when the reason was written.
fn explained(agreement: &Agreement, explanations: &[Explanation]) -> Vec<Explained> {
    let reason = |row: &Row| {
        let fits = |known: &&Explanation| {
            let is_of = (known.balancer.as_str(), known.metric.name()) == (row.balancer.as_str(), row.metric.as_str());
            let is_there = known.variant.as_ref().is_none_or(|variant| *variant == row.variant);
            is_of && is_there && (known.found.0..=known.found.1).contains(&row.difference)
        };
        explanations.iter().find(fits).map(|known| known.reason.clone())
    };
    let differing = agreement.rows.iter().filter(|row| row.closeness == Closeness::Differs);
    differing
        .filter_map(|row| {
            Some(Explained {
                variant: row.variant.clone(),
                load: row.load,
                balancer: row.balancer.clone(),
                metric: row.metric.clone(),
                reason: reason(row)?,
            })
        })
        .collect()
}

fn verdict(agreement: &Agreement, explained: usize) -> (WorldsVerdict, String) {
    let count = |closeness| agreement.count(closeness);
    let (agree, noise, differ) = (count(Closeness::Agrees), count(Closeness::WithinNoise), count(Closeness::Differs));
    let broken: Vec<&ClaimRow> = agreement.broken_claims().collect();
    let held = agreement.claims.iter().filter(|claim| {
        [claim.first, claim.second].into_iter().flatten().all(|outcome| outcome == ClaimOutcome::Reproduced)
    });
    let held = held.count();
    let mut words = format!("{agree} of {} figures agree", agreement.rows.len());
    if noise > 0 {
        words += &format!(", {noise} within noise");
    }
    if differ > 0 {
        let known = match explained {
            0 => String::new(),
            all if all == differ => " (explained)".to_owned(),
            some => format!(" ({some} of them explained)"),
        };
        words += &format!(", {differ} differ{known}");
    }
    if !agreement.claims.is_empty() {
        words += &format!("; {held} of {} claims hold in both", agreement.claims.len());
    }
    if let Some(first) = broken.first() {
        let more = if broken.len() > 1 { format!(" (and {} more)", broken.len() - 1) } else { String::new() };
        let shared = first.otherwise().map_or(String::new(), |shared| {
            format!(" (over the seeds of the switches the simulator says: {})", shared.words())
        });
        words += &format!("; does not hold: {}{shared}{more}", first.claim);
    }
    let verdict = match (agreement.rows.is_empty(), differ, broken.is_empty()) {
        (true, ..) => WorldsVerdict::Nothing,
        (_, 1.., _) if explained == differ => WorldsVerdict::Explained,
        (_, 1.., _) => WorldsVerdict::Differ,
        (_, _, false) => WorldsVerdict::ClaimsBroken,
        _ => WorldsVerdict::Reproduced,
    };
    (verdict, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement(closeness: &[Closeness], claims: &[(ClaimOutcome, ClaimOutcome)]) -> Agreement {
        let row = |closeness: &Closeness| crate::agreement::Row {
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
            closeness: *closeness,
        };
        let claim = |outcomes: &(ClaimOutcome, ClaimOutcome)| ClaimRow {
            id: "E0.1".to_owned(),
            claim: "one path".to_owned(),
            first: Some(outcomes.0),
            second: Some(outcomes.1),
            first_shared: None,
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
        let of = |closeness: &[Closeness], claims: &[_]| verdict(&agreement(closeness, claims), 0).0;
        assert_eq!(of(&[Agrees, WithinNoise], &[(Reproduced, Reproduced)]), WorldsVerdict::Reproduced);
        assert_eq!(of(&[Agrees], &[(Reproduced, NotReproduced)]), WorldsVerdict::ClaimsBroken);
        assert_eq!(of(&[Agrees, Differs], &[(Reproduced, Reproduced)]), WorldsVerdict::Differ);
        assert_eq!(of(&[], &[]), WorldsVerdict::Nothing);
        let words = verdict(&agreement(&[Agrees, WithinNoise, Differs], &[(Reproduced, NotReproduced)]), 0).1;
        assert_eq!(
            words,
            "1 of 3 figures agree, 1 within noise, 1 differ; 0 of 1 claims hold in both; does not hold: one path"
        );
    }

    #[test]
    fn an_explanation_is_of_its_figure_as_it_was_found() {
        let explanation = Explanation {
            variant: None,
            balancer: "spt".to_owned(),
            metric: crate::claims::Metric::CoreBbRx,
            found: (0.1, 0.2),
            reason: "why".to_owned(),
        };
        let both = agreement(&[Closeness::Differs, Closeness::Agrees], &[]);
        let known = explained(&both, std::slice::from_ref(&explanation));
        assert_eq!(known.iter().map(|known| known.reason.as_str()).collect::<Vec<_>>(), ["why"]);
        let (said, words) = verdict(&both, known.len());
        assert_eq!((said, words.as_str()), (WorldsVerdict::Explained, "1 of 2 figures agree, 1 differ (explained)"));
        for other in [
            Explanation { found: (0.16, 0.3), ..explanation.clone() },
            Explanation { balancer: "ecmp".to_owned(), ..explanation.clone() },
            Explanation { metric: crate::claims::Metric::CoreBbTx, ..explanation.clone() },
            Explanation { variant: Some("v".to_owned()), ..explanation },
        ] {
            assert_eq!(explained(&both, &[other]), []);
        }
        assert_eq!(verdict(&both, 0).0, WorldsVerdict::Differ);
    }
}
