//! Tests of the control socket with its client and its server.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener as BlockingListener, UnixStream as BlockingStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::Instant;
use wire::Shutdown;

use super::server::Execute;
use crate::limits::CONTROL_ACCEPT_PAUSE;
use crate::request::BackupRequest;
use crate::{Answer, Progress, ProgressCallback, Request, Unit};

/// A task that counts to ten and records the last step whose report was accepted.
struct CountingTask {
    last_step: Arc<Mutex<u64>>,
}

impl Execute for CountingTask {
    fn execute(&self, request: Request, report: &mut ProgressCallback<'_>) -> Result<Answer, String> {
        if !matches!(request, Request::Status { .. }) {
            return Err("only status; try `doublet status`".to_owned());
        }
        for done in 1..=10 {
            let progress = Progress { step: "counting".to_owned(), done, total: Some(10), unit: Unit::Notes };
            if report(progress).is_break() {
                return Err("interrupted".to_owned());
            }
            *self.last_step.lock().expect("one thread") = done;
        }
        Ok(Answer::message("counted"))
    }
}

struct RunningServer {
    socket: PathBuf,
    last_step: Arc<Mutex<u64>>,
    shutdown: Shutdown,
    _folder: tempfile::TempDir,
}

fn start() -> RunningServer {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("control.sock");
    let listener = UnixListener::bind(&socket).expect("the path is free");
    let last_step = Arc::default();
    let shutdown = Shutdown::new();
    let tasks = Arc::new(CountingTask { last_step: Arc::clone(&last_step) });
    tokio::spawn(super::server::serve(listener, tasks, shutdown.clone()));
    RunningServer { socket, last_step, shutdown, _folder: folder }
}

async fn call(socket: &std::path::Path, request: Request) -> (Result<Answer, String>, Vec<u64>) {
    let socket = socket.to_owned();
    let task = tokio::task::spawn_blocking(move || {
        let mut steps = Vec::new();
        let mut report = |progress: Progress| {
            steps.push(progress.done);
            ControlFlow::Continue(())
        };
        (super::client::call(&socket, request, &mut report), steps)
    });
    task.await.expect("no panic")
}

#[tokio::test]
async fn client_receives_progress_and_answer() {
    let running = start();
    let (answer, steps) = call(&running.socket, Request::Status { running: false }).await;
    assert_eq!(answer, Ok(Answer::message("counted")));
    assert_eq!(steps, (1..=10).collect::<Vec<_>>());
    running.shutdown.close();
}

#[tokio::test]
async fn failure_text_is_passed_on_unchanged() {
    let running = start();
    let request = Request::Backup(BackupRequest { folder: "/nowhere".into(), ..BackupRequest::default() });
    assert_eq!(call(&running.socket, request).await.0, Err("only status; try `doublet status`".to_owned()));
}

#[tokio::test]
async fn malformed_requests_get_an_error_and_are_not_executed() {
    let running = start();
    for nonsense in ["{}\n", "\n", "{\"request\":{\"explode\":{}}}\n", "\u{0}\u{1}\n"] {
        let mut stream = UnixStream::connect(&running.socket).await.expect("it listens");
        stream.write_all(nonsense.as_bytes()).await.expect("it reads");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.expect("it answers");
        assert!(reply.starts_with("{\"error\":\"the server does not understand"), "{reply}");
    }
    assert_eq!(*running.last_step.lock().expect("one thread"), 0);
}

#[tokio::test]
async fn call_without_a_server_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let (answer, _) = call(&folder.path().join("none.sock"), Request::Status { running: false }).await;
    assert!(answer.expect_err("no server listens").contains("cannot be opened"));
}

// The clock of this test is stopped: it advances to the end of a pause when no task can run.
#[tokio::test(start_paused = true)]
async fn errors_of_accept_are_followed_by_a_pause() {
    // This socket does not listen, so every accept fails. Its peer is closed, so it is always ready.
    let (socket, peer) = BlockingStream::pair().expect("a descriptor is free");
    drop(peer);
    socket.set_nonblocking(true).expect("it is open");
    let listener = UnixListener::from_std(BlockingListener::from(OwnedFd::from(socket))).expect("a runtime is there");
    let begun = Instant::now();
    for _ in 0..3 {
        assert!(super::server::accept(&listener).await.is_none());
    }
    assert!(begun.elapsed() >= CONTROL_ACCEPT_PAUSE * 3);
}
