//! Time to repair: rules are deleted behind the controller's back, and the time passes until they
//! are back. Before, without any load, the controller's audit is measured: its CPU time and what it
//! asks.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use openflow::{FlowMod, FlowModCommand, FlowStats, Instructions, Match, TableId};
use serde::Serialize;

use crate::fleet::{Fleet, TICK};
use crate::measure::{Bench, Target};
use crate::report::shape_text;
use crate::{Error, process};

/// Silence that shows that the controller has installed its rules.
const QUIET: Duration = Duration::from_secs(1);

/// The rules that are deleted behind the controller's back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deletion {
    /// All rules of the first switch that has any.
    One,
    /// All rules of all switches.
    All,
}

impl Deletion {
    pub const fn name(self) -> &'static str {
        match self {
            Deletion::One => "one",
            Deletion::All => "all",
        }
    }
}

/// Durations of the phases of a measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RepairSchedule {
    /// Maximum time until the controller has installed its rules.
    pub install_max: Duration,
    /// Duration of the observation without load.
    pub idle: Duration,
    /// Maximum time until deleted rules are back.
    pub repair_max: Duration,
}

/// The requests by which a controller audits rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct AuditRequests {
    /// Requests for statistics of rules.
    pub flow_statistics: u64,
    /// Requests that start flow monitors.
    pub flow_monitors: u64,
}

/// A controller with its rules installed and no load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct IdleReport {
    pub seconds: f64,
    /// Number of rules of all switches together.
    pub rules: u64,
    /// Audit requests since the connections opened.
    pub requests_before: AuditRequests,
    /// Audit requests during the observation.
    pub requests: AuditRequests,
    /// CPU seconds of the controller per second; `None` if its process is unknown.
    pub controller_cpu_share: Option<f64>,
    pub resident_bytes: Option<u64>,
}

/// A deletion and what followed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Repair {
    pub deletion: &'static str,
    pub switches: usize,
    pub rules: u64,
    /// Deleted rules that were not back in time.
    pub missing: u64,
    /// Time until all rules of a switch were back: median, 99th percentile and maximum over the
    /// repaired switches, in seconds; `None` if no switch was repaired.
    pub seconds: Option<[f64; 3]>,
    pub flow_mods: u64,
    pub requests: AuditRequests,
    /// CPU time of the controller until the end of the repair, in seconds.
    pub controller_cpu_s: Option<f64>,
    pub resident_max: Option<u64>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RepairReport {
    pub name: String,
    pub shape: String,
    /// Whether the switches have flow monitors.
    pub has_flow_monitors: bool,
    pub idle: IdleReport,
    pub repairs: Vec<Repair>,
    /// Number of switches that lost their connection.
    pub lost: usize,
}

/// A rule without its counters.
type Rule = (TableId, u16, Match, Instructions, u64);

/// Measures one controller. `progress` receives progress messages.
///
/// # Errors
/// The controller cannot be reached, does not finish its handshake, closes all its connections, or
/// installs no rules.
pub fn measure_repair(
    mut target: Target,
    deletions: &[Deletion],
    schedule: RepairSchedule,
    progress: &mut dyn FnMut(&str),
) -> Result<RepairReport, Error> {
    target.options.applies_flow_mods = true;
    progress(&format!("{}: handshake and hosts", target.name));
    let mut bench = Bench::prepare(target)?;
    bench.wait_for_rules(schedule.install_max)?;
    if bench.fleet.rules() == 0 {
        return Err(Error::NoRules { controller: bench.target.options.controller });
    }
    progress(&format!("{}: idle", bench.target.name));
    let idle = bench.idle_report(schedule.idle)?;
    let mut repairs = Vec::new();
    for deletion in deletions {
        progress(&format!("{}: rules of {} deleted", bench.target.name, deletion.name()));
        repairs.push(bench.repair(*deletion, schedule.repair_max)?);
        bench.wait_for_rules(schedule.install_max)?;
    }
    Ok(RepairReport {
        shape: shape_text(&bench.target.options.shape),
        has_flow_monitors: bench.target.options.has_flow_monitors,
        idle,
        repairs,
        lost: bench.fleet.lost().count(),
        name: bench.target.name,
    })
}

impl Bench {
    /// Serves until the controller has sent no flow-mod for a while.
    fn wait_for_rules(&mut self, most: Duration) -> Result<(), Error> {
        let end = Instant::now() + most;
        let (mut count, mut since) = (self.fleet.flow_mods(), Instant::now());
        while since.elapsed() < QUIET && Instant::now() < end {
            self.serve(TICK)?;
            let now = self.fleet.flow_mods();
            if now != count {
                (count, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    fn serve(&mut self, timeout: Duration) -> Result<(), Error> {
        self.fleet.service(timeout)?;
        self.fleet.tick();
        if self.fleet.lost().count() == self.fleet.switches.len() {
            return Err(self.fleet.first_loss().expect("all are lost, and there is one"));
        }
        Ok(())
    }

    fn cpu_s(&self) -> Option<f64> {
        self.target.pid.and_then(process::cpu_s)
    }

    fn idle_report(&mut self, duration: Duration) -> Result<IdleReport, Error> {
        let (requests_before, cpu_before, begin) = (self.fleet.audit_requests, self.cpu_s(), Instant::now());
        while begin.elapsed() < duration {
            self.serve(TICK)?;
        }
        let seconds = begin.elapsed().as_secs_f64();
        self.look_at_memory();
        Ok(IdleReport {
            seconds,
            rules: self.fleet.rules(),
            requests_before,
            requests: self.fleet.audit_requests.since(requests_before),
            controller_cpu_share: self.cpu_s().zip(cpu_before).map(|(after, before)| (after - before) / seconds),
            resident_bytes: self.resident_max,
        })
    }

    fn repair(&mut self, deletion: Deletion, most: Duration) -> Result<Repair, Error> {
        let (requests, cpu_before) = (self.fleet.audit_requests, self.cpu_s());
        self.resident_max = None;
        let mut pending = self.fleet.delete_rules(deletion);
        let flow_mods = self.fleet.flow_mods();
        let (switches, rules) = (pending.len(), pending.iter().map(|(_, rules)| rules.len() as u64).sum());
        let (begin, mut times) = (Instant::now(), Vec::new());
        let mut flow_mods_seen: Vec<u64> =
            self.fleet.switches.iter().map(|fake| fake.switch.tally().flow_mods).collect();
        while !pending.is_empty() && begin.elapsed() < most {
            self.serve(TICK)?;
            let elapsed = begin.elapsed().as_secs_f64();
            pending.retain(|(at, rules)| {
                let switch = &self.fleet.switches[*at].switch;
                let count = switch.tally().flow_mods;
                let has_changed = std::mem::replace(&mut flow_mods_seen[*at], count) != count;
                let is_repaired = has_changed && rules.is_subset(&rules_of(switch));
                if is_repaired {
                    times.push(elapsed);
                }
                !is_repaired
            });
        }
        self.look_at_memory();
        let missing = |(at, rules): &(usize, BTreeSet<Rule>)| {
            rules.difference(&rules_of(&self.fleet.switches[*at].switch)).count() as u64
        };
        Ok(Repair {
            deletion: deletion.name(),
            switches,
            rules,
            missing: pending.iter().map(missing).sum(),
            seconds: quantiles(times),
            flow_mods: self.fleet.flow_mods() - flow_mods,
            requests: self.fleet.audit_requests.since(requests),
            controller_cpu_s: self.cpu_s().zip(cpu_before).map(|(after, before)| after - before),
            resident_max: self.resident_max,
        })
    }
}

impl Fleet {
    fn flow_mods(&self) -> u64 {
        self.switches.iter().map(|fake| fake.switch.tally().flow_mods).sum()
    }

    fn rules(&self) -> u64 {
        self.switches.iter().map(|fake| u64::from(fake.switch.tally().entries)).sum()
    }

    /// Deletes rules as another program would. Returns the deleted rules that do not expire, by
    /// switch.
    fn delete_rules(&mut self, deletion: Deletion) -> Vec<(usize, BTreeSet<Rule>)> {
        let everything = FlowMod {
            command: FlowModCommand::Delete,
            ..FlowMod::add(TableId::ALL, 0, Match::default(), Instructions::default())
        };
        let now = net::Time::from_ns(self.now_ns());
        let mut deleted = Vec::new();
        for at in 0..self.switches.len() {
            let switch = &mut self.switches[at].switch;
            let rules = rules_of(switch);
            if rules.is_empty() {
                continue;
            }
            deleted.push((at, rules));
            // A deletion of everything is valid on every switch.
            let _ = switch.flow_mod_by_other(now, everything.clone());
            self.drain(at, &[]);
            if deletion == Deletion::One {
                break;
            }
        }
        self.settle();
        deleted
    }
}

fn rules_of(switch: &switch::Switch) -> BTreeSet<Rule> {
    let lasts = |entry: &FlowStats| (entry.idle_timeout_s, entry.hard_timeout_s) == (0, 0);
    let rule = |entry: FlowStats| (entry.table, entry.priority, entry.match_, entry.instructions, entry.cookie);
    switch.entries().into_iter().filter(lasts).map(rule).collect()
}

impl AuditRequests {
    fn since(self, before: AuditRequests) -> AuditRequests {
        AuditRequests {
            flow_statistics: self.flow_statistics - before.flow_statistics,
            flow_monitors: self.flow_monitors - before.flow_monitors,
        }
    }
}

/// Returns median, 99th percentile and maximum; the lower of two middle values.
fn quantiles(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some([last / 2, last * 99 / 100, last].map(|at| values[at]))
}

impl RepairReport {
    /// Returns what a caller must notice without reading figures.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.lost > 0 {
            faults.push(format!("{} switches lost their connection", self.lost));
        }
        for repair in self.repairs.iter().filter(|repair| repair.missing > 0) {
            let Repair { deletion, missing, rules, .. } = repair;
            faults.push(format!("{missing} of {rules} deleted rules (deletion: {deletion}) did not come back in time"));
        }
        faults
    }
}
