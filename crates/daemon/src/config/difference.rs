//! The keys in which two configuration files differ.

use std::collections::BTreeMap;

use config::diagnostic::SourceLocation;
use config::document::{Data, Document, Table, Value, ValueOrigin};

/// Keys that a reload applies, with everything below them. Other keys take effect at the next
/// start.
const RELOADED: &[&str] = &[
    "balancer",
    "tls",
    "switch",
    "api",
    "log.filter",
    "log.audit",
    "limits.connections",
    "limits.pending_handshakes",
    "limits.handshake_timeout",
    "limits.messages_per_s",
    "limits.accepts_per_s",
    "limits.http_connections",
    "limits.http_request_timeout",
    "limits.send_buffer_bytes",
    "limits.write_timeout",
    "services",
    "pools",
    "calendar",
    "timetable",
];
/// Keys below one of [`RELOADED`] that a reload does not apply.
const STARTED: &[&str] = &["services.health_check_address", "calendar.start"];

/// Values by dotted key. Lists count as one value, located at the first difference.
type Values<'a> = BTreeMap<String, (String, &'a ValueOrigin)>;

/// Returns the keys of `now` that differ from `before` and that only a start applies, with their
/// locations. A key that was removed has its former location.
pub(crate) fn needing_start(before: &Document, now: &Document) -> Vec<(String, SourceLocation)> {
    let (old, new) = (values(before), values(now));
    let mut found = BTreeMap::new();
    for (key, (value, at)) in &new {
        if old.get(key).is_none_or(|(old, _)| old != value) {
            found.entry(shown(key)).or_insert_with(|| now.place(at));
        }
    }
    for (key, (_, at)) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
        found.entry(shown(key)).or_insert_with(|| before.place(at));
    }
    // Whether a listener has TLS at all cannot change while it runs.
    let keeps = |key: &str| {
        let has = |document: &Document, key| values(document).keys().any(|other| is_below(other, key));
        let tls = ["tls", "api.tls"].into_iter().find(|tls| is_below(key, tls));
        tls.is_none_or(|tls| has(before, tls) == has(now, tls))
    };
    let is_reloaded =
        |key: &str| RELOADED.iter().any(|known| is_below(key, known)) && !STARTED.contains(&key) && keeps(key);
    found.into_iter().filter(|(key, _)| !is_reloaded(key)).collect()
}

fn is_below(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the key as users write it: without the position in a list.
fn shown(key: &str) -> String {
    key.split('.').filter(|part| part.parse::<usize>().is_err()).collect::<Vec<_>>().join(".")
}

fn values(document: &Document) -> Values<'_> {
    let mut found = Values::new();
    collect(&document.root, "", &mut found);
    found
}

fn collect<'a>(table: &'a Table, path: &str, found: &mut Values<'a>) {
    for (key, entry) in table {
        let key = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        collect_value(&entry.value, key, found);
    }
}

fn collect_value<'a>(value: &'a Value, key: String, found: &mut Values<'a>) {
    let scalar = match &value.data {
        Data::Table(table) => return collect(table, &key, found),
        Data::List(items) => {
            for (ix, item) in items.iter().enumerate() {
                collect_value(item, format!("{key}.{ix}"), found);
            }
            return;
        }
        Data::Text(text) => format!("{text:?}"),
        Data::Integer(number) => number.to_string(),
        Data::Real(number) => number.to_string(),
        Data::Flag(flag) => flag.to_string(),
    };
    found.insert(key, (scalar, &value.at));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LAYOUT;

    fn document(text: &str) -> Document {
        Document::parse("a.toml", text, &LAYOUT).expect("a document")
    }

    #[test]
    fn keys_that_only_a_start_applies_are_named_with_their_lines() {
        let before = document(
            "listen = \"a\"\nseed = 1\n[log]\nfilter = \"info\"\nformat = \"text\"\n[limits]\nhosts = 5\nconnections = 5\n\
             [[host]]\nport = 1\n[[host]]\nport = 2\n",
        );
        let now = document(
            "# another line\nlisten = \"b\"\n[log]\nfilter = \"warn\"\nformat = \"json\"\n[limits]\nhosts = 5\n\
             connections = 6\n[[host]]\nport = 1\n[[host]]\nport = 3\n[tls]\nca = \"ca.pem\"\n[services]\nhealth_check_address = \"x\"\n",
        );
        let found: Vec<String> =
            needing_start(&before, &now).iter().map(|(key, place)| format!("{place}: {key}")).collect();
        let expected = [
            "a.toml:12: host.port",
            "a.toml:2: listen",
            "a.toml:5: log.format",
            "a.toml:2: seed",
            "a.toml:16: services.health_check_address",
            "a.toml:14: tls.ca",
        ];
        assert_eq!(found, expected);
        assert!(needing_start(&now, &now).is_empty());
    }

    #[test]
    fn reloaded_keys_are_declared() {
        for key in RELOADED.iter().chain(STARTED) {
            let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
            let is_known = LAYOUT.key(section, name).is_some() || LAYOUT.of(key).next().is_some();
            assert!(is_known, "{key}");
        }
    }
}
