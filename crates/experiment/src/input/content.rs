//! Content-aware services: how front ends forward requests, and the `[[content]]` sections.

use std::collections::BTreeMap;

use config::diagnostic::FileError;
use config::section::Section;
use net::did_you_mean::suggestion;
use net::{Bandwidth, Bytes, HostIx, Time};
use sim::{ContentConfig, ContentRule, Forwarding, ServicesConfig};

use super::services::{check_are_servers, hosts_named};

/// Ways in which requests reach members.
pub(super) const FORWARDING: [&str; 4] = ["rewrite", "tunnel", "splice", "redirect"];

/// Measured with `anabranch testbed front-end` on loopback: processor time of 2,000 connections, and
/// of 4 GB relayed by splice(2) (23 Gb/s; 19 Gb/s through a buffer of the program).
const SPLICE_TIME: Time = Time::from_us(160);
const REDIRECT_TIME: Time = Time::from_us(80);
const DEFAULT_RELAY_RATE: Bandwidth = Bandwidth::from_gbps(20);
const DEFAULT_REDIRECT: u64 = 200;

/// Keys of front ends, which go with splice or redirect.
const KEYS: [&str; 3] = ["connection_time", "relay_rate", "redirect_size"];

/// Returns the hosts that the virtual address leads to, and the forwarding by content, if there is
/// any. Its last rule matches every request.
pub(super) fn read(
    section: &Section<'_>,
    members: Vec<HostIx>,
    front_ends: Vec<HostIx>,
) -> Result<(Vec<HostIx>, Option<ContentConfig>), FileError> {
    let relay_rate: Option<Bandwidth> = section.above_zero("relay_rate")?;
    let redirect_size: Option<Bytes> = section.above_zero("redirect_size")?;
    let connection_time: Option<Time> = section.quantity("connection_time")?;
    let (forwarding, default_time) = match section.choice("forwarding")? {
        Some("splice") => (Forwarding::Splice, SPLICE_TIME),
        Some("redirect") => (Forwarding::Redirect, REDIRECT_TIME),
        _ => {
            let unused = KEYS.into_iter().find(|key| section.has(key) && front_ends.is_empty());
            return match unused {
                Some(key) => Err(section.error(key, "goes with `forwarding` splice or redirect")),
                None => Ok((members, None)),
            };
        }
    };
    if front_ends.is_empty() {
        return Err(section.missing("front_ends"));
    }
    if section.choice("rules")?.is_some_and(|rules| rules != "connection") {
        let error = section.error("rules", "assigns clients in advance, blind to content");
        return Err(error.with_hint("leave out `rules`, or use `forwarding = \"rewrite\"`"));
    }
    let all = ContentRule { path: String::new(), host: None, members, balancer: None };
    let content = ContentConfig {
        forwarding,
        rules: vec![all],
        connection_time: connection_time.unwrap_or(default_time),
        relay_rate: Some(relay_rate.unwrap_or(DEFAULT_RELAY_RATE)),
        redirect_bytes: redirect_size.map_or(DEFAULT_REDIRECT, Bytes::as_u64),
    };
    Ok((front_ends, Some(content)))
}

/// Returns whether switches tunnel requests to members instead of rewriting addresses.
pub(super) fn is_tunnelled(section: &Section<'_>) -> Result<bool, FileError> {
    let is_tunnelled = section.choice("forwarding")? == Some("tunnel");
    if is_tunnelled && section.has("member_port") {
        let error = section.error("member_port", "cannot go with `forwarding = \"tunnel\"`: ports stay unchanged");
        return Err(error.with_hint("leave out `member_port`, or use `forwarding = \"rewrite\"`"));
    }
    Ok(is_tunnelled)
}

/// Reads a path, which begins with a slash.
pub(super) fn path(section: &Section<'_>) -> Result<Option<String>, FileError> {
    match section.text("path")? {
        Some(path) if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(section.error("path", format!("`{path}` must begin with `/`, in ASCII without spaces")))
        }
        path => Ok(path.map(str::to_owned)),
    }
}

/// Reads a rule and adds it to its service, before the rule that matches everything.
pub(super) fn add_rule(
    section: &Section<'_>,
    hosts: &BTreeMap<&str, HostIx>,
    config: &mut ServicesConfig,
) -> Result<(), FileError> {
    let name = section.text("service")?.ok_or_else(|| section.missing("service"))?;
    let members = hosts_named(section, "members", hosts)?;
    if members.is_empty() {
        return Err(section.missing("members"));
    }
    check_are_servers(section, "members", &members, hosts, config)?;
    let balancer = section.text("balancer")?.map(str::to_owned);
    if let Some(text) = &balancer {
        let spec = balance::Spec::parse(text).map_err(|cause| section.error("balancer", cause.to_string()))?;
        if !matches!(spec.entry.build, balance::Build::Server(_)) {
            let error = section.error("balancer", format!("`{}` does not pick servers", spec.entry.name));
            return Err(error.with_hint("use one such as server-rr: `anabranch list balancers`"));
        }
    }
    let rule = ContentRule {
        path: path(section)?.unwrap_or_default(),
        host: section.text("host")?.map(str::to_owned),
        members,
        balancer,
    };
    let names: Vec<String> = config.services.iter().map(|service| service.name.clone()).collect();
    let Some(service) = config.services.iter_mut().find(|service| service.name == name) else {
        let error = section.error("service", format!("unknown service `{name}`"));
        return Err(error.with_hint(suggestion(name, names.iter().map(String::as_str))));
    };
    if let Some(content) = &mut service.content {
        content.rules.insert(content.rules.len() - 1, rule);
    }
    Ok(())
}
