//! TLS: mutual authentication for switches, server authentication for HTTP.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::settings::{HttpTls, Tls};

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {what} from {file}")]
    File { what: &'static str, file: String, source: Box<dyn Error + Send + Sync> },
    #[error("{file} cannot be used for TLS")]
    Use { file: String, source: Box<dyn Error + Send + Sync> },
}

/// Loads the files and creates the acceptor for switches. It accepts only certificates of the
/// configured authority.
///
/// # Errors
/// Returns which file cannot be used, and why.
pub fn acceptor(tls: &Tls) -> Result<TlsAcceptor, TlsError> {
    let own = Own::read(&tls.certificate, &tls.key)?;
    let roots = Arc::new(roots(&tls.ca, authorities(&tls.ca)?)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
    let verifier = verifier.map_err(|error| cannot_use(&tls.ca, error))?;
    Ok(TlsAcceptor::from(Arc::new(own.config(verifier)?)))
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

/// Loads the files and creates the acceptor for HTTP, which accepts any client.
///
/// # Errors
/// As [`acceptor`].
pub fn http_acceptor(tls: &HttpTls) -> Result<TlsAcceptor, TlsError> {
    let mut config = Own::read(&tls.certificate, &tls.key)?.config(WebPkiClientVerifier::no_client_auth())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
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
    read(what, file, |text| {
        let all = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>().map_err(Box::new)?;
        if all.is_empty() { Err("the file contains no certificate".into()) } else { Ok(all) }
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
