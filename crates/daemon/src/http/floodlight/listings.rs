//! `/wm`: switches, links and devices in Floodlight's format. Datapath ids are written in pairs
//! with colons.

use control::LinkInfo;
use openflow::DatapathId;
use serde_json::{Value, json};

use super::{Answer, Call};
use crate::engine::Engine;

pub(super) async fn answer(call: &Call<'_>, query: Option<&str>) -> Result<Answer, Answer> {
    if !call.is_get() {
        // Calls under /wm that change anything are not supported.
        return Err(Answer::not_found());
    }
    let path = call.path.join("/");
    let query: Vec<(String, String)> = query.unwrap_or_default().split('&').filter_map(pair).collect();
    let listing = call.handle.ask(move |engine| show(engine, &path, &query)).await?;
    listing.map(|value| Answer::of(value.to_string())).ok_or_else(Answer::not_found)
}

fn pair(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    Some((key.to_owned(), value.replace("%3A", ":").replace("%3a", ":")))
}

fn show(engine: &Engine, path: &str, query: &[(String, String)]) -> Option<Value> {
    let pieces: Vec<&str> = path.split('/').collect();
    Some(match pieces.as_slice() {
        ["core", "controller", "switches", "json"] => switches(engine),
        ["core", "controller", "summary", "json"] => summary(engine),
        ["core", "health", "json"] => json!({"healthy": true}),
        ["core", "version", "json"] => json!({"name": "anabranch", "version": env!("CARGO_PKG_VERSION")}),
        ["core", "system", "uptime", "json"] => {
            json!({"systemUptimeMsec": (engine.clock.now().as_s_f64() * 1e3) as u64})
        }
        ["core", "switch", switch, "role", "json"] => {
            let datapath = DatapathId(crate::config::datapath(switch)?);
            engine.controller.inspect().connection_of(datapath)?;
            json!({colons(datapath): "MASTER"})
        }
        ["topology", "links", "json"] => links(engine),
        ["topology", "directed-links", "json"] => {
            alive(engine).map(|link| show_link(&link, "unidirectional")).collect()
        }
        ["topology", "external-links", "json"] => json!([]),
        ["topology", "tunnellinks" | "blockedports", "json"] => json!({"results": []}),
        ["topology", "enabledports", "json"] => ports(engine),
        ["device"] | ["device", "all", "json"] => devices(engine, query),
        _ => return None,
    })
}

fn colons(datapath: DatapathId) -> String {
    let pairs: Vec<String> = datapath.0.to_be_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(":")
}

fn epoch_ms(engine: &Engine, at: net::Time) -> u64 {
    let age = engine.clock.now().saturating_sub(at).as_s_f64() * 1e3;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    (now.as_millis() as u64).saturating_sub(age as u64)
}

fn switches(engine: &Engine) -> Value {
    let connected = engine.controller.inspect().switches().filter_map(|facts| {
        let peer = engine.hub.peer(facts.connection?)?;
        Some(json!({
            "inetAddress": format!("/{}", peer.address),
            "connectedSince": epoch_ms(engine, facts.since),
            "openFlowVersion": "OF_13",
            "switchDPID": colons(facts.datapath),
        }))
    });
    connected.collect()
}

fn summary(engine: &Engine) -> Value {
    let switches = engine.controller.inspect().switches().filter(|facts| facts.connection.is_some()).count();
    json!({
        "# Switches": switches,
        "# hosts": engine.controller.inspect().hosts().count(),
        "# inter-switch links": alive(engine).count(),
        "# quarantine ports": 0,
    })
}

fn alive(engine: &Engine) -> impl Iterator<Item = LinkInfo> {
    engine.controller.inspect().links().filter(|link| link.is_alive)
}

fn show_link(link: &LinkInfo, direction: &str) -> Value {
    json!({
        "src-switch": colons(link.from.0),
        "src-port": link.from.1.0,
        "dst-switch": colons(link.to.0),
        "dst-port": link.to.1.0,
        "type": "internal",
        "direction": direction,
        "latency": link.latency.map_or(0, |latency| (latency.as_us_f64() / 1e3).round() as u64),
    })
}

/// Returns the links; a bidirectional pair is one link.
fn links(engine: &Engine) -> Value {
    let all: Vec<LinkInfo> = alive(engine).collect();
    let has_other = |link: &LinkInfo| all.iter().any(|other| (other.from, other.to) == (link.to, link.from));
    let listed = all.iter().filter_map(|link| match has_other(link) {
        true if link.from > link.to => None,
        true => Some(show_link(link, "bidirectional")),
        false => Some(show_link(link, "unidirectional")),
    });
    listed.collect()
}

fn ports(engine: &Engine) -> Value {
    let connected = engine.controller.inspect().switches().filter(|facts| facts.connection.is_some());
    let ports = connected.flat_map(|facts| {
        let live = facts.ports.into_iter().filter(|port| port.is_live() && port.port <= openflow::PortNo::MAX);
        live.map(move |port| json!({"switch": colons(facts.datapath), "port": port.port.0.to_string()}))
    });
    json!({"results": ports.collect::<Value>()})
}

fn devices(engine: &Engine, query: &[(String, String)]) -> Value {
    let matches = |key: &str, found: &str| {
        let mut asked = query.iter().filter(|(name, _)| name == key);
        asked.all(|(_, value)| value.eq_ignore_ascii_case(found))
    };
    let now = epoch_ms(engine, engine.clock.now());
    let hosts = engine.controller.inspect().hosts().map(|host| host.known);
    let hosts = hosts.filter(|host| matches("ipv4", &host.ipv4.to_string()) && matches("mac", &host.mac.to_string()));
    let device = |host: control::KnownHost| {
        json!({
            "entityClass": "DefaultEntityClass",
            "mac": [host.mac.to_string()],
            "ipv4": [host.ipv4.to_string()],
            "ipv6": [],
            "vlan": ["0x0"],
            "attachmentPoint": [{"switch": colons(host.datapath), "port": host.port.0.to_string()}],
            "lastSeen": now,
        })
    };
    json!({"devices": hosts.map(device).collect::<Value>()})
}
