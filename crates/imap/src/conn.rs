//! One connection: the only tokio here. Reads, decodes, has commands executed on the pool, waits for durability, writes.
//!
//! Pipelining: all commands that have arrived are executed in one visit to a worker, in their order, and answered with one
//! write, after one wait for durability. Commands that need no disk, while there is nothing to tell, do not go to a
//! worker at all. A long answer visits the pool once a slice, and the next slice is made only when the client has taken
//! the one before.
//!
//! Memory: between commands a connection holds its session and no buffer. TLS keeps its own; DEFLATE gives back what it
//! can when the client is silent for a while.
//!
//! The task owns the stream. It ends with LOGOUT, an error, silence for too long, or the server's shutdown or a dismissal,
//! which are told to a client that is between commands.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BufMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use wire::{Dismissal, Peer, Pool, PoolError, Shutdown, Stream, Tls};

use crate::codec::ast::Command;
use crate::codec::{Decoded, Decoder, Status, Verb, Writer};
use crate::limits;
use crate::session::{Effect, Session, Site};

/// What the connections of one listener share.
pub struct Service {
    /// What sessions share. Its option `starttls` needs `tls`.
    pub site: Arc<Site>,
    /// The server's certificate, for STARTTLS.
    pub tls: Option<Arc<Tls>>,
    /// Where blocking work runs.
    pub pool: Pool,
    /// Tells when the server ends.
    pub shutdown: Shutdown,
}

/// Serves one connection to its end. With implicit TLS the handshake is done and `peer.tls` is set.
pub async fn serve(stream: Stream, peer: Peer, service: Arc<Service>, dismissal: Dismissal) -> io::Result<()> {
    let session = Session::new(Arc::clone(&service.site), peer);
    let decoder = Decoder::new(session.mode());
    let work = Box::new(Work { session, decoder, out: Writer::new() });
    let shutdown = service.shutdown.clone();
    let mut connection = Connection { stream: Some(stream), work, service, dismissal };
    tokio::select! {
        biased;
        () = shutdown.closing() => Ok(()),
        outcome = connection.run(&shutdown) => outcome,
    }
}

struct Connection {
    /// Taken only while TLS shakes hands.
    stream: Option<Stream>,
    work: Box<Work>,
    service: Arc<Service>,
    /// Given when the account is not what it was at the login.
    dismissal: Dismissal,
}

/// What travels to a worker and back.
struct Work {
    session: Session,
    decoder: Decoder,
    out: Writer,
}

/// What a worker is to do.
enum Task {
    Execute(&'static Verb, Command),
    Resume,
    Answer(Vec<u8>),
}

/// Why the client says nothing more.
enum Silence {
    Ended,
    TooLong,
    Draining,
    Dismissed,
    Woken,
}

impl Connection {
    async fn run(&mut self, shutdown: &Shutdown) -> io::Result<()> {
        self.work.session.greet(&mut self.work.out);
        loop {
            if self.dismissal.is_given() {
                return self.say_good_bye(&Silence::Dismissed).await;
            }
            let effect = match self.work.decode() {
                Decoded::Incomplete => match self.wait(shutdown).await? {
                    Ok(effect) => effect,
                    Err(silence) => return self.say_good_bye(&silence).await,
                },
                Decoded::Command(verb, command) => self.visit(Task::Execute(verb, command)).await?,
                other => self.work.take_other(other),
            };
            if !self.settle(effect, shutdown).await? {
                return self.close().await;
            }
        }
    }

    /// Waits for the client between commands, and tells it meanwhile of what it watches.
    async fn wait(&mut self, shutdown: &Shutdown) -> io::Result<Result<Effect, Silence>> {
        self.flush().await?;
        let listener = match self.work.decoder.is_empty() {
            true => self.work.session.listen_between_commands(),
            false => None,
        };
        if listener.is_some() && self.work.session.has_news() {
            return self.visit(Task::Resume).await.map(Ok);
        }
        let woken = async {
            match listener {
                Some(listener) => listener.await,
                None => std::future::pending().await,
            }
        };
        match self.read(shutdown, woken).await? {
            Ok(()) | Err(Silence::Woken) => Ok(Ok(Effect::Ready)),
            Err(silence) => Ok(Err(silence)),
        }
    }

    /// Does what an effect asks for; false at the end of the connection.
    async fn settle(&mut self, mut effect: Effect, shutdown: &Shutdown) -> io::Result<bool> {
        loop {
            effect = match effect {
                Effect::Ready => return Ok(true),
                Effect::Unfinished => {
                    self.flush().await?;
                    self.visit(Task::Resume).await?
                }
                Effect::Line => match self.line(shutdown).await? {
                    Some(effect) => effect,
                    None => return Ok(false),
                },
                Effect::Idle => match self.idle(shutdown).await? {
                    Some(effect) => effect,
                    None => return Ok(false),
                },
                Effect::StartTls => {
                    self.start_tls().await?;
                    Effect::Ready
                }
                Effect::Compress => {
                    self.flush().await?;
                    self.work.decoder.discard_input();
                    self.stream()?.start_deflate();
                    Effect::Ready
                }
                Effect::Close => return Ok(false),
            }
        }
    }

    /// Brings the session the line that it asked for; none when the client left.
    async fn line(&mut self, shutdown: &Shutdown) -> io::Result<Option<Effect>> {
        loop {
            match self.work.decoder.decode_line() {
                Some(Ok(line)) => return self.visit(Task::Answer(line)).await.map(Some),
                Some(Err(_)) => return Ok(None),
                None => {}
            }
            self.flush().await?;
            if let Err(silence) = self.read(shutdown, std::future::pending()).await? {
                self.write_good_bye(&silence);
                return Ok(None);
            }
        }
    }

    /// Waits with an idle client for its line or for something to tell it; none when the client left.
    async fn idle(&mut self, shutdown: &Shutdown) -> io::Result<Option<Effect>> {
        loop {
            match self.work.decoder.decode_line() {
                Some(Ok(line)) => return self.visit(Task::Answer(line)).await.map(Some),
                Some(Err(_)) => return Ok(None),
                None => {}
            }
            let listener = self.work.session.listen();
            if !self.work.session.is_quiet() {
                let effect = self.visit(Task::Resume).await?;
                if effect != Effect::Idle {
                    return Ok(Some(effect));
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
                Ok(()) | Err(Silence::Woken) => {}
                Err(silence) => {
                    self.write_good_bye(&silence);
                    return Ok(None);
                }
            }
        }
    }

    /// Has a worker do something, or does it here when it needs no disk.
    async fn visit(&mut self, task: Task) -> io::Result<Effect> {
        if task.is_light(&self.work.session) {
            return Ok(self.work.perform(task));
        }
        let placeholder = Box::new(self.work.placeholder());
        let mut work = std::mem::replace(&mut self.work, placeholder);
        let visited = self.service.pool.run(move || {
            let effect = work.perform(task);
            let effect = work.go_on(effect);
            (work, effect)
        });
        match visited.await {
            Ok((work, effect)) => {
                self.work = work;
                if let Some(fault) = self.work.session.take_fault() {
                    tracing::error!(login = self.work.session.login(), fault, "a command failed");
                }
                Ok(effect)
            }
            Err(error) => {
                if let PoolError::Panicked(text) = &error {
                    tracing::error!(fault = text, "a command panicked");
                }
                self.work.out.untagged_status(Status::Bye, "[SERVERBUG] this should not have happened");
                Ok(Effect::Close)
            }
        }
    }

    /// Sends what was written, once it is durable.
    async fn flush(&mut self) -> io::Result<()> {
        if let Some(durable) = self.work.session.take_durable() {
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

    /// Reads what comes next into the decoder.
    async fn read(&mut self, shutdown: &Shutdown, woken: impl Future<Output = ()>) -> io::Result<Result<(), Silence>> {
        let logged_in = self.work.session.login().is_some();
        let options = &self.service.site.options;
        let time_max = if logged_in { options.silence_time_max } else { options.login_time_max };
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        tokio::select! {
            biased;
            received = receive(stream, &mut self.work.decoder, time_max) => match received? {
                Some(0) => Ok(Err(Silence::Ended)),
                Some(_) => Ok(Ok(())),
                None => Ok(Err(Silence::TooLong)),
            },
            () = woken => Ok(Err(Silence::Woken)),
            () = shutdown.draining() => Ok(Err(Silence::Draining)),
            () = self.dismissal.given() => Ok(Err(Silence::Dismissed)),
        }
    }

    async fn start_tls(&mut self) -> io::Result<()> {
        self.flush().await?;
        // Whatever was sent in clear behind STARTTLS must not pass for encrypted (CVE-2011-0411).
        self.work.decoder.discard_input();
        let tls = self.service.tls.clone().ok_or(io::ErrorKind::Unsupported)?;
        let stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
        self.stream = Some(stream.accept_tls(&tls).await?);
        self.work.session.encrypted();
        Ok(())
    }

    fn write_good_bye(&mut self, silence: &Silence) {
        let text = match silence {
            Silence::TooLong => "[UNAVAILABLE] nothing was heard for too long",
            Silence::Draining => "[UNAVAILABLE] the server ends",
            Silence::Dismissed => "the account was disabled, removed or given another password",
            Silence::Ended | Silence::Woken => return,
        };
        self.work.out.untagged_status(Status::Bye, text);
    }

    async fn say_good_bye(&mut self, silence: &Silence) -> io::Result<()> {
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

impl Work {
    /// Gives what stands in while the real one is with a worker.
    fn placeholder(&self) -> Self {
        let session = self.session.successor();
        Self { decoder: Decoder::new(session.mode()), session, out: Writer::new() }
    }

    fn decode(&mut self) -> Decoded {
        self.decoder.set_mode(self.session.mode());
        self.decoder.decode()
    }

    fn perform(&mut self, task: Task) -> Effect {
        match task {
            Task::Execute(verb, command) => self.session.execute(verb, command, &mut self.out),
            Task::Resume => self.session.resume(&mut self.out),
            Task::Answer(line) => self.session.answer(&line, &mut self.out),
        }
    }

    /// Executes what else has arrived, until there is enough to send.
    fn go_on(&mut self, mut effect: Effect) -> Effect {
        while effect == Effect::Ready && self.out.len() < limits::SLICE_BYTES {
            effect = match self.decode() {
                Decoded::Incomplete => break,
                Decoded::Command(verb, command) => self.session.execute(verb, command, &mut self.out),
                other => self.take_other(other),
            };
        }
        effect
    }

    /// Answers what is not a command.
    fn take_other(&mut self, decoded: Decoded) -> Effect {
        match decoded {
            Decoded::Continue => {
                self.out.continuation("go on");
                Effect::Ready
            }
            Decoded::Refused(refusal) => self.session.refuse(&refusal, &mut self.out),
            Decoded::Fatal(error) => {
                self.out.untagged_status(Status::Bye, &error.to_string());
                Effect::Close
            }
            Decoded::Incomplete | Decoded::Command(..) => Effect::Ready,
        }
    }
}

impl Task {
    /// Whether this needs no disk, so that the way to a worker would only cost time.
    fn is_light(&self, session: &Session) -> bool {
        match self {
            Self::Execute(verb, _) => verb.is_light() && session.is_quiet(),
            Self::Answer(line) => line.eq_ignore_ascii_case(b"DONE") && session.is_quiet(),
            Self::Resume => false,
        }
    }
}

/// Reads into the decoder; none when nothing came for too long. Nothing is lost when this is dropped.
async fn receive(stream: &mut Stream, decoder: &mut Decoder, time_max: Duration) -> io::Result<Option<usize>> {
    if stream.is_deflated() {
        if let Ok(received) = timeout(limits::RELAX_TIME, receive_now(stream, decoder)).await {
            return received.map(Some);
        }
        stream.relax();
    }
    timeout(time_max, receive_now(stream, decoder)).await.ok().transpose()
}

/// Reads a message right into its place, and everything else behind what has not been decoded.
async fn receive_now(stream: &mut Stream, decoder: &mut Decoder) -> io::Result<usize> {
    match decoder.destination() {
        Some((literal, missing)) => stream.read_buf(&mut literal.limit(missing)).await,
        None => stream.receive(decoder.input()).await,
    }
}
