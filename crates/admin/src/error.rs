//! Errors of administration commands, written for the administrator.

use std::path::{Path, PathBuf};

use design::error::DesignError;

use crate::answer::{Answer, Progress, ProgressCallback};

/// Error of an administration command, written for the administrator. The text says what to do next where that is
/// known.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Error of the directory.
    #[error("{0}{hint}", hint = directory_hint(.0))]
    Directory(#[from] directory::Error),
    /// Error of the mail crate.
    #[error("{0}{hint}", hint = mail_hint(.0))]
    Mail(#[from] mail::Error),
    /// Error of a database.
    #[error("{0}{hint}", hint = notes_hint(.0))]
    Notes(#[from] notes::Error),
    /// Error of the store.
    #[error("{0}{hint}", hint = store_hint(.0))]
    Store(#[from] store::Error),
    /// Error of the full-text index.
    #[error("{0}{hint}", hint = search_hint(.0))]
    Search(#[from] search::Error),
    /// The keys of a domain cannot be created or read.
    #[error(transparent)]
    Signing(#[from] instance::signing::SigningError),
    /// A file cannot be read or written.
    #[error("{path}: {source}{hint}", path = .path.display(), hint = file_hint(.source))]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error reported by the operating system.
        source: std::io::Error,
    },
    /// The request is invalid or cannot be executed. The text gives the reason.
    #[error("{0}")]
    Refused(String),
    /// The command failed after a part of it was done. That part is kept.
    #[error("{error}\n{done}")]
    Partial {
        /// The error that stopped the command.
        error: Box<AdminError>,
        /// Description of the part that was done, and how to continue.
        done: String,
    },
    /// The progress callback cancelled the command.
    #[error("interrupted; completed work is kept")]
    Cancelled,
}

impl From<DesignError> for AdminError {
    fn from(error: DesignError) -> Self {
        match error {
            DesignError::Notes(error) => Self::Notes(error),
            DesignError::Store(error) => Self::Store(error),
            DesignError::File { path, source } => Self::File { path, source },
            DesignError::Refused(text) => Self::Refused(text),
        }
    }
}

impl From<search::QueryError> for AdminError {
    fn from(error: search::QueryError) -> Self {
        Self::Search(error.into())
    }
}

/// Result of an administration command.
pub type AdminResult = Result<Answer, AdminError>;

impl AdminError {
    /// Creates the error for a request that cannot be executed, with the text of another error.
    #[must_use]
    pub fn refused(reason: impl std::fmt::Display) -> Self {
        Self::Refused(reason.to_string())
    }

    /// Creates the error for a named object that does not exist.
    #[must_use]
    pub fn no_such(kind: &str, name: &str) -> Self {
        Self::Refused(format!("there is no {kind} {name}; `doublet {kind} list` shows all"))
    }

    /// Creates the error for a command without any change to make.
    #[must_use]
    pub fn nothing_to_change(command: &str) -> Self {
        Self::Refused(format!("nothing to change; `doublet {command} --help` lists the options"))
    }

    /// Adds a description of the work that was done before this error and is kept.
    #[must_use]
    pub fn with_partial_result(self, done: String) -> Self {
        Self::Partial { error: Box::new(self), done }
    }

    /// Returns a function that converts an I/O error of a file into an `AdminError`.
    pub fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

/// Reports progress. Fails with [`AdminError::Cancelled`] if the callback cancels the command.
pub fn report_step(report: &mut ProgressCallback<'_>, progress: Progress) -> Result<(), AdminError> {
    if report(progress).is_break() { Err(AdminError::Cancelled) } else { Ok(()) }
}

fn directory_hint(error: &directory::Error) -> String {
    match error {
        directory::Error::DomainUnknown { domain } => format!(": `doublet domain add {domain}`"),
        directory::Error::Referenced { role, holder, .. } => {
            format!("; `doublet {} --{role} none` removes this reference", holder.replacen("domain ", "domain set ", 1))
        }
        directory::Error::DomainInUse { domain, .. } => {
            format!(
                "; `doublet user list --domain {domain}` and `doublet group list` show the users and groups that have them"
            )
        }
        _ => String::new(),
    }
}

fn mail_hint(error: &mail::Error) -> &'static str {
    match error {
        mail::Error::Damaged(_) => "; `doublet fixup` looks for more damage and repairs what it can",
        mail::Error::OverQuota { .. } => "; `doublet user set USER --quota SIZE` raises the quota",
        mail::Error::TooLarge { .. } => "; the limit is limits.message_size in the configuration",
        mail::Error::Notes(error) => notes_hint(error),
        _ => "",
    }
}

fn notes_hint(error: &notes::Error) -> &'static str {
    match error {
        notes::Error::Damaged { .. } => "; `doublet fixup` looks for more damage and repairs what it can",
        notes::Error::Store(error) => store_hint(error),
        _ => "",
    }
}

fn search_hint(error: &search::Error) -> String {
    match error {
        search::Error::NotIndexed { database } => {
            format!("; `doublet db index {database} --full-text immediate` creates one")
        }
        search::Error::Notes(error) => notes_hint(error).to_owned(),
        _ => String::new(),
    }
}

fn store_hint(error: &store::Error) -> &'static str {
    match error {
        store::Error::Full(_) => "; free some space on the disk",
        store::Error::Damaged { .. } => "; restore a backup, or let `doublet fixup` repair what can be derived",
        _ => "",
    }
}

fn file_hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "; a running server reads and writes files as its own user: make the file accessible to it, or stop the server and run the command again"
        }
        _ => "",
    }
}
