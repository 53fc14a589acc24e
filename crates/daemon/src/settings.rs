//! How a daemon works.

use std::net::SocketAddr;
use std::path::PathBuf;

use balance::Spec;
use net::Time;

use crate::access::Tokens;
use crate::services::Defined;

/// Everything a daemon is told when it starts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where switches connect to.
    pub listen: SocketAddr,
    /// Certificates, if switches are to use TLS.
    pub tls: Option<Tls>,
    /// The balancer: central.
    pub balancer: Spec,
    /// What the controller is made from.
    pub control: control::Config,
    /// Where the HTTP interface listens; `None` for none.
    pub http: Option<SocketAddr>,
    /// Certificate, if the HTTP interface is to use TLS.
    pub http_tls: Option<HttpTls>,
    /// Who may do what over HTTP; if there are none, this machine everything, and others look.
    pub tokens: Tokens,
    /// File in which hosts that were learnt are remembered; virtual services are in another one beside it, with `.services`
    /// at the end of its name. `None` for nowhere: what the API is told then is forgotten when the daemon ends.
    pub state: Option<PathBuf>,
    /// Virtual services and pools the configuration file defines.
    pub services: Defined,
    /// What is kept within bounds.
    pub limits: Limits,
    /// How logs are written.
    pub log: Log,
}

/// Certificates of the controller and of those who sign switches' certificates, as PEM files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tls {
    /// Certificate of the controller, with those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities that sign switches' certificates; a switch without one is refused.
    pub ca: PathBuf,
}

/// Certificate of the HTTP interface, as PEM files, read once at the start. Clients show tokens, and no certificates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpTls {
    /// Certificate, with those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Bounds of what others can make a daemon use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Connections at once that have not finished the handshake; the oldest silent one goes when another comes.
    pub handshaking: usize,
    /// Time for the handshake, from the opening of the connection until the switch's state has been read.
    pub handshake_timeout: Time,
    /// Messages of one switch per second, as many as a tenth of it at once; what comes faster waits in its socket.
    pub messages_per_s: u32,
    /// Connections accepted per second, a hundredth of it at once; others wait in the kernel's queue.
    pub accepts_per_s: u32,
    /// Bytes that may wait for a switch to read them; beyond, its connection is closed. At a sixteenth of it the switch is
    /// not read from until it has read.
    pub output_bytes: usize,
    /// A switch that reads nothing of what waits for it for this long is disconnected.
    pub write_timeout: Time,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 4096,
            handshaking: 1024,
            handshake_timeout: Time::from_s(10),
            messages_per_s: 250_000,
            accepts_per_s: 4_000,
            output_bytes: 16 << 20,
            write_timeout: Time::from_s(10),
        }
    }
}

impl Limits {
    /// Bytes waiting to be read by a switch from which on nothing is read from it.
    pub(crate) fn output_pause(&self) -> usize {
        self.output_bytes / 16
    }
}

/// How logs are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Log {
    /// Form of a line.
    pub format: LogFormat,
    /// What is logged, in the words of tracing's filters: `info`, `anabranch_daemon=debug`.
    pub filter: String,
}

/// Form of a line of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object each.
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
                spread: control::Spread::Auto,
                uses_extensions: true,
                ..control::Config::default()
            },
            http: Some(SocketAddr::from(([127, 0, 0, 1], 8080))),
            http_tls: None,
            tokens: Tokens::default(),
            state: None,
            services: Defined::default(),
            limits: Limits::default(),
            log: Log::default(),
        }
    }
}
