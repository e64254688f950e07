//! Compressed bodies (gzip, RFC 1952): requests, and contents of attachments that clients send. The crate `http`
//! compresses answers.
//!
//! Limits count the decompressed bytes, while they are decompressed. A decompressed body takes memory of the same
//! budget as one that was sent as it is.

use std::io::{self, Read as _};

use flate2::read::MultiGzDecoder;

use crate::error::{Error, Result};
use crate::limits::DECOMPRESSED_CONTENT_BYTES_MAX;

/// Size in bytes of the pieces in which bodies are decompressed.
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
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
}
