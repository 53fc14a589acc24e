//! The native module of the Python package: thin wrappers of what the command uses, so that both
//! give the same bytes. The package itself is in `python/anabranch`.

mod balancers;
mod bounds;
mod experiment;
mod fabric;
mod results;
mod table;
mod topology;

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pyo3::create_exception!(
    anabranch,
    AnabranchError,
    PyException,
    "An error: its text, which the command prints too, says what was wrong, where, and what to do."
);

/// Returns the exception of an error of the program.
fn exception(error: impl Into<anabranch_cli::CliError>) -> PyErr {
    let text = error.into().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    AnabranchError::new_err(text.trim_end().to_owned())
}

/// Returns the exception of an error without a place.
fn failure(text: impl Into<String>) -> PyErr {
    AnabranchError::new_err(text.into())
}

/// Run the `anabranch` command. `program` is the file that starts it, `python` the interpreter.
/// Returns the exit code.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>, program: PathBuf, python: PathBuf) -> u8 {
    anabranch_cli::set_program(program, python);
    py.detach(|| anabranch_cli::run(arguments))
}

/// Return the list that `anabranch list WHAT --json` prints, as JSON text.
#[pyfunction]
fn listing(py: Python<'_>, what: &str) -> PyResult<String> {
    py.detach(|| anabranch_cli::list_json(what)).map_err(exception)
}

/// Return the path of a file: itself if it exists, otherwise the file of that name in the program.
#[pyfunction]
fn shipped(path: &str) -> PyResult<PathBuf> {
    anabranch_cli::shipped::path(path).map_err(failure)
}

/// Return an experiment file, in the order in which these are written, from a document in JSON.
#[pyfunction]
fn to_toml(json: &str) -> PyResult<String> {
    let value: toml::Table = serde_json::from_str(json).map_err(|error| failure(error.to_string()))?;
    let text = toml::to_string(&value).map_err(|error| failure(error.to_string()))?;
    let document = config::document::Document::parse("the experiment", &text, &::experiment::input::LAYOUT);
    Ok(document.map_err(exception)?.render())
}

/// Return the document of a TOML text in JSON.
#[pyfunction]
fn from_toml(text: &str) -> PyResult<String> {
    let value: toml::Table = text.parse().map_err(|error: toml::de::Error| failure(error.to_string()))?;
    serde_json::to_string(&value).map_err(|error| failure(error.to_string()))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("AnabranchError", module.py().get_type::<AnabranchError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<experiment::Experiment>()?;
    module.add_class::<fabric::Fabric>()?;
    module.add_class::<results::Results>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<topology::Topology>()?;
    module.add_class::<balancers::Place>()?;
    module.add_class::<balancers::Packet>()?;
    module.add_class::<balancers::Candidates>()?;
    module.add_class::<balancers::Feedback>()?;
    module.add_function(wrap_pyfunction!(balancers::check_balancer, module)?)?;
    module.add_function(wrap_pyfunction!(balancers::mix, module)?)?;
    module.add_function(wrap_pyfunction!(balancers::combine, module)?)?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(listing, module)?)?;
    module.add_function(wrap_pyfunction!(shipped, module)?)?;
    module.add_function(wrap_pyfunction!(to_toml, module)?)?;
    module.add_function(wrap_pyfunction!(from_toml, module)?)?;
    module.add_function(wrap_pyfunction!(bounds::pattern_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(bounds::concurrent, module)?)?;
    Ok(())
}
