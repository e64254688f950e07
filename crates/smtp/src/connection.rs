//! One connection of the server side: reads input, runs the session, queries the backend, writes replies. It is the
//! only user of tokio on the server side.
//!
//! Replies are sent when the session needs more input, so a pipelined group is answered with one write. Queries of the
//! backend run on the worker pool, except for those it can answer immediately. The reply to a message is delayed until
//! the message is durable.
//!
//! The task owns the stream. It ends with QUIT, an error, a time limit, or the shutdown of the server. When the server
//! drains, an idle session gets 421, and a session in a transaction may complete it until the server closes. A
//! dismissal does not wait for the end of a transaction.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use base::{Clock, Random};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout, timeout_at};
use wire::{Peer, Pool, SessionTermination, Shutdown, Stream, Tls};

use crate::auth::results;
use crate::auth::verify::{ClientInfo, Verifier};
use crate::backend::{Acceptor, Credentials, RecipientReply, Recipients};
use crate::envelope::{Envelope, Sender};
use crate::error::{Error, Refusal, Result, Status};
use crate::listener_rules::{ListenerRules, Pipelining, Role};
use crate::session::{AcceptedMessage, BackendRequest, BackendResponse, Session, Step};

/// Maximum capacity of a connection's buffers that is kept while they are empty.
const BUFFER_BYTES_KEPT: usize = 64 << 10;

/// The state shared by the connections of one listener.
pub struct ListenerServices {
    /// The rules of the listener. Without `tls`, its encryption must be off.
    pub rules: Arc<ListenerRules>,
    /// The lookup of recipients.
    pub recipients: Arc<dyn Recipients>,
    /// The check of logins.
    pub credentials: Arc<dyn Credentials>,
    /// The acceptor of messages.
    pub acceptor: Arc<dyn Acceptor>,
    /// The verifier of messages from other servers. `None` disables verification.
    pub verifier: Option<Arc<Verifier>>,
    /// The server's certificate, for STARTTLS.
    pub tls: Option<Arc<Tls>>,
    /// The worker pool for blocking work.
    pub pool: Pool,
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
    dismissal: SessionTermination,
) -> Result<()> {
    let rules = Arc::clone(&service.rules);
    let mut session = Session::new(rules, Arc::clone(&service.clock), service.random.as_ref(), peer);
    if peer.tls {
        session.reset_after_tls(stream.tls_facts().map(|facts| facts.cipher));
    }
    let ends_at = Instant::now().checked_add(service.rules.session_time_max);
    let shutdown = service.shutdown.clone();
    let input = Vec::new();
    let out = Vec::new();
    let connection = Connection { stream, session, service, dismissal, input, used: 0, out, ends_at };
    tokio::select! {
        biased;
        () = shutdown.closing() => Ok(()),
        outcome = connection.run(peer, &shutdown) => outcome,
    }
}

struct Connection {
    stream: Stream,
    session: Session,
    service: Arc<ListenerServices>,
    /// Signals that the account has changed since the login.
    dismissal: SessionTermination,
    /// Received bytes, of which the first `used` ones are processed.
    input: Vec<u8>,
    used: usize,
    /// Replies that are not sent yet.
    out: Vec<u8>,
    /// The time at which the session exceeds its limit. `None` means no limit.
    ends_at: Option<Instant>,
}

/// The reason why there is no more input.
enum InputEnd {
    Ended,
    TooLong,
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
            if self.dismissal.is_terminated() {
                self.write_closing_reply(&InputEnd::Dismissed);
                return self.close().await;
            }
            let (used, step) = self.session.step(self.input.get(self.used..).unwrap_or_default(), &mut self.out);
            self.used += used;
            match step {
                Step::Flush => self.flush().await?,
                Step::Read => {
                    if let Err(silence) = self.read(shutdown, draining.as_mut()).await? {
                        self.write_closing_reply(&silence);
                        return self.close().await;
                    }
                }
                Step::Ask(question) => {
                    let answer = self.service.answer(self.session.peer, question).await;
                    self.session.answer(answer, &mut self.out);
                }
                Step::StartTls => {
                    self.flush().await?;
                    self = self.start_tls().await?;
                }
                Step::Close => return self.close().await,
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
            if rules.pipelining == Pipelining::Strict {
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
        let deadline = self.ends_at.map_or(idle_end, |end| end.min(idle_end));
        let listen_for_end = self.session.is_idle();
        let received = tokio::select! {
            received = timeout_at(deadline, self.stream.receive(&mut self.input)) => received,
            () = draining, if listen_for_end => return Ok(Err(InputEnd::Draining)),
            () = self.dismissal.given() => return Ok(Err(InputEnd::Dismissed)),
        };
        Ok(match received {
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
        session.reset_after_tls(stream.tls_facts().map(|facts| facts.cipher));
        // Data sent in the clear after STARTTLS is discarded with the old buffer.
        Ok(Self { stream, session, input: Vec::new(), used: 0, ..self })
    }
}

impl ListenerServices {
    /// Returns the answer to a question of the session.
    async fn answer(&self, peer: Peer, question: BackendRequest) -> BackendResponse {
        match question {
            BackendRequest::Sender { sender, size_bytes } => {
                BackendResponse::Sender(self.check_sender(sender, size_bytes).await)
            }
            BackendRequest::Recipient { sender, address } => {
                BackendResponse::Recipient(self.check_recipient(sender, address).await)
            }
            BackendRequest::Members { sender, list } => {
                let recipients = Arc::clone(&self.recipients);
                let found = self.pool.run(move || recipients.expand(&sender, &list)).await;
                BackendResponse::Members(found.unwrap_or_default())
            }
            BackendRequest::Login { login, password } => {
                let credentials = Arc::clone(&self.credentials);
                let verdict = self.pool.run(move || credentials.authenticate(&peer, &login, &password)).await;
                BackendResponse::Login(verdict.unwrap_or(Err(crate::backend::LoginError::Unavailable)))
            }
            BackendRequest::Scram { exchange, response } => {
                let credentials = Arc::clone(&self.credentials);
                let next = move || {
                    let mut exchange = exchange.or_else(|| credentials.scram_sha_256(&peer))?;
                    let step = exchange.step(&response);
                    Some((exchange, step))
                };
                BackendResponse::Scram(self.pool.run(next).await.unwrap_or_default())
            }
            BackendRequest::Message { envelope, message, trace_bytes } => {
                BackendResponse::Message(self.accept_message(envelope, message, trace_bytes).await)
            }
        }
    }

    async fn check_sender(&self, sender: Arc<Sender>, size_bytes: u64) -> std::result::Result<(), Refusal> {
        self.acceptor.check_capacity(size_bytes)?;
        let Some(login) = sender.login.clone().filter(|_| !sender.reverse_path.is_empty()) else { return Ok(()) };
        let credentials = Arc::clone(&self.credentials);
        let allowed = self.pool.run(move || credentials.may_send_as(&login, &sender.reverse_path)).await;
        match allowed {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refusal::new(553, Status(5, 7, 1), "You may not send from this address")),
            Err(error) => Err(unavailable(&error)),
        }
    }

    async fn check_recipient(&self, sender: Arc<Sender>, address: String) -> RecipientReply {
        if let Some(known) = self.recipients.check_now(&sender, &address) {
            return known;
        }
        let recipients = Arc::clone(&self.recipients);
        let checked = self.pool.run(move || recipients.check(&sender, &address)).await;
        checked.unwrap_or_else(|error| RecipientReply::Refused(unavailable(&error)))
    }

    /// Verifies a message, passes it to the acceptor, and waits until it is durable.
    async fn accept_message(
        &self,
        envelope: Box<Envelope>,
        message: Vec<u8>,
        trace_bytes: usize,
    ) -> std::result::Result<AcceptedMessage, Refusal> {
        let message = self.with_results(&envelope, message, trace_bytes).await?;
        let acceptor = Arc::clone(&self.acceptor);
        let accepted = self.pool.run(move || acceptor.accept(*envelope, message)).await;
        let accepted = accepted.map_err(|error| unavailable(&error))??;
        accepted.durable.await?;
        Ok(AcceptedMessage { id: accepted.id, refused: accepted.refused })
    }

    /// Removes forged results that claim to be this server's, and adds the true ones. Fails if the results require a
    /// refusal of the message.
    async fn with_results(
        &self,
        envelope: &Envelope,
        message: Vec<u8>,
        trace_bytes: usize,
    ) -> std::result::Result<Vec<u8>, Refusal> {
        if self.rules.role == Role::Lmtp {
            return Ok(message);
        }
        let is_stranger = envelope.sender.login.is_none() && !envelope.sender.peer.loopback;
        let mut message = message;
        let mut header = None;
        if let Some(verifier) = self.verifier.as_ref().filter(|_| is_stranger) {
            let arrival = ClientInfo {
                address: envelope.sender.peer.ip(),
                helo: envelope.helo.clone(),
                reverse_path: envelope.sender.reverse_path.clone(),
                hostname: self.rules.hostname.clone(),
            };
            let shared = Arc::new(message);
            header = Some(verifier.verify(arrival, Arc::clone(&shared), trace_bytes).await?);
            message = Arc::unwrap_or_clone(shared);
        }
        Ok(results::replace(message, &self.rules.hostname, header.as_deref()))
    }
}

fn unavailable(error: &wire::PoolError) -> Refusal {
    tracing::error!(%error, "cannot run a job for an SMTP session");
    Refusal::temporary()
}
