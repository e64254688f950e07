//! Errors of the client.

use std::io;

use proto::v1::error_detail::{Detail, FormulaPlace};
use tonic::Status;

/// Error of a connection, a login or a call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server cannot be reached.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Address of the server.
        address: String,
        /// Error reported by the operating system.
        source: io::Error,
    },
    /// The server did not prove its identity, or does not speak this protocol.
    #[error("cannot establish a trusted TLS connection to {address}: {reason}")]
    Tls {
        /// Address of the server.
        address: String,
        /// Description of the error.
        reason: String,
    },
    /// The certificates to trust cannot be used.
    #[error("the trusted certificates cannot be used: {0}")]
    Trust(String),
    /// The server rejected a call.
    #[error("{}", .0.message())]
    Call(Box<Status>),
    /// The server violated the login protocol.
    #[error("login protocol error: {0}")]
    Login(&'static str),
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Call(Box::new(status))
    }
}

/// Returns the position of the error in a formula or query, if this is why a call failed.
#[must_use]
pub fn formula_place(status: &Status) -> Option<FormulaPlace> {
    match proto::details::detail(status)?.detail? {
        Detail::Formula(place) => Some(place),
        _ => None,
    }
}

/// Returns the reason code of a failed call, or an empty text if the server gave none.
#[must_use]
pub fn reason(status: &Status) -> String {
    proto::details::detail(status).map(|detail| detail.reason).unwrap_or_default()
}
