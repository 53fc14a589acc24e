//! `anabranch bench controller`: how fast an OpenFlow 1.3 controller answers, beside a peer in the same run, or while it is
//! attacked.

mod attack;

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use comfy_table::Table;
use ofload::process::{self, Peer, Placed};
use ofload::{Answer, Attack, Load, Options, Report, Schedule, Shape, Target};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Core of controllers, and of the generator, where they are put on cores.
const CONTROLLER_CORE: u32 = 0;
const GENERATOR_CORE: u32 = 1;
/// Where controllers listen (IANA).
const OPENFLOW_PORT: u16 = 6_653;

/// Answers per second and their latency, of any OpenFlow 1.3 controller, from fake switches
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  anabranch bench controller --controller 127.0.0.1:6653 --window 64\n  anabranch bench \
                        controller --controller 127.0.0.1:6653 --pid 4242 --answer arp --peer ovs-testcontroller\n  \
                        anabranch bench controller --peer ovs-testcontroller --rate 1000\n  anabranch bench controller \
                        --serve ecmp --answer arp --attack silent,flood\nExit code 1 if a packet-in stayed unanswered, a \
                        connection was lost, a bar was missed, or, under attack, others were not served: the 99th percentile \
                        of their latency was above twice the usual one and 1 ms."
)]
pub struct Args {
    /// Where the controller listens; may be left out if a peer alone is to be measured
    #[arg(long, value_name = "ADDR", required_unless_present_any = ["peer", "serve"])]
    controller: Option<String>,
    /// Start this program's own controller with a balancer, anew for each load, and measure that
    #[arg(long, value_name = "BALANCER", conflicts_with_all = ["controller", "pid"])]
    serve: Option<String>,
    /// Its configuration file
    #[arg(long, value_name = "FILE.toml", requires = "serve")]
    serve_config: Option<PathBuf>,
    /// Measure switches that behave, beside others that attack; several attacks are made one after the other
    #[arg(long, value_enum, value_name = "ATTACK", value_delimiter = ',', conflicts_with_all = ["peer", "window"])]
    attack: Vec<AttackArg>,
    /// Connections of an attack that keeps many
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    attack_connections: u32,
    /// Packet-ins per second of the switch that floods
    #[arg(long, value_name = "R", default_value_t = 200_000.0, value_parser = positive)]
    attack_rate: f64,
    /// Number of the controller's process: for its CPU time and memory
    #[arg(long, value_name = "PID", requires = "controller")]
    pid: Option<u32>,
    /// Fake switches
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=i64::from(ofload::SWITCHES_MAX)))]
    switches: u32,
    /// Hosts at each switch
    #[arg(long, value_name = "M", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=i64::from(ofload::HOSTS_MAX)))]
    hosts: u32,
    /// Packet-ins each switch keeps waiting; several are measured one after the other
    #[arg(long, value_name = "W", value_delimiter = ',', default_values_t = [1, 64], conflicts_with = "rate", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    window: Vec<u32>,
    /// Packet-ins per second of all switches together, whatever is answered
    #[arg(long, value_name = "R", value_parser = positive)]
    rate: Option<f64>,
    /// Length of a loop, s
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = positive)]
    seconds: f64,
    /// Loops measured
    #[arg(long, value_name = "L", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    loops: u32,
    /// Loops before them that are not counted
    #[arg(long, value_name = "L", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    warm_up: u32,
    /// `star`, or a topology as `anabranch list topologies` shows them: path set-ups between pods, discovery packets carried
    #[arg(long, value_name = "TOPOLOGY", default_value = "star")]
    topology: String,
    /// What counts as an answer
    #[arg(long, value_enum, default_value_t = AnswerArg::PacketOut)]
    answer: AnswerArg,
    /// The same for the peer
    #[arg(long, value_enum, value_name = "ANSWER", default_value_t = AnswerArg::PacketOut)]
    peer_answer: AnswerArg,
    /// The virtual address, for answers of the kind `service`; TCP ports 1024 to 1087 of it are connected to
    #[arg(long, value_name = "IPV4", default_value = "10.250.0.1")]
    service: Ipv4Addr,
    /// Rest between learning where hosts are and the first loop, s
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = positive)]
    quiet: f64,
    /// Carry out flow-mods while measuring too, so that statistics show them (always so with a topology)
    #[arg(long)]
    keep_rules: bool,
    /// Controller to start and measure beside: `ovs-testcontroller`, or a path to it
    #[arg(long, value_name = "PROGRAM", value_parser = peer_program)]
    peer: Option<PathBuf>,
    /// Put controllers on core 0 and the generator on core 1, at real-time priority if permitted (always so with a peer or --serve)
    #[arg(long)]
    pin: bool,
    /// Leave it to the operating system where and how urgently programs run
    #[arg(long, conflicts_with = "pin")]
    no_pin: bool,
    /// Write the figures to a file, or to standard output instead of tables with `-`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Debug, ValueEnum)]
enum AnswerArg {
    /// The packet-out that carries the packet
    PacketOut,
    /// The flow-mod that matches the packet
    FlowMod,
    /// Packet-ins are ARP requests; the packet-out with the reply
    Arp,
    /// Packet-ins are first packets of connections to a virtual address; the packet-out that carries them
    Service,
}

impl AnswerArg {
    fn answer(self, service: Ipv4Addr) -> Answer {
        match self {
            AnswerArg::PacketOut => Answer::PacketOut,
            AnswerArg::FlowMod => Answer::FlowMod,
            AnswerArg::Arp => Answer::Arp,
            AnswerArg::Service => Answer::Service(service),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug, ValueEnum)]
enum AttackArg {
    /// Connections that send noise, headers followed by noise, and damaged messages
    RandomBytes,
    /// Connections that announce a long message and send it byte by byte without ever ending it
    HalfMessages,
    /// Connections that say nothing
    Silent,
    /// One switch in good standing that sends packet-ins without measure
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
    let value: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    (value > 0.0 && value <= 1e8)
        .then_some(value)
        .ok_or_else(|| "it must be above 0 and at most 100,000,000".to_owned())
}

fn peer_program(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_known = path.file_name().is_some_and(|name| name == "ovs-testcontroller");
    is_known.then_some(path).ok_or_else(|| {
        "only ovs-testcontroller can be started; start others yourself and name them with --controller".to_owned()
    })
}

/// Where things run, and what was refused.
#[derive(Debug, Default)]
struct Placement {
    is_pinned: bool,
    is_realtime: bool,
    notes: Vec<String>,
    /// Undone when dropped.
    placed: Vec<Placed>,
}

/// Packet-ins per second of those who behave, beside an attack, unless told otherwise.
const RATE_UNDER_ATTACK: f64 = 1_000.0;

/// Runs the command.
pub fn execute(args: &Args) -> Result<(), Failure> {
    if !args.attack.is_empty() {
        return attack::execute(args);
    }
    let loads: Vec<Load> = match args.rate {
        Some(rate) => vec![Load::Rate(rate)],
        None => args.window.iter().map(|window| Load::Window(*window)).collect(),
    };
    let mut placement = place(args);
    // Each load begins with controllers that have not seen the packets of another one: the peer is started anew.
    let mut all = Vec::new();
    for load in loads {
        all.push(measure(args, load, &mut placement)?);
    }
    show(args, &all, &placement)?;
    findings(&all)
}

fn place(args: &Args) -> Placement {
    let mut placement = Placement::default();
    if args.no_pin || !(args.pin || args.peer.is_some() || args.serve.is_some()) {
        placement.notes.push("programs run wherever the operating system puts them".to_owned());
        return placement;
    }
    match process::can_be_realtime() {
        Ok(()) => placement.is_realtime = true,
        Err(words) => placement.notes.push(format!("no real-time priority: {words}")),
    }
    placement.is_pinned = true;
    let own = (std::process::id(), GENERATOR_CORE, "the generator");
    let controller = args.pid.map(|pid| (pid, CONTROLLER_CORE, "the controller"));
    for (pid, core, name) in [Some(own), controller].into_iter().flatten() {
        match process::place(pid, core, placement.is_realtime) {
            Ok(placed) => placement.placed.push(placed),
            Err(words) => placement.notes.push(format!("{name} stays where it is: {words}")),
        }
    }
    if args.controller.is_some() && args.pid.is_none() {
        let note =
            "the controller stays where it is, and its CPU time and memory are not known: name its process with --pid";
        placement.notes.push(note.to_owned());
    }
    placement
}

fn measure(args: &Args, load: Load, placement: &mut Placement) -> Result<Vec<Report>, Failure> {
    let mut targets = Vec::new();
    let core = placement.is_pinned.then_some(CONTROLLER_CORE);
    let own = serve(args, placement)?;
    targets.extend(target(args, load, own.as_ref())?);
    let peer = args.peer.as_deref().map(|program| start(program, core, placement.is_realtime)).transpose()?;
    if let Some(peer) = &peer {
        let options = options(args, peer.address(), load, args.peer_answer)?;
        targets.push(Target { name: "ovs-testcontroller".to_owned(), options, pid: Some(peer.pid()) });
    }
    let duration = Duration::from_secs_f64(args.seconds);
    let schedule = Schedule { loops: args.loops, warm_up: args.warm_up, duration };
    let mut tell = |words: &str| eprintln!("{words}");
    ofload::measure(targets, schedule, &mut tell).map_err(failure)
}

/// This program's own controller, if it is to be measured.
fn serve(args: &Args, placement: &Placement) -> Result<Option<Peer>, Failure> {
    let Some(balancer) = &args.serve else { return Ok(None) };
    let program =
        std::env::current_exe().map_err(|error| Failure::new("cannot tell where this program is").caused_by(error))?;
    let mut further = ["--http", "off", "--balancer", balancer].map(str::to_owned).to_vec();
    if let Some(file) = &args.serve_config {
        further.extend(["--config".to_owned(), file.display().to_string()]);
    }
    let core = placement.is_pinned.then_some(CONTROLLER_CORE);
    Peer::start_anabranch(&program, &further, core, placement.is_realtime).map(Some).map_err(failure)
}

/// The controller named, or started here.
fn target(args: &Args, load: Load, own: Option<&Peer>) -> Result<Option<Target>, Failure> {
    let (name, at, pid) = match (&args.controller, own) {
        (Some(controller), _) => (controller.clone(), address(controller)?, args.pid),
        (None, Some(own)) => ("anabranch".to_owned(), own.address(), Some(own.pid())),
        (None, None) => return Ok(None),
    };
    let options = options(args, at, load, args.answer)?;
    Ok(Some(Target { name, options, pid }))
}

fn start(program: &Path, core: Option<u32>, is_realtime: bool) -> Result<Peer, Failure> {
    Peer::start(program, core, is_realtime).map_err(failure)
}

fn failure(error: ofload::Error) -> Failure {
    let hint = match &error {
        ofload::Error::Peer { .. } => "on Debian it is in the package openvswitch-testcontroller; a path to it will do",
        ofload::Error::Connect { .. } | ofload::Error::Lost { .. } => {
            "is the controller running, and does it listen there? ours is started with `anabranch serve`"
        }
        ofload::Error::NoService { .. } => "see --service, and the configuration of the controller (--serve-config)",
        ofload::Error::Silent { .. } => "controllers for OpenFlow 1.0 alone cannot be measured",
        ofload::Error::Shape(_) | ofload::Error::TooFewPairs { .. } => {
            "see --switches, --hosts, --topology and --window"
        }
        ofload::Error::Files(_) => "raise the hard limit of open files, or see --attack-connections",
        ofload::Error::Poll(_) => "each switch needs a file descriptor: `ulimit -n` may be too low",
    };
    Failure::of(&error).with_hint(hint)
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    let refused = |cause: String| {
        let hint = "write it as 127.0.0.1:6653 or host.example:6653";
        Failure::new(format!("--controller: `{text}` is no address")).caused_by(cause).with_hint(hint)
    };
    let found = match text.to_socket_addrs() {
        Ok(found) => found,
        Err(_) => (text, OPENFLOW_PORT).to_socket_addrs().map_err(|error| refused(error.to_string()))?,
    };
    found.into_iter().next().ok_or_else(|| refused("the name has no address".to_owned()))
}

fn options(args: &Args, controller: SocketAddr, load: Load, answer: AnswerArg) -> Result<Options, Failure> {
    let shape = if args.topology == "star" {
        Shape::Star { switches: args.switches, hosts: args.hosts }
    } else {
        let topology = net::spec::parse(&args.topology).map_err(|error| Failure::of(&error))?;
        Shape::Fabric(Box::new(topology))
    };
    let keeps_rules = args.keep_rules || matches!(shape, Shape::Fabric(_));
    let quiet = Duration::from_secs_f64(args.quiet);
    Ok(Options { shape, load, answer: answer.answer(args.service), quiet, keeps_rules, ..Options::new(controller) })
}

/// Writes what was measured, and where, if that was asked for; whether to standard output, which is then taken.
fn write_json(args: &Args, placement: &Placement, mut value: Value) -> Result<bool, Failure> {
    let Some(path) = args.json.as_deref() else { return Ok(false) };
    value["placement"] =
        json!({"pinned": placement.is_pinned, "real_time": placement.is_realtime, "notes": placement.notes});
    if path == Path::new("-") {
        writeln!(std::io::stdout(), "{value:#}")?;
        return Ok(true);
    }
    fs::write(path, format!("{value:#}\n")).map_err(|error| {
        Failure::new(format!("cannot write {}", path.display())).caused_by(error).with_hint("see --json")
    })?;
    Ok(false)
}

fn show(args: &Args, all: &[Vec<Report>], placement: &Placement) -> Result<(), Failure> {
    let ratios: Vec<Option<f64>> = all.iter().map(|reports| ratio(reports)).collect();
    if write_json(args, placement, json!({"measurements": all, "ratios_to_peer": ratios}))? {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", table(all))?;
    for reports in all {
        for report in reports {
            writeln!(out, "{}, {}: {}", report.name, report.load, report.shape)?;
            writeln!(out, "  an answer is {}", report.answer_words)?;
            details(&mut out, report)?;
        }
        if let (Some(ratio), [ours, peer]) = (ratio(reports), reports.as_slice()) {
            let note = if ours.answer == peer.answer { "" } else { " (other answers count: see above)" };
            writeln!(out, "  {}: {ratio:.2} × the rate of {}{note}", ours.name, peer.name)?;
        }
    }
    let realtime = if placement.is_realtime { "at real-time priority" } else { "at ordinary priority" };
    if placement.is_pinned {
        writeln!(out, "controllers on core {CONTROLLER_CORE}, generator on core {GENERATOR_CORE}, {realtime}")?;
    }
    placement.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))?;
    Ok(())
}

/// Rate of the controller by that of the peer, if both were measured.
fn ratio(reports: &[Report]) -> Option<f64> {
    let [ours, peer] = reports else { return None };
    (peer.per_s.median > 0.0).then(|| ours.per_s.median / peer.per_s.median)
}

fn table(all: &[Vec<Report>]) -> Table {
    let mut table = Table::new();
    table.set_header([
        "controller",
        "load",
        "answers/s (min–max)",
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

fn details(out: &mut impl std::io::Write, report: &Report) -> Result<(), Failure> {
    let counts = &report.counts;
    writeln!(
        out,
        "  {} packet-ins, {} answered, {} not within 1 s (of these {} later), {} duplicates, {} strays, {} errors; {} \
         flow-mods ({:.2} per answer), {} packet-outs",
        counts.packet_ins,
        counts.answered,
        counts.unanswered,
        counts.late,
        counts.duplicates,
        counts.strays,
        counts.errors,
        counts.flow_mods,
        counts.flow_mods as f64 / counts.answered.max(1) as f64,
        counts.packet_outs
    )?;
    for (error, count) in &report.refusals {
        writeln!(out, "  the fake switches refused {count} requests: {error}")?;
    }
    if counts.withheld > 0 {
        writeln!(out, "  {} packet-ins were due and not sent, since too many waited", counts.withheld)?;
    }
    if let Some(carried) = report.carried {
        let ofload::Carried { sent_on, delivered, returned, wrong } = carried;
        writeln!(
            out,
            "  of {sent_on} connections carried {delivered} reached a member and {returned} answers their clients; {wrong} packets went astray"
        )?;
    }
    if let Some(links) = report.links {
        let (found, directed, after) = (links.found, links.directed, links.after_connections_s);
        writeln!(
            out,
            "  discovery found {found} of {directed} directed links, the last one {after:.3} s after the last connection"
        )?;
    }
    if report.generator_share.is_some_and(|share| share > 0.9) {
        writeln!(out, "  the generator used its core fully: it may have been the limit")?;
    }
    report.lost.iter().try_for_each(|(switch, words)| writeln!(out, "  switch {switch} was lost: {words}"))?;
    Ok(())
}

/// What a caller has to know without reading tables.
fn findings(all: &[Vec<Report>]) -> Result<(), Failure> {
    for report in all.iter().flatten() {
        let counts = &report.counts;
        let words = if counts.answered == 0 {
            format!("{}: nothing was answered", report.name)
        } else if counts.unanswered > 0 || counts.connections_lost > 0 {
            let (unanswered, lost) = (counts.unanswered, counts.connections_lost);
            format!("{}: {unanswered} packet-ins unanswered within 1 s, {lost} connections lost", report.name)
        } else if report.carried.is_some_and(|it| (it.delivered, it.returned, it.wrong) != (it.sent_on, it.sent_on, 0))
        {
            format!("{}: connections did not reach their members and come back: {:?}", report.name, report.carried)
        } else {
            continue;
        };
        let hint = "controllers that answer in other ways are measured with --answer flow-mod or --answer arp";
        return Err(Failure::new(words).with_hint(hint).found_by_check());
    }
    Ok(())
}
