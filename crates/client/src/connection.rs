//! The connection to a server, and the client stubs that use it.
//!
//! The task that moves the connection's bytes belongs to the [`Channel`]s of the connection and ends with the last of
//! them.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base::Random;
use base::sync::RwLock;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use proto::v1;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::http::header::{AUTHORIZATION, USER_AGENT};
use tonic::codegen::http::uri::{Authority, Parts, PathAndQuery, Scheme};
use tonic::codegen::http::{HeaderValue, Request, Response, Uri};

use crate::error::Error;
use crate::scram::Scram;
use crate::traffic::Traffic;
use crate::trust::Trust;

/// Default maximum size of one message, in bytes.
const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Address of a server and settings of the connection.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// Host and port of the server.
    pub address: String,
    /// The name expected in the server's certificate. Default: the host of the address.
    pub server_name: Option<String>,
    /// The certificates that the client trusts.
    pub trust: Trust,
    /// Set if messages are compressed.
    pub compression: bool,
    /// Default time limit of a call. Calls that last until they are cancelled have no limit.
    pub call_time_max: Option<Duration>,
    /// Maximum size of one message in bytes, in either direction.
    pub message_bytes_max: usize,
    /// Counts the bytes of the connection. Connections with the same counters are counted together.
    pub traffic: Traffic,
    /// The local address from which the connection is opened. Default: the one that the system chooses.
    pub source: Option<IpAddr>,
}

impl ConnectOptions {
    /// Returns the default options for a server: no compression, and a time limit of one minute per call.
    #[must_use]
    pub fn new(address: &str, trust: Trust) -> Self {
        Self {
            address: address.to_owned(),
            server_name: None,
            trust,
            compression: false,
            call_time_max: Some(Duration::from_secs(60)),
            message_bytes_max: MESSAGE_BYTES_MAX,
            traffic: Traffic::default(),
            source: None,
        }
    }

    fn host(&self) -> &str {
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        self.server_name.as_deref().unwrap_or_else(|| host.trim_start_matches('[').trim_end_matches(']'))
    }
}

/// A connection to a server. Clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    compression: bool,
    message_bytes_max: usize,
}

macro_rules! stubs {
    ($($(#[$doc:meta])* $method:ident: $module:ident::$Stub:ident;)+) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $method(&self) -> v1::$module::$Stub<Channel> {
                let stub = v1::$module::$Stub::new(self.channel.clone())
                    .max_decoding_message_size(self.message_bytes_max)
                    .max_encoding_message_size(self.message_bytes_max);
                if !self.compression {
                    return stub;
                }
                stub.send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip)
            }
        )+
    };
}

impl Client {
    /// Connects to a server.
    pub async fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        let channel = Channel::connect(options).await?;
        Ok(Self { channel, compression: options.compression, message_bytes_max: options.message_bytes_max })
    }

    /// Uses a stream that is connected to a server already, such as one in memory. Nothing is encrypted, and calls have
    /// no time limit.
    pub async fn over<S>(stream: S) -> Result<Self, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let authority = Authority::from_static("doublet");
        let shared = |driver| Shared { authority, timeout: None, certificate: Vec::new(), driver };
        let broken = |reason: hyper::Error| Error::Tls { address: "memory".to_owned(), reason: reason.to_string() };
        let channel = Channel::over(stream, shared).await.map_err(broken)?;
        Ok(Self { channel, compression: false, message_bytes_max: MESSAGE_BYTES_MAX })
    }

    /// Returns a client for another session over the same connection. Its calls have no session until it has logged in.
    #[must_use]
    pub fn with_another_session(&self) -> Self {
        let channel = Channel { token: Arc::default(), ..self.channel.clone() };
        Self { channel, ..self.clone() }
    }

    /// Logs in with SCRAM-SHA-256 or, if the server does not offer it, with the password itself.
    pub async fn log_in(&self, login: &str, password: &str, random: &dyn Random) -> Result<v1::LoginReply, Error> {
        match self.login_scram(login, password, random).await {
            Err(Error::Call(status)) if status.code() == tonic::Code::Unimplemented => {
                self.login(login, password).await
            }
            outcome => outcome,
        }
    }

    /// Logs in with a password. The following calls run in the new session.
    pub async fn login(&self, login: &str, password: &str) -> Result<v1::LoginReply, Error> {
        let request = v1::LoginRequest { login: login.to_owned(), password: password.to_owned() };
        let reply = self.sessions().login(request).await?.into_inner();
        self.resume(&reply.token)?;
        Ok(reply)
    }

    /// Logs in with SCRAM-SHA-256. The password is not sent, and the server proves that it knows it.
    pub async fn login_scram(&self, login: &str, password: &str, random: &dyn Random) -> Result<v1::LoginReply, Error> {
        let (scram, first) = Scram::begin(login, password, random);
        let (requests, request_stream) = request_channel(1);
        let first = v1::AuthenticateRequest { mechanism: "SCRAM-SHA-256".to_owned(), response: first };
        requests.send(first).await;
        let mut replies = self.sessions().authenticate(request_stream).await?.into_inner();
        let missing = || Error::Login("the server closed the stream without a reply");
        let challenge = replies.message().await?.ok_or_else(missing)?.challenge;
        let (last, response) = scram.answer(&challenge)?;
        requests.send(v1::AuthenticateRequest { mechanism: String::new(), response }).await;
        let reply = replies.message().await?.ok_or_else(missing)?;
        last.check(&reply.challenge)?;
        let login = reply.login.ok_or(Error::Login("the server's reply contains no session"))?;
        self.resume(&login.token)?;
        Ok(login)
    }

    /// Resumes the session of a token.
    pub fn resume(&self, token: &str) -> Result<(), Error> {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Error::Login("the session token is malformed"))?;
        value.set_sensitive(true);
        *self.channel.token.write() = Some(value);
        Ok(())
    }

    /// Ends the session.
    pub async fn logout(&self) -> Result<(), Error> {
        self.sessions().logout(v1::LogoutRequest {}).await?;
        *self.channel.token.write() = None;
        Ok(())
    }

    /// Returns the certificate that the server has presented, in DER form.
    #[must_use]
    pub fn server_certificate(&self) -> &[u8] {
        &self.channel.shared.certificate
    }

    /// Returns `true` if the connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.channel.sender.is_closed()
    }

    stubs! {
        /// Returns the stub for logging in and out.
        sessions: sessions_client::SessionsClient;
        /// Returns the stub for databases and their access control lists.
        databases: databases_client::DatabasesClient;
        /// Returns the stub for notes, attachments, unread marks and searches.
        notes: notes_client::NotesClient;
        /// Returns the stub for views and folders.
        views: views_client::ViewsClient;
        /// Returns the stub for change streams and polling for new mail.
        changes: changes_client::ChangesClient;
        /// Returns the stub for full-text search.
        search: search_client::SearchClient;
        /// Returns the stub for replication.
        replication: replication_client::ReplicationClient;
        /// Returns the stub for the certificates of servers.
        servers: servers_client::ServersClient;
        /// Returns the stub for names in the directory.
        directory: directory_client::DirectoryClient;
        /// Returns the stub for sending mail.
        mail: mail_client::MailClient;
    }
}

/// Creates the message stream of a call with streaming requests. Messages sent into the [`RequestSender`] come out of
/// the [`RequestStream`], which is passed to the call. At most `ahead` messages wait; a sender beyond that waits too.
#[must_use]
pub fn request_channel<T>(ahead: usize) -> (RequestSender<T>, RequestStream<T>) {
    let (sender, receiver) = tokio::sync::mpsc::channel(ahead.max(1));
    (RequestSender(sender), RequestStream(receiver))
}

/// Creates a message stream from messages that are available already.
#[must_use]
pub fn request_stream<T>(messages: impl IntoIterator<Item = T>) -> RequestStream<T> {
    let messages: Vec<T> = messages.into_iter().collect();
    let (sender, receiver) = tokio::sync::mpsc::channel(messages.len().max(1));
    for message in messages {
        // The channel has space for every message, and its receiver still exists.
        let _ = sender.try_send(message);
    }
    RequestStream(receiver)
}

/// The sending end of a call's message stream. The requests of the call end when it is dropped.
#[derive(Debug)]
pub struct RequestSender<T>(tokio::sync::mpsc::Sender<T>);

impl<T> RequestSender<T> {
    /// Sends a message. Returns `false` if the call has ended.
    pub async fn send(&self, message: T) -> bool {
        self.0.send(message).await.is_ok()
    }
}

/// The message stream of a call with streaming requests.
#[derive(Debug)]
pub struct RequestStream<T>(tokio::sync::mpsc::Receiver<T>);

impl<T> tonic::codegen::tokio_stream::Stream for RequestStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(context)
    }
}

/// The transport through which stubs send their calls.
#[derive(Debug, Clone)]
pub struct Channel {
    sender: SendRequest<Body>,
    /// The session, if there is one. Clients of one connection may have different sessions.
    token: Arc<RwLock<Option<HeaderValue>>>,
    shared: Arc<Shared>,
}

/// What all channels of a connection share.
#[derive(Debug)]
struct Shared {
    authority: Authority,
    timeout: Option<HeaderValue>,
    certificate: Vec<u8>,
    /// The task that moves the bytes. It ends with the last channel.
    driver: AbortHandle,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Path of the call that lasts until it is cancelled.
const UNLIMITED_CALL: &str = "/doublet.v1.Changes/WatchChanges";

impl Channel {
    async fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        let failed = |source| Error::Connect { address: options.address.clone(), source };
        let socket = open_socket(options).await.map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        let distrusted = |reason: String| Error::Tls { address: options.address.clone(), reason };
        let name = ServerName::try_from(options.host().to_owned()).map_err(|error| distrusted(error.to_string()))?;
        let connector = TlsConnector::from(options.trust.config());
        let stream = connector
            .connect(name, options.traffic.counted(socket))
            .await
            .map_err(|error| distrusted(error.to_string()))?;
        let certificates = stream.get_ref().1.peer_certificates();
        let certificate = certificates.and_then(<[_]>::first).map(|first| first.to_vec()).unwrap_or_default();
        let authority = options.host().parse().unwrap_or_else(|_| Authority::from_static("doublet"));
        let timeout = options.call_time_max.map(|time| format!("{}m", time.as_millis().min(99_999_999)));
        let timeout = timeout.and_then(|text| HeaderValue::from_str(&text).ok());
        let shared = |driver| Shared { authority, timeout, certificate, driver };
        Self::over(stream, shared).await.map_err(|error| distrusted(error.to_string()))
    }

    /// Begins HTTP/2 on a stream.
    async fn over<S>(stream: S, shared: impl FnOnce(AbortHandle) -> Shared) -> Result<Self, hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).initial_stream_window_size(1 << 20).initial_connection_window_size(4 << 20);
        builder.keep_alive_interval(Duration::from_secs(60)).keep_alive_timeout(Duration::from_secs(20));
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        // The calls report how the connection ends.
        let driver = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Self { sender, token: Arc::default(), shared: Arc::new(shared(driver)) })
    }

    /// Completes the address and the headers of a call.
    fn complete_request(&self, request: &mut Request<Body>) {
        let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        let lasts = path.path() == UNLIMITED_CALL;
        let mut parts = Parts::default();
        parts.scheme = Some(Scheme::HTTPS);
        parts.authority = Some(self.shared.authority.clone());
        parts.path_and_query = Some(path);
        *request.uri_mut() = Uri::from_parts(parts).expect("a URI with a scheme, an authority and a path is valid");
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("doublet-client/", env!("CARGO_PKG_VERSION"))));
        if let Some(token) = &*self.token.read()
            && !headers.contains_key(AUTHORIZATION)
        {
            headers.insert(AUTHORIZATION, token.clone());
        }
        if let Some(timeout) = &self.shared.timeout
            && !lasts
            && !headers.contains_key("grpc-timeout")
        {
            headers.insert("grpc-timeout", timeout.clone());
        }
    }
}

/// Connects to the server, from the local address if one is given.
async fn open_socket(options: &ConnectOptions) -> io::Result<TcpStream> {
    let Some(source) = options.source else { return TcpStream::connect(&options.address).await };
    let mut error = io::Error::new(io::ErrorKind::NotFound, "the server has no address of the family of the local one");
    for address in lookup_host(&options.address).await?.filter(|address| address.is_ipv4() == source.is_ipv4()) {
        let socket = if source.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.bind((source, 0).into())?;
        match socket.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(failed) => error = failed,
        }
    }
    Err(error)
}

impl tower_service::Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        self.complete_request(&mut request);
        Box::pin(self.sender.send_request(request))
    }
}
