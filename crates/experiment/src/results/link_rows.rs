//! Writer of `series.parquet`: one row per run, chosen link and time bin.

use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::flow_writer::{Column, properties, schema, write_column};
use crate::summary::RunRecord;

/// One time bin of one link in one run.
struct LinkRow<'a> {
    run: u32,
    record: &'a RunRecord,
    link: &'a str,
    /// Beginning of the bin, microseconds.
    from_us: f64,
    until_us: f64,
    queue_max_bytes: u32,
    queue_mean_bytes: f64,
    carried_bytes: u64,
    utilisation: f64,
}

const fn columns<'a>() -> [(&'static str, Column<LinkRow<'a>>); 12] {
    [
        ("run", Column::U32(|row| row.run)),
        ("balancer", Column::Text(|row| &row.record.summary.balancer)),
        ("load", Column::OptionalF64(|row| row.record.summary.load)),
        ("variant", Column::Text(|row| &row.record.summary.variant)),
        ("seed", Column::U64(|row| row.record.summary.seed)),
        ("link", Column::Text(|row| row.link)),
        ("from_us", Column::F64(|row| row.from_us)),
        ("until_us", Column::F64(|row| row.until_us)),
        ("queue_max_bytes", Column::U32(|row| row.queue_max_bytes)),
        ("queue_mean_bytes", Column::F64(|row| row.queue_mean_bytes)),
        ("carried_bytes", Column::U64(|row| row.carried_bytes)),
        ("utilisation", Column::F64(|row| row.utilisation)),
    ]
}

/// Returns the file, or `None` if no run has such links.
pub(crate) fn parquet(records: &[RunRecord]) -> Option<Result<Vec<u8>, ParquetError>> {
    records.iter().any(|record| !record.detail.links.is_empty()).then(|| write(records))
}

fn write(records: &[RunRecord]) -> Result<Vec<u8>, ParquetError> {
    let columns = columns();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema("bin", &columns)?, Arc::new(properties()?))?;
    for (run, record) in (0u32..).zip(records) {
        let rows = rows(run, record);
        let mut group = writer.next_row_group()?;
        for (_, column) in &columns {
            write_column(&mut group, column, &rows)?;
        }
        group.close()?;
    }
    writer.into_inner()
}

fn rows(run: u32, record: &RunRecord) -> Vec<LinkRow<'_>> {
    let mut rows = Vec::new();
    for link in &record.detail.links {
        rows.extend((0..link.queue_max_bytes.len()).map(|bin| LinkRow {
            run,
            record,
            link: &link.name,
            from_us: link.bin_us * bin as f64,
            until_us: (link.bin_us * (bin + 1) as f64).min(record.summary.end_us),
            queue_max_bytes: link.queue_max_bytes[bin],
            queue_mean_bytes: link.queue_mean_bytes[bin],
            carried_bytes: link.carried_bytes[bin],
            utilisation: link.utilisation[bin],
        }));
    }
    rows
}
