//! Changes of the desired services, one at a time: each is checked, stored and then applied.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::time::timeout;

use super::{Desired, ErrorScope, FieldError, Store, WriteError};
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
    #[error("the change cannot be stored: {0}")]
    Store(String),
    /// The store takes no changes now.
    #[error("{0}")]
    StoreUnavailable(String),
    #[error(transparent)]
    Stopping(#[from] Stopping),
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
    /// Locked only for moments: readers do not wait for the disk.
    pub(crate) desired: Mutex<Desired>,
    /// Held during a change, so that changes are made one at a time.
    turn: Arc<Mutex<()>>,
    store: Option<Arc<Store>>,
    /// The health-check address.
    pub(crate) checker: Option<Ipv4Addr>,
}

impl ServiceManager {
    pub(crate) fn new(desired: Desired, store: Option<Store>, checker: Option<Ipv4Addr>) -> ServiceManager {
        let (desired, turn) = (Mutex::new(desired), Arc::default());
        ServiceManager { desired, turn, store: store.map(Arc::new), checker }
    }

    /// Makes a change completely or not at all. When this returns, the change is on disk and in the
    /// controller.
    pub(crate) async fn change<T: Send + 'static>(
        handle: &Handle,
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
        let done = tokio::spawn(async move { handle.services.clone().make(&handle, turn, stored, edit).await });
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
        _turn: OwnedMutexGuard<()>,
        stored: oneshot::Sender<()>,
        edit: impl FnOnce(&mut Desired, &ServiceManager) -> Result<T, ChangeError>,
    ) -> Result<T, ChangeError> {
        let before = self.desired.lock().await.clone();
        let mut changed = before.clone();
        let result = edit(&mut changed, self)?;
        if changed == before {
            return Ok(result);
        }
        // The edit has made its own checks; this one ensures that only valid definitions are
        // stored.
        changed.check(self.checker, ErrorScope::All)?;
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
        let mut desired = self.desired.lock().await;
        let set = handle.ask(move |engine| engine.set_services(services)).await?;
        // The check has accepted the same definitions, so the controller does not reject them.
        set.map_err(|error| ChangeError::Fault(FieldError::new("", error.to_string())))?;
        *desired = changed;
        Ok(result)
    }
}

#[cfg(test)]
mod tests;
