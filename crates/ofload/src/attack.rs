//! Hostile peers, which run during a measurement in a separate thread; the measurement shows their
//! effect on others.
//!
//! They use the processor time that the generator leaves on its core: their thread has ordinary
//! priority, the generator's is real-time. A peer that is rejected or closed connects again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::fabric::SWITCHES_MAX;
use crate::fleet::Fleet;
use crate::hostile_peers::HostilePeers;
use crate::options::{Load, Options, Shape};
use crate::{Error, process};

/// Number of hosts behind the flooding switch: enough pairs for outstanding ARP requests.
const FLOOD_HOSTS: u32 = 250;
/// Maximum number of outstanding packet-ins of a flooding switch; further ones are not
/// distinguished.
const FLOOD_WAITING: u32 = 32_768;
/// Maximum number of unsent bytes of a flooding switch. The controller may read slowly, and a full
/// buffer must not end the flood.
const FLOOD_BACKLOG: usize = 256 << 10;
const GATHER_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attack {
    /// Connections that send noise, headers followed by noise, and damaged messages.
    RandomBytes,
    /// Connections that finish the hello, announce a message of 64 KiB, send it byte by byte and
    /// never complete it.
    HalfMessages,
    Silent,
    /// A correctly connected switch that sends packet-ins of its hosts without a limit.
    Flood,
}

impl Attack {
    pub const ALL: [Attack; 4] = [Attack::RandomBytes, Attack::HalfMessages, Attack::Silent, Attack::Flood];

    pub const fn name(self) -> &'static str {
        match self {
            Attack::RandomBytes => "random-bytes",
            Attack::HalfMessages => "half-messages",
            Attack::Silent => "silent",
            Attack::Flood => "flood",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AttackIntensity {
    /// Target number of open connections of [`Attack::Silent`] and [`Attack::HalfMessages`]; closed
    /// ones reconnect.
    pub connections: u32,
    pub noisy: u32,
    pub rate: f64,
}

impl Default for AttackIntensity {
    fn default() -> AttackIntensity {
        AttackIntensity { connections: 10_000, noisy: 64, rate: 200_000.0 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct AttackStats {
    pub connections: u64,
    pub open_max: u64,
    pub closed: u64,
    pub refused: u64,
    pub bytes: u64,
    pub packet_ins: u64,
    pub answered: u64,
}

#[derive(Debug)]
pub(crate) struct Attacker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<AttackStats, Error>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Signals {
    pub(crate) stop: Arc<AtomicBool>,
    /// Set when the attack is in full effect, or its connections have been refused.
    pub(crate) is_in_effect: Arc<AtomicBool>,
}

impl Attacker {
    /// Starts the attack and waits until it is in full effect. `options` are those of the
    /// measurement.
    pub(crate) fn start(
        attack: Attack,
        intensity: AttackIntensity,
        options: &Options,
        meanwhile: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Attacker, Error> {
        let signals = Signals { stop: Arc::default(), is_in_effect: Arc::default() };
        let (stop, is_in_effect) = (signals.stop.clone(), signals.is_in_effect.clone());
        let flood = flood_options(options);
        let body = move || {
            process::make_ordinary();
            match attack {
                Attack::Flood => flood_until(&flood, intensity.rate, &signals),
                _ => HostilePeers::new(attack, intensity, flood.controller)?.run_until(&signals),
            }
        };
        let thread = std::thread::Builder::new().name(attack.name().to_owned()).spawn(body).map_err(Error::Poll)?;
        let attacker = Attacker { stop, thread: Some(thread) };
        let end = Instant::now() + GATHER_MAX;
        let is_active = |attacker: &Attacker| attacker.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        while !is_in_effect.load(Ordering::Acquire) && is_active(&attacker) && Instant::now() < end {
            meanwhile()?;
        }
        Ok(attacker)
    }

    pub(crate) fn end(mut self) -> Result<AttackStats, Error> {
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
        response_timeout: Duration::from_millis(100),
        settle_time: Duration::from_millis(200),
        applies_flow_mods: false,
        ..options.clone()
    }
}

fn flood_until(options: &Options, rate: f64, signals: &Signals) -> Result<AttackStats, Error> {
    let (mut stats, mut all) = (AttackStats::default(), crate::outstanding::Tally::default());
    while !signals.stop.load(Ordering::Acquire) {
        let mut fleet = Fleet::connect(options)?;
        if let Err(error) = fleet.handshake().and_then(|()| fleet.learn()) {
            // A controller may lock the attacker out: the attack then has no effect.
            stats.refused += 1;
            if stats.refused > 100 {
                return Err(error);
            }
            continue;
        }
        stats.connections += 1;
        stats.open_max = 1;
        fleet.is_measuring = true;
        signals.is_in_effect.store(true, Ordering::Release);
        let (start, mut sent) = (Instant::now(), 0);
        while !signals.stop.load(Ordering::Acquire) && fleet.lost().count() == 0 {
            let due = (start.elapsed().as_secs_f64() * rate) as u64;
            let now_ns = fleet.now_ns();
            // Missed packet-ins are not sent later: the rate is no debt.
            sent = sent.max(due.saturating_sub(10_000));
            while sent < due && fleet.switches[0].channel.outbox.len() < FLOOD_BACKLOG {
                fleet.send_probe(0, now_ns);
                sent += 1;
            }
            fleet.touch(0);
            fleet.service(Duration::from_millis(1))?;
            fleet.tick();
        }
        stats.closed += fleet.lost().count() as u64;
        all.add(&fleet.tally);
    }
    stats.packet_ins = all.counts.packet_ins;
    stats.answered = all.counts.answered + all.counts.late;
    Ok(stats)
}
