//! Topologies from files: our JSON, Topology Zoo GraphML, htsim `.topo`.
//!
//! Nothing here opens files: callers pass the text, and the path for messages and for the choice of format.

mod draft;
pub mod graphml;
pub mod json;
pub mod topo;

use std::path::Path;

use crate::families::{DEFAULT_DELAY, DEFAULT_RATE, Size};
use crate::topology::{Topology, TopologyError};
use crate::units::{Bandwidth, Time};

/// What to assume where a file does not say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportOptions {
    /// Rate of links without one.
    pub default_rate: Bandwidth,
    /// Delay of links without one.
    pub default_delay: Time,
    /// What to do with geographic positions (GraphML).
    pub coordinates: Coordinates,
    /// Hosts behind each switch of a file that has no hosts.
    pub hosts_per_node: u32,
    /// Rate of the link between a switch and a host that is not in the file.
    pub host_rate: Bandwidth,
    /// Delay of that link. Zero by default: such a host stands for the site itself.
    pub host_delay: Time,
}

/// What to do with geographic positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coordinates {
    /// Delay of a link = great-circle distance at 2e8 m/s, the speed of light in fibre.
    GiveDelays,
    /// Every link has the default delay.
    Ignored,
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        ImportOptions {
            default_rate: DEFAULT_RATE,
            default_delay: DEFAULT_DELAY,
            coordinates: Coordinates::GiveDelays,
            hosts_per_node: 1,
            host_rate: Bandwidth::from_gbps(100),
            host_delay: Time::ZERO,
        }
    }
}

/// A topology from a file, and what was passed over on the way.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The topology.
    pub topology: Topology,
    /// One line for everything dropped or ignored, with its place in the file.
    pub warnings: Vec<String>,
}

/// Why a file is no topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The name does not tell the format.
    #[error(
        "{file}: unknown kind of topology file; known are .json (topology/1), .graphml (Topology Zoo) and \
         .topo (htsim)"
    )]
    Extension {
        /// The file.
        file: String,
    },
    /// Something wrong at a place in the text.
    #[error("{file}:{line}:{column}: {reason}")]
    Text {
        /// The file.
        file: String,
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// What is wrong and what would do.
        reason: String,
    },
    /// Something wrong with an entry of a list.
    #[error("{file}: {entry}: {reason}")]
    Entry {
        /// The file.
        file: String,
        /// The entry, such as `links[3].b`.
        entry: String,
        /// What is wrong and what would do.
        reason: String,
    },
    /// A well-formed file that describes no usable network.
    #[error("{file}: {cause}")]
    Topology {
        /// The file.
        file: String,
        /// What is wrong with it.
        cause: TopologyError,
    },
}

/// Reads a topology in the format the extension of `path` names. The topology gets the name of the file
/// without directory and extension.
///
/// # Errors
/// An unknown extension, or text that is not a topology; with line and column where there is one.
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

/// `geni_wan` of `data/topologies/geni_wan.json`.
fn stem(file: &str) -> String {
    let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or(file).to_owned()
}

/// Refuses a network too large, in the importers' error.
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
    fn the_extension_chooses_the_format() {
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
