//! Changes of the desired services, one at a time: each is checked, stored and then applied.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard};

use super::{Desired, ErrorScope, FieldError, Store};
use crate::audit::{Actor, AuditLog};
use crate::live::Live;
use crate::server::{Handle, Stopping};

/// The reason why a change was rejected. The state is unchanged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error(transparent)]
    Fault(#[from] FieldError),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Conflict(String),
    /// The request applies to another revision; `None` if the object does not exist.
    #[error("{}; read the object again and repeat the change with its ETag", stale(.0.as_deref()))]
    Stale(Option<String>),
    #[error("the change cannot be stored: {0}")]
    Store(String),
    #[error(transparent)]
    Stopping(#[from] Stopping),
}

fn stale(revision: Option<&str>) -> String {
    match revision {
        Some(revision) => format!("If-Match does not list the current revision \"{revision}\""),
        None => "If-Match is given, but the object does not exist".to_owned(),
    }
}

#[derive(Debug)]
pub(crate) struct ServiceManager {
    /// The definitions in effect. Readers never wait for a disk: a change holds the lock only to
    /// exchange the pointer.
    current: Live<Arc<Desired>>,
    /// Held during a change.
    changing: Mutex<()>,
    store: Option<Arc<Store>>,
    audit: Arc<AuditLog>,
    /// The health-check address.
    pub(crate) checker: Option<Ipv4Addr>,
}

impl ServiceManager {
    pub(crate) fn new(
        desired: Desired,
        store: Option<Store>,
        audit: Arc<AuditLog>,
        checker: Option<Ipv4Addr>,
    ) -> ServiceManager {
        let current = Live::new(Arc::new(desired));
        ServiceManager { current, changing: Mutex::default(), store: store.map(Arc::new), audit, checker }
    }

    /// Returns the definitions in effect.
    pub(crate) fn desired(&self) -> Arc<Desired> {
        self.current.get()
    }
    /// Waits for other changes, so that the audit log lists changes in their order.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// Makes a change completely or not at all. When this returns, the change is on disk and in the
    /// controller.
    pub(crate) async fn change<T: Send + 'static>(
        handle: &Handle,
        by: Actor,
        edit: impl FnOnce(&mut Desired, &ServiceManager) -> Result<T, ChangeError> + Send + 'static,
    ) -> Result<T, ChangeError> {
        let handle = handle.clone();
        // A separate task completes the change even if the client disconnects.
        let done = tokio::spawn(async move { handle.services.clone().make(&handle, by, edit).await });
        done.await.unwrap_or(Err(Stopping.into()))
    }

    async fn make<T>(
        &self,
        handle: &Handle,
        by: Actor,
        edit: impl FnOnce(&mut Desired, &ServiceManager) -> Result<T, ChangeError>,
    ) -> Result<T, ChangeError> {
        let _changing = self.lock().await;
        let before = self.desired();
        let mut changed = Desired::clone(&before);
        let result = edit(&mut changed, self)?;
        if changed == *before {
            return Ok(result);
        }
        changed.number(&before);
        // The edit has made its own checks; this one ensures that only valid definitions are
        // stored.
        changed.check(self.checker, ErrorScope::All)?;
        let changed = Arc::new(changed);
        if let Some(store) = self.store.clone() {
            let copy = changed.clone();
            let written = tokio::task::spawn_blocking(move || store.write(&copy)).await;
            if let Err(error) = written.map_err(io::Error::other).flatten() {
                tracing::error!("cannot store services: {error}; the change was rejected");
                return Err(ChangeError::Store(error.to_string()));
            }
        }
        let services = changed.compile();
        let set = handle.ask(move |engine| engine.set_services(services)).await?;
        // The check has accepted the same definitions, so the controller does not reject them.
        set.map_err(|error| ChangeError::Fault(FieldError::new("", error.to_string())))?;
        self.current.set(changed.clone());
        self.audit.record(before.change_to(&changed, by)).await;
        Ok(result)
    }
}
