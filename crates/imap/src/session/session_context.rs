//! Data that all sessions share: accounts, the clock, options.

use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use base::memory::MemoryShares;
use sasl::Mechanism;

use super::recent::RecentMessages;
use crate::backend::{Accounts, FullTextProvider};
use crate::limits;

/// The options that the operator can set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOptions {
    /// Maximum size of a message in APPEND. Sent as APPENDLIMIT.
    pub append_bytes_max: usize,
    /// `true` if STARTTLS is offered on unencrypted connections.
    pub starttls: bool,
    /// `true` if COMPRESS=DEFLATE is offered.
    pub compression: bool,
    /// The mechanisms of AUTHENTICATE, as far as a connection can offer them.
    pub mechanisms: Vec<Mechanism>,
    /// Maximum silence of a client after login, including IDLE.
    pub silence_time_max: Duration,
    /// Maximum silence of a client before login.
    pub login_time_max: Duration,
    /// Number of consecutive BAD commands after which the connection ends.
    pub errors_max: u32,
    /// Number of failed logins after which the connection ends.
    pub login_failures_max: u32,
    /// The server's identification in ID, as names and values.
    pub identification: Vec<(String, String)>,
    /// The address of the Session object of JMAP, if the server offers JMAP to the same logins.
    pub jmap_session_url: Option<String>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        let identification = vec![
            ("name".to_owned(), "Doublet".to_owned()),
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ];
        Self {
            append_bytes_max: limits::APPEND_BYTES_MAX,
            starttls: false,
            compression: true,
            mechanisms: Mechanism::WITH_PASSWORD.to_vec(),
            silence_time_max: limits::INACTIVITY_TIME_MAX,
            login_time_max: limits::LOGIN_TIME_MAX,
            errors_max: limits::BAD_COMMANDS_MAX,
            login_failures_max: limits::LOGIN_FAILURES_MAX,
            identification,
            jmap_session_url: None,
        }
    }
}

/// Data that all sessions share.
pub struct SessionContext {
    /// Access to passwords and mail files.
    pub accounts: Arc<dyn Accounts>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The options.
    pub options: SessionOptions,
    /// The recent messages.
    pub recent: RecentMessages,
    /// Access to the full-text index, which excludes messages from a search without reading them.
    pub full_text: FullTextProvider,
    /// The memory for commands, which the server shares between all protocols.
    pub memory: Arc<MemoryShares>,
}

impl SessionContext {
    /// Creates the shared data of sessions, without a full-text index.
    #[must_use]
    pub fn new(
        accounts: Arc<dyn Accounts>,
        clock: Arc<dyn Clock>,
        options: SessionOptions,
        memory: Arc<MemoryShares>,
    ) -> Self {
        let recent = RecentMessages::default();
        Self { accounts, clock, options, recent, full_text: Arc::new(|| Ok(None)), memory }
    }

    /// Sets the full-text index that searches use.
    #[must_use]
    pub fn with_full_text(self, full_text: FullTextProvider) -> Self {
        Self { full_text, ..self }
    }
}
