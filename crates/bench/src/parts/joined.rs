//! A part that has joined a coordinator.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use tokio::io::BufStream;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::message::{self, Hello, MESSAGE_BYTES_MAX, Message, MessageError, PIECE_BYTES_MAX};
use super::{LOG_FILE, PartsError, RECORD_FILE, SILENCE_MAX};
use crate::engine::phases::{Border, SessionCount};
use crate::engine::run::RunEnd;
use crate::engine::share::Exchanged;
use crate::report::model::micros;

/// The number of the coordinator.
const COORDINATOR: u64 = 1;

/// The connection to the coordinator.
#[derive(Debug)]
pub struct JoinedPart {
    stream: BufStream<TcpStream>,
    /// How long the counts of all parts may take: the coordinator itself waits for silent parts.
    patience: Duration,
}

impl JoinedPart {
    /// Connects to a coordinator and joins its run. Waits until the coordinator has filled the mail files.
    ///
    /// # Errors
    ///
    /// If it cannot be reached, or refuses this part.
    pub async fn join(address: &str, hello: Hello, sample: Duration) -> Result<Self, PartsError> {
        let failed = |source| PartsError::Address { address: address.to_owned(), source };
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let mut joined = Self { stream: BufStream::new(stream), patience: sample + SILENCE_MAX * 2 };
        joined.send(&Message::Hello(hello)).await?;
        match joined.receive().await? {
            Message::Welcome => Ok(joined),
            Message::Refused(reason) => Err(PartsError::Refused(reason)),
            _ => Err(of_coordinator(MessageError::Unexpected("not an answer to the first message"))),
        }
    }

    /// Answers the round trips, and waits for the start signal.
    pub(super) async fn start(&mut self) -> Result<Instant, PartsError> {
        loop {
            match self.receive().await? {
                Message::Ping => self.send(&Message::Pong).await?,
                Message::Start { in_us } => {
                    let in_us = in_us.min(micros(SILENCE_MAX));
                    return Ok(Instant::now() + Duration::from_micros(in_us));
                }
                _ => return Err(of_coordinator(MessageError::Unexpected("before the start signal"))),
            }
        }
    }

    /// Sends the counts of a border, and waits for those of all parts.
    pub(super) async fn exchange(&mut self, own: Border) -> Exchanged {
        self.try_exchange(own).await.unwrap_or(Exchanged::End(RunEnd::BrokenOff))
    }

    async fn try_exchange(&mut self, own: Border) -> Result<Exchanged, PartsError> {
        self.send(&counts(&own)).await?;
        let answered = timeout(self.patience, self.receive()).await;
        match answered.unwrap_or(Err(of_coordinator(MessageError::Silent)))? {
            Message::End(end) => Ok(Exchanged::End(end)),
            message => {
                let border = border(&message).filter(|border| micros(border.at) == micros(own.at));
                let border = border.ok_or(of_coordinator(MessageError::Unexpected("not the counts of the border")))?;
                Ok(Exchanged::Counts(Border { at: own.at, ..border }))
            }
        }
    }

    /// Sends the coordinator the reason why this part ends.
    pub(super) async fn end(&mut self, end: RunEnd) {
        // Without a connection, the coordinator knows it already.
        let _ = self.send(&Message::End(end)).await;
    }

    /// Sends what this part has measured, from its directory, and waits until the coordinator has it.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or the connection is broken.
    pub async fn send_record(&mut self, folder: &Path) -> Result<(), PartsError> {
        let path = folder.join(RECORD_FILE);
        let record = std::fs::read_to_string(&path).map_err(|error| PartsError::of_file(&path, error))?;
        self.send(&Message::Record(record)).await?;
        let path = folder.join(LOG_FILE);
        let failed = |error| PartsError::of_file(&path, error);
        let mut log = File::open(&path).map_err(failed)?;
        let mut piece = vec![0; PIECE_BYTES_MAX];
        loop {
            let length = log.read(&mut piece).map_err(failed)?;
            if length == 0 {
                break;
            }
            message::send_piece(&mut self.stream, &piece[..length]).await.map_err(of_coordinator)?;
        }
        self.send(&Message::Sent).await?;
        loop {
            // The end of the run may still be on the way.
            match self.receive().await? {
                Message::Received => return Ok(()),
                Message::End(_) | Message::Counts { .. } => {}
                _ => return Err(of_coordinator(MessageError::Unexpected("after the end of the run"))),
            }
        }
    }

    async fn send(&mut self, message: &Message) -> Result<(), PartsError> {
        message::send(&mut self.stream, message).await.map_err(of_coordinator)
    }

    async fn receive(&mut self) -> Result<Message, PartsError> {
        message::receive_message(&mut self.stream, MESSAGE_BYTES_MAX).await.map_err(of_coordinator)
    }
}

fn of_coordinator(source: MessageError) -> PartsError {
    PartsError::Message { part: COORDINATOR, source }
}

/// Returns the message with the counts of a border.
pub(super) fn counts(border: &Border) -> Message {
    let sessions = match border.sessions {
        SessionCount::Known(count) => Some(count),
        SessionCount::Unsupported | SessionCount::Unanswered => None,
    };
    Message::Counts {
        at_us: micros(border.at),
        connected: border.connected,
        iterated: border.iterated,
        sessions,
        is_unanswered: border.sessions == SessionCount::Unanswered,
    }
}

/// Returns the counts of a message, or `None` if it has none.
pub(super) fn border(message: &Message) -> Option<Border> {
    let Message::Counts { at_us, connected, iterated, sessions, is_unanswered } = message else { return None };
    let sessions = match sessions {
        Some(count) => SessionCount::Known(*count),
        None if *is_unanswered => SessionCount::Unanswered,
        None => SessionCount::Unsupported,
    };
    Some(Border { at: Duration::from_micros(*at_us), connected: *connected, iterated: *iterated, sessions })
}
