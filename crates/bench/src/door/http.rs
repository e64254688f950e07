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

use std::borrow::Cow;

pub(super) use client::{HttpClient, HttpRequest};
pub(super) use connection::OpenStream;

use super::{Session, StepError};

/// Maximum length of a page or of an answer to a program.
pub(super) const PAGE_BYTES_MAX: usize = 8 << 20;
/// Maximum length of an attachment that is downloaded.
pub(super) const DOWNLOAD_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of redirections that follow one another.
pub(super) const REDIRECTIONS_MAX: u32 = 10;
/// Maximum length of the text of an error that came from a server.
const ERROR_TEXT_MAX: usize = 1_000;

/// The code of a connection that cannot be opened.
const CONNECT_CODE: &str = "connect";
/// The code of a connection that broke during a call.
const CONNECTION_CODE: &str = "connection";
/// The code of a reply that is too long or cannot be read.
const MALFORMED_CODE: &str = "malformed";

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallError {
    code: Cow<'static, str>,
    text: String,
    session: Session,
}

impl CallError {
    /// Creates an error after which the user is still logged in.
    pub(super) fn kept(code: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self { code: code.into(), text: shortened(text.into()), session: Session::Kept }
    }

    /// Creates an error after which the user must log in again.
    pub(super) fn lost(code: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self { session: Session::Lost, ..Self::kept(code, text) }
    }

    /// Creates the error of a reply that cannot be read.
    pub(super) fn malformed(text: impl Into<String>) -> Self {
        Self::kept(MALFORMED_CODE, text)
    }

    /// Creates the error of a reply with a status of 400 or more. Status 401 is the end of a login.
    pub(super) fn of_status(status: u16, text: &str) -> Self {
        let code = format!("http-{status}");
        if status == 401 { Self::lost(code, text) } else { Self::kept(code, text) }
    }

    /// Returns the code under which the error is counted.
    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// Returns the same error, after which the user must log in again.
    pub(super) fn into_lost(self) -> Self {
        Self { session: Session::Lost, ..self }
    }

    /// Returns the error of a step that has made so many calls.
    pub(super) fn into_step_error(self, calls: u32) -> StepError {
        StepError { code: self.code, text: self.text, calls, session: self.session }
    }
}

/// Returns a text that is not longer than an error may be.
fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(ERROR_TEXT_MAX));
    text
}

/// The calls of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CallCount {
    /// Requests on the wire, those after redirections included.
    pub(super) calls: u32,
    /// Connections that were opened again.
    pub(super) reopened: u32,
}
