//! Changes of the desired services, one at a time: each is checked, stored and then applied.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::{Desired, ErrorScope, FieldError, Store};
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
    #[error("the change cannot be stored: {0}")]
    Store(String),
    #[error(transparent)]
    Stopping(#[from] Stopping),
}

#[derive(Debug)]
pub(crate) struct ServiceManager {
    pub(crate) desired: Mutex<Desired>,
    store: Option<Arc<Store>>,
    /// The health-check address.
    pub(crate) checker: Option<Ipv4Addr>,
}

impl ServiceManager {
    pub(crate) fn new(desired: Desired, store: Option<Store>, checker: Option<Ipv4Addr>) -> ServiceManager {
        ServiceManager { desired: Mutex::new(desired), store: store.map(Arc::new), checker }
    }
    /// Makes a change completely or not at all. When this returns, the change is on disk and in the
    /// controller.
    pub(crate) async fn change<T: Send + 'static>(
        handle: &Handle,
        edit: impl FnOnce(&mut Desired, &ServiceManager) -> Result<T, ChangeError> + Send + 'static,
    ) -> Result<T, ChangeError> {
        let handle = handle.clone();
        // A separate task completes the change even if the client disconnects.
        let done = tokio::spawn(async move { handle.services.clone().make(&handle, edit).await });
        done.await.unwrap_or(Err(Stopping.into()))
    }

    async fn make<T>(
        &self,
        handle: &Handle,
        edit: impl FnOnce(&mut Desired, &ServiceManager) -> Result<T, ChangeError>,
    ) -> Result<T, ChangeError> {
        let mut desired = self.desired.lock().await;
        let mut changed = desired.clone();
        let result = edit(&mut changed, self)?;
        if changed == *desired {
            return Ok(result);
        }
        // The edit has made its own checks; this one ensures that only valid definitions are
        // stored.
        changed.check(self.checker, ErrorScope::All)?;
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
        *desired = changed;
        Ok(result)
    }
}
