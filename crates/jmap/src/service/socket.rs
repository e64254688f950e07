//! `/jmap/ws`: requests and push over WebSocket (RFC 6455, RFC 8887), by HTTP/1.1.
//!
//! The handshake logs in like any other request, and pages of foreign origins are refused before it, so that no page
//! can use the session of a person (cross-site WebSocket hijacking). The connection ends with the login: with the
//! session of a browser, and with a change of the account, also while a slow client has not read an answer.
//!
//! A connection that waits holds no worker. Each message is a job, and up to as many of them run at the same time as an
//! account may have requests; then nothing more is read. What arrives takes memory of the peer until its message has
//! been executed, and an answer takes it from the moment at which the worker has made it until it has been sent: a
//! client that does not read cannot make the server keep answers beyond the memory of its address. While answers of
//! [`WEBSOCKET_WAITING_BYTES_MAX`] wait, nothing more is read either. A message is a use of the session.

use std::pin::pin;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use base::memory::{Exhausted, MemoryBudget, MemoryPermit};
use base::sync::Mutex;
use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt as _, StreamExt as _};
use http::RequestContext;
use http::account_limits::RequestPermit;
use http::limits::STALL_TIME_MAX;
use http::problem::Problem;
use http::sessions::SessionId;
use http::upgrade::{Upgrade, UpgradedStream};
use serde_json::{Value, json};
use store::Ticket;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, error::ProtocolError};

use super::metered_stream::{MeteredStream, Traffic};
use super::state_events::{StateEvent, StateEvents, state_events};
use super::{Answer, LoginEnd, RequestLogin, Service, asking_for_login};
use crate::error::RequestProblem;
use crate::limits::{
    WEBSOCKET_CLOSE_TIME_MAX, WEBSOCKET_IDLE_TIME_MAX, WEBSOCKET_PING_INTERVAL, WEBSOCKET_READ_BYTES,
    WEBSOCKET_WAITING_BYTES_MAX,
};
use crate::type_selection::TypeSelection;
use crate::websocket::{self, RefusedMessage};
use crate::{Caller, Reply};

/// The subprotocol (RFC 8887 §4.1).
const SUBPROTOCOL: &str = "jmap";

/// The version of WebSocket.
const VERSION: &str = "13";

/// Number of bytes of the client's key in base64.
const KEY_CHARACTERS: usize = 24;

pub(super) async fn answer(
    Extension(service): Extension<Arc<Service>>,
    Extension(context): Extension<RequestContext>,
    request: Request,
) -> Response<Body> {
    let headers = request.headers().clone();
    let answered = begin(&service, &context, request).await;
    answered.unwrap_or_else(|problem| {
        let is_upgrade_missing = problem.status == StatusCode::UPGRADE_REQUIRED;
        let mut response = asking_for_login(problem, &headers);
        if is_upgrade_missing {
            let fields = response.headers_mut();
            fields.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            fields.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
        }
        response
    })
}

async fn begin(service: &Arc<Service>, context: &RequestContext, mut request: Request) -> Answer {
    let headers = request.headers().clone();
    let RequestLogin { caller, found } = service.login(context, &headers).await?;
    let accept = accept_key(request.method(), &headers)?;
    let permit = service.sockets.begin(&caller.login).ok_or_else(|| {
        let detail = "this account has too many connections over WebSocket; close some of them";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, detail)
    })?;
    let login_end = service.login_end(context, &found).await?;
    let session = found.session;
    let budget = service.parts.memory.share_of(&context.peer.memory_owner());
    let service = Arc::clone(service);
    let login = Login { service, caller, session, login_end, budget, _permit: permit };
    let serve = move |stream| Socket::serve(login, stream);
    let upgrade = Upgrade::new(&mut request, serve).ok_or_else(upgrade_required)?;
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let fields = response.headers_mut();
    fields.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    fields.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    fields.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    fields.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    response.extensions_mut().insert(upgrade);
    Ok(response)
}

/// Checks the handshake of a client, and returns the value that shows that the server has understood it.
fn accept_key(method: &Method, headers: &HeaderMap) -> Result<HeaderValue, Problem> {
    let has = |name: header::HeaderName, word: &str| {
        let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        lines.flat_map(|line| line.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    let is_upgrade = method == Method::GET
        && has(header::CONNECTION, "upgrade")
        && has(header::UPGRADE, "websocket")
        && has(header::SEC_WEBSOCKET_VERSION, VERSION);
    if !is_upgrade {
        return Err(upgrade_required());
    }
    if !has(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "Sec-WebSocket-Protocol must have jmap (RFC 8887)"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let key = key.filter(|key| key.len() == KEY_CHARACTERS && key.ends_with(b"=="));
    let accept = key.and_then(|key| HeaderValue::from_str(&derive_accept_key(key)).ok());
    accept.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is missing or not valid"))
}

fn upgrade_required() -> Problem {
    Problem::new(StatusCode::UPGRADE_REQUIRED, "this resource is for WebSocket (RFC 6455, version 13) over HTTP/1.1")
}

/// What the handshake has found out.
struct Login {
    service: Arc<Service>,
    caller: Caller,
    /// The session by which the person is logged in, if it is one.
    session: Option<SessionId>,
    login_end: LoginEnd,
    /// The memory of the peer.
    budget: MemoryBudget,
    _permit: RequestPermit,
}

impl Login {
    /// Counts a use of the session. Returns `false` if it has ended.
    fn count_use(&self) -> bool {
        let sessions = self.service.parts.authenticator.sessions();
        self.session.is_none_or(|session| sessions.count_use(&session).is_some())
    }
}

/// A connection.
struct Socket {
    login: Login,
    stream: WebSocketStream<MeteredStream>,
    traffic: Arc<Mutex<Traffic>>,
    /// The memory of the answers that wait for the client: a part of that of the peer.
    waiting: MemoryBudget,
    /// The messages that are being executed.
    running: FuturesUnordered<Executing>,
    running_max: usize,
    /// The changes of states, while the client wants to be told.
    events: Option<StateEvents>,
    /// Number of the message that set `events` last. Messages may end in another order than they have arrived.
    events_set_by: u64,
    /// Number of messages so far.
    messages: u64,
    last_message: Instant,
    next_ping: Instant,
    /// Number of bytes that had arrived at the last ping.
    received_at_ping: Option<u64>,
}

/// A message that is being executed.
type Executing = std::pin::Pin<Box<dyn Future<Output = Result<Outcome, Problem>> + Send>>;

/// What follows from a message.
enum Outcome {
    Send(WaitingAnswer),
    SetEvents {
        message: u64,
        events: Option<StateEvents>,
    },
    /// The memory of the peer has no place for the answer.
    Exhausted,
}

/// An answer that waits for the client, and its memory.
struct WaitingAnswer {
    body: Vec<u8>,
    _memory: MemoryPermit,
}

impl WaitingAnswer {
    fn new(body: Vec<u8>, budget: &MemoryBudget) -> Result<Self, Exhausted> {
        let memory = budget.acquire(body.len())?;
        Ok(Self { body, _memory: memory })
    }
}

/// A message that was executed.
enum Executed {
    Answer(Result<WaitingAnswer, Exhausted>),
    EnablePush { types: TypeSelection, push_state: Option<String> },
    DisablePush,
}

/// The end of a connection.
enum End {
    /// The client has gone without closing it.
    Lost,
    /// The client closes it.
    ByClient,
    /// The server closes it.
    Closed(CloseCode, &'static str),
}

/// The next thing to do.
enum Step {
    Received(Option<Result<Message, Error>>),
    Executed(Result<Outcome, Problem>),
    Changed(Option<StateEvent>),
    Ping,
}

impl Socket {
    /// Serves a connection until it ends.
    async fn serve(login: Login, stream: UpgradedStream) {
        let limits = &login.service.parts.services.limits;
        let message_bytes_max = usize::try_from(limits.request_bytes_max).unwrap_or(usize::MAX);
        let running_max = usize::try_from(limits.concurrent_requests_max).unwrap_or(usize::MAX);
        let traffic = Arc::new(Mutex::new(Traffic::new(&login.budget)));
        let config = WebSocketConfig::default()
            .read_buffer_size(WEBSOCKET_READ_BYTES)
            .write_buffer_size(0)
            .max_message_size(Some(message_bytes_max))
            .max_frame_size(Some(message_bytes_max));
        let metered = MeteredStream::new(stream, Arc::clone(&traffic));
        let stream = WebSocketStream::from_raw_socket(metered, Role::Server, Some(config)).await;
        let waiting = login.budget.share(usize::MAX);
        let mut socket = Self {
            login,
            stream,
            traffic,
            waiting,
            running: FuturesUnordered::new(),
            running_max,
            events: None,
            events_set_by: 0,
            messages: 0,
            last_message: Instant::now(),
            next_ping: Instant::now() + WEBSOCKET_PING_INTERVAL,
            received_at_ping: None,
        };
        let end = socket.run().await;
        socket.close(end).await;
    }

    async fn run(&mut self) -> End {
        loop {
            let step = tokio::select! {
                biased;
                () = self.login.service.parts.shutdown.draining() => return self.finish().await,
                () = &mut self.login.login_end => return login_ended(),
                Some(outcome) = self.running.next(), if !self.running.is_empty() => Step::Executed(outcome),
                event = next_event(&mut self.events), if self.events.is_some() => Step::Changed(event),
                message = self.stream.next(), if self.may_read() => Step::Received(message),
                () = sleep_until(self.next_ping) => Step::Ping,
            };
            let done = match step {
                Step::Received(message) => self.receive(message).await,
                Step::Executed(outcome) => self.apply(outcome).await,
                Step::Changed(event) => self.tell(event).await,
                Step::Ping => self.ping().await,
            };
            if let Err(end) = done {
                return end;
            }
        }
    }

    /// Returns `true` if another message may be read.
    fn may_read(&self) -> bool {
        self.running.len() < self.running_max && self.waiting.held_bytes() < WEBSOCKET_WAITING_BYTES_MAX
    }

    /// Answers what is being executed, because the server shuts down.
    async fn finish(&mut self) -> End {
        while let Some(outcome) = self.running.next().await {
            if let Err(end) = self.apply(outcome).await {
                return end;
            }
        }
        End::Closed(CloseCode::Away, "the server shuts down")
    }

    async fn receive(&mut self, message: Option<Result<Message, Error>>) -> Result<(), End> {
        match message {
            Some(Ok(Message::Text(_))) if !self.login.count_use() => Err(login_ended()),
            Some(Ok(Message::Text(text))) => {
                self.execute(text);
                Ok(())
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(()),
            Some(Ok(Message::Binary(_))) => Err(End::Closed(CloseCode::Unsupported, "messages must be text")),
            Some(Ok(Message::Close(_))) => Err(End::ByClient),
            None => Err(End::Lost),
            Some(Err(error)) => Err(self.failure(error).await),
        }
    }

    /// Begins to execute a message.
    fn execute(&mut self, text: Utf8Bytes) {
        self.messages += 1;
        self.last_message = Instant::now();
        let number = self.messages;
        let memory = self.traffic.lock().take_memory(&self.login.budget);
        let waiting = self.waiting.clone();
        let service = Arc::clone(&self.login.service);
        let caller = self.login.caller.clone();
        let session = self.login.session;
        let permit = service.requests.begin(&caller.login);
        self.running.push(Box::pin(async move {
            let of_job = caller.clone();
            let sessions = Arc::clone(service.parts.authenticator.sessions());
            let executed = service.run(&caller, "websocket", move |services| {
                if let Some(session) = session {
                    sessions.record_use(&session);
                }
                let answer = match &permit {
                    Some(_) => websocket::answer(services, &of_job, text.as_bytes()),
                    None => websocket::refuse_for_limit(services, text.as_bytes(), "maxConcurrentRequests"),
                };
                // The answer may take the memory of the message.
                drop((text, memory));
                take_memory(answer, &waiting)
            });
            Ok(match executed.await? {
                Executed::Answer(Ok(answer)) => Outcome::Send(answer),
                Executed::Answer(Err(_)) => Outcome::Exhausted,
                Executed::DisablePush => Outcome::SetEvents { message: number, events: None },
                Executed::EnablePush { types, push_state } => {
                    let events = state_events(&service, &caller, types, push_state.as_deref()).await?;
                    Outcome::SetEvents { message: number, events: Some(events) }
                }
            })
        }));
    }

    async fn apply(&mut self, outcome: Result<Outcome, Problem>) -> Result<(), End> {
        match outcome {
            Ok(Outcome::Send(answer)) => self.send_answer(answer).await,
            Ok(Outcome::Exhausted) => Err(exhausted()),
            Ok(Outcome::SetEvents { message, events }) => {
                if message > self.events_set_by {
                    self.events_set_by = message;
                    self.events = events;
                }
                Ok(())
            }
            Err(_) => Err(End::Closed(CloseCode::Again, "the server cannot answer now")),
        }
    }

    /// Sends a change of states.
    async fn tell(&mut self, event: Option<StateEvent>) -> Result<(), End> {
        let Some(StateEvent { identifier, mut change }) = event else {
            return Err(End::Closed(CloseCode::Again, "the states cannot be read now"));
        };
        change.insert("pushState".to_owned(), json!(identifier));
        self.send_text(Value::Object(change).to_string().into_bytes()).await
    }

    /// Sends a ping. Ends connections whose client has gone, or does nothing.
    async fn ping(&mut self) -> Result<(), End> {
        let received = self.traffic.lock().received;
        if self.received_at_ping == Some(received) {
            return Err(End::Lost);
        }
        let is_idle = self.events.is_none() && self.running.is_empty();
        if is_idle && self.last_message.elapsed() > WEBSOCKET_IDLE_TIME_MAX {
            return Err(End::Closed(CloseCode::Normal, "the connection was idle"));
        }
        self.received_at_ping = Some(received);
        self.next_ping = Instant::now() + WEBSOCKET_PING_INTERVAL;
        self.send(Message::Ping(Bytes::new())).await
    }

    async fn send_text(&mut self, body: Vec<u8>) -> Result<(), End> {
        let answer = WaitingAnswer::new(body, &self.waiting).map_err(|_| exhausted())?;
        self.send_answer(answer).await
    }

    /// Sends an answer, whose memory is held until the connection has taken it.
    async fn send_answer(&mut self, WaitingAnswer { body, _memory }: WaitingAnswer) -> Result<(), End> {
        let text = String::from_utf8(body).map_err(|_| End::Closed(CloseCode::Error, "the answer is no text"))?;
        self.send(Message::text(text)).await
    }

    /// Sends a message. A client that reads nothing for a long time has gone. The login may end before a slow client
    /// has read the message.
    async fn send(&mut self, message: Message) -> Result<(), End> {
        let Self { stream, traffic, login, .. } = self;
        let mut sending = pin!(stream.send(message));
        loop {
            let before = traffic.lock().sent;
            tokio::select! {
                biased;
                sent = &mut sending => return sent.map_err(|_| End::Lost),
                () = &mut login.login_end => return Err(login_ended()),
                () = sleep(STALL_TIME_MAX) => {}
            }
            if traffic.lock().sent == before {
                return Err(End::Lost);
            }
        }
    }

    /// Returns the end that follows from an error of the connection.
    async fn failure(&mut self, error: Error) -> End {
        match error {
            Error::Capacity(_) => {
                let problem = RequestProblem::Limit("maxSizeRequest");
                let refused = websocket::refusal(&RefusedMessage { id: None, problem });
                match self.send_text(refused.body).await {
                    Ok(()) => End::Closed(CloseCode::Size, "the message is too large"),
                    Err(end) => end,
                }
            }
            Error::Utf8(_) => End::Closed(CloseCode::Invalid, "the message is not UTF-8"),
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => End::Lost,
            Error::Protocol(_) => End::Closed(CloseCode::Protocol, "a frame is not valid"),
            Error::Io(_) if self.traffic.lock().is_exhausted => {
                End::Closed(CloseCode::Again, "too many bytes of this address wait")
            }
            _ => End::Lost,
        }
    }

    /// Closes the connection. The client has some time to close it, too, so that it gets everything.
    async fn close(mut self, end: End) {
        let frame = match end {
            End::Lost => return,
            End::ByClient => None,
            End::Closed(code, reason) => Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) }),
        };
        let stream = &mut self.stream;
        let closing = async {
            let is_sent = match frame {
                Some(frame) => stream.close(Some(frame)).await.is_ok(),
                // The answer to the client's frame is sent with the next reading.
                None => true,
            };
            while is_sent && matches!(stream.next().await, Some(Ok(_))) {}
        };
        // The connection is dropped in any case.
        let _ = timeout(WEBSOCKET_CLOSE_TIME_MAX, closing).await;
    }
}

/// Takes memory for the answer to a message. Returns it with the ticket that must be durable before it is sent.
fn take_memory(answer: websocket::Answer, waiting: &MemoryBudget) -> (Executed, Ticket) {
    match answer {
        websocket::Answer::Reply(Reply { body, ticket }) => {
            (Executed::Answer(WaitingAnswer::new(body, waiting)), ticket.unwrap_or(Ticket::NONE))
        }
        websocket::Answer::EnablePush { types, push_state } => {
            (Executed::EnablePush { types, push_state }, Ticket::NONE)
        }
        websocket::Answer::DisablePush => (Executed::DisablePush, Ticket::NONE),
    }
}

fn login_ended() -> End {
    End::Closed(CloseCode::Policy, "the login has ended")
}

fn exhausted() -> End {
    End::Closed(CloseCode::Again, "too many bytes wait for this address")
}

async fn next_event(events: &mut Option<StateEvents>) -> Option<StateEvent> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}
