//! Connections over which messages with drawn senders are delivered, shared by all users as those of a mail server are.
//!
//! There are at most [`CONNECTIONS_MAX`], as Postfix has by default for a destination: LMTP servers permit few
//! connections. A user waits until one is free, and this time is a part of its step. Connections are kept for further
//! messages; one that the server has closed meanwhile is opened again.

use base::sync::Mutex;
use tokio::sync::Semaphore;

use super::{Dialect, Envelope, SmtpConnection};
use crate::door::call::{CallCount, CallError};
use crate::door::line_connection::Place;

/// Maximum number of connections.
const CONNECTIONS_MAX: usize = 20;

/// The connections to a server.
#[derive(Debug)]
pub struct DeliveryPool {
    place: Place,
    dialect: Dialect,
    permits: Semaphore,
    /// The connections that nobody uses. The lock is never held across an await.
    idle: Mutex<Vec<SmtpConnection>>,
}

impl DeliveryPool {
    /// Creates the connections to a server, of which none is open.
    pub fn new(place: Place, dialect: Dialect) -> Self {
        Self { place, dialect, permits: Semaphore::new(CONNECTIONS_MAX), idle: Mutex::new(Vec::new()) }
    }

    /// Returns the protocol.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Delivers a message.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or if it refuses the message or one of its recipients.
    pub async fn deliver(&self, count: &mut CallCount, envelope: &Envelope, message: &[u8]) -> Result<(), CallError> {
        let closed = |_| CallError::kept("smtp-connection", "the connections are closed");
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let mut connection = self.connection(count).await?;
        connection.transfer(count, envelope, message).await?;
        self.idle.lock().push(connection);
        Ok(())
    }

    async fn connection(&self, count: &mut CallCount) -> Result<SmtpConnection, CallError> {
        let idle = self.idle.lock().pop();
        if let Some(mut connection) = idle {
            if !connection.is_closed().await {
                return Ok(connection);
            }
            count.reopened += 1;
        }
        SmtpConnection::connect(&self.place, self.dialect, count).await
    }
}
