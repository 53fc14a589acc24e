//! The measurement: every controller is connected and learns its hosts; then their loops alternate.

use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use mio::Interest;
use mio::unix::SourceFd;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::Error;
use crate::fleet::{Fleet, TICK, TIMER};
use crate::options::{Load, Options, ResponseCriterion};
use crate::outstanding::{Counts, Tally};
use crate::process;
use crate::report::{Latency, Links, Loop, Loops, Report, Spread, load_text, shape_text};

/// Time after a packet-in of an open loop in which the generator polls without sleeping: a sleeping
/// processor of a virtual machine takes 0.1 ms to wake, which would count as latency of the
/// controller.
const AWAKE: Duration = Duration::from_millis(2);
/// Shortest period between two checks of an open loop; packet-ins that become due within it are
/// sent together.
const PACE_MIN: Duration = Duration::from_micros(50);

const LOOK: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct Target {
    pub name: String,
    pub options: Options,
    /// Process id, if it runs on this machine and its CPU time and memory are measured.
    pub pid: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Schedule {
    /// Number of counted loops, at least one.
    pub loops: u32,
    pub warm_up: u32,
    pub duration: Duration,
}

pub(crate) struct Bench {
    pub(crate) target: Target,
    pub(crate) fleet: Fleet,
    loops: Loops,
    /// Maximum resident memory of the controller since the last reset, in bytes.
    pub(crate) resident_max: Option<u64>,
    next_look: Instant,
}

/// Measures controllers together: their loops alternate. `progress` receives progress messages.
///
/// # Errors
/// A controller cannot be reached, does not finish its handshake, or closes all its connections.
pub fn measure(targets: Vec<Target>, schedule: Schedule, progress: &mut dyn FnMut(&str)) -> Result<Vec<Report>, Error> {
    let mut benches = Vec::with_capacity(targets.len());
    for target in targets {
        progress(&format!("{}: handshake and hosts", target.name));
        benches.push(Bench::prepare(target)?);
    }
    for round in 0..schedule.warm_up + schedule.loops.max(1) {
        for at in 0..benches.len() {
            let is_counted = round >= schedule.warm_up;
            let phase =
                if is_counted { format!("loop {}", round - schedule.warm_up + 1) } else { "warm-up".to_owned() };
            progress(&format!("{}: {phase}", benches[at].target.name));
            let (before, rest) = benches.split_at_mut(at);
            let (bench, after) = rest.split_first_mut().expect("`at` is an index of the list");
            let mut others: Vec<&mut Fleet> = before.iter_mut().chain(after).map(|bench| &mut bench.fleet).collect();
            let round = bench.round(schedule.duration, &mut others)?;
            if is_counted {
                bench.loops.add(round);
            }
        }
    }
    Ok(benches.into_iter().map(Bench::report).collect())
}

impl Bench {
    pub(crate) fn prepare(target: Target) -> Result<Bench, Error> {
        let mut fleet = Fleet::connect(&target.options)?;
        fleet.handshake()?;
        fleet.learn()?;
        fleet.is_measuring = true;
        Ok(Bench { target, fleet, loops: Loops::default(), resident_max: None, next_look: Instant::now() })
    }

    pub(crate) fn round(&mut self, duration: Duration, others: &mut [&mut Fleet]) -> Result<(Loop, Tally), Error> {
        self.fleet.tally = Tally::default();
        let cpu = |pid: Option<u32>| pid.and_then(process::cpu_s);
        let own = Some(std::process::id());
        let before = (cpu(self.target.pid), cpu(own));
        let start = Instant::now();
        self.fleet.is_in_loop = true;
        match self.target.options.load {
            Load::Window(window) => self.closed_loop(window, start + duration, others)?,
            Load::Rate(rate) => self.open_loop(rate, start, duration, others)?,
        }
        let elapsed = start.elapsed();
        self.fleet.is_in_loop = false;
        let after = (cpu(self.target.pid), cpu(own));
        self.wait_for_answers(others)?;
        self.look_at_memory();
        let used = |after: Option<f64>, before: Option<f64>| Some(after? - before?);
        let tally = std::mem::take(&mut self.fleet.tally);
        let one = Loop {
            seconds: elapsed.as_secs_f64(),
            responses: tally.responses,
            per_s: tally.responses as f64 / elapsed.as_secs_f64(),
            controller_cpu_s: used(after.0, before.0),
            generator_cpu_s: used(after.1, before.1),
        };
        if self.fleet.lost().count() == self.fleet.switches.len() {
            return Err(self.fleet.first_loss().expect("all are lost, and there is one"));
        }
        Ok((one, tally))
    }

    pub(crate) fn look_at_memory(&mut self) {
        let bytes = self.target.pid.and_then(process::resident_bytes);
        self.resident_max = self.resident_max.max(bytes);
        self.next_look = Instant::now() + LOOK;
    }

    fn closed_loop(&mut self, window: u32, end: Instant, others: &mut [&mut Fleet]) -> Result<(), Error> {
        self.fleet.window = window;
        (0..self.fleet.switches.len()).for_each(|at| self.fleet.touch(at));
        let mut next_tick = Instant::now() + TICK;
        let done = loop {
            let now = Instant::now();
            if now >= end {
                break Ok(());
            }
            if now >= next_tick {
                next_tick = now + TICK;
                self.tick(others)?;
            }
            if let Err(error) = self.fleet.service((end - now).min(TICK)) {
                break Err(error);
            }
        };
        self.fleet.window = 0;
        done
    }

    fn open_loop(
        &mut self,
        rate: f64,
        start: Instant,
        duration: Duration,
        others: &mut [&mut Fleet],
    ) -> Result<(), Error> {
        let pace = Duration::from_secs_f64((1.0 / rate).min(1.0)).max(PACE_MIN);
        let timer = pacer(&self.fleet, pace)?;
        let senders: Vec<usize> =
            (0..self.fleet.switches.len()).filter(|at| !self.fleet.fabric.nodes[*at].hosts.is_empty()).collect();
        let (mut sent, mut next_tick, mut last_sent) = (0u64, start + TICK, start);
        loop {
            if std::mem::take(&mut self.fleet.has_timer_fired) {
                // Only a timer that was read fires again; a spurious event leaves nothing to read.
                let _ = timer.wait();
            }
            let now = Instant::now();
            let elapsed = now - start;
            if elapsed >= duration {
                return Ok(());
            }
            let due = (elapsed.as_secs_f64() * rate) as u64;
            let now_ns = self.fleet.now_ns();
            while sent < due {
                let at = senders[(sent % senders.len() as u64) as usize];
                // A switch without a connection sends nothing; `sent` shows the lower load.
                self.fleet.send_probe(at, now_ns);
                self.fleet.touch(at);
                sent += 1;
                last_sent = now;
            }
            if now >= next_tick {
                next_tick = now + TICK;
                self.tick(others)?;
            }
            let is_awake = now < last_sent + AWAKE && self.fleet.tally.waiting() > 0;
            self.fleet.service(if is_awake { Duration::ZERO } else { (duration - elapsed).min(TICK) })?;
        }
    }

    fn wait_for_answers(&mut self, others: &mut [&mut Fleet]) -> Result<(), Error> {
        let end = Instant::now() + self.target.options.response_timeout + 2 * TICK;
        let waits = |fleet: &Fleet| fleet.switches.iter().any(|fake| fake.outstanding.waiting() > 0);
        while waits(&self.fleet) && Instant::now() < end {
            self.fleet.service(TICK)?;
            self.tick(others)?;
        }
        Ok(())
    }
    /// Handles timeouts, and keeps the connections of the other controllers alive.
    fn tick(&mut self, others: &mut [&mut Fleet]) -> Result<(), Error> {
        self.fleet.tick();
        if Instant::now() >= self.next_look {
            self.look_at_memory();
        }
        others.iter_mut().try_for_each(|other| {
            other.tick();
            other.service(Duration::ZERO)
        })
    }

    fn report(self) -> Report {
        let (fleet, options, loops) = (self.fleet, &self.target.options, self.loops);
        let links = (fleet.fabric.directed_links() > 0).then(|| Links {
            directed: fleet.fabric.directed_links(),
            found: fleet.links_seen.len(),
            after_connections_s: fleet.last_link_ns.saturating_sub(fleet.last_open_ns) as f64 / 1e9,
        });
        let lost: Vec<(usize, String)> = fleet.lost().map(|(at, reason)| (at, reason.to_owned())).collect();
        let responses: u64 = loops.list.iter().map(|one| one.responses).sum();
        let per_response =
            |cpu_s: Option<f64>| cpu_s.filter(|_| responses > 0).map(|cpu_s| cpu_s * 1e6 / responses as f64);
        let generator = loops.cpu_s(|one| one.generator_cpu_s);
        let (response, response_description) = options.response.texts();
        Report {
            name: self.target.name,
            response,
            response_description,
            load: load_text(options.load),
            shape: shape_text(&options.shape),
            per_s: Spread::of(loops.list.iter().map(|one| one.per_s).collect()),
            latency: Latency::of(&loops.tally),
            counts: Counts { connections_lost: lost.len() as u64, ..loops.tally.counts },
            controller_cpu_us: per_response(loops.cpu_s(|one| one.controller_cpu_s)),
            generator_cpu_us: per_response(generator),
            generator_cpu_share: generator.map(|cpu_s| cpu_s / loops.seconds()),
            resident_bytes: self.resident_max,
            links,
            applies_flow_mods: options.applies_flow_mods,
            loops: loops.list,
            lost,
            carried: matches!(options.response, ResponseCriterion::Service(_)).then_some(fleet.service.carried),
            refusals: fleet.refusals,
        }
    }
}

/// Returns a periodic timer that wakes the poll, whose own timeouts are whole milliseconds. It
/// stops when dropped.
fn pacer(fleet: &Fleet, pace: Duration) -> Result<TimerFd, Error> {
    let refused = |errno: nix::errno::Errno| Error::Poll(errno.into());
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK).map_err(refused)?;
    timer.set(Expiration::Interval(pace.into()), TimerSetTimeFlags::empty()).map_err(refused)?;
    let descriptor = timer.as_fd().as_raw_fd();
    fleet.poll.registry().register(&mut SourceFd(&descriptor), TIMER, Interest::READABLE).map_err(Error::Poll)?;
    Ok(timer)
}
