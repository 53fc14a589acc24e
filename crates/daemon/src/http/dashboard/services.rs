//! Virtual services on the dashboard: services, pools, members.

use super::super::vips::{Member, MemberState, Pool, Service};
use super::{Escaped, Table, long, number, state, table, text};

pub(super) fn write(out: &mut String, services: &[Service], pools: &[Pool]) {
    if services.is_empty() && pools.is_empty() {
        return;
    }
    write_services(out, services);
    write_pools(out, pools);
    let members = pools.iter().flat_map(|pool| pool.members.iter().map(move |member| (pool, member)));
    write_members(out, &members.collect::<Vec<_>>());
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

fn place(address: &str, port: Option<u16>) -> String {
    port.map_or(address.to_owned(), |port| format!("{address}:{port}"))
}

/// Returns the name of a protocol, such as `TCP`.
fn upper(protocol: impl std::fmt::Debug) -> String {
    format!("{protocol:?}").to_uppercase()
}

fn write_services(out: &mut String, services: &[Service]) {
    let columns = &[
        long("service", |service: &Service| format!("<b>{}</b>", Escaped(&service.name.to_string()))),
        text("address", |service| {
            let port = Some(service.port).filter(|port| *port != 0);
            format!("{} {}", place(&service.address, port), upper(service.protocol))
        }),
        long("pool", |service| {
            service.pool.as_ref().map_or("–".to_owned(), |pool| Escaped(&pool.to_string()).to_string())
        }),
        text("members up", |service| match service.pool {
            Some(_) => up(&service.members),
            None => "none (refuses clients)".to_owned(),
        }),
        number("connections", |service| service.stats.connections.to_string()),
        number("connections in total", |service| service.stats.connections_total.to_string()),
        number("from clients", |service| bytes(service.stats.bytes_in)),
        number("to clients", |service| bytes(service.stats.bytes_out)),
    ];
    let note = "Bytes of closed connections, and of open ones if the balancer requests counters.";
    table(out, services, &Table { title: "Virtual services", class: "cards", columns, note });
}

fn write_pools(out: &mut String, pools: &[Pool]) {
    let columns = &[
        long("pool", |pool: &Pool| format!("<b>{}</b>", Escaped(&pool.name.to_string()))),
        long("balancer", |pool| format!("<code>{}</code>", Escaped(&pool.balancer))),
        text("health check", |pool| {
            pool.monitor.as_ref().map_or("port state only".to_owned(), |monitor| {
                format!("{} every {} s", upper(monitor.check), monitor.interval_s)
            })
        }),
        long("services", |pool| {
            let serves: Vec<String> = pool.services.iter().map(ToString::to_string).collect();
            if serves.is_empty() { "–".to_owned() } else { Escaped(&serves.join(", ")).to_string() }
        }),
        // The controller does not observe members of a pool without services.
        text("members up", |pool| if pool.services.is_empty() { "–".to_owned() } else { up(&pool.members) }),
    ];
    table(out, pools, &Table { title: "Pools", class: "cards", columns, note: "" });
}

fn write_members(out: &mut String, members: &[(&Pool, &Member)]) {
    let columns = &[
        long("member", |(_, member): &(&Pool, &Member)| {
            let name = member.name.as_ref().map_or("removed".to_owned(), ToString::to_string);
            format!("<b>{}</b>", Escaped(&name))
        }),
        long("pool", |(pool, _)| Escaped(&pool.name.to_string()).to_string()),
        text("address", |(_, member)| place(&member.address, member.port)),
        long("state", |(_, member)| state_of(member)),
        number("weight", |(_, member)| member.weight.to_string()),
        number("connections", |(_, member)| member.stats.connections.to_string()),
        number("connections in total", |(_, member)| member.stats.connections_total.to_string()),
        number("from clients", |(_, member)| bytes(member.stats.bytes_in)),
        number("to clients", |(_, member)| bytes(member.stats.bytes_out)),
    ];
    table(out, members, &Table { title: "Members", class: "cards", columns, note: "" });
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
