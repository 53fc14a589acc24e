//! What attacks do to those who behave: loops with and without an attack take turns, so that both columns come from the
//! same run, the same connections and the same state of the machine.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::attack::{Attack, Attacker, Deeds, Force};
use crate::book::Tally;
use crate::measure::{Bench, Schedule, Target};
use crate::report::{Counts, Latency, counts, load_words};
use crate::{Error, process};

/// What is left of an attack is given so long to go, before the next loop without one.
const AFTERMATH: Duration = Duration::from_millis(500);
/// Memory is looked at this long after the last loop: what is given back is given back by then.
const SETTLING: Duration = Duration::from_millis(1_500);

/// Those who behave count as served if the 99th percentile of their latency is at most twice the usual one and 1 ms. Twice,
/// since the attacker's bytes and theirs share one core, so that a fair controller may give each half of it; 1 ms, since a
/// usual latency of 0.1 ms is below what operating systems promise of wake-ups.
const TIMES_USUAL: f64 = 2.0;
const SLACK_US: f64 = 1_000.0;

/// Well-behaved switches in loops of one kind.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Column {
    /// Latency; `None` if nothing was answered.
    pub latency: Option<Latency>,
    /// What was counted.
    pub counts: Counts,
    /// CPU time of the controller per second, s, where its process is known.
    pub controller_share: Option<f64>,
}

/// One controller under one attack.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Ordeal {
    /// The attack.
    pub attack: &'static str,
    /// The load of those who behave, in words.
    pub load: String,
    /// Loops without the attack.
    pub usual: Column,
    /// Loops with it.
    pub attacked: Column,
    /// What the attacker did, one loop after the other.
    pub deeds: Vec<Deeds>,
    /// Resident memory of the controller before the first loop, bytes.
    pub resident_before: Option<u64>,
    /// Most of it that was seen.
    pub resident_max: Option<u64>,
    /// Afterwards.
    pub resident_after: Option<u64>,
}

impl Ordeal {
    /// What was not as it should be, in words; empty if those who behave were served.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let counts = self.attacked.counts;
        if counts.connections_lost > 0 {
            faults.push(format!("{} well-behaved switches lost their connection", counts.connections_lost));
        }
        if counts.unanswered > 0 {
            faults.push(format!("{} of {} packet-ins were not answered", counts.unanswered, counts.packet_ins));
        }
        match (self.usual.latency, self.attacked.latency) {
            (Some(usual), Some(attacked)) => {
                let limit = TIMES_USUAL * usual.p99_us + SLACK_US;
                if attacked.p99_us > limit {
                    let (p99, limit) = (attacked.p99_us / 1e3, limit / 1e3);
                    faults.push(format!("99 % of the answers took up to {p99:.3} ms; the limit is {limit:.3} ms"));
                }
            }
            _ => faults.push("nothing was answered".to_owned()),
        }
        faults
    }
}

/// Puts a controller to one attack after the other. `schedule` has as many loops with as without each of them.
///
/// # Errors
/// A controller cannot be reached, does not finish its handshake, or closes all its connections; an attack needs more
/// connections than this process may have.
pub fn besiege(
    target: Target,
    attacks: &[Attack],
    force: Force,
    schedule: Schedule,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<Ordeal>, Error> {
    tell(&format!("{}: handshake and hosts", target.name));
    let mut bench = Bench::prepare(target)?;
    for _ in 0..schedule.warm_up {
        bench.round(schedule.duration, &mut [])?;
    }
    attacks.iter().map(|attack| ordeal(&mut bench, *attack, force, schedule, tell)).collect()
}

/// Sums of loops of one kind.
#[derive(Default)]
struct Sum {
    tally: Tally,
    seconds: f64,
    cpu_s: Option<f64>,
}

impl Sum {
    fn add(&mut self, (one, tally): &(crate::report::Loop, Tally)) {
        self.tally.add(tally);
        self.seconds += one.seconds;
        self.cpu_s = one.controller_cpu_s.map(|cpu_s| self.cpu_s.unwrap_or(0.0) + cpu_s);
    }
    fn column(&self, lost: u64) -> Column {
        Column {
            latency: Latency::of(&self.tally),
            counts: counts(&self.tally, lost),
            controller_share: self.cpu_s.map(|cpu_s| cpu_s / self.seconds),
        }
    }
}

fn ordeal(
    bench: &mut Bench,
    attack: Attack,
    force: Force,
    schedule: Schedule,
    tell: &mut dyn FnMut(&str),
) -> Result<Ordeal, Error> {
    let resident = |bench: &Bench| bench.target.pid.and_then(process::resident_bytes);
    let resident_before = resident(bench);
    bench.resident_max = resident_before;
    let (mut usual, mut attacked, mut deeds) = (Sum::default(), Sum::default(), Vec::new());
    for round in 0..schedule.loops.max(1) {
        tell(&format!("{}: {}, loop {}", bench.target.name, attack.name(), round + 1));
        usual.add(&bench.round(schedule.duration, &mut [])?);
        let options = bench.target.options.clone();
        let mut meanwhile = || bench.idle(Duration::from_millis(20));
        let attacker = Attacker::start(attack, force, &options, &mut meanwhile)?;
        attacked.add(&bench.round(schedule.duration, &mut [])?);
        deeds.push(attacker.end()?);
        bench.idle(AFTERMATH)?;
    }
    bench.idle(SETTLING)?;
    let lost = bench.fleet.lost().count() as u64;
    Ok(Ordeal {
        attack: attack.name(),
        load: load_words(bench.target.options.load),
        usual: usual.column(0),
        attacked: attacked.column(lost),
        deeds,
        resident_before,
        resident_max: bench.resident_max,
        resident_after: resident(bench),
    })
}

impl Bench {
    /// Lets time pass; what the controller asks is answered.
    fn idle(&mut self, duration: Duration) -> Result<(), Error> {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            self.fleet.service(Duration::from_millis(5))?;
            self.fleet.tick();
        }
        self.look_at_memory();
        Ok(())
    }
}
