//! The tables of calls, grouped by the services of the protocol, and the execution of a call on a worker.
//!
//! A call with one message and one reply is a *verb*: a synchronous function that gets a [`CallContext`] and the
//! message, runs on the worker pool, and returns a [`CallOutcome`]. The reply is sent when the ticket in the
//! [`CallOutcome`] is durable. Streaming calls consist of such steps. A verb whose work may take long is divided into
//! several jobs (`divided`). Logins have a pool of their own.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base::memory::MemoryShares;
use base::{Clock, Random};
use directory::Directory;
use futures_util::Stream;
use mail::submission::SubmissionService;
use notes::{Databases, Identity};
use proto::v1;
use sasl::{LoginError, Mechanism};
use store::Ticket;
use tonic::Status;
use tonic::codec::CompressionEncoding;
use tonic::codegen::http::{Request, Response};
use tower_service::Service as _;
use wire::{RunError, Shutdown, WorkerPool};

use crate::admission::Caller;
use crate::backend::{Accounts, CertificateIssuer, DatabaseCreator, RequestedPulls, ViewIndexer};
use crate::cmd::CallContext;
use crate::error::{Error, Result};
use crate::limits::{MESSAGE_BYTES_MAX, REPLICA_MESSAGE_BYTES_MAX};
use crate::request_body::RequestBody;
use crate::session::{SessionLimits, Sessions};
use crate::statistics::Statistics;

mod calls;
mod divided;
mod exchange;
mod streams;
mod waiting;

use divided::CoroutineSlots;

/// Settings of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceOptions {
    /// The server's host name.
    pub hostname: String,
    /// The name and version of the program.
    pub version: String,
    /// The mechanisms of `Authenticate`.
    pub mechanisms: Vec<Mechanism>,
    /// Compresses replies for clients that accept it if `true`.
    pub compression: bool,
    /// Maximum duration of one call.
    pub call_time_max: Duration,
    /// The limits for sessions.
    pub sessions: SessionLimits,
}

/// A function that returns the full-text index, or `None` if there is none. May block.
pub type FullTextProvider = Box<dyn Fn() -> search::Result<Option<Arc<search::FullTextIndex>>> + Send + Sync>;

/// The services that this crate uses.
pub struct Services {
    /// The databases.
    pub databases: Arc<Databases>,
    /// The directory of people and groups.
    pub directory: Arc<Directory>,
    /// The service that checks logins.
    pub accounts: Arc<dyn Accounts>,
    /// The function that returns the full-text index.
    pub full_text: FullTextProvider,
    /// The service that builds the indexes of views.
    pub indexer: Arc<dyn ViewIndexer>,
    /// The service that creates databases.
    pub database_creator: Arc<dyn DatabaseCreator>,
    /// The service that pulls from other servers when they request it.
    pub requested_pulls: Arc<dyn RequestedPulls>,
    /// The service that issues certificates for other servers.
    pub certificates: Arc<dyn CertificateIssuer>,
    /// The service that accepts mail.
    pub submissions: Arc<SubmissionService>,
    /// The pool that runs the verbs.
    pub pool: WorkerPool,
    /// The pool that checks logins.
    pub login_pool: WorkerPool,
    /// The memory that calls may hold, which the server shares between all protocols.
    pub memory: Arc<MemoryShares>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The random number generator for tokens.
    pub random: Arc<dyn Random>,
    /// The signal that the server shuts down.
    pub shutdown: Shutdown,
    /// The person who works on this store with local replicas, with the groups of its server; `None` on a server.
    pub local_person: Option<Arc<Identity>>,
}

/// The state shared by all connections. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    pub(crate) services: Arc<Services>,
    pub(crate) options: Arc<ServiceOptions>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) shutdown: Shutdown,
    coroutines: Arc<CoroutineSlots>,
}

impl Service {
    /// Creates the service.
    #[must_use]
    pub fn new(services: Services, options: ServiceOptions) -> Arc<Self> {
        let memory = Arc::clone(&services.memory);
        let clock = Arc::clone(&services.clock);
        let random = Arc::clone(&services.random);
        let sessions = Sessions::new(options.sessions.clone(), memory, clock, random);
        let shutdown = services.shutdown.clone();
        Arc::new(Self {
            services: Arc::new(services),
            options: Arc::new(options),
            sessions: Arc::new(sessions),
            statistics: Arc::default(),
            shutdown,
            coroutines: Arc::new(CoroutineSlots::new()),
        })
    }

    /// Returns the sessions.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Returns the counters of calls.
    #[must_use]
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// Runs blocking work for a caller on a worker and waits until its result is durable. Work is skipped if its caller
    /// has gone before its turn.
    pub(crate) async fn run_on_worker<R, F>(&self, caller: &Caller, work: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(&CallContext) -> Result<CallOutcome<R>> + Send + 'static,
    {
        let context = self.context(caller);
        let done = self.run_job(caller, move || work(&context)).await??;
        self.when_durable(done).await
    }

    /// Runs a job of a call on a worker. The job is skipped if its caller has gone before its turn.
    async fn run_job<T, F>(&self, caller: &Caller, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let ran = self.services.pool.run_awaited(caller.job_label(), job).await;
        ran.map_err(|error| {
            tracing::error!(target: "rpc", %error, call = caller.path, "a call did not run to completion");
            Error::Unavailable
        })
    }

    /// Waits until an outcome is durable, and returns its reply.
    async fn when_durable<R>(&self, done: CallOutcome<R>) -> Result<R> {
        if let Some(ticket) = done.ticket {
            self.services.databases.store().durable(ticket).await.map_err(notes::Error::from)?;
        }
        Ok(done.reply)
    }

    fn context(&self, caller: &Caller) -> CallContext {
        CallContext::new(Arc::clone(&self.services), Arc::clone(&self.sessions), caller.clone())
    }

    /// Checks a login in the pool for logins. Returns [`LoginError::Unavailable`] if too many logins wait, after
    /// `withdraw` got the input back. Work is skipped if its caller has gone before its turn.
    pub(crate) async fn check_login<S, R, F>(&self, caller: &Caller, input: S, check: F, withdraw: fn(S)) -> Result<R>
    where
        S: Send + 'static,
        R: Send + 'static,
        F: FnOnce(&CallContext, S) -> Result<R> + Send + 'static,
    {
        let context = self.context(caller);
        let pool = &self.services.login_pool;
        let checked = pool.run_or_return(caller.job_label(), input, move |input| check(&context, input)).await;
        match checked {
            Ok(outcome) => outcome,
            Err(RunError::NotQueued(_, input)) => {
                withdraw(input);
                Err(Error::Login(LoginError::Unavailable))
            }
            Err(RunError::Failed(error)) => {
                tracing::error!(target: "rpc", %error, call = caller.path, "a call did not run to completion");
                Err(Error::Unavailable)
            }
        }
    }

    /// Serves a call with one message and one reply.
    pub(crate) async fn unary<Q, R>(
        &self,
        request: tonic::Request<Q>,
        verb: fn(&CallContext, Q) -> Result<CallOutcome<R>>,
    ) -> std::result::Result<tonic::Response<R>, Status>
    where
        Q: Send + 'static,
        R: Send + 'static,
    {
        let (caller, message) = split_request(request)?;
        Ok(tonic::Response::new(self.run_on_worker(&caller, move |context| verb(context, message)).await?))
    }
}

/// The outcome of a verb, with the ticket that must be durable before the reply is sent.
pub(crate) struct CallOutcome<R> {
    /// The reply.
    pub reply: R,
    /// The ticket to wait for, or `None` if the reply does not depend on the disk.
    pub ticket: Option<Ticket>,
}

impl<R> CallOutcome<R> {
    /// Creates an outcome that does not depend on the disk.
    pub(crate) fn immediate(reply: R) -> Self {
        Self { reply, ticket: None }
    }

    /// Creates an outcome that is sent when the ticket is durable.
    pub(crate) fn when_durable(reply: R, ticket: Ticket) -> Self {
        Self { reply, ticket: Some(ticket) }
    }
}

/// The replies of a streaming call.
pub(crate) type Replies<R> = Pin<Box<dyn Stream<Item = std::result::Result<R, Status>> + Send>>;

/// Splits a request into its caller and its message. Returns [`Error::NoSession`] if it has no caller.
pub(crate) fn split_request<Q>(request: tonic::Request<Q>) -> Result<(Caller, Q)> {
    let (_, extensions, message) = request.into_parts();
    let caller = extensions.get::<Caller>().cloned().ok_or(Error::NoSession)?;
    Ok((caller, message))
}

/// Creates the replies of a streaming call from steps. Each step returns a reply and the state for the next step, or
/// the end. The stream ends early with the session, with the call's deadline, or when the server drains.
pub(crate) fn replies<S, R, F, Step>(service: Service, caller: Caller, start: S, step: F) -> Replies<R>
where
    S: Send + 'static,
    R: Send + 'static,
    F: Fn(Service, Caller, S) -> Step + Send + Sync + 'static,
    Step: Future<Output = Result<Option<(R, S)>>> + Send,
{
    let step = Arc::new(step);
    Box::pin(futures_util::stream::unfold(Some(start), move |state| {
        let service = service.clone();
        let caller = caller.clone();
        let step = Arc::clone(&step);
        async move {
            let next = step(service.clone(), caller.clone(), state?);
            let outcome = tokio::select! {
                biased;
                outcome = next => outcome.map_err(Status::from),
                status = interruption(&service, &caller) => Err(status),
            };
            match outcome {
                Ok(Some((reply, state))) => Some((Ok(reply), Some(state))),
                Ok(None) => None,
                Err(status) => Some((Err(status), None)),
            }
        }
    }))
}

/// Waits for an event that ends a stream early, and returns its status.
pub(crate) async fn interruption(service: &Service, caller: &Caller) -> Status {
    tokio::select! {
        () = caller.ended() => Error::NoSession.into(),
        () = caller.deadline_passed() => Status::deadline_exceeded("the call exceeded its time limit"),
        () = service.shutdown.draining() => Error::Unavailable.into(),
    }
}

/// Passes a call to the service named in its path.
pub(crate) async fn route(service: &Arc<Service>, request: Request<RequestBody>) -> Response<tonic::body::Body> {
    let name = request.uri().path().split('/').nth(1).unwrap_or_default().to_owned();
    macro_rules! on {
        ($($module:ident::$Server:ident up to $bytes_max:expr),+) => {
            $(
                if name == <v1::$module::$Server<Service> as tonic::server::NamedService>::NAME {
                    let mut server = v1::$module::$Server::from_arc(Arc::clone(service))
                        .max_decoding_message_size(MESSAGE_BYTES_MAX)
                        .max_encoding_message_size($bytes_max)
                        .accept_compressed(CompressionEncoding::Gzip);
                    if service.options.compression {
                        server = server.send_compressed(CompressionEncoding::Gzip);
                    }
                    return server.call(request).await.unwrap_or_else(|never| match never {});
                }
            )+
        };
    }
    on!(
        notes_server::NotesServer up to MESSAGE_BYTES_MAX,
        views_server::ViewsServer up to MESSAGE_BYTES_MAX,
        changes_server::ChangesServer up to MESSAGE_BYTES_MAX,
        databases_server::DatabasesServer up to MESSAGE_BYTES_MAX,
        sessions_server::SessionsServer up to MESSAGE_BYTES_MAX,
        mail_server::MailServer up to MESSAGE_BYTES_MAX,
        directory_server::DirectoryServer up to MESSAGE_BYTES_MAX,
        search_server::SearchServer up to MESSAGE_BYTES_MAX,
        servers_server::ServersServer up to MESSAGE_BYTES_MAX,
        replication_server::ReplicationServer up to REPLICA_MESSAGE_BYTES_MAX
    );
    Status::unimplemented("unknown service").into_http()
}

/// Implements a service of the protocol: the calls with one message and one reply, each with its verb, and any other
/// members.
macro_rules! table {
    ($Trait:path { $($call:ident: $Request:ident => $Reply:ident = $verb:path;)* } $($other:tt)*) => {
        #[tonic::async_trait]
        impl $Trait for crate::service::Service {
            $(
                async fn $call(
                    &self,
                    request: tonic::Request<proto::v1::$Request>,
                ) -> std::result::Result<tonic::Response<proto::v1::$Reply>, tonic::Status> {
                    self.unary(request, $verb).await
                }
            )*

            $($other)*
        }
    };
}
pub(crate) use table;
