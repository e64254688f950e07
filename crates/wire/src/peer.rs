//! The other end of a connection, as far as the socket describes it.
//!
//! Protocols use this to decide what they offer: plain-text passwords only over TLS or on the same machine, and
//! relaying limits per network address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::memory::MemoryOwner;
use sasl::{ChannelBinding, Context, LoginError, LoginOrigin, LoginProtocol, Mechanism};

use crate::job::JobOwner;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The network address, or `None` for a local socket or a connection in memory.
    pub address: Option<SocketAddr>,
    /// Set if the connection is encrypted. STARTTLS changes it.
    pub tls: bool,
    /// Set if the peer runs on this machine. Local sockets count as such.
    pub loopback: bool,
    /// The number of the connection in this process, or zero if connections are not numbered.
    pub connection: u64,
}

impl Peer {
    /// Creates a peer that connected over the network, without encryption so far.
    #[must_use]
    pub fn network(address: SocketAddr) -> Self {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        Self { address: Some(address), tls: false, loopback: address.ip().is_loopback(), connection: 0 }
    }

    /// Creates a peer on this machine that connected over a local socket or in memory.
    #[must_use]
    pub fn local() -> Self {
        Self { address: None, tls: false, loopback: true, connection: 0 }
    }

    /// Returns the same peer with encryption.
    #[must_use]
    pub fn encrypted(self) -> Self {
        Self { tls: true, ..self }
    }

    /// Returns the same peer with the number of its connection.
    #[must_use]
    pub fn numbered(self, connection: u64) -> Self {
        Self { connection, ..self }
    }

    /// Returns `true` if secrets may be sent: the connection is encrypted or does not leave the machine.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.tls || self.loopback
    }

    /// Returns the owner of jobs in the worker pool as long as nobody has logged in.
    #[must_use]
    pub fn job_owner(&self) -> JobOwner {
        JobOwner::stranger(self.ip())
    }

    /// Returns the owner of the memory share as long as nobody has logged in.
    #[must_use]
    pub fn memory_owner(&self) -> MemoryOwner {
        if self.loopback { MemoryOwner::Local } else { MemoryOwner::network(self.ip()) }
    }

    /// Returns the origin of a login over this connection.
    #[must_use]
    pub fn login_origin(&self, protocol: LoginProtocol) -> LoginOrigin {
        LoginOrigin { protocol, address: self.address, connection: self.connection }
    }

    /// Logs a warning if a login was refused because of its channel binding, which is the only sign of a man in the
    /// middle.
    pub fn warn_of_channel_binding(&self, protocol: LoginProtocol, error: LoginError) {
        if error == LoginError::ChannelBinding {
            tracing::warn!(target: "login", %protocol, peer = %self, reason = %error, "refused a login");
        }
    }

    /// Returns the context of logins over this connection, with the channel bindings of its stream
    /// ([`crate::Stream::channel_bindings`]). Every mechanism requires [`Peer::is_private`].
    #[must_use]
    pub fn login_context(
        &self,
        protocol: LoginProtocol,
        mechanisms: &[Mechanism],
        channel_bindings: &[ChannelBinding],
    ) -> Context {
        let context = Context::new(self.login_origin(protocol), mechanisms);
        let channel_bindings = channel_bindings.to_vec();
        Context { is_private: self.is_private(), requires_privacy: true, channel_bindings, ..context }
    }

    /// Returns the IP address, or the loopback address for a peer without an address.
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
    fn loopback_addresses_are_recognized() {
        check("127.0.0.1:25", true, "127.0.0.1:25");
        check("[::1]:25", true, "[::1]:25");
        check("[::ffff:127.0.0.9]:25", true, "127.0.0.9:25");
        check("[::ffff:192.0.2.1]:25", false, "192.0.2.1:25");
        check("192.0.2.1:25", false, "192.0.2.1:25");
    }

    #[test]
    fn mechanisms_are_offered_only_over_encryption() {
        let stranger = Peer::network("192.0.2.1:25".parse().expect("an address")).numbered(7);
        let binding = ChannelBinding::TlsServerEndPoint(b"certificate hash".to_vec());
        let offered = |peer: &Peer, bindings: &[ChannelBinding]| {
            let context = peer.login_context(LoginProtocol::Imap, &Mechanism::ALL, bindings);
            assert_eq!((context.origin.address, context.origin.connection), (stranger.address, 7));
            context.offered_mechanisms().map(Mechanism::name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(offered(&stranger, &[]), "");
        let without_binding = "SCRAM-SHA-256 OAUTHBEARER XOAUTH2 PLAIN LOGIN";
        assert_eq!(offered(&stranger.encrypted(), &[]), without_binding);
        assert_eq!(offered(&stranger.encrypted(), &[binding]), format!("SCRAM-SHA-256-PLUS {without_binding}"));
    }

    #[test]
    fn peers_of_this_machine_share_their_memory() {
        let owner = |text: &str| Peer::network(text.parse().expect("an address")).memory_owner();
        for local in [owner("127.0.0.1:25"), owner("[::1]:25"), Peer::local().memory_owner()] {
            assert_eq!(local, MemoryOwner::Local);
        }
        assert_eq!(owner("[2001:db8::1]:25"), owner("[2001:db8::2]:26"));
        assert_ne!(owner("192.0.2.1:25"), owner("192.0.2.2:25"));
    }

    #[test]
    fn a_local_socket_counts_as_loopback() {
        assert!(Peer::local().is_private());
        assert!(Peer::local().ip().is_loopback());
    }
}
