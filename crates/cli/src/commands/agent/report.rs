//! Reports: as JSON over HTTP, and in the UDP format of F1's agents.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::http_client;
use ureq::Agent;
use ureq::http::{Request, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::error::CliError;

/// Time in which the controller must answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Measurements of one report.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Measured {
    /// Busy share of all processors, from 0 to 1.
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

    /// Returns F1's text: response time in ms, connections, processor in percent. The format writes
    /// unknown values as 0.
    fn text(&self) -> String {
        let response_ms = self.response.unwrap_or_default().as_secs_f64() * 1e3;
        format!("{response_ms:.1} {} {:.1}", self.connections.unwrap_or(0), self.cpu * 100.0)
    }
}

/// Sends a report by UDP.
pub(super) fn send_in_band(to: Ipv4Addr, measured: &Measured) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.send_to(measured.text().as_bytes(), (to, daemon::REPORT_PORT))?;
    Ok(())
}

/// The controller's HTTP interface.
#[derive(Debug)]
pub(super) struct Controller {
    /// Prefix of all paths.
    base: String,
    /// Host name or address, and port.
    place: String,
    client: Agent,
    token: Option<String>,
    address: Option<Ipv4Addr>,
    /// Whether the agent has warned that its server is in no pool.
    has_warned: bool,
}

impl Controller {
    pub(super) fn new(
        url: &str,
        ca: Option<&Path>,
        token: Option<&Path>,
        address: Option<Ipv4Addr>,
    ) -> Result<Controller, CliError> {
        let wrong = || {
            let failure = CliError::new(format!("--controller: `{url}` is not the address of an HTTP interface"));
            failure.with_hint("write it as http://ADDRESS:PORT or https://ADDRESS:PORT, such as http://192.0.2.1:8080")
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let place =
            uri.authority().filter(|_| uri.path_and_query().is_none_or(|path| path == "/")).ok_or_else(wrong)?;
        let client = http_client::client(PATIENCE);
        let (scheme, client) = match (uri.scheme_str(), ca) {
            (Some("http"), None) => ("http", client),
            (Some("http"), Some(_)) => {
                return Err(
                    CliError::new("--ca: an address with http:// uses no certificate").with_hint("write https://")
                );
            }
            (Some("https"), Some(ca)) => ("https", client.tls_config(tls(ca)?)),
            (Some("https"), None) => {
                let failure = CliError::new("--controller: https:// needs --ca");
                return Err(
                    failure.with_hint("--ca FILE.pem is the certificate of the authority that signed the controller's")
                );
            }
            _ => return Err(wrong()),
        };
        let port = place.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        let host = place.host();
        Ok(Controller {
            base: format!("{scheme}://{host}:{port}"),
            place: format!("{host}:{port}"),
            client: client.build().new_agent(),
            token: token.map(read_token).transpose()?,
            address,
            has_warned: false,
        })
    }

    /// Sends a report. The inner error is temporary.
    pub(super) fn send(&mut self, measured: &Measured) -> Result<Result<(), String>, CliError> {
        let (status, body) = match self.post(measured) {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        let detail = answer["detail"].as_str().unwrap_or(&body).to_owned();
        match status {
            200 => {
                if answer["is_member"] == false && !self.has_warned {
                    self.has_warned = true;
                    eprintln!(
                        "warning: this server is not a member of any pool, so its reports are ignored; add it with PUT /v1/pools/NAME/members/NAME"
                    );
                }
                Ok(Ok(()))
            }
            400..500 => {
                let failure = CliError::new(format!("the controller rejects reports ({status}): {detail}"));
                Err(failure.with_hint("see --token-file and --address"))
            }
            _ => Ok(Err(format!("{status}: {detail}"))),
        }
    }

    fn post(&self, measured: &Measured) -> io::Result<(u16, String)> {
        let own = self.address.map_or_else(|| self.own_address(), Ok)?;
        let url = format!("{}/v1/agents/{own}/stats", self.base);
        let mut request = Request::post(url).header("Content-Type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let request = request.body(measured.json().to_string()).map_err(io::Error::other)?;
        http_client::request(&self.client, request)
    }

    /// Returns the source address of connections to the controller. Sends nothing.
    fn own_address(&self) -> io::Result<Ipv4Addr> {
        let place = self.place.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no such host"))?;
        let any: IpAddr = if place.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(place)?;
        match socket.local_addr()?.ip().to_canonical() {
            IpAddr::V4(address) => Ok(address),
            other => Err(io::Error::other(format!("name --address: {other} is not IPv4"))),
        }
    }
}

fn read_token(file: &Path) -> Result<String, CliError> {
    let name = file.display();
    let text = fs::read_to_string(file);
    let text = text.map_err(|error| CliError::new(format!("cannot read a token from {name}")).caused_by(error))?;
    let token = text.trim().to_owned();
    let is_one = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let hint = "the file holds the token and nothing else";
    if is_one { Ok(token) } else { Err(CliError::new(format!("{name} contains no token")).with_hint(hint)) }
}

/// Returns a configuration that trusts only these certificate authorities.
fn tls(ca: &Path) -> Result<TlsConfig, CliError> {
    let authorities = daemon::tls::authorities(ca).map_err(|error| CliError::of(&error))?;
    let authorities: Vec<_> = authorities.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
    let config = TlsConfig::builder().unversioned_rustls_crypto_provider(daemon::tls::provider());
    Ok(config.root_certs(RootCerts::Specific(Arc::new(authorities))).build())
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
    }

    #[test]
    fn addresses_of_controllers_are_read() {
        let new = |url, ca: Option<&str>| Controller::new(url, ca.map(Path::new), None, None);
        for url in ["127.0.0.1:8080", "ftp://x", "http://", "http://x/v1", "http://x?y", "/x"] {
            let failure = new(url, None).expect_err("no address").to_string();
            assert!(failure.contains("http://192.0.2.1:8080"), "{url}: {failure}");
        }
        for (url, ca, expected) in [
            ("http://x", Some("ca.pem"), "--ca: an address with http:// uses no certificate"),
            ("https://x", None, "https:// needs --ca"),
            ("https://x", Some("/nowhere/ca.pem"), "cannot read the certificate of an authority from /nowhere/ca.pem"),
        ] {
            let failure = new(url, ca).expect_err("the certificate cannot be used").to_string();
            assert!(failure.contains(expected), "{url}: {failure}");
        }
        for (url, base, place) in [
            ("http://192.0.2.1:8080", "http://192.0.2.1:8080", "192.0.2.1:8080"),
            ("http://controller/", "http://controller:80", "controller:80"),
            ("http://[::1]:8080", "http://[::1]:8080", "[::1]:8080"),
        ] {
            let controller = new(url, None).expect("an address");
            assert_eq!((controller.base.as_str(), controller.place.as_str()), (base, place));
        }
    }
}
