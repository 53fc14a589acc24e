//! Settings of a daemon.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use balance::Spec;
use bgp::bmp::Policy;
use config::document::Document;
use net::Time;

use crate::auth::Tokens;
use crate::schedule::Schedule;
use crate::services::ConfiguredServices;
pub use crate::switch_identity::{DatapathRules, UnlistedDatapaths};

/// Settings of a daemon. The keys of the configuration file describe them
/// ([`crate::config::LAYOUT`]).
#[derive(Clone, Debug)]
pub struct Settings {
    pub listen: SocketAddr,
    /// Certificates for switches; `None` for TCP.
    pub tls: Option<Tls>,
    pub balancer: Spec,
    pub control: control::Config,
    /// Listen address of the HTTP interface; `None` if it is off.
    pub http: Option<SocketAddr>,
    /// Certificate of the HTTP interface; `None` for plain HTTP.
    pub http_tls: Option<HttpTls>,
    pub http_names: Vec<String>,
    /// Tokens of the HTTP interface. Without tokens, loopback may do everything, and other
    /// addresses may read.
    pub tokens: Tokens,
    /// File of learned hosts. Virtual services are stored next to it in a file whose name ends in
    /// `.services`. `None` stores neither, and services defined over the API end with the daemon.
    pub state: Option<PathBuf>,
    /// Number of earlier versions of the file of services that are kept.
    pub state_versions: usize,
    pub services: ConfiguredServices,
    /// BMP sessions of routers; `None` without uplinks to BGP peers.
    pub bmp: Option<BmpSettings>,
    pub limits: Limits,
    /// Balancers, pools and limits by time of day and date.
    pub schedule: Schedule,
    pub log: Log,
    /// The file that these settings are from; a reload compares it.
    pub document: Option<Arc<Document>>,
}

/// PEM files of the control channel: the certificate of the controller and the authorities of
/// switches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Authorities that sign the certificates of switches. A switch without such a certificate is
    /// rejected.
    pub ca: PathBuf,
    /// Lists of revoked certificates, one for each authority; `None` if no certificate is revoked.
    pub crl: Option<PathBuf>,
    pub datapaths: DatapathRules,
}

/// PEM files of the HTTP interface. Clients authenticate with tokens, not
/// with certificates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpTls {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// The listener for BMP sessions, over which routers report routes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BmpSettings {
    pub listen: SocketAddr,
    /// Source addresses of sessions; those of other addresses are rejected.
    pub routers: BTreeSet<Ipv4Addr>,
    pub policy: Policy,
}

impl Default for BmpSettings {
    fn default() -> BmpSettings {
        BmpSettings {
            listen: SocketAddr::from(([127, 0, 0, 1], 11019)),
            routers: BTreeSet::from([Ipv4Addr::LOCALHOST]),
            policy: Policy::default(),
        }
    }
}

/// Bounds of the resources that peers can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub connections: usize,
    pub pending_handshakes: usize,
    pub handshake_timeout: Time,
    pub messages_per_s: u32,
    pub accepts_per_s: u32,
    pub send_buffer_bytes: usize,
    pub write_timeout: Time,
    pub http_connections: usize,
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Log {
    pub format: LogFormat,
    /// Filter in the syntax of `tracing`, such as `info,anabranch_daemon=debug`.
    pub filter: String,
    /// File with a line per change over the API; `None` for no audit log.
    pub audit: Option<PathBuf>,
    /// File of all inputs of the controller ([`crate::recording`]); `None` for no recording.
    pub record: Option<PathBuf>,
    /// Maximum size of this file; the recording then ends.
    pub record_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    Text,
    Json,
}

impl Default for Log {
    fn default() -> Log {
        Log { format: LogFormat::Text, filter: "info".to_owned(), audit: None, record: None, record_bytes: 1 << 30 }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from(([0, 0, 0, 0], 6653)),
            tls: None,
            balancer: Spec::parse("sdn-ecmp").expect("a registered balancer"),
            control: control::Config {
                requests_mastership: true,
                audit_interval: Some(Time::from_ms(4500)),
                ecmp_hashing: control::EcmpHashing::Auto,
                uses_extensions: true,
                ..control::Config::default()
            },
            http: Some(SocketAddr::from(([127, 0, 0, 1], 8080))),
            http_tls: None,
            http_names: Vec::new(),
            tokens: Tokens::default(),
            state: None,
            state_versions: 10,
            services: ConfiguredServices::default(),
            bmp: None,
            limits: Limits::default(),
            schedule: Schedule::default(),
            log: Log::default(),
            document: None,
        }
    }
}
