//! Reports: as JSON over HTTP, and as F1's agents sent them by UDP.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::failure::Failure;

/// A controller that takes longer to answer has not heard.
const PATIENCE: Duration = Duration::from_secs(3);

/// What was measured.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Measured {
    /// Share of all processors that was busy, from 0 to 1.
    pub(super) cpu: f64,
    pub(super) cores: u32,
    pub(super) connections: Option<u32>,
    pub(super) response: Option<Duration>,
    /// Throughput to other hosts, bit/s.
    pub(super) probes: Vec<(Ipv4Addr, u64)>,
}

impl Measured {
    fn json(&self) -> Value {
        let probe = |(to, rate): &(Ipv4Addr, u64)| json!({"to": to.to_string(), "rate_bps": rate});
        json!({
            "cpu": self.cpu,
            "cores": self.cores,
            "connections": self.connections,
            "response_ms": self.response.map(|response| response.as_secs_f64() * 1e3),
            "probes": self.probes.iter().map(probe).collect::<Value>(),
        })
    }

    /// F1's text: response time in ms, connections, processor in percent. It has no word for what is not known: 0.
    fn text(&self) -> String {
        let response_ms = self.response.unwrap_or_default().as_secs_f64() * 1e3;
        format!("{response_ms:.1} {} {:.1}", self.connections.unwrap_or(0), self.cpu * 100.0)
    }
}

/// Tells by UDP.
pub(super) fn tell_in_band(to: Ipv4Addr, measured: &Measured) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.send_to(measured.text().as_bytes(), (to, daemon::REPORT_PORT))?;
    Ok(())
}

/// The controller's HTTP interface.
#[derive(Debug)]
pub(super) struct Controller {
    /// Address and port, as they were written.
    place: String,
    token: Option<String>,
    address: Option<Ipv4Addr>,
    /// Whether it was said that nobody minds.
    has_warned: bool,
}

impl Controller {
    /// # Errors
    /// The address or the file of the token cannot be used.
    pub(super) fn new(url: &str, token: Option<&Path>, address: Option<Ipv4Addr>) -> Result<Controller, Failure> {
        let place = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let place = place.filter(|place| !place.is_empty() && !place.contains('/'));
        let place = place.ok_or_else(|| {
            let failure = Failure::new(format!("--controller: `{url}` is not the address of an HTTP interface"));
            failure.with_hint("write it as http://ADDRESS:PORT, such as http://192.0.2.1:8080")
        })?;
        let token = token.map(|file| {
            let name = file.display();
            let text = fs::read_to_string(file);
            let text =
                text.map_err(|error| Failure::new(format!("cannot read a token from {name}")).caused_by(error))?;
            let token = text.trim().to_owned();
            let is_one = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
            let hint = "the file holds the token and nothing else";
            if is_one { Ok(token) } else { Err(Failure::new(format!("{name} holds no token")).with_hint(hint)) }
        });
        Ok(Controller { place: place.to_owned(), token: token.transpose()?, address, has_warned: false })
    }

    /// Tells; the inner error is one that may pass.
    ///
    /// # Errors
    /// The controller will not have reports of this agent.
    pub(super) fn tell(&mut self, measured: &Measured) -> Result<Result<(), String>, Failure> {
        let (status, body) = match self.post(measured) {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        let words = answer["detail"].as_str().unwrap_or(&body).to_owned();
        match status {
            200 => {
                if answer["is_member"] == false && !self.has_warned {
                    self.has_warned = true;
                    eprintln!("warning: this server is in no pool: nobody minds its reports until it is");
                }
                Ok(Ok(()))
            }
            400..500 => {
                let failure = Failure::new(format!("the controller refuses reports ({status}): {words}"));
                Err(failure.with_hint("see --token-file and --address"))
            }
            _ => Ok(Err(format!("{status}: {words}"))),
        }
    }

    fn post(&self, measured: &Measured) -> io::Result<(u16, String)> {
        let place = self.place.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no such host"))?;
        let mut stream = TcpStream::connect_timeout(&place, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let own = match (self.address, stream.local_addr()?.ip().to_canonical()) {
            (Some(address), _) | (None, IpAddr::V4(address)) => address,
            (None, other) => return Err(io::Error::other(format!("name --address: {other} is not IPv4"))),
        };
        let body = measured.json().to_string();
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!("Host: {}\r\nContent-Type: application/json\r\nContent-Length: {}", self.place, body.len());
        // HTTP/1.0: the answer ends with the connection.
        write!(stream, "POST /v1/agents/{own}/facts HTTP/1.0\r\n{token}{head}\r\n\r\n{body}")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("the answer is not HTTP"))?;
        Ok((status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_written_as_controllers_read_them() {
        let measured = Measured {
            cpu: 0.256,
            cores: 4,
            connections: Some(7),
            response: Some(Duration::from_micros(12_340)),
            probes: vec![([10, 0, 0, 2].into(), 1000)],
        };
        assert_eq!(measured.text(), "12.3 7 25.6");
        assert_eq!(measured.json()["probes"][0]["to"], "10.0.0.2");
        assert_eq!(Measured { response: None, connections: None, ..measured }.text(), "0.0 0 25.6");
        for url in ["127.0.0.1:8080", "https://x", "http://", "http://x/v1"] {
            let failure = Controller::new(url, None, None).expect_err("no address").to_string();
            assert!(failure.contains("http://192.0.2.1:8080"), "{failure}");
        }
    }
}
