//! The keys of one kind of file. One declaration serves for parsing, checks, suggestions,
//! documentation and the JSON Schema.

pub use crate::kind::Kind;

/// The declaration of one key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The section, such as `traffic`; empty for the top of the file.
    pub section: &'static str,
    /// The name within the section; in capitals, such as `NAME`, for names that users choose.
    pub name: &'static str,
    /// The type of the value.
    pub kind: Kind,
    /// The behaviour without the key: a value as in a file, or a description such as "required".
    pub default: &'static str,
    /// A description for users, in one sentence without a full stop.
    pub doc: &'static str,
}

impl Key {
    /// Returns whether the key represents names that users choose, such as those of services.
    pub fn is_placeholder(&self) -> bool {
        self.name.bytes().all(|byte| byte.is_ascii_uppercase())
    }
}

/// Returns a row of the list.
pub const fn key(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
) -> Key {
    Key { section, name, kind, default, doc }
}

/// The structure of one kind of file.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// All keys, in the order in which a file is written.
    pub keys: &'static [Key],
    /// Sections that may occur several times, such as `[[failure]]`.
    pub repeated: &'static [&'static str],
    /// Tables whose keys are dotted keys of the rest of the file.
    pub flat: &'static [&'static str],
}

impl Layout {
    /// Returns the key with this name in a section.
    pub fn key(&self, section: &str, name: &str) -> Option<&'static Key> {
        self.of(section).find(|key| key.name == name)
    }

    /// Returns the keys of a section.
    pub fn of<'a>(&self, section: &'a str) -> impl Iterator<Item = &'static Key> + use<'a> {
        self.keys.iter().filter(move |key| key.section == section)
    }

    /// Returns the sections below another one, such as `switch.ecn` below `switch`, in the order of the
    /// list; the empty name is the top of the file.
    pub fn sections(&self, below: &str) -> Vec<&'static str> {
        let parent = |section: &str| section.rsplit_once('.').map_or("", |(parent, _)| parent).to_owned();
        let mut sections: Vec<&str> = self.keys.iter().map(|key| key.section).collect();
        sections.retain(|section| !section.is_empty() && parent(section) == below);
        sections.dedup();
        sections
    }

    /// Returns the names that a section accepts, or `None` if users choose them.
    pub fn names(&self, section: &str) -> Option<Vec<&'static str>> {
        if self.of(section).any(Key::is_placeholder) {
            return None;
        }
        let below = self.sections(section).into_iter().map(|name| name.rsplit_once('.').map_or(name, |(_, own)| own));
        let mut names: Vec<&str> = self.of(section).map(|key| key.name).collect();
        for name in below {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Some(names)
    }

    /// Returns the position of a key in a written file.
    pub fn position(&self, section: &str, name: &str) -> usize {
        let own = self.keys.iter().position(|key| key.section == section && key.name == name);
        let below = || self.keys.iter().position(|key| section.is_empty() && key.section == name);
        own.or_else(below).unwrap_or(self.keys.len())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::kind::{COUNT, TEXT};

    /// A small file for the tests of this crate.
    pub(crate) static LAYOUT: Layout = Layout {
        keys: &[
            key("", "seed", COUNT, "1", "the seed"),
            key("log", "format", Kind::Choice(&["text", "json"]), "text", "the format"),
            key("log", "filter", TEXT, "info", "the filter"),
            key("links", "capacity", Kind::Bandwidth, "10Gbps", "the capacity"),
            key("links.ramp", "min", Kind::Time, "required", "the lower end"),
            key("host", "ports", Kind::List(&COUNT), "required", "its ports"),
            key("pools", "NAME", Kind::Form("table"), "none", "a pool"),
        ],
        repeated: &["host"],
        flat: &[],
    };

    #[test]
    fn sections_and_names_keep_list_order() {
        assert_eq!(LAYOUT.sections(""), ["log", "links", "host", "pools"]);
        assert_eq!(LAYOUT.names("log").unwrap(), ["format", "filter"]);
        assert_eq!(LAYOUT.names("links").unwrap(), ["capacity", "ramp"]);
        assert_eq!(LAYOUT.names("").unwrap(), ["seed", "log", "links", "host", "pools"]);
        assert_eq!(LAYOUT.names("pools"), None);
        assert!(LAYOUT.position("", "seed") < LAYOUT.position("", "host"));
    }
}
