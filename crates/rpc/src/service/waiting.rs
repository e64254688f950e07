//! Calls that wait: for the index of a view, for changes, or for mail. They hold no worker while they wait.

use proto::v1;
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::{Request, Response, Status};

use super::{Replies, Service, replies, split_request};
use crate::admission::Caller;
use crate::cmd::change::{self, ChangeStream};
use crate::cmd::view::{CollectionRequest, OpenedCollection, RefreshStep};
use crate::error::Result;
use crate::limits::{HEARTBEAT_INTERVAL, POLL_TIME_MAX, REFRESH_TIME_MAX};

type Outcome<R> = std::result::Result<Response<R>, Status>;

/// Serves `OpenCollection` and `UpdateCollection`. Applies changes to the index step by step, so that other writes can
/// come between the steps, and waits if the index is being built. Gives up after [`REFRESH_TIME_MAX`] and reports the
/// collection as incomplete.
pub(super) async fn open_collection(
    service: &Service,
    caller: &Caller,
    opening: CollectionRequest,
) -> Result<v1::Collection> {
    let until = Instant::now() + REFRESH_TIME_MAX;
    let mut was_requested = false;
    let mut progress = None;
    let incomplete = loop {
        let step = opening.clone();
        match service.run_on_worker(caller, move |context| step.refresh(context, was_requested)).await? {
            RefreshStep::Done => break false,
            RefreshStep::More if Instant::now() < until => {}
            RefreshStep::More | RefreshStep::Build(None) => break true,
            RefreshStep::Build(Some(mut build)) => {
                let over = async { while build.changed().await.is_ok() {} };
                if timeout_at(until, over).await.is_err() {
                    progress = Some(*build.borrow());
                    break true;
                }
                was_requested = true;
            }
        }
    };
    let opened = OpenedCollection { request: opening, incomplete, build: progress };
    service.run_divided(caller, opened, OpenedCollection::describe).await
}

/// Serves `WatchChanges`.
pub(super) fn watch_changes(
    service: &Service,
    request: Request<v1::WatchChangesRequest>,
) -> Outcome<Replies<v1::ChangeBatch>> {
    let (caller, message) = split_request(request)?;
    let start = WatchState { watch: ChangeStream::begin(message), is_over: false, has_begun: false };
    Ok(Response::new(replies(service.clone(), caller, start, |service, caller, following| async move {
        next_batch(&service, &caller, following).await
    })))
}

/// The state of a change stream between two messages.
struct WatchState {
    watch: ChangeStream,
    is_over: bool,
    /// `true` after the first message, which is sent even if it has no changes.
    has_begun: bool,
}

/// Returns the next message of a change stream: changes that the caller may read, the end of the stream, or the
/// heartbeat. A change that is hidden from the caller causes no message, because its time alone would be information.
async fn next_batch(
    service: &Service,
    caller: &Caller,
    mut following: WatchState,
) -> Result<Option<(v1::ChangeBatch, WatchState)>> {
    if following.is_over {
        return Ok(None);
    }
    let silent_until = Instant::now() + HEARTBEAT_INTERVAL;
    loop {
        if let Some(session) = &caller.session {
            service.sessions.renew(session)?;
        }
        let watch = following.watch;
        let (look, watch) = service.run_on_worker(caller, move |context| watch.read_changes(context)).await?;
        following.watch = watch;
        following.is_over = following.watch.is_once() && !look.more;
        let is_first = !following.has_begun && !look.more;
        let has_changes = !look.batch.changes.is_empty();
        if has_changes || is_first || following.is_over || Instant::now() >= silent_until {
            following.has_begun = true;
            return Ok(Some((look.batch, following)));
        }
        if look.more {
            // The page contained only hidden changes.
            continue;
        }
        tokio::select! {
            () = look.changed => {}
            () = sleep_until(silent_until) => {}
        }
    }
}

/// Serves `PollNewMail`.
pub(super) async fn poll_new_mail(
    service: &Service,
    request: Request<v1::PollNewMailRequest>,
) -> Outcome<v1::PollNewMailReply> {
    let (caller, message) = split_request(request)?;
    let patience = std::time::Duration::from_millis(message.wait_ms.into()).min(POLL_TIME_MAX);
    let until = Instant::now() + patience;
    loop {
        let (reply, changed) = service.run_divided(&caller, message.clone(), change::poll).await?;
        if reply.new_mail || Instant::now() >= until {
            return Ok(Response::new(reply));
        }
        tokio::select! {
            () = changed => {}
            () = sleep_until(until) => {}
            () = service.shutdown.draining() => return Ok(Response::new(reply)),
        }
    }
}
