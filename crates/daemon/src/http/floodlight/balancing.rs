//! `/quantum/v1.0`: virtual addresses, pools and members.

use axum::http::Method;

use super::fields::{Fields, list, object};
use super::{Answer, Call, monitors};
use crate::http::vips::{Overview, State};
use crate::services::floodlight::{self, Algorithm, Floodlight, Member, Pool, Vip, WEIGHT_MAX};
use crate::services::{FieldError, Name};

pub(super) async fn answer(call: &Call<'_>) -> Result<Answer, Answer> {
    match call.path.as_slice() {
        ["vips"] => many_vips(call).await,
        ["vips", id] => one_vip(call, id).await,
        ["pools"] => many_pools(call).await,
        ["pools", id] => one_pool(call, id).await,
        ["pools", id, "members"] => members_of(call, id).await,
        ["pools", id, "members", member] => prefer(call, id, member).await,
        ["pools", id, "stats"] => stats(call, id).await,
        ["pools", id, "health_monitors"] => monitors::of_pool(call, id).await,
        ["pools", id, "health_monitors", monitor] => monitors::detach(call, id, monitor).await,
        ["members"] => many_members(call).await,
        ["members", id] => one_member(call, id).await,
        ["members", id, weight] => weigh(call, id, weight).await,
        // F1's MALOB uses the shorter name.
        ["health_monitors" | "monitors", rest @ ..] => monitors::answer(call, rest).await,
        ["services"] => many_services(call).await,
        ["services", name] => one_service(call, name).await,
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

fn show_vip(id: &str, vip: &Vip) -> String {
    object([
        ("name", vip.name.clone()),
        ("id", Some(id.to_owned())),
        ("address", Some(vip.address.to_string())),
        ("protocol", Some(vip.protocol.to_string())),
        ("port", Some(vip.port.to_string())),
    ])
}

/// Updates the given fields of a virtual address.
fn put_vip(all: &mut Floodlight, id: &str, fields: &Fields, before: Vip) -> Result<Answer, FieldError> {
    let mut vip = before;
    vip.name = fields.text("name")?.or(vip.name);
    vip.protocol = fields.text("protocol")?.map_or(vip.protocol, |text| floodlight::protocol_of(&text));
    vip.address = fields.address("address")?.unwrap_or(vip.address);
    vip.port = fields.short("port")?.unwrap_or(vip.port);
    let answer = Answer::of(show_vip(id, &vip));
    all.vips.insert(id.to_owned(), vip);
    if let Some(pool) = fields.text("pool_id")?
        && let Some(found) = all.pools.get(&pool).cloned()
    {
        all.put_pool(&pool, Pool { vip: Some(id.to_owned()), ..found });
    }
    Ok(answer)
}

async fn many_vips(call: &Call<'_>) -> Result<Answer, Answer> {
    if call.is_get() {
        let overview = call.overview().await?;
        return Ok(Answer::of(list(overview.floodlight().vips.iter().map(|(id, vip)| show_vip(id, vip)))));
    }
    if call.method != Method::POST {
        return Err(Answer::method());
    }
    let fields = call.fields()?;
    call.change(move |all| {
        let id = fields.id(&all.vips)?;
        // A new object replaces one with the same identifier, except for its pools.
        let pools = all.vips.get(&id).map(|vip| vip.pools.clone()).unwrap_or_default();
        put_vip(all, &id, &fields, Vip { pools, ..Vip::default() })
    })
    .await
}

async fn one_vip(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    let id = id.to_owned();
    match call.method {
        Method::PUT => {
            let fields = call.fields()?;
            call.change(move |all| {
                let before = all.vips.get(&id).cloned().unwrap_or_default();
                put_vip(all, &id, &fields, before)
            })
            .await
        }
        Method::DELETE => call.change(move |all| Ok(Answer::removed("VIP", all.remove_vip(&id)))).await,
        _ if call.is_get() => {
            let overview = call.overview().await?;
            Ok(Answer::one(overview.floodlight().vips.get(&id).map(|vip| show_vip(&id, vip))))
        }
        _ => Err(Answer::method()),
    }
}

fn show_pool(all: &Floodlight, id: &str, pool: &Pool) -> String {
    let members = all.members_of(id).map(|(member, _)| ("poolMembers", Some(member.clone())));
    let facts = [
        ("id", Some(id.to_owned())),
        ("name", pool.name.clone()),
        ("vipId", pool.vip.clone()),
        ("lbMethod", Some(pool.method.as_str().to_owned())),
    ];
    object(facts.into_iter().chain(members))
}

fn put_pool(all: &mut Floodlight, id: &str, fields: &Fields, before: Pool) -> Result<Answer, FieldError> {
    let mut pool = before;
    pool.name = fields.text("name")?.or(pool.name);
    pool.method = fields.text("lb_method")?.map_or(pool.method, |text| floodlight::Method::parse(&text));
    pool.vip = fields.text("vip_id")?.or(pool.vip);
    all.put_pool(id, pool);
    Ok(Answer::of(show_pool(all, id, &all.pools[id])))
}

async fn many_pools(call: &Call<'_>) -> Result<Answer, Answer> {
    if call.is_get() {
        let overview = call.overview().await?;
        let all = overview.floodlight();
        return Ok(Answer::of(list(all.pools.iter().map(|(id, pool)| show_pool(all, id, pool)))));
    }
    if call.method != Method::POST {
        return Err(Answer::method());
    }
    let fields = call.fields()?;
    call.change(move |all| {
        let id = fields.id(&all.pools)?;
        put_pool(all, &id, &fields, Pool::default())
    })
    .await
}

async fn one_pool(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    let id = id.to_owned();
    match call.method {
        Method::PUT => {
            let fields = call.fields()?;
            call.change(move |all| {
                let before = all.pools.get(&id).cloned().unwrap_or_default();
                put_pool(all, &id, &fields, before)
            })
            .await
        }
        Method::DELETE => call.change(move |all| Ok(Answer::removed("Pool", all.remove_pool(&id)))).await,
        _ if call.is_get() => {
            let overview = call.overview().await?;
            let all = overview.floodlight();
            Ok(Answer::one(all.pools.get(&id).map(|pool| show_pool(all, &id, pool))))
        }
        _ => Err(Answer::method()),
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
        None | Some(State::Unused) => "Alive",
        Some(State::Up) => "Active",
        Some(_) => "Inactive",
    }
}

fn show_member(overview: Option<&Overview>, all: &Floodlight, id: &str, member: &Member) -> String {
    object([
        ("id", Some(id.to_owned())),
        ("address", Some(member.address.to_string())),
        ("port", Some(member.port.to_string())),
        ("poolId", Some(member.pool.clone())),
        ("vipId", all.pools.get(&member.pool).and_then(|pool| pool.vip.clone())),
        ("weight", Some(member.weight.to_string())),
        ("status", Some(status_of(overview, id, member).to_owned())),
    ])
}

fn put_member(all: &mut Floodlight, id: &str, fields: &Fields, before: Option<Member>) -> Result<Answer, FieldError> {
    let pool = fields.text("pool_id")?.or(before.as_ref().map(|member| member.pool.clone()));
    let Some(pool) = pool.filter(|pool| all.pools.contains_key(pool)) else { return Ok(Answer::nothing()) };
    let address = fields.address("address")?.or(before.as_ref().map(|member| member.address));
    let address = address.ok_or_else(|| FieldError::new("address", "is missing"))?;
    let is_enabled = fields.text("admin_state")?.map(|text| !["0", "false", "down"].contains(&text.as_str()));
    let weight = fields.number("weight", u32::MAX)?.or(before.as_ref().map(|member| member.weight)).unwrap_or(1);
    let member = Member {
        address,
        port: fields.short("port")?.or(before.as_ref().map(|member| member.port)).unwrap_or(0),
        pool,
        weight,
        is_enabled: is_enabled.or(before.map(|member| member.is_enabled)).unwrap_or(true),
    };
    let answer = Answer::of(show_member(None, all, id, &member));
    all.members.insert(id.to_owned(), member);
    Ok(answer)
}

async fn many_members(call: &Call<'_>) -> Result<Answer, Answer> {
    if call.is_get() {
        let overview = call.overview().await?;
        let all = overview.floodlight();
        let members = all.members.iter().map(|(id, member)| show_member(Some(&overview), all, id, member));
        return Ok(Answer::of(list(members)));
    }
    if call.method != Method::POST {
        return Err(Answer::method());
    }
    let fields = call.fields()?;
    call.change(move |all| {
        let id = fields.id(&all.members)?;
        put_member(all, &id, &fields, None)
    })
    .await
}

async fn one_member(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    let id = id.to_owned();
    match call.method {
        Method::PUT => {
            let fields = call.fields()?;
            call.change(move |all| {
                let before = all.members.get(&id).cloned();
                put_member(all, &id, &fields, before)
            })
            .await
        }
        Method::DELETE => {
            call.change(move |all| Ok(Answer::removed("Member", all.members.remove(&id).is_some()))).await
        }
        _ if call.is_get() => {
            let overview = call.overview().await?;
            let all = overview.floodlight();
            Ok(Answer::one(all.members.get(&id).map(|member| show_member(Some(&overview), all, &id, member))))
        }
        _ => Err(Answer::method()),
    }
}

async fn members_of(call: &Call<'_>, pool: &str) -> Result<Answer, Answer> {
    if !call.is_get() {
        return Err(Answer::method());
    }
    let overview = call.overview().await?;
    let all = overview.floodlight();
    let members = all.members_of(pool).map(|(id, member)| show_member(Some(&overview), all, id, member));
    Ok(Answer::of(list(members)))
}

async fn weigh(call: &Call<'_>, id: &str, weight: &str) -> Result<Answer, Answer> {
    if !call.is_put_or_post() {
        return Err(Answer::method());
    }
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
    if !call.is_put_or_post() {
        return Err(Answer::method());
    }
    call.no_body()?;
    let (pool, member) = (pool.to_owned(), member.to_owned());
    call.change(move |all| Ok(Answer::number(all.prefer(&pool, &member)))).await
}

/// Returns bytes and connections of a pool. Floodlight's counters only grow; here `Active Flows` is
/// the current number of connections.
async fn stats(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    if !call.is_get() {
        return Err(Answer::method());
    }
    let overview = call.overview().await?;
    let pool = Name::try_from(format!("pool-{id}")).ok().and_then(|name| overview.pool(&name));
    let members = pool.map(|pool| pool.members).unwrap_or_default();
    let sum = |of: fn(&crate::http::vips::Load) -> u64| members.iter().map(|member| of(&member.load)).sum::<u64>();
    Ok(Answer::of(object([
        ("Bytes In", Some(sum(|load| load.bytes_in).to_string())),
        ("Bytes Out", Some(sum(|load| load.bytes_out).to_string())),
        ("Active Flows", Some(sum(|load| load.connections).to_string())),
    ])))
}

fn show_service(name: &str, entry: &Algorithm) -> String {
    object([
        ("service_name", Some(name.to_owned())),
        ("algorithm", Some(entry.algorithm.clone())),
        ("port", Some(entry.port.to_string())),
    ])
}

fn put_service(all: &mut Floodlight, name: &str, fields: &Fields) -> Result<Answer, FieldError> {
    let before = all.table.services.get(name);
    let algorithm = fields.text("algorithm")?.or(before.map(|entry| entry.algorithm.clone()));
    let algorithm = algorithm.ok_or_else(|| FieldError::new("algorithm", "is missing"))?;
    if floodlight::balancer_of(&algorithm).is_none() {
        let message = format!(
            "`{algorithm}` is not a valid algorithm; use 1 (sl-ps), 2 (ht-ps), 3 (server-cpu), or the name of a server balancer"
        );
        return Err(FieldError::new("algorithm", message));
    }
    let port = fields.short("port")?.or(before.map(|entry| entry.port)).filter(|port| *port > 0);
    let port = port.ok_or_else(|| FieldError::new("port", "must be from 1 to 65535"))?;
    let entry = Algorithm { algorithm, port };
    let answer = Answer::of(show_service(name, &entry));
    all.table.put(name, entry);
    Ok(answer)
}

async fn many_services(call: &Call<'_>) -> Result<Answer, Answer> {
    if call.is_get() {
        let overview = call.overview().await?;
        let table = &overview.floodlight().table;
        return Ok(Answer::of(list(table.services.iter().map(|(name, entry)| show_service(name, entry)))));
    }
    if !call.is_put_or_post() {
        return Err(Answer::method());
    }
    let fields = call.fields()?;
    call.change(move |all| {
        let name = fields.text("service_name")?.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| FieldError::new("service_name", "is missing"))?;
        put_service(all, &name, &fields)
    })
    .await
}

async fn one_service(call: &Call<'_>, name: &str) -> Result<Answer, Answer> {
    let name = name.to_owned();
    match call.method {
        Method::PUT | Method::POST => {
            let fields = call.fields()?;
            call.change(move |all| put_service(all, &name, &fields)).await
        }
        Method::DELETE => call.change(move |all| Ok(Answer::removed("Service", all.table.remove(&name)))).await,
        _ if call.is_get() => {
            let overview = call.overview().await?;
            Ok(Answer::one(overview.floodlight().table.services.get(&name).map(|entry| show_service(&name, entry))))
        }
        _ => Err(Answer::method()),
    }
}
