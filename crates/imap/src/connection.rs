//! The task of one connection, and the only module that uses tokio. It reads, decodes, has commands executed on the
//! pool, waits for durability, and writes.
//!
//! Pipelining: all commands that have arrived are executed in order during one visit to a worker. They are answered
//! with one write, after one wait for durability. Commands that need no disk access are executed without a worker if
//! there is nothing to report to the client. A long response visits the pool once per slice, and the next slice is
//! produced only after the client has received the previous one.
//!
//! Logins are checked in a pool of their own, one at a time: a worker that comes to a login leaves it and what follows
//! to the connection, so that no password hash keeps a worker.
//!
//! Memory: between commands a connection holds its session and no buffer. TLS keeps its own buffers. DEFLATE releases
//! as much as it can when the client has been silent for a while. The decoder, which goes to the worker with a command,
//! holds the memory of the command's literals until the command has been executed.
//!
//! The task owns the stream. It ends with LOGOUT, an error, too long a silence, a command that arrives too slowly, the
//! server's shutdown, or the termination of the session. Shutdown and termination are reported to a client that is
//! between commands.

use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::BufMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};
use wire::limits::BODY_GRACE;
use wire::{Pace, Peer, PoolError, RunError, SessionTermination, Shutdown, Stream, Tls, WorkerPool};

use crate::codec::command::Command;
use crate::codec::{CommandDecoder, DecodeResult, ResponseStatus, ResponseWriter, Verb};
use crate::limits;
use crate::session::{ConnectionAction, Session, SessionContext, SliceTimer};

/// Data that the connections of one listener share.
pub struct ListenerServices {
    /// Data that all sessions share. Its option `starttls` requires `tls`.
    pub context: Arc<SessionContext>,
    /// The server's certificate, for STARTTLS.
    pub tls: Option<Arc<Tls>>,
    /// The pool that runs blocking work.
    pub pool: WorkerPool,
    /// The pool that checks logins.
    pub login_pool: WorkerPool,
    /// Signals the shutdown of the server.
    pub shutdown: Shutdown,
}

/// Serves one connection to its end. With implicit TLS, the handshake must be complete and `peer.tls` set.
pub async fn serve(
    stream: Stream,
    peer: Peer,
    service: Arc<ListenerServices>,
    termination: SessionTermination,
) -> io::Result<()> {
    let mut session = Session::new(Arc::clone(&service.context), peer);
    if peer.tls {
        session.set_encrypted(stream.channel_bindings());
    }
    let decoder = session.decoder();
    let work = Box::new(ConnectionState { session, decoder, deferred: None, out: ResponseWriter::new() });
    let shutdown = service.shutdown.clone();
    let paces = Paces::default();
    let mut connection = Connection { stream: Some(stream), work, service, termination, paces };
    tracing::debug!(target: "imap", connection = peer.connection, %peer, tls = peer.tls, "connection opened");
    let outcome = tokio::select! {
        biased;
        () = shutdown.closing() => Ok(()),
        outcome = connection.run(&shutdown) => outcome,
    };
    tracing::debug!(
        target: "imap",
        connection = peer.connection,
        %peer,
        login = connection.work.session.login(),
        error = outcome.as_ref().err().map(tracing::field::display),
        "connection closed"
    );
    outcome
}

struct Connection {
    /// The stream. `None` only during a TLS handshake.
    stream: Option<Stream>,
    work: Box<ConnectionState>,
    service: Arc<ListenerServices>,
    /// Signals that the account or its groups have changed since the login.
    termination: SessionTermination,
    paces: Paces,
}

/// The pace at which the client sends commands.
#[derive(Default)]
struct Paces {
    literal: Pace,
    command: Pace,
}

impl Paces {
    /// Returns the time at which the client is too slow unless more bytes arrive. A command whose bytes arrive one by
    /// one has the time that a silent client has.
    fn deadline(&mut self, decoder: &CommandDecoder, silence_max: Duration) -> Option<Instant> {
        let literal = self.literal.deadline(decoder.literal_progress(), BODY_GRACE);
        let command = self.command.deadline(decoder.command_progress(), silence_max);
        [literal, command].into_iter().flatten().min()
    }
}

/// The state that is moved to a worker and back.
struct ConnectionState {
    session: Session,
    decoder: CommandDecoder,
    /// A login that was decoded by a worker, which must not check it.
    deferred: Option<Box<(&'static Verb, Command)>>,
    out: ResponseWriter,
}

/// A task for a worker.
enum WorkerTask {
    Execute(&'static Verb, Command),
    Resume,
    Answer(Vec<u8>),
}

/// Reason why waiting for the client ended without data.
enum WaitEnd {
    Ended,
    TooLong,
    TooSlow,
    Draining,
    Dismissed,
    Woken,
}

impl Connection {
    async fn run(&mut self, shutdown: &Shutdown) -> io::Result<()> {
        self.work.session.greet(&mut self.work.out);
        loop {
            if self.termination.is_terminated() {
                return self.close_with_bye(&WaitEnd::Dismissed).await;
            }
            let action = match self.work.decode() {
                DecodeResult::Incomplete => match self.wait(shutdown).await? {
                    Ok(action) => action,
                    Err(silence) => return self.close_with_bye(&silence).await,
                },
                DecodeResult::Command(verb, command) => self.run_task(WorkerTask::Execute(verb, command)).await?,
                other => self.work.handle_non_command(other),
            };
            if !self.perform_action(action, shutdown).await? {
                return self.close().await;
            }
        }
    }

    /// Waits for the client between commands, and meanwhile reports the events that the client watches.
    async fn wait(&mut self, shutdown: &Shutdown) -> io::Result<Result<ConnectionAction, WaitEnd>> {
        self.flush().await?;
        let listener = match self.work.decoder.is_empty() {
            true => self.work.session.listen_between_commands(),
            false => None,
        };
        if listener.is_some() && self.work.session.has_unreported_changes() {
            return self.run_task(WorkerTask::Resume).await.map(Ok);
        }
        let woken = async {
            match listener {
                Some(listener) => listener.await,
                None => std::future::pending().await,
            }
        };
        match self.read(shutdown, woken).await? {
            Ok(()) | Err(WaitEnd::Woken) => Ok(Ok(ConnectionAction::Ready)),
            Err(silence) => Ok(Err(silence)),
        }
    }

    /// Performs an action. Returns `false` at the end of the connection.
    async fn perform_action(&mut self, mut action: ConnectionAction, shutdown: &Shutdown) -> io::Result<bool> {
        loop {
            action = match action {
                ConnectionAction::Ready => return Ok(true),
                ConnectionAction::Unfinished => {
                    self.flush().await?;
                    self.run_task(WorkerTask::Resume).await?
                }
                ConnectionAction::Line => match self.line(shutdown).await? {
                    Some(action) => action,
                    None => return Ok(false),
                },
                ConnectionAction::Idle => match self.idle(shutdown).await? {
                    Some(action) => action,
                    None => return Ok(false),
                },
                ConnectionAction::StartTls => {
                    self.start_tls().await?;
                    ConnectionAction::Ready
                }
                ConnectionAction::Compress => {
                    self.flush().await?;
                    self.work.decoder.discard_input();
                    self.stream()?.start_deflate();
                    ConnectionAction::Ready
                }
                ConnectionAction::Close => return Ok(false),
            }
        }
    }

    /// Passes the session the next line, if it was received. Breaks with the session's action, or with `None` if the
    /// line is refused and the connection must end.
    async fn take_line(&mut self) -> io::Result<ControlFlow<Option<ConnectionAction>>> {
        match self.work.decoder.decode_line() {
            Some(Ok(line)) => self.run_task(WorkerTask::Answer(line)).await.map(Some).map(ControlFlow::Break),
            Some(Err(_)) => {
                self.work.session.refuse_line(&mut self.work.out);
                Ok(ControlFlow::Break(None))
            }
            None => Ok(ControlFlow::Continue(())),
        }
    }

    /// Passes the session the line that it asked for. Returns `None` if the connection must end.
    async fn line(&mut self, shutdown: &Shutdown) -> io::Result<Option<ConnectionAction>> {
        loop {
            if let ControlFlow::Break(outcome) = self.take_line().await? {
                return Ok(outcome);
            }
            self.flush().await?;
            if let Err(silence) = self.read(shutdown, std::future::pending()).await? {
                self.write_good_bye(&silence);
                return Ok(None);
            }
        }
    }

    /// Waits, while the client is idle, for a line from it or for something to report. Returns `None` if the connection
    /// must end.
    async fn idle(&mut self, shutdown: &Shutdown) -> io::Result<Option<ConnectionAction>> {
        loop {
            if let ControlFlow::Break(outcome) = self.take_line().await? {
                return Ok(outcome);
            }
            let listener = self.work.session.listen();
            if !self.work.session.has_nothing_to_report() {
                let action = self.run_task(WorkerTask::Resume).await?;
                if action != ConnectionAction::Idle {
                    return Ok(Some(action));
                }
            }
            self.flush().await?;
            let woken = async {
                match listener {
                    Some(listener) => listener.await,
                    None => std::future::pending().await,
                }
            };
            match self.read(shutdown, woken).await? {
                Ok(()) | Err(WaitEnd::Woken) => {}
                Err(silence) => {
                    self.write_good_bye(&silence);
                    return Ok(None);
                }
            }
        }
    }

    /// Runs a task on a worker, or on the current task if it needs no disk access.
    async fn run_task(&mut self, task: WorkerTask) -> io::Result<ConnectionAction> {
        if task.needs_no_disk(&self.work.session) {
            return Ok(self.work.perform(task));
        }
        if task.checks_login(&self.work.session) {
            return Ok(self.log_in(task).await);
        }
        let label = self.work.session.job_label(task.command());
        let placeholder = Box::new(self.work.placeholder());
        let mut work = std::mem::replace(&mut self.work, placeholder);
        let visited = self.service.pool.run(label, move || {
            let timer = SliceTimer::start(&work.session.context);
            let action = work.perform(task);
            let action = work.execute_pipelined(action, &timer);
            (work, action)
        });
        match visited.await {
            Ok((work, action)) => {
                self.return_work(work);
                Ok(action)
            }
            Err(error) => Ok(self.end_without_state(&error)),
        }
    }

    /// Takes back the state that a job worked on, and logs its fault.
    fn return_work(&mut self, work: Box<ConnectionState>) {
        self.work = work;
        if let Some(fault) = self.work.session.take_server_fault() {
            tracing::error!(login = self.work.session.login(), fault, "a command failed");
        }
    }

    /// Runs a task that checks a login: on a worker if the password was verified recently, otherwise in the pool for
    /// logins.
    async fn log_in(&mut self, task: WorkerTask) -> ConnectionAction {
        if !matches!(task, WorkerTask::Execute(..)) {
            return self.check_login(task).await;
        }
        let label = self.work.session.job_label(task.command());
        let placeholder = Box::new(self.work.placeholder());
        let work = std::mem::replace(&mut self.work, placeholder);
        let visited = self.service.pool.run_or_return(label, (work, task), |(mut work, task)| {
            if !matches!(&task, WorkerTask::Execute(_, command) if work.session.knows_login(&command.body)) {
                return (work, Err(task));
            }
            let timer = SliceTimer::start(&work.session.context);
            let mut action = work.perform(task);
            if action == ConnectionAction::Unfinished {
                // The mail file is opened.
                action = work.perform(WorkerTask::Resume);
            }
            let action = work.execute_pipelined(action, &timer);
            (work, Ok(action))
        });
        match visited.await {
            Ok((work, Ok(action))) => {
                self.return_work(work);
                action
            }
            Ok((work, Err(task))) => {
                self.work = work;
                self.check_login(task).await
            }
            Err(RunError::NotQueued(_, (work, task))) => {
                self.work = work;
                self.work.refuse_login(task)
            }
            Err(RunError::Failed(error)) => self.end_without_state(&error),
        }
    }

    /// Runs a task that checks a login in the pool for logins. If too many logins wait, the client may try again later,
    /// and the connection goes on.
    async fn check_login(&mut self, task: WorkerTask) -> ConnectionAction {
        let label = self.work.session.job_label(task.command());
        let placeholder = Box::new(self.work.placeholder());
        let work = std::mem::replace(&mut self.work, placeholder);
        let checked = self.service.login_pool.run_or_return(label, (work, task), |(mut work, task)| {
            let action = work.perform(task);
            (work, action)
        });
        match checked.await {
            Ok((work, action)) => {
                self.work = work;
                action
            }
            Err(RunError::NotQueued(_, (work, task))) => {
                self.work = work;
                self.work.refuse_login(task)
            }
            Err(RunError::Failed(error)) => self.end_without_state(&error),
        }
    }

    /// Ends the connection because a pool did not return its state.
    fn end_without_state(&mut self, error: &PoolError) -> ConnectionAction {
        let text = match error {
            PoolError::Full => "[LIMIT] too many requests of your account are waiting, try again later",
            _ => "[SERVERBUG] internal error, closing connection",
        };
        if let PoolError::Panicked(text) = error {
            tracing::error!(fault = text, "a command panicked");
        }
        self.work.out.untagged_status(ResponseStatus::Bye, text);
        ConnectionAction::Close
    }

    /// Sends the output once it is durable.
    async fn flush(&mut self) -> io::Result<()> {
        if let Some(durable) = self.work.session.take_durability_wait() {
            durable.await.map_err(|error| io::Error::other(error.to_string()))?;
        }
        if self.work.out.is_empty() {
            return Ok(());
        }
        let bytes = self.work.out.take();
        let stream = self.stream()?;
        let sent = async {
            stream.write_all(&bytes).await?;
            stream.flush().await
        };
        timeout(limits::WRITE_TIME_MAX, sent).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// Reads the next bytes into the decoder.
    async fn read(&mut self, shutdown: &Shutdown, woken: impl Future<Output = ()>) -> io::Result<Result<(), WaitEnd>> {
        let logged_in = self.work.session.login().is_some();
        let options = &self.service.context.options;
        let time_max = if logged_in { options.silence_time_max } else { options.login_time_max };
        let idle_end = Instant::now() + time_max;
        let pace_end = self.paces.deadline(&self.work.decoder, time_max).filter(|end| *end < idle_end);
        let deadline = pace_end.unwrap_or(idle_end);
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        tokio::select! {
            biased;
            received = receive(stream, &mut self.work.decoder, deadline) => match received? {
                Some(0) => Ok(Err(WaitEnd::Ended)),
                Some(_) => Ok(Ok(())),
                None if pace_end.is_some() => Ok(Err(WaitEnd::TooSlow)),
                None => Ok(Err(WaitEnd::TooLong)),
            },
            () = woken => Ok(Err(WaitEnd::Woken)),
            () = shutdown.draining() => Ok(Err(WaitEnd::Draining)),
            () = self.termination.terminated() => Ok(Err(WaitEnd::Dismissed)),
        }
    }

    async fn start_tls(&mut self) -> io::Result<()> {
        self.flush().await?;
        // Data that was sent in clear after STARTTLS must not be treated as encrypted (CVE-2011-0411).
        self.work.decoder.discard_input();
        let tls = self.service.tls.clone().ok_or(io::ErrorKind::Unsupported)?;
        let stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
        let stream = stream.accept_tls(&tls).await?;
        self.work.session.set_encrypted(stream.channel_bindings());
        self.stream = Some(stream);
        Ok(())
    }

    fn write_good_bye(&mut self, silence: &WaitEnd) {
        let text = match silence {
            WaitEnd::TooLong => "[UNAVAILABLE] the connection was idle for too long",
            WaitEnd::TooSlow => "[UNAVAILABLE] the command arrived too slowly",
            WaitEnd::Draining => {
                self.work.session.withdraw_exchange();
                "[UNAVAILABLE] the server is shutting down, try again later"
            }
            WaitEnd::Dismissed => "the account or its groups were changed, log in again",
            WaitEnd::Ended | WaitEnd::Woken => return,
        };
        self.work.out.untagged_status(ResponseStatus::Bye, text);
    }

    async fn close_with_bye(&mut self, silence: &WaitEnd) -> io::Result<()> {
        self.write_good_bye(silence);
        self.close().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.flush().await?;
        self.stream()?.shutdown().await
    }

    fn stream(&mut self) -> io::Result<&mut Stream> {
        self.stream.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl ConnectionState {
    /// Returns a placeholder that is used while the actual state is with a worker.
    fn placeholder(&self) -> Self {
        let session = self.session.replacement();
        Self { decoder: session.decoder(), session, deferred: None, out: ResponseWriter::new() }
    }

    /// Returns the next command or other input. A login that a worker left comes first.
    fn decode(&mut self) -> DecodeResult {
        if let Some(deferred) = self.deferred.take() {
            let (verb, command) = *deferred;
            return DecodeResult::Command(verb, command);
        }
        self.session.configure(&mut self.decoder);
        self.decoder.decode()
    }

    fn perform(&mut self, task: WorkerTask) -> ConnectionAction {
        match task {
            WorkerTask::Execute(verb, command) => self.session.execute(verb, command, &mut self.out),
            WorkerTask::Resume => self.session.resume(&mut self.out),
            WorkerTask::Answer(line) => self.session.answer(&line, &mut self.out),
        }
    }

    /// Refuses a login that cannot be checked now.
    fn refuse_login(&mut self, task: WorkerTask) -> ConnectionAction {
        match task {
            WorkerTask::Execute(verb, command) => self.session.refuse_login(verb, command, &mut self.out),
            WorkerTask::Answer(_) => self.session.refuse_answer(&mut self.out),
            WorkerTask::Resume => ConnectionAction::Ready,
        }
    }

    /// Executes the other commands that have arrived, until there is enough output to send, others should get their
    /// turn, or a login follows.
    fn execute_pipelined(&mut self, mut action: ConnectionAction, timer: &SliceTimer) -> ConnectionAction {
        while action == ConnectionAction::Ready && self.out.len() < limits::SLICE_BYTES && !timer.is_over() {
            action = match self.decode() {
                DecodeResult::Incomplete => break,
                DecodeResult::Command(verb, command) if self.session.checks_login(verb) => {
                    self.deferred = Some(Box::new((verb, command)));
                    break;
                }
                DecodeResult::Command(verb, command) => self.session.execute(verb, command, &mut self.out),
                other => self.handle_non_command(other),
            };
        }
        action
    }

    /// Handles decoded input that is not a command.
    fn handle_non_command(&mut self, decoded: DecodeResult) -> ConnectionAction {
        match decoded {
            DecodeResult::Continue => {
                self.out.continuation("go on");
                ConnectionAction::Ready
            }
            DecodeResult::Refused(refusal) => self.session.refuse(&refusal, &mut self.out),
            DecodeResult::Fatal(error) => {
                self.out.untagged_status(ResponseStatus::Bye, &error.to_string());
                ConnectionAction::Close
            }
            DecodeResult::Incomplete | DecodeResult::Command(..) => ConnectionAction::Ready,
        }
    }
}

impl WorkerTask {
    /// Returns the name of the command that begins with the task. Returns `None` if the task continues a command.
    fn command(&self) -> Option<&'static str> {
        match self {
            Self::Execute(verb, _) => Some(verb.name),
            Self::Resume | Self::Answer(_) => None,
        }
    }

    /// Returns `true` if the task may check a login.
    fn checks_login(&self, session: &Session) -> bool {
        match self {
            Self::Execute(verb, _) => session.checks_login(verb),
            Self::Answer(_) => session.is_authenticating(),
            Self::Resume => false,
        }
    }

    /// Returns `true` if the task needs no disk access, so that a worker would only add latency.
    fn needs_no_disk(&self, session: &Session) -> bool {
        match self {
            Self::Execute(verb, _) => verb.needs_no_disk() && session.has_nothing_to_report(),
            Self::Answer(line) => line.eq_ignore_ascii_case(b"DONE") && session.has_nothing_to_report(),
            Self::Resume => false,
        }
    }
}

/// Reads into the decoder. Returns `None` if no data arrived until `deadline`. Cancel safe: dropping the future loses
/// no data.
async fn receive(stream: &mut Stream, decoder: &mut CommandDecoder, deadline: Instant) -> io::Result<Option<usize>> {
    if stream.is_deflated() {
        let release_at = Instant::now() + limits::IDLE_MEMORY_RELEASE_TIME;
        if let Ok(received) = timeout_at(release_at.min(deadline), receive_now(stream, decoder)).await {
            return received.map(Some);
        }
        stream.release_idle_memory();
    }
    timeout_at(deadline, receive_now(stream, decoder)).await.ok().transpose()
}

/// Reads a large literal directly into its buffer, and everything else after the input that has not been decoded.
async fn receive_now(stream: &mut Stream, decoder: &mut CommandDecoder) -> io::Result<usize> {
    match decoder.literal_buffer() {
        Some((literal, missing)) => stream.read_buf(&mut literal.limit(missing)).await,
        None => stream.receive(decoder.input()).await,
    }
}
