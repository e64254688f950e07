//! The traits by which this crate uses the rest of the server: login, building the indexes of views, and creating
//! databases.
//!
//! The crate `server` implements them over `directory` and `mail`; the tests implement them in memory. All methods may
//! block and are called on worker threads.

use std::sync::Arc;

use base::{DbNumber, Name, NoteId};
use directory::IssuedCertificate;
use notes::{Database, Identity};
use proto::v1;
use sasl::Credentials;
use tokio::sync::watch;
use wire::SessionTermination;

/// A registered login session; dropping it removes the registration.
pub trait SessionSlot: Send + Sync {
    /// Returns the number that identifies the session in a login ([`wire::Peer::connection`]).
    fn number(&self) -> u64;

    /// Returns the signal that the account has changed and the session must end.
    fn termination(&self) -> &SessionTermination;
}

/// Checks logins and registers their sessions.
pub trait Accounts: Credentials {
    /// Registers a session for a client that is about to log in.
    fn register_session(&self) -> Box<dyn SessionSlot>;
}

/// Progress of the build of a view's index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexBuildProgress {
    /// Documents processed so far.
    pub done: u64,
    /// Total number of documents; 0 before the build has started.
    pub documents: u64,
}

/// Builds the indexes of views, one after the other.
pub trait ViewIndexer: Send + Sync {
    /// Requests that the index of a view is built next. Returns a receiver of its progress, whose channel closes when
    /// the build has ended, successfully or not. Returns `None` if too many requests are waiting.
    fn request_build(&self, database: DbNumber, view: NoteId) -> Option<watch::Receiver<IndexBuildProgress>>;

    /// Returns `true` if the view was updated less than `hours` hours ago, by any caller.
    fn is_recent(&self, database: DbNumber, view: NoteId, hours: u16) -> bool;

    /// Records that a view that is refreshed every given number of hours was updated now.
    fn record_refresh(&self, database: DbNumber, view: NoteId);
}

/// The pulls that other servers request, so that their own changes arrive here.
pub trait RequestedPulls: Send + Sync {
    /// Begins to take over the changes of databases from a server, and describes the pull. The paths are those of
    /// its databases. Fails, with a text for the operator of the other server, if it is not registered or too many
    /// requests are being worked on.
    fn begin(&self, server: &Name, request: v1::RequestPullRequest) -> Result<v1::RequestedPull, String>;

    /// Describes how far a pull has come that a server has requested, or `None` if it has not requested it.
    fn progress(&self, server: &Name, number: u64) -> Option<v1::RequestedPull>;

    /// Begins to upgrade a database of an older structure, which cannot replicate, unless it is being upgraded. Fails
    /// with the reason if it could not be upgraded.
    fn upgrade(&self, database: &Arc<Database>) -> Result<(), String>;
}

/// The certificate of another server, which the handshake has verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCertificate {
    /// The name of the server.
    pub name: Name,
    /// The certificate in DER form.
    pub certificate: Arc<[u8]>,
    /// Its issuer and its end.
    pub issued: IssuedCertificate,
}

/// Issues the certificates of the servers of the domain.
pub trait CertificateIssuer: Send + Sync {
    /// Issues a new certificate for a server that has proved its name by its present one, and the key of a signing
    /// request in DER form. Returns the certificate in PEM form. Fails with a text for the operator of that server.
    fn renew(&self, server: &ServerCertificate, signing_request: &[u8]) -> Result<String, String>;

    /// Records that a server uses its present certificate. Those before it are not renewed any more.
    fn confirm(&self, server: &ServerCertificate) -> Result<(), String>;
}

/// A template from which databases can be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateInfo {
    /// The name that identifies the template.
    pub name: String,
    /// The default title of databases created from the template.
    pub title: String,
    /// A description of the template's purpose.
    pub description: String,
}

/// The reason why a database was not created.
#[derive(Debug)]
pub enum CreateDatabaseError {
    /// The caller is not permitted to create databases.
    NotAllowed,
    /// The template does not exist.
    NoTemplate,
    /// The request is not valid. The text is for users.
    Refused(String),
    /// The directory or the databases returned an error.
    Directory(directory::Error),
}

/// Creates databases.
pub trait DatabaseCreator: Send + Sync {
    /// Returns the available templates.
    fn templates(&self) -> Vec<TemplateInfo>;

    /// Creates a database with the identity `creator` as Manager, from a template unless `template` is empty. The
    /// database is durable on return.
    fn create(
        &self,
        creator: &Identity,
        path: &str,
        title: &str,
        template: &str,
    ) -> Result<Arc<Database>, CreateDatabaseError>;
}
