//! The errors of this crate, and the answers of the protocol to them.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http::Refusal;
use sasl::LoginError;
use serde_json::json;

/// The result of a request.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a request fails. The texts are for the client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is not valid.
    #[error("{0}")]
    BadRequest(String),
    /// The request needs a login, or the login failed.
    #[error("{0}")]
    Unauthorized(String),
    /// The caller lacks a right, or the document is not permitted.
    #[error("{0}")]
    Forbidden(String),
    /// The database, document, revision or attachment does not exist, or is hidden.
    #[error("{0}")]
    NotFound(&'static str),
    /// The document has another revision.
    #[error("Document update conflict.")]
    Conflict,
    /// The database exists.
    #[error("The database could not be created, the file already exists.")]
    Exists,
    /// A document refers to an attachment that the server does not have.
    #[error("{0}")]
    MissingStub(String),
    /// The request is too large.
    #[error("{0}")]
    TooLarge(String),
    /// The body has a form that is not supported.
    #[error("{0}")]
    UnsupportedMedia(String),
    /// The method is not supported.
    #[error("{0}")]
    NotSupported(&'static str),
    /// Too many requests.
    #[error("{0}")]
    Exhausted(&'static str),
    /// The server cannot work on the request. What happened is logged.
    #[error("the server cannot answer now, try again later")]
    Unavailable,
}

impl Error {
    /// Returns the status and the word by which clients tell errors apart.
    #[must_use]
    pub fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            Self::BadRequest(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            Self::Unauthorized(_) => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            Self::Conflict => (StatusCode::CONFLICT, "conflict"),
            Self::Exists => (StatusCode::PRECONDITION_FAILED, "file_exists"),
            Self::MissingStub(_) => (StatusCode::PRECONDITION_FAILED, "missing_stub"),
            Self::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Self::UnsupportedMedia(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_content_type"),
            Self::NotSupported(_) => (StatusCode::NOT_IMPLEMENTED, "not_implemented"),
            Self::Exhausted(_) => (StatusCode::TOO_MANY_REQUESTS, "too_many_requests"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "service_unavailable"),
        }
    }
}

impl From<notes::Error> for Error {
    fn from(error: notes::Error) -> Self {
        match error {
            notes::Error::NotFound { .. } => Self::NotFound("missing"),
            notes::Error::AccessDenied { .. } | notes::Error::NotAuthor { .. } => Self::Forbidden(error.to_string()),
            notes::Error::Invalid { .. } | notes::Error::Limit { .. } => Self::Forbidden(error.to_string()),
            notes::Error::Conflict { .. } | notes::Error::OtherVersion { .. } | notes::Error::Exists { .. } => {
                Self::Conflict
            }
            error => {
                tracing::error!(target: "couchdb", %error, "a request failed");
                Self::Unavailable
            }
        }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        notes::Error::from(error).into()
    }
}

impl From<LoginError> for Error {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Throttled => Self::Exhausted("too many failed logins, try again later"),
            LoginError::Unavailable => Self::Unavailable,
            _ => Self::Unauthorized("Name or password is incorrect.".to_owned()),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Missing => Self::Unauthorized("You are not authorized to access this db.".to_owned()),
            Refusal::Login(error) => error.into(),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, word) = self.kind();
        let body = json!({ "error": word, "reason": self.to_string() }).to_string();
        let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        if matches!(self, Self::Unauthorized(_)) {
            // A name other than `Basic` keeps browsers from asking people for a password.
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"doublet\""));
        }
        response
    }
}
