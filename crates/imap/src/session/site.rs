//! What all sessions share: accounts, the clock, options.

use std::sync::Arc;
use std::time::Duration;

use base::Clock;

use super::recent::RecentBook;
use crate::backend::{Credentials, FullText};
use crate::limits;

/// What the operator may set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The largest message that APPEND takes; told as APPENDLIMIT.
    pub append_bytes_max: usize,
    /// Whether STARTTLS is offered on connections without encryption.
    pub starttls: bool,
    /// Whether COMPRESS=DEFLATE is offered.
    pub compression: bool,
    /// Whether AUTHENTICATE offers SCRAM-SHA-256.
    pub scram: bool,
    /// So long a client may be silent after login; IDLE is silence too.
    pub silence_time_max: Duration,
    /// So long a client may be silent before login.
    pub login_time_max: Duration,
    /// After so many commands in a row that could not be, the connection ends.
    pub errors_max: u32,
    /// After so many failed logins, the connection ends.
    pub login_failures_max: u32,
    /// What the server says about itself in ID: names and values.
    pub identification: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        let identification = vec![
            ("name".to_owned(), "Doublet".to_owned()),
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ];
        Self {
            append_bytes_max: limits::APPEND_BYTES_MAX,
            starttls: false,
            compression: true,
            scram: true,
            silence_time_max: limits::SILENCE_TIME_MAX,
            login_time_max: limits::LOGIN_TIME_MAX,
            errors_max: limits::ERRORS_MAX,
            login_failures_max: limits::LOGIN_FAILURES_MAX,
            identification,
        }
    }
}

/// What all sessions share.
pub struct Site {
    /// Who may log in.
    pub credentials: Arc<dyn Credentials>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What the operator has set.
    pub options: Options,
    /// Which messages are recent.
    pub recent: RecentBook,
    /// Rules out messages that need not be read to be searched.
    pub full_text: FullText,
}

impl Site {
    /// Puts together what sessions share.
    #[must_use]
    pub fn new(credentials: Arc<dyn Credentials>, clock: Arc<dyn Clock>, options: Options) -> Self {
        Self { credentials, clock, options, recent: RecentBook::default(), full_text: Arc::new(|| Ok(None)) }
    }

    /// Lets searches ask the full-text index.
    #[must_use]
    pub fn with_full_text(self, full_text: FullText) -> Self {
        Self { full_text, ..self }
    }
}
