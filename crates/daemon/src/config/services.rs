//! Virtual services and pools of a configuration file: the fields of the API, in `[services.NAME]`
//! and `[pools.NAME]`.

use std::collections::BTreeMap;

use config::diagnostic::FileError;
use config::document::{Data, Value};
use config::section::Section;
use control::vip;
use serde::de::DeserializeOwned;

use crate::services::{self, Name};
use crate::settings::Settings;

/// The key of `[services]` that is not the name of a service.
const HEALTH_CHECK_ADDRESS: &str = "health_check_address";

pub(super) fn read(top: &Section<'_>, settings: &mut Settings) -> Result<(), FileError> {
    let section = top.section("services")?;
    if let Some(ipv4) = section.parsed(HEALTH_CHECK_ADDRESS, "an IPv4 address")? {
        settings.control.health_check_address = Some(vip::Checker { ipv4, mac: vip::mac_of(ipv4) });
    }
    settings.services.services = all(&section, "services")?;
    settings.services.pools = all(&top.section("pools")?, "pools")?;
    Ok(())
}

fn all<T: DeserializeOwned>(section: &Section<'_>, name: &'static str) -> Result<BTreeMap<Name, T>, FileError> {
    let mut found = BTreeMap::new();
    for (key, value) in section.entries().filter(|(key, _)| *key != HEALTH_CHECK_ADDRESS) {
        let own = Name::try_from(key.to_owned()).map_err(|message| section.error(key, message))?;
        // A value that is not a table is reported before its content.
        let table = section.table(name, section.dotted_key(key), value)?;
        let spec = services::read(json(value)).map_err(|fault| {
            let field = fault.field.split(['.', '[']).next().unwrap_or_default().to_owned();
            let message = if fault.field == field { fault.message.clone() } else { fault.to_string() };
            table.error(&field, message)
        })?;
        found.insert(own, spec);
    }
    Ok(found)
}

fn json(value: &Value) -> serde_json::Value {
    match &value.data {
        Data::Text(text) => text.as_str().into(),
        Data::Flag(flag) => (*flag).into(),
        Data::Real(number) => (*number).into(),
        // The parser of the document accepts only integers that JSON represents.
        Data::Integer(number) => serde_json::Number::from_i128(*number).into(),
        Data::List(items) => items.iter().map(json).collect(),
        Data::Table(table) => table.iter().map(|(key, entry)| (key.clone(), json(&entry.value))).collect(),
    }
}
