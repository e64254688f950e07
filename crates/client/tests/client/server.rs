//! A server for tests: it answers the calls of the `Sessions` service in memory, and records the headers of every call.

use std::convert::Infallible;
use std::sync::Arc;

use base::sync::Mutex;
use base64ct::{Base64, Encoding};
use client::{Client, Code, ConnectOptions, Request, RequestStream, Response, Status, Streaming, Trust, details, v1};
use hmac::{Hmac, KeyInit, Mac};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use sha2::Sha256;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tonic::body::Body;
use v1::sessions_server::{Sessions, SessionsServer};

/// The password of every account.
pub const PASSWORD: &str = "sesame";

/// The token of every session.
pub const TOKEN: &str = "token-of-the-session";

/// Number of iterations of SCRAM-SHA-256: the minimum of RFC 7677.
const ITERATIONS: u32 = 4_096;

/// Number of bytes of the version in the reply of `GetServer`.
pub const VERSION_BYTES: usize = 20_000;

/// A certificate and its key in PEM form.
pub struct Certificate {
    pub chain: String,
    pub key: String,
}

impl Certificate {
    /// Creates a self-signed certificate for a host name.
    pub fn new(name: &str) -> Self {
        let certified = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("a name makes a certificate");
        Self { chain: certified.cert.pem(), key: certified.signing_key.serialize_pem() }
    }
}

/// An authority that signs the certificates of servers.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate in PEM form.
    pub chain: String,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let chain = params.self_signed(&key).expect("it signs itself").pem();
        Self { issuer: Issuer::new(params, key), chain }
    }

    /// Signs a certificate of a server with these DNS names, for a new key.
    pub fn sign(&self, names: &[&str]) -> Certificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(names).expect("valid names");
        let chain = params.signed_by(&key, &self.issuer).expect("it signs").pem();
        Certificate { chain, key: key.serialize_pem() }
    }
}

/// Behavior of the server in an exchange of SCRAM-SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScramBehavior {
    /// The server knows the password and proves it.
    Honest,
    /// The server does not know the password.
    WrongSignature,
    /// The first message of the server has another nonce.
    ForeignNonce,
    /// The stream ends without a reply.
    Silent,
    /// The last message contains no session.
    WithoutSession,
}

/// Path and headers of a call. Missing headers are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub path: String,
    pub authorization: String,
    pub timeout: String,
    pub agent: String,
    pub encoding: String,
}

/// A running server. It ends with the runtime of the test.
pub struct TestServer {
    pub certificate: Certificate,
    pub address: String,
    calls: Arc<Mutex<Vec<Call>>>,
    /// The ends of connections, and the handles that end them.
    connections: mpsc::UnboundedReceiver<tokio::task::JoinHandle<()>>,
}

impl TestServer {
    /// Starts a server that proves that it knows the password.
    pub async fn start() -> Self {
        Self::with(ScramBehavior::Honest, None).await
    }

    /// Starts a server with a behavior. If there is a `client_root`, clients must present a certificate that it has
    /// signed.
    pub async fn with(scram: ScramBehavior, client_root: Option<&Certificate>) -> Self {
        Self::serve(scram, Certificate::new("hub.test"), client_root).await
    }

    /// Starts a server with this certificate.
    pub async fn presenting(certificate: Certificate) -> Self {
        Self::serve(ScramBehavior::Honest, certificate, None).await
    }

    async fn serve(scram: ScramBehavior, certificate: Certificate, client_root: Option<&Certificate>) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(tls_config(&certificate, client_root)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound").to_string();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let service = FakeService { calls: Arc::clone(&calls), sessions: SessionsServer::new(FakeSessions { scram }) };
        let (sender, connections) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // Tests that do not look at connections have dropped the receiver.
                let _ = sender.send(tokio::spawn(serve(acceptor.clone(), socket, service.clone())));
            }
        });
        Self { certificate, address, calls, connections }
    }

    /// Returns options that trust the certificate of this server.
    pub fn options(&self) -> ConnectOptions {
        let trust = Trust::pinned(self.certificate.chain.as_bytes()).expect("the certificate is valid");
        ConnectOptions::new(&self.address, trust)
    }

    /// Connects with the default options.
    pub async fn connect(&self) -> Client {
        Client::connect(&self.options()).await.expect("the server listens")
    }

    /// Returns the recorded calls, and forgets them.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock())
    }

    /// Returns the task of the next accepted connection.
    pub async fn next_connection(&mut self) -> tokio::task::JoinHandle<()> {
        self.connections.recv().await.expect("the server accepts connections")
    }
}

fn tls_config(certificate: &Certificate, client_root: Option<&Certificate>) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.expect("the provider has all versions");
    let builder = match client_root {
        None => builder.with_no_client_auth(),
        Some(root) => {
            let mut roots = RootCertStore::empty();
            let root = CertificateDer::from_pem_slice(root.chain.as_bytes()).expect("a certificate");
            roots.add(root).expect("it can be a root");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("there is a root"))
        }
    };
    let chain = vec![CertificateDer::from_pem_slice(certificate.chain.as_bytes()).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).expect("a key");
    let mut config = builder.with_single_cert(chain, key).expect("the pair is valid");
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

async fn serve(acceptor: TlsAcceptor, socket: TcpStream, service: FakeService) {
    let Ok(stream) = acceptor.accept(socket).await else { return };
    let answer = hyper::service::service_fn(move |request| service.clone().answer(request));
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // The client may end the connection in any way.
    let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
}

#[derive(Clone)]
struct FakeService {
    calls: Arc<Mutex<Vec<Call>>>,
    sessions: SessionsServer<FakeSessions>,
}

impl FakeService {
    async fn answer(self, request: hyper::Request<Incoming>) -> Result<hyper::Response<Body>, Infallible> {
        let header = |name: &str| {
            let value = request.headers().get(name).map(|value| value.to_str().expect("headers are ASCII"));
            value.unwrap_or_default().to_owned()
        };
        let call = Call {
            path: request.uri().path().to_owned(),
            authorization: header("authorization"),
            timeout: header("grpc-timeout"),
            agent: header("user-agent"),
            encoding: header("grpc-encoding"),
        };
        self.calls.lock().push(call);
        if request.uri().path().starts_with("/doublet.v1.Sessions/") {
            let gzip = tonic::codec::CompressionEncoding::Gzip;
            let mut sessions = self.sessions.accept_compressed(gzip).send_compressed(gzip);
            return tower_service::Service::call(&mut sessions, request).await;
        }
        Ok(Status::unimplemented("only sessions are served").into_http())
    }
}

struct FakeSessions {
    scram: ScramBehavior,
}

fn check_token<T>(request: &Request<T>) -> Result<(), Status> {
    let token = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
    if token == Some(&format!("Bearer {TOKEN}")) { Ok(()) } else { Err(Status::unauthenticated("log in first")) }
}

fn login_reply() -> v1::LoginReply {
    let session = v1::Session { name: "CN=Ann/O=Acme".to_owned(), ..v1::Session::default() };
    v1::LoginReply { token: TOKEN.to_owned(), session: Some(session) }
}

#[tonic::async_trait]
impl Sessions for FakeSessions {
    type AuthenticateStream = RequestStream<Result<v1::AuthenticateReply, Status>>;

    async fn login(&self, request: Request<v1::LoginRequest>) -> Result<Response<v1::LoginReply>, Status> {
        let request = request.into_inner();
        match (request.login.as_str(), request.password.as_str()) {
            ("malformed", _) => Ok(Response::new(v1::LoginReply { token: "a\nb".to_owned(), session: None })),
            (_, PASSWORD) => Ok(Response::new(login_reply())),
            _ => {
                let detail = v1::ErrorDetail { reason: "login".to_owned(), detail: None };
                Err(details::status(Code::Unauthenticated, "wrong login or password", &detail))
            }
        }
    }

    async fn authenticate(
        &self,
        request: Request<Streaming<v1::AuthenticateRequest>>,
    ) -> Result<Response<Self::AuthenticateStream>, Status> {
        let (replies, stream) = client::request_channel(2);
        let behavior = self.scram;
        tokio::spawn(async move {
            let mut requests = request.into_inner();
            if behavior == ScramBehavior::Silent {
                return;
            }
            let first = requests.message().await.ok().flatten().expect("the client's first message");
            assert_eq!(first.mechanism, "SCRAM-SHA-256");
            let exchange = Exchange::begin(&first.response, behavior);
            let challenge = exchange.server_first.clone().into_bytes();
            replies.send(Ok(v1::AuthenticateReply { challenge, login: None })).await;
            let Ok(Some(last)) = requests.message().await else { return };
            let challenge = exchange.server_final(&last.response, behavior);
            let login = (behavior != ScramBehavior::WithoutSession).then(login_reply);
            replies.send(Ok(v1::AuthenticateReply { challenge, login })).await;
        });
        Ok(Response::new(stream))
    }

    async fn get_session(&self, request: Request<v1::GetSessionRequest>) -> Result<Response<v1::Session>, Status> {
        check_token(&request)?;
        Ok(Response::new(login_reply().session.expect("it has one")))
    }

    async fn logout(&self, request: Request<v1::LogoutRequest>) -> Result<Response<v1::LogoutReply>, Status> {
        check_token(&request)?;
        Ok(Response::new(v1::LogoutReply {}))
    }

    async fn get_server(&self, _: Request<v1::GetServerRequest>) -> Result<Response<v1::Server>, Status> {
        Ok(Response::new(v1::Server { version: "x".repeat(VERSION_BYTES), ..v1::Server::default() }))
    }
}

/// The server's side of an exchange (RFC 5802, section 3), for an account with the password [`PASSWORD`].
struct Exchange {
    client_first_bare: String,
    server_first: String,
}

impl Exchange {
    fn begin(message: &[u8], behavior: ScramBehavior) -> Self {
        let text = std::str::from_utf8(message).expect("the message is text");
        let client_first_bare = text.strip_prefix("n,,").expect("no channel binding").to_owned();
        let (_, nonce) = client_first_bare.split_once(",r=").expect("there is a nonce");
        let nonce = if behavior == ScramBehavior::ForeignNonce { "other" } else { nonce };
        let server_first = format!("r={nonce}server,s={},i={ITERATIONS}", Base64::encode_string(b"salt"));
        Self { client_first_bare, server_first }
    }

    fn server_final(&self, message: &[u8], behavior: ScramBehavior) -> Vec<u8> {
        let text = std::str::from_utf8(message).expect("the message is text");
        let (without_proof, proof) = text.split_once(",p=").expect("there is a proof");
        let password = if behavior == ScramBehavior::WrongSignature { "guess" } else { PASSWORD };
        let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), b"salt", ITERATIONS);
        let transcript = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        assert_eq!(Base64::decode_vec(proof).map(|proof| proof.len()), Ok(32));
        let signature = hmac(&hmac(&salted, b"Server Key"), transcript.as_bytes());
        format!("v={}", Base64::encode_string(&signature)).into_bytes()
    }
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}
