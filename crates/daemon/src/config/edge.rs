//! The uplinks to BGP peers: `[edge]` and `[[uplink]]`.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use bgp::bmp::Policy;
use bgp::damping::Damping;
use bgp::rib::PEERS_MAX;
use config::diagnostic::FileError;
use config::document::Data;
use config::section::Section;
use control::edge::{EdgeConfig, Uplink};
use net::Time;
use openflow::{DatapathId, PortNo};

use super::{address, read_dpid, set};
use crate::settings::{BmpSettings, Settings};

pub(super) fn read(top: &Section<'_>, settings: &mut Settings) -> Result<(), FileError> {
    let section = top.section("edge")?;
    let uplinks = top.sections("uplink")?;
    if !section.exists() {
        let Some(uplink) = uplinks.first() else { return Ok(()) };
        return Err(uplink.error("name", "has no effect without [edge]").with_hint("add [edge] with dpid and gateway"));
    }
    let mut bmp = BmpSettings::default();
    set(&mut bmp.listen, address(&section, "listen")?);
    let routers = section.list("routers");
    if !routers.is_empty() {
        let router = |text: &str| text.parse::<Ipv4Addr>().ok();
        let parsed = routers.iter().map(|value| match &value.data {
            Data::Text(text) => router(text),
            _ => None,
        });
        let hint = "write routers = [\"192.0.2.254\"]";
        let parsed: Option<BTreeSet<Ipv4Addr>> = parsed.collect();
        bmp.routers =
            parsed.ok_or_else(|| section.error("routers", "must be a list of IPv4 addresses").with_hint(hint))?;
    }
    let mut edge = EdgeConfig {
        datapath: DatapathId(read_dpid(&section, "dpid")?),
        gateway: section.required("gateway", "an IPv4 address")?,
        uplinks: read_uplinks(&uplinks)?,
        policy: Policy::Post,
        shortest_only: false,
        rules_max: 1000,
        routes_max: 2_000_000,
        stale_time: Time::from_s(120),
        damping: Damping::default(),
        hysteresis: 0.05,
        decrements_ttl: true,
    };
    if edge.uplinks.is_empty() {
        return Err(section.error("dpid", "there is no uplink").with_hint("add [[uplink]] for each peer"));
    }
    set(&mut edge.policy, section.chosen("routes_of", &[Policy::Post, Policy::Pre])?);
    set(&mut edge.shortest_only, section.chosen("paths", &[false, true])?);
    set(&mut edge.rules_max, section.count("rules")?);
    set(&mut edge.routes_max, section.count("routes")?);
    set(&mut edge.stale_time, section.above_zero("stale_time")?);
    set(&mut edge.hysteresis, section.positive("hysteresis")?);
    set(&mut edge.decrements_ttl, section.flag("decrement_ttl")?);
    edge.damping = read_damping(&section)?;
    bmp.policy = edge.policy;
    settings.bmp = Some(bmp);
    settings.control.edge = Some(edge);
    Ok(())
}

fn read_uplinks(uplinks: &[Section<'_>]) -> Result<Vec<Uplink>, FileError> {
    let mut read: Vec<Uplink> = Vec::new();
    for section in uplinks {
        let rate = section.above_zero("rate")?.ok_or_else(|| section.missing("rate"))?;
        let port = section.count("port")?.ok_or_else(|| section.missing("port"))?;
        let uplink = Uplink {
            name: section.required("name", "text")?,
            port: PortNo(port),
            peer: section.required("peer", "an IPv4 address")?,
            local: section.required("local", "an IPv4 address")?,
            rate,
        };
        if read.len() >= PEERS_MAX {
            return Err(section.error("name", format!("there are more than {PEERS_MAX} uplinks")));
        }
        for (key, is_same) in [
            ("name", (|a, b| a.name == b.name) as fn(&Uplink, &Uplink) -> bool),
            ("port", |a, b| a.port == b.port),
            ("peer", |a, b| a.peer == b.peer),
        ] {
            if read.iter().any(|other| is_same(other, &uplink)) {
                return Err(section.error(key, "another uplink earlier in the file has the same value"));
            }
        }
        if uplink.local == uplink.peer {
            return Err(section.error("local", "is the address of the peer; it must be that of the own router"));
        }
        read.push(uplink);
    }
    Ok(read)
}

fn read_damping(section: &Section<'_>) -> Result<Damping, FileError> {
    let mut damping = Damping::default();
    set(&mut damping.suppress, section.positive("suppress")?);
    set(&mut damping.reuse, section.positive("reuse")?);
    set(&mut damping.half_life, section.above_zero("half_life")?);
    set(&mut damping.suppress_max, section.above_zero("suppress_max")?);
    if damping.reuse >= damping.suppress {
        let message = format!("{} is not below suppress, which is {}", damping.reuse, damping.suppress);
        return Err(section.error("reuse", message));
    }
    if damping.ceiling() <= damping.suppress {
        let message = format!(
            "no route would be suppressed: penalties are limited to {:.0}, from which they fall to reuse within {}",
            damping.ceiling(),
            damping.suppress_max
        );
        return Err(section.error("suppress", message).with_hint("lower suppress, or raise suppress_max"));
    }
    if section.flag("damping")? == Some(false) {
        damping.suppress = f64::INFINITY;
    }
    Ok(damping)
}
