//! The header fields of all answers that protect browsers. A protocol may set them itself; then its values stay.
//!
//! The default permits nothing: an answer that is a page has to say what it loads (Content Security Policy).

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use wire::Peer;

/// The Content Security Policy of answers that are not pages.
pub const POLICY_OF_DATA: &str = "default-src 'none'; frame-ancestors 'none'";

/// Field names that `axum::http` has no constant for.
const CROSS_ORIGIN_OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const DNS_PREFETCH_CONTROL: HeaderName = HeaderName::from_static("x-dns-prefetch-control");
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");

/// What pages of this server may do with the devices of their user: nothing.
const PERMISSIONS: &str = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()";

/// The fields of every answer, unless it has them.
const FIELDS: [(HeaderName, &str); 8] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CONTENT_SECURITY_POLICY, POLICY_OF_DATA),
    (CROSS_ORIGIN_OPENER_POLICY, "same-origin"),
    (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
    (PERMISSIONS_POLICY, PERMISSIONS),
    // Otherwise browsers look up the hosts of all links of a page without TLS before anybody follows one. The owner of
    // a name that is in one message only would learn that the message was opened.
    (DNS_PREFETCH_CONTROL, "off"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Strict Transport Security (RFC 6797): one year.
const STRICT_TRANSPORT: &str = "max-age=31536000";

/// Adds the fields to an answer for a peer.
pub(crate) fn protect(peer: &Peer, headers: &mut HeaderMap) {
    for (name, value) in FIELDS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    // On this machine, the server is used over http, too: a browser that has learned better could not.
    if peer.tls && !peer.loopback {
        headers.entry(header::STRICT_TRANSPORT_SECURITY).or_insert(HeaderValue::from_static(STRICT_TRANSPORT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_protocol_stay_and_others_are_added() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("must-revalidate"));
        let remote = Peer::network("192.0.2.1:5".parse().expect("an address"));
        protect(&remote.encrypted(), &mut headers);
        assert_eq!(headers[header::CACHE_CONTROL], "must-revalidate");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[header::STRICT_TRANSPORT_SECURITY], STRICT_TRANSPORT);
        let mut headers = HeaderMap::new();
        protect(&Peer::local().encrypted(), &mut headers);
        assert!(!headers.contains_key(header::STRICT_TRANSPORT_SECURITY));
        assert_eq!(headers.len(), FIELDS.len());
    }
}
