//! Application passwords, as far as protocols know them: further passwords of an account that may be limited.

use std::fmt;

use crate::protocol::LoginProtocol;

/// The protocols for which somebody can make an application password.
///
/// [`LoginProtocol::Http`] stands for programs that log in over HTTP by themselves. The login page takes no application
/// password.
pub const APPLICATION_PROTOCOLS: [LoginProtocol; 6] = [
    LoginProtocol::Imap,
    LoginProtocol::Pop3,
    LoginProtocol::Submission,
    LoginProtocol::Jmap,
    LoginProtocol::Native,
    LoginProtocol::Http,
];

/// The identifier of an application password. It is not secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplicationPasswordId(pub [u8; 8]);

impl ApplicationPasswordId {
    /// Parses the text form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 16 || !text.bytes().all(is_lower_hex) {
            return None;
        }
        u64::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

/// The text form: 16 hexadecimal digits.
impl fmt::Display for ApplicationPasswordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ApplicationPasswordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApplicationPasswordId({self})")
    }
}

/// What a login may do with the rights of its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoginScope {
    /// Everything that the account may do.
    #[default]
    All,
    /// Reading only.
    Reading,
}

impl LoginScope {
    /// Returns the name in records, commands and forms.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Reading => "reading",
        }
    }

    /// Returns the scope with this name, or `None` if there is none.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::All, Self::Reading].into_iter().find(|scope| scope.name() == name)
    }
}

/// The password by which a login was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoginPassword {
    /// The password of the account, or a proof that counts as much.
    #[default]
    Account,
    /// An application password.
    Application {
        /// Its identifier.
        id: ApplicationPasswordId,
        /// What it permits.
        scope: LoginScope,
    },
}

impl LoginPassword {
    /// Returns what the login may do.
    #[must_use]
    pub const fn scope(self) -> LoginScope {
        match self {
            Self::Account => LoginScope::All,
            Self::Application { scope, .. } => scope,
        }
    }

    /// Returns the identifier, if it is an application password.
    #[must_use]
    pub const fn application(self) -> Option<ApplicationPasswordId> {
        match self {
            Self::Account => None,
            Self::Application { id, .. } => Some(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_and_scopes_read_back_from_their_texts() {
        let id = ApplicationPasswordId([0, 1, 0xab, 3, 4, 5, 6, 0xff]);
        assert_eq!(id.to_string(), "0001ab03040506ff");
        assert_eq!(ApplicationPasswordId::parse(&id.to_string()), Some(id));
        for text in ["", "0001ab03040506f", "0001AB03040506FF", "+001ab03040506ff", "0001ab03040506ff0"] {
            assert_eq!(ApplicationPasswordId::parse(text), None, "{text}");
        }
        for scope in [LoginScope::All, LoginScope::Reading] {
            assert_eq!(LoginScope::parse(scope.name()), Some(scope));
        }
        assert_eq!(LoginScope::parse("none"), None);
    }
}
