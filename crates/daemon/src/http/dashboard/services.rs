//! Virtual services on the dashboard: services, pools, members.

use super::super::vips::{Member, MemberState, Pool, Service};
use super::{Escaped, ServicesSection, Table, long, number, state, table, text};

static SERVICES: Table = Table {
    title: "Virtual services",
    class: "cards",
    columns: &[
        long("service"),
        text("address"),
        long("pool"),
        text("members up"),
        number("connections"),
        number("connections in total"),
        number("from clients"),
        number("to clients"),
    ],
    note: "Bytes of closed connections, and of open ones if the balancer requests counters.",
};
static POOLS: Table = Table {
    title: "Pools",
    class: "cards",
    columns: &[long("pool"), long("balancer"), text("health check"), long("services"), text("members up")],
    note: "",
};
static MEMBERS: Table = Table {
    title: "Members",
    class: "cards",
    columns: &[
        long("member"),
        long("pool"),
        text("address"),
        long("state"),
        number("weight"),
        number("connections"),
        number("connections in total"),
        number("from clients"),
        number("to clients"),
    ],
    note: "",
};

pub(super) fn write(out: &mut String, served: &ServicesSection) {
    if served.services.is_empty() && served.pools.is_empty() {
        return;
    }
    table(out, &SERVICES, &served.services, service_row);
    table(out, &POOLS, &served.pools, pool_row);
    let members: Vec<(&Pool, &Member)> =
        served.pools.iter().flat_map(|pool| pool.members.iter().map(move |member| (pool, member))).collect();
    table(out, &MEMBERS, &members, |(pool, member)| member_row(pool, member));
}

fn up(members: &[Member]) -> String {
    let all = members.iter().filter(|member| member.name.is_some()).count();
    let up = members.iter().filter(|member| member.state == MemberState::Up && member.is_enabled).count();
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

/// Returns the name of a protocol, such as `TCP`.
fn upper(protocol: impl std::fmt::Debug) -> String {
    format!("{protocol:?}").to_uppercase()
}

fn service_row(service: &Service) -> Vec<String> {
    let place = match service.port {
        0 => service.address.clone(),
        port => format!("{}:{port}", service.address),
    };
    let stats = &service.stats;
    vec![
        format!("<b>{}</b>", Escaped(&service.name.to_string())),
        format!("{place} {}", upper(service.protocol)),
        service.pool.as_ref().map_or("–".to_owned(), |pool| Escaped(&pool.to_string()).to_string()),
        match service.pool {
            Some(_) => up(&service.members),
            None => "none (refuses clients)".to_owned(),
        },
        stats.connections.to_string(),
        stats.connections_total.to_string(),
        bytes(stats.bytes_in),
        bytes(stats.bytes_out),
    ]
}

fn pool_row(pool: &Pool) -> Vec<String> {
    let serves: Vec<String> = pool.services.iter().map(ToString::to_string).collect();
    let check = pool.monitor.as_ref().map_or("port state only".to_owned(), |monitor| {
        format!("{} every {} s", upper(monitor.check), monitor.interval_s)
    });
    vec![
        format!("<b>{}</b>", Escaped(&pool.name.to_string())),
        format!("<code>{}</code>", Escaped(&pool.balancer)),
        check,
        if serves.is_empty() { "–".to_owned() } else { Escaped(&serves.join(", ")).to_string() },
        // The controller does not observe members of a pool without services.
        if pool.services.is_empty() { "–".to_owned() } else { up(&pool.members) },
    ]
}

fn member_row(pool: &Pool, member: &Member) -> Vec<String> {
    let name = member.name.as_ref().map_or("removed".to_owned(), ToString::to_string);
    let address = member.port.map_or(member.address.clone(), |port| format!("{}:{port}", member.address));
    vec![
        format!("<b>{}</b>", Escaped(&name)),
        Escaped(&pool.name.to_string()).to_string(),
        address,
        state_of(member),
        member.weight.to_string(),
        member.stats.connections.to_string(),
        member.stats.connections_total.to_string(),
        bytes(member.stats.bytes_in),
        bytes(member.stats.bytes_out),
    ]
}

/// Returns the state of a member. A disabled member is shown neither as up nor as failed.
fn state_of(member: &Member) -> String {
    let text = Escaped(&member.state_detail).to_string();
    match (member.state, member.is_enabled) {
        (MemberState::Unused, _) => text,
        (MemberState::Up, true) => state(true, &text, ""),
        (MemberState::Up, false) => "up, disabled".to_owned(),
        (_, true) => state(false, "", &text),
        (_, false) => format!("{}; disabled", state(false, "", &text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_short() {
        assert_eq!([0, 999, 1000, 1_250_000, u64::MAX].map(bytes), ["0 B", "999 B", "1.0 kB", "1.2 MB", "18446.7 PB"]);
    }
}
