//! The path of MAIL and RCPT: `<user@example.com>`, `<>`, `<Postmaster>`, `<@relay:user@example.com>`.
//!
//! The syntax is that of RFC 5321 §4.1.2 with the internationalization of RFC 6531. It is relaxed where real-world mail
//! requires it: a space may precede the path, dots may occur anywhere in a local part (some providers assign such
//! addresses), a local part may be longer than 64 bytes, and a domain may contain underscores. Source routes are
//! dropped, as RFC 5321 §3.6.1 requires. Control characters are never accepted, so that an accepted address has no
//! control characters of a trace field.

use base::address_literal;

use crate::limits::{DOMAIN_BYTES_MAX, LOCAL_PART_BYTES_MAX};

/// The reason why a path is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathError {
    /// The path does not begin with `<` or does not end with `>`.
    Brackets,
    /// The part before the `@` is invalid.
    LocalPart,
    /// The domain or the address literal is invalid.
    Domain,
}

/// A path without its brackets and its source route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path<'input> {
    /// The address, empty for `<>`. It lacks an `@` only if it consists of a local part alone.
    pub address: &'input str,
}

impl Path<'_> {
    /// Returns `true` if this is the null path `<>`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.address.is_empty()
    }

    /// Returns `true` if the address requires SMTPUTF8.
    #[must_use]
    pub fn is_international(&self) -> bool {
        !self.address.is_ascii()
    }
}

/// Parses a path. Returns the path and the parameters after it, without leading spaces.
pub fn parse(input: &str) -> Result<(Path<'_>, &str), PathError> {
    let input = input.trim_start_matches(' ');
    let inner = input.strip_prefix('<').ok_or(PathError::Brackets)?;
    let end = closing_bracket(inner).ok_or(PathError::Brackets)?;
    let rest = inner.get(end + 1..).unwrap_or_default();
    let inner = inner.get(..end).unwrap_or_default();
    if !rest.is_empty() && !rest.starts_with(' ') {
        return Err(PathError::Brackets);
    }
    let address = without_route(inner)?;
    check_address(address)?;
    Ok((Path { address }, rest.trim_start_matches(' ')))
}

/// Splits an address at its last `@`. Without an `@`, the domain is empty.
#[must_use]
pub fn split_address(address: &str) -> (&str, &str) {
    address.rsplit_once('@').unwrap_or((address, ""))
}

/// Returns `true` if a text is a domain name in SMTP syntax. Underscores and non-ASCII letters are accepted.
#[must_use]
pub fn is_domain(text: &str) -> bool {
    let labels = text.strip_suffix('.').unwrap_or(text);
    !labels.is_empty() && text.len() <= DOMAIN_BYTES_MAX && labels.split('.').all(is_label)
}

/// Returns `true` if a text is a domain or an address literal.
#[must_use]
pub fn is_domain_or_literal(text: &str) -> bool {
    is_domain(text) || address_literal::parse(text).is_some()
}

/// Returns the position of the bracket that ends the path. Brackets within quotes are skipped.
fn closing_bracket(inner: &str) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    for (index, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'>' if !quoted => return Some(index),
            _ => {}
        }
    }
    None
}

fn without_route(inner: &str) -> Result<&str, PathError> {
    if !inner.starts_with('@') {
        return Ok(inner);
    }
    let (route, address) = inner.split_once(':').ok_or(PathError::Domain)?;
    let is_hop = |hop: &str| hop.strip_prefix('@').is_some_and(is_domain_or_literal);
    if route.split(',').all(is_hop) && !address.is_empty() { Ok(address) } else { Err(PathError::Domain) }
}

fn check_address(address: &str) -> Result<(), PathError> {
    if address.is_empty() {
        return Ok(());
    }
    let (local, domain) = split_address(address);
    let is_local = if local.starts_with('"') { is_quoted_string(local) } else { is_dot_string(local) };
    if !is_local || local.len() > LOCAL_PART_BYTES_MAX {
        return Err(PathError::LocalPart);
    }
    if !address.contains('@') || is_domain_or_literal(domain) { Ok(()) } else { Err(PathError::Domain) }
}

fn is_dot_string(local: &str) -> bool {
    !local.is_empty() && local.bytes().all(|byte| byte == b'.' || is_atext(byte))
}

fn is_quoted_string(local: &str) -> bool {
    let Some(inner) = local.strip_prefix('"').and_then(|local| local.strip_suffix('"')) else { return false };
    let mut escaped = false;
    for byte in inner.bytes() {
        match byte {
            0..=31 | 127 => return false,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return false,
            _ => {}
        }
    }
    local.len() >= 2 && !escaped
}

fn is_atext(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"!#$%&'*+-/=?^_`{|}~".contains(&byte)
}

fn is_label(label: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' || byte >= 0x80;
    !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: Result<(&str, &str), PathError>) {
        assert_eq!(parse(input).map(|(path, rest)| (path.address, rest)), expected, "{input:?}");
    }

    #[test]
    fn paths_are_parsed_leniently() {
        check("<a@b.example>", Ok(("a@b.example", "")));
        check(" <a@b.example>  SIZE=1", Ok(("a@b.example", "SIZE=1")));
        check("<>", Ok(("", "")));
        check("<Postmaster>", Ok(("Postmaster", "")));
        check("<a..b.@c_d.example>", Ok(("a..b.@c_d.example", "")));
        check("<\"a b@c>\\\"\"@d.example>", Ok(("\"a b@c>\\\"\"@d.example", "")));
        check("<@relay.example,@[192.0.2.1]:a@b.example>", Ok(("a@b.example", "")));
        check("<a@[192.0.2.1]>", Ok(("a@[192.0.2.1]", "")));
        check("<a@[IPv6:2001:db8::1]>", Ok(("a@[IPv6:2001:db8::1]", "")));
        check("<jürgen@müller.example>", Ok(("jürgen@müller.example", "")));
    }

    #[test]
    fn invalid_paths_are_refused_with_a_reason() {
        for brackets in ["a@b.example", "<a@b.example", "<a@b.example>x", "", "<\"a@b.example>", "< a"] {
            check(brackets, Err(PathError::Brackets));
        }
        for local in ["<a b@c.example>", "<@>", "<\"a\"b@c.example>", "<a\tb@c>", "<a(b)@c.example>", "<a@b@c.example>"]
        {
            let expected = if local == "<@>" { PathError::Domain } else { PathError::LocalPart };
            check(local, Err(expected));
        }
        for domain in ["<a@>", "<a@-b.example>", "<a@b..example>", "<a@[300.0.0.1]>", "<a@[IPv6:zz]>", "<@:a@b>"] {
            check(domain, Err(PathError::Domain));
        }
        check(&format!("<{}@b.example>", "a".repeat(257)), Err(PathError::LocalPart));
        check(&format!("<a@{}.example>", "b.".repeat(130)), Err(PathError::Domain));
    }
}
