//! The task of one connection, and the only module that uses tokio.
//!
//! It reads lines, passes them to the session, has requests executed on a pool, waits until the result is durable, and
//! writes the replies. Logins have a pool of their own. Replies to pipelined commands are sent together. A connection
//! that waits for its client holds no buffer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base::memory::MemoryShares;
use sasl::Mechanism;
use tokio::io::AsyncWriteExt;
use wire::{JobLabel, Peer, RunError, SessionTermination, Shutdown, Stream, Tls, WorkerPool};

use crate::backend::Accounts;
use crate::backend_request::{BackendRequest, BackendResponse};
use crate::codec::take_line;
use crate::limits::REPLIES_BYTES_MAX;
use crate::session::{ConnectionAction, Features, Session};

/// Data that all connections share.
pub struct ListenerServices {
    /// Access to passwords and mail files.
    pub accounts: Arc<dyn Accounts>,
    /// The pool that executes the requests.
    pub pool: WorkerPool,
    /// The pool that checks logins.
    pub login_pool: WorkerPool,
    /// The memory for messages, which the server shares between all protocols.
    pub memory: Arc<MemoryShares>,
    /// The certificate for STLS. If it is `None`, STLS is not offered.
    pub tls: Option<Arc<Tls>>,
    /// The server's name, for the greeting.
    pub hostname: String,
    /// The mechanisms of AUTH, as far as a connection can offer them.
    pub mechanisms: Vec<Mechanism>,
    /// Maximum silence of a client.
    pub idle_time_max: Duration,
    /// Signals the shutdown of the server.
    pub shutdown: Shutdown,
}

/// Serves one connection until it ends. With implicit TLS, the stream must already be encrypted and the peer marked
/// accordingly.
pub async fn serve(
    stream: Stream,
    peer: Peer,
    service: Arc<ListenerServices>,
    termination: SessionTermination,
) -> io::Result<()> {
    let mechanisms = service.mechanisms.clone();
    let offers = Features { tls: service.tls.is_some() && !peer.tls, mechanisms };
    let mut session = Session::new(peer, &service.hostname, offers, Arc::clone(&service.memory));
    if peer.tls {
        session.reset_after_tls(stream.channel_bindings());
    }
    let greeting = session.greeting();
    let shutdown = service.shutdown.clone();
    let input = Vec::new();
    let output = Vec::new();
    let mut connection = Connection { stream, session, service, termination, input, output };
    tracing::debug!(target: "pop3", connection = peer.connection, %peer, tls = peer.tls, "connection opened");
    connection.append_reply_without_command(&greeting);
    let outcome = tokio::select! {
        biased;
        () = shutdown.closing() => Ok(()),
        outcome = connection.run() => outcome,
    };
    tracing::debug!(
        target: "pop3",
        connection = peer.connection,
        %peer,
        logged_in = connection.session.is_logged_in(),
        error = outcome.as_ref().err().map(tracing::field::display),
        "connection closed"
    );
    outcome
}

struct Connection {
    stream: Stream,
    session: Session,
    service: Arc<ListenerServices>,
    /// Signals that the account or its groups have changed since the login.
    termination: SessionTermination,
    /// Input that has not been processed.
    input: Vec<u8>,
    /// Replies that have not been sent.
    output: Vec<u8>,
}

/// The state of the connection after an action.
#[derive(PartialEq, Eq)]
enum ConnectionState {
    Open,
    Closed,
}

impl Connection {
    async fn run(&mut self) -> io::Result<()> {
        loop {
            if self.termination.is_terminated() {
                let reply = self.session.dismissal_reply();
                self.append_reply_without_command(&reply);
                self.send().await?;
                return self.stream.shutdown().await;
            }
            let action = match take_line(&mut self.input, self.session.expected_line_kind()) {
                Ok(Some(line)) => self.session.process_line(&line),
                Ok(None) => match self.receive().await? {
                    ConnectionState::Open => continue,
                    ConnectionState::Closed => return Ok(()),
                },
                Err(error) => self.session.process_line_error(error),
            };
            if self.perform_action(action).await? == ConnectionState::Closed {
                self.send().await?;
                return self.stream.shutdown().await;
            }
            if self.output.len() >= REPLIES_BYTES_MAX {
                self.send().await?;
            }
        }
    }

    /// Performs an action of the session, and the actions that result from it.
    async fn perform_action(&mut self, mut action: ConnectionAction) -> io::Result<ConnectionState> {
        loop {
            match action {
                ConnectionAction::Reply(text) => {
                    self.append_reply(&text);
                    return Ok(ConnectionState::Open);
                }
                ConnectionAction::Message(piece) => {
                    if let Some(reply) = &piece.reply {
                        self.append_reply(reply);
                    }
                    self.output.extend_from_slice(&piece.output);
                    let Some(rest) = piece.rest else {
                        // The piece holds its memory until here.
                        if self.output.len() >= REPLIES_BYTES_MAX {
                            self.send().await?;
                        }
                        return Ok(ConnectionState::Open);
                    };
                    self.send().await?;
                    action = self.execute(rest).await;
                }
                ConnectionAction::CallBackend(request) => action = self.execute(request).await,
                ConnectionAction::StartTls(text) => {
                    self.append_reply(&text);
                    self.start_tls().await?;
                    return Ok(ConnectionState::Open);
                }
                ConnectionAction::Close(text) => {
                    self.append_reply(&text);
                    return Ok(ConnectionState::Closed);
                }
                ConnectionAction::Abort => return Ok(ConnectionState::Closed),
            }
        }
    }

    /// Appends the reply to the current command to the output.
    fn append_reply(&mut self, reply: &str) {
        self.session.log_reply(reply);
        self.output.extend_from_slice(reply.as_bytes());
    }

    /// Appends a reply that answers no command to the output.
    fn append_reply_without_command(&mut self, reply: &str) {
        self.session.log_reply_without_command(reply);
        self.output.extend_from_slice(reply.as_bytes());
    }

    async fn execute(&mut self, request: BackendRequest) -> ConnectionAction {
        let accounts = Arc::clone(&self.service.accounts);
        let peer = *self.session.peer();
        let label = JobLabel::new(self.session.job_owner(), "pop3", request.command());
        let execute = move |request: BackendRequest| request.execute(accounts.as_ref(), &peer);
        let done = if request.checks_login() {
            match self.service.login_pool.run_or_return(label, request, execute).await {
                Ok(done) => Ok(done),
                Err(RunError::NotQueued(_, request)) => Ok(request.withdraw().into()),
                Err(RunError::Failed(error)) => Err(error),
            }
        } else {
            self.service.pool.run(label, move || execute(request)).await
        };
        let response = match done {
            Ok(done) => match done.durable {
                Some(durable) => {
                    durable.await.map_or_else(|error| BackendResponse::Failed(error.to_string()), |()| done.response)
                }
                None => done.response,
            },
            Err(error) => BackendResponse::Failed(error.to_string()),
        };
        self.session.handle_response(response)
    }

    async fn start_tls(&mut self) -> io::Result<()> {
        self.send().await?;
        // Data that was sent in clear after STLS must not be treated as encrypted.
        self.input.clear();
        let Some(tls) = self.service.tls.clone() else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let (placeholder, _) = Stream::duplex(1);
        self.stream = std::mem::replace(&mut self.stream, placeholder).accept_tls(&tls).await?;
        self.session.reset_after_tls(self.stream.channel_bindings());
        Ok(())
    }

    /// Sends the pending output and waits for input from the client.
    async fn receive(&mut self) -> io::Result<ConnectionState> {
        self.send().await?;
        if self.input.is_empty() {
            self.input = Vec::new();
        }
        tokio::select! {
            received = tokio::time::timeout(self.service.idle_time_max, self.stream.receive(&mut self.input)) => {
                match received {
                    Ok(received) => Ok(if received? == 0 { ConnectionState::Closed } else { ConnectionState::Open }),
                    // RFC 1939 §3: a session that times out removes nothing and sends nothing.
                    Err(_) => Ok(ConnectionState::Closed),
                }
            }
            () = self.service.shutdown.draining() => {
                let reply = self.session.shutdown_reply();
                self.append_reply_without_command(&reply);
                self.send().await?;
                Ok(ConnectionState::Closed)
            }
            // The loop in `run` sends the reply.
            () = self.termination.terminated() => Ok(ConnectionState::Open),
        }
    }

    async fn send(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        // A client that accepts no data for as long as it may be silent is considered gone.
        let written = tokio::time::timeout(self.service.idle_time_max, async {
            self.stream.write_all(&self.output).await?;
            self.stream.flush().await
        });
        written.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        self.output = Vec::new();
        Ok(())
    }
}
