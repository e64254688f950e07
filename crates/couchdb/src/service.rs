//! The requests over HTTP: connections, logins, origins, and the way of a request to its verb.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use axum::response::IntoResponse;
use axum::{Extension, Router};
use base::Random;
use base::memory::MemoryShares;
use http::account_limits::AccountLimits;
use http::login::cookie;
use http::origin::{Origins, Sender};
use http::{Authenticator, Caller, RequestContext};
use notes::{Access, Database, Databases, level};
use sasl::LoginProtocol;
use store::Ticket;
use wire::{JobLabel, JobOwner, Shutdown, WorkerPool};

use crate::error::{Error, Result};
use crate::limits::{FEEDS_MAX, FEEDS_PER_PERSON_MAX};

mod answer;
mod feeds;
mod listing;
mod multipart_answer;
mod request;
mod request_body;
mod verbs;

use request::Target;

/// The cookie of a session, as CouchDB names it.
const SESSION_COOKIE: &str = "AuthSession";

/// The fields that pages of permitted origins may send.
const SENT_FIELDS: &str = "accept, authorization, content-type, if-match, origin, referer";

/// Settings of the operator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceOptions {
    /// The name and version of the program.
    pub version: String,
    /// A number that identifies the server, as 32 hexadecimal digits. It stays the same.
    pub uuid: String,
    /// The origins whose pages may use the server with a browser's help, such as `https://app.acme.test`.
    pub origins: Vec<String>,
}

/// The services that this crate uses.
pub struct Services {
    /// The databases.
    pub databases: Arc<Databases>,
    /// The check of logins.
    pub authenticator: Authenticator,
    /// The pool that runs the verbs.
    pub pool: WorkerPool,
    /// The memory for requests, which the server shares between all protocols.
    pub memory: Arc<MemoryShares>,
    /// The random number generator.
    pub random: Arc<dyn Random>,
    /// The signal that the server shuts down.
    pub shutdown: Shutdown,
}

/// The state shared by all connections.
pub struct Service {
    services: Services,
    options: ServiceOptions,
    origins: Origins,
    /// The requests that wait for changes.
    feeds: Arc<AccountLimits>,
}

/// Reads an address, for the fuzz target.
pub(crate) fn parse_address(text: &str) {
    if let Ok(uri) = text.parse() {
        let _ = Target::parse(&uri);
    }
}

/// Returns a number that identifies a server, from its name. It stays the same over restarts, so that clients find
/// their places again.
#[must_use]
pub fn server_uuid(server: &str) -> String {
    let mut uuid = [0; 16];
    blake3::Hasher::new().update(b"couchdb server\0").update(server.as_bytes()).finalize_xof().fill(&mut uuid);
    base::hex::lower(&uuid)
}

impl Service {
    /// Creates the service.
    #[must_use]
    pub fn new(services: Services, options: ServiceOptions) -> Arc<Self> {
        let origins = Origins::new(options.origins.clone());
        let feeds = AccountLimits::new(FEEDS_PER_PERSON_MAX, FEEDS_MAX);
        Arc::new(Self { services, options, origins, feeds })
    }

    /// Returns the routes of the protocol.
    pub fn routes(self: &Arc<Self>) -> Router {
        let service = Arc::clone(self);
        Router::new().fallback(move |Extension(context): Extension<RequestContext>, request: Request<Body>| {
            let service = Arc::clone(&service);
            async move { handle(&service, context, request).await }
        })
    }

    /// Runs a verb on a worker, and waits until what it has read or written is durable.
    async fn run<R, F>(&self, caller: &Caller, command: &'static str, work: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce() -> Result<(R, Ticket)> + Send + 'static,
    {
        let label = JobLabel::new(JobOwner::account(caller.login()), "couchdb", command);
        let ran = self.services.pool.run_awaited(label, work).await;
        let (reply, ticket) = ran.map_err(|error| {
            tracing::error!(target: "couchdb", %error, command, "a request did not run to completion");
            Error::Unavailable
        })??;
        self.services.databases.store().durable(ticket).await.map_err(notes::Error::from)?;
        Ok(reply)
    }
}

/// An open database and the caller's right to read it.
pub(crate) struct OpenDatabase {
    database: Arc<Database>,
    reader: Access<level::Reader>,
}

impl OpenDatabase {
    /// Opens a database that is open to clients of this protocol. One that is not, and one that the caller may not
    /// read, does not exist.
    fn open(databases: &Databases, caller: &Caller, path: &str) -> Result<Self> {
        let absent = || Error::NotFound("Database does not exist.");
        let database = match databases.database_open(path) {
            Ok(database) => database,
            Err(notes::Error::NotFound { .. } | notes::Error::Invalid { .. }) => return Err(absent()),
            Err(error) => return Err(error.into()),
        };
        if !database.record().options.is_open_to_couchdb {
            return Err(absent());
        }
        match database.authorize(&caller.identity) {
            Ok(reader) => Ok(Self { database, reader }),
            Err(notes::Error::AccessDenied { .. }) => Err(absent()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A request and where it came from.
pub(crate) struct Call {
    service: Arc<Service>,
    context: RequestContext,
    method: Method,
    headers: HeaderMap,
    target: Target,
}

async fn handle(service: &Arc<Service>, context: RequestContext, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let origin = head.headers.get(header::ORIGIN).cloned();
    let origins = &service.origins;
    let method = if head.method == Method::HEAD { Method::GET } else { head.method };
    let mut response = if method == Method::OPTIONS {
        origins.preflight(origin.as_ref(), "GET, HEAD, POST, PUT, DELETE", SENT_FIELDS)
    } else if method != Method::GET && origins.sender(&head.headers) == Sender::Foreign {
        Error::Forbidden("pages of this origin may not change anything here".to_owned()).into_response()
    } else {
        let answered = match Target::parse(&head.uri) {
            Ok(target) => {
                let call = Call { service: Arc::clone(service), context, method, headers: head.headers, target };
                verbs::answer(call, body).await
            }
            Err(error) => Err(error),
        };
        answered.unwrap_or_else(IntoResponse::into_response)
    };
    origins.permit_answer(origin.as_ref(), "content-type, etag", response.headers_mut());
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("must-revalidate"));
    response
}

impl Call {
    /// Returns the token of the cookie session, if the request has one.
    fn token(&self) -> Option<&str> {
        cookie(&self.headers, SESSION_COOKIE)
    }

    /// Returns the person for whom the request is executed: by a name and a password in the request, or by a session.
    async fn caller(&self) -> Result<Caller> {
        let authenticator = &self.service.services.authenticator;
        let by = (LoginProtocol::Http, &[SESSION_COOKIE][..]);
        Ok(authenticator.caller(&self.context, &self.headers, by).await?)
    }
}
