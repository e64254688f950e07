//! The server of the requests: its address, its name, and how it is trusted.

use std::sync::Arc;

use client::{Traffic, Trust};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::location::without_default_port;

/// The versions of HTTP that are offered in the handshake, as browsers offer them.
const VERSIONS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// A server that is reached over HTTPS.
#[derive(Clone)]
pub struct Origin {
    /// The host and port.
    pub(super) address: String,
    /// The name that is sent in the handshake.
    pub(super) server_name: ServerName<'static>,
    /// The settings of TLS.
    pub(super) tls: Arc<ClientConfig>,
    /// Counts the bytes of the connections.
    pub(super) traffic: Traffic,
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Origin").field("address", &self.address).finish()
    }
}

impl Origin {
    /// Creates the origin of a host and port. The bytes of its connections are counted by `traffic`. Returns `None` if
    /// the host is neither a name nor an address.
    pub fn new(address: &str, trust: &Trust, traffic: &Traffic) -> Option<Self> {
        let (host, _) = address.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let server_name = ServerName::try_from(host.to_owned()).ok()?;
        Some(Self { address: address.to_owned(), server_name, tls: trust.tls(VERSIONS), traffic: traffic.clone() })
    }

    /// Returns the host and port, as in the header field `Host`: the port is left out if it is that of HTTPS.
    pub fn authority(&self) -> &str {
        without_default_port(&self.address)
    }

    /// Returns the origin as browsers write it.
    pub fn text(&self) -> String {
        format!("https://{}", self.authority())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the origin with an address and a certificate of its own.
    pub(crate) fn origin(address: &str) -> Origin {
        let (_, pem) = crate::stub::acceptor(b"http/1.1").expect("a certificate");
        let trust = Trust::pinned(pem.as_bytes()).expect("a certificate");
        Origin::new(address, &trust, &Traffic::default()).expect("an origin")
    }

    #[test]
    fn the_port_of_https_is_left_out() {
        for (address, expected) in [
            ("mx.test:443", "https://mx.test"),
            ("[::1]:443", "https://[::1]"),
            ("mx.test:8443", "https://mx.test:8443"),
        ] {
            let origin = origin(address);
            assert_eq!((&*origin.text(), &*origin.address), (expected, address));
        }
    }
}
