//! A server with the resources of JMAP on a port of the loopback network, and connections of clients over WebSocket.
//!
//! All logins have the password `secret`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};

use axum::http::{HeaderName, HeaderValue, Request, Response};
use base::Name;
use base::memory::MemoryShares;
use futures_util::{SinkExt as _, StreamExt as _};
use http::backend::{Accounts, CodeProof, FirstFactor, LoggedIn, LoginProof, LoginWatch};
use http::sessions::{SessionClient, SessionLogin};
use http::{Authenticator, Front, FrontOptions, SessionOptions, Sessions};
use jmap::service::{Service, ServiceParts};
use notes::Identity;
use sasl::{Credentials, Login, LoginError, LoginOrigin, LoginPassword, PasswordRequest};
use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, Message};
use wire::{JobLabel, JobOwner, Peer, PoolOptions, SessionTermination, Shutdown, Stream, WorkerPool};

use crate::world::World;

/// The password of everybody.
const PASSWORD: &str = "secret";

/// Number of workers.
const WORKERS: usize = 2;

/// Number of bytes that a client with a small buffer asks its system for.
const SMALL_BUFFER_BYTES: u32 = 16 << 10;

/// The origin whose pages may use the server.
pub const PERMITTED_ORIGIN: &str = "https://app.demo.test";

/// Logins with one password. All of those that are watched end with one signal.
struct OnePassword(SessionTermination);

/// A login that is watched.
struct Watch(SessionTermination);

impl LoginWatch for Watch {
    fn termination(&self) -> &SessionTermination {
        &self.0
    }
}

impl Credentials for OnePassword {
    fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
        match request.password() {
            PASSWORD => Ok(Login::new(request.authentication_id())),
            _ => Err(LoginError::InvalidCredentials),
        }
    }
}

impl Accounts for OnePassword {
    fn identify(&self, _: &LoginOrigin, login: &Login, _: Option<LoginProof>) -> Result<LoggedIn, LoginError> {
        let identity = Arc::new(Identity::person(login.name.as_str()));
        Ok(LoggedIn { identity, stamp: 0, password: login.password })
    }

    fn watch(&self, _: &LoginOrigin, _: &Login, _: LoginProof) -> Result<Box<dyn LoginWatch>, LoginError> {
        Ok(Box::new(Watch(self.0.clone())))
    }

    /// There is no login page.
    fn check_first_factor(&self, _: &LoginOrigin, _: &PasswordRequest) -> Result<FirstFactor, LoginError> {
        Err(LoginError::InvalidCredentials)
    }

    fn check_second_factor(&self, _: &LoginOrigin, _: &str, _: &str) -> Result<CodeProof, LoginError> {
        Err(LoginError::InvalidCredentials)
    }
}

/// A server.
pub struct Server {
    pub world: World,
    pub address: SocketAddr,
    pub sessions: Arc<Sessions>,
    pub shutdown: Shutdown,
    pub service: Arc<Service>,
    /// The memory for requests and answers.
    pub memory: Arc<MemoryShares>,
    pool: WorkerPool,
    /// The end of the logins that are watched.
    pub watched: SessionTermination,
    /// The signals that end connections because their account was changed.
    pub terminations: Arc<Mutex<Vec<SessionTermination>>>,
    /// The connections.
    pub served: Arc<Mutex<Vec<JoinHandle<std::io::Result<()>>>>>,
    accepting: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Server {
    /// Starts a server with as much memory as it wants.
    pub async fn start(world: World) -> Self {
        Self::start_with_memory(world, MemoryShares::unlimited()).await
    }

    /// Starts a server with memory for requests and answers.
    pub async fn start_with_memory(world: World, memory: Arc<MemoryShares>) -> Self {
        let clock = Arc::clone(&world.services.clock);
        let sessions = Arc::clone(&world.sessions);
        let options = PoolOptions { workers: WORKERS, ..PoolOptions::default() };
        let pool = WorkerPool::new(&options, Arc::clone(&clock)).expect("threads can be started");
        let shutdown = Shutdown::new();
        let watched = SessionTermination::default();
        let accounts = Arc::new(OnePassword(watched.clone()));
        let parts = ServiceParts {
            services: Arc::clone(&world.services),
            authenticator: Authenticator::new(accounts, pool.clone(), pool.clone(), Arc::clone(&sessions)),
            pool: pool.clone(),
            store: Arc::clone(world.databases().store()),
            memory: Arc::clone(&memory),
            shutdown: shutdown.clone(),
            origins: vec![PERMITTED_ORIGIN.to_owned()],
        };
        let service = Service::new(parts);
        let routes = service.routes();
        let front = Front::new(FrontOptions::default(), routes, Arc::clone(&memory), clock, shutdown.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let terminations: Arc<Mutex<Vec<SessionTermination>>> = Arc::default();
        let signals = Arc::clone(&terminations);
        let served: Arc<Mutex<Vec<JoinHandle<std::io::Result<()>>>>> = Arc::default();
        let tasks = Arc::clone(&served);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                let termination = SessionTermination::default();
                signals.lock().expect("no test panics with it").push(termination.clone());
                let serving = http::serve(Stream::tcp(stream), Peer::network(peer), Arc::clone(&front), termination);
                tasks.lock().expect("no test panics with it").push(tokio::spawn(serving));
            }
        });
        Self { world, address, sessions, shutdown, service, memory, pool, watched, terminations, served, accepting }
    }

    /// Keeps all workers busy until the result is dropped. Each has a job of another person, because one person leaves
    /// a worker to others.
    pub fn occupy_workers(&self) -> Vec<mpsc::Sender<()>> {
        let occupy = |number: usize| {
            let (occupied, released) = mpsc::channel();
            let pool = self.pool.clone();
            let label = label(&format!("nobody {number}"));
            tokio::spawn(async move { pool.run(label, move || released.recv()).await.map(drop) });
            occupied
        };
        (0..WORKERS).map(occupy).collect()
    }

    /// Waits until all jobs of a person that the server has begun so far have ended.
    pub async fn finish_jobs(&self, login: &str) {
        // With two workers, those of one person run one after another.
        self.pool.run(label(login), || ()).await.expect("the pool runs");
    }

    /// Opens the sessions as after a restart.
    pub fn reopen_sessions(&self) -> Arc<Sessions> {
        let services = &self.world.services;
        let sources = (Arc::clone(&services.clock), Arc::clone(&services.random));
        let hub = Name::new("CN=hub/O=Demo");
        Sessions::open(self.world.databases(), &hub, sources, SessionOptions::default()).expect("they open")
    }

    /// Begins a session of a person in a browser, and returns its cookie.
    pub fn begin_session(&self, login: &str) -> String {
        let client = SessionClient::new(self.address.ip(), None);
        let login = SessionLogin { login: login.to_owned(), stamp: 0, password: LoginPassword::Account, factor: None };
        let (token, ticket) = self.sessions.begin(login, client).expect("a sound store");
        self.world.databases().store().durable(ticket).wait().expect("the store works");
        format!("doublet={token}")
    }

    /// Returns the handshake of a client with its header fields.
    pub fn handshake(&self, fields: &[(&'static str, &str)]) -> Request<()> {
        let mut request = format!("ws://{}/jmap/ws", self.address).into_client_request().expect("a request");
        for (name, value) in fields {
            let value = HeaderValue::from_str(value).expect("a value");
            request.headers_mut().insert(HeaderName::from_static(name), value);
        }
        request
    }

    /// Opens a connection over WebSocket, or returns the answer of the server that refuses it.
    pub async fn open(&self, request: Request<()>) -> Result<Client, Box<Response<Option<Vec<u8>>>>> {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        Self::open_over(stream, request).await
    }

    /// Opens a connection over WebSocket of a client that buffers little of what it does not read.
    pub async fn connect_with_small_buffer(&self, login: &str) -> Client {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(SMALL_BUFFER_BYTES).expect("the size is valid");
        let stream = socket.connect(self.address).await.expect("the server listens");
        let fields = [("authorization", &*basic(login)), ("sec-websocket-protocol", "jmap")];
        let opened = Self::open_over(stream, self.handshake(&fields)).await;
        opened.unwrap_or_else(|refused| panic!("refused: {refused:?}"))
    }

    async fn open_over(stream: TcpStream, request: Request<()>) -> Result<Client, Box<Response<Option<Vec<u8>>>>> {
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((stream, response)) => {
                assert_eq!(response.headers()["sec-websocket-protocol"], "jmap");
                Ok(Client { stream })
            }
            Err(tungstenite::Error::Http(response)) => Err(response),
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// Opens a connection over WebSocket with a name and the password.
    pub async fn connect(&self, login: &str) -> Client {
        let fields = [("authorization", &*basic(login)), ("sec-websocket-protocol", "jmap")];
        self.open(self.handshake(&fields)).await.unwrap_or_else(|refused| panic!("refused: {refused:?}"))
    }
}

fn label(login: &str) -> JobLabel {
    JobLabel::new(JobOwner::account(login), "test", "test")
}

/// Returns the value of the field `Authorization` of a person.
pub fn basic(login: &str) -> String {
    use base64::Engine as _;
    let credentials = base64::engine::general_purpose::STANDARD.encode(format!("{login}:{PASSWORD}"));
    format!("Basic {credentials}")
}

/// A connection of a client.
pub struct Client {
    pub stream: WebSocketStream<TcpStream>,
}

impl Client {
    /// Sends a text.
    pub async fn send(&mut self, text: &str) {
        self.stream.send(Message::text(text)).await.expect("the connection is open");
    }

    /// Returns the next object that the server sends.
    pub async fn next(&mut self) -> Value {
        loop {
            match self.stream.next().await.expect("the connection is open").expect("the connection is open") {
                Message::Text(text) => return serde_json::from_str(&text).expect("the server sends JSON"),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("the server sends {other:?}"),
            }
        }
    }

    /// Sends a text, and returns the next object that the server sends.
    pub async fn ask(&mut self, text: &str) -> Value {
        self.send(text).await;
        self.next().await
    }

    /// Returns the code with which the server closes the connection. Other messages before it are ignored.
    pub async fn close_code(&mut self) -> Option<u16> {
        while let Some(Ok(message)) = self.stream.next().await {
            if let Message::Close(frame) = message {
                return frame.map(|frame| frame.code.into());
            }
        }
        None
    }
}
