//! The `Authentication-Results` field (RFC 8601): written for this server's own results, stripped where it is forged.
//!
//! The values are untrusted: domains, selectors, addresses, the name from EHLO. Only plain tokens and addresses without
//! quoting are written; all other values are left out, so that a value cannot inject results into this server's field.

use std::fmt::Write as _;

use mail::mime::header::{HeaderField, leading_fields};

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
    let forged: Vec<_> = leading_fields(&message)
        .filter(|(_, field)| has_authserv_id(field, hostname))
        .map(|(range, _)| range)
        .collect();
    if forged.is_empty() && field.is_none() {
        return message;
    }
    let field = field.unwrap_or_default();
    let mut clean = Vec::with_capacity(message.len() + field.len());
    clean.extend_from_slice(field.as_bytes());
    let mut copied = 0;
    for range in forged {
        clean.extend_from_slice(message.get(copied..range.start).unwrap_or_default());
        copied = range.end;
    }
    clean.extend_from_slice(message.get(copied..).unwrap_or_default());
    clean
}

/// Returns `true` if the authentication service of a field has the given name. Comments before the name are skipped.
fn has_authserv_id(field: &HeaderField<'_>, hostname: &str) -> bool {
    if !field.is("Authentication-Results") {
        return false;
    }
    let text = String::from_utf8_lossy(field.value);
    let mut rest = text.trim_start();
    while let Some(comment) = rest.strip_prefix('(') {
        rest = after_comment(comment).trim_start();
    }
    let end = |c: char| c.is_whitespace() || matches!(c, ';' | '(' | '/');
    let service = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => rest.split(end).next().unwrap_or_default(),
    };
    service.trim_end_matches('.').eq_ignore_ascii_case(hostname)
}

/// Returns the text after a comment whose opening parenthesis has been removed.
fn after_comment(comment: &str) -> &str {
    let mut depth = 1_u32;
    let mut escaped = false;
    for (index, c) in comment.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return comment.get(index + 1..).unwrap_or_default();
        }
    }
    ""
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
        check("Authentication-Results: (a \\) (b)) \"mx.example\" 1;\r\n dkim=pass", true);
        check("Authentication-Results: mx.example/1; spf=pass", true);
        check("Authentication-Results:\r\n\tmx.example; spf=pass", true);
        check("Authentication-Results: other.example; dkim=pass", false);
        check("Authentication-Results: mx.example.evil; dkim=pass", false);
        check("X-Authentication-Results: mx.example; dkim=pass", false);
    }

    #[test]
    fn new_results_are_inserted_at_the_top() {
        let clean =
            replace(b"A: b\r\n\r\nc".to_vec(), "mx.example", Some("Authentication-Results: mx.example; none\r\n"));
        assert_eq!(clean, b"Authentication-Results: mx.example; none\r\nA: b\r\n\r\nc");
    }
}
