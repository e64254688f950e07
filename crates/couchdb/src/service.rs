//! The requests over HTTP: connections, logins, origins, and the way of a request to its verb.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::body::Body;
use axum::response::IntoResponse;
use base::memory::MemoryShares;
use base::sync::Mutex;
use base::{Clock, Random};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use notes::{Access, Database, Databases, Identity, level};
use sasl::{LoginOrigin, LoginProtocol, PasswordRequest};
use store::Ticket;
use wire::{JobLabel, JobOwner, Peer, SessionTermination, Shutdown, Stream, WorkerPool};

use crate::backend::{Accounts, LoggedIn};
use crate::compression::{compressed, is_accepted};
use crate::error::{Error, Result};
use crate::limits::{FEEDS_MAX, FEEDS_PER_PERSON_MAX, HEADER_TIME_MAX};
use crate::sessions::{SessionLogin, Sessions};

mod answer;
mod feeds;
mod listing;
mod multipart_answer;
mod request;
mod request_body;
mod verbs;

use request::Target;

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
    /// Logins and identities.
    pub accounts: Arc<dyn Accounts>,
    /// The pool that runs the verbs.
    pub pool: WorkerPool,
    /// The pool that checks logins.
    pub login_pool: WorkerPool,
    /// The memory for requests, which the server shares between all protocols.
    pub memory: Arc<MemoryShares>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The random number generator.
    pub random: Arc<dyn Random>,
    /// The signal that the server shuts down.
    pub shutdown: Shutdown,
}

/// The state shared by all connections.
pub struct Service {
    services: Services,
    options: ServiceOptions,
    sessions: Sessions,
    /// The number of requests that wait for changes, by person.
    feeds: Mutex<std::collections::HashMap<String, usize>>,
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
        let sessions = Sessions::new(Arc::clone(&services.clock), Arc::clone(&services.random));
        Arc::new(Self { services, options, sessions, feeds: Mutex::default() })
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

    /// Registers a request that waits for changes.
    fn begin_feed(self: &Arc<Self>, caller: &Caller) -> Result<FeedPermit> {
        let mut feeds = self.feeds.lock();
        let total: usize = feeds.values().sum();
        let own = feeds.entry(caller.login().to_owned()).or_default();
        if total >= FEEDS_MAX || *own >= FEEDS_PER_PERSON_MAX {
            return Err(Error::Exhausted("too many requests wait for changes; close some of them"));
        }
        *own += 1;
        Ok(FeedPermit { service: Arc::clone(self), login: caller.login().to_owned() })
    }
}

/// Counts a request that waits for changes until it is dropped.
struct FeedPermit {
    service: Arc<Service>,
    login: String,
}

impl Drop for FeedPermit {
    fn drop(&mut self) {
        let mut feeds = self.service.feeds.lock();
        if let Some(count) = feeds.get_mut(&self.login) {
            *count -= 1;
            if *count == 0 {
                feeds.remove(&self.login);
            }
        }
    }
}

/// The person for whom a request is executed.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    identity: Arc<Identity>,
}

impl Caller {
    fn login(&self) -> &str {
        self.identity.name.canonical()
    }

    /// Opens a database that is open to clients of this protocol. One that is not, and one that the caller may not
    /// read, does not exist.
    fn open(&self, databases: &Databases, path: &str) -> Result<OpenDatabase> {
        let absent = || Error::NotFound("Database does not exist.");
        let database = match databases.database_open(path) {
            Ok(database) => database,
            Err(notes::Error::NotFound { .. } | notes::Error::Invalid { .. }) => return Err(absent()),
            Err(error) => return Err(error.into()),
        };
        if !database.record().options.is_open_to_couchdb {
            return Err(absent());
        }
        match database.authorize(&self.identity) {
            Ok(reader) => Ok(OpenDatabase { database, reader }),
            Err(notes::Error::AccessDenied { .. }) => Err(absent()),
            Err(error) => Err(error.into()),
        }
    }
}

/// An open database and the caller's right to read it.
pub(crate) struct OpenDatabase {
    database: Arc<Database>,
    reader: Access<level::Reader>,
}

/// Serves one connection until it ends.
pub async fn serve(
    stream: Stream,
    peer: Peer,
    service: Arc<Service>,
    termination: SessionTermination,
) -> io::Result<()> {
    let shutdown = service.services.shutdown.clone();
    let handler = {
        let service = Arc::clone(&service);
        hyper::service::service_fn(move |request| {
            let service = Arc::clone(&service);
            async move { Ok::<_, Infallible>(handle(&service, peer, request).await) }
        })
    };
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME_MAX).keep_alive(true);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), handler));
    let mut is_draining = false;
    loop {
        tokio::select! {
            biased;
            () = shutdown.closing() => return Ok(()),
            outcome = connection.as_mut() => return outcome.map_err(io::Error::other),
            () = shutdown.draining(), if !is_draining => {
                is_draining = true;
                connection.as_mut().graceful_shutdown();
            }
            () = termination.terminated(), if !is_draining => {
                is_draining = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// A request and where it came from.
pub(crate) struct Call {
    service: Arc<Service>,
    peer: Peer,
    method: Method,
    headers: HeaderMap,
    target: Target,
}

async fn handle(service: &Arc<Service>, peer: Peer, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let origin = head.headers.get(header::ORIGIN).cloned();
    let is_allowed = origin.as_ref().is_some_and(|origin| is_allowed_origin(service, origin));
    // On this machine, compression takes more time than it saves.
    let is_compressed = is_accepted(&head.headers) && !peer.loopback;
    let is_head = head.method == Method::HEAD;
    let method = if is_head { Method::GET } else { head.method };
    let mut response = if method == Method::OPTIONS {
        preflight(is_allowed)
    } else if method != Method::GET && is_foreign(origin.as_ref(), &head.headers, is_allowed) {
        Error::Forbidden("pages of this origin may not change anything here".to_owned()).into_response()
    } else {
        let answered = match Target::parse(&head.uri) {
            Ok(target) => {
                let call = Call { service: Arc::clone(service), peer, method, headers: head.headers, target };
                verbs::answer(call, body).await
            }
            Err(error) => Err(error),
        };
        answered.unwrap_or_else(IntoResponse::into_response)
    };
    if is_compressed && !is_head {
        response = compressed(response);
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(origin) = origin.filter(|_| is_allowed) {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("content-type, etag"));
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("must-revalidate"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_head {
        *response.body_mut() = Body::empty();
    }
    response
}

fn is_allowed_origin(service: &Service, origin: &HeaderValue) -> bool {
    service.options.origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes())
}

/// Returns `true` if a browser sends a request for a page of another origin that is not permitted. The cookie of a
/// session would otherwise let any page act for the person.
fn is_foreign(origin: Option<&HeaderValue>, headers: &HeaderMap, is_allowed: bool) -> bool {
    let Some(origin) = origin.filter(|_| !is_allowed) else { return false };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    origin.to_str().ok().and_then(|origin| origin.strip_prefix("https://")) != Some(host)
}

/// Answers the question of a browser whether a page may send a request.
fn preflight(is_allowed: bool) -> Response<Body> {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if is_allowed {
        let headers = response.headers_mut();
        let methods = HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE");
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        let allowed = HeaderValue::from_static("accept, authorization, content-type, if-match, origin, referer");
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    }
    response
}

impl Call {
    fn origin(&self) -> LoginOrigin {
        self.peer.login_origin(LoginProtocol::Http)
    }

    /// Returns the token of the cookie session, if the request has one.
    fn token(&self) -> Option<&str> {
        let cookies = self.headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == "AuthSession").map(|(_, token)| token)
    }

    /// Returns the person for whom the request is executed: by a name and a password in the request, or by a session.
    async fn caller(&self) -> Result<Caller> {
        let needed = || Error::Unauthorized("You are not authorized to access this db.".to_owned());
        if let Some(value) = self.headers.get(header::AUTHORIZATION) {
            let (name, password) = basic_credentials(value).ok_or_else(needed)?;
            let request = PasswordRequest::without_sasl(name.as_bytes(), password.as_bytes())?;
            return Ok(Caller { identity: self.log_in(request).await?.identity });
        }
        let session = self.token().and_then(|token| self.service.sessions.find(token)).ok_or_else(needed)?;
        let origin = self.origin();
        let SessionLogin { login, stamp } = session;
        let service = Arc::clone(&self.service);
        let label = JobLabel::new(JobOwner::account(&login), "couchdb", "session");
        let identified = self
            .service
            .services
            .pool
            .run_awaited(label, move || service.services.accounts.identify(&origin, &login, Some(stamp)));
        let LoggedIn { identity, .. } = identified.await.map_err(|_| Error::Unavailable)??;
        Ok(Caller { identity })
    }

    /// Checks a name and a password.
    async fn log_in(&self, request: PasswordRequest) -> Result<LoggedIn> {
        let origin = self.origin();
        let service = Arc::clone(&self.service);
        let address = self.peer.ip();
        let check = move || {
            let accounts = &service.services.accounts;
            let login = accounts.check_password(&origin, &request)?;
            accounts.identify(&origin, &login.name, None)
        };
        let label = JobLabel::new(JobOwner::stranger(address), "couchdb", "login");
        let checked = self.service.services.login_pool.run_awaited(label, check).await;
        Ok(checked.map_err(|_| Error::Unavailable)??)
    }

    /// Returns the address of the peer, for the log.
    fn address(&self) -> IpAddr {
        self.peer.ip()
    }
}

/// Returns the name and the password of the header field `Authorization` (RFC 7617).
fn basic_credentials(value: &HeaderValue) -> Option<(String, String)> {
    let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    decoded.split_once(':').map(|(name, password)| (name.to_owned(), password.to_owned()))
}
