//! The time between steps in which a user waits for new mail.
//!
//! A task owns the connection meanwhile: it reads what the server reports, and renews IDLE every 25 minutes, because
//! servers may close connections that are silent for 30 minutes (RFC 2177). Servers without IDLE, and those that refuse
//! to renew it, get a NOOP as often.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::connection::{Command, ImapConnection};
use crate::door::Session;
use crate::door::call::{CONNECTION_CODE, CallCount, CallError};

/// The time after which IDLE is renewed.
pub(super) const RENEWAL: Duration = Duration::from_secs(25 * 60);

/// A user who waits for new mail.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The task that owns the connection. It ends with [`Waiting::end`], or when this is dropped.
    tasks: JoinSet<Result<ImapConnection, CallError>>,
    stop: oneshot::Sender<()>,
}

impl Waiting {
    /// Begins to wait. The server has said that it reports new mail when this returns. An error returns the connection
    /// with it.
    pub(super) async fn begin(mut connection: ImapConnection) -> Result<Self, Box<(ImapConnection, CallError)>> {
        let idle = match Idle::begin(&mut connection).await {
            Ok(idle) => idle,
            Err(error) => return Err(Box::new((connection, error))),
        };
        let (stop, stopped) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(wait(connection, idle, stopped));
        Ok(Self { tasks, stop })
    }

    /// Ends the waiting, and returns the connection.
    pub(super) async fn end(mut self) -> Result<ImapConnection, CallError> {
        // An error means that the task has ended.
        let _ = self.stop.send(());
        match self.tasks.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(_)) | None => Err(CallError::lost(CONNECTION_CODE, "the user does not wait any more")),
        }
    }
}

/// How a server reports new mail.
#[derive(Debug)]
enum Idle {
    /// IDLE, with its tag.
    Command(String),
    /// In responses to other commands.
    Polled,
}

impl Idle {
    async fn begin(connection: &mut ImapConnection) -> Result<Self, CallError> {
        if connection.capabilities.as_ref().is_some_and(|capabilities| capabilities.has("IDLE")) {
            return Ok(Self::Command(connection.begin(Command::new("IDLE")).await?));
        }
        Self::poll(connection).await
    }

    /// Begins again before the server closes the connection. A refused IDLE is no error: the user waits already.
    async fn renew(self, connection: &mut ImapConnection) -> Result<Self, CallError> {
        if let Self::Polled = self {
            return Self::poll(connection).await;
        }
        self.end(connection).await?;
        match Self::begin(connection).await {
            Err(error) if error.session == Session::Kept => Ok(Self::Polled),
            begun => begun,
        }
    }

    async fn poll(connection: &mut ImapConnection) -> Result<Self, CallError> {
        connection.call(&mut CallCount::default(), Command::new("NOOP")).await?;
        Ok(Self::Polled)
    }

    async fn end(self, connection: &mut ImapConnection) -> Result<(), CallError> {
        if let Self::Command(tag) = self {
            connection.end(&tag, "DONE").await?;
        }
        Ok(())
    }
}

async fn wait(
    mut connection: ImapConnection,
    mut idle: Idle,
    mut stopped: oneshot::Receiver<()>,
) -> Result<ImapConnection, CallError> {
    let renewal = sleep(RENEWAL);
    tokio::pin!(renewal);
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => {
                idle.end(&mut connection).await?;
                return Ok(connection);
            }
            arrived = connection.wait_for_response() => {
                arrived?;
                connection.read_arrived().await?;
            }
            () = &mut renewal => {
                idle = idle.renew(&mut connection).await?;
                renewal.set(sleep(RENEWAL));
            }
        }
    }
}
