//! Files that are compiled into the program and never change: a style sheet, for example.
//!
//! A file is compressed once, as well as possible, and not for each answer. Its name has a hash of its bytes
//! ([`content_hash`]), so browsers keep it for a year without asking again. The same hash is its tag.

use std::io::{self, Read as _};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use flate2::read::GzEncoder;

use crate::content::{Content, answer_with, slice_of};

/// Returns the hash of a file (FNV-1a), which is computed when the program is compiled. It distinguishes versions of a
/// file, and protects nothing.
#[must_use]
pub const fn content_hash(content: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut index = 0;
    while index < content.len() {
        hash = (hash ^ content[index] as u64).wrapping_mul(0x0100_0000_01b3);
        index += 1;
    }
    hash
}

/// A file with its compressed forms.
#[derive(Debug)]
pub struct StaticFile {
    media_type: &'static str,
    tag: String,
    content: Bytes,
    /// The compressed forms that are smaller than the content, the best one first.
    encoded: Vec<(&'static str, Bytes)>,
}

impl StaticFile {
    /// Compresses a file.
    #[must_use]
    pub fn new(content: &'static [u8], media_type: &'static str) -> Self {
        let forms = [("br", brotli(content)), ("gzip", gzip(content))];
        let forms = forms.into_iter().filter_map(|(coding, bytes)| Some((coding, bytes.ok()?)));
        let encoded = forms.filter(|(_, bytes)| bytes.len() < content.len()).collect();
        let tag = format!("\"{:016x}\"", content_hash(content));
        Self { media_type, tag, content: Bytes::from_static(content), encoded }
    }

    /// Returns the answer to a request, in the best coding that the client accepts.
    #[must_use]
    pub fn answer(&self, request: &HeaderMap) -> Response<Body> {
        let is_part = request.contains_key(header::RANGE);
        let chosen = self.encoded.iter().find(|(coding, _)| !is_part && accepts(request, coding));
        let bytes = chosen.map_or(&self.content, |(_, bytes)| bytes).clone();
        let content = Content { length: bytes.len() as u64, media_type: self.media_type, tag: &self.tag };
        let mut response = answer_with(request, content, |part| Body::from(slice_of(&bytes, part)));
        let status = response.status();
        let fields = response.headers_mut();
        if status != StatusCode::RANGE_NOT_SATISFIABLE {
            let immutable = HeaderValue::from_static("public, max-age=31536000, immutable");
            fields.insert(header::CACHE_CONTROL, immutable);
        }
        fields.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if let Some((coding, _)) = chosen.filter(|_| status == StatusCode::OK) {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        response
    }
}

/// Returns `true` if a client names a coding and does not exclude it (RFC 9110 §12.5.3).
fn accepts(request: &HeaderMap, coding: &str) -> bool {
    let fields = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    fields.flat_map(|field| field.split(',')).any(|accepted| {
        let (name, weight) = accepted.split_once(';').unwrap_or((accepted, ""));
        let is_excluded = weight.trim().strip_prefix("q=").is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0));
        name.trim().eq_ignore_ascii_case(coding) && !is_excluded
    })
}

fn gzip(content: &[u8]) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    GzEncoder::new(content, flate2::Compression::best()).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

fn brotli(content: &[u8]) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    brotli::BrotliCompress(&mut &*content, &mut bytes, &brotli::enc::BrotliEncoderParams::default())?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: &[u8] = &[b'a'; 2_000];

    #[track_caller]
    fn check(fields: &[(header::HeaderName, &'static str)], status: u16, coding: Option<&str>) -> Response<Body> {
        let mut request = HeaderMap::new();
        for (name, value) in fields {
            request.insert(name, HeaderValue::from_static(value));
        }
        let response = StaticFile::new(CONTENT, "text/css").answer(&request);
        assert_eq!(response.status().as_u16(), status, "{fields:?}");
        let found = response.headers().get(header::CONTENT_ENCODING).map(|value| value.to_str().expect("ASCII"));
        assert_eq!(found, coding, "{fields:?}");
        assert_eq!(response.headers()[header::VARY], "accept-encoding");
        response
    }

    #[test]
    fn the_best_accepted_coding_is_chosen() {
        check(&[], 200, None);
        check(&[(header::ACCEPT_ENCODING, "gzip, deflate, br, zstd")], 200, Some("br"));
        check(&[(header::ACCEPT_ENCODING, "br;q=0, GZIP ; q=0.5")], 200, Some("gzip"));
        check(&[(header::ACCEPT_ENCODING, "zstd, identity")], 200, None);
        check(&[(header::ACCEPT_ENCODING, "gzip;q=0.0")], 200, None);
    }

    #[test]
    fn the_tag_is_the_hash_of_the_content() {
        // Test vectors of the authors of FNV.
        assert_eq!(content_hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(content_hash(b"foobar"), 0x8594_4171_f739_67e8);
        let response = StaticFile::new(b"foobar", "text/css").answer(&HeaderMap::new());
        assert_eq!(response.headers()[header::ETAG], "\"85944171f73967e8\"");
    }

    #[test]
    fn parts_are_those_of_the_file_itself() {
        let part = check(&[(header::ACCEPT_ENCODING, "br"), (header::RANGE, "bytes=0-9")], 206, None);
        assert_eq!(part.headers()[header::CONTENT_RANGE], "bytes 0-9/2000");
    }

    #[test]
    fn a_file_that_the_client_has_is_not_sent_again() {
        let tag = check(&[], 200, None).headers()[header::ETAG].to_str().expect("ASCII").to_owned();
        let known: &'static str = format!("W/{tag}").leak();
        check(&[(header::ACCEPT_ENCODING, "br"), (header::IF_NONE_MATCH, known)], 304, None);
    }

    #[test]
    fn compressed_forms_contain_the_file() {
        let file = StaticFile::new(CONTENT, "text/css");
        for (coding, bytes) in &file.encoded {
            let mut content = Vec::new();
            match *coding {
                "gzip" => {
                    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut content).expect("gzip");
                }
                _ => brotli::BrotliDecompress(&mut &bytes[..], &mut content).expect("brotli"),
            }
            assert!(content == CONTENT && bytes.len() < 100, "{coding}: {} bytes", bytes.len());
        }
    }
}
