//! F1's table of algorithms for servers and paths, by destination port (mechanisms.md S01).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Algorithm of ports that the table does not list (F1's 1).
const DEFAULT: &str = "sl-ps";

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Algorithm {
    /// Algorithm as received: F1's number, or the name of a server balancer.
    pub(crate) algorithm: String,
    pub(crate) port: u16,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    pub(crate) services: BTreeMap<String, Algorithm>,
    /// Whether the table has been written; pools without a method use it then.
    pub(crate) is_written: bool,
}

impl Default for Table {
    fn default() -> Table {
        let entry = |(name, algorithm, port): (&str, &str, u16)| {
            (name.to_owned(), Algorithm { algorithm: algorithm.to_owned(), port })
        };
        let services = [("http", "1", 80), ("ftp", "2", 21), ("ftp2", "2", 20)].into_iter().map(entry).collect();
        Table { services, is_written: false }
    }
}

pub(crate) fn balancer_of(algorithm: &str) -> Option<String> {
    balance::server::Services::algorithm(algorithm).ok().map(|spec| spec.label())
}

impl Table {
    pub(super) fn ports(&self) -> BTreeSet<u16> {
        self.services.values().map(|entry| entry.port).collect()
    }
    pub(crate) fn put(&mut self, name: &str, entry: Algorithm) {
        self.services.retain(|other, found| other == name || found.port != entry.port);
        self.services.insert(name.to_owned(), entry);
        self.is_written = true;
    }
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let was_there = self.services.remove(name).is_some();
        self.is_written |= was_there;
        was_there
    }
    pub(super) fn balancer(&self) -> String {
        let by_port: BTreeMap<u16, &Algorithm> = self.services.values().map(|entry| (entry.port, entry)).collect();
        let entries = by_port.values().filter_map(|entry| {
            let spec = balancer_of(&entry.algorithm)?;
            Some(format!("{}={};", entry.port, spec.replace(',', "+")))
        });
        format!("malob:services={}default={DEFAULT}", entries.collect::<String>())
    }
}
