//! The server of the control socket.
//!
//! Requests run on threads that may block, not on the workers of the protocols, because an import takes minutes. At
//! most [`CONTROL_CALLS_MAX`] run at a time; further clients wait. Errors of `accept`, such as running out of file
//! descriptors, are logged and retried after a pause: the waiting client keeps the socket ready, so retries without a
//! pause would occupy a processor.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc};
use wire::Shutdown;

use super::{ControlCall, ControlReply};
use crate::limits::{CONTROL_ACCEPT_PAUSE, CONTROL_CALLS_MAX, CONTROL_REPLIES_MAX, CONTROL_REQUEST_BYTES_MAX};
use crate::{Answer, ProgressCallback, Request};

/// Executes administration requests. May block.
pub trait Execute: Send + Sync + 'static {
    /// Executes the request. The error text says what to do next.
    fn execute(&self, request: Request, report: &mut ProgressCallback<'_>) -> Result<Answer, String>;
}

/// Accepts requests until the server drains.
pub async fn serve(listener: UnixListener, tasks: Arc<dyn Execute>, shutdown: Shutdown) {
    let places = Arc::new(Semaphore::new(CONTROL_CALLS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener) => accepted,
            () = shutdown.draining() => return,
        };
        let Some(stream) = accepted else {
            continue;
        };
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let tasks = Arc::clone(&tasks);
        tokio::spawn(async move {
            if let Err(error) = answer(stream, tasks).await {
                tracing::debug!(target: "control", %error, "a control connection failed");
            }
            drop(place);
        });
    }
}

/// Accepts a connection. Pauses after an error, and returns `None`.
pub(super) async fn accept(listener: &UnixListener) -> Option<UnixStream> {
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            tracing::warn!(target: "control", %error, "cannot accept a connection to the control socket; will retry");
            tokio::time::sleep(CONTROL_ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn answer(stream: UnixStream, tasks: Arc<dyn Execute>) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    BufReader::new(reader.take(CONTROL_REQUEST_BYTES_MAX)).read_line(&mut line).await?;
    let call: ControlCall = match serde_json::from_str(&line) {
        Ok(call) => call,
        Err(error) => {
            let text = format!(
                "the server does not understand the request ({error}); check that command and server have the same version"
            );
            return send(&mut writer, &ControlReply::Error(text)).await;
        }
    };
    let (replies, mut queue) = mpsc::channel(CONTROL_REPLIES_MAX);
    let task = tokio::task::spawn_blocking(move || {
        // A client that does not read misses some progress reports but does not block the task, which may hold a
        // database exclusively.
        let mut report = |progress| match replies.try_send(ControlReply::Progress(progress)) {
            Ok(()) | Err(TrySendError::Full(_)) => ControlFlow::Continue(()),
            Err(TrySendError::Closed(_)) => ControlFlow::Break(()),
        };
        tasks.execute(call.request, &mut report)
    });
    while let Some(reply) = queue.recv().await {
        send(&mut writer, &reply).await?;
    }
    let reply = match task.await {
        Ok(Ok(answer)) => ControlReply::Result(answer),
        Ok(Err(text)) => ControlReply::Error(text),
        Err(_) => {
            ControlReply::Error("the task failed because of a bug in the server; see the server's log".to_owned())
        }
    };
    send(&mut writer, &reply).await
}

async fn send(writer: &mut (impl AsyncWriteExt + Unpin), reply: &ControlReply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    writer.write_all(&line).await
}
