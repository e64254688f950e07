//! The requests over HTTP: logins, origins, limits, and the way of a request to the pool of workers and back.
//!
//! | resource | method | content |
//! |---|---|---|
//! | `/.well-known/jmap`, `/jmap/session` | GET | the Session object (RFC 8620 §2) |
//! | `/jmap/api` | POST | a Request object and its Response (§3) |
//! | `/jmap/upload/{account}/` | POST | an upload (§6.1) |
//! | `/jmap/download/{account}/{blob}/{name}` | GET | a blob, whole or in part (§6.2, RFC 9110 §14) |
//! | `/jmap/events` | GET | the event source (§7.3) |
//! | `/jmap/ws` | GET | requests and push over WebSocket (RFC 8887) |
//!
//! Nothing here blocks: what reads or changes a mail file is a job, and an answer is sent only when what it says is
//! durable. A request needs a login (Basic, Bearer or the cookie of a session). Pages of other origins get nothing
//! unless the operator has named them.

mod api;
mod blobs;
mod events;
mod metered_stream;
mod push_delivery;
pub mod push_sender;
pub(crate) mod resource_address;
mod socket;
mod state_events;

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Extension, Router};
use base::memory::MemoryShares;
use http::account_limits::AccountLimits;
use http::login::{COOKIE, PLAIN_COOKIE};
use http::origin::{Origins, Sender};
use http::problem::Problem;
use http::statistics::with_route_names;
use http::{Authenticator, Refusal, RequestContext};
use sasl::{LoginError, LoginProtocol};
use store::{Store, Ticket};
use wire::{JobLabel, JobOwner, Shutdown, WorkerPool};

use crate::limits::{
    EVENT_SOURCES_MAX, EVENT_SOURCES_PER_ACCOUNT_MAX, REQUESTS_MAX, UPLOADS_MAX, WEBSOCKETS_MAX,
    WEBSOCKETS_PER_ACCOUNT_MAX,
};
use crate::push_subscriptions::APPLICATION_PASSWORD_PREFIX;
use crate::{Caller, Services};
use resource_address::{DOWNLOAD_ROUTE, EVENTS_ROUTE, UPLOAD_ROUTE, session_urls};

/// The header fields that pages of permitted origins may send.
const SENT_FIELDS: &str = "accept, authorization, content-type, last-event-id";

/// The services that the requests over HTTP use.
pub struct ServiceParts {
    /// The mail files, and what the methods use.
    pub services: Arc<Services>,
    /// The check of logins.
    pub authenticator: Authenticator,
    /// The pool that runs the methods.
    pub pool: WorkerPool,
    /// The store, which knows what is durable.
    pub store: Arc<Store>,
    /// The memory for requests, which the server shares between all protocols.
    pub memory: Arc<MemoryShares>,
    /// The signal that the server shuts down.
    pub shutdown: Shutdown,
    /// The origins whose pages may use the server, such as `https://app.acme.test`.
    pub origins: Vec<String>,
}

/// The state shared by all connections.
pub struct Service {
    parts: ServiceParts,
    origins: Origins,
    requests: Arc<AccountLimits>,
    uploads: Arc<AccountLimits>,
    event_sources: Arc<AccountLimits>,
    sockets: Arc<AccountLimits>,
}

type Answer = Result<Response<Body>, Problem>;

/// The future that completes when a login ends: with its session, or with a change of the account.
type LoginEnd = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The login of a request.
struct RequestLogin {
    /// The person for whom it is executed.
    caller: Caller,
    found: http::Caller,
}

impl Service {
    /// Creates the service.
    #[must_use]
    pub fn new(parts: ServiceParts) -> Arc<Self> {
        let origins = Origins::new(parts.origins.clone());
        let limits = &parts.services.limits;
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let requests = AccountLimits::new(count(limits.concurrent_requests_max), REQUESTS_MAX);
        let uploads = AccountLimits::new(count(limits.concurrent_uploads_max), UPLOADS_MAX);
        let event_sources = AccountLimits::new(EVENT_SOURCES_PER_ACCOUNT_MAX, EVENT_SOURCES_MAX);
        let sockets = AccountLimits::new(WEBSOCKETS_PER_ACCOUNT_MAX, WEBSOCKETS_MAX);
        Arc::new(Self { parts, origins, requests, uploads, event_sources, sockets })
    }

    /// Returns the routes.
    pub fn routes(self: &Arc<Self>) -> Router {
        let service = Arc::clone(self);
        let check = middleware::from_fn(move |request: Request, next: Next| {
            let service = Arc::clone(&service);
            async move { service.check_origin(request, next).await }
        });
        let routes = Router::new()
            .route("/.well-known/jmap", get(session))
            .route("/jmap/session", get(session))
            .route("/jmap/api", post(api::answer))
            .route(UPLOAD_ROUTE, post(blobs::upload))
            .route(DOWNLOAD_ROUTE, get(blobs::download))
            .route(EVENTS_ROUTE, get(events::answer))
            .route("/jmap/ws", get(socket::answer))
            .layer(Extension(Arc::clone(self)))
            .layer(check);
        with_route_names(routes)
    }

    /// Refuses requests of pages of foreign origins, and answers what browsers ask before those of permitted ones.
    async fn check_origin(&self, request: Request, next: Next) -> Response<Body> {
        let origin = request.headers().get(header::ORIGIN).cloned();
        let mut response = if request.method() == Method::OPTIONS {
            self.origins.preflight(origin.as_ref(), "GET, POST", SENT_FIELDS)
        } else if self.origins.sender(request.headers()) == Sender::Foreign {
            Problem::new(StatusCode::FORBIDDEN, "pages of this origin may not use this server").into_response()
        } else {
            next.run(request).await
        };
        self.origins.permit_answer(origin.as_ref(), "etag, content-disposition", response.headers_mut());
        response
    }

    /// Returns the person for whom a request is executed.
    async fn caller(&self, context: &RequestContext, headers: &HeaderMap) -> Result<Caller, Problem> {
        self.login(context, headers).await.map(|login| login.caller)
    }

    /// Returns the login of a request.
    async fn login(&self, context: &RequestContext, headers: &HeaderMap) -> Result<RequestLogin, Problem> {
        let cookies: &[&str] = if context.peer.tls { &[COOKIE] } else { &[PLAIN_COOKIE] };
        let found = self.parts.authenticator.caller(context, headers, (LoginProtocol::Jmap, cookies)).await;
        let found = found.map_err(refusal)?;
        let scope = found.password.scope();
        let credential = found
            .session
            .map(|session| session.name())
            .or_else(|| found.password.application().map(|id| format!("{APPLICATION_PASSWORD_PREFIX}{id}")))
            .unwrap_or_default();
        let caller = Caller { login: found.login().to_owned(), scope, credential };
        Ok(RequestLogin { caller, found })
    }

    /// Returns the end of the login of a request whose answer goes on without end. The connection may carry requests of
    /// other people meanwhile, so its own end is not enough.
    async fn login_end(&self, context: &RequestContext, found: &http::Caller) -> Result<LoginEnd, Problem> {
        let watched = self.parts.authenticator.watch(context, found, LoginProtocol::Jmap).await;
        let login = watched.map_err(|error| refusal(error.into()))?;
        Ok(Box::pin(async move { login.ended().await }))
    }

    /// Runs work for a person on a worker, and waits until what it has read or written is durable.
    async fn run<R, F>(&self, caller: &Caller, command: &'static str, work: F) -> Result<R, Problem>
    where
        R: Send + 'static,
        F: FnOnce(&Services) -> (R, Ticket) + Send + 'static,
    {
        let label = JobLabel::new(JobOwner::account(&caller.login), "jmap", command);
        let services = Arc::clone(&self.parts.services);
        let ran = self.parts.pool.run_awaited(label, move || work(&services)).await;
        let (reply, ticket) = ran.map_err(|error| {
            tracing::error!(target: "jmap", %error, command, "a request did not run to completion");
            unavailable()
        })?;
        self.parts.store.durable(ticket).await.map_err(|error| {
            tracing::error!(target: "jmap", %error, command, "a change did not become durable");
            unavailable()
        })?;
        Ok(reply)
    }
}

fn unavailable() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server cannot answer now; try again later")
}

/// Returns the problem of a request that is executed for nobody.
fn refusal(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Missing => Problem::new(StatusCode::UNAUTHORIZED, "log in with a name and a password"),
        Refusal::Login(LoginError::Throttled) => {
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many failed logins; wait a minute")
        }
        Refusal::Login(LoginError::Unavailable) => unavailable(),
        Refusal::Login(LoginError::ApplicationPasswordRequired) => Problem::new(
            StatusCode::UNAUTHORIZED,
            "this account has a second factor: log in with an application password, which you make in the web mail",
        ),
        Refusal::Login(_) => Problem::new(StatusCode::UNAUTHORIZED, "the name or the password is wrong"),
    }
}

/// Adds the schemes of logins to an answer that asks for one. Browsers would show a dialogue of their own, so requests
/// of pages get none.
fn asking_for_login(problem: Problem, headers: &HeaderMap) -> Response<Body> {
    let is_login_missing = problem.status == StatusCode::UNAUTHORIZED;
    let mut response = problem.into_response();
    if is_login_missing && !headers.contains_key("sec-fetch-site") {
        let schemes = response.headers_mut();
        schemes
            .append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"Doublet\", charset=\"UTF-8\""));
    }
    response
}

/// Returns the scheme and the host with which the client has reached the server.
fn base_url(context: &RequestContext, request: &Request) -> Option<String> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = request.uri().authority().map(|authority| authority.as_str()).or(host)?;
    let is_plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte));
    let scheme = if context.peer.tls { "https" } else { "http" };
    is_plain.then(|| format!("{scheme}://{host}"))
}

async fn session(
    Extension(service): Extension<Arc<Service>>,
    Extension(context): Extension<RequestContext>,
    request: Request,
) -> Response<Body> {
    let base = base_url(&context, &request);
    let headers = request.headers().clone();
    let answered = async {
        let caller = service.caller(&context, &headers).await?;
        let base = base.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "the request names no valid host"))?;
        let urls = session_urls(&base);
        let of_job = caller.clone();
        let made = service.run(&caller, "session", move |services| {
            (crate::session(services, &of_job, &urls).map(|session| session.to_string()), Ticket::NONE)
        });
        let text = made.await?.map_err(|error| failed("session", &error))?;
        let fields = [
            (header::CONTENT_TYPE, "application/json"),
            (header::CACHE_CONTROL, "no-cache, no-store, must-revalidate"),
        ];
        Ok::<_, Problem>((fields, text).into_response())
    };
    answered.await.unwrap_or_else(|problem| asking_for_login(problem, &headers))
}

/// Logs an error of the server, and returns what the client is told.
fn failed(command: &'static str, error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(target: "jmap", %error, command, "a request failed");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the server has failed; its log has the reason")
}
