//! Real servers in the namespaces of hosts: nginx with pages, vsftpd with files, a compute server,
//! and HAProxy as the middlebox of other solutions.

mod vsftpd;

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::error::TestbedError;
use crate::network::driver::{Program, file_error};
use crate::network::running_network::RunningNetwork;
use crate::traffic::tcp_table::{self, LISTEN};

/// Time in which a server must start to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Name and length of a page, bytes.
pub type Page<'a> = (&'a str, u64);

/// A server program in the namespace of a host.
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
    /// nginx with `pages`. The header `X-Server` names the host.
    pub fn nginx(
        live: &RunningNetwork,
        host: &str,
        at: SocketAddrV4,
        pages: &[Page<'_>],
    ) -> Result<Server, TestbedError> {
        let program = format!("nginx-{host}-{}", at.port());
        let folder = live.folder.join(&program);
        write_pages(&folder.join("pages"), pages)?;
        let config = folder.join("nginx.conf");
        fs::write(&config, nginx_config(host, at, &folder)).map_err(file_error("write", &config))?;
        let (config, errors) = (text(&config), text(&folder.join("error.log")));
        let argv = ["nginx", "-c", &config, "-e", &errors, "-p", &text(&folder)].map(str::to_owned).to_vec();
        Ok(Server { program, host: host.to_owned(), argv, folder, at })
    }

    /// HAProxy: it accepts connections at `at` and opens a connection to the members in turn for
    /// each. It checks the members every second.
    pub fn haproxy(
        live: &RunningNetwork,
        host: &str,
        at: SocketAddrV4,
        members: &[SocketAddrV4],
    ) -> Result<Server, TestbedError> {
        let program = format!("haproxy-{host}");
        let folder = live.folder.join(&program);
        fs::create_dir_all(&folder).map_err(file_error("make", &folder))?;
        let config = folder.join("haproxy.cfg");
        fs::write(&config, haproxy_config(at, members)).map_err(file_error("write", &config))?;
        let argv = ["haproxy", "-db", "-f", &text(&config)].map(str::to_owned).to_vec();
        Ok(Server { program, host: host.to_owned(), argv, folder, at })
    }

    /// A compute server, which is `program` itself: a number of cores, each a share of a processor.
    pub fn compute(
        live: &RunningNetwork,
        host: &str,
        at: SocketAddrV4,
        program: &Path,
        (cores, core): (u32, f64),
    ) -> Result<Server, TestbedError> {
        let name = format!("jobs-{host}-{}", at.port());
        let folder = live.folder.join(&name);
        fs::create_dir_all(&folder).map_err(file_error("make", &folder))?;
        let mut argv = vec![text(program)];
        argv.extend(["testbed", "jobs", "--listen", &at.to_string(), "--name", host].map(str::to_owned));
        argv.extend(["--cores", &cores.to_string(), "--core", &core.to_string()].map(str::to_owned));
        Ok(Server { program: name, host: host.to_owned(), argv, folder, at })
    }

    /// Returns the output of the server.
    pub fn output(&self) -> String {
        fs::read_to_string(self.folder.join("output.log")).unwrap_or_default().trim().to_owned()
    }

    /// Starts the server and waits until it listens. Returns its process id.
    ///
    /// # Errors
    /// The server ends, or does not listen in time.
    pub fn start(&self, live: &mut RunningNetwork) -> Result<u32, TestbedError> {
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
        let failed = |reason: String| TestbedError::Traffic { program: self.program.clone(), reason };
        let until = Instant::now() + PATIENCE;
        loop {
            live.poll_events(Duration::from_millis(20))?;
            if let Some(code) = live.exits.get(&self.program) {
                return Err(failed(format!("ended with {code}: {}", self.output())));
            }
            let host = live.hosts.iter().find(|host| host.ip == *self.at.ip());
            let Some(host) = host else { return Err(failed(format!("no host has the address {}", self.at.ip()))) };
            if is_listening(host.pid, self.at) {
                return pid.ok_or_else(|| TestbedError::Driver("did not return the process id of a server".to_owned()));
            }
            if Instant::now() > until {
                return Err(failed(format!("does not listen at {} after {PATIENCE:?}", self.at)));
            }
        }
    }

    /// Kills the server and its children; the host stays.
    pub fn kill(&self, live: &mut RunningNetwork) -> Result<(), TestbedError> {
        live.request("kill", json!({"programs": [self.program], "signal": 9, "group": true}))?;
        let until = Instant::now() + PATIENCE;
        while !live.exits.contains_key(&self.program) && Instant::now() < until {
            live.poll_events(Duration::from_millis(20))?;
        }
        Ok(())
    }

    /// Returns the processor time of the server and its children, seconds; 0 after they have ended.
    pub fn cpu_s(&self) -> f64 {
        let processes = processes_with(&self.argv);
        processes.iter().filter_map(|pid| cpu_s(*pid)).sum()
    }
}

/// Writes pages of the given lengths.
fn write_pages(root: &Path, pages: &[Page<'_>]) -> Result<(), TestbedError> {
    fs::create_dir_all(root).map_err(file_error("make", root))?;
    for (name, bytes) in pages {
        let path = root.join(name);
        // Holes read as zeros and need no disk space.
        let made = fs::File::create(&path).and_then(|file| file.set_len(*bytes));
        made.map_err(file_error("write", &path))?;
    }
    Ok(())
}

fn text(path: &Path) -> String {
    path.display().to_string()
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

/// Returns whether a socket of that namespace listens at the address.
fn is_listening(pid: u32, at: SocketAddrV4) -> bool {
    let sockets = tcp_table::sockets(Path::new(&format!("/proc/{pid}/net"))).unwrap_or_default();
    let wanted = [*at.ip(), Ipv4Addr::UNSPECIFIED].map(|ip| SocketAddr::from((ip, at.port())));
    sockets.iter().any(|socket| socket.state == LISTEN && wanted.contains(&socket.local))
}

/// Returns the processes with this command line, and their children.
fn processes_with(argv: &[String]) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids: Vec<u32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    let command = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let wanted: Vec<u8> = argv.iter().flat_map(|word| [word.as_bytes(), &[0]].concat()).collect();
    // nginx calls itself "nginx: master process nginx -c …".
    let matches = |text: &[u8]| {
        let plain = String::from_utf8_lossy(text).replace('\0', " ");
        text == wanted.as_slice() || plain.contains(&argv.join(" "))
    };
    let found: Vec<u32> = pids.iter().copied().filter(|pid| matches(&command(*pid))).collect();
    pids.into_iter().filter(|pid| found.contains(pid) || parent(*pid).is_some_and(|it| found.contains(&it))).collect()
}

/// Returns the fields of `/proc/PID/stat` after the name.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace().map(str::to_owned).collect())
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// Returns the processor time of a process, seconds.
pub fn cpu_s(pid: u32) -> Option<f64> {
    ticks_s(&stat(pid)?, &[11, 12])
}

/// Returns the processor time of a process, its descendants, and those of them that have ended,
/// seconds.
pub fn tree_cpu_s(root: u32) -> f64 {
    let Ok(entries) = fs::read_dir("/proc") else { return 0.0 };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let stats: BTreeMap<u32, Vec<String>> = pids.filter_map(|pid| Some((pid, stat(pid)?))).collect();
    let parent = |pid: u32| -> Option<u32> { stats.get(&pid)?.get(1)?.parse().ok() };
    let is_of_tree = |pid: u32| std::iter::successors(Some(pid), |pid| parent(*pid)).any(|pid| pid == root);
    // User and kernel time of the process, and both of the children it has waited for.
    let used =
        stats.iter().filter(|(pid, _)| is_of_tree(**pid)).filter_map(|(_, stat)| ticks_s(stat, &[11, 12, 13, 14]));
    used.sum()
}

fn ticks_s(stat: &[String], places: &[usize]) -> Option<f64> {
    let mut sum = 0.0;
    for place in places {
        sum += stat.get(*place)?.parse::<f64>().ok()?;
    }
    let per_s = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    Some(sum / per_s as f64)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn listening_socket_is_found() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        assert!(is_listening(std::process::id(), at));
        drop(listener);
        assert!(!is_listening(std::process::id(), at));
    }

    #[test]
    fn processor_time_includes_children() {
        let found = std::process::id();
        assert!(cpu_s(found).is_some_and(|time| time >= 0.0) && cpu_s(0).is_none());
        let begun = std::time::Instant::now();
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
        while tree_cpu_s(found) - cpu_s(found).unwrap_or_default() < 0.05 {
            assert!(begun.elapsed() < Duration::from_secs(20), "a busy child is not counted");
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().and_then(|()| child.wait()).expect("it was running");
        let command = fs::read_to_string("/proc/self/cmdline").expect("our own");
        let argv: Vec<String> = command.trim_end_matches('\0').split('\0').map(str::to_owned).collect();
        assert!(processes_with(&argv).contains(&found));
    }

    #[test]
    fn haproxy_checks_members() {
        let at = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 9), 80);
        let text = haproxy_config(at, &[SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 8080)]);
        assert!(text.contains("bind 10.0.0.9:80\n") && text.contains("server m0 10.0.0.1:8080 check inter 1s\n"));
    }
}
