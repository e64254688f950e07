//! Admission of calls: each call is checked for its form, its caller, its time limit and its memory before it is
//! served.
//!
//! No part of a request's body is read before the caller is known. Only the few calls that need no session accept a
//! body from an unauthenticated peer, and only a small one. Calls are refused in the way of gRPC: with HTTP status 200
//! and the reason in the trailers.
//!
//! Each call is a debug event of the target `rpc`. It never contains a part of the request except for the path of a
//! call that exists.

use std::sync::Arc;
use std::time::Duration;

use base::memory::MemoryBudget;
use tokio::time::Instant;
use tonic::codegen::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use tonic::{Code, Status};
use wire::{JobLabel, Peer, ReadProgress};

use crate::error::{Error, Result};
use crate::limits::{EXCHANGE_STEPS_MAX, EXCHANGE_TIME_MAX, LOGIN_MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::memory::RequestMemory;
use crate::request_body::{RequestBody, RequestLimits};
use crate::response_body::ResponseBody;
use crate::service::Service;
use crate::session::Session;

/// Calls that need no session.
const CALLS_WITHOUT_SESSION: &[&str] =
    &["/doublet.v1.Sessions/Login", "/doublet.v1.Sessions/Authenticate", "/doublet.v1.Sessions/GetServer"];

/// Calls with streaming requests, and the maximum number of their messages.
const STREAMED: &[(&str, usize)] = &[
    // One more than allowed, so that the exchange itself can refuse it with a specific error.
    ("/doublet.v1.Sessions/Authenticate", EXCHANGE_STEPS_MAX + 1),
    ("/doublet.v1.Notes/AttachFile", usize::MAX),
    ("/doublet.v1.Mail/DepositMail", usize::MAX),
    ("/doublet.v1.Replication/WriteReplicaNotes", usize::MAX),
];

/// The call that ends its own session but still gets a reply.
const LOGOUT: &str = "/doublet.v1.Sessions/Logout";

/// Calls without a time limit. Large notes and attachments need more time on slow lines; a connection on which nothing
/// is read any more is closed.
const CALLS_WITHOUT_TIME_LIMIT: &[&str] = &[
    "/doublet.v1.Changes/WatchChanges",
    "/doublet.v1.Replication/ReadReplicaNotes",
    "/doublet.v1.Replication/ReadContents",
    "/doublet.v1.Replication/WriteReplicaNotes",
];

/// The caller of a call. It is passed along with the request.
#[derive(Clone)]
pub struct Caller {
    /// The peer of the connection.
    pub peer: Peer,
    /// The path of the call.
    pub path: &'static str,
    /// The session; `None` only in calls that need none.
    pub session: Option<Arc<Session>>,
    /// The time at which the call must have ended; `None` if it has no time limit.
    pub deadline: Option<Instant>,
    /// The budget for the memory of the call: the share of the account or, without a session, of the peer.
    pub budget: MemoryBudget,
    /// The memory of the request. It is held until the last clone of this value is dropped, so a job that continues
    /// after its caller has gone still holds it.
    pub memory: RequestMemory,
}

impl Caller {
    /// Returns the session. Returns [`Error::NoSession`] if there is none.
    pub fn session(&self) -> Result<&Arc<Session>> {
        self.session.as_ref().ok_or(Error::NoSession)
    }

    /// Returns the label of the call's jobs in the worker pool: the account or, before the login, the peer.
    #[must_use]
    pub fn job_label(&self) -> JobLabel {
        let owner = self.session.as_ref().map(|session| session.job_owner.clone());
        let command = self.path.strip_prefix("/doublet.v1.").unwrap_or(self.path);
        JobLabel::new(owner.unwrap_or_else(|| self.peer.job_owner()), "native", command)
    }

    /// Waits until the session is ended. Without a session, waits forever.
    pub async fn ended(&self) {
        match &self.session {
            Some(session) => session.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the deadline of the call. Without a deadline, waits forever.
    pub async fn deadline_passed(&self) {
        match self.deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }
}

/// The session that a connection has without a login.
pub enum PeerServer {
    /// The peer has presented no certificate with the name of a server.
    None,
    /// The peer is another server, or the person who works on a local store. Calls without a token are made with this
    /// session.
    Other(Arc<Session>),
    /// The certificate has the name of this server, which may do everything. Any root that signs certificates of other
    /// servers could sign it, so it proves nothing. Calls without a token are refused.
    OwnName,
}

/// The state shared by the calls of one connection.
pub struct ConnectionState {
    /// The service.
    pub service: Arc<Service>,
    /// The peer of the connection.
    pub peer: Peer,
    /// The server that the peer is according to its certificate.
    pub server: PeerServer,
    /// The memory share of the peer, for calls without a session.
    pub budget: MemoryBudget,
    /// Tracks the peer's progress in reading its replies.
    pub reading: Arc<ReadProgress>,
}

/// A marker on the response to a caller with a session.
#[derive(Clone)]
pub struct Authenticated;

/// Serves one call. `held` is kept until the reply body is dropped.
pub async fn serve_call(
    connection: &ConnectionState,
    request: Request<hyper::body::Incoming>,
    held: Box<dyn Send>,
) -> Response<ResponseBody> {
    let begun = Instant::now();
    let counters = connection.service.statistics.call(request.uri().path());
    let method = counters.map(|call| call.path);
    if let Some(call) = counters {
        call.record_request();
    }
    let mut budget = connection.budget.clone();
    let mut is_known = false;
    let outcome = match admit(connection, method, &request) {
        Ok((path, caller)) => {
            is_known = caller.session.is_some();
            budget = caller.budget.clone();
            serve(connection, (path, caller), request).await
        }
        Err(Refused::Http(status)) => empty_response(status),
        Err(Refused::Call(error)) => Status::from(error).into_http(),
        Err(Refused::Unknown) => Status::unimplemented("unknown call").into_http(),
    };
    if let Some(call) = counters {
        call.record_reply(begun.elapsed());
    }
    log_reply(&connection.peer, method, &outcome, begun);
    let (mut parts, body) = outcome.into_parts();
    if is_known {
        parts.extensions.insert(Authenticated);
    }
    Response::from_parts(parts, ResponseBody::new(body, budget, Arc::clone(&connection.reading), held))
}

/// Reports a call whose reply begins now. The status is known only if it is in the header of the reply, as in most
/// replies without a message.
fn log_reply(peer: &Peer, method: Option<&'static str>, reply: &Response<tonic::body::Body>, begun: Instant) {
    let code = reply.headers().get("grpc-status").map(|code| Code::from_bytes(code.as_bytes()));
    tracing::debug!(
        target: "rpc",
        connection = peer.connection,
        %peer,
        path = method,
        code = code.map(tracing::field::debug),
        http_status = reply.status().as_u16(),
        duration_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
        "call answered"
    );
}

enum Refused {
    /// The request is not gRPC.
    Http(StatusCode),
    /// The call does not exist.
    Unknown,
    /// The caller may not make the call.
    Call(Error),
}

/// Determines the call and its caller. `method` is the path of the call if the call exists. Returns the reason if the
/// call is refused.
fn admit(
    connection: &ConnectionState,
    method: Option<&'static str>,
    request: &Request<hyper::body::Incoming>,
) -> std::result::Result<(&'static str, Caller), Refused> {
    if request.method() != Method::POST {
        return Err(Refused::Http(StatusCode::METHOD_NOT_ALLOWED));
    }
    let is_grpc = |value: &HeaderValue| value.as_bytes().starts_with(b"application/grpc");
    if !request.headers().get(header::CONTENT_TYPE).is_some_and(is_grpc) {
        return Err(Refused::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let path = method.ok_or(Refused::Unknown)?;
    let session = if CALLS_WITHOUT_SESSION.contains(&path) {
        None
    } else {
        Some(find_session(connection, request.headers()).map_err(Refused::Call)?)
    };
    let time_max = call_time_max(connection, path, request.headers());
    let deadline = time_max.and_then(|time_max| Instant::now().checked_add(time_max));
    let budget = session.as_ref().map_or(&connection.budget, |session| &session.budget).clone();
    Ok((path, Caller { peer: connection.peer, path, session, deadline, budget, memory: RequestMemory::default() }))
}

fn find_session(connection: &ConnectionState, headers: &HeaderMap) -> Result<Arc<Session>> {
    let Some(authorization) = headers.get(header::AUTHORIZATION) else {
        return match &connection.server {
            PeerServer::Other(session) => Ok(Arc::clone(session)),
            PeerServer::OwnName => Err(Error::OwnName),
            PeerServer::None => Err(Error::NoSession),
        };
    };
    let text = authorization.to_str().map_err(|_| Error::NoSession)?;
    let (scheme, token) = text.split_once(' ').ok_or(Error::NoSession)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Error::NoSession);
    }
    connection.service.sessions.find(token.trim())
}

/// Returns the time limit of a call: that of the client, but at most that of the server. Calls that last have no limit
/// of the server.
fn call_time_max(connection: &ConnectionState, path: &str, headers: &HeaderMap) -> Option<Duration> {
    let requested = headers.get("grpc-timeout").and_then(|value| parse_timeout(value.to_str().ok()?));
    if CALLS_WITHOUT_TIME_LIMIT.contains(&path) {
        return requested;
    }
    let allowed =
        if path.ends_with("/Authenticate") { EXCHANGE_TIME_MAX } else { connection.service.options.call_time_max };
    Some(requested.map_or(allowed, |requested| requested.min(allowed)))
}

/// Parses the `grpc-timeout` header: at most eight digits and a unit.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count.saturating_mul(3_600)),
        "M" => Duration::from_secs(count.saturating_mul(60)),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

async fn serve(
    connection: &ConnectionState,
    (path, caller): (&'static str, Caller),
    request: Request<hyper::body::Incoming>,
) -> Response<tonic::body::Body> {
    let (mut parts, body) = request.into_parts();
    let body = RequestBody::new(body, request_limits(path, &caller));
    parts.extensions.insert(caller.clone());
    let request = Request::from_parts(parts, body);
    let is_logout = path == LOGOUT;
    tokio::select! {
        biased;
        response = crate::service::route(&connection.service, request) => response,
        () = caller.deadline_passed() => Status::deadline_exceeded("the call exceeded its time limit").into_http(),
        () = caller.ended(), if !is_logout => Status::from(Error::NoSession).into_http(),
    }
}

/// Returns the limits for the request of a call.
fn request_limits(path: &'static str, caller: &Caller) -> RequestLimits {
    let budget = caller.budget.clone();
    let bytes_max = if CALLS_WITHOUT_SESSION.contains(&path) { LOGIN_MESSAGE_BYTES_MAX } else { MESSAGE_BYTES_MAX };
    match STREAMED.iter().find(|(streamed, _)| *streamed == path) {
        Some((_, messages_max)) => RequestLimits { path, budget, bytes_max, messages_max: *messages_max, memory: None },
        None => RequestLimits { path, budget, bytes_max, messages_max: 1, memory: Some(caller.memory.clone()) },
    }
}

fn empty_response(status: StatusCode) -> Response<tonic::body::Body> {
    let mut response = Response::new(tonic::body::Body::empty());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts_are_parsed() {
        let check = |text: &str, expected: Option<Duration>| assert_eq!(parse_timeout(text), expected, "{text}");
        check("5S", Some(Duration::from_secs(5)));
        check("99999999H", Some(Duration::from_secs(99_999_999 * 3_600)));
        check("250m", Some(Duration::from_millis(250)));
        check("1u", Some(Duration::from_micros(1)));
        check("7n", Some(Duration::from_nanos(7)));
        for broken in ["", "S", "5", "5s", "-5S", "123456789S", "1.5S", "5é"] {
            check(broken, None);
        }
    }

    #[test]
    fn call_lists_name_existing_methods() {
        for path in
            CALLS_WITHOUT_SESSION.iter().chain(STREAMED.iter().map(|(path, _)| path)).chain(CALLS_WITHOUT_TIME_LIMIT)
        {
            assert!(proto::METHODS.contains(path), "{path}");
        }
    }

    #[test]
    fn calls_without_a_session_have_small_limits() {
        let caller = Caller {
            peer: Peer::local(),
            path: LOGOUT,
            session: None,
            deadline: None,
            budget: MemoryBudget::new(1),
            memory: RequestMemory::default(),
        };
        for path in proto::METHODS {
            let limits = request_limits(path, &caller);
            let is_stream = STREAMED.iter().any(|(streamed, _)| streamed == path);
            assert_eq!((limits.messages_max == 1, limits.memory.is_some()), (!is_stream, !is_stream), "{path}");
            let is_small = limits.bytes_max <= LOGIN_MESSAGE_BYTES_MAX && limits.messages_max <= 9;
            assert!(is_small || !CALLS_WITHOUT_SESSION.contains(path), "{path}");
        }
    }
}
