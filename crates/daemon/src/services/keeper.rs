//! Who changes what is wanted: one change after the other, each checked, written down, and then done.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard};

use super::{Desired, Fault, Focus, Store};
use crate::server::Handle;

/// Why a change was not made. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// A field is wrong.
    Fault(Fault),
    /// What was to be changed is not there.
    NotFound(String),
    /// It does not go with what is there.
    Conflict(String),
    /// It could not be written down.
    Store(String),
    /// The controller is stopping.
    Stopping,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Fault(fault) => fault.fmt(f),
            Refused::NotFound(words) | Refused::Conflict(words) => f.write_str(words),
            Refused::Store(words) => write!(f, "it cannot be written down: {words}"),
            Refused::Stopping => f.write_str("the controller is stopping"),
        }
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Refused {
        Refused::Fault(fault)
    }
}

/// What is wanted, and where it is written down.
#[derive(Debug)]
pub(crate) struct Keeper {
    desired: Mutex<Desired>,
    store: Option<Arc<Store>>,
    checker: Option<Ipv4Addr>,
}

impl Keeper {
    pub(crate) fn new(desired: Desired, store: Option<Store>, checker: Option<Ipv4Addr>) -> Keeper {
        Keeper { desired: Mutex::new(desired), store: store.map(Arc::new), checker }
    }

    /// The address health checks come from.
    pub(crate) fn checker(&self) -> Option<Ipv4Addr> {
        self.checker
    }

    /// What is wanted, as long as this is held.
    pub(crate) async fn desired(&self) -> MutexGuard<'_, Desired> {
        self.desired.lock().await
    }

    /// Makes a change: all of it or none. When this answers, it is on the disk, and the controller does it.
    ///
    /// # Errors
    /// Why not; nothing has changed then.
    pub(crate) async fn change<T: Send + 'static>(
        handle: &Handle,
        edit: impl FnOnce(&mut Desired, &Keeper) -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Refused> {
        let handle = handle.clone();
        // In a task of its own: whoever asked may go away in the middle of it.
        let done = tokio::spawn(async move { handle.services.clone().make(&handle, edit).await });
        done.await.unwrap_or(Err(Refused::Stopping))
    }

    async fn make<T>(
        &self,
        handle: &Handle,
        edit: impl FnOnce(&mut Desired, &Keeper) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let mut desired = self.desired.lock().await;
        let mut wanted = desired.clone();
        let answer = edit(&mut wanted, self)?;
        if wanted == *desired {
            return Ok(answer);
        }
        // Whoever edited has checked it with words of its own; nothing that was not checked is written down.
        wanted.check(self.checker, Focus::All)?;
        if let Some(store) = self.store.clone() {
            let copy = wanted.clone();
            let written = tokio::task::spawn_blocking(move || store.write(&copy)).await;
            let words = match written {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(words) = words {
                tracing::error!("services cannot be written down: {words}");
                return Err(Refused::Store(words));
            }
        }
        let services = wanted.compile();
        let set = handle.ask(move |engine| engine.set_services(services)).await.map_err(|_| Refused::Stopping)?;
        // Written and checked already: it cannot be refused.
        set.map_err(|error| Refused::Fault(Fault::at("", error.to_string())))?;
        *desired = wanted;
        Ok(answer)
    }
}
