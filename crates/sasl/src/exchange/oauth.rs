//! The messages of OAUTHBEARER (RFC 7628) and XOAUTH2.
//!
//! ```text
//! OAUTHBEARER: n,[a=authorization identity],^Ahost=…^Aport=…^Aauth=Bearer token^A^A
//! XOAUTH2:     user=authorization identity^Aauth=Bearer token^A^A
//! ```
//!
//! Unknown keys are ignored. A message without a bearer token is well formed: by an empty `auth`, a client asks for the
//! scope that it needs (RFC 7628 §4.3). XOAUTH2 is defined by Google's and Microsoft's documentation only.

use super::gs2::{self, BindingFlag};
use crate::context::OAuthDiscovery;
use crate::error::LoginError;
use crate::mechanism::Mechanism;
use crate::request::{TokenRequest, text};

/// The separator of keys and values (`kvsep`).
const SEPARATOR: char = '\x01';

/// The keys and values of a message.
struct Pairs<'a>(Vec<(&'a str, &'a str)>);

/// Parses the message of OAUTHBEARER. Returns `None` if it is well formed but has no bearer token.
///
/// Returns [`LoginError::ChannelBinding`] if the client requires channel binding, which the mechanism does not have.
pub(super) fn parse_oauthbearer(message: &[u8]) -> Result<Option<TokenRequest>, LoginError> {
    let header = gs2::parse(text(message)?)?;
    if matches!(header.flag, BindingFlag::Required(_)) {
        return Err(LoginError::ChannelBinding);
    }
    let body = header.rest.strip_prefix(SEPARATOR).ok_or(LoginError::Malformed)?;
    let pairs = Pairs::parse(body, is_value_character)?;
    let host = pairs.get("host")?.map(str::to_owned);
    let port = pairs.get("port")?.map(parse_port).transpose()?;
    let auth = pairs.get("auth")?.ok_or(LoginError::Malformed)?;
    let authorization_id = header.authorization_id;
    let request = TokenRequest::from_authorization(auth);
    Ok(request.map(|request| TokenRequest { authorization_id, host, port, ..request }))
}

/// Parses the message of XOAUTH2. Returns `None` if it is well formed but has no bearer token.
///
/// Unlike values of OAUTHBEARER, the name may contain characters beyond ASCII.
pub(super) fn parse_xoauth2(message: &[u8]) -> Result<Option<TokenRequest>, LoginError> {
    let pairs = Pairs::parse(text(message)?, |character| !character.is_ascii() || is_value_character(character))?;
    let user = pairs.get("user")?.filter(|user| !user.is_empty()).ok_or(LoginError::Malformed)?;
    let auth = pairs.get("auth")?.ok_or(LoginError::Malformed)?;
    let authorization_id = Some(user.to_owned());
    let request = TokenRequest::from_authorization(auth);
    Ok(request.map(|request| TokenRequest { authorization_id, ..request }))
}

/// Returns the JSON text that tells the client why its token was refused, and how it obtains another.
pub(super) fn error_message(mechanism: Mechanism, discovery: &OAuthDiscovery) -> String {
    let mut members = if mechanism == Mechanism::XOAuth2 {
        vec![("status", "401"), ("schemes", "bearer")]
    } else {
        vec![("status", "invalid_token")]
    };
    members.extend(discovery.scope.as_deref().map(|scope| ("scope", scope)));
    if mechanism == Mechanism::OAuthBearer {
        members.extend(discovery.openid_configuration.as_deref().map(|url| ("openid-configuration", url)));
    }
    let members: Vec<String> = members.into_iter().map(|(key, value)| format!("\"{key}\":{}", quoted(value))).collect();
    format!("{{{}}}", members.join(","))
}

impl<'a> Pairs<'a> {
    /// Parses `*(key "=" value kvsep) kvsep`.
    fn parse(body: &'a str, is_value_character: fn(char) -> bool) -> Result<Self, LoginError> {
        let body = body.strip_suffix(SEPARATOR).ok_or(LoginError::Malformed)?;
        let mut pairs = Vec::new();
        if body.is_empty() {
            return Ok(Self(pairs));
        }
        let body = body.strip_suffix(SEPARATOR).ok_or(LoginError::Malformed)?;
        for pair in body.split(SEPARATOR) {
            let (key, value) = pair.split_once('=').ok_or(LoginError::Malformed)?;
            let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic());
            if !is_key || !value.chars().all(is_value_character) {
                return Err(LoginError::Malformed);
            }
            pairs.push((key, value));
        }
        Ok(Self(pairs))
    }

    /// Returns the value of a key, or `None` if it does not occur. A key that occurs twice is malformed, because
    /// another reader of the message might take the other value.
    fn get(&self, key: &str) -> Result<Option<&'a str>, LoginError> {
        let mut values = self.0.iter().filter(|pair| pair.0 == key).map(|pair| pair.1);
        let value = values.next();
        if values.next().is_some() { Err(LoginError::Malformed) } else { Ok(value) }
    }
}

/// Returns `true` for the characters of a value (RFC 7628 §3.1): visible ones, blanks and line ends, all of ASCII.
fn is_value_character(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n') || character.is_ascii_graphic()
}

/// Parses a positive number without leading zeros.
fn parse_port(text: &str) -> Result<u16, LoginError> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if is_plain { text.parse().map_err(|_| LoginError::Malformed) } else { Err(LoginError::Malformed) }
}

/// Returns a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if character.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(character))),
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests;
