//! What every call passes before it is served: its form, who calls, for how long it may run, with how much memory.
//!
//! Nothing of a request's body is read before it is known who calls; only the few calls that need no session take a body from a stranger, and a small
//! one. What is refused here is refused as gRPC does it: HTTP status 200 and the reason in the trailers.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::time::Instant;
use tonic::Status;
use wire::Peer;

use crate::error::{Error, Result};
use crate::incoming::{Incoming, Terms};
use crate::limits::{EXCHANGE_STEPS_MAX, EXCHANGE_TIME_MAX, LOGIN_MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::memory::{Budget, Held};
use crate::outgoing::{Body, Reading};
use crate::service::Service;
use crate::session::Session;

/// Calls that need no session.
const OPEN: &[&str] =
    &["/doublet.v1.Sessions/Login", "/doublet.v1.Sessions/Authenticate", "/doublet.v1.Sessions/GetServer"];

/// Calls whose requests stream, and how many messages they may have.
const STREAMED: &[(&str, usize)] = &[
    // The exchange refuses the one too many by its name.
    ("/doublet.v1.Sessions/Authenticate", EXCHANGE_STEPS_MAX + 1),
    ("/doublet.v1.Notes/AttachFile", usize::MAX),
    ("/doublet.v1.Mail/DepositMail", usize::MAX),
];

/// The call that ends its own session, and is answered all the same.
const LOGOUT: &str = "/doublet.v1.Sessions/Logout";

/// Calls that last until somebody ends them.
const LASTING: &[&str] = &["/doublet.v1.Changes/WatchChanges"];

/// Who makes a call; goes with the request to whoever serves it.
#[derive(Clone)]
pub struct Caller {
    /// The other end.
    pub peer: Peer,
    /// None only in calls that need none.
    pub session: Option<Arc<Session>>,
    /// When the call has to have ended; none if it lasts.
    pub deadline: Option<Instant>,
    /// What the request holds of the memory, until the last clone of this is gone: a job that runs on for nobody holds it, too.
    pub held: Held,
}

impl Caller {
    /// Gives the session.
    pub fn session(&self) -> Result<&Arc<Session>> {
        self.session.as_ref().ok_or(Error::NoSession)
    }

    /// Gives the budget for what the call holds: within the account's share, where it is known whose it is.
    #[must_use]
    pub fn budget(&self, all: &Budget) -> Budget {
        self.session.as_ref().map_or_else(|| all.clone(), |session| all.within(&session.share))
    }

    /// Waits until the session is ended; without one, for good.
    pub async fn ended(&self) {
        match &self.session {
            Some(session) => session.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the call has to have ended.
    pub async fn overdue(&self) {
        match self.deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }
}

/// What the calls of one connection share.
pub struct Line {
    /// The room.
    pub service: Arc<Service>,
    /// The other end.
    pub peer: Peer,
    /// Stands for the server that has shown its certificate.
    pub server: Option<Arc<Session>>,
    /// Whether the peer reads.
    pub reading: Arc<Reading>,
}

/// Marks the response to somebody who has a session.
#[derive(Clone)]
pub struct Known;

/// Answers one call; `held` is kept until the reply is on its way.
pub async fn answer(line: &Line, request: Request<hyper::body::Incoming>, held: Box<dyn Send>) -> Response<Body> {
    let mut budget = line.service.budget.clone();
    let mut is_known = false;
    let outcome = match admit(line, &request) {
        Ok((path, caller)) => {
            is_known = caller.session.is_some();
            budget = caller.budget(&budget);
            serve(line, (path, caller), request).await
        }
        Err(Refused::Http(status)) => bare(status),
        Err(Refused::Call(error)) => Status::from(error).into_http(),
        Err(Refused::Unknown) => Status::unimplemented("there is no such call").into_http(),
    };
    let (mut parts, body) = outcome.into_parts();
    if is_known {
        parts.extensions.insert(Known);
    }
    Response::from_parts(parts, Body::new(body, budget, Arc::clone(&line.reading), held))
}

enum Refused {
    /// Not gRPC.
    Http(StatusCode),
    /// No such call.
    Unknown,
    /// Not this caller.
    Call(Error),
}

/// Tells which call it is, and whose.
fn admit(
    line: &Line,
    request: &Request<hyper::body::Incoming>,
) -> std::result::Result<(&'static str, Caller), Refused> {
    if request.method() != Method::POST {
        return Err(Refused::Http(StatusCode::METHOD_NOT_ALLOWED));
    }
    let is_grpc = |value: &http::HeaderValue| value.as_bytes().starts_with(b"application/grpc");
    if !request.headers().get(http::header::CONTENT_TYPE).is_some_and(is_grpc) {
        return Err(Refused::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let path = request.uri().path();
    let path = *proto::METHODS.iter().find(|known| **known == path).ok_or(Refused::Unknown)?;
    let session = if OPEN.contains(&path) { None } else { Some(find(line, request.headers()).map_err(Refused::Call)?) };
    let time_max = time_max(line, path, request.headers());
    let deadline = time_max.and_then(|time_max| Instant::now().checked_add(time_max));
    Ok((path, Caller { peer: line.peer, session, deadline, held: Held::default() }))
}

fn find(line: &Line, headers: &HeaderMap) -> Result<Arc<Session>> {
    let Some(authorization) = headers.get(http::header::AUTHORIZATION) else {
        return line.server.clone().ok_or(Error::NoSession);
    };
    let text = authorization.to_str().map_err(|_| Error::NoSession)?;
    let (scheme, token) = text.split_once(' ').ok_or(Error::NoSession)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Error::NoSession);
    }
    line.service.sessions.find(token.trim())
}

/// Gives how long a call may take: what the client says, but not more than the server allows.
fn time_max(line: &Line, path: &str, headers: &HeaderMap) -> Option<Duration> {
    let said = headers.get("grpc-timeout").and_then(|value| timeout(value.to_str().ok()?));
    if LASTING.contains(&path) {
        return said;
    }
    let allowed = if path.ends_with("/Authenticate") { EXCHANGE_TIME_MAX } else { line.service.options.call_time_max };
    Some(said.map_or(allowed, |said| said.min(allowed)))
}

/// Reads the field `grpc-timeout`: at most eight digits and a unit.
fn timeout(text: &str) -> Option<Duration> {
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
    line: &Line,
    (path, caller): (&'static str, Caller),
    request: Request<hyper::body::Incoming>,
) -> Response<tonic::body::Body> {
    let (mut parts, body) = request.into_parts();
    let body = Incoming::new(body, terms(path, caller.budget(&line.service.budget), &caller));
    parts.extensions.insert(caller.clone());
    let request = Request::from_parts(parts, body);
    let is_logout = path == LOGOUT;
    tokio::select! {
        biased;
        response = crate::service::route(&line.service, request) => response,
        () = caller.overdue() => Status::deadline_exceeded("the call took too long").into_http(),
        () = caller.ended(), if !is_logout => Status::from(Error::NoSession).into_http(),
    }
}

/// Gives what the request of a call may be.
fn terms(path: &'static str, budget: Budget, caller: &Caller) -> Terms {
    let bytes_max = if OPEN.contains(&path) { LOGIN_MESSAGE_BYTES_MAX } else { MESSAGE_BYTES_MAX };
    match STREAMED.iter().find(|(streamed, _)| *streamed == path) {
        Some((_, messages_max)) => Terms { path, budget, bytes_max, messages_max: *messages_max, held: None },
        None => Terms { path, budget, bytes_max, messages_max: 1, held: Some(caller.held.clone()) },
    }
}

fn bare(status: StatusCode) -> Response<tonic::body::Body> {
    let mut response = Response::new(tonic::body::Body::empty());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read() {
        let check = |text: &str, expected: Option<Duration>| assert_eq!(timeout(text), expected, "{text}");
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
    fn the_lists_name_calls_that_exist() {
        for path in OPEN.iter().chain(STREAMED.iter().map(|(path, _)| path)).chain(LASTING) {
            assert!(proto::METHODS.contains(path), "{path}");
        }
    }

    #[test]
    fn strangers_are_held_to_small_messages_and_few() {
        let caller = Caller { peer: Peer::local(), session: None, deadline: None, held: Held::default() };
        for path in proto::METHODS {
            let terms = terms(path, Budget::new(1), &caller);
            let is_stream = STREAMED.iter().any(|(streamed, _)| streamed == path);
            assert_eq!((terms.messages_max == 1, terms.held.is_some()), (!is_stream, !is_stream), "{path}");
            let is_small = terms.bytes_max <= LOGIN_MESSAGE_BYTES_MAX && terms.messages_max <= 9;
            assert!(is_small || !OPEN.contains(path), "{path}");
        }
    }
}
