//! TLS with certificates on both sides.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::settings::Tls;

/// Certificates that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is no PEM of this kind.
    #[error("cannot read {what} from {file}")]
    File {
        /// What it should hold.
        what: &'static str,
        /// The file.
        file: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Certificates and key do not go together.
    #[error("the certificates cannot be used")]
    Use(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Reads the files and makes what accepts connections: of peers with a certificate of the authority, no others.
///
/// # Errors
/// Which file cannot be used, and why.
pub fn acceptor(tls: &Tls) -> Result<TlsAcceptor, TlsError> {
    let chain = certificates("a certificate", &tls.certificate)?;
    let mut roots = RootCertStore::empty();
    for authority in certificates("the certificate of an authority", &tls.ca)? {
        roots.add(authority).map_err(|error| TlsError::Use(Box::new(error)))?;
    }
    let key = read("a private key", &tls.key, |text| {
        PrivateKeyDer::from_pem_slice(text).map_err(|error| Box::new(error) as Box<_>)
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| TlsError::Use(Box::new(error)))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Use(Box::new(error)))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| TlsError::Use(Box::new(error)))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(what: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    read(what, file, |text| {
        let all = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>().map_err(Box::new)?;
        if all.is_empty() { Err("there is none in it".into()) } else { Ok(all) }
    })
}

fn read<T>(
    what: &'static str,
    file: &Path,
    parse: impl FnOnce(&[u8]) -> Result<T, Box<dyn std::error::Error + Send + Sync>>,
) -> Result<T, TlsError> {
    let wrong = |source| TlsError::File { what, file: file.display().to_string(), source };
    let text = fs::read(file).map_err(|error| wrong(Box::new(error)))?;
    parse(&text).map_err(wrong)
}
