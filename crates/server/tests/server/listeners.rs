//! Tests of listeners: the reply to a refused connection, limits that listeners share, local sockets, and the end.

use std::os::unix::fs::PermissionsExt;

use server::listeners::{CONTROL_SOCKET_MODE, LMTP_SOCKET_MODE, ListenerProtocol, bind_local, find_faults};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use wire::Shutdown;

use crate::fixture::{RunningListener, bind, limited};

/// Connects to a listener that admits no connections. Returns the reply that the client gets.
async fn refusal(name: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let bound = bind(folder.path(), &[&format!("{name}=127.0.0.1:0")]).expect("a free port").remove(0);
    assert_eq!(bound.protocol.name(), name);
    let listener = RunningListener::start(bound, &limited(0), &Shutdown::new());
    let mut client = TcpStream::connect(&listener.address).await.expect("it listens");
    let mut reply = String::new();
    client.read_to_string(&mut reply).await.expect("an orderly end");
    assert_eq!(listener.counts(), (0, 1), "{name}");
    reply
}

#[tokio::test]
async fn refused_connection_gets_a_reply_of_its_protocol() {
    for (name, expected) in [
        ("smtp", "421 4.7.0 Too many connections, try again later\r\n"),
        ("submission", "421 4.7.0 Too many connections, try again later\r\n"),
        ("imap", "* BYE [UNAVAILABLE] Too many connections, try again later\r\n"),
        ("pop3", "-ERR [SYS/TEMP] Too many connections, try again later\r\n"),
        ("submission_tls", ""),
        ("imap_tls", ""),
        ("pop3_tls", ""),
        ("native", ""),
    ] {
        assert_eq!(refusal(name).await, expected, "{name}");
    }
}

#[tokio::test]
async fn silent_refused_peers_keep_no_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let bound = bind(folder.path(), &["smtp=127.0.0.1:0"]).expect("a free port").remove(0);
    let listener = RunningListener::start(bound, &limited(0), &Shutdown::new());
    let mut clients = Vec::new();
    for number in 1..=200 {
        clients.push(TcpStream::connect(&listener.address).await.expect("it listens"));
        listener.wait_for(number).await;
    }
    assert_eq!(listener.counts(), (0, 200));
    for mut client in clients {
        // The other end is closed, so what the client sends is rejected.
        while client.write_all(b"EHLO c.example\r\n").await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn listeners_share_the_limit_of_all_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let bound = bind(folder.path(), &["imap=127.0.0.1:0", "smtp=127.0.0.1:0"]).expect("free ports");
    let connections = limited(2);
    let shutdown = Shutdown::new();
    let listeners: Vec<_> =
        bound.into_iter().map(|bound| RunningListener::start(bound, &connections, &shutdown)).collect();
    let [smtp, imap] = &listeners[..] else { panic!("two listeners") };
    assert_eq!((smtp.protocol, imap.protocol), (ListenerProtocol::Smtp, ListenerProtocol::Imap));
    let _first = TcpStream::connect(&smtp.address).await.expect("it listens");
    smtp.wait_for(1).await;
    let _second = TcpStream::connect(&imap.address).await.expect("it listens");
    imap.wait_for(1).await;
    let _third = TcpStream::connect(&imap.address).await.expect("it listens");
    imap.wait_for(2).await;
    assert_eq!((smtp.counts(), imap.counts(), connections.count()), ((1, 0), (1, 1), 2));
    smtp.admitted.lock().clear();
    let mut fourth = TcpStream::connect(&imap.address).await.expect("it listens");
    imap.wait_for(3).await;
    assert_eq!((imap.counts(), connections.count()), ((2, 1), 2), "an ended connection is no longer counted");
    let (mut stream, peer, _permit) = imap.admitted.lock().pop().expect("it was admitted");
    assert_eq!(peer.address, fourth.local_addr().ok());
    stream.write_all(b"* OK ready\r\n").await.expect("the client reads");
    let mut received = [0; 12];
    fourth.read_exact(&mut received).await.expect("the stream is that of the client");
    assert_eq!(&received, b"* OK ready\r\n");
}

#[tokio::test]
async fn lmtp_socket_is_open_to_all_and_control_socket_private() {
    let folder = tempfile::tempdir().expect("a folder");
    let mode = |name: &str| {
        let facts = std::fs::metadata(folder.path().join(name)).expect("the socket is bound");
        facts.permissions().mode() & 0o777
    };
    let lmtp = bind(folder.path(), &["lmtp=lmtp.sock"]).expect("the path is free").remove(0);
    let control = bind_local(ListenerProtocol::Admin, &folder.path().join("control"), CONTROL_SOCKET_MODE);
    assert_eq!((mode("lmtp.sock"), mode("control")), (LMTP_SOCKET_MODE, 0o600));
    drop(control);
    let shutdown = Shutdown::new();
    let listener = RunningListener::start(lmtp, &limited(1), &shutdown);
    let _client = UnixStream::connect(folder.path().join("lmtp.sock")).await.expect("it listens");
    listener.wait_for(1).await;
    let first = listener.admitted.lock().pop().expect("it was admitted");
    assert_eq!((first.1.address, first.1.is_private()), (None, true));
    let mut refused = UnixStream::connect(folder.path().join("lmtp.sock")).await.expect("it listens");
    let mut reply = String::new();
    refused.read_to_string(&mut reply).await.expect("an orderly end");
    assert_eq!(reply, "421 4.7.0 Too many connections, try again later\r\n");
    shutdown.drain();
    listener.task.await.expect("no panic");
    assert!(!folder.path().join("lmtp.sock").exists(), "the file is removed with its listener");
}

#[tokio::test]
async fn admitted_connections_outlive_the_drain_of_their_listener() {
    let folder = tempfile::tempdir().expect("a folder");
    let bound = bind(folder.path(), &["pop3=127.0.0.1:0"]).expect("a free port").remove(0);
    let connections = limited(5);
    let shutdown = Shutdown::new();
    let listener = RunningListener::start(bound, &connections, &shutdown);
    let mut client = TcpStream::connect(&listener.address).await.expect("it listens");
    listener.wait_for(1).await;
    shutdown.drain();
    listener.task.await.expect("no panic");
    assert!(TcpStream::connect(&listener.address).await.is_err(), "the port is closed");
    let waiting = tokio::spawn({
        let connections = std::sync::Arc::clone(&connections);
        async move { connections.wait_until_empty().await }
    });
    let (mut stream, _, permit) = listener.admitted.lock().pop().expect("it was admitted");
    client.write_all(b"QUIT\r\n").await.expect("the stream is open");
    let mut received = Vec::new();
    assert_eq!(stream.receive(&mut received).await.expect("the stream is open"), 6);
    assert!(!waiting.is_finished());
    drop((stream, permit));
    waiting.await.expect("no panic");
    assert_eq!(client.read(&mut [0; 8]).await.expect("an orderly end"), 0);
}

#[tokio::test]
async fn binding_listeners_is_all_or_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let holder = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let taken = holder.local_addr().expect("it is bound").to_string();
    // No other test uses this address, so its port stays free.
    let released = TcpListener::bind("127.77.3.1:0").await.expect("a free port");
    let free = released.local_addr().expect("it is bound").to_string();
    drop(released);
    let assignments = [&format!("smtp={free}")[..], &format!("imap={taken}"), "lmtp=lmtp.sock"];
    let error = bind(folder.path(), &assignments).expect_err("the second port is taken").to_string();
    assert!(error.starts_with(&format!("cannot listen at {taken} for imap: ")), "{error}");
    assert!(!folder.path().join("lmtp.sock").exists());
    let bound = bind(folder.path(), &assignments[..1]).expect("the failed attempt has released the first port");
    assert_eq!(bound[0].address, free);
}

#[tokio::test]
async fn unusable_socket_path_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = format!("lmtp={}.sock", "x".repeat(200));
    for path in ["lmtp=missing/folder/lmtp.sock", &long] {
        let error = bind(folder.path(), &[path]).expect_err("the path cannot be used").to_string();
        assert!(error.starts_with("cannot listen at ") && error.contains(" for lmtp: "), "{error}");
        assert!(error.ends_with("; check that the path is shorter than 108 bytes and that its folder exists"));
    }
}

#[tokio::test(start_paused = true)]
async fn only_faulty_listeners_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let bound = bind(folder.path(), &["imap=127.0.0.1:0", "smtp=127.0.0.1:0", "pop3=127.0.0.1:0"]);
    let connections = limited(1);
    let shutdown = Shutdown::new();
    let start = |bound| RunningListener::start(bound, &connections, &shutdown);
    let listeners: Vec<_> = bound.expect("free ports").into_iter().map(start).collect();
    let probes: Vec<_> = listeners.iter().map(|listener| listener.probe.clone()).collect();
    assert_eq!(find_faults(&probes).await, Vec::<String>::new());
    let [_, imap, _] = &listeners[..] else { panic!("three listeners") };
    imap.task.abort();
    while !imap.task.is_finished() {
        tokio::task::yield_now().await;
    }
    let expected = format!("the listener imap at {} has ended because of a bug; see the log", imap.address);
    let found = find_faults(&probes).await;
    assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}");
}
