//! Verdicts on published claims, directly after the answer.

use super::text::{esc, put};
use super::view::View;
use crate::summary::{ClaimOutcome, ClaimVerdict};

pub(super) fn section(view: &View<'_>) -> String {
    let claims = &view.summary.claims;
    if claims.is_empty() {
        return String::new();
    }
    let mut out = String::from("<section id=\"claims\"><h2>Published claims</h2>\n");
    put!(out, "<p>{}</p>\n", esc(&introduction(view)));
    out.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Published claims\"><table class=\"claims\">\n");
    out.push_str("<thead><tr>");
    for heading in ["Id", "Claim", "Verdict", "Finding"] {
        put!(out, "<th scope=\"col\">{heading}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    claims.iter().for_each(|claim| row(&mut out, claim));
    out.push_str("</tbody></table></div>\n</section>\n");
    out
}

fn introduction(view: &View<'_>) -> String {
    let source = view.setting("source").map(|source| format!(" ({source})")).unwrap_or_default();
    let count = |verdict| view.summary.claims.iter().filter(|claim| claim.verdict == verdict).count();
    let counts: Vec<String> = [ClaimOutcome::Reproduced, ClaimOutcome::WithinNoise, ClaimOutcome::NotReproduced]
        .into_iter()
        .map(|verdict| (count(verdict), verdict))
        .filter(|(count, _)| *count > 0)
        .map(|(count, verdict)| format!("{count} {}", verdict.as_str()))
        .collect();
    format!("Claims of the source{source}: {}.", counts.join(", "))
}

pub(super) fn badge(outcome: ClaimOutcome) -> String {
    let class = match outcome {
        ClaimOutcome::Reproduced => "win",
        ClaimOutcome::WithinNoise => "tie",
        ClaimOutcome::NotReproduced => "lost",
    };
    format!("<span class=\"badge {class}\">{}</span>", outcome.as_str())
}

fn row(out: &mut String, claim: &ClaimVerdict) {
    put!(out, "<tr><th scope=\"row\">{}</th><td>{}</td>", esc(&claim.id), esc(&claim.claim));
    put!(out, "<td>{}</td>", badge(claim.verdict));
    // A line break must not separate a number from its sign.
    put!(out, "<td>{}", esc(&claim.sentence.replace(" %", "\u{a0}%")));
    if let Some(reason) = &claim.reason {
        put!(out, "<p class=\"reason\">{}</p>", esc(reason));
    }
    out.push_str("</td></tr>\n");
}
