//! Latency of well-behaved switches under attack. Loops with and without the attack alternate, so
//! that both columns come from the same run, connections and machine state.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::attack::{Attack, AttackIntensity, AttackStats, Attacker};
use crate::measure::{Bench, Schedule, Target};
use crate::outstanding::Tally;
use crate::report::{Counts, Latency, counts, load_text};
use crate::{Error, process};

/// Pause after an attack, before the next loop without one.
const RECOVERY_TIME: Duration = Duration::from_millis(500);
/// Wait after the last loop before the final memory reading, so that freed memory has been
/// returned.
const MEMORY_SETTLE_TIME: Duration = Duration::from_millis(1_500);

/// Factor of the latency limit: the 99th percentile may be twice the baseline plus 1 ms. Twice,
/// since the attacker shares one core, so that a fair controller may give it half; 1 ms, since
/// operating systems do not guarantee wake-ups within a baseline of 0.1 ms.
const BASELINE_FACTOR: f64 = 2.0;
const SLACK_US: f64 = 1_000.0;

/// Latency and counts of well-behaved switches in loops of one kind.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LoopStats {
    /// Latency of responses; `None` without responses.
    pub latency: Option<Latency>,
    pub counts: Counts,
    /// CPU seconds of the controller per second; `None` if its process is unknown.
    pub controller_share: Option<f64>,
}

/// One controller under one attack.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AttackReport {
    /// Name of the attack.
    pub attack: &'static str,
    /// Load of the well-behaved switches, as text.
    pub load: String,
    /// Loops without the attack.
    pub usual: LoopStats,
    /// Loops with the attack.
    pub attacked: LoopStats,
    /// Statistics of the attacker, per loop.
    pub deeds: Vec<AttackStats>,
    /// Resident memory of the controller before the first loop, in bytes.
    pub resident_before: Option<u64>,
    /// Maximum resident memory, in bytes.
    pub resident_max: Option<u64>,
    /// Resident memory after the last loop, in bytes.
    pub resident_after: Option<u64>,
}

impl AttackReport {
    /// Returns the failed criteria as text; empty if the well-behaved switches were served.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let counts = self.attacked.counts;
        if counts.connections_lost > 0 {
            faults.push(format!("{} well-behaved switches lost their connection", counts.connections_lost));
        }
        if counts.unanswered > 0 {
            faults.push(format!("{} of {} packet-ins got no response", counts.unanswered, counts.packet_ins));
        }
        match (self.usual.latency, self.attacked.latency) {
            (Some(usual), Some(attacked)) => {
                let limit = BASELINE_FACTOR * usual.p99_us + SLACK_US;
                if attacked.p99_us > limit {
                    let (p99, limit) = (attacked.p99_us / 1e3, limit / 1e3);
                    faults
                        .push(format!("the 99th percentile of the latency is {p99:.3} ms; the limit is {limit:.3} ms"));
                }
            }
            _ => faults.push("no packet-in got a response".to_owned()),
        }
        faults
    }
}

/// Runs one attack after the other on a controller. `schedule` sets the number of loops with and
/// without each attack.
///
/// # Errors
/// A controller cannot be reached, does not finish its handshake, or closes all its connections; or
/// an attack needs more connections than the limit of this process allows.
pub fn measure_under_attack(
    target: Target,
    attacks: &[Attack],
    force: AttackIntensity,
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<AttackReport>, Error> {
    progress(&format!("{}: handshake and hosts", target.name));
    let mut bench = Bench::prepare(target)?;
    for _ in 0..schedule.warm_up {
        bench.round(schedule.duration, &mut [])?;
    }
    attacks.iter().map(|attack| run_attack(&mut bench, *attack, force, schedule, progress)).collect()
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
    fn column(&self, lost: u64) -> LoopStats {
        LoopStats {
            latency: Latency::of(&self.tally),
            counts: counts(&self.tally, lost),
            controller_share: self.cpu_s.map(|cpu_s| cpu_s / self.seconds),
        }
    }
}

fn run_attack(
    bench: &mut Bench,
    attack: Attack,
    force: AttackIntensity,
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<AttackReport, Error> {
    let resident = |bench: &Bench| bench.target.pid.and_then(process::resident_bytes);
    let resident_before = resident(bench);
    bench.resident_max = resident_before;
    let (mut usual, mut attacked, mut deeds) = (Sum::default(), Sum::default(), Vec::new());
    for round in 0..schedule.loops.max(1) {
        progress(&format!("{}: {}, loop {}", bench.target.name, attack.name(), round + 1));
        usual.add(&bench.round(schedule.duration, &mut [])?);
        let options = bench.target.options.clone();
        let mut meanwhile = || bench.idle(Duration::from_millis(20));
        let attacker = Attacker::start(attack, force, &options, &mut meanwhile)?;
        attacked.add(&bench.round(schedule.duration, &mut [])?);
        deeds.push(attacker.end()?);
        bench.idle(RECOVERY_TIME)?;
    }
    bench.idle(MEMORY_SETTLE_TIME)?;
    let lost = bench.fleet.lost().count() as u64;
    Ok(AttackReport {
        attack: attack.name(),
        load: load_text(bench.target.options.load),
        usual: usual.column(0),
        attacked: attacked.column(lost),
        deeds,
        resident_before,
        resident_max: bench.resident_max,
        resident_after: resident(bench),
    })
}

impl Bench {
    /// Waits while replying to requests of the controller.
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
