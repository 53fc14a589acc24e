//! Keys that a kind of file can have, each with its meaning: one list checks files, suggests names and is printed.

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Section, such as `traffic`; empty for the top of the file.
    pub section: &'static str,
    /// Name in it.
    pub name: &'static str,
    /// What it takes.
    pub takes: &'static str,
    /// What holds when it is left out. Defaults in quotes and plain numbers are written as a file would have them.
    pub default: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// A line of such a list.
pub const fn key(
    section: &'static str,
    name: &'static str,
    takes: &'static str,
    default: &'static str,
    doc: &'static str,
) -> Key {
    Key { section, name, takes, default, doc }
}

/// Names of the keys of a section.
pub fn names(keys: &[Key], section: &str) -> Vec<&'static str> {
    keys.iter().filter(|key| key.section == section).map(|key| key.name).collect()
}

/// Sections in the order of a list.
pub fn sections(keys: &[Key]) -> Vec<&'static str> {
    let mut sections: Vec<&str> = keys.iter().map(|key| key.section).filter(|section| !section.is_empty()).collect();
    sections.dedup();
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_and_names_are_in_the_order_of_the_list() {
        let keys = [
            key("", "seed", "count", "1", ""),
            key("log", "format", "text", "text", ""),
            key("log", "filter", "text", "info", ""),
            key("links", "capacity", "bandwidth", "10Gbps", ""),
        ];
        assert_eq!(sections(&keys), ["log", "links"]);
        assert_eq!(names(&keys, "log"), ["format", "filter"]);
        assert_eq!(names(&keys, ""), ["seed"]);
    }
}
