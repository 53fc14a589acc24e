//! Configuration files.

pub(crate) mod difference;
mod edge;
mod keys;
mod schedule;
mod services;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::diagnostic::{FileError, SourceLocation};
use config::document::{Data, Document, Value};
use config::section::Section;
use control::{EcmpHashing, PortRole};
use net::{ADDRESSING_MODES, Addressing, Bandwidth, Time};
use openflow::{DatapathId, MacAddr, PortNo};

use crate::auth::Tokens;
use crate::balancer;
use crate::settings::{DatapathRules, HttpTls, LogFormat, Settings, Tls, UnlistedDatapaths};

pub use self::keys::LAYOUT;

/// Returns the JSON Schema of configuration files. Services and pools have the schemas of the HTTP API.
pub fn schema() -> serde_json::Value {
    let mut schema = config::schema::schema(&LAYOUT, "The configuration of anabranch serve");
    // The document refers to its schemas at another place than a JSON Schema does.
    let document = crate::http::openapi().replace("#/components/schemas/", "#/definitions/");
    let mut document: serde_json::Value = serde_json::from_str(&document).expect("the document is JSON");
    schema["definitions"] = document["components"]["schemas"].take();
    for (section, spec) in [("services", "ServiceSpec"), ("pools", "PoolSpec")] {
        schema["properties"][section]["additionalProperties"] =
            serde_json::json!({ "$ref": format!("#/definitions/{spec}") });
    }
    schema
}

/// Reads a file. Paths in it are relative to its folder.
///
/// # Errors
/// Returns the first error with its location and a hint.
pub fn load(file: &Path) -> Result<Settings, FileError> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).map_err(|error| {
        FileError::new(SourceLocation::File(name.clone()), "", "the configuration cannot be read").with_cause(error)
    })?;
    parse(&name, &text, file.parent().unwrap_or(Path::new("")))
}

/// Parses the text of a file with this name. Paths in it are relative to `folder`.
///
/// # Errors
/// As [`load`].
pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Settings, FileError> {
    let document = Document::parse(name, text, &LAYOUT)?;
    let top = Section::top(&document)?;
    let mut settings = Settings::default();
    set(&mut settings.listen, address(&top, "listen")?);
    if let Some(text) = top.text("balancer")? {
        settings.balancer = balancer::parse(text).map_err(|error| top.error("balancer", error.to_string()))?;
    }
    settings.state = top.text("state")?.map(|file| folder.join(file));
    set(&mut settings.state_versions, top.count("state_versions")?);
    settings.tls = tls(&top, folder)?;
    let http = top.section("http")?;
    match http.text("listen")? {
        Some("off") => settings.http = None,
        _ => settings.http = address(&http, "listen")?.or(settings.http),
    }
    let api = top.section("api")?;
    if let Some(file) = api.text("tokens")? {
        settings.tokens = Tokens::load(&folder.join(file)).map_err(|error| api.error("tokens", error.to_string()))?;
    }
    settings.http_names = http_names(&api)?;
    settings.http_tls = http_tls(&api, folder)?;
    let log = top.section("log")?;
    set(&mut settings.log.format, log.chosen("format", &[LogFormat::Text, LogFormat::Json])?);
    if let Some(filter) = log.text("filter")? {
        crate::logs::check(filter).map_err(|error| log.error("filter", "is not a valid filter").with_cause(error))?;
        settings.log.filter = filter.to_owned();
    }
    settings.log.audit = log.text("audit")?.map(|file| folder.join(file));
    settings.log.record = log.text("record")?.map(|file| folder.join(file));
    set(&mut settings.log.record_bytes, log.size("record_bytes")?);
    read_control(&top, &mut settings.control)?;
    services::read(&top, &mut settings)?;
    edge::read(&top, &mut settings)?;
    let limits = top.section("limits")?;
    read_limits(&limits, &mut settings.limits)?;
    set(&mut settings.control.flows_max, limits.count("flows")?);
    set(&mut settings.control.mux_rules, limits.count("mux_rules")?);
    set(&mut settings.control.connections_max, limits.count("service_connections")?);
    set(&mut settings.control.hosts_max, limits.count("hosts")?);
    set(&mut settings.control.hosts_per_port, limits.count("hosts_per_port")?);
    set(&mut settings.control.read_back_bytes_max, limits.size("read_back_bytes")?);
    check_addressing(&top, &settings)?;
    settings.schedule = schedule::read(&top, &settings)?;
    settings.document = Some(Arc::new(document));
    Ok(settings)
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

fn address(section: &Section<'_>, key: &str) -> Result<Option<SocketAddr>, FileError> {
    let parsed = section.parsed(key, "an address with a port");
    parsed.map_err(|error| error.with_hint("write an address and a port, such as \"0.0.0.0:6653\" or \"[::]:6653\""))
}

fn tls(top: &Section<'_>, folder: &Path) -> Result<Option<Tls>, FileError> {
    let section = top.section("tls")?;
    if !section.exists() {
        let without = top.sections("switch")?.first().map(|switch| {
            let error = switch.error("certificate", "has no effect without TLS");
            error.with_hint("add [tls] with certificate, key and ca")
        });
        return without.map_or(Ok(None), Err);
    }
    let hint = "TLS needs certificate, key and ca: both sides check certificates";
    let file = |key| file(&section, key, folder, hint);
    let (certificate, key, ca) = (file("certificate")?, file("key")?, file("ca")?);
    let crl = section.text("crl")?.map(|file| folder.join(file));
    let choices = [UnlistedDatapaths::Any, UnlistedDatapaths::Certificate];
    let mut datapaths = DatapathRules::default();
    set(&mut datapaths.unlisted, section.chosen("datapath_ids", &choices)?);
    for switch in top.sections("switch")? {
        let name: String = switch.required("certificate", "text")?;
        let datapath = DatapathId(read_dpid(&switch, "dpid")?);
        if datapaths.listed.insert(datapath, name.to_ascii_lowercase()).is_some() {
            return Err(switch.error("dpid", "this datapath id already has a certificate earlier in the file"));
        }
    }
    Ok(Some(Tls { certificate, key, ca, crl, datapaths }))
}

fn http_tls(api: &Section<'_>, folder: &Path) -> Result<Option<HttpTls>, FileError> {
    let Some(value) = api.get("tls") else { return Ok(None) };
    let hint = "write tls = { certificate = \"FILE\", key = \"FILE\" }";
    let section = api.table("api.tls", api.dotted_key("tls"), value).map_err(|error| error.with_hint(hint))?;
    section.check_keys()?;
    let file = |key| file(&section, key, folder, hint);
    Ok(Some(HttpTls { certificate: file("certificate")?, key: file("key")? }))
}

fn http_names(api: &Section<'_>) -> Result<Vec<String>, FileError> {
    let name = |value: &Value| match &value.data {
        Data::Text(name) if !name.is_empty() && !name.contains([':', '/']) => Some(name.to_ascii_lowercase()),
        _ => None,
    };
    let names = match api.get("names").map(|value| &value.data) {
        None => Some(Vec::new()),
        Some(Data::List(names)) => names.iter().map(name).collect(),
        Some(_) => None,
    };
    let hint = "write names without a port, such as names = [\"controller.example.org\"]";
    names.ok_or_else(|| api.error("names", "must be a list of names").with_hint(hint))
}

fn file(section: &Section<'_>, key: &str, folder: &Path, hint: &str) -> Result<PathBuf, FileError> {
    Ok(folder.join(section.text(key)?.ok_or_else(|| section.missing(key).with_hint(hint))?))
}

fn read_control(top: &Section<'_>, config: &mut control::Config) -> Result<(), FileError> {
    set(&mut config.seed, top.count("seed")?);
    set(&mut config.owner, top.count("owner")?);
    let section = top.section("control")?;
    set(&mut config.echo_interval, section.above_zero("echo_interval")?);
    set(&mut config.echo_timeout, section.above_zero("echo_timeout")?);
    set(&mut config.discovery_interval, section.above_zero("discovery_interval")?);
    set(&mut config.link_timeout, section.above_zero("link_timeout")?);
    set(&mut config.poll_interval, section.above_zero("poll_interval")?);
    if let Some(interval) = section.above_zero("audit_interval")? {
        config.audit_interval = Some(interval);
    }
    set(&mut config.requests_mastership, section.chosen("role", &[true, false])?);
    if let Some(timeout) = section.above_zero::<Time>("flow_idle_timeout")? {
        let seconds = timeout.as_ps() / Time::from_s(1).as_ps();
        if Time::from_s(seconds) != timeout || !(1..=65_535).contains(&seconds) {
            let error = section.error("flow_idle_timeout", format!("{timeout} is not 1 to 65535 whole seconds"));
            return Err(error.with_hint("switches count whole seconds: write \"5s\""));
        }
        config.flow_idle_timeout_s = seconds as u16;
    }
    for (shorter, longer, values) in [
        ("echo_interval", "echo_timeout", (config.echo_interval, config.echo_timeout)),
        ("discovery_interval", "link_timeout", (config.discovery_interval, config.link_timeout)),
    ] {
        if values.0 >= values.1 {
            let message = format!("{} is not above {shorter}, which is {}", values.1, values.0);
            return Err(section.error(longer, message));
        }
    }
    let methods = [EcmpHashing::Auto, EcmpHashing::Native, EcmpHashing::Shuffled];
    set(&mut config.ecmp_hashing, section.chosen("ecmp_hashing", &methods)?);
    read_addressing(&section, config)?;
    set(&mut config.default_capacity, top.section("links")?.above_zero("capacity")?);
    for link in top.sections("link")? {
        let capacity: Option<Bandwidth> = link.above_zero("capacity")?;
        let capacity = capacity.ok_or_else(|| link.missing("capacity"))?;
        if config.capacities.insert(end(&link)?, capacity).is_some() {
            return Err(link.error("port", "the capacity of this port is already set earlier in the file"));
        }
    }
    read_ports(top, config)?;
    read_hosts(top, config)
}

fn read_addressing(section: &Section<'_>, config: &mut control::Config) -> Result<(), FileError> {
    let modes = ADDRESSING_MODES.map(|info| info.mode);
    set(&mut config.addressing, section.chosen("addressing", &modes)?);
    let pairs = match section.get("refuse").map(|value| &value.data) {
        None => return Ok(()),
        Some(Data::List(pairs)) => pairs.as_slice(),
        Some(_) => return Err(section.error("refuse", "must be a list of pairs")),
    };
    if !pairs.is_empty() && config.addressing != Addressing::Vl2 {
        let error = section.error("refuse", "needs a directory of addresses");
        return Err(error.with_hint("only addressing = \"vl2\" has one"));
    }
    for value in pairs {
        let Data::Text(text) = &value.data else { return Err(section.error("refuse", "must be pairs in quotes")) };
        let pair =
            text.split_once('>').and_then(|(from, to)| Some((from.trim().parse().ok()?, to.trim().parse().ok()?)));
        let pair = pair.ok_or_else(|| {
            let error = section.error("refuse", format!("`{text}` is not a pair of IPv4 addresses"));
            error.with_hint("write the source first, such as \"10.0.0.1 > 10.0.0.16\"")
        })?;
        config.refused.insert(pair);
    }
    Ok(())
}

/// Checks that the addressing mode can work with the balancer, and without services.
fn check_addressing(top: &Section<'_>, settings: &Settings) -> Result<(), FileError> {
    let mode = settings.control.addressing;
    if mode == Addressing::Flat {
        return Ok(());
    }
    let section = top.section("control")?;
    let wrong = |reason: String| section.error("addressing", reason);
    mode.check_balancer(settings.balancer.entry.name)
        .map_err(|reason| wrong(reason).with_hint(format!("write balancer = \"{}\"", mode.info().balancers[0])))?;
    match ["services", "pools", "uplink", "timetable"].iter().find(|section| top.has(section)) {
        Some(other) => {
            let error = wrong(format!("\"{}\" cannot go with `{other}`", mode.name()));
            Err(error.with_hint("virtual addresses, uplinks and timetables need addressing = \"flat\""))
        }
        None => Ok(()),
    }
}

fn read_ports(top: &Section<'_>, config: &mut control::Config) -> Result<(), FileError> {
    let roles = [PortRole::Host, PortRole::Link, PortRole::Either];
    set(&mut config.port_roles.default, top.section("ports")?.chosen("role", &roles)?);
    for port in top.sections("port")? {
        let role = port.chosen("role", &roles)?.ok_or_else(|| port.missing("role"))?;
        if config.port_roles.listed.insert(end(&port)?, role).is_some() {
            return Err(port.error("port", "the role of this port is already set earlier in the file"));
        }
    }
    Ok(())
}

fn read_hosts(top: &Section<'_>, config: &mut control::Config) -> Result<(), FileError> {
    let section = top.section("hosts")?;
    set(&mut config.pins_hosts, section.flag("pinned")?);
    set(&mut config.host_idle_timeout, section.above_zero("idle_timeout")?);
    set(&mut config.host_port_down_timeout, section.above_zero("port_down_timeout")?);
    for host in top.sections("host")? {
        let (datapath, port) = end(&host)?;
        let is_for_links = config.port_roles.of((datapath, port)) == PortRole::Link;
        let is_listed = config.port_roles.listed.contains_key(&(datapath, port));
        if is_for_links && (is_listed || !config.pins_hosts) {
            let error = host.error("port", "the role of this port is `link`, so no host can be there");
            return Err(error.with_hint("set role = \"host\" for it in [[port]]"));
        }
        let mac = host.required::<String>("mac", "text")?;
        let invalid = || host.error("mac", format!("`{mac}` is not an Ethernet address"));
        let mac = mac_address(&mac).ok_or_else(invalid)?;
        let ipv4 = host.required("ipv4", "an IPv4 address")?;
        if config.hosts.iter().any(|other| other.ipv4 == ipv4) {
            return Err(host.error("ipv4", format!("{ipv4} is already the address of another host")));
        }
        config.hosts.push(control::KnownHost { mac, ipv4, datapath, port });
    }
    Ok(())
}

fn end(section: &Section<'_>) -> Result<(DatapathId, PortNo), FileError> {
    let datapath = DatapathId(read_dpid(section, "dpid")?);
    let port = section.count("port")?.ok_or_else(|| section.missing("port"))?;
    Ok((datapath, PortNo(port)))
}

/// Reads a datapath id: a number, or text of hexadecimal digits, with or without colons.
fn read_dpid(section: &Section<'_>, key: &str) -> Result<u64, FileError> {
    match section.get(key).map(|value| &value.data) {
        None => Err(section.missing(key)),
        Some(Data::Text(text)) => datapath(text)
            .ok_or_else(|| section.error(key, format!("`{text}` is not a datapath id")))
            .map_err(|error| error.with_hint("write up to 16 hexadecimal digits, such as \"00000000000000a1\"")),
        Some(_) => Ok(section.count(key)?.unwrap_or_default()),
    }
}

/// Parses a datapath id of hexadecimal digits, with or without `0x` and colons.
pub(crate) fn datapath(text: &str) -> Option<u64> {
    let digits: String = text.strip_prefix("0x").unwrap_or(text).chars().filter(|c| *c != ':').collect();
    let is_valid = (1..=16).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_hexdigit());
    is_valid.then(|| u64::from_str_radix(&digits, 16).ok())?
}

pub(crate) fn mac_address(text: &str) -> Option<MacAddr> {
    let mut bytes = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut bytes {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(MacAddr(bytes))
}

fn read_limits(section: &Section<'_>, limits: &mut crate::settings::Limits) -> Result<(), FileError> {
    set(&mut limits.connections, section.count("connections")?);
    set(&mut limits.pending_handshakes, section.count("pending_handshakes")?);
    set(&mut limits.messages_per_s, section.count("messages_per_s")?);
    set(&mut limits.accepts_per_s, section.count("accepts_per_s")?);
    set(&mut limits.handshake_timeout, section.above_zero("handshake_timeout")?);
    set(&mut limits.http_connections, section.count("http_connections")?);
    set(&mut limits.http_request_timeout, section.above_zero("http_request_timeout")?);
    set(&mut limits.write_timeout, section.above_zero("write_timeout")?);
    set(&mut limits.send_buffer_bytes, section.size("send_buffer_bytes")?);
    Ok(())
}

#[cfg(test)]
mod tests;
