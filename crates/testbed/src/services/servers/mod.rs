//! Real servers in the namespaces of hosts: nginx with pages, vsftpd with files, a compute server,
//! and HAProxy as the middlebox of other solutions.

mod vsftpd;

use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::error::{Result, TestbedError, failed, file_error, make_folder, write_file};
use crate::network::driver::{Program, words};
use crate::network::running_network::RunningNetwork;
use crate::processes::{cpu_s, is_listening, processes_with};
use crate::services::front_end::FrontEnd;

const PATIENCE: Duration = Duration::from_secs(20);

/// Placeholder of the configuration file in a command line.
const CONFIG: &str = "CONFIG";

/// Name and length of a page, bytes.
pub type Page<'a> = (&'a str, u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Name among the programs of the network.
    pub program: String,
    pub host: String,
    argv: Vec<String>,
    folder: PathBuf,
    pub at: SocketAddrV4,
}

impl Server {
    fn new(live: &RunningNetwork, kind: &str, host: &str, at: SocketAddrV4) -> Result<Server> {
        let program = format!("{kind}-{host}-{}", at.port());
        let folder = live.folder.join(&program);
        make_folder(&folder)?;
        Ok(Server { program, host: host.to_owned(), argv: Vec::new(), folder, at })
    }

    /// Sets the command line. `CONFIG` in it is the path of a file with this text.
    fn with_command(mut self, command: &[&str], config: &str) -> Result<Server> {
        let path = self.folder.join("server.conf");
        write_file(&path, config)?;
        let word = |word: &&str| if *word == CONFIG { path.display().to_string() } else { (*word).to_owned() };
        self.argv = command.iter().map(word).collect();
        Ok(self)
    }

    /// nginx with `pages`. The header `X-Server` names the host.
    pub fn nginx(live: &RunningNetwork, host: &str, at: SocketAddrV4, pages: &[Page<'_>]) -> Result<Server> {
        let server = Server::new(live, "nginx", host, at)?;
        write_pages(&server.folder.join("pages"), pages)?;
        let (config, folder) = (nginx_config(host, at, &server.folder), server.folder.display().to_string());
        let errors = format!("{folder}/error.log");
        server.with_command(&["nginx", "-c", CONFIG, "-e", &errors, "-p", &folder], &config)
    }

    /// HAProxy: it accepts connections at `at` and opens a connection to the members in turn for
    /// each. It checks the members every second.
    pub fn haproxy(live: &RunningNetwork, host: &str, at: SocketAddrV4, members: &[SocketAddrV4]) -> Result<Server> {
        let server = Server::new(live, "haproxy", host, at)?;
        server.with_command(&["haproxy", "-db", "-f", CONFIG], &haproxy_config(at, members))
    }

    /// A compute server, which is `program` itself: a number of cores, each a share of a processor.
    pub fn compute(
        live: &RunningNetwork,
        host: &str,
        at: SocketAddrV4,
        program: &Path,
        (cores, core): (u32, f64),
    ) -> Result<Server> {
        let server = Server::new(live, "jobs", host, at)?;
        let options = format!("testbed jobs --listen {at} --name {host} --cores {cores} --core-share {core}");
        Ok(Server { argv: [vec![program.display().to_string()], words(&options)].concat(), ..server })
    }

    /// A front end, which is `program` itself.
    pub fn front_end(live: &RunningNetwork, host: &str, program: &Path, front: &FrontEnd) -> Result<Server> {
        let server = Server::new(live, "front-end", host, front.listen)?;
        let config = serde_json::to_string_pretty(front).map_err(|cause| failed("front-end", cause.to_string()))?;
        let program = program.display().to_string();
        server.with_command(&[&program, "testbed", "front-end", "--config", CONFIG], &config)
    }

    pub fn output(&self) -> String {
        fs::read_to_string(self.folder.join("output.log")).unwrap_or_default().trim().to_owned()
    }

    /// Starts the server and waits until it listens. Returns its process id.
    pub fn start(&self, live: &mut RunningNetwork) -> Result<u32> {
        let log = self.folder.join("output.log");
        live.exits.remove(&self.program);
        let program = Program {
            name: &self.program,
            host: Some(&self.host),
            argv: self.argv.clone(),
            log: &log,
            cwd: &self.folder,
            at_s: None,
        };
        let pid = live.driver.spawn(&program)?;
        let failed = |reason: String| failed(&self.program, reason);
        let until = Instant::now() + PATIENCE;
        loop {
            live.poll_events(Duration::from_millis(20))?;
            if let Some(code) = live.exits.get(&self.program) {
                return Err(failed(format!("ended with {code}: {}", self.output())));
            }
            let host = live.hosts.iter().find(|host| host.ip == *self.at.ip());
            let host = host.ok_or_else(|| failed(format!("no host has the address {}", self.at.ip())))?;
            if is_listening(host.pid, self.at) {
                return pid.ok_or_else(|| TestbedError::Driver("did not return the process id of a server".to_owned()));
            }
            if Instant::now() > until {
                return Err(failed(format!("does not listen at {} after {PATIENCE:?}", self.at)));
            }
        }
    }

    /// Kills the server and its children; the host stays.
    pub fn kill(&self, live: &mut RunningNetwork) -> Result<()> {
        live.request("kill", json!({"programs": [self.program], "signal": 9, "group": true}))?;
        let until = Instant::now() + PATIENCE;
        while !live.exits.contains_key(&self.program) && Instant::now() < until {
            live.poll_events(Duration::from_millis(20))?;
        }
        Ok(())
    }

    /// Returns the processor time of the server and its children, seconds; 0 after they have ended.
    pub fn cpu_s(&self) -> f64 {
        processes_with(&self.argv).into_iter().filter_map(cpu_s).sum()
    }
}

fn write_pages(root: &Path, pages: &[Page<'_>]) -> Result<()> {
    make_folder(root)?;
    for (name, bytes) in pages {
        let path = root.join(name);
        if let Some(folder) = path.parent() {
            make_folder(folder)?;
        }
        // Holes read as zeros and need no disk space.
        let made = fs::File::create(&path).and_then(|file| file.set_len(*bytes));
        made.map_err(file_error("write", &path))?;
    }
    Ok(())
}

fn nginx_config(name: &str, at: SocketAddrV4, folder: &Path) -> String {
    let folder = folder.display();
    let mut text = format!(
        "daemon off;\nuser root;\nworker_processes 1;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log warn;\n\
         events {{ worker_connections 4096; }}\nhttp {{\n    access_log off;\n    sendfile on;\n"
    );
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        text += &format!("    {kind}_temp_path {folder}/{kind};\n");
    }
    text + &format!(
        "    server {{\n        listen {at} backlog=4096;\n        root {folder}/pages;\n        \
         add_header X-Server {name} always;\n    }}\n}}\n"
    )
}

fn haproxy_config(at: SocketAddrV4, members: &[SocketAddrV4]) -> String {
    let mut text = format!(
        "global\n    maxconn 4000\ndefaults\n    mode tcp\n    timeout connect 5s\n    timeout client 30s\n    \
         timeout server 30s\nfrontend service\n    bind {at}\n    default_backend members\nbackend members\n    \
         balance roundrobin\n"
    );
    for (number, member) in members.iter().enumerate() {
        text += &format!("    server m{number} {member} check inter 1s\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn haproxy_checks_members() {
        let at = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 9), 80);
        let text = haproxy_config(at, &[SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 8080)]);
        assert!(text.contains("bind 10.0.0.9:80\n") && text.contains("server m0 10.0.0.1:8080 check inter 1s\n"));
    }
}
