//! The tables of calls, one file a service of the protocol, and how a call is handed to a worker.
//!
//! A call that takes one message and gives one is a *verb*: a blocking function that gets a [`Desk`] and the message, runs on the pool, and gives
//! a [`Done`], whose ticket is waited for before the reply leaves. Calls that stream are built of such steps.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base::{Clock, Random};
use directory::Directory;
use futures_util::Stream;
use http::{Request, Response};
use notes::Notes;
use proto::v1;
use store::Ticket;
use tonic::Status;
use tonic::codec::CompressionEncoding;
use tower_service::Service as _;
use wire::{Pool, Shutdown};

use crate::backend::{Credentials, Depositor, Indexer, Maker};
use crate::cmd::Desk;
use crate::error::{Error, Result};
use crate::gate::Caller;
use crate::incoming::Incoming;
use crate::limits::{ACCOUNT_MEMORY_BYTES_MAX, MEMORY_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::memory::Budget;
use crate::session::{Bounds, Sessions};

mod calls;
mod exchange;
mod streams;
mod waiting;

/// What the operator may set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The server's own name.
    pub hostname: String,
    /// The program and its version.
    pub version: String,
    /// Whether SCRAM-SHA-256 is offered.
    pub scram: bool,
    /// Whether replies are compressed for clients that take it.
    pub compression: bool,
    /// The longest time that one call takes.
    pub call_time_max: Duration,
    /// How many sessions there may be.
    pub sessions: Bounds,
}

/// Gives the full-text index, where there is one. May block.
pub type FullText = Box<dyn Fn() -> search::Result<Option<Arc<search::Search>>> + Send + Sync>;

/// What the room stands on.
pub struct Ground {
    /// The databases.
    pub notes: Arc<Notes>,
    /// People and groups.
    pub directory: Arc<Directory>,
    /// Knows passwords.
    pub credentials: Arc<dyn Credentials>,
    /// Gives the full-text index, where there is one.
    pub full_text: FullText,
    /// Builds the indexes of views.
    pub indexer: Arc<dyn Indexer>,
    /// Makes databases.
    pub maker: Arc<dyn Maker>,
    /// Takes mail.
    pub depositor: Arc<dyn Depositor>,
    /// Runs the verbs.
    pub pool: Pool,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Makes tokens.
    pub random: Arc<dyn Random>,
    /// Tells when the server ends.
    pub shutdown: Shutdown,
}

/// What all connections share. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    pub(crate) ground: Arc<Ground>,
    pub(crate) options: Arc<Options>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) budget: Budget,
    pub(crate) shutdown: Shutdown,
}

impl Service {
    /// Makes it.
    #[must_use]
    pub fn new(ground: Ground, options: Options) -> Arc<Self> {
        let largest = usize::try_from(ground.depositor.message_bytes_max()).unwrap_or(usize::MAX);
        let share_bytes = ACCOUNT_MEMORY_BYTES_MAX.max(largest.saturating_add(2 * MESSAGE_BYTES_MAX));
        let (clock, random) = (Arc::clone(&ground.clock), Arc::clone(&ground.random));
        let sessions = Sessions::new(options.sessions.clone(), share_bytes, clock, random);
        let shutdown = ground.shutdown.clone();
        Arc::new(Self {
            ground: Arc::new(ground),
            options: Arc::new(options),
            sessions: Arc::new(sessions),
            budget: Budget::new(MEMORY_BYTES_MAX),
            shutdown,
        })
    }

    /// Gives the sessions.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Runs blocking work for a caller on a worker, and waits until what it tells is durable. Work of a caller that is gone before its turn comes is not done.
    pub(crate) async fn work<R, F>(&self, caller: &Caller, work: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(&Desk) -> Result<Done<R>> + Send + 'static,
    {
        let desk = Desk::new(Arc::clone(&self.ground), Arc::clone(&self.sessions), caller.clone());
        let ran = self.ground.pool.run_awaited(move || work(&desk)).await;
        let done = ran.map_err(|error| {
            tracing::error!(target: "rpc", %error, "a call was not run to its end");
            Error::Unavailable
        })??;
        if let Some(ticket) = done.ticket {
            self.ground.notes.store().durable(ticket).await.map_err(notes::Error::from)?;
        }
        Ok(done.reply)
    }

    /// Serves a call of one message and one reply.
    pub(crate) async fn unary<Q, R>(
        &self,
        request: tonic::Request<Q>,
        verb: fn(&Desk, Q) -> Result<Done<R>>,
    ) -> std::result::Result<tonic::Response<R>, Status>
    where
        Q: Send + 'static,
        R: Send + 'static,
    {
        let (caller, message) = take(request)?;
        Ok(tonic::Response::new(self.work(&caller, move |desk| verb(desk, message)).await?))
    }
}

/// The outcome of a verb, and what must be durable before it is told.
pub(crate) struct Done<R> {
    /// What the client is told.
    pub reply: R,
    /// What to wait for.
    pub ticket: Option<Ticket>,
}

impl<R> Done<R> {
    /// Tells what does not depend on the disk.
    pub(crate) fn at_once(reply: R) -> Self {
        Self { reply, ticket: None }
    }

    /// Tells it once the ticket is durable.
    pub(crate) fn after(reply: R, ticket: Ticket) -> Self {
        Self { reply, ticket: Some(ticket) }
    }
}

/// The replies of a call that streams.
pub(crate) type Replies<R> = Pin<Box<dyn Stream<Item = std::result::Result<R, Status>> + Send>>;

/// Takes a request apart into who calls and what is said.
pub(crate) fn take<Q>(request: tonic::Request<Q>) -> Result<(Caller, Q)> {
    let (_, extensions, message) = request.into_parts();
    let caller = extensions.get::<Caller>().cloned().ok_or(Error::NoSession)?;
    Ok((caller, message))
}

/// Makes the replies of a call out of steps: each gives a reply and the state for the next step, or the end. The replies end early when the
/// session, the call's time, or the server does.
pub(crate) fn replies<S, R, F, Step>(service: Service, caller: Caller, start: S, step: F) -> Replies<R>
where
    S: Send + 'static,
    R: Send + 'static,
    F: Fn(Service, Caller, S) -> Step + Send + Sync + 'static,
    Step: Future<Output = Result<Option<(R, S)>>> + Send,
{
    let step = Arc::new(step);
    Box::pin(futures_util::stream::unfold(Some(start), move |state| {
        let (service, caller, step) = (service.clone(), caller.clone(), Arc::clone(&step));
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

/// Waits for whatever ends a stream early.
pub(crate) async fn interruption(service: &Service, caller: &Caller) -> Status {
    tokio::select! {
        () = caller.ended() => Error::NoSession.into(),
        () = caller.overdue() => Status::deadline_exceeded("the call took too long"),
        () = service.shutdown.draining() => Error::Unavailable.into(),
    }
}

/// Hands a call to the service that its path names.
pub(crate) async fn route(service: &Arc<Service>, request: Request<Incoming>) -> Response<tonic::body::Body> {
    let name = request.uri().path().split('/').nth(1).unwrap_or_default().to_owned();
    macro_rules! on {
        ($($module:ident::$Server:ident),+) => {
            $(
                if name == <v1::$module::$Server<Service> as tonic::server::NamedService>::NAME {
                    let mut server = v1::$module::$Server::from_arc(Arc::clone(service))
                        .max_decoding_message_size(MESSAGE_BYTES_MAX)
                        .max_encoding_message_size(MESSAGE_BYTES_MAX)
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
        notes_server::NotesServer,
        views_server::ViewsServer,
        changes_server::ChangesServer,
        databases_server::DatabasesServer,
        sessions_server::SessionsServer,
        mail_server::MailServer,
        directory_server::DirectoryServer,
        search_server::SearchServer
    );
    Status::unimplemented("there is no such service").into_http()
}

/// Writes down a service of the protocol: calls of one message and one reply with their verbs, and whatever else there is.
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
