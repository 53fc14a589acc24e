//! `/quantum/v1.0/health_monitors`: health checks.

use axum::http::Method;

use super::balancing::{Object, many, one};
use super::fields::{Fields, list, object};
use super::{Answer, Call};
use crate::http::vips::Overview;
use crate::services::FieldError;
use crate::services::floodlight::{self, Floodlight, Monitor};

pub(super) async fn answer(call: &Call<'_>, rest: &[&str]) -> Result<Answer, Answer> {
    match rest {
        [] => many::<Monitor>(call).await,
        ["all", "enable"] => switch(call, true).await,
        ["all", "disable"] => switch(call, false).await,
        ["monitors", "period"] if call.is_get() => {
            let period_s = Overview::of(call.handle).await?.floodlight().monitoring.period_s;
            Ok(Answer::status(&format!("Monitors' period is {period_s} seconds ")))
        }
        ["monitors", seconds] if call.is_put_or_post() => set_period(call, seconds).await,
        [id] => one::<Monitor>(call, id).await,
        _ => Ok(Answer { is_by_hand: true, ..Answer::of("{\"status\":\"ok\"}") }),
    }
}

impl Object for Monitor {
    const WHAT: &'static str = "Monitor";

    fn ids(all: &Floodlight) -> Vec<&String> {
        all.monitors.keys().collect()
    }
    fn show(all: &Floodlight, _: Option<&Overview>, id: &str) -> Option<String> {
        let monitor = all.monitors.get(id)?;
        Some(object([
            ("id", Some(id.to_owned())),
            ("address", Some(monitor.address.to_string())),
            ("name", monitor.name.clone()),
            ("type", Some(monitor.kind.to_string())),
            ("poolId", monitor.pool.clone()),
        ]))
    }
    fn put(all: &mut Floodlight, id: &str, fields: &Fields, is_update: bool) -> Result<bool, FieldError> {
        let before = all.monitors.get(id).filter(|_| is_update).cloned().unwrap_or_default();
        put(all, id, fields, before).map(|()| true)
    }
    fn remove(all: &mut Floodlight, id: &str) -> bool {
        all.monitors.remove(id).is_some()
    }
}

fn put(all: &mut Floodlight, id: &str, fields: &Fields, mut monitor: Monitor) -> Result<(), FieldError> {
    monitor.name = fields.text("name")?.or(monitor.name);
    monitor.kind = fields.text("type")?.map_or(monitor.kind, |text| floodlight::protocol_of(&text));
    monitor.address = fields.address("address")?.unwrap_or(monitor.address);
    monitor.port = fields.short("port")?.unwrap_or(monitor.port);
    monitor.delay_s = fields.short("delay")?.or(monitor.delay_s);
    monitor.timeout_s = fields.short("timeout")?.or(monitor.timeout_s);
    monitor.attempts = fields.short("attempts_before_deactivation")?.or(monitor.attempts);
    monitor.pool = fields.text("pool_id")?.filter(|pool| all.pools.contains_key(pool)).or(monitor.pool);
    all.attach(id, monitor);
    Ok(())
}

pub(super) async fn of_pool(call: &Call<'_>, pool: &str) -> Result<Answer, Answer> {
    let pool = pool.to_owned();
    let of = |all: &Floodlight, pool: &str| {
        let monitors = all.monitors.iter().filter(|(_, monitor)| monitor.pool.as_deref() == Some(pool));
        Answer::of(list(monitors.filter_map(|(id, _)| Monitor::show(all, None, id))))
    };
    if call.is_get() {
        return Ok(of(Overview::of(call.handle).await?.floodlight(), &pool));
    }
    Answer::require_method(call.is_put_or_post())?;
    let fields = Fields::read(call.body)?;
    call.change(move |all| {
        let id = Monitor::new_id(all, &fields)?;
        let before = all.monitors.get(&id).cloned().unwrap_or_default();
        if all.pools.contains_key(&pool) {
            put(all, &id, &fields, Monitor { pool: Some(pool.clone()), ..before })?;
        }
        Ok(of(all, &pool))
    })
    .await
}

pub(super) async fn detach(call: &Call<'_>, pool: &str, id: &str) -> Result<Answer, Answer> {
    Answer::require_method(call.method == Method::DELETE)?;
    let (pool, id) = (pool.to_owned(), id.to_owned());
    call.change(move |all| {
        let monitor = all.monitors.get_mut(&id).filter(|monitor| monitor.pool.as_ref() == Some(&pool));
        Ok(Answer::number(monitor.map(|monitor| monitor.pool = None).is_some()))
    })
    .await
}

async fn switch(call: &Call<'_>, is_on: bool) -> Result<Answer, Answer> {
    Answer::require_method(call.is_put_or_post())?;
    call.no_body()?;
    if is_on && call.handle.services.checker.is_none() {
        tracing::warn!(
            "health checks requested by a Floodlight call are not possible: set `health_check_address` of [services]"
        );
    }
    call.change(move |all| {
        all.monitoring.is_on = is_on;
        let state = if is_on { "enabled" } else { "disabled" };
        Ok(Answer::of(object([("health monitors", Some(state.to_owned()))])))
    })
    .await
}

async fn set_period(call: &Call<'_>, seconds: &str) -> Result<Answer, Answer> {
    call.no_body()?;
    let period_s = seconds.parse().ok().filter(|period| *period > 0);
    let invalid = || FieldError::new("period", format!("`{seconds}` is not from 1 to 65535 seconds"));
    let period_s: u16 = period_s.ok_or_else(invalid)?;
    call.change(move |all| {
        all.monitoring.period_s = period_s;
        Ok(Answer::status(&format!("Monitors period changed to {period_s} seconds ")))
    })
    .await
}
