//! `_changes`: changes that exist, and those that are waited for.
//!
//! | `feed` | answer |
//! |---|---|
//! | `normal` | the changes after a sequence, and the sequence behind them |
//! | `longpoll` | the same, but if there are none, the first ones that come within a time |
//! | `continuous` | one line for each change, also for those that come later |
//!
//! An answer that waits ends with the login of its request: with its session, and with a change of the account that
//! ends connections. It watches the login itself, because its connection may carry requests of other people meanwhile.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use base::memory::MemoryPermit;
use bytes::Bytes;
use futures_util::Stream;
use http::Caller;
use http::account_limits::RequestPermit;
use http::login::WatchedLogin;
use notes::change_log::ChangeCursor;
use sasl::LoginProtocol;
use tokio::time::Instant;

use super::answer::{self, json};
use super::{Call, OpenDatabase, Service};
use crate::changes::{ChangesOptions, ChangesStep, read_step, read_step_back};
use crate::error::{Error, Result};
use crate::limits::{FEED_TIME_MAX, HEARTBEAT, HEARTBEAT_MIN, ROWS_MAX};
use crate::sequence::Since;

/// How long a client waits for changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedKind {
    Normal,
    LongPoll,
    Continuous,
}

/// A question for changes.
pub(super) struct Feed {
    pub(super) database: String,
    pub(super) kind: FeedKind,
    pub(super) since: Since,
    pub(super) options: ChangesOptions,
    /// The memory of the filter, if the body of the request has it.
    pub(super) memory: Option<MemoryPermit>,
    /// Maximum number of rows.
    pub(super) limit: Option<usize>,
    /// `true` if the last change is told first. Then the answer ends with the first one, whatever the kind.
    pub(super) descending: bool,
    /// Interval of the empty lines that show that the connection lives.
    pub(super) heartbeat: Option<Duration>,
    /// Time after which the answer ends without changes.
    pub(super) timeout: Duration,
}

impl Feed {
    /// Returns the interval of empty lines for the parameter `heartbeat`: a number of milliseconds, or `true`.
    pub(super) fn heartbeat(parameter: Option<&str>) -> Result<Option<Duration>> {
        match parameter {
            None | Some("false") => Ok(None),
            Some("true") => Ok(Some(HEARTBEAT)),
            Some(text) => {
                let pause = text.parse().map(Duration::from_millis);
                let pause = pause.map_err(|_| Error::BadRequest("heartbeat must be a time in milliseconds".into()))?;
                Ok(Some(pause.clamp(HEARTBEAT_MIN, HEARTBEAT)))
            }
        }
    }

    /// Returns the time for the parameter `timeout`, in milliseconds.
    pub(super) fn timeout(parameter: Option<&str>) -> Result<Duration> {
        let Some(text) = parameter else { return Ok(FEED_TIME_MAX) };
        let time = text.parse().map(Duration::from_millis);
        let time = time.map_err(|_| Error::BadRequest("timeout must be a time in milliseconds".into()))?;
        Ok(time.min(FEED_TIME_MAX))
    }
}

/// The state of an answer that is being sent.
struct Sending {
    service: Arc<Service>,
    caller: Caller,
    feed: Arc<Feed>,
    cursor: Option<ChangeCursor>,
    /// Number of rows that were sent.
    rows: usize,
    /// The text that was not sent yet.
    begun: Begun,
    /// When the answer ends if it waits for changes.
    deadline: Instant,
    /// The login of an answer that waits.
    login: Option<WatchedLogin>,
    _permit: Option<RequestPermit>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    /// Nothing was sent.
    No,
    /// The beginning was sent, and the answer goes on.
    Yes,
    /// The end was sent.
    Ended,
}

/// Answers a question for changes.
pub(super) async fn answer(call: &Call, caller: &Caller, feed: Feed) -> Result<Response<Body>> {
    let service = &call.service;
    if feed.descending {
        return answer_back(service, caller, feed).await;
    }
    let (permit, login) = match feed.kind {
        FeedKind::Normal => (None, None),
        FeedKind::LongPoll | FeedKind::Continuous => {
            let full = || Error::Exhausted("too many requests wait for changes; close some of them");
            let permit = service.feeds.begin(caller.login()).ok_or_else(full)?;
            let login = service.services.authenticator.watch(&call.context, caller, LoginProtocol::Http).await?;
            (Some(permit), Some(login))
        }
    };
    let deadline = Instant::now() + feed.timeout;
    let feed = Arc::new(feed);
    // The first step finds errors before the answer begins.
    let first = read(service, caller, &feed, None, feed.limit.unwrap_or(ROWS_MAX).max(1)).await?;
    let sending = Sending {
        service: Arc::clone(service),
        caller: caller.clone(),
        feed,
        cursor: None,
        rows: 0,
        begun: Begun::No,
        deadline,
        login,
        _permit: permit,
    };
    let stream = futures_util::stream::unfold((sending, Some(first)), |(mut sending, first)| async move {
        let next = sending.next(first).await?;
        Some((next, (sending, None)))
    });
    let stream: Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>> = Box::pin(stream);
    let mut response = json(StatusCode::OK, String::new());
    *response.body_mut() = Body::from_stream(stream);
    response.headers_mut().remove(header::CONTENT_LENGTH);
    Ok(response)
}

/// Answers a question for changes with the last one first. A document that changes meanwhile may be left out.
async fn answer_back(service: &Arc<Service>, caller: &Caller, feed: Feed) -> Result<Response<Body>> {
    let databases = Arc::clone(&service.services.databases);
    let of_job = caller.clone();
    let read: answer::ReadPart<Back> = Arc::new(move |mut back| {
        // The memory of the filter is held as long as the filter is.
        let _held = &feed.memory;
        let open = OpenDatabase::open(&databases, &of_job, &feed.database)?;
        let reading = open.reader.read()?;
        let since = feed.since.cursor(&reading)?;
        let left = feed.limit.map_or(ROWS_MAX, |limit| limit.max(1).saturating_sub(back.rows).min(ROWS_MAX));
        let step = read_step_back(&reading, (since, back.before), left, &feed.options)?;
        let mut text = String::from(if back.is_begun { "" } else { "{\"results\":[" });
        for row in &step.rows {
            text.push_str(if back.rows == 0 { "\n" } else { ",\n" });
            text.push_str(row);
            back.rows += 1;
        }
        let is_last = step.next.is_none() || feed.limit.is_some_and(|limit| back.rows >= limit.max(1));
        if !step.rows.is_empty() || back.last.is_none() {
            back.last = Some(step.sequence.to_string());
        }
        if is_last {
            text.push_str(&format!("\n],\n\"last_seq\":\"{}\",\"pending\":0}}\n", back.last.as_deref().unwrap_or("0")));
        }
        let next = (!is_last).then_some(Back { is_begun: true, before: step.next, ..back });
        Ok(answer::Part { text: text.into_bytes(), next, ticket: reading.ticket() })
    });
    answer::streamed(service, caller, "_changes", (Back::default(), read)).await
}

/// How far an answer with the last change first has come.
#[derive(Default)]
struct Back {
    is_begun: bool,
    /// The place before which it goes on, or the end of the changes.
    before: Option<(base::Modseq, base::NoteId)>,
    /// Number of rows that were sent.
    rows: usize,
    /// The sequence of the last row.
    last: Option<String>,
}

/// Reads one step of the changes, with a listener that is notified of later ones.
async fn read(
    service: &Arc<Service>,
    caller: &Caller,
    feed: &Arc<Feed>,
    cursor: Option<ChangeCursor>,
    rows_max: usize,
) -> Result<ReadStep> {
    let service_of_job = Arc::clone(service);
    let caller_of_job = caller.clone();
    let feed = Arc::clone(feed);
    service
        .run(caller, "_changes", move || {
            let open = OpenDatabase::open(&service_of_job.services.databases, &caller_of_job, &feed.database)?;
            let listener = open.database.listen();
            let reading = open.reader.read()?;
            let cursor = match cursor {
                Some(cursor) => cursor,
                None => feed.since.cursor(&reading)?,
            };
            let step = read_step(&reading, cursor, rows_max, &feed.options)?;
            let left = reading.modseq().0.saturating_sub(step.sequence.position.modseq.0);
            let ticket = reading.ticket();
            Ok((ReadStep { step, listener: Box::pin(listener), left }, ticket))
        })
        .await
}

struct ReadStep {
    step: ChangesStep,
    listener: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// About the number of changes that follow.
    left: u64,
}

impl Sending {
    /// Returns the next part of the answer, or `None` behind its end.
    async fn next(&mut self, first: Option<ReadStep>) -> Option<Result<Bytes>> {
        if self.begun == Begun::Ended {
            return None;
        }
        let mut part = self.next_part(first).await;
        if self.login.as_ref().is_some_and(WatchedLogin::is_ended) {
            part = Err(Error::Unauthorized("the login has ended".to_owned()));
        }
        if part.is_err() {
            self.begun = Begun::Ended;
        }
        Some(part.map(Bytes::from))
    }

    async fn next_part(&mut self, first: Option<ReadStep>) -> Result<String> {
        let mut text = String::new();
        if self.begun == Begun::No && self.feed.kind != FeedKind::Continuous {
            text.push_str("{\"results\":[\n");
        }
        self.begun = Begun::Yes;
        let left = self.feed.limit.map_or(ROWS_MAX, |limit| limit.max(1).saturating_sub(self.rows).min(ROWS_MAX));
        let ReadStep { step, listener, left: pending } = match first {
            Some(first) => first,
            None => read(&self.service, &self.caller, &self.feed, self.cursor, left).await?,
        };
        self.cursor = Some(step.next);
        for row in &step.rows {
            if self.feed.kind != FeedKind::Continuous && self.rows > 0 {
                text.push_str(",\n");
            }
            text.push_str(row);
            self.rows += 1;
            if self.feed.kind == FeedKind::Continuous {
                text.push('\n');
            }
        }
        let is_full = self.feed.limit.is_some_and(|limit| self.rows >= limit.max(1));
        if !is_full && !step.is_last {
            return Ok(text);
        }
        let waits = match self.feed.kind {
            FeedKind::Normal => false,
            FeedKind::LongPoll => self.rows == 0,
            FeedKind::Continuous => true,
        };
        let is_draining = self.service.services.shutdown.is_draining();
        if !is_full && waits && Instant::now() < self.deadline && !is_draining {
            if text.is_empty() {
                self.wait(listener, &mut text).await;
            }
            return Ok(text);
        }
        let sequence = &step.sequence;
        if self.feed.kind == FeedKind::Continuous {
            text.push_str(&format!("{{\"last_seq\":\"{sequence}\",\"pending\":{pending}}}\n"));
        } else {
            text.push_str(&format!("\n],\n\"last_seq\":\"{sequence}\",\"pending\":{pending}}}\n"));
        }
        self.begun = Begun::Ended;
        Ok(text)
    }

    /// Waits for a change. Adds an empty line if it is time for one.
    async fn wait(&mut self, listener: Pin<Box<dyn Future<Output = ()> + Send>>, text: &mut String) {
        let pause = self.feed.heartbeat;
        if let Some(pause) = pause {
            // A feed with empty lines ends when the client goes.
            self.deadline = Instant::now() + pause + FEED_TIME_MAX;
        }
        let until = match pause {
            Some(pause) => self.deadline.min(Instant::now() + pause),
            None => self.deadline,
        };
        tokio::select! {
            biased;
            () = login_end(self.login.as_ref()) => {}
            () = listener => {}
            () = self.service.services.shutdown.draining() => {}
            () = tokio::time::sleep_until(until) => {
                if pause.is_some() {
                    text.push('\n');
                }
            }
        }
    }
}

/// Waits for the end of a login, without end if none is watched.
async fn login_end(login: Option<&WatchedLogin>) {
    match login {
        Some(login) => login.ended().await,
        None => std::future::pending().await,
    }
}
