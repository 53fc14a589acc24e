//! `[calendar]` and `[[timetable]]`: balancers and weights of servers by time of day and date.
//! Simulated time 0 has the date and time that the file states.

use balance::Spec;
use config::diagnostic::FileError;
use config::section::Section;
use config::timetable::{START, SignedDuration, Timetable};
use net::did_you_mean::suggestion;
use net::{HostIx, Time, Topology};
use sim::{ControlChange, ServerConfig};

/// Days of simulated time for which changes are computed; no run is longer.
const DAYS: i64 = 7;

/// Reads the changes of a run, in the order of their times. `servers` are those of a file with
/// requests.
pub(super) fn read(
    top: &Section<'_>,
    topology: &Topology,
    balancers: &[Spec],
    servers: Option<&[ServerConfig]>,
) -> Result<Vec<ControlChange>, FileError> {
    let (timetable, sections) = Timetable::read(top)?;
    let Some(first) = sections.first() else { return Ok(Vec::new()) };
    let Some(start) = timetable.start(top)? else {
        let error = top.section("calendar")?.missing(START.name);
        return Err(
            error.with_hint("write the date and time of simulated time 0, such as start = \"2026-11-27T07:59:59\"")
        );
    };
    if let Some(other) = balancers.iter().find(|spec| !spec.entry.is_central() && !spec.entry.is_server()) {
        let message = format!("`{}` has no controller, which follows a timetable", other.entry.name);
        return Err(first.error("", message).with_hint("use central balancers, such as sdn-ecmp"));
    }
    let entries: Vec<ControlChange> =
        sections.iter().map(|section| entry(section, topology, servers)).collect::<Result<_, _>>()?;
    let own = |at: Time| ControlChange { at, balancer: None, weights: Vec::new() };
    let mut changes: Vec<ControlChange> = Vec::new();
    let mut now = start;
    let mut before = None;
    while now.duration_since(start) < SignedDuration::from_hours(24 * DAYS) {
        let active = timetable.active(now);
        if active != before {
            let nanoseconds = u64::try_from(now.duration_since(start).as_nanos()).unwrap_or_default();
            let at = Time::from_ns(nanoseconds);
            changes.push(active.map_or_else(|| own(at), |entry| ControlChange { at, ..entries[entry].clone() }));
        }
        before = active;
        let Some(next) = timetable.next_check(now) else { break };
        now = next;
    }
    Ok(changes)
}

fn entry(
    section: &Section<'_>,
    topology: &Topology,
    servers: Option<&[ServerConfig]>,
) -> Result<ControlChange, FileError> {
    let balancer = section.text("balancer")?;
    let mut weights = Vec::new();
    if let Some(value) = section.get("weights") {
        let listed = section.table("timetable.weights", section.dotted_key("weights"), value)?;
        let name = |server: &ServerConfig| topology.node(topology.hosts()[server.host.ix()]).name.as_str();
        for (key, _) in listed.entries() {
            let Some(servers) = servers else {
                return Err(section.error("weights", "are for files with requests: no other host has a weight"));
            };
            let host: Option<HostIx> = servers.iter().find(|server| name(server) == key).map(|server| server.host);
            let unknown = || listed.error(key, format!("`{key}` is not a [[server]]"));
            let host = host.ok_or_else(|| unknown().with_hint(suggestion(key, servers.iter().map(name))))?;
            let weight = listed.count(key)?.unwrap_or_default();
            weights.push((host, weight));
        }
    }
    if balancer.is_none() && weights.is_empty() {
        let error = section.error("", "the entry is empty: it changes nothing");
        return Err(error.with_hint("add balancer or weights, or remove the entry"));
    }
    let balancer = balancer.map(|text| checked(section, text, servers.is_some())).transpose()?;
    Ok(ControlChange { at: Time::ZERO, balancer, weights })
}

fn checked(section: &Section<'_>, text: &str, is_served: bool) -> Result<String, FileError> {
    let spec = Spec::parse(text).map_err(|cause| section.error("balancer", cause.to_string()))?;
    let is_right = if is_served { spec.entry.is_server() } else { spec.entry.is_central() };
    let (kind, such) = if is_served { ("server", "division-load") } else { ("central", "sdn-ecmp") };
    if is_right {
        return Ok(text.to_owned());
    }
    let error = section.error("balancer", format!("`{}` is not a {kind} balancer", spec.entry.name));
    Err(error.with_hint(format!("use one such as {such}: `anabranch list balancers`")))
}
