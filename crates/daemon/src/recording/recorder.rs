//! Turns inputs and outputs into records.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use control::Output;
use net::Time;
use openflow::{ConnectionId, Envelope, wire};

use super::file::{KIND, Origin, write_record};
use super::output_hash::OutputHash;
use super::writer::{Refused, Writer};
use super::{End, Entry, Input};
use crate::storage::with_suffix;

/// Length from which on entries are written as a record before the outputs are taken.
const BODY_MAX: usize = 64 << 10;
/// Maximum number of bytes that wait for the disk.
const PENDING_MAX: usize = 64 << 20;
/// Room for the last record within the maximum size.
const END_BYTES: u64 = 64;

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("cannot record to {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    #[error("cannot record to {}: it exists and is not a recording; name another file", .0.display())]
    Exists(PathBuf),
    #[error("cannot record to {}: another daemon records to it; name another file", .0.display())]
    InUse(PathBuf),
}

#[derive(Debug)]
pub(crate) struct Recorder {
    writer: Writer,
    size_max: u64,
    /// Length of the file with everything that was passed to the writer.
    position: u64,
    /// Time of the latest input.
    now: Time,
    /// Entries that are not in a record yet.
    body: Vec<u8>,
    record: Vec<u8>,
    message: Vec<u8>,
    hash: OutputHash,
    /// Whether there was an input since the outputs were taken.
    has_input: bool,
    is_ended: bool,
}

impl Recorder {
    /// Begins a recording of at most `size_max` bytes. An earlier recording of this name is renamed:
    /// its name then ends in `.1`.
    ///
    /// # Errors
    /// Returns why the file cannot be written.
    pub(crate) fn create(file: &Path, size_max: u64) -> Result<Recorder, RecordError> {
        let fault = |error| RecordError::File(file.to_owned(), error);
        set_aside(file)?;
        let open = OpenOptions::new().append(true).create_new(true).mode(0o600).open(file).map_err(fault)?;
        lock(&open, file)?;
        Recorder::start(open, size_max, PENDING_MAX).map_err(fault)
    }

    pub(super) fn start(file: impl Write + Send + 'static, size_max: u64, pending_max: usize) -> io::Result<Recorder> {
        let line = Origin::this().line();
        let writer = Writer::start(file, pending_max)?;
        // The writer is empty, so it accepts the line.
        let _ = writer.append(line.as_bytes());
        Ok(Recorder {
            writer,
            size_max,
            position: line.len() as u64,
            now: Time::ZERO,
            body: Vec::new(),
            record: Vec::new(),
            message: Vec::new(),
            hash: OutputHash::default(),
            has_input: false,
            is_ended: false,
        })
    }

    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    pub(super) fn begin(&mut self, config: &control::Config, balancer: String) {
        self.push(&Entry::Start { config: Box::new(config.clone()), balancer });
    }

    pub(super) fn input(&mut self, now: Time, input: Input<'_>) {
        let after_ps = now.as_ps().wrapping_sub(self.now.as_ps()).cast_signed();
        self.now = now;
        self.has_input = true;
        self.push(&Entry::Input { after_ps, input });
        if self.body.len() >= BODY_MAX {
            self.flush();
        }
    }

    pub(super) fn message(&mut self, now: Time, connection: ConnectionId, envelope: &Envelope) {
        let mut bytes = std::mem::take(&mut self.message);
        bytes.clear();
        match wire::encode(envelope, &mut bytes) {
            Ok(()) => self.input(now, Input::Message(connection, &bytes)),
            Err(_) => self.end(End::NotEncodable),
        }
        self.message = bytes;
    }

    pub(super) fn outputs<'a>(&mut self, outputs: impl IntoIterator<Item = &'a Output>) {
        self.hash.add(outputs);
    }

    /// Notes that the driver has taken all outputs.
    pub(super) fn outputs_taken(&mut self) {
        if std::mem::take(&mut self.has_input) {
            let hash = self.hash.value();
            self.push(&Entry::Outputs(hash));
            self.flush();
        }
    }

    fn push(&mut self, entry: &Entry<'_>) {
        if !self.is_ended && postcard::to_io(entry, &mut self.body).is_err() {
            // Part of the entry may be in the body.
            self.body.clear();
            self.end(End::NotEncodable);
        }
    }

    /// Passes the entries to the writer as a record.
    fn flush(&mut self) {
        if self.is_ended || self.body.is_empty() {
            return;
        }
        self.record.clear();
        write_record(self.position, &self.body, &mut self.record);
        let length = self.record.len() as u64;
        if self.position + length + END_BYTES > self.size_max {
            self.body.clear();
            return self.end(End::SizeLimit);
        }
        match self.writer.append(&self.record) {
            Ok(()) => {
                self.position += length;
                self.body.clear();
            }
            Err(Refused::Behind) => {
                self.body.clear();
                self.end(End::WriterBehind);
            }
            Err(Refused::Failed) => self.is_ended = true,
        }
    }

    /// Ends the recording without waiting for the disk.
    fn end(&mut self, end: End) {
        if self.is_ended {
            return;
        }
        if !matches!(end, End::Stopped | End::Panicked) {
            let (position, at_s) = (self.position, self.now.as_s_f64());
            tracing::warn!("the recording ends at byte {position}, {at_s:.3} s after the start: {}", end.text());
        }
        let mut body = std::mem::take(&mut self.body);
        let encoded = postcard::to_io(&Entry::End(end), &mut body).is_ok();
        debug_assert!(encoded, "memory accepts it");
        self.record.clear();
        write_record(self.position, &body, &mut self.record);
        self.writer.close(&self.record);
        self.is_ended = true;
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The disk may not respond, and the engine that goes on must not wait for it.
        let is_stopping = !self.is_ended;
        // The last input is in the file before the controller handles it: it may have caused the
        // panic.
        self.end(if std::thread::panicking() { End::Panicked } else { End::Stopped });
        if is_stopping {
            self.writer.wait();
        }
    }
}

/// Renames an earlier recording. Other files are not touched.
fn set_aside(file: &Path) -> Result<(), RecordError> {
    let fault = |error| RecordError::File(file.to_owned(), error);
    let opened = match File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(fault)?,
    };
    // A second daemon, which may fail to start, must not rename the recording of the first one.
    lock(&opened, file)?;
    let mut begin = Vec::new();
    opened.take(KIND.len() as u64).read_to_end(&mut begin).map_err(fault)?;
    // A process that was killed at once leaves an empty file.
    if !begin.is_empty() && begin != KIND.as_bytes() {
        return Err(RecordError::Exists(file.to_owned()));
    }
    fs::rename(file, with_suffix(file, ".1")).map_err(fault)
}

fn lock(opened: &File, file: &Path) -> Result<(), RecordError> {
    opened.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => RecordError::InUse(file.to_owned()),
        TryLockError::Error(error) => RecordError::File(file.to_owned(), error),
    })
}
