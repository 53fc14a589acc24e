//! Feeds the inputs of a recording to a controller and compares the outputs.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use control::{Output, format};
use net::Time;
use openflow::{FromController, ToController, wire};

use super::file::{ReadError, Records};
use super::output_hash::OutputHash;
use super::summary::{Position, Summary};
use super::{Entry, Input, RecordedController};
use crate::balancer;

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Time since the start of the daemon after which inputs are left out.
    pub until: Option<Time>,
    /// Replays the recording of another build of the same version.
    pub any_build: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("the file cannot be opened")]
    Open(#[source] io::Error),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the record at byte {0} has an entry that this program does not understand: {1}")]
    Entry(u64, String),
    #[error("it has no complete record: the daemon was killed at its start")]
    Empty,
}

/// Replays a file. `trace` gets a line for each input, output and event.
///
/// # Errors
/// Returns why the file cannot be read, and where. A last record that was not completely written is
/// left out.
pub fn replay(file: &Path, options: Options, trace: Option<&mut dyn FnMut(&str)>) -> Result<Summary, ReplayError> {
    let open = || -> io::Result<(File, u64)> {
        let file = File::open(file)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    };
    let (file, length) = open().map_err(ReplayError::Open)?;
    let (mut records, origin) = Records::open(BufReader::new(file), length, options.any_build)?;
    let mut replay = Replay {
        controller: None,
        now: Time::ZERO,
        input: 0,
        byte: 0,
        hash: OutputHash::default(),
        outputs: VecDeque::new(),
        summary: Summary::new(origin),
        trace,
    };
    let mut is_continuing = true;
    while is_continuing && let Some((byte, body)) = records.next()? {
        replay.byte = byte;
        is_continuing = replay.record(body, options.until)?;
    }
    let Replay { controller, mut hash, mut summary, .. } = replay;
    summary.decisions = controller.ok_or(ReplayError::Empty)?.tally().decisions;
    summary.output_hash = format!("{:016x}", hash.value());
    summary.bytes = records.position;
    if records.is_torn {
        summary.end = "the last record is incomplete: the daemon was killed".to_owned();
    }
    Ok(summary)
}

struct Replay<'a> {
    controller: Option<RecordedController>,
    now: Time,
    /// Number of inputs so far.
    input: u64,
    /// Position of the current record.
    byte: u64,
    hash: OutputHash,
    outputs: VecDeque<Output>,
    summary: Summary,
    trace: Option<&'a mut dyn FnMut(&str)>,
}

impl Replay<'_> {
    /// Replays the entries of a record. Returns whether the replay continues.
    fn record(&mut self, mut body: &[u8], until: Option<Time>) -> Result<bool, ReplayError> {
        while !body.is_empty() {
            let (entry, rest) =
                postcard::take_from_bytes::<Entry<'_>>(body).map_err(|error| self.fault(&error.to_string()))?;
            body = rest;
            if let Entry::Input { after_ps, .. } = entry {
                let now = Time::from_ps(self.now.as_ps().wrapping_add_signed(after_ps));
                if until.is_some_and(|until| now > until) {
                    "the rest was left out".clone_into(&mut self.summary.end);
                    return Ok(false);
                }
                self.now = now;
            }
            self.entry(entry)?;
        }
        Ok(true)
    }

    fn fault(&self, message: &str) -> ReplayError {
        ReplayError::Entry(self.byte, message.to_owned())
    }

    fn position(&self) -> Position {
        Position { byte: self.byte, input: self.input, time_s: self.now.as_s_f64() }
    }

    fn trace(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace(&format!("{:12.6} {}", self.now.as_s_f64(), line()));
        }
    }

    fn entry(&mut self, entry: Entry<'_>) -> Result<(), ReplayError> {
        match entry {
            Entry::Start { config, balancer } => {
                let spec = balancer::parse(&balancer).map_err(|error| self.fault(&error.to_string()))?;
                self.trace(|| format!("start with balancer {balancer}"));
                self.summary.balancer = balancer;
                self.controller = Some(RecordedController::new(*config, &spec, None));
            }
            Entry::Input { input, .. } => {
                self.input += 1;
                if self.input == 1 {
                    self.summary.first_s = self.now.as_s_f64();
                }
                self.summary.last_s = self.now.as_s_f64();
                *self.summary.inputs.entry(input.name()).or_default() += 1;
                self.trace_input(&input);
                self.input(input)?;
            }
            Entry::Outputs(recorded) => {
                self.take_outputs()?;
                let differs = self.summary.panic.is_none() && self.hash.value() != recorded;
                if differs && self.summary.first_difference.is_none() {
                    self.summary.first_difference = Some(self.position());
                    self.trace(|| "the outputs above differ from the recorded ones".to_owned());
                }
            }
            Entry::End(end) => self.summary.ended(end),
        }
        Ok(())
    }

    /// Runs a call of the controller. After a panic, calls are left out: its state is undefined.
    fn call<T>(&mut self, call: impl FnOnce(&mut RecordedController) -> T) -> Result<Option<T>, ReplayError> {
        if self.summary.panic.is_some() {
            return Ok(None);
        }
        let Some(controller) = &mut self.controller else { return Err(self.fault("an input precedes the start")) };
        let called = catch_unwind(AssertUnwindSafe(|| call(controller)));
        if called.is_err() {
            self.summary.panic = Some(self.position());
            self.trace(|| "the controller panicked".to_owned());
        }
        Ok(called.ok())
    }

    fn input(&mut self, input: Input<'_>) -> Result<(), ReplayError> {
        let now = self.now;
        match input {
            Input::Connected(connection) => {
                self.call(|controller| controller.handle(now, ToController::Connected(connection)))?;
            }
            Input::Disconnected(connection) => {
                self.call(|controller| controller.handle(now, ToController::Disconnected(connection)))?;
            }
            Input::Message(connection, bytes) => {
                let decoded = wire::decode(bytes).map_err(|error| self.fault(&error.to_string()))?;
                let (envelope, _) = decoded.ok_or_else(|| self.fault("a message is incomplete"))?;
                self.summary.received(&envelope.message);
                self.trace(|| format!("c{} < {}", connection.0, format::envelope(&envelope)));
                self.call(|controller| controller.handle_message(now, connection, &envelope))?;
            }
            Input::Timeout => {
                self.call(|controller| controller.handle_timeout(now))?;
            }
            Input::AgentReport(report) => {
                self.call(|controller| controller.handle_agent_report(now, report))?;
            }
            Input::MemberReport(host, stats) => {
                self.call(|controller| controller.handle_member_report(now, host, stats))?;
            }
            Input::Services(services) => {
                // The daemon told the client about a rejection; the controller has not changed.
                self.call(|controller| drop(controller.set_services(now, services)))?;
            }
            Input::Routes(input) => {
                self.call(|controller| controller.handle_routes(now, &input))?;
            }
            Input::Balancer(text) => {
                let spec = balancer::parse(&text).map_err(|error| self.fault(&error.to_string()))?;
                self.call(|controller| controller.set_balancer(now, &spec))?;
            }
        }
        Ok(())
    }

    fn trace_input(&mut self, input: &Input<'_>) {
        match input {
            // Decoded first.
            Input::Message(..) => {}
            Input::Services(services) => {
                for line in format::services(0, services) {
                    self.trace(|| line);
                }
            }
            Input::Connected(connection) => self.trace(|| format!("c{} connected", connection.0)),
            Input::Disconnected(connection) => self.trace(|| format!("c{} disconnected", connection.0)),
            other => self.trace(|| format!("{other:?}")),
        }
    }

    fn take_outputs(&mut self) -> Result<(), ReplayError> {
        let mut outputs = std::mem::take(&mut self.outputs);
        while self.call(|controller| controller.take_outputs(&mut outputs))? == Some(true) {
            self.hash.add(&outputs);
            for output in &outputs {
                self.summary.output(output);
                self.trace(|| match output {
                    Output::Channel(FromController::Message(connection, envelope)) => {
                        format!("c{} > {}", connection.0, format::envelope(envelope))
                    }
                    Output::Channel(FromController::Close(connection)) => format!("c{} closed", connection.0),
                    Output::Agents(command) => format!("agents: {command:?}"),
                    Output::Event(event) => format!("event: {event:?}"),
                });
            }
        }
        self.outputs = outputs;
        Ok(())
    }
}
