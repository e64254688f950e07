//! The transfer: takes one message to the servers of one destination and says what became of each recipient.
//!
//! The router gives a [`Route`] and an [`Outgoing`]; [`Transfer::send`] finds the hosts ([`route`]), opens a session or
//! takes one that is idle ([`connection`], [`idle`]), runs the transaction ([`transaction`]) and gives an [`Outcome`] for
//! each recipient, in their order. It keeps nothing on disk, retries nothing later and writes no reports: when to try
//! again, and whom to tell, is the router's business (`mail::router`).
//!
//! Promises:
//! - a recipient is `Delivered` only if the server said so after the end of the text;
//! - what is not known (the connection broke before that reply) is `Temporary`: the message may arrive twice, but not never;
//! - no bare CR or LF and no undoubled dot is sent ([`text`]);
//! - nothing is said in clear where the security asked for forbids it.

pub mod connection;
pub mod idle;
pub mod reply;
pub mod route;
pub mod text;
pub mod transaction;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use base::{Clock, Random};
use tokio::time::{Instant, timeout_at};
use wire::ClientTls;

use crate::client::connection::{Connection, Problem};
use crate::client::idle::Idle;
use crate::client::route::{Target, targets};
use crate::dns::Resolver;
use crate::envelope::{Recipient, Return};
use crate::error::{Result, Status};
use crate::limits::{ADDRESSES_MAX, IDLE_CONNECTIONS_MAX, REUSE_MESSAGES_MAX};

/// How long is waited for what (RFC 5321 §4.5.3.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// For the connection.
    pub connect: Duration,
    /// For the greeting.
    pub greeting: Duration,
    /// For the replies to EHLO, STARTTLS, AUTH, MAIL, RCPT, RSET.
    pub command: Duration,
    /// For the reply to DATA.
    pub data_begin: Duration,
    /// For the text to be taken.
    pub data_block: Duration,
    /// For the reply to the end of the text.
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

/// How the transfer behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Our name, for EHLO.
    pub hostname: String,
    /// Names by which mail exchangers would mean this server, besides `hostname`.
    pub own_names: Vec<String>,
    /// The port of other servers; 25 but for tests.
    pub port: u16,
    /// How connections to mail exchangers are secured.
    pub security: Security,
    /// What is done with 8-bit text that the next server does not offer to take.
    pub eight_bit: EightBit,
    /// How long is waited for what.
    pub timeouts: Timeouts,
    /// How long a connection may be idle and be used again; zero for never.
    pub reuse: Duration,
    /// Messages over one connection.
    pub reuse_messages_max: u32,
    /// Idle connections that are kept.
    pub idle_connections_max: usize,
}

impl Options {
    /// Gives what is sane for a server of this name.
    #[must_use]
    pub fn new(hostname: &str) -> Self {
        Self {
            hostname: hostname.to_owned(),
            own_names: Vec::new(),
            port: 25,
            security: Security::Opportunistic,
            eight_bit: EightBit::Bounce,
            timeouts: Timeouts::default(),
            reuse: Duration::from_secs(20),
            reuse_messages_max: REUSE_MESSAGES_MAX,
            idle_connections_max: IDLE_CONNECTIONS_MAX,
        }
    }
}

/// What is done with 8-bit text for a server without 8BITMIME. To rewrite it would break its signatures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EightBit {
    /// It comes back, as RFC 6152 §3 asks.
    Bounce,
    /// It is sent all the same; nearly every server of today takes it.
    Send,
}

/// How a connection is secured.
#[derive(Clone, Debug)]
pub enum Security {
    /// In clear.
    Clear,
    /// With STARTTLS where the server has it, whatever its certificate; else, and if it fails, in clear.
    Opportunistic,
    /// With STARTTLS, whatever the certificate.
    Required,
    /// With STARTTLS and a certificate that these settings accept.
    Verified(ClientTls),
    /// With TLS from the first byte (port 465) and a certificate that these settings accept.
    Implicit(ClientTls),
}

/// What the host at the other end speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// SMTP.
    Smtp,
    /// LMTP: a reply for each recipient after the text.
    Lmtp,
}

/// A host that is named, not found: a smart host, or an LMTP server.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name or address.
    pub name: String,
    /// Its port.
    pub port: u16,
    /// How the connection is secured.
    pub security: Security,
    /// Login and password. They are sent only over TLS or to this machine.
    pub login: Option<(String, String)>,
    /// What it speaks.
    pub dialect: Dialect,
}

/// Where a message goes next.
#[derive(Clone, Debug)]
pub enum Route {
    /// To the mail exchangers of a domain (or to the host of an address literal such as `[192.0.2.1]`).
    Domain(String),
    /// To a host that the operator named.
    Host(Arc<Host>),
}

/// A message on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The reverse path; empty for `<>`.
    pub reverse_path: &'a str,
    /// To whom. All of them go the same route.
    pub recipients: &'a [Recipient],
    /// `ENVID`.
    pub envelope_id: Option<&'a str>,
    /// `RET`.
    pub ret: Option<Return>,
    /// Whether the message came with SMTPUTF8.
    pub smtputf8: bool,
    /// The message.
    pub message: &'a [u8],
}

/// What became of a recipient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The next server has it.
    Delivered(Delivery),
    /// Not now. Try again later.
    Temporary(Failure),
    /// Never.
    Permanent(Failure),
}

/// A delivery to the next server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The server's name.
    pub host: String,
    /// What it said.
    pub reply: String,
    /// Whether it will see to the reports that the sender asked for (DSN). If not, they are ours to write.
    pub reports: bool,
    /// Whether the connection was encrypted.
    pub tls: bool,
}

/// Why a recipient was not delivered to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The reply code, if a server said it.
    pub code: Option<u16>,
    /// The enhanced status code: the server's, or ours.
    pub status: Status,
    /// What the server said, or what happened.
    pub text: String,
    /// The server's name.
    pub host: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(host) = &self.host {
            write!(f, "{host}: ")?;
        }
        write!(f, "{} {}", self.status, self.text)
    }
}

/// Sends messages on. One for the server; shared by all sending tasks.
pub struct Transfer {
    options: Options,
    resolver: Resolver,
    /// For servers whose certificate does not matter.
    anyone: ClientTls,
    idle: Idle,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl Transfer {
    /// Makes a transfer.
    pub fn new(options: Options, resolver: Resolver, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Result<Self> {
        let anyone = ClientTls::opportunistic().map_err(|error| crate::Error::Tls(error.to_string()))?;
        let idle = Idle::new(options.idle_connections_max, options.reuse);
        Ok(Self { options, resolver, anyone, idle, clock, random })
    }

    /// Sends a message; gives an outcome for each of its recipients. Servers have as long for everything as the options say.
    pub async fn send(&self, route: &Route, outgoing: &Outgoing<'_>) -> Vec<Outcome> {
        self.send_until(None, route, outgoing).await
    }

    /// The same, but no server that is not ready for the message after so long is waited for: neither name servers, connections, greetings
    /// nor handshakes. What has begun by then goes on; it could have been taken already.
    pub async fn send_opening_within(&self, limit: Duration, route: &Route, outgoing: &Outgoing<'_>) -> Vec<Outcome> {
        self.send_until(Instant::now().checked_add(limit), route, outgoing).await
    }

    async fn send_until(&self, deadline: Option<Instant>, route: &Route, outgoing: &Outgoing<'_>) -> Vec<Outcome> {
        let targets = before(deadline, targets(route, &self.options, &self.resolver, &*self.random)).await;
        let targets = match targets {
            Ok(targets) => targets,
            Err(problem) => return vec![problem.outcome(None); outgoing.recipients.len()],
        };
        let key = idle::key(route);
        let mut attempt = Attempt { outcomes: vec![None; outgoing.recipients.len()], failure: None };
        while let Some(connection) = self.idle.take(&key, self.clock.monotonic()) {
            if let Ok(connection) = before(deadline, self.revive(connection)).await {
                self.run(connection, &key, outgoing, &mut attempt).await;
                break;
            }
        }
        for target in targets.iter().take(ADDRESSES_MAX) {
            if attempt.is_settled() {
                break;
            }
            match before(deadline, self.open(target)).await {
                Ok(connection) => self.run(connection, &key, outgoing, &mut attempt).await,
                Err(problem) => attempt.failed(&problem, &target.name),
            }
        }
        attempt.finish()
    }

    /// Closes idle connections that nobody has used for as long as the options say; `server` calls this now and then.
    pub async fn close_idle(&self) {
        for connection in self.idle.expired(self.clock.monotonic()) {
            connection.quit(&self.options).await;
        }
    }

    /// Closes all idle connections; for the server's end.
    pub async fn close(&self) {
        for connection in self.idle.all() {
            connection.quit(&self.options).await;
        }
    }

    /// Tells how many connections are idle.
    #[must_use]
    pub fn idle_count(&self) -> usize {
        self.idle.count()
    }

    async fn revive(&self, mut connection: Connection) -> std::result::Result<Connection, Problem> {
        let reply = connection.command("RSET", self.options.timeouts.command).await?;
        if reply.is_positive() { Ok(connection) } else { Err(Problem::Refused(reply)) }
    }

    /// Opens a session; in clear once more where TLS was only welcome and failed.
    async fn open(&self, target: &Target) -> std::result::Result<Connection, Problem> {
        match Connection::open(target, &self.options, &self.anyone).await {
            Err(Problem::TlsFailed(why)) if matches!(target.security, Security::Opportunistic) => {
                tracing::debug!(host = %target.name, %why, "TLS failed, sending in clear");
                let in_clear = Target { security: Security::Clear, ..target.clone() };
                Connection::open(&in_clear, &self.options, &self.anyone).await
            }
            outcome => outcome,
        }
    }

    /// Runs the transaction for the recipients that have no outcome yet, and keeps the connection if it is still good.
    ///
    /// Recipients stay without an outcome when the connection broke before the server could have taken the message.
    async fn run(&self, mut connection: Connection, key: &str, outgoing: &Outgoing<'_>, attempt: &mut Attempt) {
        let outcome = transaction::run(&mut connection, &self.options, outgoing, &mut attempt.outcomes).await;
        if let Err(problem) = outcome {
            return attempt.failed(&problem, &connection.name);
        }
        connection.messages = connection.messages.saturating_add(1);
        if connection.messages >= self.options.reuse_messages_max || self.options.reuse.is_zero() {
            connection.quit(&self.options).await;
        } else if let Some(oldest) = self.idle.put(key, connection, self.clock.monotonic()) {
            oldest.quit(&self.options).await;
        }
    }
}

/// Waits for a step of opening a session, no longer than until the deadline if there is one.
async fn before<T>(
    deadline: Option<Instant>,
    step: impl Future<Output = std::result::Result<T, Problem>>,
) -> std::result::Result<T, Problem> {
    let Some(deadline) = deadline else { return step.await };
    timeout_at(deadline, step).await.unwrap_or_else(|_| Err(Problem::broken("no session was open in time")))
}

/// What has come of sending a message so far.
struct Attempt {
    outcomes: Vec<Option<Outcome>>,
    /// What recipients get that no server has said anything about. A temporary failure of one server outweighs what
    /// the others said: that one may take the message later.
    failure: Option<Outcome>,
}

impl Attempt {
    fn is_settled(&self) -> bool {
        self.outcomes.iter().all(Option::is_some)
    }

    fn failed(&mut self, problem: &Problem, host: &str) {
        if !matches!(self.failure, Some(Outcome::Temporary(_))) {
            self.failure = Some(problem.outcome(Some(host)));
        }
    }

    fn finish(self) -> Vec<Outcome> {
        let failure = self.failure.unwrap_or_else(|| Problem::broken("no server took the message").outcome(None));
        self.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| failure.clone())).collect()
    }
}
