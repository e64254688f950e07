//! Sends one message to a push service (RFC 8030): one connection, one request, and the header of the answer.
//!
//! Every connection is made to an address that was checked after its look-up, so a name server cannot answer
//! differently later. An address that does not accept a connection soon, such as one of IPv6 without a route, delays
//! the next one by seconds only ([`PUSH_CONNECT_PAUSE`]), as in RFC 8305. Redirections are not followed, the body of
//! the answer is not read, and there is one deadline for everything.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode, Uri, header};
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use wire::{ClientTls, Stream};

use crate::limits::{
    PUSH_ADDRESSES_MAX, PUSH_ANSWER_BYTES_MAX, PUSH_CONNECT_PAUSE, PUSH_CONNECT_TIME_MAX, PUSH_LIFETIME,
    PUSH_RETRY_AFTER_MAX, PUSH_TIME_MAX,
};
use crate::push_messages::PushMessage;
use crate::push_target::{PushPolicy, PushTarget};

/// The addresses of a host, or the reason why they are not known.
pub type ResolvedAddresses<'r> = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, String>> + Send + 'r>>;

/// The look-up of the addresses of hosts.
pub trait PushResolver: Send + Sync {
    /// Returns the addresses of a host.
    fn addresses<'r>(&'r self, host: &'r str) -> ResolvedAddresses<'r>;
}

/// What the server needs to send pushes.
#[derive(Clone)]
pub struct PushSender {
    /// The look-up of addresses.
    pub resolver: Arc<dyn PushResolver>,
    /// The certificates that the server trusts.
    pub tls: ClientTls,
    /// A URI at which push services reach the operator, such as `mailto:postmaster@acme.test`.
    pub contact: String,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// The push service has it.
    Delivered,
    /// It can be sent again, but not before some time has passed, if the push service names one.
    Later(Option<Duration>, String),
    /// The address takes no pushes any more.
    Gone(String),
}

impl PushSender {
    /// Sends a message.
    pub async fn send(&self, policy: &PushPolicy, target: &PushTarget, message: PushMessage) -> PushOutcome {
        match timeout(PUSH_TIME_MAX, self.exchange(policy, target, message)).await {
            Ok(Ok(response)) => outcome_of(&response),
            Ok(Err(reason)) => PushOutcome::Later(None, reason),
            Err(_) => PushOutcome::Later(None, "the push service has not answered in time".to_owned()),
        }
    }

    async fn exchange(
        &self,
        policy: &PushPolicy,
        target: &PushTarget,
        message: PushMessage,
    ) -> Result<Response<Incoming>, String> {
        let request = request(target, message)?;
        let stream = self.connect(policy, target).await?;
        let stream = match target.is_tls {
            true => stream.connect_tls(&self.tls, &target.host).await.map_err(|error| format!("TLS: {error}"))?,
            false => stream,
        };
        let failed = |error: hyper::Error| format!("HTTP: {error}");
        let mut builder = http1::Builder::new();
        builder.max_buf_size(PUSH_ANSWER_BYTES_MAX);
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
        match select(pin!(sender.send_request(request)), pin!(connection)).await {
            Either::Left((response, _)) => response.map_err(failed),
            // The connection ends with the answer.
            Either::Right((ended, answered)) => {
                ended.map_err(failed)?;
                answered.await.map_err(failed)
            }
        }
    }

    /// Connects to an address of the target that the policy permits.
    async fn connect(&self, policy: &PushPolicy, target: &PushTarget) -> Result<Stream, String> {
        let addresses = match target.host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => self.resolver.addresses(&target.host).await?,
        };
        let mut reason = "the host has no address".to_owned();
        let mut permitted = Vec::new();
        for address in alternating(addresses).into_iter().take(PUSH_ADDRESSES_MAX) {
            match policy.check_address(target, address) {
                Ok(()) => permitted.push(SocketAddr::new(address, target.port)),
                Err(error) => reason = error.to_string(),
            }
        }
        let connected = first_success(permitted.into_iter().map(TcpStream::connect)).await;
        connected.map(Stream::tcp).map_err(|error| error.map_or(reason, |error| error.to_string()))
    }
}

/// Returns addresses with IPv6 and IPv4 in turn, beginning with the first one: if one of them has no route, the other
/// one comes next.
fn alternating(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let is_first_v4 = addresses.first().is_some_and(IpAddr::is_ipv4);
    let of_family = |address: &IpAddr| address.is_ipv4() == is_first_v4;
    let (preferred, others): (Vec<IpAddr>, Vec<IpAddr>) = addresses.into_iter().partition(of_family);
    let mut others = others.into_iter();
    let mut ordered = Vec::new();
    for address in preferred {
        ordered.push(address);
        ordered.extend(others.next());
    }
    ordered.extend(others);
    ordered
}

/// Returns the result of the first attempt that succeeds. An attempt begins when one before it has failed, or after
/// [`PUSH_CONNECT_PAUSE`] without a result, and ends after [`PUSH_CONNECT_TIME_MAX`]. If all have failed, returns the
/// last error, or `None` if there was no attempt.
async fn first_success<T, A>(attempts: impl Iterator<Item = A>) -> Result<T, Option<io::Error>>
where
    A: Future<Output = io::Result<T>>,
{
    let mut attempts = attempts.peekable();
    let mut running = FuturesUnordered::new();
    let mut failure = None;
    loop {
        match attempts.next() {
            Some(attempt) => running.push(timeout(PUSH_CONNECT_TIME_MAX, attempt)),
            None if running.is_empty() => return Err(failure),
            None => {}
        }
        tokio::select! {
            Some(ended) = running.next() => match ended {
                Ok(Ok(result)) => return Ok(result),
                Ok(Err(error)) => failure = Some(error),
                Err(_) => failure = Some(io::ErrorKind::TimedOut.into()),
            },
            () = sleep(PUSH_CONNECT_PAUSE), if attempts.peek().is_some() => {}
        }
    }
}

fn request(target: &PushTarget, message: PushMessage) -> Result<Request<Body>, String> {
    let uri: Uri = target.path.parse().map_err(|_| "the path is not valid".to_owned())?;
    let mut builder = Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header(header::HOST, &target.authority)
        .header(header::CONTENT_TYPE, "application/json")
        .header("ttl", PUSH_LIFETIME.as_secs())
        .header("urgency", "normal")
        .header(header::AUTHORIZATION, &message.authorization)
        .header(header::CONNECTION, "close");
    if message.is_encrypted {
        builder = builder.header(header::CONTENT_ENCODING, "aes128gcm");
    }
    builder.body(Body::from(message.body)).map_err(|error| error.to_string())
}

/// Returns what an answer means (RFC 8620 §7.2). All statuses of errors but two are permanent.
fn outcome_of<B>(response: &Response<B>) -> PushOutcome {
    let status = response.status();
    let answer = || format!("the push service has answered {}", status.as_u16());
    match status {
        _ if status.is_success() => PushOutcome::Delivered,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
            let seconds = after.and_then(|value| value.trim().parse().ok()).map(Duration::from_secs);
            PushOutcome::Later(seconds.map(|wait| wait.min(PUSH_RETRY_AFTER_MAX)), answer())
        }
        _ => PushOutcome::Gone(answer()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// An address that accepts a connection after a number of seconds, or refuses it.
    type TestAddress = (u64, bool);

    async fn connect_after(number: usize, (seconds, is_accepted): TestAddress) -> io::Result<usize> {
        // The time of these tests is not real.
        let answered = timeout(Duration::from_secs(seconds), std::future::pending::<()>()).await;
        assert!(answered.is_err());
        if is_accepted { Ok(number) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
    }

    /// Checks which address is connected, or the error, and the time that this takes.
    async fn check_connected(addresses: &[TestAddress], expected: Result<usize, Option<io::ErrorKind>>, seconds: u64) {
        let begun = Instant::now();
        let attempts = addresses.iter().enumerate().map(|(number, address)| connect_after(number, *address));
        let found = first_success(attempts).await.map_err(|error| error.map(|error| error.kind()));
        assert_eq!((found, begun.elapsed().as_secs()), (expected, seconds), "{addresses:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_without_a_route_delays_the_next_one_by_seconds() {
        let pause = PUSH_CONNECT_PAUSE.as_secs();
        let never: TestAddress = (3_600, true);
        check_connected(&[(0, true), (0, true)], Ok(0), 0).await;
        check_connected(&[never, (0, true)], Ok(1), pause).await;
        check_connected(&[never, never, (1, true)], Ok(2), 2 * pause + 1).await;
        check_connected(&[(0, false), (1, true)], Ok(1), 1).await;
        // A slow address is not given up when the next one begins.
        check_connected(&[(pause + 1, true), never], Ok(0), pause + 1).await;
        check_connected(&[(0, false), (1, false)], Err(Some(io::ErrorKind::ConnectionRefused)), 1).await;
        check_connected(&[never], Err(Some(io::ErrorKind::TimedOut)), PUSH_CONNECT_TIME_MAX.as_secs()).await;
        check_connected(&[], Err(None), 0).await;
    }

    #[test]
    fn addresses_of_both_families_alternate() {
        let check = |addresses: &[&str], expected: &[&str]| {
            let parse = |text: &&str| text.parse::<IpAddr>().expect("an address");
            let found = alternating(addresses.iter().map(parse).collect());
            assert_eq!(found, expected.iter().map(parse).collect::<Vec<_>>());
        };
        check(&["::1", "::2", "::3", "192.0.2.1", "192.0.2.2"], &["::1", "192.0.2.1", "::2", "192.0.2.2", "::3"]);
        check(&["192.0.2.1", "::1", "::2"], &["192.0.2.1", "::1", "::2"]);
        check(&["192.0.2.1", "192.0.2.2"], &["192.0.2.1", "192.0.2.2"]);
        check(&[], &[]);
    }

    #[test]
    fn statuses_decide_about_the_subscription() {
        let check = |status: u16, after: Option<&str>, expected: &str| {
            let mut builder = Response::builder().status(status);
            if let Some(after) = after {
                builder = builder.header(header::RETRY_AFTER, after);
            }
            let found = match outcome_of(&builder.body(()).expect("a response")) {
                PushOutcome::Delivered => "delivered".to_owned(),
                PushOutcome::Later(wait, _) => format!("later {:?}", wait.map(|wait| wait.as_secs())),
                PushOutcome::Gone(_) => "gone".to_owned(),
            };
            assert_eq!(found, expected, "{status}");
        };
        for status in [200, 201, 202, 204] {
            check(status, None, "delivered");
        }
        check(429, None, "later None");
        check(429, Some("120"), "later Some(120)");
        check(503, Some("999999999"), "later Some(86400)");
        check(503, Some("Fri, 31 Dec 1999 23:59:59 GMT"), "later None");
        for status in [301, 302, 307, 400, 401, 403, 404, 410, 413, 500, 502] {
            check(status, Some("5"), "gone");
        }
    }
}
