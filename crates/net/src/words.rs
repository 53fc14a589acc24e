//! What a mistyped word may have meant: one rule for every name a user writes.

/// The word of `known` nearest to `given`, if any is near: at most a third of the letters differ (insertions,
/// deletions, changes and swaps of neighbours, whatever the case), or `given` is how the word begins.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let near = known.into_iter().filter_map(|word| {
        let lower = word.to_lowercase();
        let distance = strsim::damerau_levenshtein(&given, &lower);
        // A third of the letters wrong is a slip; more is another word.
        let is_slip = distance * 3 <= given.chars().count().max(lower.chars().count());
        let is_beginning = given.len() >= 3 && lower.starts_with(&given);
        (is_slip || is_beginning).then_some((distance, word))
    });
    near.min().map(|(_, word)| word)
}

/// ``did you mean `word`?`` where a known word is near, otherwise the list of them: `there are: a, b`.
pub fn hint<'a>(given: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(given, known.clone()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => {
            let known: Vec<&str> = known.into_iter().collect();
            if known.is_empty() { "there are none".to_owned() } else { format!("there are: {}", known.join(", ")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_and_beginnings_are_near_and_other_words_are_not() {
        let near = |given, known: &[&'static str]| nearest(given, known.iter().copied());
        assert_eq!(near("trafic", &["topology", "traffic"]), Some("traffic"));
        assert_eq!(near("ecpm", &["ecmp", "spt"]), Some("ecmp"), "neighbours swapped are one slip");
        assert_eq!(near("FatTree", &["vl2", "fat-tree"]), Some("fat-tree"));
        assert_eq!(near("hermes", &["hermes-rtt", "ecmp"]), Some("hermes-rtt"));
        assert_eq!(near("spine7", &["spine0", "spine1"]), Some("spine0"), "equally near ones in their order");
        assert_eq!(near("xyzzy", &["topology", "traffic"]), None);
        assert_eq!(near("q", &["k"]), None);
        assert_eq!(near("", &["k"]), None);
        assert_eq!(near("k", &[]), None);
    }

    #[test]
    fn hints_suggest_or_list() {
        assert_eq!(hint("trafic", ["topology", "traffic"]), "did you mean `traffic`?");
        assert_eq!(hint("xyzzy", ["topology", "traffic"]), "there are: topology, traffic");
        assert_eq!(hint("xyzzy", []), "there are none");
    }
}
