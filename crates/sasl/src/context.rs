//! The properties of a connection that matter to logins, and the mechanisms that the connection offers.
//!
//! A protocol makes a [`Context`] when a connection begins and again after STARTTLS. It lists
//! [`Context::offered_mechanisms`] in its capabilities and begins exchanges with the same context, so that the
//! detection of a downgrade (RFC 5802 §6) is based on the mechanisms that the client was offered.

use crate::channel_binding::ChannelBinding;
use crate::error::LoginError;
use crate::mechanism::Mechanism;
use crate::protocol::LoginOrigin;

/// The properties of a connection that matter to logins.
#[derive(Debug, Clone)]
pub struct Context {
    /// The origin of the login.
    pub origin: LoginOrigin,
    /// The mechanisms that are enabled, in any order.
    pub mechanisms: Vec<Mechanism>,
    /// Set if secrets may be sent: the connection is encrypted or does not leave the machine.
    pub is_private: bool,
    /// Set if every mechanism requires a private connection, and not only those that send secrets in clear.
    pub requires_privacy: bool,
    /// The channel bindings of the TLS connection. Empty without TLS.
    pub channel_bindings: Vec<ChannelBinding>,
    /// The client's certificate in DER form, if the TLS layer has verified one.
    pub certificate: Option<Vec<u8>>,
    /// Hints for clients whose token is refused.
    pub oauth: OAuthDiscovery,
}

/// The values by which a client obtains a token (RFC 7628 §3.2.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OAuthDiscovery {
    /// The scope that a token must have.
    pub scope: Option<String>,
    /// The `https` URL of the OpenID provider's configuration.
    pub openid_configuration: Option<String>,
}

impl Context {
    /// Creates the context of a connection without encryption.
    #[must_use]
    pub fn new(origin: LoginOrigin, mechanisms: &[Mechanism]) -> Self {
        Self {
            origin,
            mechanisms: mechanisms.to_vec(),
            is_private: false,
            requires_privacy: false,
            channel_bindings: Vec::new(),
            certificate: None,
            oauth: OAuthDiscovery::default(),
        }
    }

    /// Returns the mechanisms that are offered on this connection, the best first.
    pub fn offered_mechanisms(&self) -> impl Iterator<Item = Mechanism> + '_ {
        Mechanism::ALL.into_iter().filter(|mechanism| self.offers(*mechanism))
    }

    /// Returns `true` if a mechanism is offered on this connection.
    #[must_use]
    pub fn offers(&self, mechanism: Mechanism) -> bool {
        self.check(mechanism).is_ok()
    }

    /// Checks that the connection is private if every mechanism requires it. Returns [`LoginError::TlsRequired`] if it
    /// is not.
    pub fn check_privacy(&self) -> Result<(), LoginError> {
        if self.requires_privacy && !self.is_private { Err(LoginError::TlsRequired) } else { Ok(()) }
    }

    /// Checks that a mechanism is offered on this connection.
    ///
    /// Returns [`LoginError::TlsRequired`] if the connection must be private for it and is not, and
    /// [`LoginError::MechanismNotOffered`] if it is not enabled, or if the connection lacks the channel binding or the
    /// certificate that it needs. Without [`Context::check_privacy`] the reason is the same for every mechanism.
    pub fn check(&self, mechanism: Mechanism) -> Result<(), LoginError> {
        self.check_privacy()?;
        if !self.mechanisms.contains(&mechanism) {
            return Err(LoginError::MechanismNotOffered);
        }
        if mechanism.is_cleartext() && !self.is_private {
            return Err(LoginError::TlsRequired);
        }
        let lacks_binding = mechanism.has_channel_binding() && self.channel_bindings.is_empty();
        let lacks_certificate = mechanism == Mechanism::External && self.certificate.is_none();
        if lacks_binding || lacks_certificate { Err(LoginError::MechanismNotOffered) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
