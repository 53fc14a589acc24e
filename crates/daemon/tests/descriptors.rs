//! A daemon with few descriptors: HTTP clients leave those of switches and of the store alone.

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{Fabric, Process, ask, fat_tree, metric, wait};
use nix::sys::resource::{Resource, setrlimit};

const DESCRIPTORS: u64 = 192;

#[test]
fn http_clients_leave_descriptors_for_switches_and_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let started = Process::start("http_clients_leave_descriptors_for_switches_and_store", |settings| {
        setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, DESCRIPTORS).expect("a smaller limit");
        settings.state = Some(folder.path().join("hosts.json"));
    });
    let Some(served) = started else { return };
    // More clients than descriptors, each with a part of a request.
    let clients: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = TcpStream::connect(served.http).expect("the kernel accepts it");
            // The daemon may have closed the connection.
            let _ = stream.write_all(b"GET / HTTP/1.1\r\n");
            stream
        })
        .collect();
    let fabric = Fabric::start(fat_tree(), served.openflow);
    fabric.wait_reached();
    assert_eq!(fabric.with(|wires| wires.connected()), 20);
    let began = Instant::now();
    let (status, answer) = ask(served.http, "PUT", "/v1/pools/p", Some(serde_json::json!({"members": []})));
    assert_eq!(status, 201, "the store has a descriptor: {answer}");
    assert_eq!(metric(served.http, "switches"), 20);
    assert!(began.elapsed() < Duration::from_secs(2), "the requests took {:?}", began.elapsed());
    let open = served.open_files();
    assert!(open < DESCRIPTORS as usize - 20, "{open} of {DESCRIPTORS} descriptors are open");
    drop(clients);
    wait("the descriptors of clients are free again", || served.open_files() < 60);
}
