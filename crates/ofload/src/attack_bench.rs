//! Latency of well-behaved switches under attack. Loops with and without the attack alternate, so
//! that both columns come from the same run, connections and machine state.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::attack::{Attack, AttackIntensity, AttackStats, Attacker};
use crate::measure::{Bench, Schedule, Target};
use crate::outstanding::Counts;
use crate::report::{Latency, Loops, load_text};
use crate::{Error, process};

const RECOVERY_TIME: Duration = Duration::from_millis(500);
/// Wait after the last loop before the final memory reading, so that freed memory has been
/// returned.
const MEMORY_SETTLE_TIME: Duration = Duration::from_millis(1_500);

/// Factor of the latency limit: the 99th percentile may be twice the baseline plus 1 ms. Twice,
/// since the attacker shares one core, so that a fair controller may give it half; 1 ms, since
/// operating systems do not guarantee wake-ups within a baseline of 0.1 ms.
const BASELINE_FACTOR: f64 = 2.0;
const SLACK_US: f64 = 1_000.0;

#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LoopStats {
    /// Latency of responses; `None` without responses.
    pub latency: Option<Latency>,
    pub counts: Counts,
    /// CPU seconds of the controller per second; `None` if its process is unknown.
    pub controller_cpu_share: Option<f64>,
}

/// One controller under one attack.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AttackReport {
    pub attack: &'static str,
    pub load: String,
    pub baseline: LoopStats,
    pub attacked: LoopStats,
    pub attacker: Vec<AttackStats>,
    pub resident_before: Option<u64>,
    pub resident_max: Option<u64>,
    pub resident_after: Option<u64>,
}

impl AttackReport {
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let counts = self.attacked.counts;
        if counts.connections_lost > 0 {
            faults.push(format!("{} well-behaved switches lost their connection", counts.connections_lost));
        }
        if counts.unanswered > 0 {
            faults.push(format!("{} of {} packet-ins got no response", counts.unanswered, counts.packet_ins));
        }
        match (self.baseline.latency, self.attacked.latency) {
            (Some(baseline), Some(attacked)) => {
                let limit = BASELINE_FACTOR * baseline.p99_us + SLACK_US;
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
    intensity: AttackIntensity,
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<AttackReport>, Error> {
    progress(&format!("{}: handshake and hosts", target.name));
    let mut bench = Bench::prepare(target)?;
    for _ in 0..schedule.warm_up {
        bench.round(schedule.duration, &mut [])?;
    }
    attacks.iter().map(|attack| run_attack(&mut bench, *attack, intensity, schedule, progress)).collect()
}

fn column(loops: &Loops, lost: u64) -> LoopStats {
    LoopStats {
        latency: Latency::of(&loops.tally),
        counts: Counts { connections_lost: lost, ..loops.tally.counts },
        controller_cpu_share: loops.cpu_s(|one| one.controller_cpu_s).map(|cpu_s| cpu_s / loops.seconds()),
    }
}

fn run_attack(
    bench: &mut Bench,
    attack: Attack,
    intensity: AttackIntensity,
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<AttackReport, Error> {
    let resident = |bench: &Bench| bench.target.pid.and_then(process::resident_bytes);
    let resident_before = resident(bench);
    bench.resident_max = resident_before;
    let (mut baseline, mut attacked, mut attacker_stats) = (Loops::default(), Loops::default(), Vec::new());
    for round in 0..schedule.loops.max(1) {
        progress(&format!("{}: {}, loop {}", bench.target.name, attack.name(), round + 1));
        baseline.add(bench.round(schedule.duration, &mut [])?);
        let options = bench.target.options.clone();
        let mut meanwhile = || bench.idle(Duration::from_millis(20));
        let attacker = Attacker::start(attack, intensity, &options, &mut meanwhile)?;
        attacked.add(bench.round(schedule.duration, &mut [])?);
        attacker_stats.push(attacker.end()?);
        bench.idle(RECOVERY_TIME)?;
    }
    bench.idle(MEMORY_SETTLE_TIME)?;
    let lost = bench.fleet.lost().count() as u64;
    Ok(AttackReport {
        attack: attack.name(),
        load: load_text(bench.target.options.load),
        baseline: column(&baseline, 0),
        attacked: column(&attacked, lost),
        attacker: attacker_stats,
        resident_before,
        resident_max: bench.resident_max,
        resident_after: resident(bench),
    })
}

impl Bench {
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
