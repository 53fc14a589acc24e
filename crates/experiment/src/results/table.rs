//! Tables of results by column, for readers of whole columns such as data frames.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArrayType, DataType};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

/// Rows of texts that are decoded at a time.
const TEXT_ROWS: usize = 65_536;

/// Values of a column, one per row.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    U32(Vec<u32>),
    U64(Vec<u64>),
    F64(Vec<f64>),
    /// The second list says which rows have a value; the first one is 0 in others.
    OptionalF64(Vec<f64>, Vec<bool>),
    Flag(Vec<bool>),
    /// Positions in a list of different texts.
    Text(Vec<i32>, Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    pub values: Values,
}

/// Columns of the same length.
pub type Table = Vec<Column>;

impl Values {
    pub fn of_optional(values: impl Iterator<Item = Option<f64>>) -> Values {
        let (values, valid) = values.map(|value| (value.unwrap_or_default(), value.is_some())).unzip();
        Values::OptionalF64(values, valid)
    }

    pub fn of_texts(texts: impl Iterator<Item = impl AsRef<str>>) -> Values {
        let mut known = Texts::default();
        Values::Text(texts.map(|text| known.key(text.as_ref())).collect(), known.list)
    }

    pub fn len(&self) -> usize {
        match self {
            Values::U32(values) => values.len(),
            Values::U64(values) => values.len(),
            Values::F64(values) | Values::OptionalF64(values, _) => values.len(),
            Values::Flag(values) => values.len(),
            Values::Text(values, _) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a value as CSV text: floats as the shortest text that reads back equal, absent values
    /// as an empty one.
    pub(crate) fn text(&self, row: usize) -> String {
        match self {
            Values::U32(values) => values[row].to_string(),
            Values::U64(values) => values[row].to_string(),
            Values::F64(values) => values[row].to_string(),
            Values::OptionalF64(values, valid) if valid[row] => values[row].to_string(),
            Values::OptionalF64(..) => String::new(),
            Values::Flag(values) => values[row].to_string(),
            Values::Text(keys, texts) => texts[keys[row] as usize].clone(),
        }
    }
}

/// Different texts, by order of appearance.
#[derive(Default)]
struct Texts {
    list: Vec<String>,
    keys: BTreeMap<String, i32>,
    /// Neighbouring rows usually have the same text.
    last: Option<i32>,
}

impl Texts {
    fn key(&mut self, text: &str) -> i32 {
        if let Some(last) = self.last
            && self.list[last as usize] == text
        {
            return last;
        }
        let key = match self.keys.get(text) {
            Some(key) => *key,
            None => {
                let key = self.list.len() as i32;
                self.list.push(text.to_owned());
                self.keys.insert(text.to_owned(), key);
                key
            }
        };
        self.last = Some(key);
        key
    }
}

/// Reads `flows.parquet` or `series.parquet`: one table per run.
///
/// # Errors
/// The file cannot be read, or has columns that this program does not write.
pub fn read_parquet(path: &Path) -> Result<Vec<Table>> {
    let file = File::open(path).map_err(|cause| ParquetError::General(cause.to_string()))?;
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    (0..reader.num_row_groups())
        .map(|number| {
            let group = reader.get_row_group(number)?;
            let rows = group.metadata().num_rows() as usize;
            let column = |(ix, description): (usize, _)| {
                let values = read_column(group.get_column_reader(ix)?, rows, description)?;
                Ok(Column { name: description.name().to_owned(), values })
            };
            schema.columns().iter().map(|column| &**column).enumerate().map(column).collect()
        })
        .collect()
}

// Parquet stores unsigned integers in the signed type of their width; the casts keep the bits.
fn read_column(column: ColumnReader, rows: usize, description: &ColumnDescriptor) -> Result<Values> {
    let is_optional = description.self_type().get_basic_info().repetition() == Repetition::OPTIONAL;
    let is_text = matches!(description.logical_type_ref(), Some(LogicalType::String));
    match (column, description.physical_type()) {
        (ColumnReader::Int32ColumnReader(mut column), Physical::INT32) if !is_optional => {
            let (values, _) = read(&mut column, rows)?;
            Ok(Values::U32(values.into_iter().map(|value| value as u32).collect()))
        }
        (ColumnReader::Int64ColumnReader(mut column), Physical::INT64) if !is_optional => {
            let (values, _) = read(&mut column, rows)?;
            Ok(Values::U64(values.into_iter().map(|value| value as u64).collect()))
        }
        (ColumnReader::DoubleColumnReader(mut column), Physical::DOUBLE) => {
            let (values, levels) = read(&mut column, rows)?;
            if !is_optional {
                return Ok(Values::F64(values));
            }
            let mut present = values.into_iter();
            let of = |level: &i16| if *level > 0 { present.next() } else { None };
            Ok(Values::of_optional(levels.iter().map(of)))
        }
        (ColumnReader::ByteArrayColumnReader(mut column), Physical::BYTE_ARRAY) if is_text && !is_optional => {
            read_texts(&mut column, rows)
        }
        _ => Err(ParquetError::General(format!("the column `{}` is of an unknown kind", description.name()))),
    }
}

/// Returns the values that exist, and the definition level of each row.
fn read<T: DataType>(column: &mut ColumnReaderImpl<T>, rows: usize) -> Result<(Vec<T::T>, Vec<i16>)> {
    let (mut values, mut levels) = (Vec::with_capacity(rows), Vec::new());
    let mut read = 0;
    while read < rows {
        let (records, ..) = column.read_records(rows - read, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::General(format!("the file ends after {read} of {rows} rows")));
        }
        read += records;
    }
    Ok((values, levels))
}

fn read_texts(column: &mut ColumnReaderImpl<ByteArrayType>, rows: usize) -> Result<Values> {
    let (mut keys, mut texts) = (Vec::with_capacity(rows), Texts::default());
    while keys.len() < rows {
        let (values, _) = read(column, TEXT_ROWS.min(rows - keys.len()))?;
        for value in &values {
            keys.push(texts.key(value.as_utf8()?));
        }
    }
    Ok(Values::Text(keys, texts.list))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::results::flow_row::{FlowRow, FlowStatus};
    use crate::results::flow_writer::FlowsWriter;

    fn rows(run: u32) -> Vec<FlowRow> {
        let row = |flow| FlowRow {
            run,
            balancer: Arc::from(["ecmp", "spray"][run as usize]),
            load: (run == 1).then_some(0.5),
            flow,
            size_bytes: u64::MAX - u64::from(flow),
            status: if flow.is_multiple_of(3) { FlowStatus::Running } else { FlowStatus::Completed },
            fct_us: (!flow.is_multiple_of(3)).then_some(f64::from(flow) / 7.0),
            ..FlowRow::default()
        };
        (0..100_000).map(row).collect()
    }

    /// Every value of the CSV file is in the columns of the Parquet file.
    #[test]
    fn columns_are_those_of_the_csv_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["flows.parquet", "flows.csv"] {
            let mut writer = FlowsWriter::create(&path(name)).unwrap();
            (0..2).for_each(|run| writer.append(&rows(run)).unwrap());
            writer.finish().unwrap();
        }
        let tables = read_parquet(&path("flows.parquet")).unwrap();
        let mut reader = ::csv::Reader::from_path(path("flows.csv")).unwrap();
        let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let mut records = reader.records();
        for table in &tables {
            assert_eq!(table.iter().map(|column| &column.name).collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
            for row in 0..table[0].values.len() {
                let shown: Vec<String> = table.iter().map(|column| column.values.text(row)).collect();
                assert_eq!(shown, records.next().unwrap().unwrap().iter().collect::<Vec<_>>());
            }
        }
        assert!(records.next().is_none());
    }

    #[test]
    fn other_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows.parquet");
        assert!(read_parquet(&path).is_err());
        std::fs::write(&path, "not a table").unwrap();
        assert!(read_parquet(&path).is_err());
    }
}
