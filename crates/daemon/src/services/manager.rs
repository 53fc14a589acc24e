//! Changes of the desired services, one at a time: each is checked, stored and then applied.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::time::timeout;

use super::{Desired, ErrorScope, FieldError, Store, WriteError};
use crate::audit::{Actor, AuditLog};
use crate::live::Live;
use crate::server::{Handle, Stopping};

/// Time that a change waits for earlier ones, and then for the disk.
const DISK_TIMEOUT: Duration = Duration::from_secs(4);

/// The reason why a change was rejected. The state is unchanged, unless the message says that the
/// outcome is unknown.
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
    /// The store takes no changes now.
    #[error("{0}")]
    StoreUnavailable(String),
    #[error(transparent)]
    Stopping(#[from] Stopping),
}

fn stale(revision: Option<&str>) -> String {
    match revision {
        Some(revision) => format!("If-Match does not list the current revision \"{revision}\""),
        None => "If-Match is given, but the object does not exist".to_owned(),
    }
}

impl From<WriteError> for ChangeError {
    fn from(error: WriteError) -> ChangeError {
        match error {
            WriteError::Rejected(error) => ChangeError::Store(error.to_string()),
            WriteError::Unknown(_) | WriteError::Halted(_) => ChangeError::StoreUnavailable(error.to_string()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ServiceManager {
    /// The definitions in effect. Readers never wait for a disk: a change holds the lock only to
    /// exchange the pointer.
    current: Live<Arc<Desired>>,
    /// Held during a change, so that changes are made one at a time.
    turn: Arc<Mutex<()>>,
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
        ServiceManager { current, turn: Arc::default(), store: store.map(Arc::new), audit, checker }
    }

    /// Returns the definitions in effect.
    pub(crate) fn desired(&self) -> Arc<Desired> {
        self.current.get()
    }
    /// Waits for other changes, so that the audit log lists changes in their order.
    pub(crate) async fn lock(&self) -> OwnedMutexGuard<()> {
        self.turn.clone().lock_owned().await
    }

    /// Makes a change completely or not at all. When this returns, the change is on disk and in the
    /// controller.
    pub(crate) async fn change<T: Send + 'static>(
        handle: &Handle,
        by: Actor,
        edit: impl FnOnce(&mut Desired, &ServiceManager) -> Result<T, ChangeError> + Send + 'static,
    ) -> Result<T, ChangeError> {
        let unavailable = |message: &str| ChangeError::StoreUnavailable(message.to_owned());
        let turn = timeout(DISK_TIMEOUT, handle.services.turn.clone().lock_owned()).await;
        let turn = turn.map_err(|_| {
            unavailable(
                "the change was not made: an earlier one has not ended; does the disk of the state file respond?",
            )
        })?;
        let (handle, (stored, is_stored)) = (handle.clone(), oneshot::channel());
        // A separate task completes the change even if the client disconnects.
        let done = tokio::spawn(async move { handle.services.clone().make(&handle, (turn, stored), by, edit).await });
        match timeout(DISK_TIMEOUT, is_stored).await {
            // Also if the change was rejected before.
            Ok(_) => done.await.unwrap_or(Err(Stopping.into())),
            Err(_) => Err(unavailable(
                "the outcome of this change is unknown: the disk of the state file does not respond. The change is \
                 made when it does; read the object to see whether it was",
            )),
        }
    }

    async fn make<T>(
        &self,
        handle: &Handle,
        (_turn, stored): (OwnedMutexGuard<()>, oneshot::Sender<()>),
        by: Actor,
        edit: impl FnOnce(&mut Desired, &ServiceManager) -> Result<T, ChangeError>,
    ) -> Result<T, ChangeError> {
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
            if let Err(error) = written.map_err(|_| Stopping)? {
                tracing::error!("cannot store services: {error}");
                return Err(error.into());
            }
        }
        // The receiver is gone if that took too long.
        let _ = stored.send(());
        let services = changed.compile();
        let set = handle.ask(move |engine| engine.set_services(services)).await?;
        // The check has accepted the same definitions, so the controller does not reject them.
        set.map_err(|error| ChangeError::Fault(FieldError::new("", error.to_string())))?;
        self.current.set(changed.clone());
        self.audit.record(before.change_to(&changed, by)).await;
        Ok(result)
    }
}

#[cfg(test)]
mod tests;
