//! The thread that writes a recording, so that a slow disk never delays the engine.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two writes. A process that is killed loses the inputs of this time.
const WRITE_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum capacity of a buffer that is kept while it is empty.
const KEPT_BYTES: usize = 1 << 20;
/// Maximum time for the last writes.
const LAST_WRITES_MAX: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    pending_max: usize,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pending: Vec<u8>,
    is_closed: bool,
    has_failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// More bytes than allowed wait for the disk.
    Behind,
    /// A write failed; the log has the reason.
    Failed,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    /// Starts a thread that writes to `file`; at most about `pending_max` bytes wait for it.
    pub(super) fn start(file: impl Write + Send + 'static, pending_max: usize) -> io::Result<Writer> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("recording".to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = write_all(&of_thread, file) {
                tracing::error!("the recording ends here, because it cannot be written: {error}");
                of_thread.state().has_failed = true;
            }
        })?;
        Ok(Writer { shared, pending_max, thread })
    }

    pub(super) fn append(&self, bytes: &[u8]) -> Result<(), Refused> {
        let mut state = self.shared.state();
        if state.has_failed {
            return Err(Refused::Failed);
        }
        if state.pending.len() >= self.pending_max {
            return Err(Refused::Behind);
        }
        // The thread waits only while nothing is pending.
        if state.pending.is_empty() {
            self.shared.changed.notify_one();
        }
        state.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends the last bytes, even beyond the limit, and lets the thread end after them.
    pub(super) fn close(&self, bytes: &[u8]) {
        let mut state = self.shared.state();
        state.pending.extend_from_slice(bytes);
        state.is_closed = true;
        self.shared.changed.notify_one();
    }

    /// Waits until a closed writer has written everything. A disk that does not respond must not
    /// prevent the end of the program.
    pub(super) fn wait(&self) {
        let until = Instant::now() + LAST_WRITES_MAX;
        while !self.thread.is_finished() {
            if Instant::now() > until {
                return tracing::error!("the end of the recording is missing: the disk does not respond");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn write_all(shared: &Shared, mut file: impl Write) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let state = shared.state();
        let waiting = shared.changed.wait_while(state, |state| state.pending.is_empty() && !state.is_closed);
        let mut state = waiting.unwrap_or_else(PoisonError::into_inner);
        if state.pending.is_empty() {
            return file.flush();
        }
        std::mem::swap(&mut state.pending, &mut bytes);
        let is_closed = state.is_closed;
        drop(state);
        file.write_all(&bytes)?;
        bytes.clear();
        bytes.shrink_to(KEPT_BYTES);
        if !is_closed {
            std::thread::sleep(WRITE_INTERVAL);
        }
    }
}
