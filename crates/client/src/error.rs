//! What can go wrong at a client.

use std::io;

use proto::v1::error_detail::{Detail, FormulaPlace};
use tonic::Status;

/// Why something did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server cannot be reached.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The server.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The server did not prove who it is, or speaks something else.
    #[error("{address} is not trusted or does not speak this protocol: {why}")]
    Tls {
        /// The server.
        address: String,
        /// What is wrong.
        why: String,
    },
    /// The certificates to trust cannot be used.
    #[error("the certificates to trust cannot be used: {0}")]
    Trust(String),
    /// The server says no.
    #[error("{}", .0.message())]
    Call(Box<Status>),
    /// The server breaks the rules of a login.
    #[error("the server breaks the rules of the login: {0}")]
    Login(&'static str),
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Call(Box::new(status))
    }
}

/// Gives where a formula or a query is wrong, when that is why a call failed.
#[must_use]
pub fn formula_place(status: &Status) -> Option<FormulaPlace> {
    match proto::details::detail(status)?.detail? {
        Detail::Formula(place) => Some(place),
        _ => None,
    }
}

/// Gives the word that names why a call failed; empty where the server gave none.
#[must_use]
pub fn reason(status: &Status) -> String {
    proto::details::detail(status).map(|detail| detail.reason).unwrap_or_default()
}
