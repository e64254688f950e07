//! The login of a user, and the connection between its steps.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::ImapSettings;
use super::connection::{Command, ImapConnection};
use super::idling::Waiting;
use crate::door::Session;
use crate::door::call::{CallCount, CallError};

/// The connection of a user between two steps.
#[derive(Debug)]
enum State {
    /// It is used by steps.
    Ready(ImapConnection),
    /// The user waits for new mail.
    Waiting(Waiting),
    /// It was lost in the middle of something.
    Closed,
}

/// A user who has logged in.
#[derive(Debug)]
pub(super) struct ImapSession {
    state: State,
}

impl ImapSession {
    /// Connects and logs in.
    pub(super) async fn log_in(settings: &ImapSettings, user: u64, count: &mut CallCount) -> Result<Self, CallError> {
        Ok(Self { state: State::Ready(log_in(settings, user, count).await?) })
    }

    /// Returns the connection, ready for a command. Ends the waiting for new mail, and opens the connection again if
    /// the server has closed it.
    pub(super) async fn resume(
        &mut self,
        settings: &ImapSettings,
        user: u64,
        count: &mut CallCount,
    ) -> Result<&mut ImapConnection, CallError> {
        let open = match std::mem::replace(&mut self.state, State::Closed) {
            State::Ready(mut connection) => (!connection.is_closed().await).then_some(connection),
            // An error while the user waited is that of a connection that was idle.
            State::Waiting(waiting) => waiting.end().await.ok(),
            State::Closed => None,
        };
        let connection = match open {
            Some(mut connection) => {
                connection.read_arrived().await?;
                connection
            }
            None => {
                count.reopened += 1;
                log_in(settings, user, count).await?
            }
        };
        self.state = State::Ready(connection);
        match &mut self.state {
            State::Ready(connection) => Ok(connection),
            State::Waiting(_) | State::Closed => Err(CallError::lost("session", "the user is not logged in")),
        }
    }

    /// Begins to wait for new mail. After an error the user does not wait, and the connection is used again.
    pub(super) async fn begin_waiting(&mut self) -> Result<(), CallError> {
        let State::Ready(connection) = std::mem::replace(&mut self.state, State::Closed) else { return Ok(()) };
        match Waiting::begin(connection).await {
            Ok(waiting) => {
                self.state = State::Waiting(waiting);
                Ok(())
            }
            Err(failed) => {
                let (connection, error) = *failed;
                self.state = State::Ready(connection);
                Err(error)
            }
        }
    }

    /// Logs out, and closes the connection.
    pub(super) async fn log_out(self, count: &mut CallCount) {
        let connection = match self.state {
            State::Ready(connection) => Some(connection),
            State::Waiting(waiting) => waiting.end().await.ok(),
            State::Closed => None,
        };
        if let Some(mut connection) = connection {
            // The server says BYE, and may close the connection before its last response.
            let _ = connection.call(count, Command::new("LOGOUT")).await;
            connection.close().await;
        }
    }
}

/// Connects and logs in. Every error is that of a user who is not logged in.
pub(super) async fn log_in(
    settings: &ImapSettings,
    user: u64,
    count: &mut CallCount,
) -> Result<ImapConnection, CallError> {
    let lost = |error: CallError| CallError { session: Session::Lost, ..error };
    let mut connection = ImapConnection::connect(&settings.imap).await?;
    if connection.capabilities.is_none() {
        connection.call(count, Command::new("CAPABILITY")).await.map_err(lost)?;
    }
    if !connection.is_authenticated {
        let login = settings.mail.names.address(user);
        // A server may repeat the command, which has the password.
        let without_text = |error: CallError| CallError { text: format!("the login: {}", error.code), ..lost(error) };
        authenticate(&mut connection, count, [&login, &settings.mail.password]).await.map_err(without_text)?;
    }
    if connection.capabilities.is_none() {
        connection.call(count, Command::new("CAPABILITY")).await.map_err(lost)?;
    }
    Ok(connection)
}

/// Logs in with `PLAIN` if the server offers it, otherwise with `LOGIN`. What the server offers afterwards is not known
/// until it says so.
async fn authenticate(
    connection: &mut ImapConnection,
    count: &mut CallCount,
    [login, password]: [&str; 2],
) -> Result<(), CallError> {
    let offered = connection.capabilities.take().unwrap_or_default();
    if offered.has("AUTH=PLAIN") {
        let response = STANDARD.encode(format!("\0{login}\0{password}"));
        if offered.has("SASL-IR") {
            let command = Command::new("AUTHENTICATE PLAIN").words(&response);
            connection.call(count, command).await?;
        } else {
            count.calls += 1;
            let tag = connection.begin(Command::new("AUTHENTICATE PLAIN")).await?;
            connection.end(&tag, &response).await?;
        }
        return Ok(());
    }
    if offered.has("LOGINDISABLED") {
        return Err(CallError::lost("no-login", "the server offers neither PLAIN nor LOGIN"));
    }
    connection.call(count, Command::new("LOGIN").string(login).string(password)).await?;
    Ok(())
}
