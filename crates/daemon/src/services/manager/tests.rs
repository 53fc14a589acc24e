//! The HTTP interface of a daemon whose disk fails or does not respond.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::*;
use crate::storage::sim_disk::{Fault, SimDisk};
use crate::{Daemon, Settings};

/// The operation of a change that flushes the folder, after link, create, write, flush and rename.
const FLUSH_FOLDER: usize = 5;

/// A daemon with stored files on a simulated disk. The folder only has the lock.
struct Bench {
    folder: TempDir,
    disk: SimDisk,
    daemon: Daemon,
}

impl Bench {
    fn start() -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        Bench::on(folder, SimDisk::default())
    }

    fn on(folder: TempDir, disk: SimDisk) -> Bench {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let state = Some(folder.path().join("state"));
        let settings = Settings { listen: any, http: Some(any), state, ..Settings::default() };
        let daemon = Daemon::start_on(Arc::new(disk.clone()), &settings).expect("a daemon");
        Bench { folder, disk, daemon }
    }

    /// Ends the daemon, and starts another one on the same disk.
    fn restart(self) -> Bench {
        let Bench { folder, disk, daemon } = self;
        drop(daemon);
        Bench::on(folder, disk.after_restart())
    }

    fn http(&self) -> SocketAddr {
        self.daemon.http.expect("HTTP is on")
    }

    fn put(&self, pool: &str) -> (u16, String) {
        put(self.http(), pool)
    }

    fn get(&self, path: &str) -> (u16, String) {
        request(self.http(), "GET", path, "")
    }

    fn has(&self, pool: &str) -> bool {
        self.get(&format!("/v1/pools/{pool}")).0 == 200
    }
}

fn put(http: SocketAddr, pool: &str) -> (u16, String) {
    request(http, "PUT", &format!("/v1/pools/{pool}"), "{\"members\": []}")
}

/// Sends a request. Returns the status and the whole response.
fn request(http: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(http).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: {http}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).expect("a request");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    let status = response.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), response)
}

#[test]
fn rejected_change_is_not_there_after_a_restart() {
    let bench = Bench::start();
    assert_eq!(bench.put("old").0, 201);
    for (operation, name) in [(2, "write"), (3, "flush"), (4, "rename"), (FLUSH_FOLDER, "folder")] {
        bench.disk.fail(operation..operation + 1, Fault::Error);
        let (status, response) = bench.put(name);
        assert_eq!(status, 507, "{response}");
        assert!(response.contains("the change cannot be stored: "), "{response}");
        assert!(!bench.has(name), "{name}");
    }
    assert_eq!(bench.put("new").0, 201, "the disk works again");
    let bench = bench.restart();
    assert!(bench.has("old") && bench.has("new"));
    assert!(["write", "flush", "rename", "folder"].iter().all(|name| !bench.has(name)));
}

#[test]
fn unknown_outcome_stops_changes_until_the_disk_is_repaired() {
    let bench = Bench::start();
    assert_eq!(bench.put("old").0, 201);
    bench.disk.fail(FLUSH_FOLDER..usize::MAX, Fault::Error);
    let (status, response) = bench.put("maybe");
    assert_eq!(status, 503, "{response}");
    assert!(response.contains("the outcome of this change is unknown"), "{response}");
    let (status, response) = bench.put("no");
    assert_eq!(status, 503, "{response}");
    assert!(response.contains("the change was not made") && response.contains("Repair its disk"), "{response}");
    for path in ["/metrics", "/", "/v1/pools"] {
        assert_eq!(bench.get(path).0, 200, "{path}");
    }
    assert!(bench.has("old") && !bench.has("maybe") && !bench.has("no"));
    bench.disk.fail(0..0, Fault::Error);
    assert_eq!(bench.put("new").0, 201, "without a restart");
    let bench = bench.restart();
    assert!(bench.has("old") && bench.has("new") && !bench.has("maybe") && !bench.has("no"));
}

#[test]
fn stalled_disk_delays_only_changes() {
    let bench = Bench::start();
    assert_eq!(bench.put("old").0, 201);
    bench.disk.stall(true);
    let http = bench.http();
    let first = thread::spawn(move || put(http, "first"));
    thread::sleep(Duration::from_millis(100));
    let second = thread::spawn(move || put(http, "second"));
    for path in ["/metrics", "/", "/v1/pools"] {
        let began = Instant::now();
        assert_eq!(bench.get(path).0, 200, "{path}");
        assert!(began.elapsed() < Duration::from_secs(1), "{path} took {:?}", began.elapsed());
    }
    let [first, second] = [first, second].map(|client| client.join().expect("a response"));
    assert_eq!((first.0, second.0), (503, 503), "{first:?} {second:?}");
    assert!(first.1.contains("the outcome of this change is unknown"), "{first:?}");
    assert!(second.1.contains("the change was not made"), "{second:?}");
    bench.disk.stall(false);
    let limit = Instant::now() + Duration::from_secs(20);
    while !bench.has("first") {
        assert!(Instant::now() < limit, "the first change is made when the disk responds");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!bench.has("second"));
    assert_eq!(bench.put("third").0, 201);
}

#[test]
fn daemon_with_a_stalled_disk_ends() {
    let bench = Bench::start();
    bench.disk.stall(true);
    let http = bench.http();
    // The response may be missing: the daemon ends before the disk responds.
    let change = thread::spawn(move || put(http, "new"));
    thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    drop(bench.daemon);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    bench.disk.stall(false);
    let _ = change.join();
}
