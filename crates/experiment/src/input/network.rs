//! The `[topology]` section: a family with parameters, or a file to import.

use std::path::Path;

use net::Topology;
use net::import::{self, Coordinates, ImportOptions};

use super::inputs::Inputs;
use config::diagnostic::FileError;
use config::section::Section;

const IMPORT_KEYS: [&str; 6] = ["rate", "delay", "coordinates", "hosts_per_node", "host_rate", "host_delay"];

pub(crate) fn read(section: &Section<'_>, inputs: &mut Inputs) -> Result<(Topology, Vec<String>), FileError> {
    match (section.text("spec")?, section.text("file")?) {
        (Some(_), Some(_)) => Err(section.error("file", "cannot go with `spec`").with_hint("keep one of them")),
        (None, None) => Err(section.missing("spec").with_hint("name a topology, such as spec = \"fat-tree:k=8\"")),
        (Some(spec), None) => {
            if let Some(key) = IMPORT_KEYS.into_iter().find(|key| section.has(key)) {
                let error = section.error(key, "belongs to `file` only");
                return Err(error.with_hint("write it inside `spec`, such as \"leaf-spine:host_rate=10Gbps\""));
            }
            let built = net::spec::parse(spec).map_err(|cause| section.error("spec", cause.to_string()))?;
            Ok((built, Vec::new()))
        }
        (None, Some(_)) => {
            let (file, text) = inputs.of(section, "file")?;
            let broken = |cause| section.error("file", "is not a usable topology").with_cause(cause);
            let read = import::read(Path::new(file), &text, &options(section)?).map_err(broken)?;
            Ok((read.topology, read.warnings))
        }
    }
}

fn options(section: &Section<'_>) -> Result<ImportOptions, FileError> {
    let default = ImportOptions::default();
    Ok(ImportOptions {
        default_rate: section.above_zero("rate")?.unwrap_or(default.default_rate),
        default_delay: section.quantity("delay")?.unwrap_or(default.default_delay),
        coordinates: match section.choice("coordinates")? {
            Some("ignore") => Coordinates::Ignored,
            _ => Coordinates::GiveDelays,
        },
        hosts_per_node: section.count("hosts_per_node")?.unwrap_or(default.hosts_per_node),
        host_rate: section.above_zero("host_rate")?.unwrap_or(default.host_rate),
        host_delay: section.quantity("host_delay")?.unwrap_or(default.host_delay),
    })
}
