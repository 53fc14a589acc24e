//! The `[[server]]`, `[[service]]`, `[[requests]]` and `[agents]` sections: virtual services, their
//! servers, and the requests of clients.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::diagnostic::FileError;
use config::document::{Data, Value};
use config::section::Section;
use core::net::Ipv4Addr;
use net::did_you_mean::suggestion;
use net::{Bandwidth, Bytes, HostIx, Time, Topology};
use sim::{AgentConfig, ReportsTo, RequestClass, ServerConfig, ServicesConfig, TransportConfig, VirtualService};
use traffic::{Pacing, RequestSpec};

use super::content;
use super::traffic_plan::{ReadTraffic, TrafficPlan};

/// Address to which agents report in band; no host has it.
pub(crate) const CHECKER: Ipv4Addr = Ipv4Addr::new(10, 254, 254, 254);

pub(crate) fn has_requests(top: &Section<'_>) -> bool {
    ["server", "service", "content", "requests", "agents"].into_iter().any(|section| top.has(section))
}

/// Reads the sections.
pub(crate) fn read(
    top: &Section<'_>,
    topology: &Topology,
    transport: &TransportConfig,
) -> Result<(ServicesConfig, ReadTraffic), FileError> {
    if !transport.properties().is_tcp {
        let message = format!("requests need TCP connections, not {}", transport.kind.name());
        return Err(top.section("transport")?.error("kind", message).with_hint("use newreno, dctcp or cubic"));
    }
    if top.has("traffic") {
        let error = top.error("traffic", "cannot be combined with requests to services");
        return Err(error.with_hint("leave out [traffic], or [[server]], [[service]] and [[requests]]"));
    }
    let hosts: BTreeMap<&str, HostIx> = (0u32..)
        .map(HostIx)
        .zip(topology.hosts())
        .map(|(host, node)| (topology.node(*node).name.as_str(), host))
        .collect();
    let mut config = ServicesConfig { base: routing(&top.section("control")?)?, ..ServicesConfig::default() };
    for section in required_list(top, "server")? {
        let server = server(&section, &hosts)?;
        if config.servers.iter().any(|other| other.host == server.host) {
            return Err(section.error("host", "is listed twice among the servers"));
        }
        config.servers.push(server);
    }
    let mut pools = Vec::new();
    for section in required_list(top, "service")? {
        let service = service(&section, &hosts, &config, &mut pools)?;
        config.services.push(service);
    }
    for section in top.sections("content")? {
        content::add_rule(&section, &hosts, &mut config)?;
    }
    config.agents = agents(&top.section("agents")?)?;
    let mut specs = Vec::new();
    for section in required_list(top, "requests")? {
        let (class, spec) = class(&section, &hosts, &config)?;
        config.classes.push(class);
        specs.push(spec);
    }
    let count: u64 = specs.iter().map(|spec| u64::from(spec.count)).sum();
    let description = describe(&config, &specs);
    let plan = TrafficPlan::Requests { classes: Arc::new(specs), description };
    let read = ReadTraffic { plan, loads: vec![None], flow_counts: vec![count], warnings: Vec::new() };
    Ok((config, read))
}

fn required_list<'a>(top: &Section<'a>, name: &'static str) -> Result<Vec<Section<'a>>, FileError> {
    let list = top.sections(name)?;
    if list.is_empty() {
        let error = top.error(name, "is missing: requests need [[server]], [[service]] and [[requests]]");
        return Err(error.with_hint(format!("write `[[{name}]]`")));
    }
    Ok(list)
}

fn routing(section: &Section<'_>) -> Result<String, FileError> {
    let text = section.text("routing")?.unwrap_or("sdn-ecmp");
    let spec = balance::Spec::parse(text).map_err(|cause| section.error("routing", cause.to_string()))?;
    if spec.entry.is_central() {
        return Ok(text.to_owned());
    }
    let error = section.error("routing", format!("`{}` is not a central balancer", spec.entry.name));
    Err(error.with_hint("use one such as sdn-ecmp or sdn-spt: `anabranch list balancers`"))
}

fn host_named(
    section: &Section<'_>,
    key: &str,
    value: &Value,
    hosts: &BTreeMap<&str, HostIx>,
) -> Result<HostIx, FileError> {
    let at = |message: String| section.document.error(&value.at, &section.dotted_key(key), message);
    let Data::Text(name) = &value.data else {
        return Err(at(format!("must be the name of a host in quotes, not {}", value.kind())));
    };
    hosts
        .get(name.as_str())
        .copied()
        .ok_or_else(|| at(format!("unknown host `{name}`")).with_hint(suggestion(name, hosts.keys().copied())))
}

pub(super) fn hosts_named(
    section: &Section<'_>,
    key: &str,
    hosts: &BTreeMap<&str, HostIx>,
) -> Result<Vec<HostIx>, FileError> {
    section.list(key).into_iter().map(|value| host_named(section, key, value, hosts)).collect()
}

fn server(section: &Section<'_>, hosts: &BTreeMap<&str, HostIx>) -> Result<ServerConfig, FileError> {
    let Some(value) = section.get("host") else { return Err(section.missing("host")) };
    Ok(ServerConfig {
        host: host_named(section, "host", value, hosts)?,
        cores: section.count("cores")?.unwrap_or(1),
        speed: section.positive("speed")?.unwrap_or(1.0),
        weight: section.count("weight")?.unwrap_or(1),
    })
}

fn service(
    section: &Section<'_>,
    hosts: &BTreeMap<&str, HostIx>,
    config: &ServicesConfig,
    pools: &mut Vec<String>,
) -> Result<VirtualService, FileError> {
    let name = section.text("name")?.ok_or_else(|| section.missing("name"))?.to_owned();
    if config.services.iter().any(|other| other.name == name) {
        return Err(section.error("name", format!("`{name}` is listed twice")));
    }
    let address: Ipv4Addr = section.required("address", "an IPv4 address")?;
    if net::address::host_of_ipv4(address, hosts.len()).is_some() || address == CHECKER {
        let error = section.error("address", format!("{address} belongs to a host or to the controller"));
        return Err(error.with_hint("use one such as 10.100.0.1"));
    }
    let port: u16 = section.count("port")?.ok_or_else(|| section.missing("port"))?;
    if config.services.iter().any(|other| (other.address, other.port) == (address, port)) {
        return Err(section.error("port", format!("another service is at {address}, port {port}")));
    }
    let front_ends = hosts_named(section, "front_ends", hosts)?;
    let members = match section.has("members") {
        true => hosts_named(section, "members", hosts)?,
        false => config.servers.iter().map(|server| server.host).filter(|host| !front_ends.contains(host)).collect(),
    };
    check_are_servers(section, "members", &members, hosts, config)?;
    check_are_servers(section, "front_ends", &front_ends, hosts, config)?;
    if members.is_empty() {
        return Err(section.error("members", "is an empty list: a service needs at least one member"));
    }
    let (members, content) = content::read(section, members, front_ends)?;
    let pool_name = section.text("pool")?.unwrap_or(&name);
    let pool = pools.iter().position(|known| known == pool_name).unwrap_or_else(|| {
        pools.push(pool_name.to_owned());
        pools.len() - 1
    }) as u16;
    let member_port = section.count::<u16>("member_port")?;
    let (buckets, mux_traffic) = client_slots(section)?;
    let is_tunnelled = content::is_tunnelled(section)?;
    if let Some(other) = config.services.iter().find(|other| other.pool == pool)
        && (&other.members, other.member_port.is_some()) != (&members, member_port.is_some())
    {
        let message =
            format!("the pool `{pool_name}` has other members, or ports of members, at service `{}`", other.name);
        return Err(section.error("pool", message));
    }
    Ok(VirtualService {
        mac: control::vip::mac_of(address).0,
        idle_timeout_s: section.count("idle_timeout_s")?.unwrap_or(30),
        name,
        address,
        port,
        members,
        buckets,
        mux_traffic,
        member_port,
        pool,
        is_tunnelled,
        content,
    })
}

pub(super) fn check_are_servers(
    section: &Section<'_>,
    key: &str,
    named: &[HostIx],
    hosts: &BTreeMap<&str, HostIx>,
    config: &ServicesConfig,
) -> Result<(), FileError> {
    let is_server = |host: &&HostIx| config.servers.iter().any(|server| server.host == **host);
    let Some(unknown) = named.iter().find(|host| !is_server(host)) else { return Ok(()) };
    let name = hosts.iter().find(|(_, host)| *host == unknown).map_or("", |(name, _)| *name);
    Err(section.error(key, format!("`{name}` is not a [[server]]")))
}

fn client_slots(section: &Section<'_>) -> Result<(Option<u16>, Option<Bandwidth>), FileError> {
    let buckets: Option<u16> = section.count("client_slots")?;
    let traffic: Option<Bandwidth> = section.above_zero("expected_traffic")?;
    let rules = section.choice("rules")?.unwrap_or("connection");
    let is_mux = rules == "mux";
    if traffic.is_some() && !is_mux {
        return Err(section.error("expected_traffic", "goes with `rules = \"mux\"`"));
    }
    if rules == "connection" {
        return match buckets {
            Some(_) => Err(section.error("client_slots", "goes with `rules = \"wildcard\"` or `\"mux\"`")),
            None => Ok((None, None)),
        };
    }
    let buckets = buckets.unwrap_or(64);
    if !buckets.is_power_of_two() {
        return Err(section.error("client_slots", format!("{buckets} is not a power of two")));
    }
    Ok((Some(buckets), is_mux.then(|| traffic.unwrap_or(Bandwidth::from_mbps(1)))))
}

fn agents(section: &Section<'_>) -> Result<Option<AgentConfig>, FileError> {
    if !section.exists() {
        return Ok(None);
    }
    let to = ReportsTo { address: CHECKER, mac: control::vip::mac_of(CHECKER).0, port: control::vip::REPORT_PORT };
    let agents = AgentConfig {
        pause: section.quantity("pause")?.unwrap_or(Time::from_s(5)),
        sampling: section.quantity("sampling")?.unwrap_or(Time::from_s(10)),
        in_band: (section.choice("report")? == Some("in-band")).then_some(to),
    };
    if agents.pause == Time::ZERO && agents.sampling == Time::ZERO {
        return Err(section.error("sampling", "the interval between two reports must be above zero"));
    }
    Ok(Some(agents))
}

fn class(
    section: &Section<'_>,
    hosts: &BTreeMap<&str, HostIx>,
    config: &ServicesConfig,
) -> Result<(RequestClass, RequestSpec), FileError> {
    let service_name = section.text("service")?.ok_or_else(|| section.missing("service"))?;
    let service = config.services.iter().position(|service| service.name == service_name).ok_or_else(|| {
        let error = section.error("service", format!("unknown service `{service_name}`"));
        error.with_hint(suggestion(service_name, config.services.iter().map(|service| service.name.as_str())))
    })?;
    let name = section.text("name")?.unwrap_or(service_name).to_owned();
    if config.classes.iter().any(|other| other.name == name) {
        return Err(section.error("name", format!("another request class has the name `{name}`")));
    }
    let size = |key: &str, default: u64| -> Result<u64, FileError> {
        Ok(section.above_zero::<Bytes>(key)?.map_or(default, Bytes::as_u64))
    };
    let class = RequestClass {
        name,
        service: service as u32,
        request_bytes: size("request_size", 500)?,
        page_bytes: size("response_size", 1)?,
        pages: section.count("pages")?.unwrap_or(1),
        cpu: section.quantity("cpu_time")?.unwrap_or(Time::ZERO),
        path: content::path(section)?.unwrap_or_else(|| "/".to_owned()),
        host: section.text("host")?.unwrap_or("").to_owned(),
    };
    let servers = config.services[service].servers_of(&class).to_vec();
    let is_server = |host: &HostIx| config.servers.iter().any(|server| server.host == *host);
    let clients = match section.has("clients") {
        true => hosts_named(section, "clients", hosts)?,
        false => (0..hosts.len() as u32).map(HostIx).filter(|host| !is_server(host)).collect(),
    };
    if clients.is_empty() {
        return Err(section
            .error("clients", "the list of clients is empty")
            .with_hint("name at least one host that is not a server"));
    }
    if let Some(own) = clients.iter().find(|client| servers.iter().all(|server| server == *client)) {
        return Err(section.error("clients", format!("host {} is itself the only member of the service", own.0)));
    }
    let count = section.count("count")?.ok_or_else(|| section.missing("count"))?;
    let spec = RequestSpec {
        clients,
        servers,
        count,
        size_bytes: class.page_bytes.saturating_mul(u64::from(class.pages)),
        start: section.quantity("start")?.unwrap_or(Time::ZERO),
        start_within: section.quantity("start_jitter")?.unwrap_or(Time::ZERO),
        pacing: pacing(section)?,
    };
    Ok((class, spec))
}

fn pacing(section: &Section<'_>) -> Result<Pacing, FileError> {
    let arrivals = section.choice("arrivals")?.unwrap_or("paced");
    let (key, other) = if arrivals == "gap" { ("gap", "duration") } else { ("duration", "gap") };
    if section.has(other) {
        let error = section.error(other, format!("belongs to other arrivals; these take `{key}`"));
        return Err(error.with_hint("`duration` goes with paced and poisson, `gap` with gap"));
    }
    let time: Option<Time> = if arrivals == "gap" { section.quantity(key)? } else { section.above_zero(key)? };
    let time = time.ok_or_else(|| section.missing(key))?;
    Ok(match arrivals {
        "paced" => Pacing::Paced(time),
        "poisson" => Pacing::Poisson(time),
        _ => Pacing::Gap(time),
    })
}

fn describe(config: &ServicesConfig, specs: &[RequestSpec]) -> String {
    let descriptions = config.classes.iter().zip(specs).map(|(class, spec)| {
        let pages = if class.pages == 1 { String::new() } else { format!("{} pages of ", class.pages) };
        let cpu = if class.cpu == Time::ZERO { String::new() } else { format!(", {} of a core each", class.cpu) };
        let pace = match spec.pacing {
            Pacing::Paced(over) => format!("paced over {over}"),
            Pacing::Poisson(over) => format!("Poisson, {over} on average"),
            Pacing::Gap(gap) => format!("{gap} apart"),
        };
        format!(
            "{} requests `{}` of {} clients for {pages}{} B{cpu}, {pace}",
            spec.count,
            class.name,
            spec.clients.len(),
            class.page_bytes
        )
    });
    descriptions.collect::<Vec<_>>().join("; ")
}
