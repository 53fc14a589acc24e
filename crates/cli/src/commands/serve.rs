//! `anabranch serve`: the controller of an OpenFlow 1.3 network.

use std::io::{IsTerminal as _, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use daemon::config;
use daemon::settings::LogFormat;
use daemon::{Daemon, Settings};
use experiment::input::FileError;
use nix::sys::signal::{SigSet, Signal};

use crate::error::CliError;

/// Time between two checks that all threads still run.
const LOOK: Duration = Duration::from_millis(500);

/// Control a network of OpenFlow 1.3 switches
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Address for switches; port 6653 of all addresses by default
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Balancer, such as ecmp, hedera or ofpt:k=4
    #[arg(long, value_name = "SPEC")]
    balancer: Option<String>,
    /// Address of the HTTP interface, or off; port 8080 on loopback by default
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<String>,
    /// Persist hosts in this file, and virtual services in a file next to it (with .services at the
    /// end of its name)
    #[arg(long, value_name = "FILE.json")]
    state: Option<PathBuf>,
    /// Record everything that the controller receives, for `anabranch replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Log format: text or json
    #[arg(long, value_name = "FORM")]
    log: Option<String>,
    /// Check the configuration, with everything it refers to, and exit
    #[arg(long)]
    check: bool,
}

/// Runs the command.
pub fn execute(args: &Args) -> Result<(), CliError> {
    let settings = with_options(args, of_file(args)?)?;
    if args.check {
        return check(&settings);
    }
    daemon::logs::begin(&settings.log);
    let signals = signals().map_err(|error| CliError::new("cannot listen for signals").caused_by(error))?;
    let mut daemon = Daemon::start(&settings).map_err(|error| start_failure(&error))?;
    announce(&daemon, &settings)?;
    let had_terminal = std::io::stdin().is_terminal();
    loop {
        match signals.recv_timeout(LOOK) {
            // The terminal of the daemon may have been closed, which sends the same signal.
            Ok(Signal::SIGHUP) if !had_terminal || std::io::stdin().is_terminal() => reload(&mut daemon, args),
            // Installed rules stay, so any end is clean. A second signal is not needed.
            Ok(_) | Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) if daemon.is_running() => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                return Err(CliError::new("a daemon thread stopped unexpectedly")
                    .with_hint("the log names the thread and the panic"));
            }
        }
    }
    daemon.stop();
    Ok(())
}

/// Returns the signals that the process receives. It must run before other threads start: they
/// inherit that the signals are blocked, so that only the thread here receives them.
fn signals() -> std::io::Result<mpsc::Receiver<Signal>> {
    let handled = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    handled.thread_block()?;
    let (sender, receiver) = mpsc::channel();
    let wait = move || {
        while let Ok(signal) = handled.wait() {
            if sender.send(signal).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(receiver)
}

/// Reloads the configuration. With an error the previous one stays in effect.
fn reload(daemon: &mut Daemon, args: &Args) {
    let kept = "configuration not reloaded, the previous one stays in effect";
    let settings = match of_file(args) {
        Ok(settings) => settings,
        Err(error) => {
            let hint = error.hint.as_ref().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
            return tracing::error!("{kept}: {error}{hint}");
        }
    };
    // The options have been checked at the start.
    let Ok(settings) = with_options(args, settings) else { return };
    if let Err(error) = daemon.reload(&settings) {
        let first: Option<&dyn std::error::Error> = Some(&error);
        let causes = std::iter::successors(first, |&cause| cause.source()).map(ToString::to_string);
        tracing::error!("{kept}: {}", causes.collect::<Vec<_>>().join(": "));
    }
}

fn of_file(args: &Args) -> Result<Settings, FileError> {
    args.config.as_deref().map_or_else(|| Ok(Settings::default()), config::load)
}

/// Returns the settings of a file with the options, which take precedence.
fn with_options(args: &Args, mut settings: Settings) -> Result<Settings, CliError> {
    if let Some(listen) = args.listen {
        settings.listen = listen;
    }
    if let Some(text) = &args.balancer {
        settings.balancer =
            daemon::balancer::parse(text).map_err(|error| argument("--balancer", &error.to_string()))?;
    }
    if args.state.is_some() {
        settings.state.clone_from(&args.state);
    }
    if args.record.is_some() {
        settings.log.record.clone_from(&args.record);
    }
    match args.http.as_deref() {
        None => {}
        Some("off") => settings.http = None,
        Some(text) => {
            let hint = "write an address and a port, such as 127.0.0.1:8080, or off";
            let address = text
                .parse()
                .map_err(|_| argument("--http", &format!("`{text}` is not an address with a port")).with_hint(hint))?;
            settings.http = Some(address);
        }
    }
    match args.log.as_deref() {
        None => {}
        Some("text") => settings.log.format = LogFormat::Text,
        Some("json") => settings.log.format = LogFormat::Json,
        Some(other) => return Err(argument("--log", &format!("`{other}` is not text or json"))),
    }
    Ok(settings)
}

fn argument(option: &str, message: &str) -> CliError {
    CliError::new(format!("{option}: {message}"))
}

fn check(settings: &Settings) -> Result<(), CliError> {
    if let Some(tls) = &settings.tls {
        daemon::tls::SwitchTls::load(tls).map_err(|error| CliError::of(&error))?;
    }
    if let Some(tls) = &settings.http_tls {
        daemon::tls::http_config(tls).map_err(|error| CliError::of(&error))?;
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "switches: {}, {}", settings.listen, if settings.tls.is_some() { "TLS" } else { "TCP" })?;
    writeln!(out, "balancer: {}", settings.balancer.label())?;
    let http = settings.http.map_or("off".to_owned(), |http| http.to_string());
    let http = if settings.http_tls.is_some() { format!("{http}, TLS") } else { http };
    writeln!(out, "http: {http}")?;
    let control = &settings.control;
    writeln!(out, "known: {} hosts, {} capacities", control.hosts.len(), control.capacities.len())?;
    Ok(out.flush()?)
}

/// Prints the listening addresses: the caller needs the port that replaced port 0.
fn announce(daemon: &Daemon, settings: &Settings) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "switches: {}", daemon.openflow)?;
    if let Some(http) = daemon.http {
        writeln!(out, "http: {}://{http}/", if settings.http_tls.is_some() { "https" } else { "http" })?;
    }
    writeln!(out, "balancer: {}", daemon.balancer)?;
    Ok(out.flush()?)
}

/// Parses `--listen`.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an address and a port, such as 0.0.0.0:6653".to_owned())
}

fn start_failure(error: &daemon::StartError) -> CliError {
    let failure = CliError::of(error);
    let daemon::StartError::Listen { source, .. } = error else { return failure };
    failure.with_hint(match source.kind() {
        std::io::ErrorKind::AddrInUse => {
            "another program listens there: stop it, or choose another port with --listen or --http"
        }
        std::io::ErrorKind::PermissionDenied => {
            "ports below 1024 need root: choose another port with --listen or --http, or start it with sudo"
        }
        _ => "choose another address with --listen or --http",
    })
}
