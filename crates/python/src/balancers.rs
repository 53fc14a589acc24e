//! Balancers written in Python: each decision is a call of a method. They exist in this process only.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use balance::dataplane::{
    Cx, EdgeBalancer, EdgeEnv, NextHops, PacketView, PathFeedback, Paths, SwitchBalancer, SwitchEnv,
};
use balance::entry::Foreign;
use balance::{Build, Entry, Granularity, Params, Spec};
use experiment::Threads;
use net::RandomStream;
use pyo3::exceptions::PyAssertionError;
use pyo3::prelude::*;
use sim::conformance::{self, Subject};

use crate::experiment::watched;
use crate::failure;

/// A class of balancers, with the first exception that one of them raised.
pub struct Class {
    class: Py<PyAny>,
    pub entry: &'static Entry,
    raised: Mutex<Option<PyErr>>,
}

/// Classes by the hash of their source. Constructors of the registry are functions without state, and
/// look up their class here.
static CLASSES: Mutex<BTreeMap<String, Arc<Class>>> = Mutex::new(BTreeMap::new());

/// What describes a class: a dictionary in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct About {
    name: String,
    summary: String,
    granularity: String,
    code: String,
    is_edge: bool,
    class: Py<PyAny>,
}

/// Returns the class of a description; equal code is one class.
pub fn class_of(about: &About, py: Python<'_>) -> PyResult<Arc<Class>> {
    let granularity = match about.granularity.as_str() {
        "packet" => Granularity::Packet,
        "flow" => Granularity::Flow,
        "flowlet" => Granularity::Flowlet,
        other => return Err(failure(format!("granularity = `{other}`: must be packet, flow or flowlet"))),
    };
    let is_name = |text: &str| {
        text.starts_with(|letter: char| letter.is_ascii_lowercase())
            && text.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
    };
    if !is_name(&about.name) || balance::registry::find(&about.name).is_ok() {
        let reason = "must be lower-case letters, digits and hyphens, and not that of a balancer of the program";
        return Err(failure(format!("the name `{}` of a balancer {reason}", about.name)));
    }
    let mut classes = CLASSES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = classes.get(&about.code).filter(|class| class.entry.name == about.name);
    if let Some(class) = known.filter(|class| class.class.is(&about.class)) {
        return Ok(class.clone());
    }
    let build = match about.is_edge {
        true => Build::Edge(edge),
        false => Build::Switch(switch),
    };
    let described = Foreign { name: &about.name, summary: &about.summary, granularity, code: &about.code };
    let entry = known.map_or_else(|| Entry::foreign(described, build), |class| class.entry);
    let class = Arc::new(Class { class: about.class.clone_ref(py), entry, raised: Mutex::new(None) });
    classes.insert(about.code.clone(), class.clone());
    Ok(class)
}

impl Class {
    /// Returns and forgets the first exception of an instance.
    pub fn take_exception(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub fn has_exception(&self) -> bool {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn keep(&self, error: PyErr) {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

fn found(params: &Params) -> Arc<Class> {
    let classes = CLASSES.lock().unwrap_or_else(PoisonError::into_inner);
    classes.get(params.text("code")).expect("a class is registered before its experiment").clone()
}

fn switch(env: &SwitchEnv<'_>, params: &Params) -> Box<dyn SwitchBalancer> {
    let place = Place { name: env.name.to_owned(), node: env.switch.0, tier: env.tier.0, seed: env.seed };
    Box::new(Instance::new(found(params), place))
}

fn edge(env: &EdgeEnv<'_>, params: &Params) -> Box<dyn EdgeBalancer> {
    let node = env.topology.node(env.edge);
    let place = Place { name: node.name.clone(), node: env.edge.0, tier: node.tier.0, seed: env.seed };
    Box::new(Instance::new(found(params), place))
}

/// The switch or edge of an instance.
#[pyclass(frozen, get_all, module = "anabranch._native")]
#[derive(Clone)]
pub struct Place {
    /// Its name in the topology.
    name: String,
    /// Number of its node in the topology.
    node: u32,
    /// Number of links from the hosts up to it.
    tier: u8,
    /// Seed of the run, from which instances derive hashes.
    seed: u64,
}

/// The properties of a packet that a balancer can read.
#[pyclass(frozen, get_all, module = "anabranch._native")]
pub struct Packet {
    /// Number of the flow; a later flow may get the same one.
    flow: u32,
    /// Hash of the five-tuple in the direction of travel.
    hash: u64,
    /// Size on the wire, bytes.
    bytes: u32,
    /// Number of the host that sent it.
    src: u32,
    /// Number of the host that receives it.
    dst: u32,
    /// Number of the receiver's first switch, among those of all receivers.
    to: u32,
    /// Whether it carries payload, and is not a bare acknowledgement.
    is_data: bool,
    /// Whether this payload was sent before.
    is_retransmission: bool,
    /// Traffic class, 0 to 7.
    priority: u8,
}

impl Packet {
    fn of(packet: &PacketView) -> Packet {
        Packet {
            flow: packet.flow,
            hash: packet.hash,
            bytes: packet.bytes,
            src: packet.src.0,
            dst: packet.dst.0,
            to: packet.to.0,
            is_data: packet.is_data,
            is_retransmission: packet.is_retransmission,
            priority: packet.priority,
        }
    }
}

/// The candidates of a decision, the time, and the random numbers of the place.
#[pyclass(module = "anabranch._native")]
pub struct Candidates {
    /// Numbers of links, or of paths.
    #[pyo3(get)]
    numbers: Vec<u32>,
    /// Bytes queued at each port; empty for paths.
    #[pyo3(get)]
    queued_bytes: Vec<u64>,
    /// The path that the flow used last, if it is live; None for ports.
    #[pyo3(get)]
    current: Option<u32>,
    /// Simulated time of the decision, picoseconds.
    #[pyo3(get)]
    now_ps: u64,
    random: RandomStream,
}

#[pymethods]
impl Candidates {
    fn __len__(&self) -> usize {
        self.numbers.len()
    }

    /// Return 64 random bits of the stream of this place.
    fn random_u64(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// Return a random whole number from 0 to n - 1.
    fn random_below(&mut self, n: u64) -> PyResult<u64> {
        if n == 0 { Err(failure("random_below: n must be above 0")) } else { Ok(self.random.next_below(n)) }
    }

    /// Return a random number in [0, 1).
    fn random(&mut self) -> f64 {
        self.random.next_f64()
    }
}

/// An acknowledgement that came back to an edge.
#[pyclass(frozen, get_all, module = "anabranch._native")]
pub struct Feedback {
    /// Number of the flow; a later flow may get the same one.
    flow: u32,
    /// Number of the receiver's first switch, among those of all receivers.
    to: u32,
    /// Number of the path of the data packet.
    path: u32,
    /// Time from the packet's departure to this acknowledgement, picoseconds.
    rtt_ps: u64,
    /// Whether the data packet was marked.
    marked: bool,
}

/// An instance of a class, at one switch or edge.
struct Instance {
    class: Arc<Class>,
    /// `None` after an exception: the run is about to end, and the first candidate serves until then.
    object: Option<Py<PyAny>>,
    has_feedback: bool,
}

impl Instance {
    fn new(class: Arc<Class>, place: Place) -> Instance {
        let made = Python::attach(|py| {
            let object = class.class.call1(py, (place,))?;
            let has_feedback = object.bind(py).hasattr("on_feedback")?;
            Ok((object, has_feedback))
        });
        match made {
            Ok((object, has_feedback)) => Instance { class, object: Some(object), has_feedback },
            Err(error) => {
                class.keep(error);
                Instance { class, object: None, has_feedback: false }
            }
        }
    }

    /// Calls a method with the packet and the candidates. Returns the position that it chose.
    fn decide(&mut self, method: &str, cx: &mut Cx<'_>, packet: &PacketView, candidates: Candidates) -> usize {
        let Some(object) = &self.object else { return 0 };
        let count = candidates.numbers.len();
        let chosen = Python::attach(|py| {
            let candidates = Py::new(py, candidates)?;
            let chosen = object.call_method1(py, method, (Packet::of(packet), &candidates))?;
            *cx.rng = candidates.borrow(py).random.clone();
            let chosen: i64 = chosen.extract(py)?;
            usize::try_from(chosen).ok().filter(|chosen| *chosen < count).ok_or_else(|| {
                let name = self.class.entry.name;
                failure(format!(
                    "balancer `{name}`: {method} returned {chosen}, and there are {count} candidates, from 0"
                ))
            })
        });
        chosen.unwrap_or_else(|error| {
            self.class.keep(error);
            self.object = None;
            0
        })
    }
}

impl SwitchBalancer for Instance {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let candidates = Candidates {
            numbers: members.links.iter().map(|link| link.0).collect(),
            queued_bytes: members.links.iter().map(|link| cx.ports.queued_bytes(*link)).collect(),
            current: None,
            now_ps: cx.now.as_ps(),
            random: cx.rng.clone(),
        };
        self.decide("choose", cx, packet, candidates)
    }
}

impl EdgeBalancer for Instance {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let candidates = Candidates {
            numbers: paths.live.iter().map(|path| u32::from(*path)).collect(),
            queued_bytes: Vec::new(),
            current: paths.current.map(u32::from),
            now_ps: cx.now.as_ps(),
            random: cx.rng.clone(),
        };
        paths.live[self.decide("path", cx, packet, candidates)]
    }

    fn on_feedback(&mut self, _: &mut Cx<'_>, feedback: &PathFeedback) {
        let Some(object) = self.object.as_ref().filter(|_| self.has_feedback) else { return };
        let feedback = Feedback {
            flow: feedback.flow,
            to: feedback.to.0,
            path: feedback.path.into(),
            rtt_ps: feedback.rtt.as_ps(),
            marked: feedback.marked,
        };
        if let Err(error) = Python::attach(|py| object.call_method1(py, "on_feedback", (feedback,)).map(|_| ())) {
            self.class.keep(error);
            self.object = None;
        }
    }
}

/// Check the properties that each balancer of the program has. Raises AssertionError for the first that is
/// missing.
#[pyfunction]
pub fn check_balancer(py: Python<'_>, about: About) -> PyResult<()> {
    let class = class_of(&about, py)?;
    let balancer = Spec::of(class.entry);
    let checked = watched(py, std::slice::from_ref(&class), None, |_, stop| {
        let may_go_on = || !class.has_exception() && !stop.load(Ordering::Relaxed);
        let subject = Subject { balancer: &balancer, workers: &Threads(3), may_go_on: &may_go_on };
        conformance::CHECKS.iter().try_for_each(|check| check(&subject))
    })?;
    checked.map_err(|violation| PyAssertionError::new_err(format!("balancer `{}`: {violation}", class.entry.name)))
}

/// Mix 64 bits: the hash of the program's switches.
#[pyfunction]
pub fn mix(value: u64) -> u64 {
    balance::hash::mix(value)
}

/// Mix a second value into a hash.
#[pyfunction]
pub fn combine(hash: u64, value: u64) -> u64 {
    balance::hash::combine(hash, value)
}
