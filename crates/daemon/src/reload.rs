//! Reload of the configuration: completely or not at all.
//!
//! Everything that can fail comes first: files are read, and services are changed as one. The rest
//! only replaces values. Keys that need a start are named in the log.

use crate::audit::{AuditError, AuditLog};
use crate::auth::Rules;
use crate::config::difference;
use crate::server::{Daemon, runtime};
use crate::services::ChangeError;
use crate::settings::Settings;
use crate::tls::{self, SwitchTls, TlsError};
use crate::{logs, schedule};

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
        let mut current = runtime.block_on(self.scheduler.lock());
        let entry = self.scheduler.calendar.entry(settings);
        let wanted = settings.in_effect(entry);
        runtime.block_on(schedule::follow_services(&self.handle, wanted.services.clone()))?;

        self.handle.audit.replace(audit);
        self.handle.access.set_rules(Rules::of(settings));
        if let Some((config, live)) = web {
            live.set(config);
        }
        if let Some(switches) = switches {
            self.hub.replace_tls(switches);
        }
        logs::set_filter(&settings.log.filter);
        runtime.block_on(schedule::set_values(&self.handle, &mut current, &wanted));
        (current.settings, current.entry) = (settings.clone(), entry);
        drop(current);
        self.scheduler.settings_changed();
        name_keys_needing_start(&self.started, settings);
        tracing::info!("configuration reloaded");
        Ok(())
    }
}

fn name_keys_needing_start(before: &Settings, now: &Settings) {
    let (Some(before), Some(now)) = (&before.document, &now.document) else { return };
    for (key, place) in difference::needing_start(before, now) {
        tracing::warn!("{place}: {key} has changed, but takes effect at the next start only");
    }
}
