//! The state of the lite web mail, and the services that it uses.

use std::sync::Arc;

use base::memory::{MemoryBudget, MemoryShares};
use base::{Clock, Random};
use http::account_limits::AccountLimits;
use http::static_file::StaticFile;
use http::{Authenticator, Caller};
use mail::mailbox::MailFile;
use mail::message_table::MessageTables;
use notes::Databases;
use store::Ticket;
use wire::{JobLabel, JobOwner, Peer, WorkerPool};

use crate::backend::WebBackend;
use crate::completed_forms::{CompletedForms, SentForm};
use crate::credential_backend::CredentialBackend;
use crate::error::{Error, Result};
use crate::layout::STYLE;
use crate::limits::{MOVED_FORMS_MAX, REQUESTS_MAX, SENT_FORMS_MAX, UPLOADS_MAX};
use crate::notice::MovedMessages;

/// Settings of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceOptions {
    /// The name of the server, for `Message-ID`.
    pub hostname: String,
    /// Maximum number of bytes of a message.
    pub message_bytes_max: usize,
    /// Maximum number of recipients of a message.
    pub recipients_max: usize,
    /// Maximum number of concurrent requests of an account.
    pub requests_per_account_max: usize,
    /// Maximum number of concurrent requests of an account that have files.
    pub uploads_per_account_max: usize,
}

/// The services that this crate uses.
pub struct Services {
    /// The databases.
    pub databases: Arc<Databases>,
    /// Mail files, addresses and submission.
    pub backend: Arc<dyn WebBackend>,
    /// Application passwords and second factors.
    pub credentials: Arc<dyn CredentialBackend>,
    /// The messages of mail files in memory, which JMAP uses, too.
    pub tables: Arc<MessageTables>,
    /// The check of logins.
    pub authenticator: Authenticator,
    /// The pool that runs what reads or writes a database.
    pub pool: WorkerPool,
    /// The memory for requests, which the server shares between all protocols.
    pub memory: Arc<MemoryShares>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The random number generator.
    pub random: Arc<dyn Random>,
}

/// The state shared by all connections.
pub struct Service {
    pub(crate) services: Services,
    pub(crate) options: ServiceOptions,
    /// The forms of the composer.
    pub(crate) sent_forms: Arc<CompletedForms<SentForm>>,
    /// The forms that have moved messages.
    pub(crate) moved_forms: Arc<CompletedForms<MovedMessages>>,
    /// The requests that run.
    pub(crate) requests: Arc<AccountLimits>,
    /// Those of them that have files.
    pub(crate) uploads: Arc<AccountLimits>,
    pub(crate) style: StaticFile,
}

impl Service {
    /// Creates the service.
    #[must_use]
    pub fn new(services: Services, options: ServiceOptions) -> Arc<Self> {
        let requests = AccountLimits::new(options.requests_per_account_max, REQUESTS_MAX);
        let uploads = AccountLimits::new(options.uploads_per_account_max, UPLOADS_MAX);
        let style = StaticFile::new(STYLE.as_bytes(), "text/css; charset=utf-8");
        let sent_forms = CompletedForms::new(SENT_FORMS_MAX);
        let moved_forms = CompletedForms::new(MOVED_FORMS_MAX);
        Arc::new(Self { services, options, sent_forms, moved_forms, requests, uploads, style })
    }

    /// Returns the memory for requests of a peer.
    pub(crate) fn memory_of(&self, peer: &Peer) -> MemoryBudget {
        self.services.memory.share_of(&peer.memory_owner())
    }

    /// Runs work of a person on a worker.
    pub(crate) async fn run<R, F>(&self, caller: &Caller, command: &'static str, work: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(&dyn WebBackend) -> Result<R> + Send + 'static,
    {
        let label = JobLabel::new(JobOwner::account(caller.login()), "web", command);
        let backend = Arc::clone(&self.services.backend);
        self.services.pool.run_awaited(label, move || work(backend.as_ref())).await.map_err(|error| {
            tracing::error!(target: "web", %error, command, "a request did not run to completion");
            Error::Unavailable
        })?
    }

    /// Runs work on the mail file of a person, and waits until what it has read or written is durable.
    pub(crate) async fn run_in_file<R, F>(&self, caller: &Caller, command: &'static str, work: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(&MailFile) -> Result<(R, Ticket)> + Send + 'static,
    {
        let person = caller.clone();
        let ran = self.run(caller, command, move |backend| work(&backend.open(&person)?));
        let (reply, ticket) = ran.await?;
        self.services.databases.store().durable(ticket).await?;
        Ok(reply)
    }
}
