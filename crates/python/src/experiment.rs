//! Experiments: read from TOML text, and run as the command runs them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use experiment::input::{Context, TraceFiles};
use experiment::runner::{RunError, RunJob, RunOutput, RunProgress, Runner, Simulator};
use experiment::shard::{Shard, missing, run_shard};
use experiment::{Observer, Options, Override, Progress, run_in};
use pyo3::prelude::*;

use crate::balancers::{About, Class, class_of};
use crate::{exception, failure};

/// Time between two looks at signals and two calls of the progress function.
const POLL: Duration = Duration::from_millis(50);

/// An experiment that was read and checked.
#[pyclass(frozen, module = "anabranch._native")]
pub struct Experiment(Arc<experiment::Experiment>, Vec<Arc<Class>>);

#[pymethods]
impl Experiment {
    /// Read TOML text. Messages quote `file`; `name` is the default name.
    #[new]
    fn new(py: Python<'_>, text: &str, file: &str, name: &str, given: Given) -> PyResult<Experiment> {
        let classes: Vec<_> = given.balancers.iter().map(|about| class_of(about, py)).collect::<PyResult<_>>()?;
        let balancers = classes.iter().map(|class| class.entry).collect();
        let context = Context { folder: given.folder, texts: given.texts, balancers };
        let of = |(key, value): &(String, String)| Override::value(key, value, format!("{key} = {value}"));
        let overrides: Vec<Override> = given.overrides.iter().map(of).collect();
        let read = py.detach(|| experiment::Experiment::parse_with(file, text, name, context, &overrides));
        read.map(|read| Experiment(Arc::new(read), classes)).map_err(exception)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The complete file: running it again gives the same results.
    #[getter]
    fn toml(&self) -> &str {
        &self.0.file
    }

    /// The files that `toml` expects in the folder `inputs` next to it, by name.
    #[getter]
    fn inputs(&self) -> BTreeMap<String, String> {
        self.0.inputs.iter().map(|input| (input.stored.clone(), input.text.clone())).collect()
    }

    /// The files of execution traces, each with its name in that folder.
    #[getter]
    fn traces(&self) -> Vec<(PathBuf, String)> {
        self.0.traces.iter().flat_map(TraceFiles::copies).map(|(path, name)| (path.to_owned(), name)).collect()
    }

    #[getter]
    fn balancers(&self) -> Vec<String> {
        self.0.balancers.iter().map(balance::Spec::label).collect()
    }

    #[getter]
    fn variants(&self) -> Vec<String> {
        self.0.variants.iter().map(|variant| variant.label.clone()).collect()
    }

    #[getter]
    fn run_count(&self) -> usize {
        self.0.run_count()
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.left_out.iter().chain(&self.0.warnings).cloned().collect()
    }

    /// Run what the folder does not have. `progress` is called with runs done, runs in all, the
    /// share of flows done, and packet-hops.
    fn run(&self, py: Python<'_>, options: RunOptions, progress: Option<Py<PyAny>>) -> PyResult<()> {
        anabranch_cli::refuse_others_results(&self.0, &options.out).map_err(exception)?;
        let options = options.of_program();
        watched(py, &self.1, progress, |observer, stop| {
            run_in(&Guarded(&self.1), &self.0, &options, observer, stop).map(|_| ())
        })?
        .map_err(exception)
    }

    /// Return the numbers, from 1, of the runs that the folder lacks; a part of this number out of
    /// `run_count` is that run alone. A folder of another experiment is an error.
    fn missing(&self, py: Python<'_>, options: RunOptions) -> PyResult<Vec<usize>> {
        anabranch_cli::refuse_others_results(&self.0, &options.out).map_err(exception)?;
        let options = options.of_program();
        py.detach(|| missing(&Simulator, &self.0, &options)).map_err(exception)
    }

    /// Run one part of the runs into a separate folder.
    fn run_shard(
        &self,
        py: Python<'_>,
        number: usize,
        count: usize,
        options: RunOptions,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let shard =
            Shard::new(number, count).ok_or_else(|| failure(format!("there is no part {number} of {count}")))?;
        let options = options.of_program();
        watched(py, &self.1, progress, |observer, stop| {
            run_shard(&Guarded(&self.1), &self.0, shard, &options, observer, stop).map(|_| ())
        })?
        .map_err(exception)
    }

    /// Put the results of parts together.
    fn merge(&self, py: Python<'_>, folders: Vec<PathBuf>, options: RunOptions) -> PyResult<()> {
        anabranch_cli::refuse_others_results(&self.0, &options.out).map_err(exception)?;
        let options = options.of_program();
        py.detach(|| experiment::merge::merge(&Simulator, &self.0, &folders, &options).map(|_| ())).map_err(exception)
    }
}

impl Experiment {
    /// Returns the experiment, for what outlives this object.
    pub fn shared(&self) -> Arc<experiment::Experiment> {
        self.0.clone()
    }
}

/// The files, values and balancers that belong to an experiment: a dictionary in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Given {
    /// Folder that paths are relative to.
    folder: PathBuf,
    /// Texts of files that exist only in memory, by path.
    texts: BTreeMap<String, String>,
    /// Values in TOML of keys, which count as those of the command's options.
    overrides: Vec<(String, String)>,
    /// Classes of balancers in Python that the text names.
    balancers: Vec<About>,
}

/// How to run: a dictionary in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RunOptions {
    out: PathBuf,
    jobs: usize,
    threads: usize,
    flows: bool,
}

impl RunOptions {
    fn of_program(self) -> Options {
        Options { out: self.out, jobs: self.jobs, threads: self.threads, flows: self.flows, flow_lists: false }
    }
}

/// The simulator, without the results of a run in which a balancer raised an exception.
struct Guarded<'a>(&'a [Arc<Class>]);

impl Runner for Guarded<'_> {
    fn name(&self) -> &'static str {
        Simulator.name()
    }

    fn run(
        &self,
        job: &RunJob<'_>,
        progress: &mut (dyn FnMut(&RunProgress) -> bool + Send),
    ) -> Result<RunOutput, RunError> {
        let is_sound = || !self.0.iter().any(|class| class.has_exception());
        let output = Simulator.run(job, &mut |now| is_sound() && progress(now))?;
        if is_sound() { Ok(output) } else { Err(RunError::Interrupted) }
    }
}

#[derive(Default)]
struct Latest(Mutex<Progress>);

impl Observer for Latest {
    fn progress(&self, progress: &Progress) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = *progress;
    }
}

/// Runs `work` on a thread without the interpreter's lock, while this one calls `progress` and
/// looks at signals. An exception of either, such as `KeyboardInterrupt`, or of a balancer of `classes`
/// stops the work, and is returned; completed runs are kept.
pub fn watched<T: Send>(
    py: Python<'_>,
    classes: &[Arc<Class>],
    progress: Option<Py<PyAny>>,
    work: impl Fn(&dyn Observer, &AtomicBool) -> T + Sync,
) -> PyResult<T> {
    let (latest, stop) = (Latest::default(), AtomicBool::new(false));
    // An exception of an earlier run that was stopped for another reason.
    classes.iter().for_each(|class| drop(class.take_exception()));
    let report = |py: Python<'_>| -> PyResult<()> {
        py.check_signals()?;
        let Some(progress) = &progress else { return Ok(()) };
        let now = *latest.0.lock().unwrap_or_else(PoisonError::into_inner);
        let share = now.flows_done as f64 / now.flows_total.max(1) as f64;
        progress.call1(py, (now.runs_done, now.runs_total, share.min(1.0), now.packet_hops)).map(|_| ())
    };
    let (ended, end) = mpsc::channel::<()>();
    let (end, mut raised) = (Mutex::new(end), Ok(()));
    let done = thread::scope(|scope| {
        let (work, latest, stop) = (&work, &latest, &stop);
        let worker = scope.spawn(move || {
            let done = work(latest, stop);
            drop(ended);
            done
        });
        let wait = || end.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(POLL);
        while py.detach(wait) == Err(RecvTimeoutError::Timeout) {
            if raised.is_ok() {
                raised = report(py);
                stop.store(raised.is_err(), Ordering::Relaxed);
            }
        }
        py.detach(|| worker.join())
    });
    raised?;
    if let Some(raised) = classes.iter().find_map(|class| class.take_exception()) {
        return Err(raised);
    }
    let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    report(py)?;
    Ok(done)
}
