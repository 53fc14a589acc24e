//! Verdicts on published claims, directly after the answer.

use super::text::{esc, put};
use super::view::View;
use crate::summary::{ClaimVerdict, Judgement};

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
    let [holds, noise, fails] = Judgement::ALL.map(count);
    let plural = |count: usize, singular, plural| if count == 1 { singular } else { plural };
    let counts = [
        (holds, plural(holds, "holds", "hold")),
        (noise, plural(noise, "is within noise", "are within noise")),
        (fails, plural(fails, "fails", "fail")),
    ];
    let counts: Vec<String> =
        counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}")).collect();
    format!("Claims of the source{source}: {}.", counts.join(", "))
}

/// Returns the CSS class of a badge.
pub(super) const fn class(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Holds => "win",
        Judgement::WithinNoise => "tie",
        Judgement::Fails => "lost",
    }
}

pub(super) fn badge(judgement: Judgement) -> String {
    format!("<span class=\"badge {}\">{}</span>", class(judgement), judgement.as_str())
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
