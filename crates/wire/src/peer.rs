//! Who is at the other end of a connection, as far as the socket tells.
//!
//! Protocols decide by this what they offer: passwords in clear only over TLS or on the same machine, relaying limits
//! per network address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The network address; none over a local socket or in memory.
    pub address: Option<SocketAddr>,
    /// Whether the connection is encrypted. Changes with STARTTLS.
    pub tls: bool,
    /// Whether the peer runs on this machine. Local sockets count.
    pub loopback: bool,
    /// The number of the connection in this process; zero where nobody numbers them.
    pub connection: u64,
}

impl Peer {
    /// Describes a peer that came over the network, without encryption so far.
    #[must_use]
    pub fn network(address: SocketAddr) -> Self {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        Self { address: Some(address), tls: false, loopback: address.ip().is_loopback(), connection: 0 }
    }

    /// Describes a peer on this machine that came over a local socket or through memory.
    #[must_use]
    pub fn local() -> Self {
        Self { address: None, tls: false, loopback: true, connection: 0 }
    }

    /// Gives the same peer, now encrypted.
    #[must_use]
    pub fn encrypted(self) -> Self {
        Self { tls: true, ..self }
    }

    /// Gives the same peer with the number of its connection.
    #[must_use]
    pub fn numbered(self, connection: u64) -> Self {
        Self { connection, ..self }
    }

    /// Tells whether secrets may pass: the connection is encrypted or does not leave the machine.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.tls || self.loopback
    }

    /// Gives the IP address; the loopback address for a peer without one.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.address.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "{address}"),
            None => f.write_str("local"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, loopback: bool, shown: &str) {
        let peer = Peer::network(address.parse().expect("the test's addresses are valid"));
        assert_eq!((peer.loopback, peer.is_private(), peer.to_string().as_str()), (loopback, loopback, shown));
        assert!(peer.encrypted().is_private());
    }

    #[test]
    fn addresses_are_told_apart() {
        check("127.0.0.1:25", true, "127.0.0.1:25");
        check("[::1]:25", true, "[::1]:25");
        check("[::ffff:127.0.0.9]:25", true, "127.0.0.9:25");
        check("[::ffff:192.0.2.1]:25", false, "192.0.2.1:25");
        check("192.0.2.1:25", false, "192.0.2.1:25");
    }

    #[test]
    fn a_local_socket_counts_as_loopback() {
        assert!(Peer::local().is_private());
        assert!(Peer::local().ip().is_loopback());
    }
}
