//! Trust in servers: either certificates signed by a root, or one certificate and what replaces it.
//!
//! The copy of a certificate that people give a client ([`Trust::pinned`]) may contain the authority that has signed
//! it, as that of a server of a domain does. The server then renews its certificate by itself, with another key. A
//! client with the copy of the old one accepts the new one if the authority in the copy has signed it, for the same
//! names.

use std::sync::Arc;

use tokio_rustls::rustls;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

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

    /// Trusts only the server that has the first certificate of a PEM file, under whatever name it is reached. This
    /// suits servers with self-signed certificates.
    ///
    /// Trusts also a valid certificate with the DNS names of the first one that a further certificate of the file has
    /// signed, if that is the one of an authority: the server has renewed its certificate.
    pub fn pinned(pem: &[u8]) -> Result<Self, Error> {
        Self::build(TrustAnchor::Pinned(PinnedServer::parse(pem)?), None)
    }

    /// Presents a client certificate (mutual TLS), as servers do among themselves. The server's certificate must be
    /// signed by one of the roots.
    pub fn mutual(roots_pem: &[u8], chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, Error> {
        let chain = parse_chain(chain_pem)?;
        let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(trust_error)?;
        Self::build(TrustAnchor::Roots(parse_roots(roots_pem)?), Some((chain, key)))
    }

    /// Returns the configuration of TLS for another protocol, with its names in ALPN; without names, ALPN is not used.
    #[must_use]
    pub fn tls(&self, protocols: &[&[u8]]) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
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
            TrustAnchor::Pinned(server) => {
                let verifier = PinnedVerifier { server, provider };
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
    Pinned(PinnedServer),
}

fn trust_error(error: impl std::fmt::Display) -> Error {
    Error::Trust(error.to_string())
}

fn parse_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(trust_error)
}

fn parse_roots(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(parse_chain(pem)?);
    if added == 0 { Err(trust_error("none of the certificates can be used as a root")) } else { Ok(roots) }
}

/// The certificate of a server, and what replaces it.
#[derive(Debug)]
struct PinnedServer {
    certificate: CertificateDer<'static>,
    /// The DNS names in the certificate but `localhost`, which is in those of all servers.
    names: Vec<ServerName<'static>>,
    /// The authorities that may sign another certificate with these names.
    authorities: RootCertStore,
}

impl PinnedServer {
    fn parse(pem: &[u8]) -> Result<Self, Error> {
        let mut chain = parse_chain(pem)?.into_iter();
        let certificate = chain.next().ok_or_else(|| trust_error("no CERTIFICATE block found"))?;
        let names = dns_names(&certificate);
        let mut authorities = RootCertStore::empty();
        authorities.add_parsable_certificates(chain.filter(is_authority));
        Ok(Self { certificate, names, authorities })
    }

    /// Returns `true` if a certificate replaces that of the server: an authority has signed it for the same names.
    fn is_renewed(&self, presented: &ParsedCertificate<'_>) -> bool {
        !self.names.is_empty() && self.names.iter().all(|name| verify_server_name(presented, name).is_ok())
    }
}

fn dns_names(certificate: &CertificateDer<'_>) -> Vec<ServerName<'static>> {
    let Ok((_, parsed)) = parse_x509_certificate(certificate) else { return Vec::new() };
    let Ok(Some(alternative)) = parsed.subject_alternative_name() else { return Vec::new() };
    let names = alternative.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) if !name.eq_ignore_ascii_case("localhost") => Some((*name).to_owned()),
        _ => None,
    });
    names.filter_map(|name| ServerName::try_from(name).ok()).collect()
}

fn is_authority(certificate: &CertificateDer<'_>) -> bool {
    parse_x509_certificate(certificate).is_ok_and(|(_, parsed)| parsed.is_ca())
}

/// Accepts one certificate or what replaces it. The server must prove possession of its key.
#[derive(Debug)]
struct PinnedVerifier {
    server: PinnedServer,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *end_entity == self.server.certificate {
            return Ok(ServerCertVerified::assertion());
        }
        let presented = ParsedCertificate::try_from(end_entity)?;
        if self.server.is_renewed(&presented) {
            let algorithms = self.provider.signature_verification_algorithms.all;
            let authorities = &self.server.authorities;
            verify_server_cert_signed_by_trust_anchor(&presented, authorities, intermediates, now, algorithms)?;
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
