//! The messages between parts: a kind, a length, and JSON or a piece of a file.
//!
//! What another part sends is foreign. A message has at most 64 MiB, before the token was checked 4 KiB, and a piece of
//! a file 1 MiB.

use std::{fmt, io};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::engine::run::RunEnd;

/// Version of the messages.
pub const FORMAT: u32 = 1;
/// Maximum length of a message.
pub const MESSAGE_BYTES_MAX: u32 = 64 << 20;
/// Maximum length of the first message, before the token was checked.
pub const HELLO_BYTES_MAX: u32 = 4 << 10;
/// Maximum length of a piece of a file.
pub const PIECE_BYTES_MAX: usize = 1 << 20;

/// The first byte of a message of JSON, and of a piece of a file.
const JSON_KIND: u8 = 0;
const PIECE_KIND: u8 = 1;

/// Why a message cannot be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The connection is broken or closed.
    #[error("the connection is broken: {0}")]
    Io(#[from] io::Error),
    /// The message is longer than permitted.
    #[error("a message of {0} bytes is too long")]
    TooLong(u64),
    /// The bytes are no message of this protocol.
    #[error("a message is malformed: {0}")]
    Malformed(String),
    /// Another message was expected.
    #[error("a message was not expected: {0}")]
    Unexpected(&'static str),
    /// The connection has ended with an earlier error.
    #[error("the connection has ended")]
    Closed,
    /// No message came in time.
    #[error("no message came in time")]
    Silent,
}

/// What a part states when it joins. All but token and part must be those of the coordinator.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of the driver.
    pub version: String,
    /// The token of the run.
    pub token: String,
    /// The number of the part.
    pub part: u64,
    /// The number of parts.
    pub parts: u64,
    /// The digest of the workload file.
    pub workload: String,
    /// The digest of the options: parameters, seed, users, pace.
    pub options: String,
}

/// Shows no token.
impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello").field("part", &self.part).field("parts", &self.parts).finish_non_exhaustive()
    }
}

/// A message but a piece of a file.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// A part wants to join.
    Hello(Hello),
    /// The part may join.
    Welcome,
    /// The part may not join.
    Refused(String),
    /// Is answered with `Pong` at once.
    Ping,
    /// The answer to `Ping`.
    Pong,
    /// The run begins when so many microseconds have passed.
    Start {
        /// From the arrival of the message.
        in_us: u64,
    },
    /// What is counted at a border: by a part, or by all parts.
    Counts {
        /// The border.
        at_us: u64,
        /// Connected users.
        connected: u64,
        /// Users that have completed an iteration.
        iterated: u64,
        /// The sessions of the server, if it tells their number; only in the message of the coordinator.
        sessions: Option<u64>,
        /// The server did not answer in time.
        is_unanswered: bool,
    },
    /// The run ends.
    End(RunEnd),
    /// What a part has measured (`part.json`). Pieces of its histograms follow, and `Sent`.
    Record(String),
    /// All pieces were sent.
    Sent,
    /// Everything was received.
    Received,
}

/// Sends a message.
///
/// # Errors
///
/// If the connection is broken or the message is too long.
pub async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &Message) -> Result<(), MessageError> {
    let json = serde_json::to_vec(message).map_err(|error| MessageError::Malformed(error.to_string()))?;
    send_frame(stream, JSON_KIND, &json).await
}

/// Sends a piece of a file.
///
/// # Errors
///
/// If the connection is broken.
pub async fn send_piece(stream: &mut (impl AsyncWrite + Unpin), piece: &[u8]) -> Result<(), MessageError> {
    send_frame(stream, PIECE_KIND, piece).await
}

async fn send_frame(stream: &mut (impl AsyncWrite + Unpin), kind: u8, bytes: &[u8]) -> Result<(), MessageError> {
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= MESSAGE_BYTES_MAX);
    let length = length.ok_or(MessageError::TooLong(bytes.len() as u64))?;
    let mut frame = Vec::with_capacity(5 + bytes.len());
    frame.push(kind);
    frame.extend(length.to_be_bytes());
    frame.extend(bytes);
    stream.write_all(&frame).await?;
    stream.flush().await?;
    Ok(())
}

/// What was received.
pub enum Received {
    /// A message.
    Message(Message),
    /// A piece of a file.
    Piece(Vec<u8>),
}

/// Reads a message or a piece of a file of at most `bytes_max` bytes.
///
/// This must not be cancelled between two calls: a message would be lost in part.
///
/// # Errors
///
/// If the connection is broken or closed, or the message is too long or malformed.
pub async fn receive(stream: &mut (impl AsyncRead + Unpin), bytes_max: u32) -> Result<Received, MessageError> {
    let kind = stream.read_u8().await?;
    let length = stream.read_u32().await?;
    let is_piece = kind == PIECE_KIND;
    if length > bytes_max || (is_piece && length as usize > PIECE_BYTES_MAX) {
        return Err(MessageError::TooLong(length.into()));
    }
    // The bytes are not allocated before they have come.
    let mut bytes = Vec::new();
    if stream.take(length.into()).read_to_end(&mut bytes).await? < length as usize {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    match kind {
        PIECE_KIND => Ok(Received::Piece(bytes)),
        JSON_KIND => {
            let message = serde_json::from_slice(&bytes);
            message.map(Received::Message).map_err(|error| MessageError::Malformed(error.to_string()))
        }
        _ => Err(MessageError::Malformed(format!("the kind {kind} is unknown"))),
    }
}

/// Reads a message that is no piece of a file.
///
/// # Errors
///
/// As [`receive`].
pub async fn receive_message(stream: &mut (impl AsyncRead + Unpin), bytes_max: u32) -> Result<Message, MessageError> {
    match receive(stream, bytes_max).await? {
        Received::Message(message) => Ok(message),
        Received::Piece(_) => Err(MessageError::Unexpected("a piece of a file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn received(bytes: &[u8], bytes_max: u32) -> String {
        let mut stream = bytes;
        match receive_message(&mut stream, bytes_max).await {
            Ok(message) => serde_json::to_string(&message).expect("JSON"),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn messages_are_received_as_they_were_sent() {
        let mut bytes = Vec::new();
        send(&mut bytes, &Message::Start { in_us: 5 }).await.expect("memory");
        send_piece(&mut bytes, b"abc").await.expect("memory");
        let mut stream = bytes.as_slice();
        let message = receive_message(&mut stream, HELLO_BYTES_MAX).await.expect("a message");
        assert!(message == Message::Start { in_us: 5 });
        let Ok(Received::Piece(piece)) = receive(&mut stream, HELLO_BYTES_MAX).await else { panic!("a piece") };
        assert_eq!((piece, stream.len()), (b"abc".to_vec(), 0));
    }

    #[tokio::test]
    async fn foreign_bytes_are_refused() {
        let frame = |kind: u8, length: u32, rest: &[u8]| [&[kind][..], &length.to_be_bytes(), rest].concat();
        let check = async |bytes: Vec<u8>, expected: &str| {
            let found = received(&bytes, 100).await;
            assert!(found.contains(expected), "{found}");
        };
        check(frame(0, 101, &[]), "a message of 101 bytes is too long").await;
        check(frame(0, 4, b"{}"), "the connection is broken").await;
        check(frame(0, 2, b"{}"), "malformed").await;
        check(frame(2, 2, b"{}"), "the kind 2 is unknown").await;
        check(frame(1, 2, b"{}"), "a piece of a file").await;
        check(frame(0, 9, br#""unknown""#), "malformed").await;
        check(Vec::new(), "the connection is broken").await;
    }
}
