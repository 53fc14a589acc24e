//! `anabranch agent`: reports the statistics of a server to the controller.

mod machine;
mod probe;
mod report;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use net::Time;

use crate::error::CliError;
use machine::Cpu;
use probe::Probes;
use report::{Controller, Measured};

/// Longest time that the first report waits for a measurement of processor load.
const FIRST_AFTER: Duration = Duration::from_secs(1);

/// Report the statistics of this server to the controller: processor, connections, response time,
/// throughput to other hosts
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address of the controller's HTTP interface
    #[arg(long, value_name = "http://ADDRESS:PORT")]
    controller: Option<String>,
    /// File with the certificate of the authority that signed the controller's certificate, for
    /// https://
    #[arg(long, value_name = "FILE.pem", requires = "controller")]
    ca: Option<PathBuf>,
    /// File with a token for agents, if the controller requires one
    #[arg(long, value_name = "FILE", requires = "controller")]
    token_file: Option<PathBuf>,
    /// Address of this server as the controller knows it; by default the source address of the
    /// connection to the controller
    #[arg(long, value_name = "IPV4")]
    address: Option<Ipv4Addr>,
    /// Also report by UDP, through the data plane, to the address health checks come from
    /// (`health_check_address` of `[services]`)
    #[arg(long, value_name = "IPV4")]
    in_band: Option<Ipv4Addr>,
    /// Time from one report to the next, such as 5s
    #[arg(long, value_name = "TIME", default_value = "5s")]
    interval: Time,
    /// Measure processors only for this time before each report; by default continuously
    #[arg(long, value_name = "TIME")]
    sampling: Option<Time>,
    /// Measure this process and its descendants instead of the whole machine; may be repeated
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Number of processors of the server, if it differs from the machine's
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores: Option<u32>,
    /// Share of a processor of this machine that each of --cores has
    #[arg(long, value_name = "SHARE", requires = "cores", value_parser = share)]
    core_share: Option<f64>,
    /// Count the connections to this TCP port; may be repeated
    #[arg(long, value_name = "PORT")]
    connections: Vec<u16>,
    /// Time a request for / to the web server at this port; its connections are counted if
    /// --connections names no port
    #[arg(long, value_name = "PORT")]
    http: Option<u16>,
    /// Measure throughput to this host with an iperf3 server; may be repeated
    #[arg(long, value_name = "IPV4")]
    probe: Vec<Ipv4Addr>,
    /// Time between two rounds of probes
    #[arg(long, value_name = "TIME", default_value = "60s")]
    probe_interval: Time,
    /// End after this number of reports
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
}

/// Runs the command.
pub fn execute(args: &Args) -> Result<(), CliError> {
    let interval = above_zero("--interval", args.interval)?;
    let mut probes = Probes::new(&args.probe, above_zero("--probe-interval", args.probe_interval)?)?;
    let controller = args.controller.as_deref();
    let controller =
        controller.map(|url| Controller::new(url, args.ca.as_deref(), args.token_file.as_deref(), args.address));
    let mut controller = controller.transpose()?;
    if controller.is_none() && args.in_band.is_none() {
        let hint = "name --controller http://ADDRESS:PORT, or --in-band ADDRESS, or both";
        return Err(CliError::new("no controller would receive the reports").with_hint(hint));
    }
    let sampling = args.sampling.map(|time| above_zero("--sampling", time)).transpose()?;
    let mut cpu = Cpu::new(&args.pid, args.cores.map(|cores| f64::from(cores) * args.core_share.unwrap_or(1.0)))?;
    std::thread::sleep(interval.min(FIRST_AFTER));
    let mut next = Instant::now();
    let mut is_silent = false;
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        let measured = measure(args, &mut cpu, &mut probes)?;
        let sent = send(controller.as_mut(), args.in_band, &measured)?;
        // Warns once when the controller stops answering and once when it answers again.
        match (&sent, is_silent) {
            (Err(error), false) => eprintln!("warning: the controller cannot be reached: {error}; trying again"),
            (Ok(()), true) => eprintln!("the controller can be reached again"),
            _ => {}
        }
        is_silent = sent.is_err();
        // Reports that took longer than the interval are not made up for.
        next = (next + interval).max(Instant::now());
        if let Some(sampling) = sampling {
            std::thread::sleep((next - Instant::now()).saturating_sub(sampling));
            // Start of the first measurement.
            cpu.share()?;
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    if is_silent {
        Err(CliError::new("the controller did not receive the last report")
            .with_hint(
                "is `anabranch serve` running, and is its HTTP interface at the address given with --controller?",
            )
            .found_by_check())
    } else {
        Ok(())
    }
}

fn above_zero(option: &str, time: Time) -> Result<Duration, CliError> {
    match Duration::from_nanos(time.as_ps() / 1000) {
        Duration::ZERO => Err(CliError::new(format!("{option}: must be above 0"))),
        time => Ok(time),
    }
}

/// Parses a share, above 0 and at most 1.
pub fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| format!("`{text}` is not a number; write a share such as 0.1"))?;
    if share > 0.0 && share <= 1.0 { Ok(share) } else { Err(format!("{share} is not above 0 and at most 1")) }
}

fn measure(args: &Args, cpu: &mut Cpu, probes: &mut Probes) -> Result<Measured, CliError> {
    let ports: Vec<u16> =
        if args.connections.is_empty() { args.http.into_iter().collect() } else { args.connections.clone() };
    // The measured processes may be in another namespace, so the sockets of that namespace count.
    let of = args.pid.first().copied();
    let counts: Vec<u32> = ports.into_iter().map(|port| machine::connections(of, port)).collect::<Result<_, _>>()?;
    Ok(Measured {
        cpu: cpu.share()?,
        cores: args.cores.unwrap_or_else(machine::cores),
        connections: (!counts.is_empty()).then(|| counts.iter().sum()),
        response: args.http.and_then(machine::response_time),
        probes: probes.results(),
    })
}

/// Sends a report to every receiver. Errors that a retry cannot fix end the agent.
fn send(
    controller: Option<&mut Controller>,
    in_band: Option<Ipv4Addr>,
    measured: &Measured,
) -> Result<Result<(), String>, CliError> {
    let posted = controller.map_or(Ok(Ok(())), |controller| controller.send(measured))?;
    let sent = in_band.map_or(Ok(()), |to| report::send_in_band(to, measured));
    Ok(posted.and(sent.map_err(|error| error.to_string())))
}
