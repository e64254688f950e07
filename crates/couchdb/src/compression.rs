//! Compressed bodies (gzip, RFC 1952): requests and contents of attachments that clients send, and answers to clients
//! that accept them.
//!
//! Limits count the decompressed bytes, while they are decompressed. A decompressed body takes memory of the same
//! budget as one that was sent as it is.

use std::io::{self, Read as _, Write as _};
use std::pin::Pin;

use axum::body::Body;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use futures_util::{Stream, StreamExt as _};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use crate::error::{Error, Result};
use crate::limits::{COMPRESSED_ANSWER_BYTES_MIN, DECOMPRESSED_CONTENT_BYTES_MAX};

/// Size in bytes of the pieces in which bodies are compressed and decompressed.
const PIECE_BYTES: usize = 64 << 10;

/// Decompresses a body of at most `bytes_max` bytes. `hold` is called with the number of bytes before each piece is
/// kept. Returns `None` if the body is not valid gzip.
pub(crate) fn gunzip(
    body: &[u8],
    bytes_max: usize,
    hold: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Option<Vec<u8>>> {
    let mut decoder = MultiGzDecoder::new(body);
    let mut out = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = match decoder.read(&mut piece) {
            Ok(0) => return Ok(Some(out)),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Ok(None),
        };
        if out.len() + count > bytes_max {
            return Err(Error::TooLarge(format!("it has more than {bytes_max} bytes when it is decompressed")));
        }
        hold(count)?;
        out.extend_from_slice(&piece[..count]);
    }
}

/// Decompresses the contents of attachments of one request, within limits of the request.
pub struct AttachmentDecompressor<'h> {
    bytes_left: usize,
    hold: &'h mut dyn FnMut(usize) -> Result<()>,
}

impl<'h> AttachmentDecompressor<'h> {
    /// Creates the decompressor of a request. `hold` is called with the number of bytes before each piece is kept.
    pub fn new(hold: &'h mut dyn FnMut(usize) -> Result<()>) -> Self {
        Self { bytes_left: DECOMPRESSED_CONTENT_BYTES_MAX, hold }
    }

    pub(crate) fn decompress(&mut self, content: &[u8]) -> Result<Vec<u8>> {
        let invalid = || Error::BadRequest("an attachment that is compressed is not valid gzip".to_owned());
        let out = gunzip(content, self.bytes_left, self.hold)?.ok_or_else(invalid)?;
        self.bytes_left -= out.len();
        Ok(out)
    }
}

/// Returns `true` if a client accepts compressed answers (RFC 9110, section 12.5.3).
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut codings = fields.flat_map(|field| field.split(',')).map(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        (name, weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|weight| weight > 0.0)))
    });
    codings.any(|(name, is_accepted)| is_accepted && name.eq_ignore_ascii_case("gzip"))
}

/// Compresses an answer, if that is worth it. Each piece of the answer is sent when it is there, so an answer that
/// waits for changes arrives as it would otherwise.
pub(crate) fn compressed(mut response: Response<Body>) -> Response<Body> {
    if !is_compressible(&response) {
        return response;
    }
    let body = std::mem::take(response.body_mut());
    let state = Compressing { pieces: body.into_data_stream().boxed(), encoder: Some(new_encoder()) };
    let stream = futures_util::stream::unfold(state, |mut state| async move {
        let next = state.next().await?;
        Some((next, state))
    });
    *response.body_mut() = Body::from_stream(stream);
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    // The compressed bytes are not those that the tag names.
    let tag = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(|tag| format!("W/{tag}"));
    if let Some(tag) = tag.and_then(|tag| HeaderValue::from_str(&tag).ok()) {
        headers.insert(header::ETAG, tag);
    }
    response
}

fn is_compressible(response: &Response<Body>) -> bool {
    let headers = response.headers();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length = length.and_then(|length| length.parse().ok()).or(http_body::Body::size_hint(response.body()).exact());
    response.status() != StatusCode::NOT_MODIFIED
        && kind.starts_with("application/json")
        && !headers.contains_key(header::CONTENT_ENCODING)
        && length.is_none_or(|length: u64| length >= COMPRESSED_ANSWER_BYTES_MIN)
}

fn new_encoder() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::fast())
}

/// An answer that is being compressed.
struct Compressing {
    pieces: Pin<Box<dyn Stream<Item = std::result::Result<Bytes, axum::Error>> + Send>>,
    /// `None` behind the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Compressing {
    /// Returns the next compressed piece, or `None` behind the last one.
    async fn next(&mut self) -> Option<std::result::Result<Bytes, axum::Error>> {
        let encoder = self.encoder.as_mut()?;
        match self.pieces.next().await {
            Some(Ok(piece)) => {
                for part in piece.chunks(PIECE_BYTES) {
                    if let Err(error) = encoder.write_all(part) {
                        return Some(Err(axum::Error::new(error)));
                    }
                    // Compression takes time that other connections need, too.
                    tokio::task::yield_now().await;
                }
                let flushed = encoder.flush().map(|()| std::mem::take(encoder.get_mut()));
                Some(flushed.map(Bytes::from).map_err(axum::Error::new))
            }
            Some(Err(error)) => {
                self.encoder = None;
                Some(Err(error))
            }
            None => {
                let finished = self.encoder.take()?.finish();
                Some(finished.map(Bytes::from).map_err(axum::Error::new))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = new_encoder();
        encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory takes it")
    }

    #[test]
    fn bodies_are_decompressed_within_their_limit() {
        let text = vec![b'x'; 300_000];
        let body = gzip(&text);
        let mut held = 0;
        let mut hold = |count| {
            held += count;
            Ok(())
        };
        assert_eq!(gunzip(&body, text.len(), &mut hold).expect("within the limit"), Some(text.clone()));
        assert_eq!(held, text.len());
        assert!(matches!(gunzip(&body, text.len() - 1, &mut |_| Ok(())), Err(Error::TooLarge(_))));
        assert_eq!(gunzip(&body[..body.len() - 9], text.len(), &mut |_| Ok(())).expect("small"), None, "not whole");
        assert_eq!(gunzip(b"{}", 10, &mut |_| Ok(())).expect("small"), None, "no gzip");
    }

    #[test]
    fn clients_say_what_they_accept() {
        let check = |value: &'static str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(is_accepted(&headers), expected, "{value}");
        };
        check("gzip", true);
        check("br, GZIP;q=0.5", true);
        check("gzip;q=0", false);
        check("gzip; q=0.000, br", false);
        check("identity", false);
        assert!(!is_accepted(&HeaderMap::new()));
    }
}
