//! Address literals, which stand in place of a domain: `[192.0.2.1]`, `[IPv6:2001:db8::1]` (RFC 5321 §4.1.3).
//!
//! Literals with other tags are not known.

use std::net::IpAddr;

use crate::ascii_case;

/// Parses an address literal. The tag may be in any case.
#[must_use]
pub fn parse(text: &str) -> Option<IpAddr> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    match ascii_case::strip_prefix(inner, "IPv6:") {
        Some(address) => address.parse().ok().map(IpAddr::V6),
        None => inner.parse().ok().map(IpAddr::V4),
    }
}

/// Returns an address as an address literal.
#[must_use]
pub fn format(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("[{address}]"),
        IpAddr::V6(address) => format!("[IPv6:{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_read_back_and_others_are_refused() {
        for text in ["[192.0.2.1]", "[IPv6:2001:db8::1]"] {
            assert_eq!(parse(text).map(format).as_deref(), Some(text));
        }
        assert_eq!(parse("[ipv6:2001:DB8:0::1]").map(format).as_deref(), Some("[IPv6:2001:db8::1]"));
        for text in ["192.0.2.1", "[192.0.2.1", "[300.0.0.1]", "[2001:db8::1]", "[IPv6:192.0.2.1]", "[IPv6:zz]", "[]"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
