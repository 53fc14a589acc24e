//! Importers of topologies: the project's JSON, Topology Zoo GraphML, htsim `.topo`.
//!
//! The importers open no files: callers pass the text, and the path for messages and format.

pub mod cabling;
mod draft;
pub mod graphml;
pub mod json;
pub mod topo;

use std::path::Path;

use crate::families::Size;
use crate::topology::{Topology, TopologyError};
use crate::units::{Bandwidth, Time};

/// Values for properties that a file does not give.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportOptions {
    /// Rate of links without one.
    pub default_rate: Bandwidth,
    /// Delay of links without a delay.
    pub default_delay: Time,
    /// Use of geographic positions (GraphML).
    pub coordinates: Coordinates,
    /// Hosts behind each switch of a file without hosts.
    pub hosts_per_node: u32,
    /// Rate of the link between a switch and a host that is not in the file.
    pub host_rate: Bandwidth,
    /// Delay of that link. Zero by default: such a host represents the site itself.
    pub host_delay: Time,
}

/// The use of geographic positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coordinates {
    /// The delay of a link is its great-circle distance at 2e8 m/s, the speed of light in fibre.
    GiveDelays,
    /// Every link has the default delay.
    Ignored,
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        ImportOptions {
            default_rate: Bandwidth::from_gbps(10),
            default_delay: Time::from_us(1),
            coordinates: Coordinates::GiveDelays,
            hosts_per_node: 1,
            host_rate: Bandwidth::from_gbps(100),
            host_delay: Time::ZERO,
        }
    }
}

/// A topology from a file, with warnings.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The network of the file.
    pub topology: Topology,
    /// One line for every part of the file that was dropped or ignored, with its position.
    pub warnings: Vec<String>,
}

/// The reason why a file is not a topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum ImportError {
    #[error(
        "{file}: unknown kind of topology file; known are .json (topology/1), .graphml (Topology Zoo) and \
         .topo (htsim)"
    )]
    Extension { file: String },
    #[error("{file}:{line}:{column}: {reason}")]
    Text { file: String, line: u32, column: u32, reason: String },
    #[error("{file}: {entry}: {reason}")]
    Entry {
        file: String,
        /// The entry, such as `links[3].b`.
        entry: String,
        reason: String,
    },
    #[error("{file}: {cause}")]
    Topology { file: String, cause: TopologyError },
}

/// Reads a topology in the format of the extension of `path`; the file name names it.
pub fn read(path: &Path, text: &str, options: &ImportOptions) -> Result<Imported, ImportError> {
    let file = path.display().to_string();
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("json") => json::read(&file, text, options),
        Some("graphml") => graphml::read(&file, text, options),
        Some("topo") => topo::read(&file, text),
        _ => Err(ImportError::Extension { file }),
    }
}

/// Returns `geni_wan` for `data/topologies/geni_wan.json`.
fn stem(file: &str) -> String {
    let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or(file).to_owned()
}

fn check_size(file: &str, size: Size) -> Result<(), ImportError> {
    size.check("import").map_err(|cause| unusable(file, cause))
}

fn unusable(file: &str, cause: TopologyError) -> ImportError {
    ImportError::Topology { file: file.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_selects_format() {
        let options = ImportOptions::default();
        let error = |path: &str| read(Path::new(path), "", &options).unwrap_err().to_string();
        assert!(error("x/net.yaml").starts_with("x/net.yaml: unknown kind"));
        assert!(error("x").contains(".graphml"));
        assert!(error("x/net.JSON").starts_with("x/net.JSON:1:"));
        assert!(error("x/net.graphml").starts_with("x/net.graphml:1:"));
        assert!(error("x/net.topo").starts_with("x/net.topo:1:"));
        assert_eq!(stem("a/b.c.topo"), "b.c");
    }
}
