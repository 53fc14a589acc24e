//! The verdict in large type.

use super::figures::swatch;
use super::text::{caveat_list, count_text, esc, join_few, plural, put, share};
use super::view::{Entry, Panel, View};
use crate::summary::{Measure, SteadyState};

const ONE_SEED: &str =
    "One seed only: there is no interval, and a difference may be chance. More seeds (--seeds 10) would show.";

pub(super) fn section(view: &View<'_>) -> String {
    let mut out =
        String::from("<section class=\"verdicts\" aria-labelledby=\"who\">\n<h2 id=\"who\">The answer</h2>\n");
    if let Some(overall) = &view.summary.overall {
        let (answer, rest) = split(&overall.sentence);
        put!(out, "<p class=\"headline\">{}.</p>\n", with_small_remark(answer.trim_end_matches('.')));
        if !rest.is_empty() {
            put!(out, "<p class=\"rest\">{}</p>\n", esc(rest));
        }
    }
    let several = view.panels.len() > 1;
    if view.panels.iter().all(|panel| panel.seeds() < 2) && several {
        put!(out, "<ul class=\"caveats\"><li class=\"noise\">{ONE_SEED}</li></ul>\n");
    }
    put!(out, "<div class=\"verdict-list{}\">\n", if several { " several" } else { "" });
    for panel in &view.panels {
        out.push_str(&one(panel, several));
    }
    out.push_str("</div>\n</section>\n");
    out
}

fn one(panel: &Panel<'_>, several: bool) -> String {
    let mut out = String::from("<article class=\"verdict\">");
    if several {
        put!(out, "<h3><a href=\"#{}\">{}</a></h3>", panel.id, esc(&panel.title()));
    }
    let winner = panel.best().map(|entry| swatch(entry.colour)).unwrap_or_default();
    // The first sentence is the answer in large type; the rest explains it.
    let text = sentence(panel);
    let (answer, rest) = split(&text);
    put!(out, "<p class=\"sentence\">{winner}{}.</p>", with_small_remark(answer.trim_end_matches('.')));
    if !rest.is_empty() {
        put!(out, "<p class=\"rest\">{}</p>", esc(rest));
    }
    out.push_str(&of_optimum(panel));
    out.push_str(&caveat_list(&caveats(panel, several)));
    out.push_str("</article>\n");
    out
}

/// Splits a text after its first sentence.
fn split(text: &str) -> (&str, &str) {
    text.split_once(". ").unwrap_or((text, ""))
}

/// Sets a long remark in parentheses at the end of the sentence in small type.
fn with_small_remark(sentence: &str) -> String {
    let remark = sentence.rfind(" (").filter(|at| sentence.ends_with(')') && sentence.len() - at > 30);
    match remark {
        Some(at) => format!("{}<small>{}</small>", esc(&sentence[..at]), esc(&sentence[at..])),
        None => esc(sentence),
    }
}

fn sentence(panel: &Panel<'_>) -> String {
    match panel.verdict {
        Some(verdict) if !verdict.sentence.is_empty() => verdict.sentence.clone(),
        Some(verdict) => format!("{} is best.", verdict.best),
        None => "No verdict: no balancer completed a flow.".to_owned(),
    }
}

fn of_optimum(panel: &Panel<'_>) -> String {
    let share_of_best = panel.best().and_then(|best| best.point.share_of_optimum.as_ref());
    share_of_best.map_or_else(String::new, |stat| {
        let share = super::text::share_with_interval(stat);
        format!(
            "<p class=\"rest\">It reaches {} of the optimum, which is a bound instead of a balancer.</p>",
            esc(&share)
        )
    })
}

fn caveats(panel: &Panel<'_>, several: bool) -> Vec<(&'static str, String)> {
    let mut caveats = Vec::new();
    let sentence_text = sentence(panel);
    let one_seed = panel.seeds() < 2;
    caveats.extend(unsteady(panel).map(|text| ("noise", text)));
    // With several verdicts, one caveat above them suffices.
    if one_seed && !several {
        caveats.push(("noise", ONE_SEED.to_owned()));
    }
    let mut unfinished: Vec<&Entry<'_>> = panel.rivals().into_iter().filter(|entry| entry.unfinished() > 0).collect();
    unfinished.sort_by_key(|entry| std::cmp::Reverse(entry.unfinished()));
    // Throughput counts delivered bytes, whether the flow completed or not.
    if !unfinished.is_empty() && panel.rank_by == Measure::Slowdown {
        let list: Vec<String> = unfinished.into_iter().map(unfinished_text).collect();
        let who = if sentence_text.contains("unfinished") { String::new() } else { format!(": {}", join_few(&list)) };
        let text = format!(
            "Not every flow completed{who}. In the ranking an unfinished flow counts with the slowdown it had reached. Completion times exclude unfinished flows, which favours balancers that leave slow flows unfinished."
        );
        caveats.push(("unfinished", text));
    }
    caveats
}

/// Returns a caveat if the first or the last flows of runs change the mean beyond its interval.
fn unsteady(panel: &Panel<'_>) -> Option<String> {
    let steady = panel.rivals().into_iter().flat_map(|entry| entry.runs.iter().filter_map(|run| run.steady));
    let all: Vec<SteadyState> = steady.collect();
    let is_biased = |run: &&SteadyState| run.ci95.is_some_and(|half| (run.mean - run.mean_of_all).abs() > half);
    let biased: Vec<&SteadyState> = all.iter().filter(is_biased).collect();
    // By chance one of twenty.
    if panel.rank_by != Measure::Slowdown || biased.len() * 10 <= all.len() {
        return None;
    }
    let mean = |of: fn(&SteadyState) -> u64| {
        biased.iter().map(|run| of(run) as f64 / run.flows as f64).sum::<f64>() / biased.len() as f64
    };
    let (first, last) = (share(mean(|run| run.warm_up)), share(mean(|run| run.end)));
    Some(format!(
        "{} of {} runs are not steady: about the first {first} and the last {last} of their flows have other slowdowns than the rest, which changes the mean. The key probes.warm_up leaves the first out of averages; more flows make both matter less.",
        biased.len(),
        all.len()
    ))
}

fn unfinished_text(entry: &Entry<'_>) -> String {
    let part = entry.unfinished() as f64 / entry.point.flows_started.max(1) as f64;
    let (count, all) = (count_text(entry.unfinished()), plural(entry.point.flows_started, "flow"));
    format!("{} left {count} of {all} ({})", entry.balancer, share(part))
}
