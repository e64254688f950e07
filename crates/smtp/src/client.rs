//! The SMTP client: sends one message to the servers of one destination and returns the outcome of each recipient.
//!
//! The router passes a [`NextHop`] and an [`OutboundMessage`]. [`SmtpClient::send`] finds the hosts ([`route`]), opens
//! a session or reuses an idle one ([`connection`], [`idle_pool`]), runs the transaction ([`transaction`]) and returns
//! a [`DeliveryOutcome`] for each recipient, in their order. It stores nothing on disk, schedules no retries and
//! writes no bounces: retries and notifications are the responsibility of the router (`mail::router`).
//!
//! Guarantees:
//!
//! - A recipient is `Delivered` only if the server confirmed it after the end of the message data.
//! - If the result is unknown because the connection broke before that reply, the outcome is `Temporary`: the message
//!   may arrive twice, but it is not lost.
//! - No bare CR or LF and no undoubled leading dot is sent ([`message_data`]).
//! - Nothing is sent in the clear if the requested security forbids it.

pub mod connection;
pub mod idle_pool;
pub mod message_data;
pub mod reply;
pub mod route;
pub mod transaction;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use base::networks::Networks;
use base::{Clock, Random};
use mail::router::{Recipient, ReturnContent};
use tokio::time::{Instant, timeout_at};
use wire::ClientTls;

use crate::client::connection::{ClientConnection, TransferError};
use crate::client::idle_pool::IdlePool;
use crate::client::route::{ServerAddress, targets};
use crate::dns::Resolver;
use crate::error::{EnhancedStatus, Result};
use crate::limits::{ADDRESSES_MAX, IDLE_CONNECTIONS_MAX, REUSE_MESSAGES_MAX};

/// Timeouts of a session (RFC 5321 §4.5.3.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// Timeout of the connection attempt.
    pub connect: Duration,
    /// Timeout of the greeting.
    pub greeting: Duration,
    /// Timeout of the replies to EHLO, STARTTLS, AUTH, MAIL, RCPT, RSET.
    pub command: Duration,
    /// Timeout of the reply to DATA.
    pub data_begin: Duration,
    /// Timeout of sending the message data.
    pub data_block: Duration,
    /// Timeout of the reply to the end of the message data.
    pub data_end: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            greeting: Duration::from_secs(300),
            command: Duration::from_secs(300),
            data_begin: Duration::from_secs(120),
            data_block: Duration::from_secs(180),
            data_end: Duration::from_secs(600),
        }
    }
}

/// Options of the client.
#[derive(Clone, Debug)]
pub struct SmtpClientOptions {
    /// The name of this server, sent with EHLO.
    pub hostname: String,
    /// Further names under which this server may be a mail exchanger, besides `hostname`.
    pub own_names: Vec<String>,
    /// The port of other servers. It is 25 except in tests.
    pub port: u16,
    /// The special-purpose addresses to which mail is sent. No connections are made to others of them, except to a
    /// configured host.
    pub special_networks: Networks,
    /// The security of connections to mail exchangers.
    pub security: Security,
    /// The handling of 8-bit data if the next server does not offer 8BITMIME.
    pub eight_bit: EightBitPolicy,
    /// The timeouts.
    pub timeouts: Timeouts,
    /// Maximum time for which a connection may be idle before it is reused. Zero disables reuse.
    pub reuse: Duration,
    /// Maximum number of messages sent over one connection.
    pub reuse_messages_max: u32,
    /// Maximum number of idle connections kept.
    pub idle_connections_max: usize,
}

impl SmtpClientOptions {
    /// Creates default options for a server with this name.
    #[must_use]
    pub fn new(hostname: &str) -> Self {
        Self {
            hostname: hostname.to_owned(),
            own_names: Vec::new(),
            port: 25,
            special_networks: Networks::default(),
            security: Security::Opportunistic,
            eight_bit: EightBitPolicy::Bounce,
            timeouts: Timeouts::default(),
            reuse: Duration::from_secs(20),
            reuse_messages_max: REUSE_MESSAGES_MAX,
            idle_connections_max: IDLE_CONNECTIONS_MAX,
        }
    }
}

/// The handling of 8-bit data for a server without 8BITMIME. Converting the message would break its signatures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EightBitPolicy {
    /// The message bounces, as RFC 6152 §3 requires.
    Bounce,
    /// The message is sent anyway. Nearly every current server accepts it.
    Send,
}

/// The security of a connection.
#[derive(Clone, Debug)]
pub enum Security {
    /// No encryption.
    Clear,
    /// STARTTLS if the server offers it, with any certificate. Without STARTTLS, or if TLS fails, no encryption.
    Opportunistic,
    /// STARTTLS with any certificate.
    Required,
    /// STARTTLS with a certificate that these settings accept.
    Verified(ClientTls),
    /// TLS from the first byte (port 465) with a certificate that these settings accept.
    Implicit(ClientTls),
}

/// The protocol of the remote host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientProtocol {
    /// SMTP.
    Smtp,
    /// LMTP, with a reply for each recipient after the message data.
    Lmtp,
}

/// A host that is configured instead of looked up: a smart host or an LMTP server.
#[derive(Clone, Debug)]
pub struct SmartHost {
    /// The name or address.
    pub name: String,
    /// The port.
    pub port: u16,
    /// The security of the connection.
    pub security: Security,
    /// Login and password. They are sent only over TLS or to this machine.
    pub login: Option<(String, String)>,
    /// The protocol.
    pub protocol: ClientProtocol,
}

/// The next hop of a message.
#[derive(Clone, Debug)]
pub enum NextHop {
    /// The mail exchangers of a domain, or the host of an address literal such as `[192.0.2.1]`.
    Domain(String),
    /// A host configured by the operator.
    Host(Arc<SmartHost>),
}

/// An outgoing message.
#[derive(Clone, Copy, Debug)]
pub struct OutboundMessage<'a> {
    /// The reverse path, empty for `<>`.
    pub reverse_path: &'a str,
    /// The recipients. All of them have the same route.
    pub recipients: &'a [Recipient],
    /// The value of `ENVID`.
    pub envelope_id: Option<&'a str>,
    /// The value of `RET`.
    pub return_content: ReturnContent,
    /// `true` if the message was received with SMTPUTF8.
    pub smtputf8: bool,
    /// The message.
    pub message: &'a [u8],
}

/// The outcome of a delivery attempt for one recipient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeliveryOutcome {
    /// The next server has accepted the message.
    Delivered(Delivery),
    /// The delivery failed temporarily. It may be retried.
    Temporary(DeliveryFailure),
    /// The delivery failed permanently.
    Permanent(DeliveryFailure),
}

/// A delivery to the next server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The server's name.
    pub host: String,
    /// The server's reply.
    pub reply: String,
    /// `true` if the server takes over the reports that the sender requested (DSN). Otherwise this server must write
    /// them.
    pub handles_dsn: bool,
    /// `true` if the connection was encrypted.
    pub tls: bool,
}

/// The reason why a delivery failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryFailure {
    /// The reply code, if a server sent one.
    pub code: Option<u16>,
    /// The enhanced status code, from the server or from this client.
    pub status: EnhancedStatus,
    /// The server's reply, or a description of the failure.
    pub text: String,
    /// The server's name.
    pub host: Option<String>,
}

impl fmt::Display for DeliveryFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(host) = &self.host {
            write!(f, "{host}: ")?;
        }
        write!(f, "{} {}", self.status, self.text)
    }
}

/// Sends messages to other servers. There is one per server, shared by all sending tasks.
pub struct SmtpClient {
    options: SmtpClientOptions,
    resolver: Resolver,
    /// The TLS settings for servers whose certificate is not checked.
    anyone: ClientTls,
    idle: IdlePool,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl SmtpClient {
    /// Creates a client.
    pub fn new(
        options: SmtpClientOptions,
        resolver: Resolver,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self> {
        let anyone = ClientTls::opportunistic().map_err(|error| crate::Error::Tls(error.to_string()))?;
        let idle = IdlePool::new(options.idle_connections_max, options.reuse);
        Ok(Self { options, resolver, anyone, idle, clock, random })
    }

    /// Sends a message and returns the outcome of each recipient. Every step may take as long as the options permit.
    pub async fn send(&self, route: &NextHop, outgoing: &OutboundMessage<'_>) -> Vec<DeliveryOutcome> {
        self.send_until(None, route, outgoing).await
    }

    /// Sends as [`SmtpClient::send`] does, but gives up on servers that are not ready for the message within `limit`.
    /// The limit covers name resolution, connection, greeting and handshake. A transaction that has begun by then
    /// continues, because the server may already have accepted the message.
    pub async fn send_with_open_timeout(
        &self,
        limit: Duration,
        route: &NextHop,
        outgoing: &OutboundMessage<'_>,
    ) -> Vec<DeliveryOutcome> {
        self.send_until(Instant::now().checked_add(limit), route, outgoing).await
    }

    async fn send_until(
        &self,
        deadline: Option<Instant>,
        route: &NextHop,
        outgoing: &OutboundMessage<'_>,
    ) -> Vec<DeliveryOutcome> {
        let targets = with_deadline(deadline, targets(route, &self.options, &self.resolver, &*self.random)).await;
        let targets = match targets {
            Ok(targets) => targets,
            Err(problem) => return vec![problem.outcome(None); outgoing.recipients.len()],
        };
        let key = idle_pool::key(route);
        let mut attempt = Attempt { outcomes: vec![None; outgoing.recipients.len()], failure: None };
        while let Some(connection) = self.idle.take(&key, self.clock.monotonic()) {
            if let Ok(connection) = with_deadline(deadline, self.reset_idle(connection)).await {
                self.run(connection, &key, outgoing, &mut attempt).await;
                break;
            }
        }
        for target in targets.iter().take(ADDRESSES_MAX) {
            if attempt.is_settled() {
                break;
            }
            match with_deadline(deadline, self.open(target)).await {
                Ok(connection) => self.run(connection, &key, outgoing, &mut attempt).await,
                Err(problem) => attempt.record_failure(&problem, &target.name),
            }
        }
        attempt.finish()
    }

    /// Closes connections that were idle for longer than the options permit. `server` calls this periodically.
    pub async fn close_idle(&self) {
        for connection in self.idle.take_expired(self.clock.monotonic()) {
            connection.quit(&self.options).await;
        }
    }

    /// Closes all idle connections. It is called when the server stops.
    pub async fn close(&self) {
        for connection in self.idle.drain() {
            connection.quit(&self.options).await;
        }
    }

    /// Returns the number of idle connections.
    #[must_use]
    pub fn idle_count(&self) -> usize {
        self.idle.count()
    }

    async fn reset_idle(
        &self,
        mut connection: ClientConnection,
    ) -> std::result::Result<ClientConnection, TransferError> {
        let reply = connection.send_command("RSET", self.options.timeouts.command).await?;
        if reply.is_positive() { Ok(connection) } else { Err(TransferError::Refused(reply)) }
    }

    /// Opens a session. If TLS is opportunistic and fails, a second attempt is made without TLS.
    async fn open(&self, target: &ServerAddress) -> std::result::Result<ClientConnection, TransferError> {
        match ClientConnection::open(target, &self.options, &self.anyone).await {
            Err(TransferError::TlsFailed(reason)) if matches!(target.security, Security::Opportunistic) => {
                let server = &target.name;
                tracing::debug!(target: "smtp", %server, why = %reason, "TLS failed, sending without TLS");
                let in_clear = ServerAddress { security: Security::Clear, ..target.clone() };
                ClientConnection::open(&in_clear, &self.options, &self.anyone).await
            }
            outcome => outcome,
        }
    }

    /// Runs the transaction for the recipients without an outcome, and keeps the connection if it is still usable.
    ///
    /// Recipients remain without an outcome if the connection breaks before the server can have accepted the message.
    async fn run(
        &self,
        mut connection: ClientConnection,
        key: &str,
        outgoing: &OutboundMessage<'_>,
        attempt: &mut Attempt,
    ) {
        let outcome = transaction::run(&mut connection, &self.options, outgoing, &mut attempt.outcomes).await;
        if let Err(problem) = outcome {
            return attempt.record_failure(&problem, &connection.name);
        }
        connection.messages = connection.messages.saturating_add(1);
        if connection.messages >= self.options.reuse_messages_max || self.options.reuse.is_zero() {
            connection.quit(&self.options).await;
        } else if let Some(oldest) = self.idle.put(key, connection, self.clock.monotonic()) {
            oldest.quit(&self.options).await;
        }
    }
}

/// Awaits a step of opening a session, until the deadline if there is one.
async fn with_deadline<T>(
    deadline: Option<Instant>,
    step: impl Future<Output = std::result::Result<T, TransferError>>,
) -> std::result::Result<T, TransferError> {
    let Some(deadline) = deadline else { return step.await };
    timeout_at(deadline, step)
        .await
        .unwrap_or_else(|_| Err(TransferError::connection_failed("no session could be opened in time")))
}

/// The state of an attempt to send a message.
struct Attempt {
    outcomes: Vec<Option<DeliveryOutcome>>,
    /// The outcome of recipients for which no server has replied. A temporary failure of one server takes precedence
    /// over permanent ones of others, because that server may accept the message later.
    failure: Option<DeliveryOutcome>,
}

impl Attempt {
    fn is_settled(&self) -> bool {
        self.outcomes.iter().all(Option::is_some)
    }

    fn record_failure(&mut self, problem: &TransferError, host: &str) {
        if !matches!(self.failure, Some(DeliveryOutcome::Temporary(_))) {
            self.failure = Some(problem.outcome(Some(host)));
        }
    }

    fn finish(self) -> Vec<DeliveryOutcome> {
        let failure = self
            .failure
            .unwrap_or_else(|| TransferError::connection_failed("no server accepted the message").outcome(None));
        self.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| failure.clone())).collect()
    }
}
