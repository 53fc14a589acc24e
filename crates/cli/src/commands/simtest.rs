//! `anabranch simtest`: tests the controller and the switches under thousands of random fault plans.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use comfy_table::Table;
use simtest::{Failure, Mutant, Oracle, Plan, Reduction, Report, Shrunk};

use crate::error::CliError;
use crate::interrupt;

/// Test the controller and its switches under random faults
///
/// Each seed is a separate simulation test: a network, a central balancer, flows, and faults of
/// links, switches, control channels and the controller itself. During and after the faults,
/// oracles check for loops, losses, black holes and leftover rules. The tests of a seed are always
/// identical.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  anabranch simtest --seeds 2000\n  anabranch simtest --seed 17 --shrink\n  \
                        anabranch simtest --seed 17 --actions 3,7,9")]
pub struct Args {
    /// Simulation tests to run; 200 if neither this nor --minutes is given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Seed of the first test
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    from: u64,
    /// Start no test after this many minutes
    #[arg(long, value_name = "N")]
    minutes: Option<f64>,
    /// Continue after a failure, and list all failures
    #[arg(long)]
    keep_going: bool,
    /// Threads; one per core if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// Run only the test of this seed, and print its events
    #[arg(long, value_name = "SEED", conflicts_with_all = ["from", "seeds", "minutes", "jobs"])]
    seed: Option<u64>,
    /// Reduce a failing test before it is printed
    #[arg(long)]
    shrink: bool,
    /// With --seed: only these actions, by number; `none` for no action
    #[arg(long, value_name = "LIST", requires = "seed")]
    actions: Option<String>,
    /// With --seed: without these hosts
    #[arg(long, value_name = "LIST", requires = "seed", value_delimiter = ',')]
    without_hosts: Vec<usize>,
    /// With --seed: without these switches
    #[arg(long, value_name = "LIST", requires = "seed", value_delimiter = ',')]
    without_switches: Vec<usize>,
    /// Without virtual services and their clients, and with flat addresses
    #[arg(long)]
    without_services: bool,
    /// Without disruptions by other programs, peers, controller instances and pauses, and without
    /// limited switches
    #[arg(long)]
    without_disruptions: bool,
    /// A test that takes longer than this many seconds fails; 0 for no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    seed_seconds: u64,
    /// Without faults of the network: only flows, clients, and services that change
    #[arg(long, conflicts_with = "actions")]
    without_faults: bool,
    /// With --seed: halve the duration this many times
    #[arg(long, value_name = "N", requires = "seed", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=20))]
    halve_duration: u32,
    /// With --seed: print every message
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Insert a mutant (a deliberate defect), to see whether an oracle finds it; `list` prints the
    /// mutants
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    // A panic in a test is reported with its seed.
    std::panic::set_hook(Box::new(|panic| {
        let is_reported = panic.location().is_some_and(|at| !at.file().contains("crates/cli/"));
        if !is_reported {
            eprintln!("{panic}");
        }
    }));
    let Some(mutant) = mutant(args)? else { return Ok(()) };
    match args.seed {
        Some(seed) => one(args, seed, mutant),
        None => many(args, mutant),
    }
}

/// Returns the chosen mutant, if any; the outer `None` if the mutants were only listed.
fn mutant(args: &Args) -> Result<Option<Option<Mutant>>, CliError> {
    let Some(name) = &args.mutant else { return Ok(Some(None)) };
    let named = |mutant: &Mutant| format!("{mutant:?}");
    if name == "list" {
        let mut out = std::io::stdout().lock();
        for mutant in Mutant::ALL {
            writeln!(out, "{:<20} {}", named(mutant), mutant.description())?;
        }
        return Ok(None);
    }
    let found = Mutant::ALL.iter().find(|mutant| named(mutant) == *name);
    let unknown = || CliError::new(format!("--mutant {name}: unknown mutant"));
    let hint = || format!("they are {}", Mutant::ALL.iter().map(named).collect::<Vec<_>>().join(", "));
    found.map(|found| Some(Some(*found))).ok_or_else(|| unknown().with_hint(hint()))
}

fn reduction(args: &Args, plan: &Plan) -> Result<Reduction, CliError> {
    let numbers = |text: &str| -> Result<BTreeSet<u32>, CliError> {
        if text == "none" {
            return Ok(BTreeSet::new());
        }
        let number = |part: &str| part.trim().parse().map_err(|_| part.to_owned());
        text.split(',').map(number).collect::<Result<_, _>>().map_err(|part| {
            CliError::new(format!("--actions {text}: `{part}` is not a number of an action"))
                .with_hint("write them as --actions 3,7,9, or `none`")
        })
    };
    let without_faults = || args.without_faults.then(|| Reduction::without_faults(plan).keep).flatten();
    Ok(Reduction {
        keep: args.actions.as_deref().map(numbers).transpose()?.or_else(without_faults),
        without_hosts: args.without_hosts.iter().copied().collect(),
        without_switches: args.without_switches.iter().copied().collect(),
        halvings: args.halve_duration,
        is_without_services: args.without_services,
        is_without_disruptions: args.without_disruptions,
    })
}

/// Runs a test within the limit of seconds. A test that is not finished then goes on in its thread
/// until the program ends: a simulation has no wall clock, so nothing can stop it.
fn run_limited(args: &Args, plan: &Plan, reduction: &Reduction, mutant: Option<Mutant>) -> Result<Report, Failure> {
    if args.seed_seconds == 0 {
        return simtest::run_plan(plan, reduction, mutant);
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let (plan, reduction) = (plan.clone(), reduction.clone());
    std::thread::spawn(move || drop(sender.send(simtest::run_plan(&plan, &reduction, mutant))));
    receiver.recv_timeout(Duration::from_secs(args.seed_seconds)).unwrap_or_else(|_| {
        let message = format!("takes too long: more than {} s", args.seed_seconds);
        Err(Failure { oracle: Oracle::TooLong, at: net::Time::ZERO, message })
    })
}

fn one(args: &Args, seed: u64, mutant: Option<Mutant>) -> Result<(), CliError> {
    let plan = simtest::generate::plan(seed);
    let reduction = reduction(args, &plan)?;
    let result = match args.trace {
        // A closed pipe ends the output, not the test.
        true => simtest::trace(&plan, &reduction, mutant, Box::new(|line| drop(writeln!(std::io::stdout(), "{line}")))),
        false => run_limited(args, &plan, &reduction, mutant),
    };
    let mut out = std::io::stdout().lock();
    match result {
        Ok(report) => {
            print_plan(&mut out, &reduction.apply(&plan))?;
            Ok(print_report(&mut out, 1, &report, Duration::ZERO)?)
        }
        Err(failure) => Err(print_failure(&mut out, args, &plan, reduction, mutant, &failure)?),
    }
}

/// Every test has its seed, which a shared counter assigns.
fn many(args: &Args, mutant: Option<Mutant>) -> Result<(), CliError> {
    let begun = Instant::now();
    let limit = args.minutes.map(|minutes| Duration::from_secs_f64(minutes.clamp(0.0, 1e7) * 60.0));
    let seeds = args.seeds.unwrap_or(if limit.is_some() { u64::MAX } else { 200 });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(cores, |jobs| jobs as usize);
    let (next, has_failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let stop = interrupt::listen(None);
    let done = Mutex::new((0u64, Report::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let is_late = limit.is_some_and(|limit| begun.elapsed() > limit);
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let is_over = number >= seeds || is_late || has_failed.load(Ordering::Relaxed);
                    if is_over || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let seed = args.from.wrapping_add(number);
                    let plan = simtest::generate::plan(seed);
                    let reduction = reduction(args, &plan).expect("--actions needs --seed");
                    let result = run_limited(args, &plan, &reduction, mutant);
                    let mut done = done.lock().expect("no thread panics with the lock");
                    done.0 += 1;
                    match result {
                        Ok(report) => done.1.add(&report),
                        Err(failure) => {
                            eprintln!("seed {seed}: {failure}");
                            has_failed.store(!args.keep_going, Ordering::Relaxed);
                            done.2.push((seed, failure));
                        }
                    }
                    if done.0.is_multiple_of(100) {
                        eprintln!("{} tests, {:.0} s", done.0, begun.elapsed().as_secs_f64());
                    }
                }
            });
        }
    });
    let (tests, report, mut failures) = done.into_inner().expect("no thread panics with the lock");
    failures.sort_by_key(|(seed, _)| *seed);
    let mut out = std::io::stdout().lock();
    print_report(&mut out, tests, &report, begun.elapsed())?;
    for (seed, failure) in failures.iter().skip(1) {
        writeln!(out, "seed {seed}: {failure}")?;
    }
    match failures.first() {
        None => Ok(()),
        Some((seed, failure)) => {
            let plan = simtest::generate::plan(*seed);
            let reduction = reduction(args, &plan)?;
            Err(print_failure(&mut out, args, &plan, reduction, mutant, failure)?)
        }
    }
}

fn print_plan(out: &mut impl Write, plan: &Plan) -> std::io::Result<()> {
    plan.to_lines().iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn print_failure(
    out: &mut impl Write,
    args: &Args,
    plan: &Plan,
    reduction: Reduction,
    mutant: Option<Mutant>,
    failure: &simtest::Failure,
) -> Result<CliError, CliError> {
    let mut shrunk = Shrunk { reduction, failure: failure.clone(), runs: 0 };
    if args.shrink && failure.oracle != Oracle::TooLong {
        let stop = interrupt::listen(None);
        let go_on = || !stop.load(Ordering::Relaxed);
        shrunk = simtest::shrink(plan, &shrunk.reduction, mutant, failure, 2_000, go_on);
        writeln!(out, "reduced by {} simulation tests:", shrunk.runs)?;
    }
    print_plan(out, &shrunk.reduction.apply(plan))?;
    let mut command = format!("anabranch simtest --seed {}{}", plan.seed, shrunk.reduction.options());
    if let Some(mutant) = mutant {
        command += &format!(" --mutant {mutant:?}");
    }
    let mut error = CliError::new(format!("the simulation test of seed {} fails: {}", plan.seed, shrunk.failure));
    if !args.shrink {
        error = error.caused_by("add --shrink to reduce it");
    }
    Ok(error.with_hint(format!("repeat it with: {command}")).found_by_check())
}

fn print_report(out: &mut impl Write, tests: u64, report: &Report, elapsed: Duration) -> std::io::Result<()> {
    let mut table = Table::new();
    table.set_header(["tests", "events", "faults", "flows", "frames sent", "lost", "moves", "pairs checked"]);
    let numbers = [
        tests,
        report.events,
        report.faults,
        report.flows,
        report.frames_sent,
        report.frames_lost,
        report.moves,
        report.pairs_checked,
    ];
    table.add_row(numbers.map(|number| number.to_string()));
    writeln!(out, "{table}")?;
    let exemptions = &report.exemptions;
    writeln!(
        out,
        "messages: {} down, {} up, {} changes, {} errors\nexempted: {} frames during repair, {} out of control, {} \
         with full tables, {} over the controller\nconverged after at most {} from the end of the faults; log {:016x}",
        report.messages_down,
        report.messages_up,
        report.changes,
        report.errors,
        exemptions.repair,
        exemptions.cut_off,
        exemptions.table_full,
        exemptions.over_controller,
        report.converged_after,
        report.log_hash,
    )?;
    if !elapsed.is_zero() {
        writeln!(out, "{:.1} s", elapsed.as_secs_f64())?;
    }
    Ok(())
}
