//! `[[timetable]]`: balancer, pools and limits by time of day and date.

use config::diagnostic::FileError;
use config::document::Data;
use config::section::Section;
use config::timetable::Timetable;

use super::read_limits;
use crate::balancer;
use crate::schedule::{Schedule, Scheduled};
use crate::services::{ConfiguredServices, Desired, ErrorScope, FieldError, MemberSpec, Name, NamedMember, Origin};
use crate::settings::Settings;

pub(super) fn read(top: &Section<'_>, settings: &Settings) -> Result<Schedule, FileError> {
    let (timetable, sections) = Timetable::read(top)?;
    let start = timetable.start(top)?;
    let entries = sections.iter().map(|section| entry(section, settings)).collect::<Result<_, _>>()?;
    Ok(Schedule { timetable, start, entries })
}

fn entry(section: &Section<'_>, settings: &Settings) -> Result<Scheduled, FileError> {
    const CONTENT: [&str; 4] = ["balancer", "limits", "pools", "weights"];
    if !CONTENT.iter().any(|key| section.has(key)) {
        let error = section.error("", "the entry is empty: it changes nothing");
        return Err(error.with_hint("add balancer, limits, pools or weights, or remove the entry"));
    }
    let mut entry = settings.base();
    if let Some(text) = section.text("balancer")? {
        entry.balancer = balancer::parse(text).map_err(|error| section.error("balancer", error.to_string()))?;
    }
    if let Some(limits) = below(section, "timetable.limits", "limits")? {
        read_limits(&limits, &mut entry.limits)?;
    }
    if let Some(pools) = below(section, "timetable.pools", "pools")? {
        for (name, value) in pools.entries() {
            let Data::Text(text) = &value.data else {
                return Err(pools.error(name, format!("must be text in quotes, not {}", value.kind())));
            };
            pool(&pools, &mut entry.services, name)?.balancer.clone_from(text);
        }
        check(&entry.services, settings).map_err(|fault| refused(&pools, &fault))?;
    }
    if let Some(weights) = below(section, "timetable.weights", "weights")? {
        for (name, value) in weights.entries() {
            let members = &mut pool(&weights, &mut entry.services, name)?.members;
            let listed = weights.table("timetable.weights", weights.dotted_key(name), value)?;
            set_weights(&listed, members)?;
        }
        check(&entry.services, settings).map_err(|fault| refused(&weights, &fault))?;
    }
    Ok(entry)
}

/// Returns a table of an entry, if the entry has it.
fn below<'a>(section: &Section<'a>, name: &'static str, key: &str) -> Result<Option<Section<'a>>, FileError> {
    let Some(value) = section.get(key) else { return Ok(None) };
    let table = section.table(name, section.dotted_key(key), value)?;
    table.check_keys().map(|()| Some(table))
}

fn pool<'a>(
    section: &Section<'_>,
    services: &'a mut ConfiguredServices,
    name: &str,
) -> Result<&'a mut crate::services::PoolSpec, FileError> {
    let known = Name::try_from(name.to_owned()).ok().and_then(|name| services.pools.get_mut(&name));
    known.ok_or_else(|| {
        let error = section.error(name, format!("there is no pool `{name}` in this file"));
        error.with_hint(format!("define it in [pools.{name}]"))
    })
}

fn set_weights(listed: &Section<'_>, members: &mut [NamedMember]) -> Result<(), FileError> {
    for (name, value) in listed.entries() {
        let Some(member) = members.iter_mut().find(|member| member.name.to_string() == name) else {
            return Err(listed.error(name, format!("the pool has no member `{name}`")));
        };
        let weight = match value.data {
            Data::Integer(number) => u32::try_from(number).ok(),
            _ => None,
        };
        let wrong = || listed.error(name, "is not a weight").with_hint("write a whole number, 0 or more");
        let weight = weight.ok_or_else(wrong)?;
        *member = NamedMember::new(member.name.clone(), MemberSpec { weight, ..member.spec() });
    }
    Ok(())
}

/// Checks the services of an entry, unless those without it are invalid: the start reports these.
fn check(services: &ConfiguredServices, settings: &Settings) -> Result<(), FieldError> {
    let checker = settings.control.health_check_address.map(|checker| checker.ipv4);
    let check = |services: &ConfiguredServices| {
        let mut desired = Desired::default();
        match desired.follow(Origin::File, services) {
            Ok(()) => desired.check(checker, ErrorScope::All),
            // Too many definitions for the ids, which the start reports too.
            Err(_) => Ok(()),
        }
    };
    if check(&settings.services).is_ok() { check(services) } else { Ok(()) }
}

fn refused(section: &Section<'_>, fault: &FieldError) -> FileError {
    let name = fault.field.split('.').nth(1).filter(|name| section.entries().any(|(key, _)| key == *name));
    section.error(name.unwrap_or_default(), fault.to_string())
}
