//! Settings of a daemon.

use std::net::SocketAddr;
use std::path::PathBuf;

use balance::Spec;
use net::Time;

use crate::auth::Tokens;
use crate::services::ConfiguredServices;

/// Settings of a daemon. The keys of the configuration file describe them
/// ([`crate::config::KEYS`]).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Listen address for switches.
    pub listen: SocketAddr,
    /// Certificates for switches; `None` for TCP.
    pub tls: Option<Tls>,
    /// The balancer, a central one.
    pub balancer: Spec,
    pub control: control::Config,
    /// Listen address of the HTTP interface; `None` if it is off.
    pub http: Option<SocketAddr>,
    /// Certificate of the HTTP interface; `None` for plain HTTP.
    pub http_tls: Option<HttpTls>,
    /// Host names that requests may use if no tokens are configured, in addition to addresses,
    /// `localhost` and the name of this machine.
    pub http_names: Vec<String>,
    /// Tokens of the HTTP interface. Without tokens, loopback may do everything, and other
    /// addresses may read.
    pub tokens: Tokens,
    /// File of learned hosts. Virtual services are stored next to it in a file whose name ends in
    /// `.services`. `None` stores neither, and services defined over the API end with the daemon.
    pub state: Option<PathBuf>,
    pub services: ConfiguredServices,
    pub limits: Limits,
    pub log: Log,
}

/// PEM files of the control channel: the certificate of the controller and the authorities of
/// switches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tls {
    /// Certificate of the controller, followed by its intermediate certificates.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Authorities that sign the certificates of switches. A switch without such a certificate is
    /// rejected.
    pub ca: PathBuf,
}

/// PEM files of the HTTP interface, read once at the start. Clients authenticate with tokens, not
/// with certificates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpTls {
    /// Certificate, followed by its intermediate certificates.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Bounds of the resources that peers can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of switch connections.
    pub connections: usize,
    /// Maximum number of connections that have not finished the handshake. At the limit a new
    /// connection evicts the oldest one, silent ones first.
    pub pending_handshakes: usize,
    /// Time from the accept of a connection until the table read-back is complete.
    pub handshake_timeout: Time,
    /// Messages of one switch per second, with bursts of a tenth of that number. Further messages
    /// wait in the socket.
    pub messages_per_s: u32,
    /// Connections accepted per second, with bursts of a hundredth of that number. Further ones
    /// wait in the kernel's queue.
    pub accepts_per_s: u32,
    /// Maximum number of output bytes that wait for a switch to read them. Above it the connection
    /// is closed. From a sixteenth of it on the switch is not read from.
    pub send_buffer_bytes: usize,
    /// Time after which a switch or HTTP client that reads none of its pending output is
    /// disconnected.
    pub write_timeout: Time,
    /// Maximum number of HTTP connections. At the limit the oldest one without a request in
    /// progress is closed.
    pub http_connections: usize,
    /// Time for an HTTP client to send a request. An HTTP connection that is idle for this time is
    /// closed.
    pub http_request_timeout: Time,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 4096,
            pending_handshakes: 1024,
            handshake_timeout: Time::from_s(10),
            messages_per_s: 250_000,
            accepts_per_s: 4_000,
            send_buffer_bytes: 16 << 20,
            write_timeout: Time::from_s(10),
            http_connections: 256,
            http_request_timeout: Time::from_s(10),
        }
    }
}

impl Limits {
    /// Returns the number of pending output bytes from which on a switch is not read from.
    pub(crate) fn output_pause(&self) -> usize {
        self.send_buffer_bytes / 16
    }
}

/// Settings of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Log {
    pub format: LogFormat,
    /// Filter in the syntax of `tracing`, such as `info,anabranch_daemon=debug`.
    pub filter: String,
}

/// Format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// Human-readable.
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for Log {
    fn default() -> Log {
        Log { format: LogFormat::Text, filter: "info".to_owned() }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from(([0, 0, 0, 0], 6653)),
            tls: None,
            balancer: Spec::parse("sdn-ecmp").expect("a registered balancer"),
            control: control::Config {
                ecmp_hashing: control::EcmpHashing::Auto,
                uses_extensions: true,
                ..control::Config::default()
            },
            http: Some(SocketAddr::from(([127, 0, 0, 1], 8080))),
            http_tls: None,
            http_names: Vec::new(),
            tokens: Tokens::default(),
            state: None,
            services: ConfiguredServices::default(),
            limits: Limits::default(),
            log: Log::default(),
        }
    }
}
