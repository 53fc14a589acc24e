//! `/quantum/v1.0`: virtual addresses, pools and members.

use axum::http::Method;

use super::fields::{Fields, list, object};
use super::{Answer, Call, monitors};
use crate::http::vips::{MemberState, Overview};
use crate::services::floodlight::{self, Algorithm, Floodlight, Member, Pool, Vip, WEIGHT_MAX};
use crate::services::{FieldError, Name};

pub(super) async fn answer(call: &Call<'_>) -> Result<Answer, Answer> {
    match call.path.as_slice() {
        ["vips"] => many::<Vip>(call).await,
        ["vips", id] => one::<Vip>(call, id).await,
        ["pools"] => many::<Pool>(call).await,
        ["pools", id] => one::<Pool>(call, id).await,
        ["pools", id, "members"] => members_of(call, id).await,
        ["pools", id, "members", member] => prefer(call, id, member).await,
        ["pools", id, "stats"] => stats(call, id).await,
        ["pools", id, "health_monitors"] => monitors::of_pool(call, id).await,
        ["pools", id, "health_monitors", monitor] => monitors::detach(call, id, monitor).await,
        ["members"] => many::<Member>(call).await,
        ["members", id] => one::<Member>(call, id).await,
        ["members", id, weight] => weigh(call, id, weight).await,
        // F1's MALOB uses the shorter name.
        ["health_monitors" | "monitors", rest @ ..] => monitors::answer(call, rest).await,
        ["services"] => many::<Algorithm>(call).await,
        ["services", name] => one::<Algorithm>(call, name).await,
        ["clear"] if call.method == Method::DELETE => {
            let clear = |all: &mut Floodlight| {
                *all = Floodlight::default();
                Ok(Answer::status("All Vips, Pools, Members and Monitors have been deleted "))
            };
            call.change(clear).await
        }
        // Floodlight accepts unknown objects.
        _ => Ok(Answer { is_by_hand: true, ..Answer::of("{\"status\":\"ok\"}") }),
    }
}

/// A kind of object with a list and a path per object.
pub(super) trait Object: 'static {
    const WHAT: &'static str;
    /// Whether POST and PUT are equivalent.
    const IS_POST_LIKE_PUT: bool = false;

    fn ids(all: &Floodlight) -> Vec<&String>;
    /// Returns the object as JSON; without `overview` its members count as not checked.
    fn show(all: &Floodlight, overview: Option<&Overview>, id: &str) -> Option<String>;
    /// Creates an object, or updates the given fields. Returns false if nothing can be shown.
    fn put(all: &mut Floodlight, id: &str, fields: &Fields, is_update: bool) -> Result<bool, FieldError>;
    fn remove(all: &mut Floodlight, id: &str) -> bool;
    fn new_id(all: &Floodlight, fields: &Fields) -> Result<String, FieldError> {
        fields.id(&Self::ids(all))
    }
}

fn put<T: Object>(all: &mut Floodlight, id: &str, fields: &Fields, is_update: bool) -> Result<Answer, FieldError> {
    let is_shown = T::put(all, id, fields, is_update)?;
    Ok(T::show(all, None, id).filter(|_| is_shown).map_or_else(Answer::nothing, Answer::of))
}

pub(super) async fn many<T: Object>(call: &Call<'_>) -> Result<Answer, Answer> {
    if call.is_get() {
        let overview = Overview::of(call.handle).await?;
        let all = overview.floodlight();
        return Ok(Answer::of(list(T::ids(all).into_iter().filter_map(|id| T::show(all, Some(&overview), id)))));
    }
    Answer::require_method(call.method == Method::POST || T::IS_POST_LIKE_PUT && call.method == Method::PUT)?;
    let fields = Fields::read(call.body)?;
    call.change(move |all| {
        let id = T::new_id(all, &fields)?;
        put::<T>(all, &id, &fields, false)
    })
    .await
}

pub(super) async fn one<T: Object>(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    let id = id.to_owned();
    if call.method == Method::PUT || T::IS_POST_LIKE_PUT && call.method == Method::POST {
        let fields = Fields::read(call.body)?;
        return call.change(move |all| put::<T>(all, &id, &fields, true)).await;
    }
    if call.method == Method::DELETE {
        return call.change(move |all| Ok(Answer::removed(T::WHAT, T::remove(all, &id)))).await;
    }
    Answer::require_method(call.is_get())?;
    let overview = Overview::of(call.handle).await?;
    Ok(Answer::one(T::show(overview.floodlight(), Some(&overview), &id)))
}

impl Object for Vip {
    const WHAT: &'static str = "VIP";

    fn ids(all: &Floodlight) -> Vec<&String> {
        all.vips.keys().collect()
    }
    fn show(all: &Floodlight, _: Option<&Overview>, id: &str) -> Option<String> {
        let vip = all.vips.get(id)?;
        Some(object([
            ("name", vip.name.clone()),
            ("id", Some(id.to_owned())),
            ("address", Some(vip.address.to_string())),
            ("protocol", Some(vip.protocol.to_string())),
            ("port", Some(vip.port.to_string())),
        ]))
    }
    fn put(all: &mut Floodlight, id: &str, fields: &Fields, is_update: bool) -> Result<bool, FieldError> {
        let before = all.vips.get(id).cloned().unwrap_or_default();
        // A new object replaces one with the same identifier, except for its pools.
        let mut vip = if is_update { before } else { Vip { pools: before.pools, ..Vip::default() } };
        vip.name = fields.text("name")?.or(vip.name);
        vip.protocol = fields.text("protocol")?.map_or(vip.protocol, |text| floodlight::protocol_of(&text));
        vip.address = fields.address("address")?.unwrap_or(vip.address);
        vip.port = fields.short("port")?.unwrap_or(vip.port);
        all.vips.insert(id.to_owned(), vip);
        if let Some(pool) = fields.text("pool_id")?
            && let Some(found) = all.pools.get(&pool).cloned()
        {
            all.put_pool(&pool, Pool { vip: Some(id.to_owned()), ..found });
        }
        Ok(true)
    }
    fn remove(all: &mut Floodlight, id: &str) -> bool {
        all.remove_vip(id)
    }
}

impl Object for Pool {
    const WHAT: &'static str = "Pool";

    fn ids(all: &Floodlight) -> Vec<&String> {
        all.pools.keys().collect()
    }
    fn show(all: &Floodlight, _: Option<&Overview>, id: &str) -> Option<String> {
        let pool = all.pools.get(id)?;
        let members = all.members_of(id).map(|(member, _)| ("poolMembers", Some(member.clone())));
        let own = [
            ("id", Some(id.to_owned())),
            ("name", pool.name.clone()),
            ("vipId", pool.vip.clone()),
            ("lbMethod", Some(pool.method.as_str().to_owned())),
        ];
        Some(object(own.into_iter().chain(members)))
    }
    fn put(all: &mut Floodlight, id: &str, fields: &Fields, is_update: bool) -> Result<bool, FieldError> {
        let mut pool = all.pools.get(id).filter(|_| is_update).cloned().unwrap_or_default();
        pool.name = fields.text("name")?.or(pool.name);
        pool.method = fields.text("lb_method")?.map_or(pool.method, |text| floodlight::Method::parse(&text));
        pool.vip = fields.text("vip_id")?.or(pool.vip);
        all.put_pool(id, pool);
        Ok(true)
    }
    fn remove(all: &mut Floodlight, id: &str) -> bool {
        all.remove_pool(id)
    }
}

impl Object for Member {
    const WHAT: &'static str = "Member";

    fn ids(all: &Floodlight) -> Vec<&String> {
        all.members.keys().collect()
    }
    fn show(all: &Floodlight, overview: Option<&Overview>, id: &str) -> Option<String> {
        let member = all.members.get(id)?;
        Some(object([
            ("id", Some(id.to_owned())),
            ("address", Some(member.address.to_string())),
            ("port", Some(member.port.to_string())),
            ("poolId", Some(member.pool.clone())),
            ("vipId", all.pools.get(&member.pool).and_then(|pool| pool.vip.clone())),
            ("weight", Some(member.weight.to_string())),
            ("status", Some(status_of(overview, id, member).to_owned())),
        ]))
    }
    fn put(all: &mut Floodlight, id: &str, fields: &Fields, is_update: bool) -> Result<bool, FieldError> {
        let before = all.members.get(id).filter(|_| is_update).cloned();
        let pool = fields.text("pool_id")?.or(before.as_ref().map(|member| member.pool.clone()));
        let Some(pool) = pool.filter(|pool| all.pools.contains_key(pool)) else { return Ok(false) };
        let address = fields.address("address")?.or(before.as_ref().map(|member| member.address));
        let address = address.ok_or_else(|| FieldError::new("address", "is missing"))?;
        let is_enabled = fields.text("admin_state")?.map(|text| !["0", "false", "down"].contains(&text.as_str()));
        let weight = fields.number("weight")?.or(before.as_ref().map(|member| member.weight)).unwrap_or(1);
        let port = fields.short("port")?.or(before.as_ref().map(|member| member.port)).unwrap_or(0);
        let is_enabled = is_enabled.or(before.map(|member| member.is_enabled)).unwrap_or(true);
        all.members.insert(id.to_owned(), Member { address, port, pool, weight, is_enabled });
        Ok(true)
    }
    fn remove(all: &mut Floodlight, id: &str) -> bool {
        all.members.remove(id).is_some()
    }
}

impl Object for Algorithm {
    const WHAT: &'static str = "Service";
    const IS_POST_LIKE_PUT: bool = true;

    fn new_id(_: &Floodlight, fields: &Fields) -> Result<String, FieldError> {
        let name = fields.text("service_name")?.filter(|name| !name.is_empty());
        name.ok_or_else(|| FieldError::new("service_name", "is missing"))
    }
    fn ids(all: &Floodlight) -> Vec<&String> {
        all.table.services.keys().collect()
    }
    fn show(all: &Floodlight, _: Option<&Overview>, name: &str) -> Option<String> {
        let entry = all.table.services.get(name)?;
        Some(object([
            ("service_name", Some(name.to_owned())),
            ("algorithm", Some(entry.algorithm.clone())),
            ("port", Some(entry.port.to_string())),
        ]))
    }
    fn put(all: &mut Floodlight, name: &str, fields: &Fields, _: bool) -> Result<bool, FieldError> {
        let before = all.table.services.get(name);
        let algorithm = fields.text("algorithm")?.or(before.map(|entry| entry.algorithm.clone()));
        let algorithm = algorithm.ok_or_else(|| FieldError::new("algorithm", "is missing"))?;
        if floodlight::balancer_of(&algorithm).is_none() {
            let message = format!(
                "`{algorithm}` is not a valid algorithm; use 1 (sl-ps), 2 (ht-ps), 3 (server-cpu), or the name of a \
                 server balancer"
            );
            return Err(FieldError::new("algorithm", message));
        }
        let port = fields.short("port")?.or(before.map(|entry| entry.port)).filter(|port| *port > 0);
        let port = port.ok_or_else(|| FieldError::new("port", "must be from 1 to 65535"))?;
        all.table.put(name, Algorithm { algorithm, port });
        Ok(true)
    }
    fn remove(all: &mut Floodlight, name: &str) -> bool {
        all.table.remove(name)
    }
}

/// Returns the status of a member in Floodlight's terms: not checked, up or down.
fn status_of(overview: Option<&Overview>, id: &str, member: &Member) -> &'static str {
    let watched = overview.filter(|overview| overview.floodlight().monitoring.is_on);
    let state = watched.and_then(|overview| {
        let name = |kind: &str, id: &str| Name::try_from(format!("{kind}-{id}")).ok();
        let pool = overview.pool(&name("pool", &member.pool)?)?;
        pool.monitor.as_ref()?;
        let name = name("member", id);
        Some(pool.members.into_iter().find(|member| member.name == name)?.state)
    });
    match state {
        None | Some(MemberState::Unused) => "Alive",
        Some(MemberState::Up) => "Active",
        Some(_) => "Inactive",
    }
}

async fn members_of(call: &Call<'_>, pool: &str) -> Result<Answer, Answer> {
    Answer::require_method(call.is_get())?;
    let overview = Overview::of(call.handle).await?;
    let all = overview.floodlight();
    let members = all.members_of(pool).filter_map(|(id, _)| Member::show(all, Some(&overview), id));
    Ok(Answer::of(list(members)))
}

async fn weigh(call: &Call<'_>, id: &str, weight: &str) -> Result<Answer, Answer> {
    Answer::require_method(call.is_put_or_post())?;
    call.no_body()?;
    let weight = weight.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
    let id = id.to_owned();
    call.change(move |all| {
        let done = weight.zip(all.members.get_mut(&id)).map(|(weight, member)| member.weight = weight);
        Ok(Answer::status(if done.is_some() { "0" } else { "-1" }))
    })
    .await
}

async fn prefer(call: &Call<'_>, pool: &str, member: &str) -> Result<Answer, Answer> {
    Answer::require_method(call.is_put_or_post())?;
    call.no_body()?;
    let (pool, member) = (pool.to_owned(), member.to_owned());
    call.change(move |all| Ok(Answer::number(all.prefer(&pool, &member)))).await
}

/// Returns bytes and connections of a pool. Floodlight's counters only grow; here `Active Flows` is
/// the current number of connections.
async fn stats(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    Answer::require_method(call.is_get())?;
    let overview = Overview::of(call.handle).await?;
    let pool = Name::try_from(format!("pool-{id}")).ok().and_then(|name| overview.pool(&name));
    let members = pool.map(|pool| pool.members).unwrap_or_default();
    let sum = |of: fn(&crate::http::vips::ConnectionStats) -> u64| {
        members.iter().map(|member| of(&member.stats)).sum::<u64>()
    };
    Ok(Answer::of(object([
        ("Bytes In", Some(sum(|stats| stats.bytes_in).to_string())),
        ("Bytes Out", Some(sum(|stats| stats.bytes_out).to_string())),
        ("Active Flows", Some(sum(|stats| stats.connections).to_string())),
    ])))
}
