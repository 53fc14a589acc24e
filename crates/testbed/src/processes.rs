//! Processor time and sockets of processes, read from `/proc`.

use std::collections::BTreeMap;
use std::iter::successors;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use procfs::ProcResult;
use procfs::net::{TcpNetEntry, TcpState};
use procfs::process::{Process, Stat, all_processes};

/// Returns the user and system time of a process, seconds; `None` if it does not exist.
pub fn cpu_s(pid: u32) -> Option<f64> {
    let stat = Process::new(pid as i32).and_then(|process| process.stat()).ok()?;
    Some(seconds((stat.utime + stat.stime) as f64))
}

/// Returns the processor time of a process and its descendants, ended ones included, seconds.
pub fn tree_cpu_s(root: u32) -> f64 {
    let processes = all_processes().into_iter().flatten().flatten();
    let stats: BTreeMap<i32, Stat> =
        processes.filter_map(|process| Some((process.pid, process.stat().ok()?))).collect();
    let parent = |pid: &i32| stats.get(pid).map(|stat| stat.ppid);
    let in_tree = stats.iter().filter(|(pid, _)| successors(Some(**pid), parent).any(|pid| pid == root as i32));
    // `cutime` and `cstime` are the times of the children that the process has waited for.
    in_tree.map(|(_, stat)| seconds((stat.utime + stat.stime) as f64 + (stat.cutime + stat.cstime) as f64)).sum()
}

fn seconds(ticks: f64) -> f64 {
    ticks / procfs::ticks_per_second() as f64
}

/// Returns the processes with this command line, and their children.
pub(crate) fn processes_with(argv: &[String]) -> Vec<u32> {
    let processes: Vec<Process> = all_processes().into_iter().flatten().flatten().collect();
    // nginx calls itself "nginx: master process nginx -c …".
    let matches = |process: &Process| process.cmdline().is_ok_and(|line| line.join(" ").contains(&argv.join(" ")));
    let found: Vec<i32> = processes.iter().filter(|process| matches(process)).map(Process::pid).collect();
    let is_child = |process: &Process| process.stat().is_ok_and(|stat| found.contains(&stat.ppid));
    let wanted = processes.iter().filter(|process| found.contains(&process.pid) || is_child(process));
    wanted.map(|process| process.pid as u32).collect()
}

/// Returns the TCP sockets, over IPv4 and IPv6, of the network namespace of a process.
pub fn tcp_sockets(pid: u32) -> ProcResult<Vec<TcpNetEntry>> {
    let process = Process::new(pid as i32)?;
    let mut sockets = process.tcp()?;
    // A kernel may be without IPv6.
    sockets.extend(process.tcp6().unwrap_or_default());
    Ok(sockets)
}

pub(crate) fn is_listening(pid: u32, at: SocketAddrV4) -> bool {
    let addresses = [*at.ip(), Ipv4Addr::UNSPECIFIED].map(|ip| SocketAddr::from((ip, at.port())));
    let listens = |socket: &TcpNetEntry| socket.state == TcpState::Listen && addresses.contains(&socket.local_address);
    tcp_sockets(pid).is_ok_and(|sockets| sockets.iter().any(listens))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn sockets_of_this_process_are_found() {
        let of = |port: u16, state: TcpState| {
            let all = tcp_sockets(std::process::id()).expect("the kernel's table");
            all.iter().filter(|socket| socket.local_address.port() == port && socket.state == state).count()
        };
        for place in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may be without IPv6.
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let at = listener.local_addr().expect("bound");
            assert_eq!((of(at.port(), TcpState::Listen), of(at.port(), TcpState::Established)), (1, 0), "{at}");
            let _one = TcpStream::connect(at).expect("a connection");
            let _other = listener.accept().expect("a connection");
            assert_eq!((of(at.port(), TcpState::Listen), of(at.port(), TcpState::Established)), (1, 1), "{at}");
        }
        assert!(tcp_sockets(0).is_err());
    }

    #[test]
    fn listening_socket_is_found() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().expect("bound").port());
        assert!(is_listening(std::process::id(), at));
        drop(listener);
        // A child that another test starts has the socket too, from its fork until its program begins.
        let begun = Instant::now();
        while is_listening(std::process::id(), at) {
            assert!(begun.elapsed() < Duration::from_secs(20), "a closed socket is found");
        }
    }

    #[test]
    fn processor_time_includes_children() {
        let own = std::process::id();
        assert!(cpu_s(own).is_some_and(|time| time >= 0.0) && cpu_s(0).is_none());
        let begun = Instant::now();
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
        while tree_cpu_s(own) - cpu_s(own).unwrap_or_default() < 0.05 {
            assert!(begun.elapsed() < Duration::from_secs(20), "a busy child is not counted");
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().and_then(|()| child.wait()).expect("it was running");
        let argv = Process::myself().and_then(|process| process.cmdline()).expect("our own");
        assert!(processes_with(&argv).contains(&own));
    }
}
