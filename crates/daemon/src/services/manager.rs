//! Changes of the desired services, one at a time: each is checked, stored and then applied.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard};

use super::{Desired, ErrorScope, FieldError, Store};
use crate::server::Handle;

/// The reason why a change was rejected. The state is unchanged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ChangeError {
    Fault(FieldError),
    NotFound(String),
    Conflict(String),
    Store(String),
    Stopping,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Fault(fault) => fault.fmt(f),
            ChangeError::NotFound(message) | ChangeError::Conflict(message) => f.write_str(message),
            ChangeError::Store(message) => write!(f, "the change cannot be stored: {message}"),
            ChangeError::Stopping => f.write_str("the controller is stopping"),
        }
    }
}

impl From<FieldError> for ChangeError {
    fn from(fault: FieldError) -> ChangeError {
        ChangeError::Fault(fault)
    }
}

#[derive(Debug)]
pub(crate) struct ServiceManager {
    desired: Mutex<Desired>,
    store: Option<Arc<Store>>,
    checker: Option<Ipv4Addr>,
}

impl ServiceManager {
    pub(crate) fn new(desired: Desired, store: Option<Store>, checker: Option<Ipv4Addr>) -> ServiceManager {
        ServiceManager { desired: Mutex::new(desired), store: store.map(Arc::new), checker }
    }
    pub(crate) fn checker(&self) -> Option<Ipv4Addr> {
        self.checker
    }
    pub(crate) async fn desired(&self) -> MutexGuard<'_, Desired> {
        self.desired.lock().await
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
        done.await.unwrap_or(Err(ChangeError::Stopping))
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
            let failure = match written {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(message) = failure {
                tracing::error!("cannot store services: {message}; the change was rejected");
                return Err(ChangeError::Store(message));
            }
        }
        let services = changed.compile();
        let set = handle.ask(move |engine| engine.set_services(services)).await.map_err(|_| ChangeError::Stopping)?;
        // The check has accepted the same definitions, so the controller does not reject them.
        set.map_err(|error| ChangeError::Fault(FieldError::new("", error.to_string())))?;
        *desired = changed;
        Ok(result)
    }
}
