//! The controller of a run: `anabranch serve` as a separate process, with configured hosts and
//! capacities.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use experiment::input::HostLearning;
use experiment::summary::ControllerCounts;
use net::{Addressing, HostIx, Time, Topology, address};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use ureq::{AsSendBody, http};

use crate::error::{Result, TestbedError, file_error, log_tail, write_file};
use crate::http_client;
use crate::network::plan::{hosts, is_fabric, is_switch, links, mac, switches};

/// Time in which the controller must learn all switches, links and hosts.
const LEARN_TIMEOUT: Duration = Duration::from_secs(60);

/// Time in which the controller must reply to an HTTP request.
const HTTP_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
pub struct LaunchOptions<'a> {
    pub balancer: &'a str,
    /// Time between two statistics requests; `None` for the controller's default.
    pub poll: Option<Time>,
    pub seed: u64,
    pub openflow: u16,
    pub http: u16,
    pub hosts: HostLearning,
    /// Time between two rounds of discovery; `None` for the controller's default.
    pub discovery: Option<Time>,
    /// Health-check address, to which agents report too; `None` for none.
    pub health_check_address: Option<Ipv4Addr>,
    pub addressing: Addressing,
    /// Pairs of hosts, source first, whose addresses the directory of VL2 refuses.
    pub refused: &'a [(HostIx, HostIx)],
    /// Further TOML tables: services and pools.
    pub tables: &'a str,
}

/// A controller process. Dropping it terminates the process and leaves its rules installed.
pub struct Controller {
    /// `None` while the controller is killed.
    child: Option<Child>,
    program: PathBuf,
    arguments: Vec<OsString>,
    openflow: u16,
    http: Http,
    log: PathBuf,
}

impl Controller {
    pub fn start(
        program: &Path,
        folder: &Path,
        topology: &Topology,
        options: &LaunchOptions<'_>,
    ) -> Result<Controller> {
        let config = write_config(folder, topology, options)?;
        let mut arguments: Vec<OsString> = vec!["serve".into(), "--config".into(), config.into()];
        if options.hosts == HostLearning::Persisted || options.health_check_address.is_some() {
            let state = folder.join("state");
            // The state of an earlier run must not be used.
            for file in [state.clone(), state.with_extension("services")] {
                let _ = fs::remove_file(&file);
            }
            arguments.extend(["--state".into(), state.into()]);
        }
        let log = folder.join("controller.log");
        fs::File::create(&log).map_err(file_error("write", &log))?;
        let (program, http) = (program.to_owned(), Http(options.http));
        let mut controller = Controller { child: None, program, arguments, openflow: options.openflow, http, log };
        controller.restart()?;
        Ok(controller)
    }

    /// Starts the controller again with the same settings; does nothing if it runs.
    pub fn restart(&mut self) -> Result<()> {
        if self.child.is_some() {
            return Ok(());
        }
        let file = fs::File::options().append(true).open(&self.log).map_err(file_error("write", &self.log))?;
        let errors = file.try_clone().map_err(file_error("write", &self.log))?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(file).stderr(errors);
        let program = self.program.display();
        let failed = |cause| TestbedError::Controller(format!("cannot be started as {program}: {cause}"));
        self.child = Some(command.spawn().map_err(failed)?);
        Ok(())
    }

    /// Kills the controller with SIGKILL. It is an error if it has already ended unexpectedly.
    pub fn kill(&mut self) -> Result<()> {
        self.check()?;
        if let Some(mut child) = self.child.take() {
            let killed = child.kill().and_then(|()| child.wait());
            killed.map_err(|cause| TestbedError::Controller(format!("cannot be killed: {cause}")))?;
        }
        Ok(())
    }

    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub fn http(&self) -> Http {
        self.http
    }

    /// Returns the counters since the last start of the controller.
    pub fn counts(&self) -> Result<ControllerCounts> {
        let refused = |cause| TestbedError::Controller(format!("does not return its counters: {cause}"));
        let value = self.http.get("/v1/statistics").map_err(refused)?;
        let of = |field: &str| value[field].as_u64().unwrap_or(0);
        let (flow_mods, group_mods, packet_ins) = (of("flow_mods"), of("group_mods"), of("packet_ins"));
        Ok(ControllerCounts {
            moves: of("flow_migrations"),
            flow_mods,
            group_mods,
            packet_ins,
            decisions: of("balancer_decisions"),
        })
    }

    pub fn target(&self) -> String {
        format!("tcp:127.0.0.1:{}", self.openflow)
    }

    /// Waits until the controller knows every switch, every link in both directions and every host.
    /// `rouse` is called ten times a second.
    pub fn wait_until_known(
        &mut self,
        topology: &Topology,
        should_continue: &mut dyn FnMut() -> bool,
        rouse: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let expected = expected(topology);
        let until = Instant::now() + LEARN_TIMEOUT;
        loop {
            self.check()?;
            if !should_continue() {
                return Err(TestbedError::Interrupted);
            }
            rouse()?;
            let known = ["switches", "links", "hosts"].map(|what| self.count(what));
            if known.iter().zip(expected).all(|(known, expected)| known.is_some_and(|known| known >= expected)) {
                return Ok(());
            }
            if Instant::now() > until {
                let [switches, links, hosts] =
                    known.map(|count| count.map_or("?".to_owned(), |count| count.to_string()));
                let ([all_switches, all_links, all_hosts], log) = (expected, log_tail(&self.log, 4));
                return Err(TestbedError::Controller(format!(
                    "knows {switches} of {all_switches} switches, {links} of {all_links} links and {hosts} of {all_hosts} hosts after {LEARN_TIMEOUT:?}: {log}"
                )));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns an error if the controller has ended unexpectedly, with the end of its log.
    pub fn check(&mut self) -> Result<()> {
        let Some(child) = &mut self.child else { return Ok(()) };
        match child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(TestbedError::Controller(format!("ended unexpectedly ({status}): {}", log_tail(&self.log, 4))))
            }
            Err(cause) => Err(TestbedError::Controller(format!("cannot be waited for: {cause}"))),
        }
    }

    /// Returns the number of known items of a kind; `None` if the controller does not answer.
    fn count(&self, what: &str) -> Option<usize> {
        let value = self.http.get(&format!("/v1/{what}")).ok()?;
        let list = value.as_array().or_else(|| value[what].as_array())?;
        let is_up = |item: &&Value| item["is_up"].as_bool().or(item["is_connected"].as_bool()).unwrap_or(true);
        Some(list.iter().filter(is_up).count())
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        // On SIGTERM the controller leaves its rules installed. A controller that does not react is
        // killed.
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Returns the numbers of switches, of directed inter-switch links and of hosts.
fn expected(topology: &Topology) -> [usize; 3] {
    let fabric = links(topology).filter(|link| is_fabric(topology, *link)).count();
    [switches(topology).count(), fabric, topology.hosts().len()]
}

/// Writes the configuration of a controller with the hosts and link capacities of a topology.
pub fn write_config(folder: &Path, topology: &Topology, options: &LaunchOptions<'_>) -> Result<PathBuf> {
    let path = folder.join("controller.toml");
    write_file(&path, config(topology, options))?;
    Ok(path)
}

fn config(topology: &Topology, options: &LaunchOptions<'_>) -> String {
    let mut text = format!(
        "listen = \"127.0.0.1:{}\"\nbalancer = \"{}\"\nseed = {}\n\n[http]\nlisten = \"127.0.0.1:{}\"\n",
        options.openflow, options.balancer, options.seed, options.http
    );
    if let Some(address) = options.health_check_address {
        let _ = writeln!(text, "\n[services]\nhealth_check_address = \"{address}\"");
    }
    text += &control(options);
    for link in links(topology).filter(|link| is_switch(topology, topology.link(*link).from)) {
        let ends = topology.link(link);
        let (switch, port) = (address::datapath_of(ends.from), address::port_of(topology, link));
        let bps = ends.rate.as_bps();
        let _ = write!(text, "\n[[link]]\ndpid = {switch}\nport = {port}\ncapacity = \"{bps}bps\"\n");
    }
    for host in hosts(topology).filter(|_| options.hosts == HostLearning::Configured) {
        let Some(link) = topology.out_links(topology.host(host)).first() else { continue };
        let (mac, ip) = (mac(host), address::host_ipv4(host));
        let (switch, port) =
            (address::datapath_of(topology.link(*link).to), address::port_of(topology, link.reverse()));
        let _ = write!(text, "\n[[host]]\nmac = \"{mac}\"\nipv4 = \"{ip}\"\ndpid = {switch}\nport = {port}\n");
    }
    text + options.tables
}

/// Returns the section `[control]` with the settings that differ from the controller's defaults.
fn control(options: &LaunchOptions<'_>) -> String {
    let us = |time: Time| time.as_ps() / 1_000_000;
    let mut text = format!("\n[control]\naddressing = \"{}\"\n", options.addressing.name());
    if !options.refused.is_empty() {
        let pair =
            |(from, to): &(HostIx, HostIx)| format!("\"{} > {}\"", address::host_ipv4(*from), address::host_ipv4(*to));
        let pairs: Vec<String> = options.refused.iter().map(pair).collect();
        let _ = writeln!(text, "refuse = [{}]", pairs.join(", "));
    }
    if let Some(poll) = options.poll {
        let _ = writeln!(text, "poll_interval = \"{}us\"", us(poll));
    }
    if let Some(discovery) = options.discovery {
        // A link times out after three rounds without it, as with the controller's defaults.
        let (interval, timeout) = (us(discovery), us(discovery * 3));
        let _ = writeln!(text, "discovery_interval = \"{interval}us\"\nlink_timeout = \"{timeout}us\"");
    }
    text
}

pub fn free_port() -> Result<u16> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    free.map(|at| at.port()).map_err(|cause| TestbedError::Controller(format!("finds no free port: {cause}")))
}

/// The HTTP interface of a controller on this machine, by port.
#[derive(Clone, Copy, Debug)]
pub struct Http(pub u16);

impl Http {
    pub fn get(self, path: &str) -> io::Result<Value> {
        Ok(serde_json::from_str(&self.request("GET", path, ())?)?)
    }

    pub fn post(self, path: &str, body: &Value) -> io::Result<()> {
        self.send("POST", path, body)
    }

    /// Sends JSON with another method.
    pub fn send(self, method: &str, path: &str, body: &Value) -> io::Result<()> {
        self.request(method, path, body.to_string()).map(drop)
    }

    fn request(self, method: &str, path: &str, body: impl AsSendBody) -> io::Result<String> {
        let url = format!("http://{}:{}{path}", Ipv4Addr::LOCALHOST, self.0);
        let request = http::Request::builder().method(method).uri(url).header("Content-Type", "application/json");
        let request = request.body(body).map_err(io::Error::other)?;
        let (status, body) = http_client::request(&http_client::client(HTTP_TIMEOUT).build().new_agent(), request)?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        Err(io::Error::other(format!("{method} {path}: {status} {body}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_lists_every_port_and_host() {
        let topology = net::spec::parse("leaf-spine:leaves=2,spines=2,hosts_per_leaf=3").expect("a topology");
        let options = LaunchOptions {
            balancer: "sdn-ecmp",
            poll: Some(Time::from_s(10)),
            seed: 4,
            openflow: 6653,
            http: 8080,
            hosts: HostLearning::Configured,
            discovery: Some(Time::from_s(15)),
            health_check_address: None,
            addressing: Addressing::Flat,
            refused: &[],
            tables: "\n[pools.web]\n",
        };
        let text = config(&topology, &options);
        assert_eq!((text.matches("[[host]]").count(), text.matches("[[link]]").count()), (6, 6 + 8));
        assert!(text.contains("poll_interval = \"10000000us\"") && text.contains("balancer = \"sdn-ecmp\""));
        assert!(text.contains("discovery_interval = \"15000000us\"\nlink_timeout = \"45000000us\"\n"), "{text}");
        assert!(text.ends_with("[pools.web]\n"));
        assert_eq!(expected(&topology), [4, 8, 6]);
        assert!(!config(&topology, &LaunchOptions { hosts: HostLearning::Learned, ..options }).contains("[[host]]"));
    }
}
