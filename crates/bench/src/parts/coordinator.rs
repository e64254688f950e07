//! The coordinator: accepts the parts, sends the start signal, adds up the counts, and receives the records.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::joined::{border, counts};
use super::message::{self, HELLO_BYTES_MAX, Hello, MESSAGE_BYTES_MAX, Message, MessageError, Received};
use super::{LOG_FILE, PartsError, RECORD_FILE, SILENCE_MAX, STOPPED, part_directory};
use crate::engine::phases::Border;
use crate::engine::run::RunEnd;
use crate::engine::share::Exchanged;
use crate::report::verdict::IncompletePart;

/// The longest time of the first message of a part.
const HELLO_TIME_MAX: Duration = Duration::from_secs(10);
/// The round trips of each part.
const ROUND_TRIPS: usize = 5;
/// From the start signal to the start.
const START_DELAY: Duration = Duration::from_secs(1);
/// Messages of a part that wait for the coordinator.
const MESSAGES_MAX: usize = 4;
/// Maximum length of the histograms of a part.
const LOG_BYTES_MAX: u64 = 4 << 30;

/// A part that has joined.
#[derive(Debug)]
struct Member {
    part: u64,
    writer: OwnedWriteHalf,
    /// What the part has sent. The task that receives it is one of the coordinator's.
    messages: mpsc::Receiver<Result<Received, MessageError>>,
    /// Half the shortest round trip.
    one_way: Duration,
    /// When its counts came last.
    last_message: Instant,
    /// How the part has left the run before the end that the coordinator decides.
    departure: Option<Departure>,
}

/// How a part leaves a run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Departure {
    /// It has reported why it ends.
    Reported(RunEnd),
    /// It is silent, its connection is broken, or it sends something else than it should.
    Lost(String),
}

impl Departure {
    /// Returns the end of the run that follows.
    fn end(&self) -> RunEnd {
        match self {
            Self::Reported(end) => *end,
            Self::Lost(_) => RunEnd::BrokenOff,
        }
    }

    /// Returns why the part is not complete, or `None` if it has reported an end that concerns the whole run.
    fn reason(&self) -> Option<&str> {
        match self {
            Self::Reported(RunEnd::BrokenOff) => Some(STOPPED),
            Self::Reported(_) => None,
            Self::Lost(reason) => Some(reason),
        }
    }
}

/// What a part sends at a border.
enum AtBorder {
    /// Its counts.
    Counts(Border),
    /// It ends.
    End(RunEnd),
    /// Nothing in time.
    Nothing,
}

/// The coordinator of a run.
#[derive(Debug)]
pub struct Coordinator {
    listener: TcpListener,
    /// What a part must state.
    hello: Hello,
    members: Vec<Member>,
    /// Receive the messages of the parts. They end with the connections, and are aborted with this field.
    receivers: JoinSet<()>,
    sample: Duration,
}

impl Coordinator {
    /// Waits for the other parts at a listener. Parts may connect as soon as it exists.
    ///
    /// # Errors
    ///
    /// If the system refuses the listener.
    pub fn new(listener: std::net::TcpListener, hello: Hello, sample: Duration) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        Ok(Self { listener, hello, members: Vec::new(), receivers: JoinSet::new(), sample })
    }

    /// Returns the address.
    ///
    /// # Errors
    ///
    /// If the system does not tell it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns by how much the clocks of two parts may differ.
    pub fn clock_difference(&self) -> Option<Duration> {
        clock_difference(self.members.iter().map(|member| member.one_way))
    }

    /// Returns the parts that have ended before the run, and why.
    pub fn incomplete(&self) -> Vec<IncompletePart> {
        let reason = |member: &Member| Some(IncompletePart::new(member.part, member.departure.as_ref()?.reason()?));
        self.members.iter().filter_map(reason).collect()
    }

    /// Waits until all parts have joined, measures the round trips, and sends the start signal.
    pub(super) async fn start(&mut self) -> Result<Instant, PartsError> {
        while (self.members.len() as u64) < self.hello.parts - 1 {
            let failed = |source| PartsError::Address { address: "the listener".to_owned(), source };
            let (socket, _) = self.listener.accept().await.map_err(failed)?;
            // A client that is no part of the run does not end it.
            if let Ok(Ok(member)) = timeout(HELLO_TIME_MAX, self.admit(socket)).await {
                self.members.push(member);
            }
        }
        for member in &mut self.members {
            let failed = |source| PartsError::Message { part: member.part, source };
            member.one_way = timeout(SILENCE_MAX, round_trip(&mut member.writer, &mut member.messages))
                .await
                .unwrap_or(Err(MessageError::Silent))
                .map_err(failed)?;
        }
        let start = Instant::now() + START_DELAY;
        for member in &mut self.members {
            member.last_message = start;
            let left = start.saturating_duration_since(Instant::now() + member.one_way);
            let in_us = crate::report::model::micros(left);
            let sent = message::send(&mut member.writer, &Message::Start { in_us }).await;
            sent.map_err(|source| PartsError::Message { part: member.part, source })?;
        }
        Ok(start)
    }

    /// Reads the first message of a part, and admits or refuses it.
    async fn admit(&mut self, socket: TcpStream) -> Result<Member, MessageError> {
        socket.set_nodelay(true)?;
        let mut stream = socket;
        let Message::Hello(hello) = message::receive_message(&mut stream, HELLO_BYTES_MAX).await? else {
            return Err(MessageError::Unexpected("before the token"));
        };
        if let Some(reason) = self.refusal(&hello) {
            message::send(&mut stream, &Message::Refused(reason)).await?;
            return Err(MessageError::Unexpected("of a part that is refused"));
        }
        message::send(&mut stream, &Message::Welcome).await?;
        let (mut reader, writer) = stream.into_split();
        let (sender, messages) = mpsc::channel(MESSAGES_MAX);
        self.receivers.spawn(async move {
            loop {
                let received = message::receive(&mut reader, MESSAGE_BYTES_MAX).await;
                let is_last = received.is_err();
                if sender.send(received).await.is_err() || is_last {
                    return;
                }
            }
        });
        Ok(Member {
            part: hello.part,
            writer,
            messages,
            one_way: Duration::ZERO,
            last_message: Instant::now(),
            departure: None,
        })
    }

    /// Returns why a part may not join.
    fn refusal(&self, hello: &Hello) -> Option<String> {
        let own = &self.hello;
        if !is_same_token(&hello.token, &own.token) {
            return Some("the token is not that of the run".to_owned());
        }
        let is_part = (2..=own.parts).contains(&hello.part);
        let is_taken = self.members.iter().any(|member| member.part == hello.part);
        let differences = [
            ("the format", hello.format != own.format),
            ("the version", hello.version != own.version),
            ("the number of parts", hello.parts != own.parts),
            ("the workload file", hello.workload != own.workload),
            ("the options (parameters, seed, users, pace, population)", hello.options != own.options),
        ];
        let different = differences.into_iter().find(|(_, differs)| *differs);
        match different {
            Some((name, _)) => Some(format!("{name} is not that of the coordinator")),
            None if !is_part => Some(format!("{} is not a part from 2 to {}", hello.part, own.parts)),
            None if is_taken => Some(format!("part {} has joined already", hello.part)),
            None => None,
        }
    }

    /// Adds up the counts of all parts at a border, and sends the sums. Parts that are late are not in the sums. If a
    /// part ends, the run ends for its reason; of several reasons for the worst.
    pub(super) async fn exchange(&mut self, own: Border, patience: Duration) -> Exchanged {
        let begin = Instant::now();
        let silence_max = self.sample + SILENCE_MAX;
        let mut sum = own;
        for member in &mut self.members {
            match member.at_border(own.at, begin + patience).await {
                Ok(AtBorder::Counts(counts)) => {
                    sum.connected += counts.connected;
                    sum.iterated += counts.iterated;
                }
                Ok(AtBorder::End(end)) => member.depart(Departure::Reported(end)),
                Ok(AtBorder::Nothing) if member.last_message.elapsed() < silence_max && patience < SILENCE_MAX => {}
                Ok(AtBorder::Nothing) => member.depart(Departure::Lost(MessageError::Silent.to_string())),
                Err(error) => member.depart(Departure::Lost(error.to_string())),
            }
        }
        let departures = self.members.iter().filter_map(|member| member.departure.as_ref());
        if let Some(end) = departures.map(Departure::end).max() {
            return Exchanged::End(end);
        }
        for member in &mut self.members {
            if let Err(error) = message::send(&mut member.writer, &counts(&sum)).await {
                member.depart(Departure::Lost(error.to_string()));
            }
        }
        Exchanged::Counts(sum)
    }

    pub(super) async fn end(&mut self, end: RunEnd) {
        for member in &mut self.members {
            // A part that has gone needs no message.
            let _ = message::send(&mut member.writer, &Message::End(end)).await;
        }
    }

    /// Reads what the parts have measured, each into a directory of its own below a folder. Returns the parts of which
    /// not everything came within `patience` or could be written, and why. They have no directory.
    pub async fn receive_records(&mut self, folder: &Path, patience: Duration) -> Vec<IncompletePart> {
        let deadline = Instant::now() + patience;
        let mut missing = Vec::new();
        // Parts that are silent take the rest of the time, so they are the last ones.
        self.members.sort_by_key(|member| matches!(member.departure, Some(Departure::Lost(_))));
        for member in &mut self.members {
            let directory = part_directory(folder, member.part);
            let received = match fs::create_dir(&directory) {
                Ok(()) => {
                    let received = timeout_at(deadline, member.receive_record(&directory)).await;
                    let received = received.unwrap_or_else(|_| Err(member.error(MessageError::Silent)));
                    if received.is_err() {
                        // What has come of it is not whole.
                        let _ = fs::remove_dir_all(&directory);
                    }
                    received
                }
                Err(error) => Err(PartsError::of_file(&directory, error)),
            };
            if let Err(error) = received {
                let reason = match error {
                    PartsError::Message { source, .. } => source.to_string(),
                    error => error.to_string(),
                };
                missing.push(IncompletePart::new(member.part, &format!("its figures have not come: {reason}")));
            }
        }
        missing
    }
}

impl Member {
    /// Records how the part has left the run. The first way counts.
    fn depart(&mut self, departure: Departure) {
        self.departure.get_or_insert(departure);
    }

    /// Waits for the counts of a border, or for the end of the part. Counts of earlier borders are dropped.
    async fn at_border(&mut self, at: Duration, deadline: Instant) -> Result<AtBorder, MessageError> {
        loop {
            let Ok(received) = timeout_at(deadline, self.messages.recv()).await else { return Ok(AtBorder::Nothing) };
            let message = match received.unwrap_or(Err(MessageError::Closed))? {
                Received::Message(message) => message,
                Received::Piece(_) => return Err(MessageError::Unexpected("before the end of the run")),
            };
            match message {
                // All parts complete a run at the same border, so no part has done so before the coordinator.
                Message::End(end) if end != RunEnd::Complete => return Ok(AtBorder::End(end)),
                message => {
                    let counts = border(&message).ok_or(MessageError::Unexpected("not the counts of a border"))?;
                    self.last_message = Instant::now();
                    if counts.at >= at {
                        return Ok(AtBorder::Counts(counts));
                    }
                }
            }
        }
    }

    async fn receive_record(&mut self, directory: &Path) -> Result<(), PartsError> {
        let record = directory.join(RECORD_FILE);
        let log = directory.join(LOG_FILE);
        let failed = |error| PartsError::of_file(&log, error);
        let mut file = File::create(&log).map_err(failed)?;
        let mut length = 0;
        loop {
            let received = self.messages.recv().await.unwrap_or(Err(MessageError::Closed));
            match received.map_err(|source| self.error(source))? {
                Received::Message(Message::Counts { .. } | Message::End(_)) => {}
                Received::Message(Message::Record(text)) => {
                    fs::write(&record, text).map_err(|error| PartsError::of_file(&record, error))?;
                }
                Received::Piece(piece) => {
                    length += piece.len() as u64;
                    if length > LOG_BYTES_MAX {
                        return Err(self.error(MessageError::TooLong(length)));
                    }
                    file.write_all(&piece).map_err(failed)?;
                }
                Received::Message(Message::Sent) => break,
                Received::Message(_) => return Err(self.error(MessageError::Unexpected("after the end of the run"))),
            }
        }
        let sent = message::send(&mut self.writer, &Message::Received).await;
        sent.map_err(|source| self.error(source))
    }

    fn error(&self, source: MessageError) -> PartsError {
        PartsError::Message { part: self.part, source }
    }
}

/// Returns by how much the clocks of two parts may differ, from half the shortest round trip of each part but the
/// coordinator: the sum of the two largest. Returns `None` if there is no other part.
///
/// A part takes the start signal as half a round trip old. It was on the way for a time between nothing and the whole
/// round trip, so the clock of the part is off from the coordinator's by at most half of it, in either direction. Two
/// parts can be off in opposite directions. The clock of the coordinator is not off. A start signal that takes longer
/// than the shortest round trip is not noticed.
fn clock_difference(halves: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut halves: Vec<Duration> = halves.collect();
    halves.sort_unstable_by_key(|half| Reverse(*half));
    (!halves.is_empty()).then(|| halves.iter().take(2).sum())
}

/// Returns half the shortest of some round trips.
async fn round_trip(
    writer: &mut OwnedWriteHalf,
    messages: &mut mpsc::Receiver<Result<Received, MessageError>>,
) -> Result<Duration, MessageError> {
    let mut shortest = Duration::MAX;
    for _ in 0..ROUND_TRIPS {
        let begin = Instant::now();
        message::send(writer, &Message::Ping).await?;
        match messages.recv().await.unwrap_or(Err(MessageError::Closed))? {
            Received::Message(Message::Pong) => shortest = shortest.min(begin.elapsed()),
            _ => return Err(MessageError::Unexpected("not an answer to a round trip")),
        }
    }
    Ok(shortest / 2)
}

/// Compares two tokens in constant time: their digests are compared, so that neither length nor beginning is told.
fn is_same_token(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|token| Sha256::digest(token.as_bytes()));
    one.iter().zip(other.iter()).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clocks_can_be_off_in_opposite_directions() {
        let check = |halves: &[u64], expected: Option<u64>| {
            let found = clock_difference(halves.iter().map(|half| Duration::from_millis(*half)));
            assert_eq!(found, expected.map(Duration::from_millis));
        };
        check(&[], None);
        check(&[3], Some(3));
        check(&[3, 1, 4, 2], Some(7));
    }
}
