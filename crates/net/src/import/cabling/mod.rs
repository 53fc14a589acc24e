//! Networks as operators have them: which port is connected to which, in files of several devices.
//!
//! | reader | files |
//! | --- | --- |
//! | `sonic` | SONiC `config_db.json` and `minigraph.xml` |
//! | `lldp` | neighbours from lldpd, EOS, Junos and NX-OS, as JSON |
//! | `inventory` | NetBox, Batfish layer 1, NetJSON |
//! | `yaml` | containerlab and InfraGraph |
//! | `infiniband` | `ibnetdiscover` |
//!
//! Each reader turns a file into `Reports`; `merge` joins those of all files. A cable that two
//! files report is one cable, and what they contradict each other about is a warning. The content
//! selects the reader.

mod infiniband;
mod inventory;
mod lldp;
mod merge;
mod sonic;
mod yaml;

use serde_json::Value;

use super::{ImportError, ImportOptions, Imported};
use crate::topology::NodeKind;
use crate::units::{Bandwidth, Time};

/// One end of a cable.
#[derive(Clone, Debug, Default)]
struct End {
    device: String,
    /// Names of the port, the likeliest first; empty if the file has none.
    ports: Vec<String>,
}

/// A cable as one file reports it.
#[derive(Clone, Debug)]
struct Cable {
    ends: [End; 2],
    rate: Option<Bandwidth>,
    delay: Option<Time>,
    /// Whether a device saw it, instead of a plan that says so.
    is_seen: bool,
    /// File and entry, for messages.
    place: String,
}

#[derive(Clone, Debug, Default)]
struct Port {
    device: String,
    name: String,
    aliases: Vec<String>,
    rate: Option<Bandwidth>,
    is_down: bool,
}

#[derive(Clone, Debug, Default)]
struct Device {
    name: String,
    kind: Option<NodeKind>,
    tier: Option<u8>,
}

/// Devices, ports and cables as the files report them.
#[derive(Debug, Default)]
struct Reports {
    devices: Vec<Device>,
    ports: Vec<Port>,
    cables: Vec<Cable>,
    warnings: Vec<String>,
}

impl Reports {
    fn warn(&mut self, file: &str, text: impl core::fmt::Display) {
        self.warnings.push(format!("{file}: {text}"));
    }

    fn device(&mut self, name: &str, kind: Option<NodeKind>, tier: Option<u8>) {
        self.devices.push(Device { name: name.to_owned(), kind, tier });
    }
}

/// A file: its path for messages, and its text.
pub type File<'a> = (&'a str, &'a str);

/// Reads the network that these files describe together. The name of a file up to its first point is
/// the name of the device that it is from, if it does not say so itself.
///
/// # Errors
/// A file has none of the known forms, or the network is not usable.
pub fn read(name: &str, files: &[File<'_>], options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut reports = Reports::default();
    for (file, text) in files {
        read_file(file, text, &mut reports)?;
    }
    merge::merge(name, reports, options)
}

fn read_file(file: &str, text: &str, reports: &mut Reports) -> Result<(), ImportError> {
    let start = text.trim_start();
    if start.starts_with('<') {
        return sonic::minigraph(file, text, reports);
    }
    if infiniband::is_infiniband(text) {
        return infiniband::read(file, text, reports);
    }
    if !start.starts_with('{') {
        return yaml::read(file, text, reports);
    }
    let value: Value = serde_json::from_str(text).map_err(|cause| {
        let (line, column) = (cause.line() as u32, cause.column() as u32);
        ImportError::Text { file: file.to_owned(), line, column, reason: cause.to_string() }
    })?;
    let has = |key: &str| value.get(key).is_some();
    match () {
        () if has("DEVICE_METADATA") || has("DEVICE_NEIGHBOR") || has("PORT") => {
            sonic::config_db(file, &value, reports)
        }
        () if has("lldp") => lldp::lldpctl(file, &value, reports),
        () if has("lldpNeighbors") => lldp::eos(file, &value, reports),
        () if has("lldp-neighbors-information") => lldp::junos(file, &value, reports),
        () if has("TABLE_nbor_detail") => lldp::nxos(file, &value, reports),
        () if has("results") => inventory::netbox(file, &value, reports),
        () if has("edges") => inventory::batfish(file, &value, reports),
        () if value["type"] == "NetworkGraph" => inventory::netjson(file, &value, reports),
        () if has("format") => Err(unknown(file, "this is a network of this program already: use it as it is")),
        () => Err(unknown(file, "the JSON has none of the known keys")),
    }
}

fn unknown(file: &str, why: &str) -> ImportError {
    let reason = format!(
        "{why}; known are config_db.json and minigraph.xml of SONiC, LLDP neighbours of lldpctl, EOS, Junos and NX-OS as JSON, \
         NetBox, Batfish, NetJSON, containerlab, InfraGraph and ibnetdiscover"
    );
    ImportError::Entry { file: file.to_owned(), entry: "file".to_owned(), reason }
}

fn wrong(file: &str, entry: impl core::fmt::Display, reason: &str) -> ImportError {
    ImportError::Entry { file: file.to_owned(), entry: entry.to_string(), reason: reason.to_owned() }
}

/// Returns the device of a file: its name up to the first point.
fn device_of(file: &str) -> &str {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    name.split('.').next().unwrap_or(name)
}

/// Returns the elements of a list, or the one element that is written without a list.
fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        Value::Null => &[],
        one => core::slice::from_ref(one),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// Returns a number, which may be written as a text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// Returns a rate from megabits per second; `None` unless it is one.
fn mbps(value: f64) -> Option<Bandwidth> {
    (value > 0.0 && value <= 1e9).then(|| Bandwidth::from_bps((value * 1e6) as u64))
}

#[cfg(test)]
mod tests;
