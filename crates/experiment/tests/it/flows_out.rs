//! `flows.parquet` and `flows.csv` read back equal.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anabranch_experiment::results::flow_row::{FlowRow, FlowStatus};
use anabranch_experiment::results::flow_writer::FlowsWriter;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

fn rows_of_run(run: u32, balancer: &str) -> Vec<FlowRow> {
    let (balancer, variant): (Arc<str>, Arc<str>) = (balancer.into(), "buffer=100KB, \"deep\"".into());
    let ends = [FlowStatus::Completed, FlowStatus::Failed, FlowStatus::Running, FlowStatus::NotStarted];
    (0..1500u32)
        .map(|flow| {
            let end = ends[if flow % 97 == 0 { (flow / 97 % 4) as usize } else { 0 }];
            let completed = end == FlowStatus::Completed;
            let fct_us = 12.5 + f64::from(flow) / 3.0;
            FlowRow {
                run,
                balancer: balancer.clone(),
                load: (run != 1).then_some(0.6),
                variant: variant.clone(),
                seed: u64::MAX - u64::from(run),
                flow,
                src: flow % 128,
                dst: (flow + 1) % 128,
                size_bytes: u64::from(flow) << 22,
                group: u32::MAX - flow,
                start_us: (end != FlowStatus::NotStarted).then_some(f64::from(flow) * 0.1),
                status: end,
                fct_us: completed.then_some(fct_us),
                sender_fct_us: completed.then_some(fct_us + 10.0),
                ideal_us: 10.0,
                slowdown: completed.then_some(fct_us / 10.0),
                delivered_bytes: u64::from(flow),
                packets_sent: flow + 2,
                retransmitted: flow % 5,
                timeouts: flow % 3,
                reordered: flow % 7,
                path_changes: flow % 2,
            }
        })
        .collect()
}

fn write(path: &Path) -> Vec<FlowRow> {
    let mut writer = FlowsWriter::create(path).expect("the temporary directory is writable");
    let mut all = Vec::new();
    for (run, balancer) in ["ecmp", "spray", "hermes-rtt:probe=50us"].into_iter().enumerate() {
        let rows = rows_of_run(run as u32, balancer);
        writer.append(&rows).expect("append");
        all.extend(rows);
    }
    assert!(!path.exists(), "the file must not appear before it is complete");
    writer.finish().expect("finish");
    all
}

/// The columns of a row in the order of the files, with the types of Parquet.
fn columns(row: &FlowRow) -> [(&'static str, Field); 22] {
    let optional = |value: Option<f64>| value.map_or(Field::Null, Field::Double);
    [
        ("run", Field::UInt(row.run)),
        ("balancer", Field::Str(row.balancer.to_string())),
        ("load", optional(row.load)),
        ("variant", Field::Str(row.variant.to_string())),
        ("seed", Field::ULong(row.seed)),
        ("flow", Field::UInt(row.flow)),
        ("src", Field::UInt(row.src)),
        ("dst", Field::UInt(row.dst)),
        ("size_bytes", Field::ULong(row.size_bytes)),
        ("group", Field::UInt(row.group)),
        ("start_us", optional(row.start_us)),
        ("status", Field::Str(row.status.as_str().to_owned())),
        ("fct_us", optional(row.fct_us)),
        ("sender_fct_us", optional(row.sender_fct_us)),
        ("ideal_us", Field::Double(row.ideal_us)),
        ("slowdown", optional(row.slowdown)),
        ("delivered_bytes", Field::ULong(row.delivered_bytes)),
        ("packets_sent", Field::UInt(row.packets_sent)),
        ("retransmitted", Field::UInt(row.retransmitted)),
        ("timeouts", Field::UInt(row.timeouts)),
        ("reordered", Field::UInt(row.reordered)),
        ("path_changes", Field::UInt(row.path_changes)),
    ]
}

#[test]
fn parquet_reads_back_equal_with_a_row_group_per_run() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("flows.parquet");
    let written = write(&path);
    let reader = SerializedFileReader::new(std::fs::File::open(&path).expect("open")).expect("Parquet");
    assert_eq!(reader.metadata().num_row_groups(), 3);
    let mut read = reader.get_row_iter(None).expect("rows");
    for row in &written {
        let read = read.next().expect("as many rows").expect("a row");
        let read: Vec<(&str, Field)> =
            read.get_column_iter().map(|(name, field)| (name.as_str(), field.clone())).collect();
        assert_eq!(read, columns(row));
    }
    assert!(read.next().is_none());
}

#[test]
fn csv_reads_back_equal() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("flows.csv");
    let written = write(&path);
    let mut reader = csv::Reader::from_path(&path).expect("open");
    let names = columns(&written[0]).map(|(name, _)| name);
    assert_eq!(reader.headers().expect("headers"), &names[..]);
    let records: Vec<csv::StringRecord> = reader.records().map(|record| record.expect("a record")).collect();
    assert_eq!(records.len(), written.len());
    for (record, row) in records.iter().zip(&written) {
        let texts = columns(row).map(|(_, field)| match field {
            Field::UInt(value) => value.to_string(),
            Field::ULong(value) => value.to_string(),
            Field::Double(value) => value.to_string(),
            Field::Str(value) => value,
            _ => String::new(),
        });
        assert_eq!(record, &texts[..], "an empty field where there is no value");
    }
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    let dir = tempfile::tempdir().expect("temporary directory");
    for name in ["a.parquet", "a.csv"] {
        let (first, second) = (dir.path().join(name), dir.path().join(format!("again-{name}")));
        write(&first);
        write(&second);
        assert!(std::fs::read(first).expect("read") == std::fs::read(second).expect("read"), "{name} differs");
    }
}

#[test]
fn an_abandoned_file_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut writer = FlowsWriter::create(&dir.path().join("flows.parquet")).expect("create");
    writer.append(&rows_of_run(0, "ecmp")).expect("append");
    drop(writer);
    assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 0);
}

#[test]
fn unwritable_path_is_an_error_with_the_file_name() {
    let error = FlowsWriter::create(Path::new("/nonexistent/flows.parquet")).err().expect("cannot be created");
    assert!(error.to_string().contains("/nonexistent/flows.parquet"), "{error}");
}

#[test]
fn pyarrow_reads_the_file() {
    let has_pyarrow = Command::new("python3").args(["-c", "import pyarrow.parquet"]).output();
    if !has_pyarrow.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: python3 with pyarrow is not installed");
        return;
    }
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("flows.parquet");
    let written = write(&path);
    let script = "import sys, pyarrow.parquet as p; t = p.read_table(sys.argv[1]); \
                  print(t.num_rows, t.schema.field('seed').type, t['fct_us'].null_count)";
    let output = Command::new("python3").args(["-c", script]).arg(&path).output().expect("python3");
    let nulls = written.iter().filter(|row| row.fct_us.is_none()).count();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), format!("{} uint64 {nulls}", written.len()));
}
