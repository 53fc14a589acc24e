//! Networks: built from a family, or read from a file.

use std::path::Path;
use std::sync::Arc;

use net::import::{self, Coordinates, ImportOptions};
use net::{NodeKind, export};
use pyo3::prelude::*;

use crate::failure;

/// A network of hosts, switches and links.
#[pyclass(frozen, module = "anabranch._native")]
pub struct Topology(pub Arc<net::Topology>);

/// Name, kind, tier, pod, rack.
type NodeRow = (String, &'static str, u8, Option<u32>, Option<u32>);
/// Ends, rate in bit/s, delay in picoseconds.
type LinkRow = (String, String, f64, u64);

#[pymethods]
impl Topology {
    /// Build a family with parameters, such as `fat-tree:k=8`.
    #[staticmethod]
    fn from_spec(py: Python<'_>, spec: &str) -> PyResult<Topology> {
        let built = py.detach(|| net::spec::parse(spec));
        built.map(|topology| Topology(Arc::new(topology))).map_err(|error| failure(format!("{spec}: {error}")))
    }

    /// Read a file of the name `file`, which says its format. Returns the network and warnings.
    #[staticmethod]
    fn from_text(py: Python<'_>, file: &str, text: &str, options: Options) -> PyResult<(Topology, Vec<String>)> {
        let options = options.of_program()?;
        let read = py.detach(|| import::read(Path::new(file), text, &options));
        let imported = read.map_err(|error| failure(format!("{file} is not a usable topology\ncaused by: {error}")))?;
        Ok((Topology(Arc::new(imported.topology)), imported.warnings))
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    fn nodes(&self) -> Vec<NodeRow> {
        let kind = |kind| if kind == NodeKind::Host { "host" } else { "switch" };
        let row = |node: &net::Node| (node.name.clone(), kind(node.kind), node.tier.0, node.pod, node.rack);
        self.0.nodes().iter().map(row).collect()
    }

    /// Both directions of every cable.
    fn links(&self) -> Vec<LinkRow> {
        let name = |node| self.0.node(node).name.clone();
        let row = |link: &net::Link| (name(link.from), name(link.to), link.rate.as_bps_f64(), link.delay.as_ps());
        self.0.links().iter().map(row).collect()
    }

    fn link_names(&self) -> Vec<String> {
        (0..self.0.links().len() as u32).map(|link| self.0.link_name(net::LinkIx(link))).collect()
    }

    fn to_json(&self) -> String {
        export::json(&self.0)
    }

    fn to_graphml(&self) -> String {
        export::graphml(&self.0)
    }
}

/// Defaults for what a file leaves out: a dictionary in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    rate: Option<String>,
    delay: Option<String>,
    coordinates: Option<String>,
    hosts_per_node: Option<u32>,
    host_rate: Option<String>,
    host_delay: Option<String>,
}

impl Options {
    fn of_program(&self) -> PyResult<ImportOptions> {
        fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
            key: &str,
            text: Option<&str>,
            default: T,
        ) -> PyResult<T> {
            let Some(text) = text else { return Ok(default) };
            text.parse().map_err(|error| failure(format!("{key}: {error}")))
        }
        let default = ImportOptions::default();
        Ok(ImportOptions {
            default_rate: parsed("rate", self.rate.as_deref(), default.default_rate)?,
            default_delay: parsed("delay", self.delay.as_deref(), default.default_delay)?,
            coordinates: match self.coordinates.as_deref() {
                Some("ignore") => Coordinates::Ignored,
                None | Some("delays") => Coordinates::GiveDelays,
                Some(other) => return Err(failure(format!("coordinates: `{other}` must be delays or ignore"))),
            },
            hosts_per_node: self.hosts_per_node.unwrap_or(default.hosts_per_node),
            host_rate: parsed("host_rate", self.host_rate.as_deref(), default.host_rate)?,
            host_delay: parsed("host_delay", self.host_delay.as_deref(), default.host_delay)?,
        })
    }
}
