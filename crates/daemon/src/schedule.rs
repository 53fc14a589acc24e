//! Follows the timetable of the configuration: balancer, pools and limits by time of day and date.
//!
//! At each change of the entry in effect the values of the entry replace those in effect, with the
//! procedures of a reload: services are changed as one, and the balancer is replaced while traffic
//! continues. A balancer that a client of the API has set stays until the next entry that names
//! another one.

use std::time::{Duration, Instant};

use balance::Spec;
use config::timetable::{SignedDuration, Timestamp, Timetable};
use tokio::sync::{Mutex, MutexGuard, Notify, oneshot};

use crate::audit::{Actor, Change};
use crate::fd_limit;
use crate::server::Handle;
use crate::services::{ChangeError, ConfiguredServices, ErrorScope, Origin, ServiceManager};
use crate::settings::{Limits, Settings};

/// Maximum time between two readings of the clock: a clock that is set is followed within
/// it.
const CHECK_MAX: Duration = Duration::from_secs(30);

/// The timetable of a configuration, with the values of each entry.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    pub(crate) timetable: Timetable,
    /// Date and time of the calendar at the start of the daemon; `None` for the clock of the machine.
    pub(crate) start: Option<Timestamp>,
    /// By entry of the timetable.
    pub(crate) entries: Vec<Scheduled>,
}

/// The values that a timetable changes.
#[derive(Clone, Debug)]
pub(crate) struct Scheduled {
    pub(crate) balancer: Spec,
    pub(crate) limits: Limits,
    pub(crate) services: ConfiguredServices,
}

impl Settings {
    /// Returns the values without an entry.
    pub(crate) fn base(&self) -> Scheduled {
        Scheduled { balancer: self.balancer.clone(), limits: self.limits, services: self.services.clone() }
    }

    /// Returns the values while an entry is in effect, or none.
    pub(crate) fn in_effect(&self, entry: Option<usize>) -> Scheduled {
        entry.and_then(|entry| self.schedule.entries.get(entry).cloned()).unwrap_or_else(|| self.base())
    }
}

/// The clock of the calendar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calendar {
    /// Date and time at this instant; `None` for the clock of the machine.
    start: Option<(Instant, Timestamp)>,
}

impl Calendar {
    pub(crate) fn start(settings: &Settings) -> Calendar {
        Calendar { start: settings.schedule.start.map(|start| (Instant::now(), start)) }
    }

    fn now(self) -> Timestamp {
        let Some((since, start)) = self.start else { return Timestamp::now() };
        let passed = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX);
        start.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// Returns the entry of a configuration that is in effect.
    pub(crate) fn entry(self, settings: &Settings) -> Option<usize> {
        settings.schedule.timetable.active(self.now())
    }
}

/// The values in effect, and what they follow.
#[derive(Debug)]
pub(crate) struct InEffect {
    pub(crate) settings: Settings,
    pub(crate) entry: Option<usize>,
    /// The balancer that the configuration named last.
    pub(crate) balancer: String,
}

/// Keeps the values in effect equal to those of the timetable.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) calendar: Calendar,
    current: Mutex<InEffect>,
    /// Signals that a reload has replaced the settings.
    changed: Notify,
}

impl Scheduler {
    pub(crate) fn new(calendar: Calendar, settings: &Settings, entry: Option<usize>) -> Scheduler {
        let balancer = settings.in_effect(entry).balancer.label();
        let current = Mutex::new(InEffect { settings: settings.clone(), entry, balancer });
        Scheduler { calendar, current, changed: Notify::new() }
    }

    /// Waits for a change in progress, and prevents others.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, InEffect> {
        self.current.lock().await
    }

    pub(crate) fn settings_changed(&self) {
        self.changed.notify_one();
    }

    /// Follows the timetable until `stop`.
    pub(crate) async fn run(&self, handle: Handle, mut stop: oneshot::Receiver<()>) {
        loop {
            let wait = self.follow(&handle).await;
            tokio::select! {
                _ = &mut stop => return,
                () = self.changed.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Applies the entry that is in effect now, if another one was. Returns the time until the next
    /// look.
    async fn follow(&self, handle: &Handle) -> Duration {
        let mut current = self.lock().await;
        let now = self.calendar.now();
        let timetable = &current.settings.schedule.timetable;
        let (entry, next) = (timetable.active(now), timetable.next_check(now));
        if entry != current.entry {
            let (was, date) = (current.entry.map(|entry| entry + 1), timetable.shown(now));
            tracing::info!(date, entry = entry.map(|entry| entry + 1), was, "timetable: another entry is in effect");
            let wanted = current.settings.in_effect(entry);
            match follow_services(handle, wanted.services.clone()).await {
                Ok(()) => {
                    set_values(handle, &mut current, &wanted).await;
                    current.entry = entry;
                }
                Err(error) => tracing::error!("timetable: the entry is not applied, and tried again: {error}"),
            }
        }
        let until = next.and_then(|next| Duration::try_from(next.duration_since(now)).ok());
        until.unwrap_or(CHECK_MAX).min(CHECK_MAX)
    }
}

/// Replaces the services of the configuration.
pub(crate) async fn follow_services(handle: &Handle, services: ConfiguredServices) -> Result<(), ChangeError> {
    ServiceManager::change(handle, Actor::CONFIGURATION, move |desired, manager| {
        desired.follow(Origin::File, &services)?;
        Ok(desired.check(manager.checker, ErrorScope::All)?)
    })
    .await
}

/// Replaces limits and balancer. A balancer that a client of the API has set stays unless the
/// configuration names another one than before.
pub(crate) async fn set_values(handle: &Handle, current: &mut InEffect, wanted: &Scheduled) {
    handle.limits.set(fd_limit::raise_fd_limit(wanted.limits));
    if wanted.balancer.label() != current.balancer {
        set_balancer(handle, wanted.balancer.clone()).await;
        current.balancer = wanted.balancer.label();
    }
}

async fn set_balancer(handle: &Handle, spec: Spec) {
    let _changing = handle.services.lock().await;
    let set = spec.clone();
    let before = handle.ask(move |engine| {
        let before = engine.balancer.label();
        engine.set_balancer(set);
        before
    });
    // An error means that the daemon is stopping.
    if let Ok(before) = before.await {
        handle.audit.record(Change::of_balancer(Actor::CONFIGURATION, before, spec.label())).await;
    }
}
