//! The controller of a run: `anabranch serve` as a process of its own, told of hosts and capacities, asked what it knows.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use net::{HostIx, LinkIx, NodeIx, Time, Topology, address};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::driver::file_error;
use crate::error::TestbedError;
use crate::plan::is_switch;

/// How long it may take until the controller knows all switches, links and hosts.
const PATIENCE: Duration = Duration::from_secs(60);

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
}

/// A controller that is running; dropping it ends it and leaves the rules.
pub struct Controller {
    child: Child,
    openflow: u16,
    http: u16,
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
        balancer: &str,
        poll: Option<Time>,
        seed: u64,
    ) -> Result<Controller, TestbedError> {
        let (openflow, http) = (free_port()?, free_port()?);
        let config = write_config(folder, topology, &Wanted { balancer, poll, seed, openflow, http })?;
        let log = folder.join("controller.log");
        let file = fs::File::create(&log).map_err(file_error("write", &log))?;
        let errors = file.try_clone().map_err(file_error("write", &log))?;
        let child = Command::new(program)
            .arg("serve")
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|cause| {
                TestbedError::Controller(format!("cannot be started as {}: {cause}", program.display()))
            })?;
        Ok(Controller { child, openflow, http, log })
    }

    /// What switches are told to connect to.
    pub fn target(&self) -> String {
        format!("tcp:127.0.0.1:{}", self.openflow)
    }

    /// Waits until it knows every switch, every link in both directions and every host.
    ///
    /// # Errors
    /// It ends, or does not come to know them.
    pub fn wait_until_known(
        &mut self,
        topology: &Topology,
        is_wanted: &mut dyn FnMut() -> bool,
    ) -> Result<(), TestbedError> {
        let expected = expected(topology);
        let until = Instant::now() + PATIENCE;
        loop {
            self.check()?;
            if !is_wanted() {
                return Err(TestbedError::Interrupted);
            }
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
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(TestbedError::Controller(format!("ended by itself ({status}): {}", self.last_words())))
            }
            Err(cause) => Err(TestbedError::Controller(format!("cannot be waited for: {cause}"))),
        }
    }

    /// How many it knows of something; `None` where it does not answer.
    fn count(&self, what: &str) -> Option<usize> {
        let value = get(self.http, &format!("/v1/{what}")).ok()?;
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
        // Asked to end it leaves the rules where they are; a controller that does not listen is ended.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    if let Some(poll) = wanted.poll {
        let _ = writeln!(text, "\n[control]\npoll_interval = \"{}us\"", poll.as_ps() / 1_000_000);
    }
    for link in (0..topology.links().len() as u32).map(LinkIx) {
        let ends = topology.link(link);
        if is_switch(topology, ends.from) {
            let (switch, port) = (address::datapath_of(ends.from), address::port_of(topology, link));
            let bps = ends.rate.as_bps();
            let _ = write!(text, "\n[[link]]\nswitch = {switch}\nport = {port}\ncapacity = \"{bps}bps\"\n");
        }
    }
    for host in (0..topology.hosts().len() as u32).map(HostIx) {
        let Some(link) = topology.out_links(topology.host(host)).first() else { continue };
        let mac = address::host_mac(host).map(|byte| format!("{byte:02x}")).join(":");
        let switch = address::datapath_of(topology.link(*link).to);
        let (ip, port) = (address::host_ipv4(host), address::port_of(topology, link.reverse()));
        let _ = write!(text, "\n[[host]]\nmac = \"{mac}\"\nipv4 = \"{ip}\"\nswitch = {switch}\nport = {port}\n");
    }
    text
}

/// A port nobody listens on now.
fn free_port() -> Result<u16, TestbedError> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    free.map(|at| at.port()).map_err(|cause| TestbedError::Controller(format!("finds no free port: {cause}")))
}

/// Reads a JSON document of the controller's HTTP interface. HTTP/1.0: the answer ends with the connection.
fn get(port: u16, path: &str) -> std::io::Result<Value> {
    let patience = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), patience)?;
    stream.set_read_timeout(Some(patience))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok(serde_json::from_str(body)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_told_of_every_port_and_every_host() {
        let topology = net::spec::parse("leaf-spine:leaves=2,spines=2,hosts_per_leaf=3").expect("a topology");
        let wanted = Wanted { balancer: "sdn-ecmp", poll: Some(Time::from_s(10)), seed: 4, openflow: 6653, http: 8080 };
        let text = config(&topology, &wanted);
        assert_eq!((text.matches("[[host]]").count(), text.matches("[[link]]").count()), (6, 6 + 8));
        assert!(text.contains("poll_interval = \"10000000us\"") && text.contains("balancer = \"sdn-ecmp\""));
        assert_eq!(expected(&topology), [4, 8, 6]);
    }
}
