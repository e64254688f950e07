//! The channel bindings of a TLS connection (RFC 5056), as the TLS layer computes them.
//!
//! `tls-unique` (RFC 5929 §3) is not supported: TLS 1.3 does not define it.

use std::fmt;

use crate::limits::TLS_EXPORTER_BYTES;

/// The type of a channel binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChannelBindingType {
    /// `tls-exporter` (RFC 9266).
    TlsExporter,
    /// `tls-server-end-point` (RFC 5929 §4).
    TlsServerEndPoint,
}

impl ChannelBindingType {
    /// Returns the registered name. Names are compared with case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TlsExporter => "tls-exporter",
            Self::TlsServerEndPoint => "tls-server-end-point",
        }
    }
}

/// The data of a channel binding. Its `Debug` form shows only the type.
#[derive(Clone, PartialEq, Eq)]
pub enum ChannelBinding {
    /// Keying material exported with the label `EXPORTER-Channel-Binding` and an empty context (RFC 9266 §2). With TLS
    /// 1.2 it may be passed in only if the connection uses the extended master secret.
    TlsExporter([u8; TLS_EXPORTER_BYTES]),
    /// The hash of the server's certificate in DER form (RFC 5929 §4.1): with the hash function of the certificate's
    /// signature, or SHA-256 if that is MD5 or SHA-1.
    TlsServerEndPoint(Vec<u8>),
}

impl ChannelBinding {
    /// Returns the type.
    #[must_use]
    pub const fn binding_type(&self) -> ChannelBindingType {
        match self {
            Self::TlsExporter(_) => ChannelBindingType::TlsExporter,
            Self::TlsServerEndPoint(_) => ChannelBindingType::TlsServerEndPoint,
        }
    }

    /// Returns the data, which the client must repeat.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        match self {
            Self::TlsExporter(data) => data,
            Self::TlsServerEndPoint(data) => data,
        }
    }
}

impl fmt::Debug for ChannelBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChannelBinding({})", self.binding_type().name())
    }
}
