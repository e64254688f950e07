//! The connection: the only part of the room that knows tokio.
//!
//! Reads lines, lets the session decide, has work done on the pool, waits until what is told is durable, and writes replies. Replies
//! of pipelined commands leave together. A connection that waits for its client holds no buffer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use wire::{Dismissal, Peer, Pool, Shutdown, Stream, Tls};

use crate::backend::Credentials;
use crate::codec::{Outgoing, take_line};
use crate::limits::REPLIES_BYTES_MAX;
use crate::session::{Offers, Session, Step};
use crate::work::{Outcome, Work};

/// What all connections share.
pub struct Service {
    /// Knows passwords and mail files.
    pub credentials: Arc<dyn Credentials>,
    /// Runs the work.
    pub pool: Pool,
    /// The certificate for STLS; without one it is not offered.
    pub tls: Option<Arc<Tls>>,
    /// The server's name, for the greeting.
    pub hostname: String,
    /// Whether SCRAM-SHA-256 is offered.
    pub scram: bool,
    /// How long a client may be silent.
    pub idle_time_max: Duration,
    /// Tells when the server ends.
    pub shutdown: Shutdown,
}

/// Serves one connection until it ends. The stream is encrypted already where TLS comes first; the peer says so.
pub async fn serve(stream: Stream, peer: Peer, service: Arc<Service>, dismissal: Dismissal) -> io::Result<()> {
    let offers = Offers { tls: service.tls.is_some() && !peer.tls, scram: service.scram };
    let session = Session::new(peer, &service.hostname, offers);
    let greeting = session.greeting();
    let shutdown = service.shutdown.clone();
    let output = greeting.into_bytes();
    let mut connection = Connection { stream, session, service, dismissal, input: Vec::new(), output };
    tokio::select! {
        biased;
        () = shutdown.closing() => Ok(()),
        outcome = connection.run() => outcome,
    }
}

struct Connection {
    stream: Stream,
    session: Session,
    service: Arc<Service>,
    /// Given when the account is not what it was at the login.
    dismissal: Dismissal,
    /// What was received and not taken yet.
    input: Vec<u8>,
    /// Replies that were not sent yet.
    output: Vec<u8>,
}

/// Whether the connection goes on.
#[derive(PartialEq, Eq)]
enum Course {
    Open,
    Closed,
}

impl Connection {
    async fn run(&mut self) -> io::Result<()> {
        loop {
            if self.dismissal.is_given() {
                self.output.extend_from_slice(self.session.dismissed().as_bytes());
                self.send().await?;
                return self.stream.shutdown().await;
            }
            let step = match take_line(&mut self.input, self.session.awaited()) {
                Ok(Some(line)) => self.session.line(&line),
                Ok(None) => match self.receive().await? {
                    Course::Open => continue,
                    Course::Closed => return Ok(()),
                },
                Err(error) => self.session.broken_line(error),
            };
            if self.follow(step).await? == Course::Closed {
                self.send().await?;
                return self.stream.shutdown().await;
            }
            if self.output.len() >= REPLIES_BYTES_MAX {
                self.send().await?;
            }
        }
    }

    /// Does what the session says, and what follows from that.
    async fn follow(&mut self, mut step: Step) -> io::Result<Course> {
        loop {
            match step {
                Step::Reply(text) => {
                    self.output.extend_from_slice(text.as_bytes());
                    return Ok(Course::Open);
                }
                Step::Message(line, outgoing) => {
                    self.output.extend_from_slice(line.as_bytes());
                    self.message(outgoing).await?;
                    return Ok(Course::Open);
                }
                Step::Work(work) => step = self.work(work).await,
                Step::StartTls(text) => {
                    self.output.extend_from_slice(text.as_bytes());
                    self.start_tls().await?;
                    return Ok(Course::Open);
                }
                Step::Close(text) => {
                    self.output.extend_from_slice(text.as_bytes());
                    return Ok(Course::Closed);
                }
            }
        }
    }

    async fn work(&mut self, work: Work) -> Step {
        let (credentials, peer) = (Arc::clone(&self.service.credentials), *self.session.peer());
        let done = self.service.pool.run(move || work.execute(credentials.as_ref(), &peer)).await;
        let outcome = match done {
            Ok(done) => match done.durable {
                Some(durable) => {
                    durable.await.map_or_else(|error| Outcome::Failed(error.to_string()), |()| done.outcome)
                }
                None => done.outcome,
            },
            Err(error) => Outcome::Failed(error.to_string()),
        };
        self.session.finish(outcome)
    }

    async fn message(&mut self, mut outgoing: Outgoing) -> io::Result<()> {
        while outgoing.fill(&mut self.output, REPLIES_BYTES_MAX) {
            self.send().await?;
        }
        Ok(())
    }

    async fn start_tls(&mut self) -> io::Result<()> {
        self.send().await?;
        // What came behind STLS in clear must not be taken for what comes encrypted.
        self.input.clear();
        let Some(tls) = self.service.tls.clone() else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let (placeholder, _) = Stream::duplex(1);
        self.stream = std::mem::replace(&mut self.stream, placeholder).accept_tls(&tls).await?;
        self.session.encrypted();
        Ok(())
    }

    /// Sends what is due and waits for more from the client.
    async fn receive(&mut self) -> io::Result<Course> {
        self.send().await?;
        if self.input.is_empty() {
            self.input = Vec::new();
        }
        tokio::select! {
            received = tokio::time::timeout(self.service.idle_time_max, self.stream.receive(&mut self.input)) => {
                match received {
                    Ok(received) => Ok(if received? == 0 { Course::Closed } else { Course::Open }),
                    // RFC 1939 §3: a session that is given up removes nothing and says nothing.
                    Err(_) => Ok(Course::Closed),
                }
            }
            () = self.service.shutdown.draining() => {
                self.output.extend_from_slice(self.session.farewell().as_bytes());
                self.send().await?;
                Ok(Course::Closed)
            }
            // The reading loop says good-bye.
            () = self.dismissal.given() => Ok(Course::Open),
        }
    }

    async fn send(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        // A client that takes nothing for as long as it may be silent is gone.
        let written = tokio::time::timeout(self.service.idle_time_max, async {
            self.stream.write_all(&self.output).await?;
            self.stream.flush().await
        });
        written.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        self.output = Vec::new();
        Ok(())
    }
}
