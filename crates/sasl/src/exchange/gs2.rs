//! The GS2 header (RFC 5801 §4) before the messages of SCRAM and OAUTHBEARER: `flag,[a=authorization identity],`.
//!
//! The header for non-standard mechanisms (`F,`) is refused, since neither mechanism uses it.

use crate::error::LoginError;

/// The flag by which a client states its use of channel binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BindingFlag<'a> {
    /// `n`: the client does not support channel binding.
    Unsupported,
    /// `y`: the client supports channel binding, and believes that the server does not.
    NotOffered,
    /// `p=`: the client requires channel binding of this type.
    Required(&'a str),
}

/// A parsed header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gs2Header<'a> {
    /// The channel binding flag.
    pub(super) flag: BindingFlag<'a>,
    /// The authorization identity, if the client named one.
    pub(super) authorization_id: Option<String>,
    /// The header as received, with its last comma.
    pub(super) text: &'a str,
    /// The message after the header.
    pub(super) rest: &'a str,
}

/// Parses the header of a message.
pub(super) fn parse(message: &str) -> Result<Gs2Header<'_>, LoginError> {
    let (flag, after_flag) = message.split_once(',').ok_or(LoginError::Malformed)?;
    let (authorization, rest) = after_flag.split_once(',').ok_or(LoginError::Malformed)?;
    let flag = parse_flag(flag)?;
    let authorization_id = match authorization {
        "" => None,
        named => Some(saslname(named.strip_prefix("a=").ok_or(LoginError::Malformed)?)?),
    };
    let text = message.strip_suffix(rest).unwrap_or(message);
    Ok(Gs2Header { flag, authorization_id, text, rest })
}

fn parse_flag(flag: &str) -> Result<BindingFlag<'_>, LoginError> {
    match flag {
        "n" => Ok(BindingFlag::Unsupported),
        "y" => Ok(BindingFlag::NotOffered),
        _ => match flag.strip_prefix("p=") {
            Some(name) if is_binding_name(name) => Ok(BindingFlag::Required(name)),
            _ => Err(LoginError::Malformed),
        },
    }
}

fn is_binding_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}

/// Decodes a saslname (RFC 5802 §7), in which `=2C` is a comma and `=3D` an equals sign. It must not be empty or
/// contain NUL, and neither character may occur otherwise.
pub(super) fn saslname(text: &str) -> Result<String, LoginError> {
    if text.is_empty() || text.contains(['\0', ',']) {
        return Err(LoginError::Malformed);
    }
    let mut pieces = text.split('=');
    let mut name = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        if let Some(rest) = piece.strip_prefix("2C") {
            name.push(',');
            name.push_str(rest);
        } else if let Some(rest) = piece.strip_prefix("3D") {
            name.push('=');
            name.push_str(rest);
        } else {
            return Err(LoginError::Malformed);
        }
    }
    Ok(name)
}

#[cfg(test)]
mod tests;
