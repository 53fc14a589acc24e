//! Reload of the configuration: completely or not at all.
//!
//! Everything that can fail comes first: files are read, and services are changed as one. The rest
//! only replaces values. Keys that need a start are named in the log.

use crate::audit::{Actor, AuditError, AuditLog, Change};
use crate::auth::Rules;
use crate::config::difference;
use crate::server::{Daemon, Handle, runtime};
use crate::services::{ChangeError, ErrorScope, Origin, ServiceManager};
use crate::settings::Settings;
use crate::tls::{self, SwitchTls, TlsError};
use crate::{fd_limit, logs};

/// The reason why a configuration was not reloaded. The previous one stays in effect.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error("virtual services: {0}")]
    Services(String),
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

impl From<ChangeError> for ReloadError {
    fn from(error: ChangeError) -> ReloadError {
        ReloadError::Services(error.to_string())
    }
}

impl Daemon {
    /// Applies other settings without a restart, as far as possible. The log names the keys that
    /// need one.
    ///
    /// # Errors
    /// Returns why the settings cannot be used. Nothing has changed then.
    pub fn reload(&mut self, settings: &Settings) -> Result<(), ReloadError> {
        // Whether a listener has TLS at all cannot change while it runs.
        let switches = settings.tls.as_ref().filter(|_| self.hub.tls().is_some());
        let switches = switches.map(SwitchTls::load).transpose()?;
        let web = settings.http_tls.as_ref().zip(self.http_tls.as_ref());
        let web = web.map(|(files, live)| Ok::<_, TlsError>((tls::http_config(files)?, live))).transpose()?;
        let audit = AuditLog::open(settings.log.audit.as_deref())?;
        let runtime = runtime().map_err(ReloadError::Thread)?;
        runtime.block_on(follow_services(&self.handle, settings))?;

        self.handle.audit.replace(audit);
        self.handle.access.set_rules(Rules::of(settings));
        self.handle.limits.set(fd_limit::raise_fd_limit(settings.limits));
        if let Some((config, live)) = web {
            live.set(config);
        }
        if let Some(switches) = switches {
            self.hub.replace_tls(switches);
        }
        logs::set_filter(&settings.log.filter);
        // A balancer that a client of the API has set stays unless the file names another one.
        if settings.balancer.label() != self.balancer {
            runtime.block_on(set_balancer(&self.handle, settings));
            self.balancer = settings.balancer.label();
        }
        name_keys_needing_start(&self.started, settings);
        tracing::info!("configuration reloaded");
        Ok(())
    }
}

async fn follow_services(handle: &Handle, settings: &Settings) -> Result<(), ChangeError> {
    let services = settings.services.clone();
    ServiceManager::change(handle, Actor::CONFIGURATION, move |desired, manager| {
        desired.follow(Origin::File, &services)?;
        Ok(desired.check(manager.checker, ErrorScope::All)?)
    })
    .await
}

async fn set_balancer(handle: &Handle, settings: &Settings) {
    let spec = settings.balancer.clone();
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

fn name_keys_needing_start(before: &Settings, now: &Settings) {
    let (Some(before), Some(now)) = (&before.document, &now.document) else { return };
    for (key, place) in difference::needing_start(before, now) {
        tracing::warn!("{place}: {key} has changed, but takes effect at the next start only");
    }
}
