//! A server over TLS that answers each request with what a function returns. Its tasks end with it.

use std::io::Write as _;
use std::sync::Arc;

use base::sync::Mutex;
use client::{Traffic, Trust};
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::door::http::origin::Origin;
use crate::door::{Door, Reply};
use crate::plan::steps::PlanAction;
use crate::stub::acceptor;

/// A request that the server has received.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub content: Vec<u8>,
    /// The number of the request, from 0.
    pub number: usize,
    /// The number of the connection, from 0.
    pub connection: usize,
    headers: Vec<(String, String)>,
}

impl Seen {
    /// Returns the value of a header field, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value).unwrap_or_default()
    }

    /// Returns the content as a text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.content).into_owned()
    }
}

/// What the server answers.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A reply with its length.
    Page { status: u16, headers: Vec<(&'static str, String)>, content: Vec<u8> },
    /// A reply without end.
    Endless,
    /// These bytes; then the connection is closed.
    Bytes(Vec<u8>),
    /// The connection is closed.
    Close,
    /// No answer comes. The clock is paused, so that time limits pass at once.
    Silence,
}

impl Answer {
    pub fn raw(status: u16, content: Vec<u8>) -> Self {
        Self::Page { status, headers: Vec::new(), content }
    }

    pub fn page(status: u16, text: &str) -> Self {
        Self::raw(status, text.as_bytes().to_vec())
    }

    pub fn redirection(status: u16, location: &str) -> Self {
        Self::page(status, "moved").with("Location", location)
    }

    /// Adds a header field to a page.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Page { headers, .. } = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }
}

/// Compresses a content.
pub fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).expect("in memory");
    encoder.finish().expect("in memory")
}

/// A running server.
pub struct FakeServer {
    pub origin: Arc<Origin>,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// The task that accepts connections, which owns those of the connections.
    _tasks: JoinSet<()>,
}

impl Origin {
    /// Returns the same server, of which another certificate is expected.
    pub fn with_trust_of(&self, other: &Self) -> Self {
        Self { tls: Arc::clone(&other.tls), ..self.clone() }
    }
}

impl FakeServer {
    /// Starts a server over HTTP/1.1.
    pub async fn start(answer: impl FnMut(&Seen) -> Answer + Send + 'static) -> Self {
        let (acceptor, listener, origin) = listen(b"http/1.1").await;
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let recorded = Arc::clone(&seen);
        let answer = Arc::new(Mutex::new(answer));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            for connection in 0.. {
                let (socket, _) = listener.accept().await.expect("a listener");
                let acceptor = acceptor.clone();
                let answer = Arc::clone(&answer);
                let seen = Arc::clone(&recorded);
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    let mut stream = BufReader::new(stream);
                    while let Some(mut request) = read_request(&mut stream, connection).await {
                        request.number = seen.lock().len();
                        seen.lock().push(request.clone());
                        let answered = (*answer.lock())(&request);
                        if !send(&mut stream, answered).await {
                            break;
                        }
                    }
                    let _ = stream.get_mut().shutdown().await;
                });
            }
        });
        Self { origin, seen, _tasks: tasks }
    }

    /// Performs steps through a door, and returns a line for each: its verb, its result, and the requests that the
    /// server has received, as a function shows them.
    pub async fn performed<D: Door<Action = PlanAction>>(
        &self,
        door: &mut D,
        actions: &[PlanAction],
        shown: impl Fn(&Seen) -> String,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        for action in actions {
            let before = self.seen().len();
            let (result, calls) = match door.perform(action).await {
                Ok(Reply::Performed { calls, attachments, .. }) => {
                    let met = if attachments > 0 { format!(" ({attachments})") } else { String::new() };
                    (met, calls)
                }
                Ok(Reply::Skipped { calls, .. }) => (" skipped".to_owned(), calls),
                Err(error) => (format!(" {} {:?}", error.code, error.session), error.calls),
            };
            assert_eq!(calls as usize, self.seen().len() - before, "all requests are counted");
            let requests: Vec<String> = self.seen()[before..].iter().map(&shown).collect();
            lines.push(format!("{}{result}: {}", action.verb().word(), requests.join(" ")));
        }
        lines
    }

    /// Starts a server over HTTP/2, which answers with a text.
    pub async fn start_http2(answer: fn(&str) -> String) -> Self {
        let (acceptor, listener, origin) = listen(b"h2").await;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.expect("a listener");
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    let service = service_fn(move |request: Request<Incoming>| async move {
                        if request.uri().path() == "/events" {
                            return Ok::<_, hyper::Error>(Response::new(EventBody(None)));
                        }
                        let target = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
                        Ok(Response::new(EventBody(Some(answer(&target)))))
                    });
                    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { origin, seen: Arc::default(), _tasks: tasks }
    }

    /// Returns the requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }
}

/// A text, or nothing without end.
struct EventBody(Option<String>);

impl hyper::body::Body for EventBody {
    type Data = hyper::body::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        match self.0.take() {
            None => std::task::Poll::Pending,
            Some(text) if text.is_empty() => std::task::Poll::Ready(None),
            Some(text) => {
                self.0 = Some(String::new());
                std::task::Poll::Ready(Some(Ok(hyper::body::Frame::data(text.into()))))
            }
        }
    }
}

async fn listen(protocol: &[u8]) -> (TlsAcceptor, TcpListener, Arc<Origin>) {
    let (acceptor, pem) = acceptor(protocol).expect("a certificate");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let trust = Trust::pinned(pem.as_bytes()).expect("a certificate");
    let origin = Origin::new(&address, &trust, &Traffic::default()).expect("an origin");
    (acceptor, listener, Arc::new(origin))
}

async fn read_request(stream: &mut BufReader<TlsStream<TcpStream>>, connection: usize) -> Option<Seen> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|length| *length > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let method = words.next()?;
    let target = words.next()?;
    let mut seen = Seen { method, target, content: Vec::new(), number: 0, connection, headers: Vec::new() };
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        seen.headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    seen.content = vec![0; seen.header("content-length").parse().unwrap_or(0)];
    stream.read_exact(&mut seen.content).await.ok()?;
    Some(seen)
}

/// Sends an answer. Returns `true` if the connection is kept.
async fn send(stream: &mut BufReader<TlsStream<TcpStream>>, answer: Answer) -> bool {
    let stream = stream.get_mut();
    let (bytes, is_kept) = match answer {
        Answer::Close => return false,
        Answer::Silence => {
            tokio::time::pause();
            return std::future::pending().await;
        }
        Answer::Bytes(bytes) => (bytes, false),
        Answer::Endless => {
            let piece = [b"4000\r\n".to_vec(), vec![b'x'; 0x4000], b"\r\n".to_vec()].concat();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
            while stream.write_all(&piece).await.is_ok() {}
            return false;
        }
        Answer::Page { status, headers, content } => {
            let mut head = format!("HTTP/1.1 {status} Reason\r\nContent-Length: {}\r\n", content.len());
            for (name, value) in &headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            let is_kept = headers.iter().all(|(name, _)| *name != "Connection");
            ([head.into_bytes(), b"\r\n".to_vec(), content].concat(), is_kept)
        }
    };
    stream.write_all(&bytes).await.is_ok() && stream.flush().await.is_ok() && is_kept
}
