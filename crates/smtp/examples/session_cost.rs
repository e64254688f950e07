//! Measures the server's processor time for a whole session without a backend, in microseconds per session.
//!
//! A session consists of connect, HELO, MAIL, RCPT, DATA with 10 KB and QUIT over loopback. It is measured with one
//! command at a time and pipelined.
//!
//! `cargo run --release -p smtp --example session_cost [sessions]`

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use base::memory::MemoryShares;
use base::sim::SeededRandom;
use base::{Clock, Timestamp};
use mail::router::DeliveryTarget;
use mail::submission::{ResolvedAddress, Submission};
use sasl::{Credentials, Login, LoginError, LoginOrigin, PasswordRequest};
use smtp::NegativeReply;
use smtp::backend::{MessageAcceptor, PendingAcceptance, RecipientLookup};
use smtp::connection::{ListenerServices, serve};
use smtp::listener_rules::ListenerRules;
use wire::{Peer, PoolOptions, SessionTermination, Shutdown, Stream, WorkerPool};

struct NullBackend;

impl RecipientLookup for NullBackend {
    fn resolve(&self, address: &str) -> Result<ResolvedAddress, NegativeReply> {
        Ok(ResolvedAddress::local(vec![DeliveryTarget::Remote(address.to_owned())], 0))
    }

    fn resolve_cached(&self, address: &str) -> Option<Result<ResolvedAddress, NegativeReply>> {
        Some(self.resolve(address))
    }

    fn is_local_domain(&self, _domain: &str) -> Result<bool, NegativeReply> {
        Ok(false)
    }
}

impl Credentials for NullBackend {
    fn check_password(&self, _: &LoginOrigin, _: &PasswordRequest) -> Result<Login, LoginError> {
        Err(LoginError::InvalidCredentials)
    }
}

impl MessageAcceptor for NullBackend {
    fn check_sender(&self, _login: &str, _reverse_path: &str) -> Result<(), NegativeReply> {
        Ok(())
    }

    fn accept(&self, submission: Submission) -> Result<PendingAcceptance, NegativeReply> {
        Ok(PendingAcceptance { id: submission.envelope.id, durable: Box::pin(async { Ok(()) }), refused: Vec::new() })
    }
}

struct FrozenClock;

impl Clock for FrozenClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(1_767_225_600)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

fn main() {
    let sessions: u32 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(20_000);
    let address = start_server();
    let text = format!(
        "Subject: x\r\nFrom: a@c.example\r\n\r\n{}.\r\n",
        "0123456789012345678901234567890123456789\r\n".repeat(244)
    );
    for (name, groups) in [("one at a time", false), ("pipelined", true)] {
        let before = server_time();
        for _ in 0..sessions {
            session(address, &text, groups);
        }
        let spent = server_time().saturating_sub(before);
        println!("{name}: {:.1} us of server CPU a session", spent.as_secs_f64() * 1e6 / f64::from(sessions));
    }
}

fn start_server() -> SocketAddr {
    let clock = Arc::new(FrozenClock);
    let backend = Arc::new(NullBackend);
    let options = PoolOptions { workers: 1, ..PoolOptions::default() };
    let pool = WorkerPool::new(&options, clock.clone()).expect("a thread");
    let service = Arc::new(ListenerServices {
        rules: Arc::new(ListenerRules::reception("mx.b.example", "b.example")),
        recipients: backend.clone(),
        credentials: backend.clone(),
        acceptor: backend,
        verifier: None,
        tls: None,
        pool: pool.clone(),
        login_pool: pool,
        memory: MemoryShares::unlimited(),
        shutdown: Shutdown::new(),
        clock,
        random: Arc::new(SeededRandom::new(1)),
    });
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a listener");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, from)) = listener.accept().await {
                tokio::spawn(serve(
                    Stream::tcp(stream),
                    Peer::network(from),
                    service.clone(),
                    SessionTermination::default(),
                ));
            }
        });
    });
    address
}

fn session(address: SocketAddr, text: &str, groups: bool) {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    let mut stream = BufReader::new(stream);
    let mut exchange = |text: &str, replies: u32| {
        stream.get_mut().write_all(text.as_bytes()).expect("the server reads");
        for _ in 0..replies {
            let mut line = String::new();
            stream.read_line(&mut line).expect("the server answers");
            assert!(line.starts_with(['2', '3']), "{line}");
        }
    };
    exchange("", 1);
    exchange("HELO c.example\r\n", 1);
    if groups {
        exchange("MAIL FROM:<a@c.example>\r\nRCPT TO:<alice@b.example>\r\nDATA\r\n", 3);
        exchange(&format!("{text}QUIT\r\n"), 2);
        return;
    }
    exchange("MAIL FROM:<a@c.example>\r\n", 1);
    exchange("RCPT TO:<alice@b.example>\r\n", 1);
    exchange("DATA\r\n", 1);
    exchange(text, 1);
    exchange("QUIT\r\n", 1);
}

/// Returns the processor time of all threads except the current one.
fn server_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let own = std::fs::read_link("/proc/thread-self").expect("Linux");
    let nanos = |path: std::path::PathBuf| -> u64 {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    let threads = tasks.flatten().filter(|task| Some(task.file_name().as_os_str()) != own.file_name());
    Duration::from_nanos(threads.map(|task| nanos(task.path())).sum())
}
