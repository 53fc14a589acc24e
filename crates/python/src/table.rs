//! Tables of results for data frames: Arrow arrays over the columns, handed over without a copy.

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, RecordBatch, RecordBatchIterator, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use experiment::results::table::{self, Values};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failure;

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";
/// Rows in the HTML form of a table.
const ROWS_SHOWN: usize = 20;

/// A table with the Arrow PyCapsule interface: polars, pyarrow, pandas and duckdb read it.
#[pyclass(frozen, module = "anabranch._native")]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// Takes over the columns of tables that have the same ones.
    pub fn new(tables: Vec<table::Table>) -> PyResult<Table> {
        let batches: Vec<RecordBatch> = tables.into_iter().map(batch).collect::<Result<_, _>>().map_err(unusable)?;
        let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
        Ok(Table { schema, batches })
    }
}

fn unusable(error: ArrowError) -> PyErr {
    failure(format!("the table has no use in Arrow: {error}"))
}

fn batch(table: table::Table) -> Result<RecordBatch, ArrowError> {
    let mut fields = Vec::with_capacity(table.len());
    let mut arrays = Vec::with_capacity(table.len());
    for table::Column { name, values } in table {
        let is_optional = matches!(values, Values::OptionalF64(..));
        let array = array(values)?;
        fields.push(Field::new(name, array.data_type().clone(), is_optional));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

fn array(values: Values) -> Result<ArrayRef, ArrowError> {
    Ok(match values {
        Values::U32(values) => Arc::new(UInt32Array::from(values)),
        Values::U64(values) => Arc::new(UInt64Array::from(values)),
        Values::F64(values) => Arc::new(Float64Array::from(values)),
        Values::OptionalF64(values, valid) => {
            Arc::new(Float64Array::try_new(values.into(), Some(NullBuffer::from(valid)))?)
        }
        Values::Flag(values) => Arc::new(BooleanArray::from(values)),
        Values::Text(keys, texts) => {
            let texts = Arc::new(StringArray::from(texts));
            Arc::new(DictionaryArray::<Int32Type>::try_new(Int32Array::from(keys), texts)?)
        }
    })
}

#[pymethods]
impl Table {
    /// Export an Arrow C stream. A requested schema is ignored, as the interface permits.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new(batches, self.schema.clone())));
        PyCapsule::new_with_value(py, stream, STREAM)
    }

    /// Export the Arrow C schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = arrow_schema::ffi::FFI_ArrowSchema::try_from(&*self.schema).map_err(unusable)?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Return a column as a list, with None where there is no value.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, pyo3::types::PyList>> {
        let ix = self.schema.index_of(name).map_err(|_| {
            let columns = self.columns();
            let hint = net::did_you_mean::suggestion(name, columns.iter().map(String::as_str));
            failure(format!("there is no column `{name}`\nhint: {hint}"))
        })?;
        let list = pyo3::types::PyList::empty(py);
        for batch in &self.batches {
            append(&list, batch.column(ix))?;
        }
        Ok(list)
    }

    /// The memory address of a numeric column in each chunk.
    fn addresses(&self, name: &str) -> PyResult<Vec<usize>> {
        let ix = self.schema.index_of(name).map_err(unusable)?;
        let address = |batch: &RecordBatch| {
            let data = batch.column(ix).to_data();
            data.buffers().first().map_or(0, |buffer| buffer.as_ptr() as usize)
        };
        Ok(self.batches.iter().map(address).collect())
    }

    /// Return the first rows as a table in HTML, for notebooks.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let escape = py.import("html")?.getattr("escape")?;
        let format = py.import("builtins")?.getattr("format")?;
        let row = |tag: &str, cells: &[String]| -> String {
            let cells: String = cells.iter().map(|cell| format!("<{tag}>{cell}</{tag}>")).collect();
            format!("<tr>{cells}</tr>")
        };
        let text = |text: &Bound<'_, PyAny>| escape.call1((text,))?.extract::<String>();
        let names = self.columns().into_iter().map(|name| text(name.into_pyobject(py)?.as_any()));
        let mut html = format!("<table><thead>{}</thead><tbody>", row("th", &names.collect::<PyResult<Vec<_>>>()?));
        let mut left = ROWS_SHOWN;
        for batch in &self.batches {
            let head = batch.slice(0, left.min(batch.num_rows()));
            let columns = head.columns().iter().map(|array| {
                let list = pyo3::types::PyList::empty(py);
                append(&list, array).map(|()| list)
            });
            let columns: Vec<_> = columns.collect::<PyResult<_>>()?;
            for number in 0..head.num_rows() {
                let cells = columns.iter().map(|column| {
                    let value = column.get_item(number)?;
                    let spec = if value.is_instance_of::<pyo3::types::PyFloat>() { ".6g" } else { "" };
                    if value.is_none() { Ok(String::new()) } else { text(&format.call1((value, spec))?) }
                });
                html += &row("td", &cells.collect::<PyResult<Vec<_>>>()?);
            }
            left -= head.num_rows();
        }
        Ok(format!("{html}</tbody></table>{} rows", self.__len__()))
    }

    fn __repr__(&self) -> String {
        format!("<Table: {} rows, {} columns>", self.__len__(), self.schema.fields().len())
    }
}

fn append(list: &Bound<'_, pyo3::types::PyList>, array: &ArrayRef) -> PyResult<()> {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
    match array.data_type() {
        DataType::UInt32 => array.as_primitive::<UInt32Type>().iter().try_for_each(|value| list.append(value)),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().iter().try_for_each(|value| list.append(value)),
        DataType::Float64 => array.as_primitive::<Float64Type>().iter().try_for_each(|value| list.append(value)),
        DataType::Boolean => array.as_boolean().iter().try_for_each(|value| list.append(value)),
        _ => {
            let texts = array.as_dictionary::<Int32Type>();
            let texts = texts.downcast_dict::<StringArray>().expect("texts are dictionaries of texts");
            (0..texts.len()).try_for_each(|row| list.append(arrow_array::ArrayAccessor::value(&texts, row)))
        }
    }
}
