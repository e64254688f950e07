//! Trust in servers: either certificates signed by a root, or exactly one certificate.

use std::sync::Arc;

use tokio_rustls::rustls;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::Error;

/// The servers that a client trusts, and the certificate that it presents itself.
#[derive(Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
}

impl Trust {
    /// Trusts servers whose certificate matches their name and is signed by one of the roots in a PEM file.
    pub fn roots(pem: &[u8]) -> Result<Self, Error> {
        Self::build(TrustAnchor::Roots(parse_roots(pem)?), None)
    }

    /// Trusts only the server that has the first certificate of a PEM file, whatever its name. This suits servers with
    /// self-signed certificates.
    pub fn pinned(pem: &[u8]) -> Result<Self, Error> {
        Self::build(TrustAnchor::Exactly(first_certificate(pem)?), None)
    }

    /// Presents a client certificate (mutual TLS), as servers do among themselves. The server's certificate must be
    /// signed by one of the roots.
    pub fn mutual(roots_pem: &[u8], chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, Error> {
        let chain = parse_chain(chain_pem)?;
        let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(trust_error)?;
        Self::build(TrustAnchor::Roots(parse_roots(roots_pem)?), Some((chain, key)))
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    fn build(
        anchor: TrustAnchor,
        client_certificate: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    ) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(trust_error)?;
        let builder = match anchor {
            TrustAnchor::Roots(roots) => builder.with_root_certificates(roots),
            TrustAnchor::Exactly(certificate) => {
                let verifier = PinnedCertificate { certificate, provider };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        let mut config = match client_certificate {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(trust_error)?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { config: Arc::new(config) })
    }
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trust")
    }
}

enum TrustAnchor {
    Roots(RootCertStore),
    Exactly(CertificateDer<'static>),
}

fn trust_error(error: impl std::fmt::Display) -> Error {
    Error::Trust(error.to_string())
}

fn parse_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(trust_error)
}

fn first_certificate(pem: &[u8]) -> Result<CertificateDer<'static>, Error> {
    parse_chain(pem)?.into_iter().next().ok_or_else(|| trust_error("no CERTIFICATE block found"))
}

fn parse_roots(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(parse_chain(pem)?);
    if added == 0 { Err(trust_error("none of the certificates can be used as a root")) } else { Ok(roots) }
}

/// Accepts exactly one certificate, whose holder must prove possession of its key.
#[derive(Debug)]
struct PinnedCertificate {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *end_entity == self.certificate {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
