//! `anabranch agent`: tells the controller how a server does.

mod machine;
mod probe;
mod report;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use net::Time;

use crate::failure::Failure;
use machine::Cpu;
use probe::Probes;
use report::{Controller, Measured};

/// The first report does not wait longer than this for a share of the processor to be measured.
const FIRST_AFTER: Duration = Duration::from_secs(1);

/// Tell the controller how this server does: processor, connections, response time, throughput to others
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the controller's HTTP interface is
    #[arg(long, value_name = "http://ADDRESS:PORT")]
    controller: Option<String>,
    /// File with the certificate of the authority that signed the controller's, for https://
    #[arg(long, value_name = "FILE.pem", requires = "controller")]
    ca: Option<PathBuf>,
    /// File with a token for agents, where the controller asks for one
    #[arg(long, value_name = "FILE", requires = "controller")]
    token_file: Option<PathBuf>,
    /// Address of this server as the controller knows it; by default the one it reaches the controller from
    #[arg(long, value_name = "IPV4")]
    address: Option<Ipv4Addr>,
    /// Also tell by UDP, through the data plane, to the address health checks come from (`checker` of `[services]`)
    #[arg(long, value_name = "IPV4")]
    in_band: Option<Ipv4Addr>,
    /// Time between reports
    #[arg(long, value_name = "TIME", default_value = "5s")]
    interval: Time,
    /// Measure processors only so long before each report; by default all the time
    #[arg(long, value_name = "TIME")]
    sampling: Option<Time>,
    /// Measure this process and those it has begun, instead of the whole machine; may be given several times
    #[arg(long, value_name = "PID")]
    of: Vec<u32>,
    /// Processors the server has, where they are not those of the machine
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores: Option<u32>,
    /// Share of a processor of this machine that each of --cores is
    #[arg(long, value_name = "SHARE", requires = "cores", value_parser = share)]
    core: Option<f64>,
    /// Count the connections to this port of TCP; may be given several times
    #[arg(long, value_name = "PORT")]
    connections: Vec<u16>,
    /// Time a request for / to the web server at this port; its connections are counted if --connections names no port
    #[arg(long, value_name = "PORT")]
    http: Option<u16>,
    /// Measure throughput to this host with iperf3, which must serve there; may be given several times
    #[arg(long, value_name = "IPV4")]
    probe: Vec<Ipv4Addr>,
    /// Time between two rounds of probes
    #[arg(long, value_name = "TIME", default_value = "60s")]
    probe_every: Time,
    /// End after so many reports
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
}

/// Runs the command.
pub fn execute(args: &Args) -> Result<(), Failure> {
    let interval = above_zero("--interval", args.interval)?;
    let mut probes = Probes::new(&args.probe, above_zero("--probe-every", args.probe_every)?)?;
    let controller = args.controller.as_deref();
    let controller =
        controller.map(|url| Controller::new(url, args.ca.as_deref(), args.token_file.as_deref(), args.address));
    let mut controller = controller.transpose()?;
    if controller.is_none() && args.in_band.is_none() {
        let hint = "name --controller http://ADDRESS:PORT, or --in-band ADDRESS, or both";
        return Err(Failure::new("nobody would hear the reports").with_hint(hint));
    }
    let sampling = args.sampling.map(|time| above_zero("--sampling", time)).transpose()?;
    let mut cpu = Cpu::new(&args.of, args.cores.map(|cores| f64::from(cores) * args.core.unwrap_or(1.0)))?;
    std::thread::sleep(interval.min(FIRST_AFTER));
    let mut next = Instant::now();
    let mut is_silent = false;
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        let measured = measure(args, &mut cpu, &mut probes)?;
        let told = tell(controller.as_mut(), args.in_band, &measured)?;
        // Once when it begins and once when it ends, however long it lasts.
        match (&told, is_silent) {
            (Err(error), false) => eprintln!("warning: the controller does not hear: {error}; trying again"),
            (Ok(()), true) => eprintln!("the controller hears again"),
            _ => {}
        }
        is_silent = told.is_err();
        // What took longer than the interval is not made up for.
        next = (next + interval).max(Instant::now());
        if let Some(sampling) = sampling {
            std::thread::sleep((next - Instant::now()).saturating_sub(sampling));
            // From here on.
            cpu.share()?;
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    if is_silent {
        Err(Failure::new("the controller did not hear the last report")
            .with_hint(
                "is `anabranch serve` running, and is its HTTP interface at the address given with --controller?",
            )
            .found_by_check())
    } else {
        Ok(())
    }
}

fn above_zero(option: &str, time: Time) -> Result<Duration, Failure> {
    match Duration::from_nanos(time.as_ps() / 1000) {
        Duration::ZERO => Err(Failure::new(format!("{option}: must be above 0"))),
        time => Ok(time),
    }
}

/// A share as options take it.
///
/// # Errors
/// It is none, in words.
pub fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| format!("`{text}` is not a number; write a share such as 0.1"))?;
    if share > 0.0 && share <= 1.0 { Ok(share) } else { Err(format!("{share} is not above 0 and at most 1")) }
}

fn measure(args: &Args, cpu: &mut Cpu, probes: &mut Probes) -> Result<Measured, Failure> {
    let ports: Vec<u16> =
        if args.connections.is_empty() { args.http.into_iter().collect() } else { args.connections.clone() };
    // The sockets of whoever is measured, who may be in another namespace.
    let of = args.of.first().copied();
    let counts: Vec<u32> = ports.into_iter().map(|port| machine::connections(of, port)).collect::<Result<_, _>>()?;
    Ok(Measured {
        cpu: cpu.share()?,
        cores: args.cores.unwrap_or_else(machine::cores),
        connections: (!counts.is_empty()).then(|| counts.iter().sum()),
        response: args.http.and_then(machine::response_time),
        probes: probes.results(),
    })
}

/// Tells whoever is to hear. What cannot get better by trying again ends the agent.
fn tell(
    controller: Option<&mut Controller>,
    in_band: Option<Ipv4Addr>,
    measured: &Measured,
) -> Result<Result<(), String>, Failure> {
    let told = controller.map_or(Ok(Ok(())), |controller| controller.tell(measured))?;
    let sent = in_band.map_or(Ok(()), |to| report::tell_in_band(to, measured));
    Ok(told.and(sent.map_err(|error| error.to_string())))
}
