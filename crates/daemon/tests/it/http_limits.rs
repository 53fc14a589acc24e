//! Slow, idle and numerous HTTP clients do not affect others.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::common::{Fabric, connect, connect_from, fat_tree, request, served, small_limits, wait};
use anabranch_daemon::Daemon;
use anabranch_daemon::settings::Limits;
use net::Time;

fn start() -> (Daemon, SocketAddr) {
    let limits = Limits { http_connections: 32, http_request_timeout: Time::from_ms(500), ..small_limits() };
    served(|settings| settings.limits = limits)
}

fn send(http: SocketAddr, text: &str) -> TcpStream {
    let mut stream = connect(http);
    stream.write_all(text.as_bytes()).expect("a part of a request");
    stream
}

fn until_closed(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    // A reset also ends the stream.
    let _ = stream.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn slow_and_idle_connections_time_out() {
    let (_daemon, http) = start();
    let began = Instant::now();
    let silent = send(http, "");
    let in_headers = send(http, "GET /v1/switches HTTP/1.1\r\nHost: x");
    let in_body = send(
        http,
        &format!(
            "PUT /v1/pools/p HTTP/1.1\r\nHost: {http}\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{{"
        ),
    );
    let kept_alive = send(http, &format!("GET /v1/switches HTTP/1.1\r\nHost: {http}\r\n\r\n"));
    assert_eq!(until_closed(silent), "");
    until_closed(in_headers);
    let answer = until_closed(in_body);
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let answer = until_closed(kept_alive);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// Neither other clients nor switches are affected.
#[test]
fn idle_connections_are_evicted_for_active_clients() {
    let (daemon, http) = start();
    let mut idle = Vec::new();
    for _ in 0..2000 {
        idle.push(send(http, "GET / HTTP/1.1\r\n"));
        if idle.len() > 500 {
            idle.remove(0);
        }
    }
    let (status, _) = request(http, "GET", "/v1/switches", None);
    assert_eq!(status, 200);
    let fabric = Fabric::start(fat_tree(), daemon.openflow);
    wait("all switches are connected", || fabric.with(|wires| wires.connected()) == 20);
}

/// One source may hold all connections only while no other one needs them.
#[test]
fn busy_connections_of_one_source_make_way_for_another() {
    let limits = Limits { http_connections: 16, http_request_timeout: Time::from_s(30), ..Limits::default() };
    let (_daemon, http) = served(|settings| settings.limits = limits);
    let busy: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = connect_from([127, 0, 0, 2], http);
            let head = format!("PUT /v1/pools/p HTTP/1.1\r\nHost: {http}\r\nContent-Type: application/json\r\n");
            // The daemon may have closed the connection.
            let _ = stream.write_all(format!("{head}Content-Length: 10\r\n\r\n{{").as_bytes());
            std::thread::sleep(Duration::from_millis(5));
            stream
        })
        .collect();
    for _ in 0..20 {
        let began = Instant::now();
        assert_eq!(request(http, "GET", "/v1/switches", None).0, 200);
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    drop(busy);
}

/// An event stream is idle between events; it stays open below the connection limit.
#[test]
fn event_stream_outlives_the_request_timeout() {
    let (_daemon, http) = start();
    let mut events = send(http, &format!("GET /v1/events HTTP/1.1\r\nHost: {http}\r\n\r\n"));
    std::thread::sleep(Duration::from_millis(1500));
    events.set_read_timeout(Some(Duration::from_millis(300))).expect("a time limit");
    let mut said = [0; 4096];
    let length = events.read(&mut said).expect("the head of the answer");
    assert!(said[..length].starts_with(b"HTTP/1.1 200 "));
    let error = events.read(&mut said).map(|length| assert_ne!(length, 0, "closed"));
    assert!(error.is_ok() || error.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
}
