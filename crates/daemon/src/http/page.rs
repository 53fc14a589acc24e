//! The page for people: everything at a glance, made here, without scripts.

use std::fmt::{self, Write as _};

use net::{Bandwidth, Time};

use super::model::{Balancer, Host, Link, Statistics, Switch};
use super::vips::{Member, Overview, Pool, Service, State};
use crate::engine::Engine;

/// What the page shows.
pub(super) struct Snapshot {
    switches: Vec<Switch>,
    links: Vec<Link>,
    hosts: Vec<Host>,
    balancer: Balancer,
    statistics: Statistics,
}

/// The page shows these beside what the engine knows.
pub(super) struct Served {
    services: Vec<Service>,
    pools: Vec<Pool>,
}

impl From<Overview> for Served {
    fn from(overview: Overview) -> Served {
        Served { services: overview.services(), pools: overview.pools() }
    }
}

impl Snapshot {
    pub(super) fn of(engine: &Engine) -> Snapshot {
        let controller = &engine.controller;
        Snapshot {
            switches: controller.switches().map(|facts| Switch::new(engine, facts)).collect(),
            links: controller.links().map(Link::new).collect(),
            hosts: controller.hosts().map(Host::new).collect(),
            balancer: Balancer::new(&engine.balancer),
            statistics: Statistics::new(engine),
        }
    }
}

/// Text inside an element: what a switch says of itself is not to be trusted.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '&' => f.write_str("&amp;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            c => f.write_char(c),
        })
    }
}

/// The page.
pub(super) fn render(snapshot: &Snapshot, served: &Served) -> String {
    let mut out = String::from(HEAD);
    let Snapshot { switches, links, hosts, balancer, statistics } = snapshot;
    let connected = switches.iter().filter(|switch| switch.is_connected).count();
    let alive = links.iter().filter(|link| link.is_alive).count();
    let state = if statistics.is_settled { "settled" } else { "working" };
    let up = Time::from_s_f64(statistics.uptime_s.round());
    let _ = write!(
        out,
        "<header><h1>Anabranch controller</h1><p>up for {up}, <span class=\"{state}\">{state}</span></p></header>\n<main>\n"
    );
    let parameters: Vec<String> = balancer.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let _ = writeln!(
        out,
        "<section class=\"wide\"><h2>Balancer</h2><p><b>{}</b> <code>{}</code><br>{}</p><p class=\"dim\">{}</p></section>",
        Escaped(&balancer.title),
        Escaped(&balancer.spec),
        Escaped(&balancer.summary),
        Escaped(&parameters.join(", ")),
    );
    let figures = [
        ("switches", format!("{connected} of {}", switches.len())),
        ("links", format!("{alive} of {}", links.len())),
        ("hosts", hosts.len().to_string()),
        ("connections", statistics.connections.to_string()),
        ("decisions", statistics.decisions.to_string()),
        ("moves", statistics.moves.to_string()),
        ("rule changes", statistics.flow_mods.to_string()),
        ("group changes", statistics.group_mods.to_string()),
        ("packets in", statistics.packet_ins.to_string()),
        ("packets out", statistics.packet_outs.to_string()),
    ];
    out.push_str("<section class=\"wide\"><h2>Figures</h2><dl>");
    for (name, value) in figures {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    // What should not happen is shown when it does.
    let refused = [
        ("flows not told of", statistics.flows_untold),
        ("packets of hosts refused", statistics.hosts_refused),
        ("ARP questions dropped", statistics.questions_dropped),
    ];
    for (name, value) in refused.into_iter().filter(|(_, value)| *value > 0) {
        let _ = write!(out, "<div><dt>{name}</dt><dd class=\"bad\">{value}</dd></div>");
    }
    out.push_str("</dl></section>\n");
    services(&mut out, served);
    table(
        &mut out,
        "Switches",
        &["switch", "state", "ports up", "rules", "groups", "round trip"],
        switches,
        switch_row,
    );
    table(&mut out, "Hosts", &["address", "Ethernet", "switch", "port"], hosts, host_row);
    table(&mut out, "Links", &["from", "to", "state", "latency", "load", "capacity"], links, link_row);
    out.push_str(
        "</main>\n<footer>The same as JSON: <a href=\"/v1/openapi.json\">API</a>, figures for Prometheus: \
         <a href=\"/metrics\">metrics</a>.</footer>\n</body>\n</html>\n",
    );
    out
}

/// Rows a table shows; the API has all of them.
const ROWS: usize = 500;

fn table<T>(out: &mut String, title: &str, columns: &[&str], rows: &[T], row: fn(&T) -> Vec<String>) {
    let _ = write!(out, "<section class=\"wide\"><h2>{title}</h2>");
    if rows.is_empty() {
        out.push_str("<p class=\"dim\">none yet</p></section>\n");
        return;
    }
    out.push_str("<div class=\"scroll\"><table><thead><tr>");
    columns.iter().for_each(|column| out.push_str(&format!("<th>{column}</th>")));
    out.push_str("</tr></thead><tbody>\n");
    for cells in rows.iter().take(ROWS).map(row) {
        out.push_str("<tr>");
        cells.iter().for_each(|cell| out.push_str(&format!("<td>{cell}</td>")));
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>");
    if rows.len() > ROWS {
        let _ = write!(out, "<p class=\"dim\">and {} more</p>", rows.len() - ROWS);
    }
    out.push_str("</section>\n");
}

fn state(is_good: bool, good: &str, bad: &str) -> String {
    let (class, word) = if is_good { ("good", good) } else { ("bad", bad) };
    format!("<span class=\"{class}\">{word}</span>")
}

fn time(us: Option<f64>) -> String {
    us.map_or("–".to_owned(), |us| format!("{us:.0} µs"))
}

fn switch_row(switch: &Switch) -> Vec<String> {
    let up = switch.ports.iter().filter(|port| port.is_up).count();
    vec![
        format!("<code>{}</code>", switch.switch),
        state(switch.is_connected, "connected", "away"),
        format!("{up} of {}", switch.ports.len()),
        switch.rules.to_string(),
        switch.groups.to_string(),
        time(switch.rtt_us),
    ]
}

/// Virtual services and who serves them, where there are any.
fn services(out: &mut String, served: &Served) {
    if served.services.is_empty() && served.pools.is_empty() {
        return;
    }
    let columns = ["service", "address", "pool", "members up", "connections", "in all", "from clients", "to clients"];
    table(out, "Virtual services", &columns, &served.services, service_row);
    let columns = ["pool", "picks", "checked by", "serves", "members up"];
    table(out, "Pools", &columns, &served.pools, pool_row);
    let members: Vec<(&Pool, &Member)> =
        served.pools.iter().flat_map(|pool| pool.members.iter().map(move |member| (pool, member))).collect();
    let columns = ["member", "pool", "address", "state", "weight", "connections", "in all", "to clients"];
    table(out, "Members", &columns, &members, |(pool, member)| member_row(pool, member));
}

fn up(members: &[Member]) -> String {
    let all = members.iter().filter(|member| member.name.is_some()).count();
    let up = members.iter().filter(|member| member.state == State::Up && member.is_enabled).count();
    state(up > 0, &format!("{up} of {all}"), &format!("{up} of {all}"))
}

fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

fn service_row(service: &Service) -> Vec<String> {
    let place = match service.port {
        0 => service.address.clone(),
        port => format!("{}:{port}", service.address),
    };
    let load = &service.load;
    vec![
        format!("<b>{}</b>", Escaped(&service.name.to_string())),
        format!("{place} {}", service.protocol.word()),
        service.pool.as_ref().map_or("–".to_owned(), |pool| Escaped(&pool.to_string()).to_string()),
        up(&service.members),
        load.connections.to_string(),
        load.connections_total.to_string(),
        bytes(load.bytes_in),
        bytes(load.bytes_out),
    ]
}

fn pool_row(pool: &Pool) -> Vec<String> {
    let serves: Vec<String> = pool.services.iter().map(ToString::to_string).collect();
    let check = pool
        .monitor
        .as_ref()
        .map_or("ports alone".to_owned(), |monitor| format!("{} every {} s", monitor.check.word(), monitor.interval_s));
    vec![
        format!("<b>{}</b>", Escaped(&pool.name.to_string())),
        format!("<code>{}</code>", Escaped(&pool.balancer)),
        check,
        if serves.is_empty() { "–".to_owned() } else { Escaped(&serves.join(", ")).to_string() },
        // Nobody looks at members no service needs.
        if pool.services.is_empty() { "–".to_owned() } else { up(&pool.members) },
    ]
}

fn member_row(pool: &Pool, member: &Member) -> Vec<String> {
    let name = member.name.as_ref().map_or("leaving".to_owned(), ToString::to_string);
    let words = match (member.is_enabled, member.state) {
        (false, State::Up) => "up, gets no new connections".to_owned(),
        _ => member.state_words.clone(),
    };
    let address = member.port.map_or(member.address.clone(), |port| format!("{}:{port}", member.address));
    let is_good = member.state == State::Up;
    let state =
        if member.state == State::Unused { Escaped(&words).to_string() } else { state(is_good, &words, &words) };
    vec![
        Escaped(&name).to_string(),
        Escaped(&pool.name.to_string()).to_string(),
        address,
        state,
        member.weight.to_string(),
        member.load.connections.to_string(),
        member.load.connections_total.to_string(),
        bytes(member.load.bytes_out),
    ]
}

fn host_row(host: &Host) -> Vec<String> {
    vec![
        host.ipv4.clone(),
        format!("<code>{}</code>", host.mac),
        format!("<code>{}</code>", host.at.switch),
        host.at.port.to_string(),
    ]
}

fn link_row(link: &Link) -> Vec<String> {
    let end = |end: &super::model::End| format!("<code>{}</code>&nbsp;:{}", end.switch, end.port);
    let load = link.load_bps.map_or("–".to_owned(), |load| {
        let share = load as f64 / link.capacity_bps.max(1) as f64 * 100.0;
        format!("{share:.0} %")
    });
    vec![
        end(&link.from),
        end(&link.to),
        state(link.is_alive, "alive", "dead"),
        time(link.latency_us),
        load,
        Bandwidth::from_bps(link.capacity_bps).to_string(),
    ]
}

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="5">
<title>Anabranch controller</title>
<style>
:root { color-scheme: light dark; --line: #8884; --dim: #777; --good: #16803c; --bad: #c2261c; --card: #8881; }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 1360px; padding: 1rem; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1.5rem; }
h1 { font-size: 1.4rem; margin: 0; }
h2 { font-size: 1.05rem; margin: 0 0 .6rem; }
p { margin: .3rem 0; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1rem; margin: 1rem 0; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .9rem 1rem; min-width: 0; }
.wide { grid-column: 1 / -1; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: .6rem; margin: 0; }
dt { color: var(--dim); font-size: .85rem; }
dd { margin: 0; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--dim); font-weight: 500; font-size: .85rem; }
th, td { padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
code { font-size: .9em; }
.dim, footer { color: var(--dim); font-size: .9rem; }
.good, .settled { color: var(--good); } .bad { color: var(--bad); }
a { color: inherit; }
</style>
</head>
<body>
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_short() {
        assert_eq!([0, 999, 1000, 1_250_000, u64::MAX].map(bytes), ["0 B", "999 B", "1.0 kB", "1.2 MB", "18446.7 PB"]);
    }

    #[test]
    fn what_switches_say_is_escaped() {
        assert_eq!(Escaped("<b>\"&'").to_string(), "&lt;b&gt;&quot;&amp;&#39;");
    }
}
