//! One connection of the server side: reads input, runs the session, queries the backend, writes replies. It is the
//! only user of tokio on the server side.
//!
//! Replies are sent when the session needs more input, so a pipelined group is answered with one write. Queries of the
//! backend run on the worker pool, except for those it can answer immediately, and logins, which have a pool of their
//! own. The reply to a message is delayed until the message is durable.
//!
//! The task owns the stream. It ends with QUIT, an error, a time limit, or the shutdown of the server. When the server
//! drains, an idle session gets 421, and a session in a transaction may complete it until the server closes. A
//! termination does not wait for the end of a transaction. Every received byte renews the idle time, so text and chunks
//! also have a minimum rate, and a transaction may not hold memory for long without receiving its message.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use base::memory::{MemoryPermit, MemoryShares};
use base::{Clock, Random};
use mail::submission::{ReceivedProtocol, ResolvedAddress, Submission};
use sasl::{Check, Credentials, ExchangeStep, LoginError};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout, timeout_at};
use wire::limits::BODY_GRACE;
use wire::{JobLabel, JobOwner, Pace, Peer, RunError, SessionTermination, Shutdown, Stream, Tls, WorkerPool};

use crate::auth::local_claims::LocalClaims;
use crate::auth::results;
use crate::auth::verify::{ClientInfo, Verifier};
use crate::backend::{MessageAcceptor, RecipientLookup};
use crate::error::{Error, NegativeReply, Result};
use crate::listener_rules::{ListenerRules, LocalSenderPolicy, PipeliningPolicy};
use crate::session::{AcceptedMessage, BackendRequest, BackendResponse, ConnectionAction, Session};

/// Maximum capacity of a connection's buffers that is kept while they are empty.
const BUFFER_BYTES_KEPT: usize = 64 << 10;

/// The state shared by the connections of one listener.
pub struct ListenerServices {
    /// The rules of the listener. Without `tls`, its encryption must be off.
    pub rules: Arc<ListenerRules>,
    /// The lookup of recipients.
    pub recipients: Arc<dyn RecipientLookup>,
    /// The check of logins.
    pub credentials: Arc<dyn Credentials>,
    /// The acceptor of messages.
    pub acceptor: Arc<dyn MessageAcceptor>,
    /// The verifier of messages from other servers. `None` disables verification.
    pub verifier: Option<Arc<Verifier>>,
    /// The server's certificate, for STARTTLS.
    pub tls: Option<Arc<Tls>>,
    /// The worker pool for blocking work.
    pub pool: WorkerPool,
    /// The worker pool that checks logins.
    pub login_pool: WorkerPool,
    /// The memory for messages, which the server shares between all protocols.
    pub memory: Arc<MemoryShares>,
    /// Signals the shutdown of the server.
    pub shutdown: Shutdown,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The random source for identifiers.
    pub random: Arc<dyn Random>,
}

/// Serves one connection until it ends. With implicit TLS, the caller has completed the handshake and set `peer.tls`.
pub async fn serve(
    stream: Stream,
    peer: Peer,
    service: Arc<ListenerServices>,
    termination: SessionTermination,
) -> Result<()> {
    let rules = Arc::clone(&service.rules);
    let clock = Arc::clone(&service.clock);
    let mut session = Session::new(rules, clock, service.random.as_ref(), peer, Arc::clone(&service.memory));
    if peer.tls {
        session.reset_after_tls(stream.tls_info().map(|facts| facts.cipher), stream.channel_bindings());
    }
    let ends_at = Instant::now().checked_add(service.rules.session_time_max);
    let shutdown = service.shutdown.clone();
    let input = Vec::new();
    let out = Vec::new();
    let paces = Paces::default();
    let connection = Connection { stream, session, service, termination, input, used: 0, out, ends_at, paces };
    tracing::debug!(target: "smtp", connection = peer.connection, %peer, tls = peer.tls, "connection opened");
    let outcome = tokio::select! {
        biased;
        () = shutdown.closing() => Ok(()),
        outcome = connection.run(peer, &shutdown) => outcome,
    };
    tracing::debug!(
        target: "smtp",
        connection = peer.connection,
        %peer,
        error = outcome.as_ref().err().map(tracing::field::display),
        "connection closed"
    );
    outcome
}

struct Connection {
    stream: Stream,
    session: Session,
    service: Arc<ListenerServices>,
    /// Signals that the account has changed since the login.
    termination: SessionTermination,
    /// Received bytes, of which the first `used` ones are processed.
    input: Vec<u8>,
    used: usize,
    /// Replies that are not sent yet.
    out: Vec<u8>,
    /// The time at which the session exceeds its limit. `None` means no limit.
    ends_at: Option<Instant>,
    paces: Paces,
}

/// The pace at which the peer sends messages.
#[derive(Default)]
struct Paces {
    body: Pace,
    transaction: Pace,
}

impl Paces {
    /// Returns the time at which the peer is too slow unless more bytes arrive.
    fn deadline(&mut self, session: &Session) -> Option<Instant> {
        let body = self.body.deadline(session.body_progress(), BODY_GRACE);
        let transaction = self.transaction.deadline(session.transaction_progress(), session.transaction_grace());
        [body, transaction].into_iter().flatten().min()
    }
}

/// The reason why there is no more input.
enum InputEnd {
    Ended,
    TooLong,
    TooSlow,
    Draining,
    Dismissed,
}

impl Connection {
    async fn run(mut self, peer: Peer, shutdown: &Shutdown) -> Result<()> {
        if !self.greet(&peer).await? {
            return self.close().await;
        }
        let mut draining = pin!(shutdown.draining());
        loop {
            if self.termination.is_terminated() {
                self.write_closing_reply(&InputEnd::Dismissed);
                return self.close().await;
            }
            let (used, action) = self.session.step(self.input.get(self.used..).unwrap_or_default(), &mut self.out);
            self.used += used;
            match action {
                ConnectionAction::Flush => self.flush().await?,
                ConnectionAction::Read => {
                    if let Err(silence) = self.read(shutdown, draining.as_mut()).await? {
                        self.write_closing_reply(&silence);
                        return self.close().await;
                    }
                }
                ConnectionAction::CallBackend(request) => {
                    let response = self.service.respond(&peer, self.session.job_owner(), request).await;
                    self.session.handle_response(response, &mut self.out);
                }
                ConnectionAction::StartTls => {
                    self.flush().await?;
                    self = self.start_tls().await?;
                }
                ConnectionAction::Close => return self.close().await,
            }
        }
    }

    /// Sends the greeting. Returns `false` if the peer sent data before it.
    async fn greet(&mut self, peer: &Peer) -> Result<bool> {
        let rules = &self.service.rules;
        let waits = !peer.loopback && !peer.tls && rules.greet_delay > Duration::ZERO;
        if waits && let Ok(early) = timeout(rules.greet_delay, self.stream.receive(&mut self.input)).await {
            if early? == 0 {
                return Err(Error::Connection(std::io::ErrorKind::UnexpectedEof.into()));
            }
            if rules.pipelining == PipeliningPolicy::Strict {
                self.session.refuse_early_talker(&mut self.out);
                return Ok(false);
            }
        }
        self.session.greet(&mut self.out);
        Ok(true)
    }

    /// Sends the replies and waits for more input.
    async fn read(
        &mut self,
        shutdown: &Shutdown,
        draining: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<std::result::Result<(), InputEnd>> {
        self.flush().await?;
        self.drop_used();
        if shutdown.is_draining() && self.session.is_idle() {
            return Ok(Err(InputEnd::Draining));
        }
        let idle_end = Instant::now() + self.service.rules.idle_time_max;
        let pace_end = self.paces.deadline(&self.session);
        let ends = [Some(idle_end), self.ends_at, pace_end];
        let deadline = ends.into_iter().flatten().min().unwrap_or(idle_end);
        let listen_for_end = self.session.is_idle();
        let received = tokio::select! {
            received = timeout_at(deadline, self.stream.receive(&mut self.input)) => received,
            () = draining, if listen_for_end => return Ok(Err(InputEnd::Draining)),
            () = self.termination.terminated() => return Ok(Err(InputEnd::Dismissed)),
        };
        Ok(match received {
            Err(_) if pace_end.is_some_and(|end| end == deadline && end < idle_end) => Err(InputEnd::TooSlow),
            Err(_) => Err(InputEnd::TooLong),
            Ok(outcome) => match outcome? {
                0 => Err(InputEnd::Ended),
                _ => Ok(()),
            },
        })
    }

    fn write_closing_reply(&mut self, silence: &InputEnd) {
        match silence {
            InputEnd::Ended => {}
            InputEnd::TooLong => self.session.time_out(&mut self.out),
            InputEnd::TooSlow => self.session.end_slow_transfer(&mut self.out),
            InputEnd::Draining => self.session.shut_down(&mut self.out),
            InputEnd::Dismissed => self.session.dismiss(&mut self.out),
        }
    }

    fn drop_used(&mut self) {
        if self.used >= self.input.len() {
            self.input.clear();
            self.input.shrink_to(BUFFER_BYTES_KEPT);
        } else {
            self.input.drain(..self.used);
        }
        self.used = 0;
    }

    async fn flush(&mut self) -> Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let limit = self.service.rules.idle_time_max;
        let send = async {
            self.stream.write_all(&self.out).await?;
            self.stream.flush().await
        };
        timeout(limit, send).await.map_err(|_| Error::TooSlow("the time allowed for receiving a reply"))??;
        self.out.clear();
        self.out.shrink_to(BUFFER_BYTES_KEPT);
        Ok(())
    }

    async fn close(mut self) -> Result<()> {
        self.flush().await?;
        // Errors at the end of the connection are ignored.
        let _ = timeout(Duration::from_secs(5), self.stream.shutdown()).await;
        Ok(())
    }

    async fn start_tls(self) -> Result<Self> {
        let Some(tls) = &self.service.tls else {
            return Err(Error::Tls("no certificate is configured".to_owned()));
        };
        let stream = self.stream.accept_tls(tls).await.map_err(|error| Error::Tls(error.to_string()))?;
        let mut session = self.session;
        session.reset_after_tls(stream.tls_info().map(|facts| facts.cipher), stream.channel_bindings());
        // Data sent in the clear after STARTTLS is discarded with the old buffer.
        Ok(Self { stream, session, input: Vec::new(), used: 0, ..self })
    }
}

impl ListenerServices {
    /// Returns the response to a request of the session with `peer`.
    async fn respond(&self, peer: &Peer, owner: JobOwner, request: BackendRequest) -> BackendResponse {
        match request {
            BackendRequest::Sender { login, reverse_path, size_bytes } => {
                BackendResponse::Sender(self.check_sender(owner, login, reverse_path, size_bytes).await)
            }
            BackendRequest::Recipient { address } => BackendResponse::Recipient(self.resolve(owner, address).await),
            BackendRequest::Members { list } => {
                let recipients = Arc::clone(&self.recipients);
                let label = JobLabel::new(owner, "smtp", "EXPN");
                let found = self.pool.run(label, move || recipients.expand(&list)).await;
                BackendResponse::Members(found.unwrap_or_default())
            }
            BackendRequest::Login(check) => BackendResponse::Login(self.check_login(owner, check).await),
            BackendRequest::Message { submission, helo, trace_bytes, memory } => {
                let is_stranger = submission.origin.login.is_none() && !peer.loopback;
                let arrived = ArrivedMessage { submission, helo, trace_bytes };
                let checked = match arrived.submission.origin.protocol {
                    ReceivedProtocol::Lmtp => Ok(arrived.submission),
                    _ if is_stranger => self.verify_message(peer, &owner, arrived).await,
                    _ => Ok(self.without_forged_results(arrived.submission)),
                };
                BackendResponse::Message(match checked {
                    Ok(submission) => self.accept_message(owner, submission, memory).await,
                    Err(refusal) => Err(refusal),
                })
            }
        }
    }

    /// Checks a login. If too many logins wait, the client may try again later.
    async fn check_login(&self, owner: JobOwner, check: Check) -> ExchangeStep {
        let credentials = Arc::clone(&self.credentials);
        let label = JobLabel::new(owner, "smtp", "AUTH");
        let checked = self.login_pool.run_or_return(label, check, move |check| check.run(&*credentials)).await;
        match checked {
            Ok(step) => step,
            Err(RunError::NotQueued(_, check)) => check.withdraw(),
            Err(RunError::Failed(error)) => {
                tracing::error!(target: "smtp", %error, "cannot check a login");
                ExchangeStep::Failed(LoginError::Unavailable)
            }
        }
    }

    async fn check_sender(
        &self,
        owner: JobOwner,
        login: Option<String>,
        reverse_path: String,
        size_bytes: u64,
    ) -> std::result::Result<(), NegativeReply> {
        self.acceptor.check_capacity(size_bytes)?;
        let Some(login) = login.filter(|_| !reverse_path.is_empty()) else { return Ok(()) };
        let acceptor = Arc::clone(&self.acceptor);
        let label = JobLabel::new(owner, "smtp", "MAIL");
        let checked = self.pool.run(label, move || acceptor.check_sender(&login, &reverse_path)).await;
        checked.unwrap_or_else(|error| Err(pool_failure(&error)))
    }

    async fn resolve(&self, owner: JobOwner, address: String) -> std::result::Result<ResolvedAddress, NegativeReply> {
        if let Some(known) = self.recipients.resolve_cached(&address) {
            return known;
        }
        let recipients = Arc::clone(&self.recipients);
        let label = JobLabel::new(owner, "smtp", "RCPT");
        let resolved = self.pool.run(label, move || recipients.resolve(&address)).await;
        resolved.unwrap_or_else(|error| Err(pool_failure(&error)))
    }

    /// Passes a message to the acceptor, and waits until it is durable. The job holds the memory of the message, also
    /// if the connection ends before it.
    async fn accept_message(
        &self,
        owner: JobOwner,
        submission: Box<Submission>,
        memory: MemoryPermit,
    ) -> std::result::Result<AcceptedMessage, NegativeReply> {
        let acceptor = Arc::clone(&self.acceptor);
        let label = JobLabel::new(owner, "smtp", "DATA");
        let accept = move || {
            let accepted = acceptor.accept(*submission);
            drop(memory);
            accepted
        };
        let accepted = self.pool.run(label, accept).await;
        let accepted = accepted.map_err(|error| pool_failure(&error))??;
        accepted.durable.await?;
        Ok(AcceptedMessage { id: accepted.id, refused: accepted.refused })
    }

    /// Removes forged results that claim to be this server's.
    fn without_forged_results(&self, mut submission: Box<Submission>) -> Box<Submission> {
        let message = std::mem::take(&mut submission.message);
        submission.message = wire::run_long(message.len(), || results::replace(message, &self.rules.hostname, None));
        submission
    }

    /// Verifies a message from outside, and replaces forged results that claim to be this server's by the true ones.
    /// Fails if the results require a refusal of the message.
    ///
    /// The parameters of delivery reports are removed unless SPF passes. The reports of forged senders would reach
    /// strangers, with a text and at a rate that the forger determines.
    async fn verify_message(
        &self,
        peer: &Peer,
        owner: &JobOwner,
        arrived: ArrivedMessage,
    ) -> std::result::Result<Box<Submission>, NegativeReply> {
        let ArrivedMessage { mut submission, helo, trace_bytes } = arrived;
        let message = Arc::new(std::mem::take(&mut submission.message));
        let reverse_path = submission.envelope.reverse_path.clone();
        let claims = self.local_claims(peer, owner, &reverse_path, &message).await?;
        let mut field = None;
        let mut spf_passed = false;
        if let Some(verifier) = &self.verifier {
            let hostname = self.rules.hostname.clone();
            let arrival = ClientInfo { address: peer.ip(), helo, reverse_path, hostname, claims };
            let verified = verifier.verify(arrival, Arc::clone(&message), trace_bytes).await?;
            field = Some(verified.field);
            spf_passed = verified.spf_passed;
        } else if let Some(refusal) = claims.refusal_without_evidence() {
            return Err(refusal);
        }
        if !spf_passed {
            submission.envelope.remove_report_parameters();
        }
        submission.message = wire::run_long(message.len(), || {
            let message = Arc::unwrap_or_clone(message);
            results::replace(message, &self.rules.hostname, field.as_deref())
        });
        Ok(submission)
    }

    /// Finds the local domains that a message claims to be from and that must be verified.
    async fn local_claims(
        &self,
        peer: &Peer,
        owner: &JobOwner,
        reverse_path: &str,
        message: &Arc<Vec<u8>>,
    ) -> std::result::Result<LocalClaims, NegativeReply> {
        let rules = Arc::clone(&self.rules);
        if rules.local_senders == LocalSenderPolicy::Any || rules.trusted_relays.contains(peer.ip()) {
            return Ok(LocalClaims::default());
        }
        let recipients = Arc::clone(&self.recipients);
        let message = Arc::clone(message);
        let reverse_path = reverse_path.to_owned();
        let label = JobLabel::new(owner.clone(), "smtp", "DATA");
        let found =
            self.pool.run(label, move || LocalClaims::find(&reverse_path, &message, &rules, &*recipients)).await;
        found.unwrap_or_else(|error| Err(pool_failure(&error)))
    }
}

/// A completely received message, with the facts about its arrival that the checks need.
struct ArrivedMessage {
    submission: Box<Submission>,
    /// The client's name from HELO or EHLO.
    helo: String,
    /// Length of this server's trace field at the beginning of the message.
    trace_bytes: usize,
}

fn pool_failure(error: &wire::PoolError) -> NegativeReply {
    tracing::error!(target: "smtp", %error, "cannot run a job for an SMTP session");
    NegativeReply::temporary()
}
