//! Real servers in the namespaces of hosts: nginx with pages, vsftpd with files, a program that works on jobs, and HAProxy as the box
//! that others put in the path.

mod vsftpd;

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::driver::{Program, file_error};
use crate::error::TestbedError;
use crate::live::Live;
use crate::tcp_table::{self, LISTEN};

/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// A page: its name and its length, bytes.
pub type Page<'a> = (&'a str, u64);

/// A program that serves in a host's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name among the programs of the network.
    pub program: String,
    /// The emulated host.
    pub host: String,
    /// Program and arguments.
    argv: Vec<String>,
    folder: PathBuf,
    /// Where it listens.
    pub at: SocketAddrV4,
}

impl Server {
    /// nginx with these pages. It says its name in the header `X-Server`.
    ///
    /// # Errors
    /// Its files cannot be written.
    pub fn nginx(live: &Live, host: &str, at: SocketAddrV4, pages: &[Page<'_>]) -> Result<Server, TestbedError> {
        let program = format!("nginx-{host}-{}", at.port());
        let folder = live.folder.join(&program);
        write_pages(&folder.join("pages"), pages)?;
        let config = folder.join("nginx.conf");
        fs::write(&config, nginx_config(host, at, &folder)).map_err(file_error("write", &config))?;
        let (config, errors) = (text(&config), text(&folder.join("error.log")));
        let argv = ["nginx", "-c", &config, "-e", &errors, "-p", &text(&folder)].map(str::to_owned).to_vec();
        Ok(Server { program, host: host.to_owned(), argv, folder, at })
    }

    /// HAProxy, which takes connections at `at` and makes one of its own for each, to the members in turn. It asks members every
    /// second whether they can be reached.
    ///
    /// # Errors
    /// Its files cannot be written.
    pub fn haproxy(
        live: &Live,
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

    /// A server of jobs, which is `program` itself: so many cores, each worth a share of a processor.
    ///
    /// # Errors
    /// Its folder cannot be made.
    pub fn jobs(
        live: &Live,
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

    /// What it has printed.
    pub fn said(&self) -> String {
        fs::read_to_string(self.folder.join("output.log")).unwrap_or_default().trim().to_owned()
    }

    /// Starts it and waits until it listens; answers its process.
    ///
    /// # Errors
    /// It ends at once, or does not listen in time.
    pub fn start(&self, live: &mut Live) -> Result<u32, TestbedError> {
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
            live.listen(Duration::from_millis(20))?;
            if let Some(code) = live.exits.get(&self.program) {
                return Err(failed(format!("ended with {code}: {}", self.said())));
            }
            let host = live.hosts.iter().find(|host| host.ip == *self.at.ip());
            let Some(host) = host else { return Err(failed(format!("no host has the address {}", self.at.ip()))) };
            if is_listening(host.pid, self.at) {
                return pid.ok_or_else(|| TestbedError::Driver("did not tell the process of a server".to_owned()));
            }
            if Instant::now() > until {
                return Err(failed(format!("does not listen at {} after {PATIENCE:?}", self.at)));
            }
        }
    }

    /// Kills it and its children at once; its host stays.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn kill(&self, live: &mut Live) -> Result<(), TestbedError> {
        live.ask("kill", json!({"programs": [self.program], "signal": 9, "group": true}))?;
        let until = Instant::now() + PATIENCE;
        while !live.exits.contains_key(&self.program) && Instant::now() < until {
            live.listen(Duration::from_millis(20))?;
        }
        Ok(())
    }

    /// Processor time it and its children have used so far, seconds; 0 when it has ended.
    pub fn cpu_s(&self) -> f64 {
        let processes = processes_with(&self.argv);
        processes.iter().filter_map(|pid| cpu_s(*pid)).sum()
    }
}

/// Pages of these lengths in a folder.
fn write_pages(root: &Path, pages: &[Page<'_>]) -> Result<(), TestbedError> {
    fs::create_dir_all(root).map_err(file_error("make", root))?;
    for (name, bytes) in pages {
        let path = root.join(name);
        // Holes are read as zeros, and cost no room.
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

/// Whether a socket listens there, as the kernel of that namespace says.
fn is_listening(pid: u32, at: SocketAddrV4) -> bool {
    let sockets = tcp_table::sockets(Path::new(&format!("/proc/{pid}/net"))).unwrap_or_default();
    let wanted = [*at.ip(), Ipv4Addr::UNSPECIFIED].map(|ip| SocketAddr::from((ip, at.port())));
    sockets.iter().any(|socket| socket.state == LISTEN && wanted.contains(&socket.local))
}

/// Processes with this command line, and their children.
fn processes_with(argv: &[String]) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids: Vec<u32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    let command = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let wanted: Vec<u8> = argv.iter().flat_map(|word| [word.as_bytes(), &[0]].concat()).collect();
    // nginx calls itself "nginx: master process nginx -c …".
    let is_ours = |text: &[u8]| {
        let plain = String::from_utf8_lossy(text).replace('\0', " ");
        text == wanted.as_slice() || plain.contains(&argv.join(" "))
    };
    let ours: Vec<u32> = pids.iter().copied().filter(|pid| is_ours(&command(*pid))).collect();
    pids.into_iter().filter(|pid| ours.contains(pid) || parent(*pid).is_some_and(|it| ours.contains(&it))).collect()
}

/// Fields of `/proc/PID/stat` after the name.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace().map(str::to_owned).collect())
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// Processor time of a process so far, seconds.
pub fn cpu_s(pid: u32) -> Option<f64> {
    ticks_s(&stat(pid)?, &[11, 12])
}

/// Processor time of a process so far, of those it has begun, and of those among them that have ended, seconds.
pub fn tree_cpu_s(root: u32) -> f64 {
    let Ok(entries) = fs::read_dir("/proc") else { return 0.0 };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let stats: BTreeMap<u32, Vec<String>> = pids.filter_map(|pid| Some((pid, stat(pid)?))).collect();
    let parent = |pid: u32| -> Option<u32> { stats.get(&pid)?.get(1)?.parse().ok() };
    let is_of_tree = |pid: u32| std::iter::successors(Some(pid), |pid| parent(*pid)).any(|pid| pid == root);
    // Its own time as user and in the kernel, and both of children that it has waited for.
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
    fn listening_sockets_are_seen() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        assert!(is_listening(std::process::id(), at));
        drop(listener);
        assert!(!is_listening(std::process::id(), at));
    }

    #[test]
    fn processor_time_is_that_of_a_process_and_its_children() {
        let ours = std::process::id();
        assert!(cpu_s(ours).is_some_and(|time| time >= 0.0) && cpu_s(0).is_none());
        let begun = std::time::Instant::now();
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
        while tree_cpu_s(ours) - cpu_s(ours).unwrap_or_default() < 0.05 {
            assert!(begun.elapsed() < Duration::from_secs(20), "a busy child is not counted");
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().and_then(|()| child.wait()).expect("it was running");
        let command = fs::read_to_string("/proc/self/cmdline").expect("our own");
        let argv: Vec<String> = command.trim_end_matches('\0').split('\0').map(str::to_owned).collect();
        assert!(processes_with(&argv).contains(&ours));
    }

    #[test]
    fn members_of_the_box_are_checked() {
        let at = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 9), 80);
        let text = haproxy_config(at, &[SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 8080)]);
        assert!(text.contains("bind 10.0.0.9:80\n") && text.contains("server m0 10.0.0.1:8080 check inter 1s\n"));
    }
}
