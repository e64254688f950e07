//! Answers whose content has a known length: validation with tags (RFC 9110 §13) and ranges (§14).
//!
//! The content itself may be made when it is sent, so that neither all of it is in memory nor a part that nobody wants.

use std::ops::Range;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use http_range_header::parse_range_header;

use crate::limits::FILE_NAME_CHARACTERS_MAX;

/// The Content Security Policy of downloads: no script, no frame, no form, even if a browser shows one as a page.
pub const POLICY_OF_DOWNLOADS: &str = "sandbox; default-src 'none'; frame-ancestors 'none'";

/// How a browser treats a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presentation {
    /// It is saved.
    Attachment,
    /// It is shown.
    Inline,
}

/// Returns the value of `Content-Disposition` (RFC 6266). The name of the file is in it once in ASCII, and once in
/// UTF-8 if it needs it; no name can leave its parameter.
#[must_use]
pub fn content_disposition(presentation: Presentation, name: &str) -> HeaderValue {
    let kind = match presentation {
        Presentation::Attachment => "attachment",
        Presentation::Inline => "inline",
    };
    let value = HeaderValue::from_str(&format!("{kind}; {}", file_name_parameters(name)));
    value.unwrap_or(HeaderValue::from_static("attachment"))
}

fn file_name_parameters(name: &str) -> String {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(FILE_NAME_CHARACTERS_MAX).collect();
    let name = if shown.trim().is_empty() { "download" } else { shown.as_str() };
    let is_safe = |c: char| c.is_ascii_alphanumeric() || " !#$&+-.^_`()[]{}~@,='".contains(c);
    let plain: String = name.chars().map(|c| if is_safe(c) { c } else { '_' }).collect();
    if plain == name {
        return format!("filename=\"{plain}\"");
    }
    let encoded = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
    format!("filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

/// The content of an answer.
#[derive(Debug, Clone)]
pub struct Content<'c> {
    /// The number of bytes.
    pub length: u64,
    /// The media type.
    pub media_type: &'c str,
    /// The tag of the bytes, with quotes. It changes whenever they do.
    pub tag: &'c str,
}

/// Returns the answer to a request for a content: all of it, a part of it, or that the client has it. `body` makes the
/// body with a range of the bytes. It is not called if none are sent.
///
/// A request for several ranges gets the whole content, which RFC 9110 permits.
#[must_use]
pub fn answer_with(request: &HeaderMap, content: Content<'_>, body: impl FnOnce(Range<u64>) -> Body) -> Response<Body> {
    let Content { length, media_type, tag } = content;
    let mut response = if is_known(request, tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        match requested_range(request, tag, length) {
            Requested::Whole => ([(header::CONTENT_LENGTH, length)], body(0..length)).into_response(),
            Requested::Part { first, last } => {
                let range = format!("bytes {first}-{last}/{length}");
                let end = last.saturating_add(1).min(length);
                let sent = end.saturating_sub(first);
                let fields = [(header::CONTENT_RANGE, range), (header::CONTENT_LENGTH, sent.to_string())];
                (StatusCode::PARTIAL_CONTENT, fields, body(first..end)).into_response()
            }
            Requested::Unsatisfiable => {
                (StatusCode::RANGE_NOT_SATISFIABLE, [(header::CONTENT_RANGE, format!("bytes */{length}"))])
                    .into_response()
            }
        }
    };
    let fields = response.headers_mut();
    let media_type = HeaderValue::from_str(media_type);
    fields.insert(header::CONTENT_TYPE, media_type.unwrap_or(HeaderValue::from_static("application/octet-stream")));
    fields.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Ok(tag) = HeaderValue::from_str(tag) {
        fields.insert(header::ETAG, tag);
    }
    response
}

/// Returns the bytes of a content in memory that lie within a range.
#[must_use]
pub fn slice_of(content: &Bytes, range: Range<u64>) -> Bytes {
    let position = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
    let end = position(range.end);
    content.slice(position(range.start).min(end)..end)
}

/// The part of a content that a request names.
enum Requested {
    Whole,
    Part { first: u64, last: u64 },
    Unsatisfiable,
}

fn requested_range(request: &HeaderMap, tag: &str, length: u64) -> Requested {
    let text = |name| request.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let Some(wanted) = text(header::RANGE) else { return Requested::Whole };
    // A part of another version would be added to what the client has of this one.
    if text(header::IF_RANGE).is_some_and(|known| known != tag) {
        return Requested::Whole;
    }
    // A field that is not valid is ignored (RFC 9110 §14.2).
    let Ok(parsed) = parse_range_header(wanted) else { return Requested::Whole };
    match parsed.validate(length) {
        Ok(ranges) => match ranges.as_slice() {
            [one] => Requested::Part { first: *one.start(), last: *one.end() },
            _ => Requested::Whole,
        },
        Err(_) => Requested::Unsatisfiable,
    }
}

/// Returns `true` if a client has the content with this tag.
fn is_known(request: &HeaderMap, tag: &str) -> bool {
    let fields = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = fields.flat_map(|field| field.split(',')).map(str::trim);
    // A compressed answer had a weak tag.
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_lie_within_the_content() {
        let content = Bytes::from_static(b"0123456789");
        let check = |range: Range<u64>, expected: &str| assert_eq!(slice_of(&content, range), expected);
        check(0..10, "0123456789");
        check(2..5, "234");
        check(8..u64::MAX, "89");
        check(10..12, "");
        check(u64::MAX..u64::MAX, "");
        check(Range { start: 5, end: 2 }, "");
    }

    #[track_caller]
    fn check(fields: &[(header::HeaderName, &'static str)], status: u16, length: Option<&str>) {
        let sent = match (status, length) {
            (200, _) => Some(0..10),
            (206, Some("bytes 2-4/10")) => Some(2..5),
            (206, Some("bytes 7-9/10")) => Some(7..10),
            (206, _) => Some(8..10),
            _ => None,
        };
        let mut made = None;
        let mut request = HeaderMap::new();
        for (name, value) in fields {
            request.insert(name, HeaderValue::from_static(value));
        }
        let content = Content { length: 10, media_type: "text/plain", tag: "\"a\"" };
        let response = answer_with(&request, content, |range| {
            made = Some(range);
            Body::empty()
        });
        assert_eq!(made, sent, "{fields:?}: only what is sent is made");
        let declared = response.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        assert_eq!(declared, sent.map(|range| (range.end - range.start).to_string()).as_deref(), "{fields:?}");
        assert_eq!(response.status().as_u16(), status, "{fields:?}");
        let range = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
        assert_eq!(range, length, "{fields:?}");
        assert_eq!(response.headers()[header::ETAG], "\"a\"");
    }

    #[test]
    fn names_of_files_cannot_leave_their_parameter() {
        let check = |name: &str, expected: &str| assert_eq!(file_name_parameters(name), expected, "{name:?}");
        check("plan.pdf", "filename=\"plan.pdf\"");
        check("a\"; x=\"b", "filename=\"a__ x=_b\"; filename*=UTF-8''a%22%3B%20x%3D%22b");
        check("ü/..\r\n", "filename=\"__..\"; filename*=UTF-8''%C3%BC%2F%2E%2E");
        check("\r\n ", "filename=\"download\"");
    }

    #[test]
    fn parts_and_known_contents_are_answered() {
        check(&[], 200, None);
        check(&[(header::RANGE, "bytes=2-4")], 206, Some("bytes 2-4/10"));
        check(&[(header::RANGE, "bytes=-3")], 206, Some("bytes 7-9/10"));
        check(&[(header::RANGE, "bytes=8-100")], 206, Some("bytes 8-9/10"));
        check(&[(header::RANGE, "bytes=10-")], 416, Some("bytes */10"));
        check(&[(header::RANGE, "bytes=0-1,4-5")], 200, None);
        check(&[(header::RANGE, "lines=1")], 200, None);
        check(&[(header::RANGE, "bytes=2-4"), (header::IF_RANGE, "\"b\"")], 200, None);
        check(&[(header::RANGE, "bytes=2-4"), (header::IF_RANGE, "\"a\"")], 206, Some("bytes 2-4/10"));
        check(&[(header::IF_NONE_MATCH, "\"b\", W/\"a\"")], 304, None);
        check(&[(header::IF_NONE_MATCH, "\"b\"")], 200, None);
    }
}
