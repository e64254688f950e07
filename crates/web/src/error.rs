//! Errors of the lite web mail, as pages that say what happened and what to do next.
//!
//! The variants are sorted by who must act: the person, the operator, or nobody but time. What belongs to somebody else
//! does not exist for the person.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::answer;
use crate::backend::BackendError;
use crate::layout::Layout;

/// The result of a request.
pub type Result<T> = std::result::Result<T, Error>;

/// Reason why a request was not executed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Nobody is logged in, or the session has ended. The browser is sent to the login page.
    #[error("nobody is logged in")]
    NotLoggedIn,
    /// The form came from a page of another origin.
    #[error("the form came from another site")]
    ForeignOrigin,
    /// The form has no token of this session.
    #[error("the form does not belong to this session")]
    StaleForm,
    /// The named object does not exist, or belongs to somebody else.
    #[error("{0} does not exist")]
    NotFound(&'static str),
    /// The person entered something that is not possible.
    #[error("{0}")]
    Invalid(String),
    /// The ACL of the mail file forbids it.
    #[error("the access control list of the mail file does not permit this")]
    Denied,
    /// A body is too large.
    #[error("{0}")]
    TooLarge(String),
    /// The account has too many requests at a time.
    #[error("too many requests at a time")]
    TooManyRequests,
    /// The quota of the mail file is reached.
    #[error("the mail file has reached its quota")]
    OverQuota,
    /// The body of the request did not arrive.
    #[error("the request did not arrive whole")]
    Incomplete,
    /// The mail file of the person is not here.
    #[error(transparent)]
    MailFile(BackendError),
    /// The server cannot answer at present. It has logged why.
    #[error("the server cannot answer now")]
    Unavailable,
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    layout: Layout,
    what: String,
    next: &'static str,
    link: (&'static str, &'static str),
}

impl Error {
    /// Returns the status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NotLoggedIn => StatusCode::SEE_OTHER,
            Self::ForeignOrigin | Self::StaleForm | Self::Denied => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Invalid(_) | Self::Incomplete => StatusCode::BAD_REQUEST,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            Self::OverQuota => StatusCode::INSUFFICIENT_STORAGE,
            Self::MailFile(BackendError::NoMailFile | BackendError::MailFileElsewhere) => StatusCode::FORBIDDEN,
            Self::MailFile(BackendError::Unavailable) | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns what to do next.
    fn next(&self) -> &'static str {
        match self {
            Self::NotLoggedIn => "Log in.",
            Self::ForeignOrigin => "Open the web mail itself and use the form there.",
            Self::StaleForm => {
                "Perhaps you have logged in again since. Go back, reload the page and send the form again."
            }
            Self::NotFound(_) => "It may have been moved or deleted. Open the folder again.",
            Self::Invalid(_) => "Go back, correct it and send the form again.",
            Self::Denied => "A manager of the mail file can permit it.",
            Self::TooLarge(_) => "Send less, for example fewer or smaller attachments.",
            Self::TooManyRequests => "Wait until the others are answered.",
            Self::OverQuota => "Delete messages and empty the trash.",
            Self::Incomplete => "Go back and send it again.",
            Self::MailFile(BackendError::NoMailFile) => "Ask your administrator for a mail file.",
            Self::MailFile(BackendError::MailFileElsewhere) => "Log in at your mail server.",
            Self::MailFile(BackendError::Unavailable) | Self::Unavailable => "Try again in a minute.",
        }
    }

    fn title(&self) -> &'static str {
        match self {
            Self::NotLoggedIn => "Log in",
            Self::ForeignOrigin | Self::StaleForm => "The form was not accepted",
            Self::NotFound(_) => "Not found",
            Self::Invalid(_) | Self::Incomplete => "This did not work",
            Self::Denied => "Not permitted",
            Self::TooLarge(_) => "Too large",
            Self::TooManyRequests => "Too many requests",
            Self::OverQuota => "The mail file is full",
            Self::MailFile(_) => "No mail file",
            Self::Unavailable => "Not available now",
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        if matches!(self, Self::NotLoggedIn) {
            return answer::redirect("/lite/login");
        }
        let what = sentence(&self.to_string());
        let layout = Layout::public(self.title());
        let page = ErrorPage { layout, what, next: self.next(), link: ("/lite/", "To the inbox") };
        answer::page(self.status(), &page)
    }
}

/// Returns a text with a capital letter at its beginning and a full stop at its end.
pub(crate) fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first: String = characters.next().into_iter().flat_map(char::to_uppercase).collect();
    let rest = characters.as_str();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{rest}{end}")
}

impl From<mail::Error> for Error {
    fn from(error: mail::Error) -> Self {
        match error {
            mail::Error::NoMailbox(_) => Self::NotFound("the folder"),
            mail::Error::MailboxExists(_) => Self::Invalid("a folder with this name exists already".to_owned()),
            mail::Error::MailboxRefused { reason, .. } => Self::Invalid(reason.to_owned()),
            mail::Error::OverQuota { .. } => Self::OverQuota,
            mail::Error::TooLarge { .. } => Self::TooLarge(error.to_string()),
            mail::Error::AlreadyNotified => Self::Invalid(error.to_string()),
            mail::Error::NotifiedMessageGone => Self::NotFound("the message"),
            mail::Error::Notes(error) => error.into(),
            mail::Error::Damaged(_) => {
                tracing::error!(target: "web", %error, "a message cannot be read");
                Self::Unavailable
            }
            mail::Error::Unavailable(_) => Self::Unavailable,
        }
    }
}

impl From<notes::Error> for Error {
    fn from(error: notes::Error) -> Self {
        match error {
            notes::Error::AccessDenied { .. } | notes::Error::NotAuthor { .. } | notes::Error::ServerOnly { .. } => {
                Self::Denied
            }
            notes::Error::NotFound { .. } => Self::NotFound("the message or folder"),
            notes::Error::Limit { .. } | notes::Error::Invalid { .. } => Self::Invalid(error.to_string()),
            error => {
                tracing::error!(target: "web", %error, "a request failed");
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

impl From<BackendError> for Error {
    fn from(error: BackendError) -> Self {
        Self::MailFile(error)
    }
}
