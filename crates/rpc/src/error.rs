//! Errors of calls: the gRPC status for the client, with a reason word that programs can act upon.
//!
//! Details of store errors are logged here and not sent to the client. Of a refusal, only the code and the reason word
//! are logged, because its message may repeat a formula, a query or an address of the request. The reason words are
//! listed in `docs/native-protocol.md`.

use formula::source::LineColumn;
use notes::AclLevel;
use proto::details;
use proto::v1::error_detail::{AccessDenied, Conflict, Detail, FormulaPlace, LimitExceeded, Purged, Retry};
use proto::v1::{AccessLevel, ErrorDetail};
use sasl::LoginError;
use search::QueryError;
use tonic::{Code, Status};

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a call fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation on a database failed.
    #[error(transparent)]
    Notes(#[from] notes::Error),
    /// An operation on the directory failed.
    #[error(transparent)]
    Directory(#[from] directory::Error),
    /// The login failed.
    #[error("login refused: {0}")]
    Login(LoginError),
    /// There is no session, or it has ended.
    #[error("no session: log in first")]
    NoSession,
    /// The certificate of the calling server has the name of this server.
    #[error("the certificate has the name of the server itself; use the certificate of another server, or log in")]
    OwnName,
    /// A deny list, or the document of this server, excludes the calling server.
    #[error("{0}")]
    ExcludedServer(String),
    /// The request is not valid.
    #[error("{0}")]
    Invalid(String),
    /// A formula or query is not valid.
    #[error("{text}")]
    Formula {
        /// The name of the formula.
        what: &'static str,
        /// The position of the error.
        position: LineColumn,
        /// The description for people.
        text: String,
    },
    /// A limit is exceeded.
    #[error("limit exceeded: at most {max} {what}")]
    Limit {
        /// The quantity that is limited.
        what: &'static str,
        /// The limit.
        max: u64,
    },
    /// A resource, such as memory or a quota, is used up.
    #[error("{0}")]
    Exhausted(&'static str),
    /// The named database does not exist, or the caller has no access to it. Both have the same answer.
    #[error("{0} does not exist, or you have no access to it")]
    NoDatabase(String),
    /// The caller is not permitted to create databases.
    #[error("you are not permitted to create databases here; the operator can permit it (`native.database_creators`)")]
    NoMaker,
    /// The database has no full-text index.
    #[error("{0} has no full-text index; the operator can create one (`doublet db index`)")]
    NoIndex(String),
    /// An object is not in the state that the call requires.
    #[error("{0}")]
    State(String),
    /// Changes since the requested modseq have been purged.
    #[error("changes since then have been purged: read the whole database again")]
    Purged {
        /// The current modseq of the database.
        modseq: u64,
    },
    /// A message was refused by the rules of submission.
    #[error("{text}")]
    Mail {
        /// The reason word.
        reason: &'static str,
        /// The gRPC status code.
        code: Code,
        /// The description for people.
        text: String,
    },
    /// This server does not support the feature.
    #[error("this server does not support {0}")]
    Unsupported(&'static str),
    /// The server failed or is shutting down.
    #[error("the server is temporarily unavailable, try again later")]
    Unavailable,
}

impl From<QueryError> for Error {
    fn from(error: QueryError) -> Self {
        let position = LineColumn { line: 1, column: error.position.saturating_add(1) };
        Self::Formula { what: "query", position, text: error.to_string() }
    }
}

impl Error {
    /// Creates an [`Error::Invalid`].
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }

    /// Returns `true` if the call ended early because it takes longer than a job should. The call is repeated in
    /// several jobs, so clients do not see this error.
    pub(crate) fn is_interrupted(&self) -> bool {
        matches!(self, Self::Notes(notes::Error::Interrupted(_)))
    }

    /// Returns the status code, the reason word and the detail.
    fn status_parts(&self) -> (Code, &'static str, Option<Detail>) {
        let retry = |after_ms| Some(Detail::Retry(Retry { after_ms }));
        match self {
            Self::Notes(error) => notes_status(error),
            Self::Directory(directory::Error::Notes(error)) => notes_status(error),
            Self::Directory(_) | Self::Unavailable => (Code::Unavailable, "unavailable", retry(0)),
            Self::Login(error) => {
                let (code, reason, _) = login_status(*error);
                (code, reason, if error.is_temporary() { retry(0) } else { None })
            }
            Self::NoSession => (Code::Unauthenticated, "session", None),
            Self::OwnName => (Code::Unauthenticated, "login", None),
            Self::ExcludedServer(_) => (Code::PermissionDenied, "access", None),
            Self::Invalid(_) => (Code::InvalidArgument, "invalid", None),
            Self::Formula { what, position, .. } => (Code::InvalidArgument, "formula", formula_detail(what, *position)),
            Self::Limit { what, max } => (Code::ResourceExhausted, "limit", limit_detail(what, *max)),
            Self::Exhausted(_) => (Code::ResourceExhausted, "full", retry(0)),
            Self::State(_) => (Code::FailedPrecondition, "state", None),
            Self::NoDatabase(_) => (Code::NotFound, "not-found", None),
            Self::NoMaker => (Code::PermissionDenied, "server-only", None),
            Self::NoIndex(_) => (Code::FailedPrecondition, "no-index", None),
            Self::Purged { modseq } => (Code::OutOfRange, "purged", Some(Detail::Purged(Purged { modseq: *modseq }))),
            Self::Mail { reason, code, .. } => (*code, reason, None),
            Self::Unsupported(_) => (Code::Unimplemented, "unsupported", None),
        }
    }

    /// Returns the message for the client.
    fn text(&self) -> String {
        match self {
            Self::Login(error) => login_status(*error).2.to_owned(),
            Self::Notes(notes::Error::Store(store::Error::Full(_))) => "the disk is full".to_owned(),
            Self::Notes(notes::Error::Store(_)) => Self::Unavailable.to_string(),
            Self::Directory(directory::Error::Notes(error)) if !error.is_temporary() => error.to_string(),
            Self::Directory(_) => "the directory is not available, try again later".to_owned(),
            other => other.to_string(),
        }
    }
}

/// Returns the status code, the reason word and the message for a failed login.
fn login_status(error: LoginError) -> (Code, &'static str, &'static str) {
    match error {
        LoginError::InvalidCredentials | LoginError::AccountDisabled | LoginError::NotAuthorized => {
            (Code::Unauthenticated, "login", "wrong name or password, or no access")
        }
        LoginError::ChannelBinding => {
            (Code::Unauthenticated, "login", "the channel binding does not match this connection")
        }
        LoginError::TlsRequired => (Code::Unauthenticated, "login", "this mechanism requires an encrypted connection"),
        LoginError::Throttled => (Code::ResourceExhausted, "throttled", "too many failed logins, try again later"),
        LoginError::Malformed | LoginError::NotBase64 => {
            (Code::InvalidArgument, "malformed", "invalid response for this authentication mechanism")
        }
        LoginError::TooLong => (Code::InvalidArgument, "malformed", "the response is too long"),
        LoginError::Cancelled => (Code::InvalidArgument, "malformed", "the exchange was cancelled"),
        LoginError::MechanismNotOffered => {
            (Code::Unimplemented, "unsupported", "this server does not support this mechanism")
        }
        LoginError::ApplicationPasswordRequired => (
            Code::Unauthenticated,
            "application-password",
            "this account has a second factor: use an application password, which you make in the web mail",
        ),
        LoginError::MailFileElsewhere => {
            (Code::FailedPrecondition, "other-server", "the mail file of this account is on another server")
        }
        LoginError::Unavailable => {
            (Code::Unavailable, "unavailable", "the server is temporarily unavailable, try again later")
        }
    }
}

fn notes_status(error: &notes::Error) -> (Code, &'static str, Option<Detail>) {
    use notes::Error as E;
    match error {
        E::AccessDenied { needed, has, .. } => {
            let needed = access_level(*needed).into();
            let has = access_level(*has).into();
            (Code::PermissionDenied, "access", Some(Detail::AccessDenied(AccessDenied { needed, has })))
        }
        E::ServerOnly { .. } => (Code::PermissionDenied, "server-only", None),
        E::NotAuthor { .. } => (Code::PermissionDenied, "author", None),
        E::NotFound { .. } => (Code::NotFound, "not-found", None),
        E::Exists { .. } => (Code::AlreadyExists, "exists", None),
        E::Conflict { unid, expected, found } => {
            let unid = unid.0.to_vec();
            let expected_sequence = *expected;
            let found_sequence = *found;
            (Code::Aborted, "conflict", Some(Detail::Conflict(Conflict { unid, expected_sequence, found_sequence })))
        }
        E::OtherVersion { unid, sequence } => {
            let unid = unid.0.to_vec();
            let detail = Conflict { unid, expected_sequence: *sequence, found_sequence: *sequence };
            (Code::Aborted, "conflict", Some(Detail::Conflict(detail)))
        }
        E::NotEmpty { .. } => (Code::FailedPrecondition, "state", None),
        E::Invalid { .. } => (Code::InvalidArgument, "invalid", None),
        E::Formula { what, position, .. } => (Code::InvalidArgument, "formula", formula_detail(what, *position)),
        E::Limit { what, max } => (Code::ResourceExhausted, "limit", limit_detail(what, *max as u64)),
        E::Damaged { .. } | E::Store(store::Error::Damaged { .. }) => (Code::DataLoss, "damaged", None),
        _ => (Code::Unavailable, "unavailable", Some(Detail::Retry(Retry { after_ms: 0 }))),
    }
}

fn limit_detail(what: &str, max: u64) -> Option<Detail> {
    Some(Detail::Limit(LimitExceeded { what: what.to_owned(), max }))
}

fn formula_detail(what: &str, position: LineColumn) -> Option<Detail> {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let line = count(position.line);
    let column = count(position.column);
    Some(Detail::Formula(FormulaPlace { what: what.to_owned(), line, column }))
}

/// Converts an access level to the protocol's type.
#[must_use]
pub fn access_level(level: AclLevel) -> AccessLevel {
    match level {
        AclLevel::NoAccess => AccessLevel::NoAccess,
        AclLevel::Depositor => AccessLevel::Depositor,
        AclLevel::Reader => AccessLevel::Reader,
        AclLevel::Author => AccessLevel::Author,
        AclLevel::Editor => AccessLevel::Editor,
        AclLevel::Designer => AccessLevel::Designer,
        AclLevel::Manager => AccessLevel::Manager,
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let (code, reason, detail) = error.status_parts();
        match code {
            Code::Unavailable | Code::DataLoss => tracing::error!(target: "rpc", %error, "a call failed"),
            _ => tracing::debug!(target: "rpc", ?code, reason, "a call was refused"),
        }
        details::status(code, &error.text(), &ErrorDetail { reason: reason.to_owned(), detail })
    }
}

#[cfg(test)]
mod tests {
    use base::Unid;

    use super::*;

    fn check(error: Error, code: Code, reason: &str, text: &str) {
        let status = Status::from(error);
        let detail = details::detail(&status).expect("every error has a detail");
        assert_eq!((status.code(), detail.reason.as_str()), (code, reason));
        assert!(status.message().contains(text), "{:?}", status.message());
    }

    #[test]
    fn only_a_folder_that_is_not_empty_is_in_the_wrong_state() {
        let filled = notes::Error::NotEmpty { what: "folder 7".to_owned() };
        check(filled.into(), Code::FailedPrecondition, "state", "folder 7 is not empty");
        let invalid = notes::Error::invalid("folder 7", "the name is too long");
        check(invalid.into(), Code::InvalidArgument, "invalid", "folder 7: the name is too long");
    }

    #[test]
    fn errors_hide_internal_details_from_clients() {
        let conflict = notes::Error::Conflict { unid: Unid([7; 16]), expected: 1, found: 2 };
        check(conflict.into(), Code::Aborted, "conflict", "sequence number 2, not 1");
        let secret = store::Error::Failed { what: "write", reason: "the path of a file".to_owned() };
        check(notes::Error::from(secret).into(), Code::Unavailable, "unavailable", "try again later");
        let query = QueryError { position: 4, message: "a quote is missing".to_owned() };
        let detail = formula_detail("query", LineColumn { line: 1, column: 5 });
        assert_eq!(Error::from(query.clone()).status_parts(), (Code::InvalidArgument, "formula", detail));
        check(query.into(), Code::InvalidArgument, "formula", "character 5: a quote is missing");
        check(Error::Login(LoginError::AccountDisabled), Code::Unauthenticated, "login", "wrong name or password");
        check(Error::Login(LoginError::InvalidCredentials), Code::Unauthenticated, "login", "wrong name or password");
        check(
            Error::Limit { what: "notes of a call", max: 3 },
            Code::ResourceExhausted,
            "limit",
            "at most 3 notes of a call",
        );
    }
}
