//! The controller of a run: `anabranch serve` as a process of its own, told of hosts and capacities, asked what it knows.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use experiment::file::KnownHosts;
use experiment::summary::ControllerCounts;
use net::{HostIx, LinkIx, NodeIx, Time, Topology, address};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use ureq::{AsSendBody, http};

use crate::driver::file_error;
use crate::error::TestbedError;
use crate::plan::{is_switch, mac};
use crate::web;

/// How long it may take until the controller knows all switches, links and hosts.
const PATIENCE: Duration = Duration::from_secs(60);

/// A controller that takes longer to answer does not.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// How it is to be set up.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// A central balancer.
    pub balancer: &'a str,
    /// Time between two polls of counters; `None` for its own.
    pub poll: Option<Time>,
    /// Seed of the balancer's draws.
    pub seed: u64,
    /// Port for switches.
    pub openflow: u16,
    /// Port of its HTTP interface.
    pub http: u16,
    /// How it comes to know the hosts.
    pub hosts: KnownHosts,
    /// Time between two rounds of discovery; `None` for its own.
    pub discovery: Option<Time>,
    /// Address that health checks come from and agents report to; `None` for none.
    pub checker: Option<Ipv4Addr>,
    /// Further tables of its configuration: services and pools.
    pub tables: &'a str,
}

/// A controller; dropping it ends it and leaves the rules.
pub struct Controller {
    /// `None` while it is away.
    child: Option<Child>,
    program: PathBuf,
    arguments: Vec<OsString>,
    openflow: u16,
    http: Http,
    log: PathBuf,
}

impl Controller {
    /// Starts one.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        program: &Path,
        folder: &Path,
        topology: &Topology,
        wanted: &Wanted<'_>,
    ) -> Result<Controller, TestbedError> {
        let config = write_config(folder, topology, wanted)?;
        let mut arguments: Vec<OsString> = ["serve".into(), "--config".into(), config.into()].into();
        if wanted.hosts == KnownHosts::Remembered || wanted.checker.is_some() {
            let state = folder.join("state");
            // What an earlier run left is not to be known.
            for file in [state.clone(), state.with_extension("services")] {
                let _ = fs::remove_file(&file);
            }
            arguments.extend(["--state".into(), state.into()]);
        }
        let log = folder.join("controller.log");
        fs::File::create(&log).map_err(file_error("write", &log))?;
        let (program, http) = (program.to_owned(), Http(wanted.http));
        let mut controller = Controller { child: None, program, arguments, openflow: wanted.openflow, http, log };
        controller.start_again()?;
        Ok(controller)
    }

    /// Starts it as it was started before; nothing, if it runs.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_again(&mut self) -> Result<(), TestbedError> {
        if self.child.is_some() {
            return Ok(());
        }
        let file = fs::File::options().append(true).open(&self.log).map_err(file_error("write", &self.log))?;
        let errors = file.try_clone().map_err(file_error("write", &self.log))?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(file).stderr(errors);
        let failed =
            |cause| TestbedError::Controller(format!("cannot be started as {}: {cause}", self.program.display()));
        self.child = Some(command.spawn().map_err(failed)?);
        Ok(())
    }

    /// Kills it at once (SIGKILL): it has no time to say goodbye.
    ///
    /// # Errors
    /// It had ended by itself before.
    pub fn kill(&mut self) -> Result<(), TestbedError> {
        self.check()?;
        if let Some(mut child) = self.child.take() {
            let killed = child.kill().and_then(|()| child.wait());
            killed.map_err(|cause| TestbedError::Controller(format!("cannot be killed: {cause}")))?;
        }
        Ok(())
    }

    /// Whether it has not been killed.
    pub fn is_alive(&self) -> bool {
        self.child.is_some()
    }

    /// Its process; `None` while it is away.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Its HTTP interface.
    pub fn http(&self) -> Http {
        self.http
    }

    /// What it has done since it was started last.
    ///
    /// # Errors
    /// It does not say.
    pub fn counts(&self) -> Result<ControllerCounts, TestbedError> {
        let value = self.http.get("/v1/statistics");
        let value =
            value.map_err(|cause| TestbedError::Controller(format!("does not say what it has done: {cause}")))?;
        let of = |field: &str| value[field].as_u64().unwrap_or(0);
        Ok(ControllerCounts {
            moves: of("moves"),
            flow_mods: of("flow_mods"),
            group_mods: of("group_mods"),
            packet_ins: of("packet_ins"),
            decisions: of("decisions"),
        })
    }

    /// What switches are told to connect to.
    pub fn target(&self) -> String {
        format!("tcp:127.0.0.1:{}", self.openflow)
    }

    /// Waits until it knows every switch, every link in both directions and every host. `rouse` is called now and then.
    ///
    /// # Errors
    /// It ends, or does not come to know them.
    pub fn wait_until_known(
        &mut self,
        topology: &Topology,
        is_wanted: &mut dyn FnMut() -> bool,
        rouse: &mut dyn FnMut() -> Result<(), TestbedError>,
    ) -> Result<(), TestbedError> {
        let expected = expected(topology);
        let until = Instant::now() + PATIENCE;
        loop {
            self.check()?;
            if !is_wanted() {
                return Err(TestbedError::Interrupted);
            }
            rouse()?;
            let known = ["switches", "links", "hosts"].map(|what| self.count(what));
            if known.iter().zip(expected).all(|(known, expected)| known.is_some_and(|known| known >= expected)) {
                return Ok(());
            }
            if Instant::now() > until {
                let words = |count: Option<usize>| count.map_or("?".to_owned(), |count| count.to_string());
                let [switches, links, hosts] = known.map(words);
                return Err(TestbedError::Controller(format!(
                    "knows {switches} of {} switches, {links} of {} links and {hosts} of {} hosts after {PATIENCE:?}: {}",
                    expected[0],
                    expected[1],
                    expected[2],
                    self.last_words()
                )));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Refuses if it has ended by itself.
    ///
    /// # Errors
    /// It has, with its last words.
    pub fn check(&mut self) -> Result<(), TestbedError> {
        let Some(child) = &mut self.child else { return Ok(()) };
        match child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(TestbedError::Controller(format!("ended by itself ({status}): {}", self.last_words())))
            }
            Err(cause) => Err(TestbedError::Controller(format!("cannot be waited for: {cause}"))),
        }
    }

    /// How many it knows of something; `None` where it does not answer.
    fn count(&self, what: &str) -> Option<usize> {
        let value = self.http.get(&format!("/v1/{what}")).ok()?;
        let list = value.as_array().or_else(|| value[what].as_array())?;
        let is_up = |item: &&Value| item["is_alive"].as_bool().or(item["is_connected"].as_bool()).unwrap_or(true);
        Some(list.iter().filter(is_up).count())
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(4).collect();
        if lines.is_empty() {
            "it said nothing".to_owned()
        } else {
            lines.into_iter().rev().collect::<Vec<_>>().join("; ")
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        // Asked to end it leaves the rules where they are; a controller that does not listen is ended.
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Switches, directed links between switches, hosts.
fn expected(topology: &Topology) -> [usize; 3] {
    let switches = (0..topology.nodes().len() as u32).filter(|node| is_switch(topology, NodeIx(*node))).count();
    let fabric = |link: &&net::Link| is_switch(topology, link.from) && is_switch(topology, link.to);
    [switches, topology.links().iter().filter(fabric).count(), topology.hosts().len()]
}

/// Writes the configuration of a controller that knows the hosts and the capacities of the links.
///
/// # Errors
/// The file cannot be written.
pub fn write_config(folder: &Path, topology: &Topology, wanted: &Wanted<'_>) -> Result<PathBuf, TestbedError> {
    let path = folder.join("controller.toml");
    fs::write(&path, config(topology, wanted)).map_err(file_error("write", &path))?;
    Ok(path)
}

fn config(topology: &Topology, wanted: &Wanted<'_>) -> String {
    let mut text = format!(
        "listen = \"127.0.0.1:{}\"\nbalancer = \"{}\"\nseed = {}\n\n[http]\nlisten = \"127.0.0.1:{}\"\n",
        wanted.openflow, wanted.balancer, wanted.seed, wanted.http
    );
    if let Some(checker) = wanted.checker {
        let _ = writeln!(text, "\n[services]\nchecker = \"{checker}\"");
    }
    text += &control(wanted);
    for link in (0..topology.links().len() as u32).map(LinkIx) {
        let ends = topology.link(link);
        if is_switch(topology, ends.from) {
            let (switch, port) = (address::datapath_of(ends.from), address::port_of(topology, link));
            let bps = ends.rate.as_bps();
            let _ = write!(text, "\n[[link]]\nswitch = {switch}\nport = {port}\ncapacity = \"{bps}bps\"\n");
        }
    }
    let hosts = if wanted.hosts == KnownHosts::Configured { topology.hosts().len() as u32 } else { 0 };
    for host in (0..hosts).map(HostIx) {
        let Some(link) = topology.out_links(topology.host(host)).first() else { continue };
        let mac = mac(host);
        let switch = address::datapath_of(topology.link(*link).to);
        let (ip, port) = (address::host_ipv4(host), address::port_of(topology, link.reverse()));
        let _ = write!(text, "\n[[host]]\nmac = \"{mac}\"\nipv4 = \"{ip}\"\nswitch = {switch}\nport = {port}\n");
    }
    text + wanted.tables
}

/// The section `[control]`, with what is not the controller's own choice.
fn control(wanted: &Wanted<'_>) -> String {
    let us = |time: Time| time.as_ps() / 1_000_000;
    let mut text = "\n[control]\n".to_owned();
    if let Some(poll) = wanted.poll {
        let _ = writeln!(text, "poll_interval = \"{}us\"", us(poll));
    }
    if let Some(discovery) = wanted.discovery {
        // A link is given up after three rounds without it, as by its own settings.
        let _ =
            writeln!(text, "discovery_interval = \"{}us\"\nlink_timeout = \"{}us\"", us(discovery), us(discovery * 3));
    }
    text
}

/// A port nobody listens on now.
///
/// # Errors
/// There is none.
pub fn free_port() -> Result<u16, TestbedError> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    free.map(|at| at.port()).map_err(|cause| TestbedError::Controller(format!("finds no free port: {cause}")))
}

/// The HTTP interface of a controller on this machine, by its port.
#[derive(Clone, Copy, Debug)]
pub struct Http(pub u16);

impl Http {
    /// Reads a JSON document.
    ///
    /// # Errors
    /// It does not answer, or with something else.
    pub fn get(self, path: &str) -> io::Result<Value> {
        Ok(serde_json::from_str(&self.ask("GET", path, ())?)?)
    }

    /// Tells something.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn post(self, path: &str, body: &Value) -> io::Result<()> {
        self.send("POST", path, body)
    }

    /// Tells something by another method.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn send(self, method: &str, path: &str, body: &Value) -> io::Result<()> {
        self.ask(method, path, body.to_string()).map(drop)
    }

    fn ask(self, method: &str, path: &str, body: impl AsSendBody) -> io::Result<String> {
        let url = format!("http://{}:{}{path}", Ipv4Addr::LOCALHOST, self.0);
        let request = http::Request::builder().method(method).uri(url).header("Content-Type", "application/json");
        let request = request.body(body).map_err(io::Error::other)?;
        let (status, body) = web::ask(&web::client(ANSWER_PATIENCE).build().new_agent(), request)?;
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
    fn the_controller_is_told_of_every_port_and_every_host() {
        let topology = net::spec::parse("leaf-spine:leaves=2,spines=2,hosts_per_leaf=3").expect("a topology");
        let wanted = Wanted {
            balancer: "sdn-ecmp",
            poll: Some(Time::from_s(10)),
            seed: 4,
            openflow: 6653,
            http: 8080,
            hosts: KnownHosts::Configured,
            discovery: Some(Time::from_s(15)),
            checker: None,
            tables: "\n[pools.web]\n",
        };
        let text = config(&topology, &wanted);
        assert_eq!((text.matches("[[host]]").count(), text.matches("[[link]]").count()), (6, 6 + 8));
        assert!(text.contains("poll_interval = \"10000000us\"") && text.contains("balancer = \"sdn-ecmp\""));
        assert!(text.contains("discovery_interval = \"15000000us\"\nlink_timeout = \"45000000us\"\n"), "{text}");
        assert!(text.ends_with("[pools.web]\n"));
        assert_eq!(expected(&topology), [4, 8, 6]);
        assert!(!config(&topology, &Wanted { hosts: KnownHosts::Seen, ..wanted }).contains("[[host]]"));
    }
}
