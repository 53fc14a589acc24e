//! Stored services after failures of every file operation, after restarts and power failures.

use super::super::tests::{named, some};
use super::*;
use crate::storage::RealDisk;
use crate::storage::sim_disk::{Fault, SimDisk};

const FILE: &str = "/state/state.json.services";

fn load(disk: &SimDisk) -> Result<(Store, Desired), StoreError> {
    Store::load(Arc::new(disk.clone()), Path::new(FILE), 2)
}

fn found(disk: &SimDisk) -> Desired {
    load(disk).unwrap_or_else(|error| panic!("{error}")).1
}

/// Checks everything that a restart or a power failure can leave: it must be one of the states
/// that clients may expect, and must then survive a further power failure.
fn assert_recoverable(disk: &SimDisk, expected: &[Desired], what: &str) {
    let after_power_failures = disk.after_power_failures();
    for disk in after_power_failures.iter().chain([&disk.after_restart()]) {
        let desired = found(disk);
        assert!(expected.contains(&desired), "{what}: {desired:?}");
        for later in disk.after_power_failures() {
            assert_eq!(found(&later), desired, "{what}: what clients saw after the restart is lost");
        }
    }
}

/// Makes four changes while some operations fail. Returns the number of operations, and how often
/// the outcome of a change was unknown.
fn scenario(failing: std::ops::Range<usize>, fault: Fault) -> (usize, usize) {
    let disk = SimDisk::default();
    let (store, _) = load(&disk).expect("an empty store");
    store.write(&named("old")).expect("no fault yet");
    let (mut expected, mut unknown) = (vec![named("old")], 0);
    let before = disk.operations();
    disk.fail(failing.clone(), fault);
    for name in ["one", "two", "three", "four"] {
        let desired = named(name);
        let written = store.write(&desired);
        match &written {
            Ok(()) => expected = vec![desired],
            Err(WriteError::Rejected(_) | WriteError::Halted(_)) => {}
            Err(WriteError::Unknown(_)) => {
                unknown += 1;
                expected.push(desired);
            }
        }
        assert_recoverable(&disk, &expected, &format!("{fault:?} in {failing:?}, {name}: {written:?}"));
    }
    // The disk works again: changes are accepted without a restart, and the versions are bounded.
    disk.fail(0..0, fault);
    store.write(&named("last")).expect("the disk works again");
    assert_recoverable(&disk, &[named("last")], &format!("{fault:?} in {failing:?}, afterwards"));
    assert!(Versions::list(&store.file).expect("a folder").len() <= 2);
    (disk.operations() - before, unknown)
}

#[test]
fn restart_finds_the_acknowledged_state_whichever_operation_fails() {
    let (operations, _) = scenario(0..0, Fault::Error);
    let mut unknown = 0;
    for fault in [Fault::Error, Fault::ErrorAfterwards] {
        for first in 0..operations {
            for length in [1, 2, 4, usize::MAX] {
                unknown += scenario(first..first.saturating_add(length), fault).1;
            }
        }
    }
    assert!(operations > 20 && unknown > 0, "{operations} operations, {unknown} unknown outcomes");
}

#[test]
fn failure_while_starting_does_not_prevent_the_start() {
    let disk = SimDisk::default();
    load(&disk).expect("an empty store").0.write(&some()).expect("it is written");
    for first in 0..6 {
        let disk = disk.after_restart();
        disk.fail(first..usize::MAX, Fault::Error);
        let (store, desired) = load(&disk).expect("the content is intact");
        assert_eq!(desired, some());
        assert!(store.write(&named("new")).is_err(), "the disk fails from operation {first} on");
        assert_recoverable(&disk, &[some()], "a start on a failing disk");
        disk.fail(0..0, Fault::Error);
        store.write(&named("new")).expect("the disk works again");
        assert_recoverable(&disk, &[named("new")], "after the repair");
    }
}

#[test]
fn failed_flush_of_the_folder_undoes_the_change_or_reports_an_unknown_outcome() {
    // The operations of a change: link, create, write, flush, rename, flush of the folder.
    const FOLDER: usize = 5;
    let start = || {
        let disk = SimDisk::default();
        let (store, _) = load(&disk).expect("an empty store");
        store.write(&some()).expect("it is written");
        (disk, store)
    };
    let (disk, store) = start();
    disk.fail(FOLDER..FOLDER + 1, Fault::Error);
    let error = store.write(&named("new")).expect_err("the flush of the folder fails");
    assert!(matches!(error, WriteError::Rejected(_)), "{error}");
    assert_eq!(found(&disk.after_restart()), some(), "the rejected change is not there after a restart");

    let (disk, store) = start();
    disk.fail(FOLDER..usize::MAX, Fault::Error);
    let error = store.write(&named("new")).expect_err("everything fails from the flush of the folder on");
    assert!(matches!(error, WriteError::Unknown(_)), "{error}");
    assert!(error.to_string().contains("unknown") && error.to_string().contains("Repair the disk"), "{error}");
    let error = store.write(&named("newer")).expect_err("the outcome of the first change is unknown");
    assert!(matches!(error, WriteError::Halted(_)), "{error}");
    assert_eq!(found(&disk.after_restart()), named("new"), "the change of unknown outcome is there");
}

#[test]
fn damaged_store_is_refused_and_kept_with_a_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("services");
    let open = || Store::open(Arc::new(RealDisk), &file, 2);
    let (store, empty) = open().expect("a store that is not there is empty");
    assert_eq!(empty, Desired::default());
    assert!(matches!(open(), Err(StoreError::InUse { .. })), "one daemon at a time");
    for name in ["one", "two", "three", "four"] {
        store.write(&named(name)).expect("it is written");
    }
    drop(store);
    let (store, read) = open().expect("a store");
    assert_eq!(read, named("four"));
    drop(store);

    let whole = fs::read(&file).expect("the file");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&file, &bytes).expect("the file");
        let error = open().expect_err("a bit error").to_string();
        assert!(error.contains("left unchanged"), "damage at {at}: {error}");
        assert_eq!(fs::read(&file).expect("the file"), bytes, "it is kept");
    }
    // The last change of four is missing in the newest of the two versions.
    let error = open().expect_err("a damaged store").to_string();
    let version = folder.path().join("services.000003");
    assert!(error.ends_with(&format!("cp {} {}", version.display(), file.display())), "{error}");
    fs::copy(&version, &file).expect("as the message says");
    assert_eq!(open().expect("a restored store").1, named("three"));
    let names = fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(names, 4, "the file, its lock and two versions");
}

#[test]
fn stores_of_other_versions_are_read_or_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("services");
    let body = encode(&some()).expect("JSON");
    let two = format!("anabranch-services 2 {} {:016x}\n", body.len(), xxhash_rust::xxh3::xxh3_64(&body));
    fs::write(&file, [two.as_bytes(), &body].concat()).expect("the file");
    assert_eq!(Store::open(Arc::new(RealDisk), &file, 2).expect("format 2").1, some());
    assert_eq!(fs::read(&file).expect("the file"), FORMAT.encode(&body), "it was written in the present format");
    let old = fs::read(folder.path().join("services.000001")).expect("the file of the older version is kept");
    assert!(old.starts_with(two.as_bytes()));

    fs::write(&file, "anabranch-services 9 4.5.6 1 0\n").expect("the file");
    let error = Store::open(Arc::new(RealDisk), &file, 2).expect_err("a newer format").to_string();
    assert!(error.contains("use version 4.5.6 or newer"), "{error}");
}
