//! Administration: one implementation for the command line and for the control socket.
//!
//! | module | content |
//! |---|---|
//! | [`request`], [`answer`] | requests; results and progress |
//! | [`people`], [`groups`], [`domains`] | the directory |
//! | [`databases`], [`access`], [`views`] | databases; access control lists; views |
//! | [`full_text`] | the full-text index of a database |
//! | [`designs`], [`table`] | templates; import and export of documents as tables |
//! | [`fixup`], [`maintenance`] | damage; backup, attachments |
//! | [`queue`] | queued mail |
//! | [`import`], [`export`] | mail from files and into files |
//! | [`mail_files`], [`flag_list`] | the names of such files; flags beside them |
//!
//! The caller that executes a [`Request`] receives progress through a closure, which may cancel the command. The result
//! is an [`Answer`] or a [`Failure`] whose text says what to do next. All functions here block, and none of them
//! prints.

pub mod access;
pub mod answer;
pub mod databases;
mod deleted;
pub mod designs;
pub mod domains;
pub mod export;
pub mod fixup;
pub mod flag_list;
pub mod full_text;
pub mod groups;
pub mod import;
pub mod mail_files;
pub mod maintenance;
pub mod people;
pub mod queue;
pub mod request;
pub mod status;
pub mod table;
pub mod views;

pub use answer::{Answer, Progress, ProgressCallback, Unit, counted};
pub use request::Request;

use std::path::{Path, PathBuf};

use crate::core::Core;

/// Error of an administration command, written for the administrator. The text says what to do next where that is
/// known.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
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
    Signing(#[from] crate::signing::SigningError),
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
    #[error("{failure}\n{done}")]
    Partial {
        /// The error that stopped the command.
        failure: Box<Failure>,
        /// Description of the part that was done, and how to continue.
        done: String,
    },
    /// The progress callback cancelled the command.
    #[error("interrupted; what was done so far is kept")]
    Cancelled,
}

impl From<search::QueryError> for Failure {
    fn from(error: search::QueryError) -> Self {
        Self::Search(error.into())
    }
}

/// Result of an administration command.
pub type Outcome = Result<Answer, Failure>;

impl Failure {
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

    /// Adds a description of the work that was done before this failure and is kept.
    #[must_use]
    pub fn with_partial_result(self, done: String) -> Self {
        Self::Partial { failure: Box::new(self), done }
    }

    /// Returns a function that converts an I/O error of a file into a failure.
    pub fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

/// Executes a request on an open data folder.
pub fn execute(core: &Core, request: Request, report: &mut ProgressCallback<'_>) -> Outcome {
    match request {
        Request::User(request) => people::execute(core, request),
        Request::Group(request) => groups::execute(core, request),
        Request::Domain(request) => domains::execute(core, request),
        Request::Db(request) => databases::execute(core, request, report),
        Request::Fixup(request) => fixup::execute(&core.notes, &request, report),
        Request::Design(request) => designs::execute(core, &request),
        Request::Updall(request) => views::updall(core, &request, report),
        Request::Backup { folder, keep } => maintenance::backup(core, &folder, keep, report),
        Request::Blobs(request) => maintenance::blobs(core, &request, report),
        Request::Queue(request) => queue::execute(core, request),
        Request::Import(request) => import::execute(core, &request, report),
        Request::Export(request) => export::execute(core, &request, report),
        Request::Status { running: true } => Err(Failure::Refused("no server runs on this data folder".to_owned())),
        Request::Status { running: false } => status::execute(core),
        Request::Tls(_) => Err(Failure::Refused(
            "no server runs on this data folder; a server reads the certificate when it starts".to_owned(),
        )),
    }
}

/// Reports progress. Fails with [`Failure::Cancelled`] if the callback cancels the command.
pub(crate) fn report_step(report: &mut ProgressCallback<'_>, progress: Progress) -> Result<(), Failure> {
    if report(progress).is_break() { Err(Failure::Cancelled) } else { Ok(()) }
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
        mail::Error::Damaged(_) => "; `doublet fixup` looks for more damage",
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
        store::Error::Poisoned(_) => "; check the disk, then restart the server",
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
