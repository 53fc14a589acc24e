//! Writer of `flows.parquet` and `flows.csv`: one row per flow and run, written as the runs end.
//!
//! Both formats come from one table of columns and therefore always agree. The file gets its name
//! when [`FlowsWriter::finish`] succeeds; until then it is `NAME.partial`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use crate::results::flow_row::FlowRow;

#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}")]
pub struct FlowsError {
    pub path: PathBuf,
    #[source]
    pub cause: FlowsCause,
}

#[derive(Debug, thiserror::Error)]
pub enum FlowsCause {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    #[error(transparent)]
    Csv(#[from] csv::Error),
}

/// Writer of the flows of successive runs. The same rows in the same order give the same bytes.
pub struct FlowsWriter {
    path: PathBuf,
    partial: PathBuf,
    sink: Option<Sink>,
}

impl FlowsWriter {
    pub fn create(path: &Path) -> Result<FlowsWriter, FlowsError> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let is_csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        let sink = Sink::create(&partial, is_csv).map_err(|cause| FlowsError { path: path.to_owned(), cause })?;
        Ok(FlowsWriter { path: path.to_owned(), partial, sink: Some(sink) })
    }

    /// Appends the flows of one run, in Parquet as one row group so that a reader can fetch a run
    /// alone.
    ///
    /// # Errors
    /// The file cannot be written, for example because the disk is full. It is then unusable; drop
    /// the writer.
    pub fn append(&mut self, run_rows: &[FlowRow]) -> Result<(), FlowsError> {
        let sink = self.sink.as_mut().expect("only finish takes the sink, and it consumes the writer");
        sink.append(run_rows).map_err(|cause| FlowsError { path: self.path.clone(), cause })
    }

    pub fn finish(mut self) -> Result<(), FlowsError> {
        let sink = self.sink.take().expect("only this function takes the sink");
        let done = sink.finish().and_then(|()| Ok(std::fs::rename(&self.partial, &self.path)?));
        done.map_err(|cause| {
            self.discard();
            FlowsError { path: self.path.clone(), cause }
        })
    }

    fn discard(&self) {
        // Best effort: the caller already has an error, and the name of a leftover `.partial`
        // explains itself.
        let _ = std::fs::remove_file(&self.partial);
    }
}

impl Drop for FlowsWriter {
    fn drop(&mut self) {
        if self.sink.take().is_some() {
            self.discard();
        }
    }
}

enum Sink {
    Parquet(Box<SerializedFileWriter<File>>),
    Csv(Box<csv::Writer<BufWriter<File>>>),
}

impl Sink {
    fn create(path: &Path, is_csv: bool) -> Result<Sink, FlowsCause> {
        let file = File::create(path)?;
        if is_csv {
            let mut writer = csv::Writer::from_writer(BufWriter::new(file));
            writer.write_record(COLUMNS.iter().map(|(name, _)| *name))?;
            return Ok(Sink::Csv(Box::new(writer)));
        }
        let writer = SerializedFileWriter::new(file, schema("flow", COLUMNS)?, Arc::new(properties()?))?;
        Ok(Sink::Parquet(Box::new(writer)))
    }

    fn append(&mut self, rows: &[FlowRow]) -> Result<(), FlowsCause> {
        match self {
            Sink::Parquet(writer) => {
                let mut group = writer.next_row_group()?;
                for (_, column) in COLUMNS {
                    write_column(&mut group, column, rows)?;
                }
                group.close()?;
            }
            Sink::Csv(writer) => {
                for row in rows {
                    writer.write_record(COLUMNS.iter().map(|(_, column)| column.text(row)))?;
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(), FlowsCause> {
        match self {
            Sink::Parquet(writer) => {
                writer.close()?;
            }
            Sink::Csv(writer) => {
                let mut file = writer.into_inner().map_err(|error| error.into_error())?;
                file.flush()?;
            }
        }
        Ok(())
    }
}

/// A column of a table with rows of type `R`.
pub(super) enum Column<R> {
    U32(fn(&R) -> u32),
    U64(fn(&R) -> u64),
    F64(fn(&R) -> f64),
    OptionalF64(fn(&R) -> Option<f64>),
    Text(fn(&R) -> &str),
}

impl<R> Column<R> {
    /// Returns the value as CSV text: integers in full, floats as the shortest text that reads back
    /// equal.
    fn text(&self, row: &R) -> String {
        match self {
            Column::U32(value) => value(row).to_string(),
            Column::U64(value) => value(row).to_string(),
            Column::F64(value) => value(row).to_string(),
            Column::OptionalF64(value) => value(row).map(|value| value.to_string()).unwrap_or_default(),
            Column::Text(value) => value(row).to_owned(),
        }
    }

    fn parquet_type(&self, name: &str) -> Result<Type, parquet::errors::ParquetError> {
        let unsigned = |bit_width| Some(LogicalType::integer(bit_width, false));
        let (physical, logical, repetition) = match self {
            Column::U32(_) => (Physical::INT32, unsigned(32), Repetition::REQUIRED),
            Column::U64(_) => (Physical::INT64, unsigned(64), Repetition::REQUIRED),
            Column::F64(_) => (Physical::DOUBLE, None, Repetition::REQUIRED),
            Column::OptionalF64(_) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
            Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        };
        Type::primitive_type_builder(name, physical).with_repetition(repetition).with_logical_type(logical).build()
    }
}

const COLUMNS: &[(&str, Column<FlowRow>)] = &[
    ("run", Column::U32(|row| row.run)),
    ("balancer", Column::Text(|row| &row.balancer)),
    ("load", Column::OptionalF64(|row| row.load)),
    ("variant", Column::Text(|row| &row.variant)),
    ("seed", Column::U64(|row| row.seed)),
    ("flow", Column::U32(|row| row.flow)),
    ("src", Column::U32(|row| row.src)),
    ("dst", Column::U32(|row| row.dst)),
    ("size_bytes", Column::U64(|row| row.size_bytes)),
    ("group", Column::U32(|row| row.group)),
    ("start_us", Column::OptionalF64(|row| row.start_us)),
    ("status", Column::Text(|row| row.status.as_str())),
    ("fct_us", Column::OptionalF64(|row| row.fct_us)),
    ("sender_fct_us", Column::OptionalF64(|row| row.sender_fct_us)),
    ("ideal_us", Column::F64(|row| row.ideal_us)),
    ("slowdown", Column::OptionalF64(|row| row.slowdown)),
    ("delivered_bytes", Column::U64(|row| row.delivered_bytes)),
    ("packets_sent", Column::U32(|row| row.packets_sent)),
    ("retransmitted", Column::U32(|row| row.retransmitted)),
    ("timeouts", Column::U32(|row| row.timeouts)),
    ("reordered", Column::U32(|row| row.reordered)),
    ("path_changes", Column::U32(|row| row.path_changes)),
];

pub(super) fn schema<R>(name: &str, columns: &[(&str, Column<R>)]) -> Result<Arc<Type>, parquet::errors::ParquetError> {
    let mut fields = Vec::with_capacity(columns.len());
    for (name, column) in columns {
        fields.push(Arc::new(column.parquet_type(name)?));
    }
    Ok(Arc::new(Type::group_type_builder(name).with_fields(fields).build()?))
}

pub(super) fn properties() -> Result<WriterProperties, parquet::errors::ParquetError> {
    Ok(WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_dictionary_enabled(true)
        // A run is a row group. Its statistics suffice to skip it, so pages need none.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // Without the version of the parquet crate: an upgrade must not change files with equal
        // rows.
        .set_created_by("anabranch".to_owned())
        .build())
}

type RowGroup<'a, W> = SerializedRowGroupWriter<'a, W>;

// Parquet stores unsigned integers in the signed type of their width; the casts keep the bits.
pub(super) fn write_column<R, W: Write + Send>(
    group: &mut RowGroup<'_, W>,
    column: &Column<R>,
    rows: &[R],
) -> Result<(), parquet::errors::ParquetError> {
    match column {
        Column::U32(value) => write_values::<Int32Type, W>(group, rows.iter().map(|row| value(row) as i32), None),
        Column::U64(value) => write_values::<Int64Type, W>(group, rows.iter().map(|row| value(row) as i64), None),
        Column::F64(value) => write_values::<DoubleType, W>(group, rows.iter().map(value), None),
        Column::Text(value) => {
            write_values::<ByteArrayType, W>(group, rows.iter().map(|row| ByteArray::from(value(row))), None)
        }
        Column::OptionalF64(value) => {
            let levels: Vec<i16> = rows.iter().map(|row| i16::from(value(row).is_some())).collect();
            write_values::<DoubleType, W>(group, rows.iter().filter_map(value), Some(&levels))
        }
    }
}

fn write_values<T: DataType, W: Write + Send>(
    group: &mut RowGroup<'_, W>,
    values: impl Iterator<Item = T::T>,
    levels: Option<&[i16]>,
) -> Result<(), parquet::errors::ParquetError> {
    let values: Vec<T::T> = values.collect();
    let mut writer = group.next_column()?.expect("the schema has as many columns as the table they come from");
    writer.typed::<T>().write_batch(&values, levels, None)?;
    writer.close()?;
    Ok(())
}
