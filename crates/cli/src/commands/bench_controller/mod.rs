//! `anabranch bench controller`: speed of an OpenFlow 1.3 controller, compared with a reference
//! program in the same run, or under attack.

mod attack;
mod repair;

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use comfy_table::Table;
use ofload::process::{self, CpuPlacement, ReferenceController};
use ofload::{Attack, Load, Options, Report, ResponseCriterion, Schedule, Shape, Target};
use serde_json::{Value, json};

use crate::error::CliError;

/// Core of controllers and of the generator, if they are pinned.
const CONTROLLER_CORE: u32 = 0;
const GENERATOR_CORE: u32 = 1;
/// OpenFlow port (IANA).
const OPENFLOW_PORT: u16 = 6_653;

/// Measure responses per second and their latency, of any OpenFlow 1.3 controller, with emulated
/// switches
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  anabranch bench controller --controller 127.0.0.1:6653 --window 64\n  anabranch bench \
                        controller --controller 127.0.0.1:6653 --pid 4242 --response arp --reference ovs-testcontroller\n  \
                        anabranch bench controller --reference ovs-testcontroller --rate 1000\n  anabranch bench controller \
                        --serve ecmp --response arp --attack silent,flood\n  anabranch bench controller --serve sdn-ecmp \
                        --switches 1000 --repair one,all --flow-monitors\nExit code 1 if a packet-in stayed unanswered, a \
                        connection was lost, or, under attack, well-behaved switches were not \
                        served: the 99th percentile of their latency exceeded twice the baseline plus 1 ms; or, with --repair, deleted rules did not come \
                        back in time."
)]
pub struct Args {
    /// Address of the controller; may be omitted to measure only a reference controller
    #[arg(long, value_name = "ADDR", required_unless_present_any = ["reference", "serve"])]
    controller: Option<String>,
    /// Start the anabranch controller with a balancer, once per load, and measure it
    #[arg(long, value_name = "BALANCER", conflicts_with_all = ["controller", "pid"])]
    serve: Option<String>,
    /// Configuration file of the started controller
    #[arg(long, value_name = "FILE.toml", requires = "serve")]
    serve_config: Option<PathBuf>,
    /// Measure well-behaved switches while others attack; several attacks run one after another
    #[arg(long, value_enum, value_name = "ATTACK", value_delimiter = ',', conflicts_with_all = ["reference", "window"])]
    attack: Vec<AttackArg>,
    /// Connections of an attack that opens many
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    attack_connections: u32,
    /// Packet-ins per second of the flooding switch
    #[arg(long, value_name = "R", default_value_t = 200_000.0, value_parser = positive)]
    attack_rate: f64,
    #[command(flatten)]
    repair: repair::RepairArgs,
    /// Process of the controller, for its CPU time and memory
    #[arg(long, value_name = "PID", requires = "controller")]
    pid: Option<u32>,
    /// Number of emulated switches
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=i64::from(ofload::SWITCHES_MAX)))]
    switches: u32,
    /// Hosts per switch
    #[arg(long, value_name = "M", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=i64::from(ofload::HOSTS_MAX)))]
    hosts: u32,
    /// Outstanding packet-ins per switch; several values are measured one after another
    #[arg(long, value_name = "W", value_delimiter = ',', default_values_t = [1, 64], conflicts_with = "rate", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    window: Vec<u32>,
    /// Packet-ins per second of all switches together, independent of responses
    #[arg(long, value_name = "R", value_parser = positive)]
    rate: Option<f64>,
    /// Length of a loop, s
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = positive)]
    seconds: f64,
    /// Measured loops
    #[arg(long, value_name = "L", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    loops: u32,
    /// Loops before the measured ones, which are not counted
    #[arg(long, value_name = "L", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    warm_up: u32,
    /// `star`, or a topology as listed by `anabranch list topologies`: path set-ups between pods,
    /// discovery probes carried
    #[arg(long, value_name = "TOPOLOGY", default_value = "star")]
    topology: String,
    /// Message that counts as a response
    #[arg(long, value_enum, default_value_t = ResponseArg::PacketOut)]
    response: ResponseArg,
    /// The same for the reference controller
    #[arg(long, value_enum, value_name = "RESPONSE", default_value_t = ResponseArg::PacketOut)]
    reference_response: ResponseArg,
    /// Virtual address, for responses of the kind `service`; the connections use its TCP ports 1024
    /// to 1087
    #[arg(long, value_name = "IPV4", default_value = "10.250.0.1")]
    service: Ipv4Addr,
    /// Pause between learning the locations of hosts and the first loop, s
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = positive)]
    settle: f64,
    /// Apply flow-mods while measuring, so that statistics include them (always with a topology)
    #[arg(long)]
    apply_flow_mods: bool,
    /// Reference controller to start and measure in the same run: `ovs-testcontroller`, or a path
    /// to it
    #[arg(long, value_name = "PROGRAM", value_parser = reference_program)]
    reference: Option<PathBuf>,
    /// Pin controllers to core 0 and the generator to core 1, at real-time priority if permitted
    /// (always with --reference or --serve)
    #[arg(long)]
    pin: bool,
    /// Leave placement and priority of programs to the operating system
    #[arg(long, conflicts_with = "pin")]
    no_pin: bool,
    /// Write the figures to a file; `-` writes them to standard output instead of tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Debug, ValueEnum)]
enum ResponseArg {
    /// The packet-out that carries the packet
    PacketOut,
    /// The flow-mod that matches the packet
    FlowMod,
    /// Packet-ins are ARP requests; the packet-out with the reply
    Arp,
    /// Packet-ins are first packets of connections to a virtual address; the packet-out that
    /// carries them
    Service,
}

impl ResponseArg {
    fn criterion(self, service: Ipv4Addr) -> ResponseCriterion {
        match self {
            ResponseArg::PacketOut => ResponseCriterion::PacketOut,
            ResponseArg::FlowMod => ResponseCriterion::FlowMod,
            ResponseArg::Arp => ResponseCriterion::Arp,
            ResponseArg::Service => ResponseCriterion::Service(service),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug, ValueEnum)]
enum AttackArg {
    /// Connections that send noise, headers followed by noise, and damaged messages
    RandomBytes,
    /// Connections that announce a long message and send it byte by byte without ever ending it
    HalfMessages,
    /// Connections that send nothing, not even a hello
    Silent,
    /// One accepted switch that sends packet-ins without limit
    Flood,
}

impl AttackArg {
    fn attack(self) -> Attack {
        match self {
            AttackArg::RandomBytes => Attack::RandomBytes,
            AttackArg::HalfMessages => Attack::HalfMessages,
            AttackArg::Silent => Attack::Silent,
            AttackArg::Flood => Attack::Flood,
        }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    (value > 0.0 && value <= 1e8).then_some(value).ok_or_else(|| "must be above 0 and at most 100,000,000".to_owned())
}

fn reference_program(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_known = path.file_name().is_some_and(|name| name == "ovs-testcontroller");
    is_known.then_some(path).ok_or_else(|| {
        "only ovs-testcontroller can be started; start others yourself and name them with --controller".to_owned()
    })
}

/// CPU placement of programs, with the placements that were refused.
#[derive(Debug, Default)]
struct Placement {
    is_pinned: bool,
    is_realtime: bool,
    notes: Vec<String>,
    /// Placements, which are undone when dropped.
    placed: Vec<CpuPlacement>,
}

/// Packet-ins per second of well-behaved switches during an attack, unless configured.
const RATE_UNDER_ATTACK: f64 = 1_000.0;

/// Runs the command.
pub fn execute(args: &Args) -> Result<(), CliError> {
    if !args.attack.is_empty() {
        return attack::execute(args);
    }
    if !args.repair.repair.is_empty() {
        return repair::execute(args);
    }
    let loads: Vec<Load> = match args.rate {
        Some(rate) => vec![Load::Rate(rate)],
        None => args.window.iter().map(|window| Load::Window(*window)).collect(),
    };
    let mut placement = place(args);
    // Each load starts with controllers that have not seen packets of another load: the reference
    // controller is restarted.
    let mut all = Vec::new();
    for load in loads {
        all.push(measure(args, load, &mut placement)?);
    }
    show(args, &all, &placement)?;
    findings(&all)
}

fn place(args: &Args) -> Placement {
    let mut placement = Placement::default();
    if args.no_pin || !(args.pin || args.reference.is_some() || args.serve.is_some()) {
        placement.notes.push("programs are not pinned to cores".to_owned());
        return placement;
    }
    match process::can_be_realtime() {
        Ok(()) => placement.is_realtime = true,
        Err(reason) => placement.notes.push(format!("no real-time priority: {reason}")),
    }
    placement.is_pinned = true;
    let own = (std::process::id(), GENERATOR_CORE, "the generator");
    let controller = args.pid.map(|pid| (pid, CONTROLLER_CORE, "the controller"));
    for (pid, core, name) in [Some(own), controller].into_iter().flatten() {
        match process::place(pid, core, placement.is_realtime) {
            Ok(placed) => placement.placed.push(placed),
            Err(reason) => placement.notes.push(format!("{name} is not pinned: {reason}")),
        }
    }
    if args.controller.is_some() && args.pid.is_none() {
        let note =
            "the controller is not pinned, and its CPU time and memory are not measured: name its process with --pid";
        placement.notes.push(note.to_owned());
    }
    placement
}

fn measure(args: &Args, load: Load, placement: &mut Placement) -> Result<Vec<Report>, CliError> {
    let mut targets = Vec::new();
    let core = placement.is_pinned.then_some(CONTROLLER_CORE);
    let own = serve(args, placement)?;
    targets.extend(target(args, load, own.as_ref())?);
    let start = |program| ReferenceController::start(program, core, placement.is_realtime).map_err(failure);
    let reference = args.reference.as_deref().map(start).transpose()?;
    if let Some(reference) = &reference {
        let options = options(args, reference.address(), load, args.reference_response)?;
        targets.push(Target { name: "ovs-testcontroller".to_owned(), options, pid: Some(reference.pid()) });
    }
    ofload::measure(targets, schedule(args), &mut |text| eprintln!("{text}")).map_err(failure)
}

fn schedule(args: &Args) -> Schedule {
    Schedule { loops: args.loops, warm_up: args.warm_up, duration: Duration::from_secs_f64(args.seconds) }
}

/// Starts the anabranch controller, if it is measured.
fn serve(args: &Args, placement: &Placement) -> Result<Option<ReferenceController>, CliError> {
    let Some(balancer) = &args.serve else { return Ok(None) };
    let program = crate::program::path()
        .map_err(|error| CliError::new("cannot find the path of this program").caused_by(error))?;
    let mut further = ["--http", "off", "--balancer", balancer].map(str::to_owned).to_vec();
    if let Some(file) = &args.serve_config {
        further.extend(["--config".to_owned(), file.display().to_string()]);
    }
    let core = placement.is_pinned.then_some(CONTROLLER_CORE);
    ReferenceController::start_anabranch(&program, &further, core, placement.is_realtime).map(Some).map_err(failure)
}

/// Returns the named controller, or the one started here.
fn target(args: &Args, load: Load, own: Option<&ReferenceController>) -> Result<Option<Target>, CliError> {
    let (name, at, pid) = match (&args.controller, own) {
        (Some(controller), _) => (controller.clone(), address(controller)?, args.pid),
        (None, Some(own)) => ("anabranch".to_owned(), own.address(), Some(own.pid())),
        (None, None) => return Ok(None),
    };
    let options = options(args, at, load, args.response)?;
    Ok(Some(Target { name, options, pid }))
}

fn failure(error: ofload::Error) -> CliError {
    let hint = match &error {
        ofload::Error::Reference { .. } => "install it (Debian: openvswitch-testcontroller), or give a path to it",
        ofload::Error::Connect { .. } | ofload::Error::Lost { .. } => {
            "is the controller running, and does it listen there? start one with `anabranch serve`"
        }
        ofload::Error::NoRules { .. } => "the controller must install rules for known hosts; see --settle and --serve",
        ofload::Error::NoService { .. } => "see --service, and the configuration of the controller (--serve-config)",
        ofload::Error::Silent { .. } => "controllers for OpenFlow 1.0 alone cannot be measured",
        ofload::Error::Shape(_) | ofload::Error::TooFewPairs { .. } => {
            "see --switches, --hosts, --topology and --window"
        }
        ofload::Error::Files(_) => "raise the hard limit of open files, or see --attack-connections",
        ofload::Error::Poll(_) => "each switch needs a file descriptor: `ulimit -n` may be too low",
    };
    CliError::of(&error).with_hint(hint)
}

fn address(text: &str) -> Result<SocketAddr, CliError> {
    let refused = |cause: String| {
        let hint = "write it as 127.0.0.1:6653 or host.example:6653";
        CliError::new(format!("--controller: `{text}` is not an address")).caused_by(cause).with_hint(hint)
    };
    let found = match text.to_socket_addrs() {
        Ok(found) => found,
        Err(_) => (text, OPENFLOW_PORT).to_socket_addrs().map_err(|error| refused(error.to_string()))?,
    };
    found.into_iter().next().ok_or_else(|| refused("the host name has no IPv4 or IPv6 address".to_owned()))
}

fn options(args: &Args, controller: SocketAddr, load: Load, response: ResponseArg) -> Result<Options, CliError> {
    let shape = if args.topology == "star" {
        Shape::Star { switches: args.switches, hosts: args.hosts }
    } else {
        let topology = net::spec::parse(&args.topology).map_err(|error| CliError::of(&error))?;
        Shape::Fabric(Box::new(topology))
    };
    let applies_flow_mods = args.apply_flow_mods || matches!(shape, Shape::Fabric(_));
    let settle_time = Duration::from_secs_f64(args.settle);
    Ok(Options {
        shape,
        load,
        response: response.criterion(args.service),
        settle_time,
        applies_flow_mods,
        has_flow_monitors: args.repair.flow_monitors,
        ..Options::new(controller)
    })
}

/// Writes figures and placement to the requested file. Returns whether they went to standard
/// output, which then holds no tables.
fn write_json(args: &Args, placement: &Placement, mut value: Value) -> Result<bool, CliError> {
    let Some(path) = args.json.as_deref() else { return Ok(false) };
    value["placement"] =
        json!({"pinned": placement.is_pinned, "real_time": placement.is_realtime, "notes": placement.notes});
    if path == Path::new("-") {
        writeln!(std::io::stdout(), "{value:#}")?;
        return Ok(true);
    }
    fs::write(path, format!("{value:#}\n")).map_err(|error| {
        CliError::new(format!("cannot write {}", path.display())).caused_by(error).with_hint("see --json")
    })?;
    Ok(false)
}

fn show(args: &Args, all: &[Vec<Report>], placement: &Placement) -> Result<(), CliError> {
    let ratios: Vec<Option<f64>> = all.iter().map(|reports| ratio(reports)).collect();
    if write_json(args, placement, json!({"measurements": all, "ratios_to_reference": ratios}))? {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", table(all))?;
    for reports in all {
        for report in reports {
            writeln!(out, "{}, {}: {}", report.name, report.load, report.shape)?;
            writeln!(out, "  a response is {}", report.response_description)?;
            details(&mut out, report)?;
        }
        if let (Some(ratio), [own, reference]) = (ratio(reports), reports.as_slice()) {
            let note = if own.response == reference.response { "" } else { " (another response counts: see above)" };
            writeln!(out, "  {}: {ratio:.2} × the rate of {}{note}", own.name, reference.name)?;
        }
    }
    let realtime = if placement.is_realtime { "at real-time priority" } else { "at ordinary priority" };
    if placement.is_pinned {
        writeln!(out, "controllers on core {CONTROLLER_CORE}, generator on core {GENERATOR_CORE}, {realtime}")?;
    }
    placement.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))?;
    Ok(())
}

/// Returns the rate of the controller divided by that of the reference controller, if both were measured.
fn ratio(reports: &[Report]) -> Option<f64> {
    let [own, reference] = reports else { return None };
    (reference.per_s.median > 0.0).then(|| own.per_s.median / reference.per_s.median)
}

fn table(all: &[Vec<Report>]) -> Table {
    let mut table = Table::new();
    table.set_header([
        "controller",
        "load",
        "responses/s (min–max)",
        "p50 / p90 / p99 / p99.9 ms",
        "unanswered",
        "CPU µs each",
        "memory",
        "generator CPU µs each",
    ]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "—".to_owned());
    for report in all.iter().flatten() {
        let ms = |us: f64| format!("{:.3}", us / 1e3);
        let latency = report.latency.map(|l| [l.p50_us, l.p90_us, l.p99_us, l.p999_us].map(ms).join(" / "));
        table.add_row([
            report.name.clone(),
            report.load.clone(),
            format!("{:.0} ({:.0}–{:.0})", report.per_s.median, report.per_s.min, report.per_s.max),
            or_dash(latency),
            report.counts.unanswered.to_string(),
            or_dash(report.controller_cpu_us.map(|us| format!("{us:.2}"))),
            or_dash(report.resident_bytes.map(|bytes| format!("{:.1} MB", bytes as f64 / 1e6))),
            or_dash(report.generator_cpu_us.map(|us| format!("{us:.2}"))),
        ]);
    }
    table
}

fn details(out: &mut impl std::io::Write, report: &Report) -> Result<(), CliError> {
    let counts = &report.counts;
    writeln!(
        out,
        "  {} packet-ins, {} answered, {} not within 1 s (of these {} later), {} duplicates, {} unmatched, {} errors; {} \
         flow-mods ({:.2} per response), {} packet-outs",
        counts.packet_ins,
        counts.answered,
        counts.unanswered,
        counts.late,
        counts.duplicates,
        counts.unmatched,
        counts.errors,
        counts.flow_mods,
        counts.flow_mods as f64 / counts.answered.max(1) as f64,
        counts.packet_outs
    )?;
    for (error, count) in &report.refusals {
        writeln!(out, "  the emulated switches rejected {count} requests: {error}")?;
    }
    if counts.not_sent > 0 {
        writeln!(out, "  {} packet-ins were due but not sent: too many were outstanding", counts.not_sent)?;
    }
    if let Some(carried) = report.carried {
        let ofload::Carried { sent_on, delivered, returned, wrong } = carried;
        writeln!(
            out,
            "  of {sent_on} connections carried {delivered} reached a member and {returned} replies their clients; {wrong} packets went to a wrong host"
        )?;
    }
    if let Some(links) = report.links {
        let (found, directed, after) = (links.found, links.directed, links.after_connections_s);
        writeln!(
            out,
            "  discovery found {found} of {directed} directed links, the last one {after:.3} s after the last connection"
        )?;
    }
    if report.generator_cpu_share.is_some_and(|share| share > 0.9) {
        writeln!(out, "  the generator used its core fully: it may have been the limit")?;
    }
    report.lost.iter().try_for_each(|(switch, reason)| writeln!(out, "  switch {switch} was lost: {reason}"))?;
    Ok(())
}

/// Returns an error for results that a caller must notice without reading tables.
fn findings(all: &[Vec<Report>]) -> Result<(), CliError> {
    for report in all.iter().flatten() {
        let counts = &report.counts;
        let message = if counts.answered == 0 {
            format!("{}: no packet-in was answered", report.name)
        } else if counts.unanswered > 0 || counts.connections_lost > 0 {
            let (unanswered, lost) = (counts.unanswered, counts.connections_lost);
            format!("{}: {unanswered} packet-ins unanswered within 1 s, {lost} connections lost", report.name)
        } else if report.carried.is_some_and(|it| (it.delivered, it.returned, it.wrong) != (it.sent_on, it.sent_on, 0))
        {
            format!(
                "{}: connections did not reach their members, or replies did not return: {:?}",
                report.name, report.carried
            )
        } else {
            continue;
        };
        let hint = "measure controllers that respond in another form with --response flow-mod or --response arp";
        return Err(CliError::new(message).with_hint(hint).found_by_check());
    }
    Ok(())
}
