//! The dashboard: one HTML page, rendered by the server, without scripts.

mod services;

use std::fmt::{self, Write as _};

use net::{Bandwidth, Time};

use super::model::{Balancer, Host, Link, Statistics, Switch, SwitchPort};
use super::vips::{Pool, Service};
use crate::engine::Engine;

pub(super) struct Snapshot {
    switches: Vec<Switch>,
    links: Vec<Link>,
    hosts: Vec<Host>,
    balancer: Balancer,
    statistics: Statistics,
}

impl Snapshot {
    pub(super) fn of(engine: &Engine) -> Snapshot {
        let controller = &engine.controller;
        Snapshot {
            switches: controller.inspect().switches().map(|info| Switch::new(engine, info)).collect(),
            links: controller.inspect().links().map(Link::new).collect(),
            hosts: controller.inspect().hosts().map(Host::new).collect(),
            balancer: Balancer::new(&engine.balancer),
            statistics: Statistics::new(engine),
        }
    }
}

/// Escaped text of an element: names that switches report are not trusted.
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

/// Renders the page: the state of the engine and the virtual services.
pub(super) fn render(snapshot: &Snapshot, services: &[Service], pools: &[Pool]) -> String {
    let mut out = String::from(HEAD);
    let Snapshot { switches, links, hosts, balancer, statistics } = snapshot;
    let connected = switches.iter().filter(|switch| switch.is_connected).count();
    let up_links = links.iter().filter(|link| link.is_up).count();
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
        Escaped(balancer.title),
        Escaped(&balancer.spec),
        Escaped(balancer.summary),
        Escaped(&parameters.join(", ")),
    );
    let figures = [
        ("switches", format!("{connected} of {}", switches.len())),
        ("links", format!("{up_links} of {}", links.len())),
        ("hosts", hosts.len().to_string()),
        ("switch connections", statistics.connections.to_string()),
        ("decisions", statistics.balancer_decisions.to_string()),
        ("flow migrations", statistics.flow_migrations.to_string()),
        ("rule changes", statistics.flow_mods.to_string()),
        ("group changes", statistics.group_mods.to_string()),
        ("packets in", statistics.packet_ins.to_string()),
        ("packets out", statistics.packet_outs.to_string()),
    ];
    out.push_str("<section class=\"wide\"><h2>Figures</h2><dl>");
    for (name, value) in figures {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    // Counters of exceeded limits and rejected packets are shown only if they are not zero.
    let over_limit = [
        ("flows over limit", statistics.flows_over_limit),
        ("packets of hosts over limit", statistics.host_packets_over_limit),
        ("ARP requests suppressed", statistics.arp_requests_suppressed),
        ("ARP packets rejected", statistics.arp_packets_rejected),
        ("claims of host addresses rejected", statistics.host_claims_rejected),
        ("discovery probes rejected", statistics.discovery_probes_rejected),
    ];
    for (name, value) in over_limit.into_iter().filter(|(_, value)| *value > 0) {
        let _ = write!(out, "<div><dt>{name}</dt><dd class=\"bad\">{value}</dd></div>");
    }
    out.push_str("</dl></section>\n");
    services::write(&mut out, services, pools);
    write_switches(&mut out, switches);
    write_hosts(&mut out, hosts);
    write_links(&mut out, links);
    out.push_str(
        "</main>\n<footer>The same as JSON: <a href=\"/v1/openapi.json\">API</a>, metrics for Prometheus: \
         <a href=\"/metrics\">metrics</a>.</footer>\n</body>\n</html>\n",
    );
    out
}

/// Maximum number of rows of a table; the API returns all of them.
const ROWS: usize = 500;

/// A table of objects: heading, CSS class and cell of every column.
struct Table<'a, T> {
    title: &'a str,
    /// CSS class; with `cards` the rows become cards on narrow screens.
    class: &'a str,
    columns: &'a [Column<T>],
    note: &'a str,
}

struct Column<T>(&'static str, &'static str, fn(&T) -> String);

fn text<T>(heading: &'static str, cell: fn(&T) -> String) -> Column<T> {
    Column(heading, "", cell)
}
/// A right-aligned column of digits.
fn number<T>(heading: &'static str, cell: fn(&T) -> String) -> Column<T> {
    Column(heading, "number", cell)
}
fn long<T>(heading: &'static str, cell: fn(&T) -> String) -> Column<T> {
    Column(heading, "long", cell)
}

fn table<T>(out: &mut String, rows: &[T], Table { title, class, columns, note }: &Table<'_, T>) {
    let _ = write!(out, "<section class=\"wide\"><h2>{title}</h2>");
    if rows.is_empty() {
        out.push_str("<p class=\"dim\">none yet</p></section>\n");
        return;
    }
    let _ = write!(out, "<div class=\"scroll\"><table class=\"{class}\"><thead><tr>");
    for Column(heading, class, _) in *columns {
        let _ = write!(out, "<th class=\"{class}\">{heading}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows.iter().take(ROWS) {
        out.push_str("<tr>");
        for Column(heading, class, cell) in *columns {
            let _ = write!(out, "<td class=\"{class}\" data-label=\"{heading}\">{}</td>", cell(row));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>");
    if rows.len() > ROWS {
        let _ = write!(out, "<p class=\"dim\">and {} more</p>", rows.len() - ROWS);
    }
    if !note.is_empty() {
        let _ = write!(out, "<p class=\"dim\">{note}</p>");
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

fn write_switches(out: &mut String, switches: &[Switch]) {
    let columns = &[
        text("switch", |switch: &Switch| format!("<code>{}</code>", switch.dpid)),
        text("state", |switch| state(switch.is_connected, "connected", "away")),
        number("ports up", |switch| {
            format!("{} of {}", switch.ports.iter().filter(|port| port.is_up).count(), switch.ports.len())
        }),
        number("rules", |switch| switch.rules.to_string()),
        number("groups", |switch| switch.groups.to_string()),
        number("round trip", |switch| time(switch.rtt_us)),
    ];
    table(out, switches, &Table { title: "Switches", class: "", columns, note: "" });
}

fn write_hosts(out: &mut String, hosts: &[Host]) {
    let columns = &[
        text("address", |host: &Host| host.ipv4.clone()),
        text("Ethernet", |host| format!("<code>{}</code>", host.mac)),
        text("switch", |host| format!("<code>{}</code>", host.location.dpid)),
        number("port", |host| host.location.port.to_string()),
    ];
    table(out, hosts, &Table { title: "Hosts", class: "", columns, note: "" });
}

fn write_links(out: &mut String, links: &[Link]) {
    fn end(end: &SwitchPort) -> String {
        format!("<code>{}</code>&nbsp;:{}", end.dpid, end.port)
    }
    let columns = &[
        text("from", |link: &Link| end(&link.from)),
        text("to", |link| end(&link.to)),
        text("state", |link| state(link.is_up, "up", "down")),
        number("latency", |link| time(link.latency_us)),
        number("load", |link| {
            let share = |load: u64| load as f64 / link.capacity_bps.max(1) as f64 * 100.0;
            link.load_bps.map_or("–".to_owned(), |load| format!("{:.0} %", share(load)))
        }),
        number("capacity", |link| Bandwidth::from_bps(link.capacity_bps).to_string()),
    ];
    table(out, links, &Table { title: "Links", class: "", columns, note: "" });
}

const HEAD: &str = concat!(
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
    "<meta http-equiv=\"refresh\" content=\"5\">\n<title>Anabranch controller</title>\n<style>\n",
    include_str!("page.css"),
    "</style>\n</head>\n<body>\n"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switch_text_is_escaped() {
        assert_eq!(Escaped("<b>\"&'").to_string(), "&lt;b&gt;&quot;&amp;&#39;");
    }
}
