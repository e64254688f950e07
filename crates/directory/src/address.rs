//! Mail addresses as used in SMTP envelopes: parsing, normalization and comparison.
//!
//! An [`Address`] keeps the local part as written, because a foreign server may treat it as case-sensitive, and the
//! domain in lower-case ASCII (IDNA, UTS #46). Two addresses denote the same mailbox on this server if their
//! [`Address::key`]s are equal. The key consists of the local part without unnecessary quotes, in lower case and NFC,
//! and the domain.
//!
//! The accepted syntax is the `Mailbox` of RFC 5321 §4.1.2 with UTF-8 (RFC 6531 §3.3): a dot-string or a quoted string,
//! `@`, and a domain or an address literal. Comments, white space, display names and routes belong to header fields and
//! are refused. Underscores in domains are accepted, because such domains exist.
//!
//! Invariant: parsing the output of [`Address`]'s `Display` returns the same address, and the key of a key is the key
//! itself.

use std::fmt;
use std::str::FromStr;

use base::address_literal;
use unicode_normalization::UnicodeNormalization;

use crate::limits::{ADDRESS_BYTES_MAX, DOMAIN_BYTES_MAX, DOMAIN_LABEL_BYTES_MAX, LOCAL_PART_BYTES_MAX};

/// Separator between a mailbox name and its detail (sub-addressing, RFC 5233).
pub const DETAIL_SEPARATOR: char = '+';

/// A mail address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The content of the local part, without quotes and backslashes.
    local: String,
    /// The domain in lower-case ASCII, or an address literal with its brackets.
    domain: String,
}

/// The reason why a text is not an address. The messages may be sent to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text has no `@`, or nothing before it.
    #[error("the address is not of the form name@domain")]
    NotAnAddress,
    /// The local part violates the grammar.
    #[error("the part before the @ is not valid")]
    LocalPart,
    /// The domain violates the grammar or cannot be converted to ASCII.
    #[error("the domain is not valid")]
    Domain,
    /// The text exceeds a length limit of RFC 5321 §4.5.3.1.
    #[error("the address is too long")]
    TooLong,
}

impl Address {
    /// Parses an address without angle brackets.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError::TooLong);
        }
        let (local, domain) = split(text)?;
        let local = local.nfc().collect::<String>();
        if local.len() > LOCAL_PART_BYTES_MAX {
            return Err(AddressError::TooLong);
        }
        Ok(Self { local, domain: domain_to_ascii(domain)? })
    }

    /// Returns the local part as written, without quoting.
    #[must_use]
    pub fn local(&self) -> &str {
        &self.local
    }

    /// Returns the domain in lower-case ASCII.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns the key by which addresses are compared and looked up.
    #[must_use]
    pub fn key(&self) -> String {
        Self { local: fold(&self.local), domain: self.domain.clone() }.to_string()
    }

    /// Returns an equivalent key that begins with the domain, so that the addresses of a domain sort together.
    #[must_use]
    pub fn domain_first_key(&self) -> String {
        format!("{}@{}", self.domain, fold(&self.local))
    }

    /// Returns the detail of a sub-address (`lists` in `ann+lists@acme.test`), or `None` if there is none.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.split_detail().map(|(_, detail)| detail)
    }

    /// Returns the address without its detail, or `None` if it has none.
    #[must_use]
    pub fn without_detail(&self) -> Option<Self> {
        let (mailbox, _) = self.split_detail()?;
        Some(Self { local: mailbox.to_owned(), domain: self.domain.clone() })
    }

    /// Returns an address with the same local part in another domain. The domain must be in ASCII form (see
    /// [`domain_to_ascii`]).
    #[must_use]
    pub fn in_domain(&self, domain: &str) -> Self {
        Self { local: self.local.clone(), domain: domain.to_owned() }
    }

    fn split_detail(&self) -> Option<(&str, &str)> {
        self.local.split_once(DETAIL_SEPARATOR).filter(|(mailbox, _)| !mailbox.is_empty())
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse(text)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_dot_string(&self.local) {
            return write!(f, "{}@{}", self.local, self.domain);
        }
        f.write_str("\"")?;
        for character in self.local.chars() {
            if matches!(character, '"' | '\\') {
                f.write_str("\\")?;
            }
            write!(f, "{character}")?;
        }
        write!(f, "\"@{}", self.domain)
    }
}

/// Returns the lower-case ASCII form of a domain or an address literal.
pub fn domain_to_ascii(domain: &str) -> Result<String, AddressError> {
    if domain.len() > ADDRESS_BYTES_MAX {
        return Err(AddressError::TooLong);
    }
    if domain.starts_with('[') {
        return literal(domain);
    }
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    let ascii = idna::domain_to_ascii(domain).map_err(|_| AddressError::Domain)?;
    if ascii.len() > DOMAIN_BYTES_MAX {
        return Err(AddressError::TooLong);
    }
    let valid = !ascii.is_empty() && ascii.split('.').all(is_label);
    if valid { Ok(ascii) } else { Err(AddressError::Domain) }
}

/// Folds text for comparison: lower case and NFC.
#[must_use]
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    // Each character is lowered separately, because with the final sigma rule the result would depend on the
    // surrounding characters.
    text.nfc().flat_map(char::to_lowercase).nfc().collect()
}

/// Splits an address into the content of the local part and the domain.
fn split(text: &str) -> Result<(String, &str), AddressError> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (local, rest) = unquote(quoted)?;
        let domain = rest.strip_prefix('@').ok_or(AddressError::NotAnAddress)?;
        return Ok((local, domain));
    }
    let (local, domain) = text.split_once('@').ok_or(AddressError::NotAnAddress)?;
    if local.is_empty() {
        return Err(AddressError::NotAnAddress);
    }
    if !is_dot_string(local) {
        return Err(AddressError::LocalPart);
    }
    Ok((local.to_owned(), domain))
}

/// Parses a quoted string after its opening quote. Returns its content and the text after the closing quote.
fn unquote(text: &str) -> Result<(String, &str), AddressError> {
    let mut contents = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' if contents.is_empty() => return Err(AddressError::LocalPart),
            '"' => return Ok((contents, text.get(index + 1..).unwrap_or_default())),
            '\\' => match characters.next() {
                Some((_, escaped @ ' '..='~')) => contents.push(escaped),
                _ => return Err(AddressError::LocalPart),
            },
            control if control.is_control() => return Err(AddressError::LocalPart),
            plain => contents.push(plain),
        }
    }
    Err(AddressError::LocalPart)
}

fn is_dot_string(local: &str) -> bool {
    local.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_character))
}

fn is_atom_character(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(character);
    }
    !character.is_control() && !character.is_whitespace()
}

fn is_label(label: &str) -> bool {
    let characters = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let hyphens = label.starts_with('-') || label.ends_with('-');
    characters && !hyphens && !label.is_empty() && label.len() <= DOMAIN_LABEL_BYTES_MAX
}

/// Normalizes an address literal, in lower case.
fn literal(text: &str) -> Result<String, AddressError> {
    let address = address_literal::parse(text).ok_or(AddressError::Domain)?;
    Ok(address_literal::format(address).to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
