//! The format, and ends of recordings that a daemon reaches rarely.

use std::collections::VecDeque;
use std::io::{self, Cursor, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use balance::Spec;
use net::Time;
use openflow::{ConnectionId, Envelope, Message, ToController, Xid};
use tempfile::TempDir;

use super::file::{Origin, ReadError, Records};
use super::{End, Entry, Input, Options, RecordedController, Recorder, Summary, replay};
use crate::settings::Settings;

const MUCH: u64 = 1 << 20;
const SWITCH: ConnectionId = ConnectionId(1);

#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("no panic").clone()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A disk that does not respond until it gets a message.
struct Stalled(Memory, Receiver<()>);

impl Write for Stalled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The sender is dropped at the end of the stall.
        let _ = self.1.recv();
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn spec() -> Spec {
    Spec::parse("sdn-ecmp").expect("a registered balancer")
}

fn hello() -> Envelope {
    Envelope { xid: Xid(7), message: Message::Hello { versions: 1 << 4 } }
}

/// Takes all outputs, as the engine does.
fn drain(controller: &mut RecordedController) -> usize {
    let (mut outputs, mut count) = (VecDeque::new(), 0);
    while controller.take_outputs(&mut outputs) {
        count += outputs.len();
    }
    count
}

/// Returns the recording of a connection that begins a handshake and does not continue it.
fn recorded() -> Vec<u8> {
    let memory = Memory::default();
    let recorder = Recorder::start(memory.clone(), MUCH, 1 << 20).expect("a thread");
    let mut controller = RecordedController::new(control::Config::default(), &spec(), Some(recorder));
    controller.handle(Time::from_ms(5), ToController::Connected(SWITCH));
    controller.handle_message(Time::from_ms(5), SWITCH, &hello());
    assert!(drain(&mut controller) > 0, "a hello and a request");
    while let Some(due) = controller.poll_timeout().filter(|due| *due < Time::from_s(60)) {
        controller.handle_timeout(due);
        drain(&mut controller);
    }
    drop(controller);
    memory.bytes()
}

/// Replays bytes as a file.
fn replayed(bytes: &[u8]) -> Result<Summary, super::ReplayError> {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("recording");
    std::fs::write(&file, bytes).expect("a file");
    replay(&file, Options::default(), None)
}

/// Reads all records. Returns their number and whether the last one is incomplete.
fn read(bytes: &[u8]) -> Result<(usize, bool), ReadError> {
    let (mut records, _) = Records::open(Cursor::new(bytes), bytes.len() as u64, false)?;
    let mut count = 0;
    while records.next()?.is_some() {
        count += 1;
    }
    Ok((count, records.is_torn))
}

/// Returns the last entry of a recording.
fn last(bytes: &[u8]) -> End {
    let (mut records, _) = Records::open(Cursor::new(bytes), bytes.len() as u64, false).expect("a recording");
    let mut end = None;
    while let Some((_, mut body)) = records.next().expect("a record") {
        while !body.is_empty() {
            let (entry, rest) = postcard::take_from_bytes::<Entry<'_>>(body).expect("an entry");
            body = rest;
            end = if let Entry::End(end) = entry { Some(end) } else { None };
        }
    }
    end.expect("an end")
}

#[test]
fn recorded_controller_replays_to_same_outputs() {
    let bytes = recorded();
    let summary = replayed(&bytes).expect("a recording");
    assert!(summary.is_same(), "{summary}");
    assert_eq!((summary.received["hello"], summary.inputs["connected"]), (1, 1), "{summary}");
    assert!(summary.sent["hello"] == 1 && summary.sent["features_request"] == 1, "{summary}");
    assert_eq!((summary.bytes, summary.end.as_str()), (bytes.len() as u64, "the daemon stopped"));
}

#[test]
fn any_changed_bit_is_found_and_located() {
    let bytes = recorded();
    let line = bytes.iter().position(|byte| *byte == b'\n').expect("a first line");
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            match read(&changed) {
                Err(ReadError::Kind | ReadError::Line) if at <= line => {}
                Err(ReadError::Damaged(position)) if at > line => assert!(position <= at as u64),
                other => panic!("bit {bit} of byte {at}: {other:?}"),
            }
        }
    }
    let mut changed = bytes.clone();
    changed[line + 40] ^= 1;
    let error = replayed(&changed).expect_err("damaged").to_string();
    assert!(error.starts_with(&format!("the record at byte {} is damaged", line + 1)), "{error}");
}

#[test]
fn incomplete_last_record_is_left_out() {
    let bytes = recorded();
    let (count, is_torn) = read(&bytes).expect("a recording");
    assert!(count >= 3 && !is_torn, "{count}");
    let line = bytes.iter().position(|byte| *byte == b'\n').expect("a first line") + 1;
    let mut counts = Vec::new();
    for length in line..bytes.len() {
        let (count, is_torn) = read(&bytes[..length]).expect("the records before");
        counts.extend((!is_torn).then_some(count));
        let summary = replayed(&bytes[..length]);
        assert_eq!(summary.map_or(0, |summary| usize::from(summary.is_same())), usize::from(count > 0), "at {length}");
    }
    assert_eq!(counts, (0..count).collect::<Vec<_>>(), "complete only at the end of each record");
    // Some file systems leave zeros after a power failure.
    let zeros = [&bytes[..], &[0; 5000]].concat();
    assert_eq!(read(&zeros).expect("a recording"), (count, true));
    assert!(read(&[&zeros[..], b"x"].concat()).is_err());
}

#[test]
fn recording_of_another_program_names_it() {
    let bytes = recorded();
    let line = bytes.iter().position(|byte| *byte == b'\n').expect("a first line") + 1;
    let from = |program: &str, build: &str| {
        let origin = Origin { program: program.to_owned(), build: build.to_owned() };
        [origin.line().as_bytes(), &bytes[line..]].concat()
    };
    let error = replayed(&from("9.8.7", "b0b0")).expect_err("another version").to_string();
    assert!(error.starts_with("anabranch 9.8.7 (build b0b0) recorded it, and this is anabranch "), "{error}");
    assert!(error.ends_with("replay it with that program"), "{error}");
    let other_build = from(env!("CARGO_PKG_VERSION"), "b0b0");
    assert!(matches!(read(&other_build), Err(ReadError::Program { .. })));
    assert!(Records::open(Cursor::new(&other_build), MUCH, true).is_ok(), "allowed by an option");
    assert!(matches!(read(b"# a configuration\n"), Err(ReadError::Kind)));
}

#[test]
fn first_difference_is_located() {
    let memory = Memory::default();
    let mut recorder = Recorder::start(memory.clone(), MUCH, 1 << 20).expect("a thread");
    recorder.begin(&control::Config::default(), "sdn-ecmp".to_owned());
    // As recorded by a controller that sends nothing.
    recorder.input(Time::from_ms(1), Input::Timeout);
    recorder.outputs_taken();
    recorder.input(Time::from_ms(2), Input::Connected(SWITCH));
    recorder.outputs_taken();
    recorder.input(Time::from_ms(3), Input::Timeout);
    recorder.outputs_taken();
    drop(recorder);
    let summary = replayed(&memory.bytes()).expect("a recording");
    let difference = summary.first_difference.expect("a controller sends a hello");
    assert!(!summary.is_same());
    assert_eq!((difference.input, difference.time_s), (2, 0.002), "{summary}");
}

#[test]
fn recording_ends_at_maximum_size() {
    let memory = Memory::default();
    let recorder = Recorder::start(memory.clone(), 2_000, 1 << 20).expect("a thread");
    let mut controller = RecordedController::new(control::Config::default(), &spec(), Some(recorder));
    for ms in 0..1_000 {
        controller.handle_timeout(Time::from_ms(ms));
        drain(&mut controller);
    }
    assert!(!controller.is_recording());
    std::thread::sleep(Duration::from_millis(100)); // Nothing waits for the last writes of an ended recording.
    let bytes = memory.bytes();
    assert!((1_000..=2_000).contains(&bytes.len()), "{}", bytes.len());
    assert_eq!(last(&bytes), End::SizeLimit);
    assert!(replayed(&bytes).is_ok_and(|summary| summary.is_same()));
}

#[test]
fn stalled_disk_ends_the_recording_and_delays_nothing() {
    let (go, wait) = channel();
    let memory = Memory::default();
    let recorder = Recorder::start(Stalled(memory.clone(), wait), MUCH, 1_000).expect("a thread");
    let mut controller = RecordedController::new(control::Config::default(), &spec(), Some(recorder));
    for ms in 0..1_000 {
        controller.handle_timeout(Time::from_ms(ms));
        drain(&mut controller);
    }
    assert!(!controller.is_recording(), "the disk never responded");
    drop(go);
    std::thread::sleep(Duration::from_millis(100)); // Nothing waits for the last writes of an ended recording.
    let bytes = memory.bytes();
    assert_eq!(last(&bytes), End::WriterBehind);
    assert!(replayed(&bytes).is_ok_and(|summary| summary.is_same()));
}

#[test]
fn input_that_causes_a_panic_is_recorded() {
    let memory = Memory::default();
    let recorder = Recorder::start(memory.clone(), MUCH, 1 << 20).expect("a thread");
    let mut controller = RecordedController::new(control::Config::default(), &spec(), Some(recorder));
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        controller.handle(Time::from_ms(1), ToController::Connected(SWITCH));
        panic!("a defect");
    }));
    assert!(panicked.is_err());
    let bytes = memory.bytes();
    assert_eq!(last(&bytes), End::Panicked);
    let summary = replayed(&bytes).expect("a recording");
    assert_eq!(summary.inputs["connected"], 1, "{summary}");
}

#[test]
fn earlier_recording_is_renamed_and_other_files_are_kept() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("inputs");
    for _ in 0..2 {
        drop(Recorder::create(&file, MUCH).expect("a recording"));
    }
    assert!(file.exists() && PathBuf::from(format!("{}.1", file.display())).exists());
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().expect("a file").permissions());
    assert_eq!(mode & 0o777, 0o600, "the key of discovery probes is in it");
    let recorder = Recorder::create(&file, MUCH).expect("a recording");
    let error = Recorder::create(&file, MUCH).expect_err("in use").to_string();
    assert!(error.ends_with("another daemon records to it; name another file"), "{error}");
    drop(recorder);
    let other = folder.path().join("other");
    std::fs::write(&other, "a = 1\n").expect("a file");
    let error = Recorder::create(&other, MUCH).expect_err("not a recording").to_string();
    assert!(error.ends_with("it exists and is not a recording; name another file"), "{error}");
    assert_eq!(std::fs::read_to_string(&other).expect("a file"), "a = 1\n");
}

#[test]
fn recording_is_off_by_default() {
    assert_eq!(Settings::default().log.record, None);
    let mut controller = RecordedController::new(control::Config::default(), &spec(), None);
    assert!(!controller.is_recording());
    controller.handle_timeout(Time::from_ms(1));
    drain(&mut controller);
}
