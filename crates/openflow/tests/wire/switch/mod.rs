//! A real Open vSwitch in a temporary directory, with emulated devices: it needs no privileges, no
//! kernel module and no traffic outside.

mod captured;

use std::io::Read as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anabranch_openflow::wire::{DecodeError, HEADER_LEN, decode};
use anabranch_openflow::{Envelope, Message, Xid};

pub use captured::Captured;

use crate::open_vswitch::is_installed;

/// Returns whether all programs of Open vSwitch are installed; in continuous integration they must
/// be.
pub fn is_available() -> bool {
    let programs = ["ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-appctl", "ovs-ofctl"];
    programs.map(is_installed).iter().all(|&is_there| is_there)
}

/// Longer than any operation of Open vSwitch; its keep-alive is sent after 5 s.
const PATIENCE: Duration = Duration::from_secs(20);

/// The database and the switch, which are killed when this is dropped.
pub struct Switch {
    directory: tempfile::TempDir,
    servers: Vec<Child>,
}

impl Drop for Switch {
    fn drop(&mut self) {
        for server in self.servers.iter_mut().rev() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Switch {
    pub fn start() -> Switch {
        let directory = tempfile::tempdir().unwrap();
        let mut switch = Switch { directory, servers: Vec::new() };
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        switch.run("ovsdb-tool", &["create", &switch.path("conf.db"), schema]);
        let remote = format!("--remote=punix:{}", switch.path("db.sock"));
        switch.serve("ovsdb-server", &[&switch.path("conf.db"), &remote, &switch.control("db.ctl")]);
        switch.wait_for("db.sock");
        switch.vsctl("--no-wait init");
        let arguments =
            [&*switch.database(), "--enable-dummy=override", "--disable-system", &switch.control("switch.ctl")];
        switch.serve("ovs-vswitchd", &arguments);
        switch
    }

    fn path(&self, file: &str) -> String {
        self.directory.path().join(file).to_str().unwrap().to_owned()
    }

    fn database(&self) -> String {
        format!("unix:{}", self.path("db.sock"))
    }

    fn control(&self, file: &str) -> String {
        format!("--unixctl={}", self.path(file))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(variable, self.directory.path());
        }
        command
    }

    fn serve(&mut self, program: &str, arguments: &[&str]) {
        let log = std::fs::File::create(self.path(&format!("{program}.log"))).unwrap();
        let mut command = self.command(program);
        command.args(arguments).arg("--no-chdir").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.servers.push(command.spawn().unwrap());
    }

    fn wait_for(&self, file: &str) {
        let end = Instant::now() + PATIENCE;
        while !Path::new(&self.path(file)).exists() {
            assert!(Instant::now() < end, "{file} does not appear");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let output = self.command(program).args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    }

    /// Adds a bridge with two ports that supports only this version of the protocol.
    pub fn add_bridge(&self, name: &str, version: &str) {
        let ports: String = (1..=2)
            .map(|port| {
                format!(
                    " -- add-port {name} {name}p{port} -- set interface {name}p{port} type=dummy ofport_request={port}"
                )
            })
            .collect();
        let settings = format!("datapath_type=dummy fail_mode=secure protocols={version}");
        self.vsctl(&format!("add-br {name} -- set bridge {name} {settings}{ports}"));
    }

    /// Runs `ovs-vsctl` with these words.
    pub fn vsctl(&self, words: &str) {
        let database = format!("--db={}", self.database());
        let arguments: Vec<&str> = [&*database, "--timeout=20"].into_iter().chain(words.split(' ')).collect();
        self.run("ovs-vsctl", &arguments);
    }

    /// Runs `ovs-appctl` with these arguments.
    pub fn appctl(&self, arguments: &[&str]) {
        let target = self.path("switch.ctl");
        let arguments: Vec<&str> = ["-t", &*target].into_iter().chain(arguments.iter().copied()).collect();
        self.run("ovs-appctl", &arguments);
    }

    /// Runs `ovs-ofctl -O OpenFlow13` with these arguments. The bridge is named by its management
    /// socket.
    pub fn ofctl(&self, verb: &str, bridge: &str, argument: &str) {
        let bridge = format!("unix:{}", self.path(&format!("{bridge}.mgmt")));
        self.run("ovs-ofctl", &["-O", "OpenFlow13", verb, &bridge, argument]);
    }
}

pub struct Controller {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Controller {
    pub fn of(switch: &Switch, bridge: &str) -> Controller {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        switch.vsctl(&format!("set-controller {bridge} tcp:127.0.0.1:{port}"));
        listener.set_nonblocking(true).unwrap();
        let end = Instant::now() + PATIENCE;
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) => assert!(Instant::now() < end, "the bridge does not connect: {error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Controller { stream, buffer: Vec::new() }
    }

    pub fn send(&mut self, xid: u32, message: Message) {
        use std::io::Write as _;
        let bytes = crate::bytes_of(&Envelope { xid: Xid(xid), message });
        self.stream.write_all(&bytes).unwrap();
    }

    pub fn receive(&mut self) -> (Envelope, Vec<u8>) {
        self.receive_any().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Receives a message, or the error of one that cannot be decoded and is skipped.
    pub fn receive_any(&mut self) -> Result<(Envelope, Vec<u8>), DecodeError> {
        loop {
            match decode(&self.buffer) {
                Ok(Some((envelope, length))) => {
                    assert!(length >= HEADER_LEN);
                    return Ok((envelope, self.buffer.drain(..length).collect()));
                }
                Ok(None) => {}
                Err(error) => {
                    self.buffer.drain(..error.skip.expect("the stream continues"));
                    return Err(error);
                }
            }
            let mut chunk = [0; 65536];
            let count = self.stream.read(&mut chunk).expect("an answer in time");
            assert!(count > 0, "the switch closed the connection");
            self.buffer.extend_from_slice(&chunk[..count]);
        }
    }
}
