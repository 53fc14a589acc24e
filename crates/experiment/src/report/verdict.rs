//! The verdict in large type.

use super::figures::swatch;
use super::text::{caveat_list, count_text, esc, join_few, plural, put, share};
use super::view::{Entry, Panel, View};
use crate::summary::{Measure, Verdict};

const ONE_SEED: &str =
    "One seed only: there is no interval, and a difference may be chance. More seeds (--seeds 10) would show.";

pub(super) fn section(view: &View<'_>) -> String {
    let mut out =
        String::from("<section class=\"verdicts\" aria-labelledby=\"who\">\n<h2 id=\"who\">The answer</h2>\n");
    if let Some(headline) = headline(view) {
        put!(out, "<p class=\"headline\">{}</p>\n", esc(&headline));
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
    let (answer, rest) = text.split_once(". ").map_or((text.as_str(), ""), |(answer, rest)| (answer, rest));
    put!(out, "<p class=\"sentence\">{winner}{}.</p>", with_small_remark(answer.trim_end_matches('.')));
    if !rest.is_empty() {
        put!(out, "<p class=\"rest\">{}</p>", esc(rest));
    }
    out.push_str(&of_optimum(panel));
    out.push_str(&caveat_list(&caveats(panel, several)));
    out.push_str("</article>\n");
    out
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
    let mentions_tie = sentence_text.contains("noise") || sentence_text.contains("within 2 %");
    if let Some(verdict) = panel.verdict.filter(|verdict| !verdict.tied.is_empty() && !mentions_tie) {
        let (names, best) = (join_few(&verdict.tied), &verdict.best);
        let text = match one_seed {
            true => format!("Within 2 % of {best}: {names}. With one seed that counts as a tie."),
            false => format!("Within noise: {names} are indistinguishable from {best} on these seeds."),
        };
        caveats.push(("noise", text));
    }
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

fn unfinished_text(entry: &Entry<'_>) -> String {
    let part = entry.unfinished() as f64 / entry.point.flows_started.max(1) as f64;
    let (count, all) = (count_text(entry.unfinished()), plural(entry.point.flows_started, "flow"));
    format!("{} left {count} of {all} ({})", entry.balancer, share(part))
}

fn headline(view: &View<'_>) -> Option<String> {
    let verdicts: Vec<_> = view.panels.iter().filter_map(|panel| panel.verdict).collect();
    if verdicts.len() < 2 {
        return None;
    }
    let what = if view.variants().len() > 1 { "setting" } else { "load" };
    let outright =
        |name: &str| verdicts.iter().filter(|verdict| verdict.best == name && verdict.tied.is_empty()).count();
    let mut wins: Vec<(usize, &str)> =
        view.balancers.iter().map(|(name, _)| (outright(name), *name)).filter(|(count, _)| *count > 0).collect();
    wins.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let best = &verdicts[0].best;
    let same = verdicts.iter().all(|verdict| verdict.best == *best);
    let ties = verdicts.len() - wins.iter().map(|(count, _)| count).sum::<usize>();
    let mut parts: Vec<String> = Vec::new();
    if same && ties > 0 && !wins.is_empty() {
        let all = verdicts.len();
        return Some(format!("{best} is best at all {all} {what}s, at {ties} of them within noise of another."));
    }
    for (count, name) in &wins {
        match *count == verdicts.len() {
            true => parts.push(format!("{name} wins at every {what}")),
            false => parts.push(format!("{name} wins at {count} of {} {what}s", verdicts.len())),
        }
    }
    match (wins.is_empty(), ties) {
        (true, _) => parts.push(no_winner(&verdicts, what)),
        (false, 0) => {}
        (false, _) => parts.push(format!("at {} the best are within noise of each other", plural(ties as u64, what))),
    }
    Some(format!("{}.", parts.join("; ")))
}

fn no_winner(verdicts: &[&Verdict], what: &str) -> String {
    let group = |verdict: &Verdict| {
        let mut names: Vec<String> = verdict.tied.iter().chain([&verdict.best]).cloned().collect();
        names.sort_unstable();
        names
    };
    let first = group(verdicts[0]);
    match verdicts.iter().all(|verdict| group(verdict) == first) {
        true => format!("{} are best at every {what}, within noise of each other", join_few(&first)),
        false => format!("No clear winner: at every {what} the best are within noise of each other"),
    }
}
