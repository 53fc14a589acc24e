//! A network as an environment for learning: a run that stops at regular intervals of simulated time,
//! and a balancer that a program steers then.
//!
//! The run is on its own thread. It hands over what it sees, waits for the action, and goes on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use balance::dataplane::{Cx, NextHops, PacketView, SwitchBalancer, SwitchEnv};
use balance::entry::Foreign;
use balance::{Build, Entry, Granularity, Needs, Params, Spec};
use net::{LinkIx, Time};
use pyo3::prelude::*;
use sim::watch::{NetworkState, Watch};

use crate::{exception, failure};

/// Unit of the factors of weights: 1.0.
const ONE: u32 = 256;
/// Largest factor, in both directions.
const FACTOR_MAX: f64 = 64.0;

/// State that a program steers. It changes only while the run stands still, so all switches see a change at the
/// same time.
struct Steering {
    /// Balancers to choose from; only those of switches, and at least one.
    specs: Vec<Spec>,
    chosen: AtomicUsize,
    /// Factors of the weights of links, in units of 1 / [`ONE`].
    factors: Vec<AtomicU32>,
}

/// Steerings by the number of their environment. Constructors of the registry are functions without
/// state, and look up the steering here.
static STEERINGS: Mutex<BTreeMap<String, Arc<Steering>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicUsize = AtomicUsize::new(1);

fn steered(env: &SwitchEnv<'_>, params: &Params) -> Box<dyn SwitchBalancer> {
    let steerings = STEERINGS.lock().unwrap_or_else(PoisonError::into_inner);
    let steering = steerings.get(params.text("code")).expect("an environment is registered before its runs").clone();
    let build = |spec: &Spec| match spec.entry.build {
        Build::Switch(build) => build(env, &spec.params),
        _ => unreachable!("an environment has balancers of switches only"),
    };
    let inner = steering.specs.iter().map(build).collect();
    Box::new(Steered { steering, inner, weights: Vec::new() })
}

/// A switch that passes decisions to the chosen balancer, with the weights that the program wants.
struct Steered {
    steering: Arc<Steering>,
    inner: Vec<Box<dyn SwitchBalancer>>,
    weights: Vec<u32>,
}

impl SwitchBalancer for Steered {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let chosen = &mut self.inner[self.steering.chosen.load(Ordering::Relaxed)];
        if !chosen.needs_weights() {
            return chosen.choose(cx, packet, NextHops { weights: &[], ..members });
        }
        let factor = |link: &LinkIx| u64::from(self.steering.factors[link.0 as usize].load(Ordering::Relaxed));
        let scaled = |(link, weight): (&LinkIx, &u32)| {
            u32::try_from(u64::from(*weight) * factor(link)).unwrap_or(u32::MAX).max(u32::from(*weight > 0))
        };
        self.weights.clear();
        self.weights.extend(members.links.iter().zip(members.weights).map(scaled));
        chosen.choose(cx, packet, NextHops { links: members.links, weights: &self.weights })
    }

    fn needs_weights(&self) -> bool {
        self.inner.iter().any(|inner| inner.needs_weights())
    }
}

/// Observation at the end of an interval: the return value of [`Fabric::step`].
type Look = (f64, u64, u64, Vec<u32>, Vec<u64>);

struct Episode {
    /// Goes on with the run.
    go: Sender<()>,
    looks: Mutex<Receiver<Look>>,
    run: JoinHandle<Result<Option<String>, anabranch_cli::CliError>>,
}

struct Watcher {
    interval: Time,
    go: Receiver<()>,
    looks: Sender<Look>,
}

impl Watch for Watcher {
    fn interval(&self) -> Time {
        self.interval
    }

    fn look(&mut self, state: &NetworkState<'_>) -> bool {
        let queued = state.links.iter().map(|link| link.queued_bytes).collect();
        let carried = state.links.iter().map(|link| link.carried_bytes).collect();
        let look = (state.now.as_us_f64(), state.flows_running, state.flows_ended, queued, carried);
        // The program may have abandoned the run.
        self.looks.send(look).is_ok() && self.go.recv().is_ok()
    }
}

/// A network whose balancer is steered.
#[pyclass(frozen, module = "anabranch._native")]
pub struct Fabric {
    experiment: Arc<experiment::Experiment>,
    spec: Spec,
    code: String,
    steering: Arc<Steering>,
    interval: Time,
    episode: Mutex<Option<Episode>>,
}

#[pymethods]
impl Fabric {
    /// Take the first variant of an experiment; `interval_us` is the time between two actions, and
    /// `balancers` are those to choose from.
    #[new]
    fn new(of: &crate::experiment::Experiment, interval_us: f64, balancers: Vec<String>) -> PyResult<Fabric> {
        if !(interval_us.is_finite() && (1e-3..=1e12).contains(&interval_us)) {
            return Err(failure(format!("interval = {interval_us} us: must be from 0.001 to 1e12")));
        }
        let specs: Vec<Spec> = balancers
            .iter()
            .map(|text| {
                let spec = Spec::parse(text).map_err(|error| failure(error.to_string()))?;
                let scale = balance::Scale {
                    base_rtt: Time::from_us(50),
                    hop_delay: Time::from_us(50),
                    packet_bytes: 1500,
                    host_rate: net::Bandwidth::from_gbps(10),
                };
                let needs = (spec.entry.needs)(&scale, &spec.params);
                let is_plain = matches!(spec.entry.build, Build::Switch(_)) && needs == Needs::default();
                match is_plain {
                    true => Ok(spec),
                    false => Err(failure(format!(
                        "`{text}` does not decide in each switch alone, so it cannot be chosen here"
                    ))),
                }
            })
            .collect::<PyResult<_>>()?;
        if specs.is_empty() {
            return Err(failure("an environment needs at least one balancer"));
        }
        let experiment = of.shared();
        let links = experiment.variants[0].topology.links().len();
        let factors = (0..links).map(|_| AtomicU32::new(ONE)).collect();
        let code = format!("environment-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let steering = Arc::new(Steering { specs, chosen: AtomicUsize::new(0), factors });
        STEERINGS.lock().unwrap_or_else(PoisonError::into_inner).insert(code.clone(), steering.clone());
        // Hosts resequence if one of the balancers spreads the packets of a flow.
        let is_by_flow = steering.specs.iter().all(|spec| spec.entry.granularity == Granularity::Flow);
        let granularity = if is_by_flow { Granularity::MovableFlow } else { Granularity::Packet };
        let about = Foreign { name: "steered", summary: "Steered.", granularity, code: &code };
        let spec = Spec::of(Entry::foreign(about, Build::Switch(steered)));
        let interval = Time::from_ps((interval_us * 1e6) as u64);
        Ok(Fabric { experiment, spec, code, steering, interval, episode: Mutex::new(None) })
    }

    /// Offered loads of the experiment.
    #[getter]
    fn loads(&self) -> Vec<Option<f64>> {
        self.experiment.variants[0].loads.clone()
    }

    /// Number of flows of a run, by load.
    #[getter]
    fn flow_counts(&self) -> Vec<u64> {
        self.experiment.variants[0].flow_counts.clone()
    }

    /// Links by number: names of both ends, rate in bit/s, and its place: `host`, `up` (away from hosts) or
    /// `down`.
    #[getter]
    fn links(&self) -> Vec<(String, String, u64, &'static str)> {
        let topology = &self.experiment.variants[0].topology;
        let of = |link: &net::Link| {
            let (from, to) = (topology.node(link.from), topology.node(link.to));
            let place = match (from.tier.0, to.tier.0) {
                (0, _) | (_, 0) => "host",
                (from, to) if to > from => "up",
                _ => "down",
            };
            (from.name.clone(), to.name.clone(), link.rate.as_bps(), place)
        };
        topology.links().iter().map(of).collect()
    }

    /// Begin a run; an earlier one is abandoned.
    fn start(&self, py: Python<'_>, load: Option<f64>, seed: u64) {
        py.detach(|| self.end());
        self.steer(None, &[]);
        let (go, going) = channel();
        let (seen, looks) = channel();
        let mut watcher = Watcher { interval: self.interval, go: going, looks: seen };
        let (experiment, spec) = (self.experiment.clone(), self.spec.clone());
        let run = std::thread::spawn(move || {
            // The first action counts from the beginning.
            if watcher.go.recv().is_err() {
                return Ok(None);
            }
            let done = experiment::run_watched(&experiment, &spec, load, seed, &mut watcher)?;
            Ok(done.map(|summary| serde_json::to_string(&summary).expect("a summary is JSON")))
        });
        *self.lock() = Some(Episode { go, looks: Mutex::new(looks), run });
    }

    /// Act, and run to the end of the interval. Returns the time in microseconds, flows running and ended,
    /// bytes queued at and carried by each link; None if the run has ended.
    fn step(&self, py: Python<'_>, chosen: Option<usize>, factors: Vec<f64>) -> PyResult<Option<Look>> {
        if chosen.is_some_and(|chosen| chosen >= self.steering.specs.len()) {
            return Err(failure(format!("there are {} balancers", self.steering.specs.len())));
        }
        if !factors.is_empty() && factors.len() != self.steering.factors.len() {
            return Err(failure(format!("there are {} links", self.steering.factors.len())));
        }
        self.steer(chosen, &factors);
        let episode = self.lock();
        let Some(episode) = episode.as_ref() else { return Err(failure("the run has not begun: call reset")) };
        let (go, looks) = (&episode.go, &episode.looks);
        let _ = go.send(());
        Ok(py.detach(|| looks.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()))
    }

    /// Return the metrics of the run that has ended, as JSON.
    fn result(&self, py: Python<'_>) -> PyResult<String> {
        let Some(Episode { go, run, .. }) = self.lock().take() else { return Err(failure("no run has ended")) };
        drop(go);
        match py.detach(|| run.join()) {
            Ok(Ok(Some(json))) => Ok(json),
            Ok(Ok(None)) => Err(failure("the run was abandoned")),
            Ok(Err(error)) => Err(exception(error)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Abandon the run, if any.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }
}

impl Fabric {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Episode>> {
        self.episode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        if let Some(Episode { go, looks, run }) = self.lock().take() {
            drop((go, looks));
            let _ = run.join();
        }
    }

    /// Sets the balancer and the factors of all links; without factors all are 1.
    fn steer(&self, chosen: Option<usize>, factors: &[f64]) {
        self.steering.chosen.store(chosen.unwrap_or(0), Ordering::Relaxed);
        for (link, stored) in self.steering.factors.iter().enumerate() {
            let factor = factors.get(link).copied().unwrap_or(1.0).clamp(1.0 / FACTOR_MAX, FACTOR_MAX);
            stored.store((factor * f64::from(ONE)).round() as u32, Ordering::Relaxed);
        }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.end();
        STEERINGS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.code);
    }
}
