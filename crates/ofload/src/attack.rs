//! Peers that mean harm, run beside a measurement in a thread of their own: what they do to others is what is measured.
//!
//! They take whatever the generator leaves of its core: their thread has the ordinary priority where the generator's is
//! real-time. None of them stops because it is refused or closed; it comes again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::crowd::Crowd;
use crate::fabric::SWITCHES_MAX;
use crate::fleet::Fleet;
use crate::options::{Load, Options, Shape};
use crate::{Error, process};

/// Hosts behind the switch that floods: enough pairs for ARP requests that wait for their answers.
const FLOOD_HOSTS: u32 = 250;
/// Packet-ins of a flooding switch that may wait for their answers; more are not told apart.
const FLOOD_WAITING: u32 = 32_768;
/// Bytes that may wait in a flooding switch: the controller may read slower, and is not to be let off by a full buffer.
const FLOOD_BACKLOG: usize = 256 << 10;
/// How long an attack may take until it has begun in full.
const GATHER_MAX: Duration = Duration::from_secs(5);

/// A kind of attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attack {
    /// Connections that send noise, headers followed by noise, and damaged messages.
    RandomBytes,
    /// Connections that finish the hello, announce a message of 64 KiB, and send it byte by byte without ever ending it.
    HalfMessages,
    /// Connections that say nothing.
    Silent,
    /// One switch in good standing that sends packet-ins of its hosts without measure.
    Flood,
}

impl Attack {
    /// All there are.
    pub const ALL: [Attack; 4] = [Attack::RandomBytes, Attack::HalfMessages, Attack::Silent, Attack::Flood];

    /// As options and reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Attack::RandomBytes => "random-bytes",
            Attack::HalfMessages => "half-messages",
            Attack::Silent => "silent",
            Attack::Flood => "flood",
        }
    }
}

/// How much of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Force {
    /// Connections of [`Attack::Silent`] and [`Attack::HalfMessages`] kept open, or tried to; those that are closed come
    /// again.
    pub connections: u32,
    /// The same of [`Attack::RandomBytes`].
    pub noisy: u32,
    /// Packet-ins per second of [`Attack::Flood`].
    pub rate: f64,
}

impl Default for Force {
    fn default() -> Force {
        Force { connections: 10_000, noisy: 64, rate: 200_000.0 }
    }
}

/// What an attack did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Deeds {
    /// Connections made.
    pub connections: u64,
    /// Most open at once, as far as its side can tell.
    pub open_max: u64,
    /// Connections the controller ended.
    pub closed: u64,
    /// Connections that could not be made.
    pub refused: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packet-ins sent by a switch that floods.
    pub packet_ins: u64,
    /// Of these: answered.
    pub answered: u64,
}

/// An attack under way.
#[derive(Debug)]
pub(crate) struct Attacker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Deeds, Error>>>,
}

/// What the thread of an attack is told and tells.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    pub(crate) stop: Arc<AtomicBool>,
    /// Everything it meant to do first has been done or refused.
    pub(crate) is_under_way: Arc<AtomicBool>,
}

impl Attacker {
    /// Begins, and waits until it is under way. `options` are those of the measurement.
    pub(crate) fn start(
        attack: Attack,
        force: Force,
        options: &Options,
        meanwhile: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Attacker, Error> {
        let signals = Signals { stop: Arc::default(), is_under_way: Arc::default() };
        let (stop, is_under_way) = (signals.stop.clone(), signals.is_under_way.clone());
        let flood = flood_options(options);
        let body = move || {
            process::make_ordinary();
            match attack {
                Attack::Flood => flood_until(&flood, force.rate, &signals),
                _ => Crowd::new(attack, force, flood.controller)?.run_until(&signals),
            }
        };
        let thread = std::thread::Builder::new().name(attack.name().to_owned()).spawn(body).map_err(Error::Poll)?;
        let attacker = Attacker { stop, thread: Some(thread) };
        let end = Instant::now() + GATHER_MAX;
        let is_running = |attacker: &Attacker| attacker.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        while !is_under_way.load(Ordering::Acquire) && is_running(&attacker) && Instant::now() < end {
            meanwhile()?;
        }
        Ok(attacker)
    }

    /// Ends; what it did.
    pub(crate) fn end(mut self) -> Result<Deeds, Error> {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take().expect("it is taken here only");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn flood_options(options: &Options) -> Options {
    Options {
        shape: Shape::Star { switches: 1, hosts: FLOOD_HOSTS },
        base: SWITCHES_MAX,
        load: Load::Window(FLOOD_WAITING),
        patience: Duration::from_millis(100),
        quiet: Duration::from_millis(200),
        keeps_rules: false,
        ..options.clone()
    }
}

/// A switch like the others that sends as fast as wanted, or as the controller reads.
fn flood_until(options: &Options, rate: f64, signals: &Signals) -> Result<Deeds, Error> {
    let (mut deeds, mut all) = (Deeds::default(), crate::book::Tally::default());
    while !signals.stop.load(Ordering::Acquire) {
        let mut fleet = Fleet::connect(options)?;
        if let Err(error) = fleet.handshake().and_then(|()| fleet.learn()) {
            // Whoever is shut out for good does no harm, and that is the controller's right.
            deeds.refused += 1;
            if deeds.refused > 100 {
                return Err(error);
            }
            continue;
        }
        deeds.connections += 1;
        deeds.open_max = 1;
        fleet.begin_measuring();
        signals.is_under_way.store(true, Ordering::Release);
        let (start, mut sent) = (Instant::now(), 0);
        while !signals.stop.load(Ordering::Acquire) && fleet.lost().count() == 0 {
            let due = (start.elapsed().as_secs_f64() * rate) as u64;
            let now_ns = fleet.now_ns();
            // What could not be sent in time is not made up for: the rate is a rate, not a debt.
            sent = sent.max(due.saturating_sub(10_000));
            while sent < due && fleet.backlog(0) < FLOOD_BACKLOG {
                fleet.send_probe(0, now_ns);
                sent += 1;
            }
            fleet.touch(0);
            fleet.service(Duration::from_millis(1))?;
            fleet.tick();
        }
        deeds.closed += fleet.lost().count() as u64;
        all.add(&fleet.tally);
    }
    deeds.packet_ins = all.sent;
    deeds.answered = all.responses + all.responses_after + all.late;
    Ok(deeds)
}
