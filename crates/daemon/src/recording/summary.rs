//! The content of a recording, and the comparison of its replay with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use control::{Event, Output};
use openflow::{DatapathId, FromController, Message};
use serde::Serialize;

use super::End;
use super::file::Origin;
use crate::channel::kinds;

/// A place in a recording.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Position {
    /// Position of the record in the file.
    pub byte: u64,
    /// Number of the latest input, from 1.
    pub input: u64,
    /// Time of this input since the start of the daemon.
    pub time_s: f64,
}

#[derive(Debug, Default, Serialize)]
pub struct Summary {
    /// Version and build of the program that recorded.
    pub program: String,
    pub build: String,
    /// Specification of the balancer at the start.
    pub balancer: String,
    /// Length of the records that were replayed, with the first line.
    pub bytes: u64,
    /// Reason for the end of the replay.
    pub end: String,
    /// Times of the first and the last input since the start of the daemon.
    pub first_s: f64,
    pub last_s: f64,
    /// Number of switches that were ready at any time.
    pub switches: usize,
    /// Numbers of inputs, messages and events by kind.
    pub inputs: BTreeMap<&'static str, u64>,
    pub received: BTreeMap<&'static str, u64>,
    pub sent: BTreeMap<&'static str, u64>,
    pub events: BTreeMap<String, u64>,
    pub decisions: u64,
    /// Hash of all outputs of the replay.
    pub output_hash: String,
    /// First place where the outputs differ from the recorded ones.
    pub first_difference: Option<Position>,
    /// Place of a panic of the controller in the replay.
    pub panic: Option<Position>,
    #[serde(skip)]
    datapaths: BTreeSet<DatapathId>,
    #[serde(skip)]
    has_recorded_panic: bool,
}

impl Summary {
    pub(super) fn new(origin: Origin) -> Summary {
        let Origin { program, build } = origin;
        Summary { program, build, end: "the file ends".to_owned(), ..Summary::default() }
    }

    /// Returns whether the replay had the recorded outputs, and no panic that was not recorded.
    pub fn is_same(&self) -> bool {
        self.first_difference.is_none() && (self.panic.is_none() || self.has_recorded_panic)
    }

    pub(super) fn received(&mut self, message: &Message) {
        *self.received.entry(kinds::NAMES[kinds::of(message)]).or_default() += 1;
    }

    pub(super) fn output(&mut self, output: &Output) {
        match output {
            Output::Channel(FromController::Message(_, envelope)) => {
                *self.sent.entry(kinds::NAMES[kinds::of(&envelope.message)]).or_default() += 1;
            }
            Output::Event(event) => {
                if let Event::SwitchUp(datapath) = event {
                    self.datapaths.insert(*datapath);
                    self.switches = self.datapaths.len();
                }
                let text = format!("{event:?}");
                let name = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                *self.events.entry(name.to_owned()).or_default() += 1;
            }
            Output::Channel(FromController::Close(_)) | Output::Agents(_) => {}
        }
    }

    pub(super) fn ended(&mut self, end: End) {
        self.has_recorded_panic = end == End::Panicked;
        end.text().clone_into(&mut self.end);
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after input {} at {:.6} s, in the record at byte {}", self.input, self.time_s, self.byte)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<K: fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
            let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
            if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
        }
        writeln!(f, "recorded by: anabranch {} (build {})", self.program, self.build)?;
        writeln!(f, "balancer: {}", self.balancer)?;
        writeln!(f, "time: {:.3} s to {:.3} s, {} bytes; {}", self.first_s, self.last_s, self.bytes, self.end)?;
        writeln!(f, "switches: {}", self.switches)?;
        writeln!(f, "inputs: {}", list(&self.inputs))?;
        writeln!(f, "messages received: {}", list(&self.received))?;
        writeln!(f, "messages sent: {}", list(&self.sent))?;
        writeln!(f, "decisions: {}", self.decisions)?;
        writeln!(f, "events: {}", list(&self.events))?;
        if let Some(panic) = self.panic {
            writeln!(f, "panic of the controller: {panic}")?;
        }
        match self.first_difference {
            None => writeln!(f, "outputs: as recorded (hash {})", self.output_hash),
            Some(difference) => writeln!(f, "outputs: differ from the recorded ones {difference}"),
        }
    }
}
