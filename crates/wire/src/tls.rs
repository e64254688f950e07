//! TLS at both ends: the server's certificate, which can be replaced while the server runs, and the client's rules.
//!
//! [`Tls`] holds the server's settings behind an atomic pointer. [`Tls::replace`] takes effect with the next handshake
//! and does not affect existing connections. A certificate that does not parse or does not match its key is refused,
//! and the old one stays. `instance` reads the files; this module gets the bytes of PEM files.
//!
//! TLS 1.2 and 1.3 are supported with the cipher suites that rustls considers safe, and with session tickets. For
//! HTTP/2 ([`Tls::config_h2`]) the protocol is negotiated in the handshake, and trusted servers may present a client
//! certificate, but no peer must.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use base::Timestamp;
use tokio_rustls::rustls;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, ProtocolVersion, RootCertStore, ServerConfig, SignatureScheme,
};

use crate::channel_binding::certificate_hash;
use crate::limits::PEM_BYTES_MAX;

/// Reason why TLS cannot be set up. All variants except [`TlsError::Name`] are meant for the operator.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is too long for a certificate or key.
    #[error("the {0} file is longer than {PEM_BYTES_MAX} bytes")]
    TooLong(&'static str),
    /// A file has no PEM block of the expected kind.
    #[error("no {0} in PEM form was found: {1}")]
    Pem(&'static str, String),
    /// The certificate or the key is refused, mostly because they do not belong together.
    #[error("the certificate and the key cannot be used: {0}")]
    Refused(#[from] rustls::Error),
    /// The name of the other server is not valid in a certificate.
    #[error("{0:?} is not a valid server name")]
    Name(String),
}

/// The server side of TLS. All listeners share it.
pub struct Tls {
    settings: ArcSwap<ServerSettings>,
}

/// The settings of the server with one certificate, which a reload replaces together.
pub(crate) struct ServerSettings {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) config_h2: Arc<ServerConfig>,
    /// The settings for HTTP/2 and HTTP/1.1.
    pub(crate) config_http: Arc<ServerConfig>,
    /// The certificate of the server, without those that have signed it.
    certificate: CertificateDer<'static>,
    /// The hash of the certificate, for channel binding. `None` if it is undefined.
    pub(crate) certificate_hash: Option<Arc<[u8]>>,
}

impl Tls {
    /// Creates the settings from a certificate chain and a private key in PEM form.
    pub fn new(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, TlsError> {
        Self::with_client_roots(chain_pem, key_pem, None)
    }

    /// Creates the settings with the root certificates, in PEM form, that sign the client certificates of other
    /// servers.
    pub fn with_client_roots(chain_pem: &[u8], key_pem: &[u8], peers_pem: Option<&[u8]>) -> Result<Self, TlsError> {
        let settings = ServerSettings::new(chain_pem, key_pem, peers_pem)?;
        Ok(Self { settings: ArcSwap::from_pointee(settings) })
    }

    /// Replaces the certificate, and the root certificates of other servers, for all future handshakes. On error the
    /// old ones stay.
    pub fn replace(&self, chain_pem: &[u8], key_pem: &[u8], peers_pem: Option<&[u8]>) -> Result<(), TlsError> {
        let settings = ServerSettings::new(chain_pem, key_pem, peers_pem)?;
        self.settings.store(Arc::new(settings));
        Ok(())
    }

    /// Returns `true` if future handshakes present the first certificate of a chain in PEM form.
    pub fn presents(&self, chain_pem: &[u8]) -> Result<bool, TlsError> {
        Ok(certificates(chain_pem)?.first() == Some(&self.settings().certificate))
    }

    /// Returns the current settings.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.settings().config)
    }

    /// Returns the current settings for HTTP/2.
    #[must_use]
    pub fn config_h2(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.settings().config_h2)
    }

    /// Returns the current settings of all protocols, with the hash of their certificate.
    pub(crate) fn settings(&self) -> Arc<ServerSettings> {
        self.settings.load_full()
    }
}

/// Checks that the first certificate of a chain in PEM form was signed by one of the authorities, may identify a
/// client, and is valid at a time. The signature counts, not the name of the issuer.
pub fn verify_issued(chain_pem: &[u8], authorities_pem: &[u8], now: Timestamp) -> Result<(), TlsError> {
    let chain = certificates(chain_pem)?;
    verify_client(&chain[0], &chain[1..], authorities_pem, now)
}

/// Checks a certificate in DER form like [`verify_issued`]. One of the authorities has to have signed it itself.
pub fn verify_issued_der(certificate: &[u8], authorities_pem: &[u8], now: Timestamp) -> Result<(), TlsError> {
    verify_client(&CertificateDer::from(certificate), &[], authorities_pem, now)
}

fn verify_client(
    certificate: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    authorities_pem: &[u8],
    now: Timestamp,
) -> Result<(), TlsError> {
    let verifier = client_verifier(Arc::new(root_store(authorities_pem)?), ClientCertificates::Required)?;
    let seconds = u64::try_from(now.seconds()).unwrap_or(0);
    let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    verifier.verify_client_cert(certificate, intermediates, at)?;
    Ok(())
}

impl ServerSettings {
    fn new(chain_pem: &[u8], key_pem: &[u8], peers_pem: Option<&[u8]>) -> Result<Self, TlsError> {
        let peers = peers_pem.map(|pem| root_store(pem).map(Arc::new)).transpose()?;
        // The chain is not empty.
        let certificate = certificates(chain_pem)?.swap_remove(0);
        let hash = certificate_hash(&certificate);
        Ok(Self {
            certificate,
            config: server_config(chain_pem, key_pem, &[])?,
            config_http: server_config(chain_pem, key_pem, &[b"h2", b"http/1.1"])?,
            config_h2: server_config_h2(chain_pem, key_pem, peers.as_ref())?,
            certificate_hash: hash.map(Arc::from),
        })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// The client side of TLS, for connections to other servers.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
}

impl ClientTls {
    /// Creates settings that trust the given roots and check the name of the server.
    pub fn with_roots(roots: RootCertStore) -> Result<Self, TlsError> {
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        Ok(Self { config: Arc::new(builder.with_root_certificates(roots).with_no_client_auth()) })
    }

    /// Creates settings that trust the roots in a PEM file. Roots that cannot be parsed are left out if there are
    /// others, because the bundles of operating systems contain some of them.
    pub fn with_roots_pem(roots_pem: &[u8]) -> Result<Self, TlsError> {
        Self::with_roots(root_store(roots_pem)?)
    }

    /// Creates settings that accept any certificate. They protect only against eavesdropping (RFC 7435), as is usual
    /// between mail servers.
    pub fn opportunistic() -> Result<Self, TlsError> {
        let algorithms = provider().signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let anyone = Arc::new(AnyCertificate { algorithms });
        Ok(Self {
            config: Arc::new(builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth()),
        })
    }

    /// Returns the settings.
    #[must_use]
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// Converts the name of a server for the handshake.
    pub fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
        let plain = name.trim_end_matches('.');
        ServerName::try_from(plain.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls")
    }
}

/// Result of a handshake, for trace headers and logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsInfo {
    /// TLS version, such as `TLSv1.3`.
    pub version: &'static str,
    /// Registered name of the cipher suite, such as `TLS13_AES_256_GCM_SHA384`.
    pub cipher: &'static str,
}

impl TlsInfo {
    pub(crate) fn from_connection(connection: &rustls::CommonState) -> Option<Self> {
        let version = match connection.protocol_version()? {
            ProtocolVersion::TLSv1_2 => "TLSv1.2",
            ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => return None,
        };
        let cipher = connection.negotiated_cipher_suite()?.suite().as_str()?;
        Some(Self { version, cipher })
    }
}

/// Returns the settings for clients without a certificate. `alpn` has the protocols that are negotiated in the
/// handshake, the best first.
fn server_config(chain_pem: &[u8], key_pem: &[u8], alpn: &[&[u8]]) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(chain_pem)?;
    let key = private_key(key_pem)?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.ticketer = ring::Ticketer::new()?;
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}

fn server_config_h2(
    chain_pem: &[u8],
    key_pem: &[u8],
    peers: Option<&Arc<RootCertStore>>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match peers {
        Some(roots) => {
            builder.with_client_cert_verifier(client_verifier(Arc::clone(roots), ClientCertificates::Optional)?)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(certificates(chain_pem)?, private_key(key_pem)?)?;
    config.ticketer = ring::Ticketer::new()?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// Whether clients must present a certificate.
enum ClientCertificates {
    Required,
    Optional,
}

fn client_verifier(
    roots: Arc<RootCertStore>,
    certificates: ClientCertificates,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider());
    let builder = match certificates {
        ClientCertificates::Required => builder,
        ClientCertificates::Optional => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|error| TlsError::Pem("certificate", error.to_string()))
}

fn root_store(roots_pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(roots_pem)?);
    if added == 0 {
        return Err(TlsError::Pem("certificate", "none of the certificates can be used as a root".to_owned()));
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    check_length("certificate", pem)?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = parsed.map_err(|error| TlsError::Pem("certificate", error.to_string()))?;
    if chain.is_empty() {
        return Err(TlsError::Pem("certificate", "the file has no CERTIFICATE block".to_owned()));
    }
    Ok(chain)
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    check_length("private key", pem)?;
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| TlsError::Pem("private key", error.to_string()))
}

fn check_length(content: &'static str, pem: &[u8]) -> Result<(), TlsError> {
    if pem.len() > PEM_BYTES_MAX { Err(TlsError::TooLong(content)) } else { Ok(()) }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Accepts any certificate, but checks that the server holds its key.
#[derive(Debug)]
struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
