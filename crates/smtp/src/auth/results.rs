//! The `Authentication-Results` field (RFC 8601): written for this server's own results, stripped where it is forged.
//!
//! The values are untrusted: domains, selectors, addresses, the name from EHLO. Only plain tokens and addresses without
//! quoting are written; all other values are left out, so that a value cannot inject results into this server's field.

use std::fmt::Write as _;

use mail::mime::authentication_results::without_forged;

use crate::codec::path::is_domain;

/// The result of one method.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MethodResult {
    /// The method: `spf`, `dkim`, `dmarc`, `arc`.
    pub method: &'static str,
    /// The result: `pass`, `fail`, `none`, …
    pub result: &'static str,
    /// The reason, in this program's words.
    pub reason: Option<&'static str>,
    /// The checked properties with their values.
    pub properties: Vec<(&'static str, String)>,
}

impl MethodResult {
    /// Creates a result without properties.
    #[must_use]
    pub fn new(method: &'static str, result: &'static str) -> Self {
        Self { method, result, reason: None, properties: Vec::new() }
    }

    /// Sets the reason.
    #[must_use]
    pub fn with_reason(self, reason: Option<&'static str>) -> Self {
        Self { reason, ..self }
    }

    /// Adds a property, unless its value cannot be written safely.
    #[must_use]
    pub fn with_property(mut self, property: &'static str, value: &str) -> Self {
        if is_safe(value) {
            self.properties.push((property, value.to_owned()));
        }
        self
    }
}

/// Returns the field including its CRLF.
#[must_use]
pub fn write(hostname: &str, results: &[MethodResult]) -> String {
    let mut field = format!("Authentication-Results: {hostname}");
    if results.is_empty() {
        field.push_str("; none");
    }
    for result in results {
        // Writing to a string cannot fail.
        let _ = write!(field, ";\r\n\t{}={}", result.method, result.result);
        if let Some(reason) = result.reason {
            let _ = write!(field, " reason=\"{reason}\"");
        }
        for (property, value) in &result.properties {
            let _ = write!(field, " {property}={value}");
        }
    }
    field.push_str("\r\n");
    field
}

/// Removes all fields that claim to be this server's (RFC 8601 §5), and inserts a new one at the top if it is given.
#[must_use]
pub fn replace(message: Vec<u8>, hostname: &str, field: Option<&str>) -> Vec<u8> {
    let clean = without_forged(message, hostname);
    match field {
        Some(field) => [field.as_bytes(), &clean].concat(),
        None => clean,
    }
}

fn is_safe(value: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.+/@!#$%&'*^{|}~".contains(c);
    !value.is_empty() && value.len() <= 512 && value.chars().all(is_plain) && {
        let (_, domain) = crate::codec::path::split_address(value);
        domain.is_empty() || is_domain(domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_follow_the_syntax_of_rfc_8601() {
        let results = [
            MethodResult::new("spf", "pass").with_property("smtp.mailfrom", "a@b.example"),
            MethodResult::new("dkim", "fail")
                .with_reason(Some("body hash did not verify"))
                .with_property("header.d", "b.example"),
        ];
        assert_eq!(
            write("mx.example", &results),
            "Authentication-Results: mx.example;\r\n\tspf=pass smtp.mailfrom=a@b.example;\r\n\tdkim=fail \
             reason=\"body hash did not verify\" header.d=b.example\r\n"
        );
        assert_eq!(write("mx.example", &[]), "Authentication-Results: mx.example; none\r\n");
    }

    #[test]
    fn values_that_could_inject_results_are_omitted() {
        for value in ["x; dkim=pass", "\"a;b\"@c", "a b", "a\r\nb", "a(b)", "a=b", "", "a@b;c", "a@-"] {
            assert!(
                MethodResult::new("spf", "none").with_property("smtp.helo", value).properties.is_empty(),
                "{value:?}"
            );
        }
    }

    fn check(header: &str, is_forged: bool) {
        let message = format!("Subject: x\r\n{header}\r\nTo: y\r\n\r\nAuthentication-Results: mx.example; stays\r\n");
        let clean = replace(message.clone().into_bytes(), "mx.example", None);
        let expected = if is_forged { message.replacen(&format!("{header}\r\n"), "", 1) } else { message };
        assert_eq!(String::from_utf8_lossy(&clean), expected, "{header:?}");
    }

    #[test]
    fn forged_results_are_stripped_and_others_kept() {
        check("Authentication-Results: mx.example; dkim=pass", true);
        check("authentication-results:MX.Example.;dkim=pass", true);
        check("Authentication-Results : mx.example; dkim=pass", true);
        check("Authentication-Results: (a \\) (b)) \"mx.example\" 1;\r\n dkim=pass", true);
        check("Authentication-Results: \"mx\\.example\"; dkim=pass", true);
        check("Authentication-Results: mx(x).example; dkim=pass", true);
        check("Authentication-Results: mx\u{3002}example; dkim=pass", true);
        check("Authentication-Results: mx.example/1; spf=pass", true);
        check("Authentication-Results:\r\n\tmx.example; spf=pass", true);
        check("Authentication-Results: other.example; dkim=pass", false);
        check("Authentication-Results: mx.example.evil; dkim=pass", false);
        check("X-Authentication-Results: mx.example; dkim=pass", false);
    }

    #[test]
    fn forged_results_after_a_stray_line_are_stripped() {
        let forged = "Authentication-Results: mx.example; dmarc=pass\r\n";
        let letter = format!("Received: x\r\nstray\r\n{forged}From: a@b.example\r\n--x: y\r\n{forged}\r\nz\r\n");
        let clean = replace(letter.into_bytes(), "mx.example", None);
        let expected = "Received: x\r\nstray\r\nFrom: a@b.example\r\n--x: y\r\n\r\nz\r\n";
        assert_eq!(String::from_utf8_lossy(&clean), expected);
    }

    #[test]
    fn new_results_are_inserted_at_the_top() {
        let clean =
            replace(b"A: b\r\n\r\nc".to_vec(), "mx.example", Some("Authentication-Results: mx.example; none\r\n"));
        assert_eq!(clean, b"Authentication-Results: mx.example; none\r\nA: b\r\n\r\nc");
    }
}
