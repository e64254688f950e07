//! Pages of other origins: which of them may have a browser send requests, and read the answers.
//!
//! A browser adds the cookie of a session to the requests of any page, so a page could act for the person (cross-site
//! request forgery). Browsers say in `Sec-Fetch-Site` (Fetch Metadata) and `Origin` (RFC 6454) which page sends a
//! request. Requests of programs have neither.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;

/// The field with the relation between the page and this server.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Seconds for which a browser may keep the answer to a preflight request.
const PREFLIGHT_SECONDS: &str = "600";

/// The sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A program, or a browser so old that it does not say.
    Program,
    /// A page of this server, or a person who has entered the address.
    SameOrigin,
    /// A page of an origin that the operator has permitted.
    Permitted,
    /// A page of another origin.
    Foreign,
}

/// The origins that the operator has permitted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origins {
    permitted: Vec<String>,
}

impl Origins {
    /// Creates the list from origins such as `https://app.acme.test`.
    #[must_use]
    pub fn new(permitted: Vec<String>) -> Self {
        Self { permitted }
    }

    /// Returns `true` if pages of no other origin are permitted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.permitted.is_empty()
    }

    /// Returns the sender of a request.
    #[must_use]
    pub fn sender(&self, headers: &HeaderMap) -> Sender {
        let origin = headers.get(header::ORIGIN);
        if origin.is_some_and(|origin| self.is_permitted(origin)) {
            return Sender::Permitted;
        }
        match (headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes), origin) {
            (Some(b"same-origin" | b"none"), _) => Sender::SameOrigin,
            (Some(_), _) => Sender::Foreign,
            (None, None) => Sender::Program,
            (None, Some(origin)) if is_own(origin, headers) => Sender::SameOrigin,
            (None, Some(_)) => Sender::Foreign,
        }
    }

    /// Lets the page of a permitted origin read an answer (CORS). `readable` are the header fields that it may read.
    pub fn permit_answer(&self, origin: Option<&HeaderValue>, readable: &'static str, headers: &mut HeaderMap) {
        if let Some(origin) = origin.filter(|origin| self.is_permitted(origin)) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(readable));
        }
        if !self.is_empty() {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
    }

    /// Answers the question of a browser whether a page may send a request with these methods and header fields. No
    /// login is needed, because browsers send none.
    #[must_use]
    pub fn preflight(
        &self,
        origin: Option<&HeaderValue>,
        methods: &'static str,
        fields: &'static str,
    ) -> Response<Body> {
        let mut response = StatusCode::NO_CONTENT.into_response();
        if origin.is_some_and(|origin| self.is_permitted(origin)) {
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(fields));
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECONDS));
        }
        response
    }

    fn is_permitted(&self, origin: &HeaderValue) -> bool {
        self.permitted.iter().any(|permitted| permitted.as_bytes() == origin.as_bytes())
    }
}

/// Returns `true` if an origin is that of the server, as the request names it.
fn is_own(origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let origin = origin.to_str().unwrap_or_default();
    let name = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    name.is_some_and(|name| !name.is_empty() && name.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fields: &[(&'static str, &'static str)], expected: Sender) {
        let origins = Origins::new(vec!["https://app.acme.test".to_owned()]);
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("mail.acme.test:8443"));
        for (name, value) in fields {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        assert_eq!(origins.sender(&headers), expected, "{fields:?}");
    }

    #[test]
    fn senders_are_told_apart() {
        check(&[], Sender::Program);
        check(&[("origin", "https://mail.acme.test:8443")], Sender::SameOrigin);
        check(&[("origin", "https://mail.acme.test")], Sender::Foreign);
        check(&[("origin", "null")], Sender::Foreign);
        check(&[("origin", "https://")], Sender::Foreign);
        check(&[("origin", "https://app.acme.test")], Sender::Permitted);
        check(&[("origin", "https://app.acme.test.evil.test")], Sender::Foreign);
        check(&[("sec-fetch-site", "same-origin"), ("origin", "https://mail.acme.test:8443")], Sender::SameOrigin);
        check(&[("sec-fetch-site", "none")], Sender::SameOrigin);
        check(&[("sec-fetch-site", "cross-site")], Sender::Foreign);
        check(&[("sec-fetch-site", "same-site")], Sender::Foreign);
        check(&[("sec-fetch-site", "cross-site"), ("origin", "https://app.acme.test")], Sender::Permitted);
    }

    #[test]
    fn only_permitted_pages_may_read() {
        let origins = Origins::new(vec!["https://app.acme.test".to_owned()]);
        let permitted = HeaderValue::from_static("https://app.acme.test");
        let foreign = HeaderValue::from_static("https://evil.test");
        let answered = |origin: Option<&HeaderValue>| {
            let mut headers = HeaderMap::new();
            origins.permit_answer(origin, "etag", &mut headers);
            let preflight = origins.preflight(origin, "GET", "content-type");
            let is_sendable = preflight.headers().contains_key(header::ACCESS_CONTROL_ALLOW_METHODS);
            (headers.get(header::ACCESS_CONTROL_ALLOW_ORIGIN).cloned(), is_sendable)
        };
        assert_eq!(answered(Some(&permitted)), (Some(permitted.clone()), true));
        assert_eq!(answered(Some(&foreign)), (None, false));
        assert_eq!(answered(None), (None, false));
    }
}
