//! Messages as lines of base64, as IMAP, POP3 and SMTP exchange them (RFC 3501 §6.2.2, RFC 5034 §4, RFC 4954 §4).
//!
//! Lines come without their line end. Base64 is that of RFC 4648 §4: the padding is required, and no other characters
//! are allowed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::LoginError;
use crate::limits::{LINE_BYTES_MAX, RESPONSE_BYTES_MAX};

/// The line by which a client cancels an exchange.
const CANCEL: &[u8] = b"*";

/// The initial response that stands for an empty one, so that it differs from none.
const EMPTY_INITIAL_RESPONSE: &[u8] = b"=";

/// Decodes a line that answers a challenge. An empty line is an empty response.
///
/// Returns [`LoginError::Cancelled`] for `*`, [`LoginError::TooLong`] for a line or response that is too long, and
/// [`LoginError::NotBase64`] for other lines that are not base64.
pub fn decode_line(line: &[u8]) -> Result<Vec<u8>, LoginError> {
    if line == CANCEL {
        return Err(LoginError::Cancelled);
    }
    if line.len() > LINE_BYTES_MAX {
        return Err(LoginError::TooLong);
    }
    let response = STANDARD.decode(line).map_err(|_| LoginError::NotBase64)?;
    if response.len() > RESPONSE_BYTES_MAX { Err(LoginError::TooLong) } else { Ok(response) }
}

/// Decodes an initial response, which was sent with the command. `=` is an empty response (RFC 4422 §4).
///
/// Returns the errors of [`decode_line`], except that `*` is not base64 here, and neither is an empty text: without a
/// text there is no initial response.
pub fn decode_initial_response(text: &[u8]) -> Result<Vec<u8>, LoginError> {
    match text {
        EMPTY_INITIAL_RESPONSE => Ok(Vec::new()),
        b"" | CANCEL => Err(LoginError::NotBase64),
        text => decode_line(text),
    }
}

/// Encodes a challenge. An empty challenge is an empty text.
#[must_use]
pub fn encode_line(challenge: &[u8]) -> String {
    STANDARD.encode(challenge)
}

#[cfg(test)]
mod tests;
