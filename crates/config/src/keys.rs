//! The keys of one kind of file. One list serves for checks, suggestions and documentation.

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The section, such as `traffic`; empty for the top of the file.
    pub section: &'static str,
    /// The name within the section.
    pub name: &'static str,
    /// The type of the value, as documentation shows it.
    pub takes: &'static str,
    /// The behaviour without the key. Quoted texts and plain numbers are written as in a file.
    pub default: &'static str,
    /// A description for users.
    pub doc: &'static str,
}

/// Returns a row of the list.
pub const fn key(
    section: &'static str,
    name: &'static str,
    takes: &'static str,
    default: &'static str,
    doc: &'static str,
) -> Key {
    Key { section, name, takes, default, doc }
}

/// Returns the names of the keys of a section.
pub fn names(keys: &[Key], section: &str) -> Vec<&'static str> {
    keys.iter().filter(|key| key.section == section).map(|key| key.name).collect()
}

/// Returns the sections in the order of the list.
pub fn sections(keys: &[Key]) -> Vec<&'static str> {
    let mut sections: Vec<&str> = keys.iter().map(|key| key.section).filter(|section| !section.is_empty()).collect();
    sections.dedup();
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_and_names_keep_list_order() {
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
