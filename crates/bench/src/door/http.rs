//! HTTP/1.1 and HTTP/2 over TLS, for the doors [`jmap`](super::jmap) and [`lite`](super::lite).
//!
//! A [`HttpClient`] belongs to one user. It has one connection, whose version is chosen in the handshake (ALPN), keeps
//! it open between requests, and opens it again if the server has closed it meanwhile. It keeps cookies and follows
//! redirections, as browsers do. [`origin`] is the server, [`connection`] moves requests and replies, [`cookies`] and
//! [`location`] are pure.
//!
//! A reply is foreign. Pages have at most [`PAGE_BYTES_MAX`], also after they are decompressed, downloads at most
//! [`DOWNLOAD_BYTES_MAX`], and there are at most [`REDIRECTIONS_MAX`] redirections, none of which leads to another
//! server. Replies are read whole or not at all: a connection whose reply was not read to its end is closed.

mod client;
mod connection;
pub(super) mod cookies;
pub(super) mod location;
pub mod origin;
#[cfg(test)]
pub(super) mod tests;

pub(super) use client::{HttpClient, HttpRequest};
pub(super) use connection::OpenStream;

use super::call::{CallError, MALFORMED_CODE};

/// Maximum length of a page or of an answer to a program.
pub(super) const PAGE_BYTES_MAX: usize = 8 << 20;
/// Maximum length of an attachment that is downloaded.
pub(super) const DOWNLOAD_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of redirections that follow one another.
pub(super) const REDIRECTIONS_MAX: u32 = 10;

/// Creates the error of a reply that cannot be read. What follows on the connection is understood nevertheless.
pub(super) fn malformed(text: impl Into<String>) -> CallError {
    CallError::kept(MALFORMED_CODE, text)
}

/// Creates the error of a reply with a status of 400 or more. Status 401 is the end of a login.
pub(super) fn status_error(status: u16, text: &str) -> CallError {
    let code = format!("http-{status}");
    if status == 401 { CallError::lost(code, text) } else { CallError::kept(code, text) }
}
