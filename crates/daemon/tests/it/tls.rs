//! TLS: switches without a certificate of the configured authority are rejected.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use crate::common::small_limits;
use anabranch_daemon::Daemon;
use anabranch_daemon::settings::{HttpTls, Limits, Tls};
use openflow::{Message, wire};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
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
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Authority { pem: certificate.pem(), der: certificate.der().clone(), issuer: Issuer::new(params, key) }
    }
    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        (params.signed_by(&key, &self.issuer).expect("a certificate"), key)
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
    assert!(anabranch_daemon::tls::acceptor(&right).is_ok());
    for (tls, what) in [
        (Tls { certificate: empty.clone(), ..right.clone() }, "cannot read a certificate from "),
        (Tls { key: empty, ..right.clone() }, "cannot read a private key from "),
        (Tls { ca: missing, ..right.clone() }, "cannot read the certificate of an authority from "),
        (Tls { key: key_of_another, ..right.clone() }, "cannot be used"),
    ] {
        let error = anabranch_daemon::tls::acceptor(&tls).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        let Tls { certificate, key, ca } = tls;
        if ca == right.ca {
            let web = HttpTls { certificate, key };
            let error = anabranch_daemon::tls::http_acceptor(&web).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
