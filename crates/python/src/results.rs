//! Results folders.

use std::path::PathBuf;

use experiment::claims::METRICS;
use experiment::results::{points_csv, table};
use experiment::statistics;
use experiment::summary::Summary;
use pyo3::prelude::*;

use crate::table::Table;
use crate::{exception, failure};

/// The results of an experiment in a folder, where every run has ended.
#[pyclass(frozen, module = "anabranch._native")]
pub struct Results {
    folder: PathBuf,
    summary: Summary,
}

#[pymethods]
impl Results {
    /// Read the summary of a folder; it must be as it was written.
    #[new]
    fn new(py: Python<'_>, folder: PathBuf) -> PyResult<Results> {
        let (summary, _) = py.detach(|| experiment::load(&folder)).map_err(exception)?;
        Ok(Results { folder, summary })
    }

    #[getter]
    fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    /// The content of `summary.json`, as JSON text.
    #[getter]
    fn summary(&self) -> PyResult<String> {
        serde_json::to_string(&self.summary).map_err(|error| failure(error.to_string()))
    }

    /// The table that the command prints.
    fn text(&self) -> String {
        anabranch_cli::summary_text(&self.summary, false)
    }

    fn points(&self) -> PyResult<Table> {
        Table::new(vec![points_csv::table(&self.summary.points)])
    }

    fn runs(&self) -> PyResult<Table> {
        Table::new(vec![statistics::run_table(&self.summary.runs)])
    }

    /// Read a Parquet file of the folder.
    fn parquet(&self, py: Python<'_>, name: &str, missing: &str) -> PyResult<Table> {
        let path = self.folder.join(name);
        if !path.is_file() {
            return Err(failure(format!("{} does not exist\nhint: {missing}", path.display())));
        }
        let read = py.detach(|| table::read_parquet(&path));
        Table::new(read.map_err(|cause| failure(format!("cannot read {}: {cause}", path.display())))?)
    }

    fn compare(&self, metric: &str) -> PyResult<Table> {
        let info = METRICS.iter().find(|info| info.name == metric).ok_or_else(|| {
            let hint = net::did_you_mean::suggestion(metric, METRICS.iter().map(|info| info.name));
            failure(format!("there is no metric `{metric}`\nhint: {hint}"))
        })?;
        let rows = statistics::compare(&self.summary.runs, info, &self.summary.rule());
        Table::new(vec![statistics::comparison_table(&rows)])
    }
}
