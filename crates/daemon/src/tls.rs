//! TLS: mutual authentication for switches, server authentication for HTTP.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use openflow::DatapathId;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::settings::{HttpTls, Tls};
use crate::switch_identity::{DatapathRules, names_of};

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {what} from {file}")]
    File { what: &'static str, file: String, source: Box<dyn Error + Send + Sync> },
    #[error("{file} cannot be used for TLS")]
    Use { file: String, source: Box<dyn Error + Send + Sync> },
}

/// TLS of the control channel: the certificate of the controller, and which switches it accepts.
#[derive(Clone, Debug)]
pub struct SwitchTls {
    config: Arc<ServerConfig>,
    verifier: Arc<dyn ClientCertVerifier>,
    datapaths: Arc<DatapathRules>,
}

impl SwitchTls {
    /// Loads the files. Only certificates of the configured authorities that are not revoked are
    /// accepted.
    ///
    /// # Errors
    /// Returns which file cannot be used, and why.
    pub fn load(tls: &Tls) -> Result<SwitchTls, TlsError> {
        let own = Own::read(&tls.certificate, &tls.key)?;
        let roots = Arc::new(roots(&tls.ca, authorities(&tls.ca)?)?);
        let revoked = tls.crl.as_deref().map(revocation_lists).transpose()?.unwrap_or_default();
        let builder = WebPkiClientVerifier::builder_with_provider(roots, provider()).with_crls(revoked);
        let used = tls.crl.as_deref().unwrap_or(&tls.ca);
        let verifier = builder.build().map_err(|error| cannot_use(used, error))?;
        let config = Arc::new(own.config(verifier.clone())?);
        Ok(SwitchTls { config, verifier, datapaths: Arc::new(tls.datapaths.clone()) })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }
    /// Checks a certificate that was accepted before, perhaps by earlier settings.
    pub(crate) fn check(&self, peer: &PeerCertificate) -> Result<(), String> {
        let (own, between) = peer.chain.split_first().ok_or("there is no certificate")?;
        let checked = self.verifier.verify_client_cert(own, between, UnixTime::now());
        checked.map(drop).map_err(|error| error.to_string())
    }
    pub(crate) fn check_datapath(&self, peer: &PeerCertificate, datapath: DatapathId) -> Result<(), String> {
        self.datapaths.check(datapath, &peer.names)
    }
}

/// The certificate of a switch.
#[derive(Debug)]
pub(crate) struct PeerCertificate {
    /// The certificate, and those between it and an authority.
    chain: Vec<CertificateDer<'static>>,
    names: Vec<String>,
}

impl PeerCertificate {
    pub(crate) fn new(chain: &[CertificateDer<'_>]) -> PeerCertificate {
        let names = chain.first().map(names_of).unwrap_or_default();
        PeerCertificate { chain: chain.iter().map(|one| one.clone().into_owned()).collect(), names }
    }
}

/// Loads the certificates of authorities for clients.
///
/// # Errors
/// Returns that the file cannot be read or holds an unusable certificate.
pub fn authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = certificates("the certificate of an authority", file)?;
    roots(file, all.clone())?;
    Ok(all)
}

fn roots(file: &Path, authorities: Vec<CertificateDer<'static>>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|error| cannot_use(file, error))?;
    }
    Ok(roots)
}

fn cannot_use(file: &Path, error: impl Error + Send + Sync + 'static) -> TlsError {
    TlsError::Use { file: file.display().to_string(), source: Box::new(error) }
}

/// Loads the files for the HTTP interface, which accepts any client.
///
/// # Errors
/// Returns which file cannot be used, and why.
pub fn http_config(tls: &HttpTls) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = Own::read(&tls.certificate, &tls.key)?.config(WebPkiClientVerifier::no_client_auth())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

struct Own {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    files: String,
}

impl Own {
    fn read(certificate: &Path, key: &Path) -> Result<Own, TlsError> {
        let files = format!("{} with {}", certificate.display(), key.display());
        let chain = certificates("a certificate", certificate)?;
        let key = read("a private key", key, |text| {
            PrivateKeyDer::from_pem_slice(text).map_err(|error| Box::new(error) as Box<_>)
        })?;
        Ok(Own { chain, key, files })
    }
    fn config(self, verifier: Arc<dyn ClientCertVerifier>) -> Result<ServerConfig, TlsError> {
        let Own { chain, key, files } = self;
        let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = builder.map(|builder| builder.with_client_cert_verifier(verifier));
        let config = builder.and_then(|builder| builder.with_single_cert(chain, key));
        config.map_err(|error| TlsError::Use { file: files, source: Box::new(error) })
    }
}

fn certificates(what: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    all_of(what, file, "the file contains no certificate")
}

fn revocation_lists(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    all_of("a revocation list", file, "the file contains no revocation list")
}

fn all_of<T: PemObject>(what: &'static str, file: &Path, empty: &'static str) -> Result<Vec<T>, TlsError> {
    read(what, file, |text| {
        let all = T::pem_slice_iter(text).collect::<Result<Vec<_>, _>>().map_err(Box::new)?;
        if all.is_empty() { Err(empty.into()) } else { Ok(all) }
    })
}

fn read<T>(
    what: &'static str,
    file: &Path,
    parse: impl FnOnce(&[u8]) -> Result<T, Box<dyn Error + Send + Sync>>,
) -> Result<T, TlsError> {
    let file_error = |source| TlsError::File { what, file: file.display().to_string(), source };
    let text = fs::read(file).map_err(|error| file_error(Box::new(error)))?;
    parse(&text).map_err(file_error)
}
