//! TLS: switches without a certificate of the configured authority are rejected.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use crate::common::small_limits;
use anabranch_daemon::Daemon;
use anabranch_daemon::settings::{HttpTls, Limits, Tls};
use anabranch_daemon::tls::SwitchTls;
use openflow::{DatapathId, Envelope, Features, Message, wire};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevocationReason, RevokedCertParams, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Authority { pem: certificate.pem(), der: certificate.der().clone(), issuer: Issuer::new(params, key) }
    }
    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        self.sign_with(CertificateParams::new(vec![name.to_owned()]).expect("parameters"))
    }
    /// Returns a certificate with a serial number, for revocation.
    fn sign_numbered(&self, name: &str, number: u64) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        params.serial_number = Some(number.into());
        self.sign_with(params)
    }
    /// Returns a certificate without a DNS name, as `ovs-pki` writes them.
    fn sign_common_name(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign_with(params)
    }
    fn sign_with(&self, params: CertificateParams) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.issuer).expect("a certificate"), key)
    }
    /// Returns the revocation list with these serial numbers, as PEM.
    fn revoke(&self, numbers: &[u64]) -> String {
        let revoked = |number: &u64| RevokedCertParams {
            serial_number: (*number).into(),
            revocation_time: date_time_ymd(2025, 1, 1),
            reason_code: Some(RevocationReason::KeyCompromise),
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2025, 1, 1),
            // The date has passed: a late list must not disconnect the network.
            next_update: date_time_ymd(2025, 2, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: numbers.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).expect("a list").pem().expect("a list as PEM")
    }
}

fn files(folder: &Path, authority: &Authority) -> Tls {
    let (certificate, key) = authority.sign("controller.test");
    let put = |name: &str, text: &str| {
        let file = folder.join(name);
        std::fs::write(&file, text).expect("a file");
        file
    };
    Tls {
        certificate: put("certificate.pem", &certificate.pem()),
        key: put("key.pem", &key.serialize_pem()),
        ca: put("ca.pem", &authority.pem),
        ..Tls::default()
    }
}

fn start(tls: Tls) -> Daemon {
    crate::common::daemon(&crate::common::fat_tree(), |settings| {
        settings.tls = Some(tls);
        settings.limits = small_limits();
    })
}

fn connect(
    to: SocketAddr,
    trusted: &Authority,
    own: Option<(rcgen::Certificate, KeyPair)>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der.clone()).expect("an authority");
    let builder = ClientConfig::builder_with_provider(anabranch_daemon::tls::provider())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match own {
        Some((certificate, key)) => {
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            builder.with_client_auth_cert(vec![certificate.der().clone()], key).expect("a certificate")
        }
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from("controller.test").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    StreamOwned::new(connection, crate::common::connect(to))
}

fn hello(daemon: &Daemon, trusted: &Authority, own: Option<(rcgen::Certificate, KeyPair)>) -> Option<Message> {
    let mut stream = connect(daemon.openflow, trusted, own);
    stream.write_all(&crate::common::hello()).ok()?;
    let mut said = Vec::new();
    loop {
        let mut part = [0; 1024];
        let length = stream.read(&mut part).ok().filter(|length| *length > 0)?;
        said.extend_from_slice(&part[..length]);
        // The controller requests the features after it has read the hello.
        let (_, length) = wire::decode(&said).expect("the controller's bytes are right")?;
        if let Some((envelope, _)) = wire::decode(&said[length..]).expect("the controller's bytes are right") {
            return Some(envelope.message);
        }
    }
}

#[test]
fn switches_need_certificate_of_authority() {
    let folder = tempfile::tempdir().expect("a folder");
    let (authority, stranger) = (Authority::new(), Authority::new());
    let daemon = start(files(folder.path(), &authority));
    assert_eq!(hello(&daemon, &authority, Some(authority.sign("s1"))), Some(Message::FeaturesRequest));
    assert_eq!(hello(&daemon, &authority, None), None, "no certificate");
    assert_eq!(hello(&daemon, &authority, Some(stranger.sign("s1"))), None, "of another authority");
    assert_eq!(hello(&daemon, &stranger, Some(authority.sign("s1"))), None, "the switch does not trust the controller");
    // Plain TCP.
    let mut plain = crate::common::connect(daemon.openflow);
    plain.write_all(&[4, 0, 0, 8, 0, 0, 0, 1]).expect("bytes");
    let mut said = Vec::new();
    // A TLS alert may precede the end.
    let _ = plain.read_to_end(&mut said);
    assert_ne!(said.first(), Some(&4), "OpenFlow in the clear");
    // A client that sends nothing is closed as well.
    let mut silent = crate::common::connect(daemon.openflow);
    assert_eq!(silent.read(&mut [0; 8]).ok(), Some(0));
}

/// Presents a datapath id. Returns whether the controller continues the handshake.
fn is_accepted(daemon: &Daemon, trusted: &Authority, own: (rcgen::Certificate, KeyPair), datapath: u64) -> bool {
    let mut stream = connect(daemon.openflow, trusted, Some(own));
    let said = exchange_features(&mut stream, datapath);
    said.is_some_and(|message| matches!(message, Message::SetConfig(_)))
}

/// Sends hello and features. Returns the message after the features request; `None` at the end of
/// the connection.
fn exchange_features(stream: &mut (impl Read + Write), datapath: u64) -> Option<Message> {
    stream.write_all(&crate::common::hello()).ok()?;
    let mut said = Vec::new();
    let mut count = 0;
    loop {
        let mut part = [0; 1024];
        let length = stream.read(&mut part).ok().filter(|length| *length > 0)?;
        said.extend_from_slice(&part[..length]);
        while let Some((envelope, length)) = wire::decode(&said).expect("the controller's bytes are right") {
            said.drain(..length);
            count += 1;
            if count == 3 {
                return Some(envelope.message);
            }
            if envelope.message == Message::FeaturesRequest {
                let features =
                    Features { datapath: DatapathId(datapath), buffers: 0, tables: 254, auxiliary: 0, capabilities: 0 };
                let mut reply = Vec::new();
                let envelope = Envelope { xid: envelope.xid, message: Message::FeaturesReply(features) };
                wire::encode(&envelope, &mut reply).expect("it fits");
                stream.write_all(&reply).ok()?;
            }
        }
    }
}

#[test]
fn revoked_certificate_is_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new();
    let crl = folder.path().join("crl.pem");
    std::fs::write(&crl, authority.revoke(&[7])).expect("a file");
    let tls = Tls { crl: Some(crl.clone()), ..files(folder.path(), &authority) };
    let mut settings = crate::common::settings();
    (settings.tls, settings.limits) = (Some(tls), small_limits());
    settings.limits.handshake_timeout = net::Time::from_s(60);
    let mut daemon = Daemon::start(&settings).expect("a daemon");
    let [trusted, revoked] = [6, 7].map(|number| authority.sign_numbered("s1", number));
    assert_eq!(hello(&daemon, &authority, Some(revoked)), None, "revoked");
    assert_eq!(hello(&daemon, &authority, Some(trusted)), Some(Message::FeaturesRequest));

    // A list that revokes a certificate ends the connection with it, and no other one.
    let [mut kept, mut ended] = [8, 9].map(|number| {
        let mut stream = connect(daemon.openflow, &authority, Some(authority.sign_numbered("s1", number)));
        assert!(matches!(exchange_features(&mut stream, number), Some(Message::SetConfig(_))));
        stream
    });
    std::fs::write(&crl, authority.revoke(&[7, 9])).expect("a file");
    daemon.reload(&settings).expect("a reload");
    // The time limit of the socket is an error of another kind than the end of the connection.
    let error = ended.read_to_end(&mut Vec::new()).map_or_else(|error| error.kind(), |_| ErrorKind::UnexpectedEof);
    assert!(matches!(error, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{error}");
    kept.write_all(&crate::common::bytes(77, Message::EchoRequest(vec![1]))).expect("an echo request");
    let mut said = Vec::new();
    let echo = crate::common::bytes(77, Message::EchoReply(vec![1]));
    while !said.windows(echo.len()).any(|part| part == echo) {
        let mut part = [0; 1024];
        let length = kept.read(&mut part).expect("an echo reply");
        assert_ne!(length, 0, "the connection was closed");
        said.extend_from_slice(&part[..length]);
    }

    // Without the list of an authority, its certificates cannot be checked.
    std::fs::write(&crl, Authority::new().revoke(&[])).expect("a file");
    daemon.reload(&settings).expect("a reload");
    assert_eq!(hello(&daemon, &authority, Some(authority.sign("s1"))), None, "unknown status");
    std::fs::write(&crl, "").expect("a file");
    let error = daemon.reload(&settings).expect_err("an empty file").to_string();
    assert!(error.contains("cannot read a revocation list from "), "{error}");
}

#[test]
fn certificate_binds_datapath_id() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new();
    let start_with = |text: &str| {
        let all = format!("[tls]\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\nca = \"ca.pem\"\n{text}");
        let parsed = anabranch_daemon::config::parse("serve.toml", &all, folder.path());
        start(parsed.unwrap_or_else(|error| panic!("{error}")).tls.expect("TLS"))
    };
    files(folder.path(), &authority);
    let daemon = start_with("");
    assert!(is_accepted(&daemon, &authority, authority.sign("s1"), 2), "without a rule any id is accepted");
    drop(daemon);
    let daemon = start_with(
        "[[switch]]\ndpid = 1\ncertificate = \"S1.test\"\n[[switch]]\ndpid = 2\ncertificate = \"s2.test\"\n",
    );
    for (name, datapath, is_own) in
        [("s1.test", 1, true), ("s2.test", 1, false), ("s1.test", 2, false), ("s1.test", 3, false)]
    {
        assert_eq!(is_accepted(&daemon, &authority, authority.sign(name), datapath), is_own, "{name} as {datapath}");
    }
    assert!(is_accepted(&daemon, &authority, authority.sign_common_name("s2.test"), 2));
    assert!(!is_accepted(&daemon, &authority, authority.sign_common_name("s2.test"), 1));
    drop(daemon);
    let daemon = start_with("datapath_ids = \"certificate\"\n");
    assert!(is_accepted(&daemon, &authority, authority.sign("00000000000000a1.test"), 0xa1));
    assert!(!is_accepted(&daemon, &authority, authority.sign("00000000000000a1.test"), 0xa2));
}

fn ask(stream: &mut (impl Read + Write)) -> Option<String> {
    let asked = stream.write_all(b"GET /v1/balancer HTTP/1.1\r\nHost: controller.test\r\nConnection: close\r\n\r\n");
    asked.and_then(|()| stream.flush()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

#[test]
fn http_served_over_tls_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let (authority, stranger) = (Authority::new(), Authority::new());
    let Tls { certificate, key, .. } = files(folder.path(), &authority);
    let (_daemon, http) = crate::common::served(|settings| {
        settings.http_tls = Some(HttpTls { certificate, key });
        settings.http_names = vec!["controller.test".to_owned()];
        settings.limits = Limits { pending_handshakes: 3, ..small_limits() };
    });
    let answer = ask(&mut connect(http, &authority, None)).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"sdn-ecmp\""), "{answer}");
    assert_eq!(ask(&mut connect(http, &stranger, None)), None, "of an authority that is not trusted");
    let mut plain = crate::common::connect(http);
    assert!(!ask(&mut plain).is_some_and(|answer| answer.contains("HTTP/1.1")), "in the clear");
    // Silent clients beyond the limit delay no other client and are closed eventually.
    let mut silent: Vec<TcpStream> = (0..5).map(|_| crate::common::connect(http)).collect();
    let answer = ask(&mut connect(http, &authority, None)).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for stream in &mut silent {
        let closed = stream.read(&mut [0; 8]).or_else(|error| match error.kind() {
            ErrorKind::ConnectionReset => Ok(0),
            _ => Err(error),
        });
        assert_eq!(closed.expect("it is closed"), 0);
    }
}

#[test]
fn unusable_certificates_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let right = files(folder.path(), &Authority::new());
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").expect("a file");
    let missing = folder.path().join("missing.pem");
    let other = tempfile::tempdir().expect("a folder");
    let key_of_another = files(other.path(), &Authority::new()).key;
    assert!(SwitchTls::load(&right).is_ok());
    for (tls, what) in [
        (Tls { certificate: empty.clone(), ..right.clone() }, "cannot read a certificate from "),
        (Tls { key: empty, ..right.clone() }, "cannot read a private key from "),
        (Tls { ca: missing, ..right.clone() }, "cannot read the certificate of an authority from "),
        (Tls { key: key_of_another, ..right.clone() }, "cannot be used"),
    ] {
        let error = SwitchTls::load(&tls).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        let Tls { certificate, key, ca, .. } = tls;
        if ca == right.ca {
            let web = HttpTls { certificate, key };
            let error = anabranch_daemon::tls::http_config(&web).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
