//! Suggestions for mistyped names.

/// Returns the name in `known` nearest to `given`, if one is near enough. At most a third of the
/// letters may differ (insertions, deletions, changes and swaps of neighbours, ignoring case), or
/// `given` is a prefix.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let near = known.into_iter().filter_map(|word| {
        let lower = word.to_lowercase();
        let distance = strsim::damerau_levenshtein(&given, &lower);
        // Up to a third of the letters is a typo; more is another name.
        let is_typo = distance * 3 <= given.chars().count().max(lower.chars().count());
        let is_prefix = given.len() >= 3 && lower.starts_with(&given);
        (is_typo || is_prefix).then_some((distance, word))
    });
    near.min().map(|(_, word)| word)
}

/// Returns ``did you mean `word`?`` if a known name is near, else `there are: a, b`.
pub fn suggestion<'a>(given: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(given, known.clone()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => {
            let known: Vec<&str> = known.into_iter().collect();
            if known.is_empty() { "none are known".to_owned() } else { format!("there are: {}", known.join(", ")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_and_prefixes_are_near() {
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
    fn suggestion_names_nearest_or_lists_all() {
        assert_eq!(suggestion("trafic", ["topology", "traffic"]), "did you mean `traffic`?");
        assert_eq!(suggestion("xyzzy", ["topology", "traffic"]), "there are: topology, traffic");
        assert_eq!(suggestion("xyzzy", []), "none are known");
    }
}
