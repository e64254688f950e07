//! Uploads and downloads.
//!
//! An upload is stored while it arrives: each piece is a job of a worker, and the next one is received when it is done.
//! So an upload takes the memory of two pieces, whatever its length. If it breaks off, a worker removes what has
//! arrived. A download of an upload is read in pieces in the same way, when the client is ready for them.
//!
//! A download is what a message or an attachment has, so its sender has chosen it. The answer is therefore always a
//! download with a policy that permits nothing: a browser neither shows it as a page of this server nor guesses its
//! type.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use base::sync::Mutex;
use futures_util::stream;
use http::RequestContext;
use http::content::{Content, POLICY_OF_DOWNLOADS, Presentation, answer_with, content_disposition, slice_of};
use http::problem::Problem;
use http::request_body::{BodyLimits, BodyPieces};
use serde_json::Value;
use store::Ticket;
use wire::{JobLabel, JobOwner, WorkerPool};

use super::api::{BODY_PAUSE_MAX, refused_body};
use super::resource_address::{DownloadAddress, UploadAddress};
use super::{Answer, Service, asking_for_login, failed, unavailable};
use crate::Caller;
use crate::blob::{self, FoundBlob, UploadRequest};
use crate::error::MethodError;
use crate::limits::TRANSFER_PIECE_BYTES;
use crate::uploads::ArrivingUpload;

pub(super) async fn upload(
    Extension(service): Extension<Arc<Service>>,
    Extension(context): Extension<RequestContext>,
    UploadAddress { account }: UploadAddress,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let answered = receive_upload(&service, &context, account, (&head.headers, body)).await;
    answered.unwrap_or_else(|problem| asking_for_login(problem, &head.headers))
}

async fn receive_upload(
    service: &Arc<Service>,
    context: &RequestContext,
    account: String,
    (headers, body): (&HeaderMap, Body),
) -> Answer {
    let caller = service.caller(context, headers).await?;
    let permit = service.uploads.begin(&caller.login).ok_or_else(|| {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many uploads at the same time; wait until one has ended")
    })?;
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.unwrap_or("application/octet-stream").to_owned();
    let bytes_max = usize::try_from(service.parts.services.limits.upload_bytes_max).unwrap_or(usize::MAX);
    let limits = BodyLimits { bytes_max, pause_max: BODY_PAUSE_MAX };
    let budget = service.parts.memory.share_of(&context.peer.memory_owner());
    let memory = (&budget, TRANSFER_PIECE_BYTES);
    let mut pieces = BodyPieces::begin(headers, body, limits, memory).map_err(refused_body)?;
    let mut receiver = UploadReceiver::new(service, caller, UploadRequest { account, media_type });
    loop {
        let piece = pieces.next().await.map_err(refused_body)?;
        if let Some(stored) = receiver.take(piece.bytes, piece.is_last).await? {
            drop(permit);
            let fields = [(header::CONTENT_TYPE, "application/json")];
            return Ok((StatusCode::CREATED, fields, stored.to_string()).into_response());
        }
    }
}

/// An upload that arrives. If it is dropped before it is stored, a worker removes what has arrived.
struct UploadReceiver<'s> {
    service: &'s Service,
    caller: Caller,
    request: UploadRequest,
    /// Locked by the job that works on it. `None` before the first piece, and when the upload is stored.
    arriving: Arc<Mutex<Option<ArrivingUpload>>>,
    is_stored: bool,
}

impl<'s> UploadReceiver<'s> {
    fn new(service: &'s Service, caller: Caller, request: UploadRequest) -> Self {
        Self { service, caller, request, arriving: Arc::default(), is_stored: false }
    }

    /// Stores a piece. After the last one, returns the object that tells the client about the upload, which is durable
    /// then.
    async fn take(&mut self, piece: Vec<u8>, is_last: bool) -> Result<Option<Value>, Problem> {
        let mut stored = self.step(piece, is_last).await?;
        while is_last && stored.is_none() {
            stored = self.step(Vec::new(), true).await?;
        }
        self.is_stored = is_last;
        Ok(stored)
    }

    async fn step(&self, piece: Vec<u8>, is_last: bool) -> Result<Option<Value>, Problem> {
        let caller = self.caller.clone();
        let request = self.request.clone();
        let arriving = Arc::clone(&self.arriving);
        let done = self.service.run(&self.caller, "upload", move |services| {
            let mut arriving = arriving.lock();
            let done = if piece.is_empty() && arriving.is_some() {
                Ok(())
            } else {
                blob::receive_piece(services, (&caller, &request), &mut arriving, &piece)
            };
            let done = done.and_then(|()| match is_last {
                true => blob::finish_upload(services, (&caller, &request), &mut arriving),
                false => Ok(None),
            });
            match done {
                Ok(Some((stored, ticket))) => (Ok(Some(stored)), ticket),
                Ok(None) => (Ok(None), Ticket::NONE),
                Err(error) => (Err(error), Ticket::NONE),
            }
        });
        done.await?.map_err(|error| problem_of("upload", &error))
    }
}

impl Drop for UploadReceiver<'_> {
    fn drop(&mut self) {
        if !self.is_stored {
            let label = JobLabel::new(JobOwner::account(&self.caller.login), "jmap", "upload");
            abandon(&self.service.parts.pool, label, &self.arriving);
        }
    }
}

/// Lets a worker remove what has arrived of an upload. If no worker can, it is removed after the next upload, because
/// nothing may block here.
fn abandon(pool: &WorkerPool, label: JobLabel, arriving: &Arc<Mutex<Option<ArrivingUpload>>>) {
    let of_job = Arc::clone(arriving);
    let queued = pool.spawn(label, move || drop(of_job.lock().take()));
    // A job that has the lock has a reference of its own, and removes the content at its end.
    if queued.is_err()
        && let Some(mut arriving) = arriving.try_lock()
        && let Some(arriving) = arriving.take()
    {
        arriving.leave();
    }
}

pub(super) async fn download(
    Extension(service): Extension<Arc<Service>>,
    Extension(context): Extension<RequestContext>,
    DownloadAddress { account, blob, name, media_type }: DownloadAddress,
    headers: HeaderMap,
) -> Response<Body> {
    let answered = async {
        let caller = service.caller(&context, &headers).await?;
        let tag = format!("\"{blob}\"");
        let of_job = caller.clone();
        let opened = service.run(&caller, "download", move |services| {
            match blob::open_blob(services, &of_job, &account, &blob) {
                Ok((opened, ticket)) => (Ok(opened), ticket),
                Err(error) => (Err(error), Ticket::NONE),
            }
        });
        let found = opened.await?.map_err(|error| problem_of("download", &error))?;
        let wanted = media_type.unwrap_or_else(|| found.media_type().to_owned());
        let media_type = blob::safe_media_type(&wanted);
        let content = Content { length: found.size(), media_type: &media_type, tag: &tag };
        let mut response = answer_with(&headers, content, |range| body_of(&service, caller, found, range));
        let fields = response.headers_mut();
        fields.insert(header::CONTENT_DISPOSITION, content_disposition(Presentation::Attachment, &name));
        fields.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY_OF_DOWNLOADS));
        // A blob never changes. Other people at the same browser must not find it.
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, immutable, max-age=31536000"));
        Ok::<_, Problem>(response)
    };
    answered.await.unwrap_or_else(|problem| asking_for_login(problem, &headers))
}

/// Returns the body with a range of a blob.
fn body_of(service: &Arc<Service>, caller: Caller, found: FoundBlob, range: Range<u64>) -> Body {
    if let FoundBlob::Whole(blob) = &found {
        return Body::from(slice_of(&blob.bytes, range));
    }
    let service = Arc::clone(service);
    let found = Arc::new(found);
    Body::from_stream(stream::try_unfold(range, move |range| {
        let service = Arc::clone(&service);
        let caller = caller.clone();
        let found = Arc::clone(&found);
        async move {
            if range.is_empty() {
                return Ok(None);
            }
            let next = range.end.min(range.start + TRANSFER_PIECE_BYTES as u64);
            let piece = range.start..next;
            let of_job = caller.clone();
            let read =
                service.run(&caller, "download", move |services| (found.read(services, &of_job, piece), Ticket::NONE));
            match read.await {
                Ok(Ok(Some(bytes))) => Ok(Some((bytes, next..range.end))),
                Ok(Ok(None)) => Err(io::Error::other("the blob was removed")),
                Ok(Err(_)) | Err(_) => Err(io::Error::other("the blob could not be read")),
            }
        }
    }))
}

fn problem_of(command: &'static str, error: &MethodError) -> Problem {
    match error.kind {
        "accountNotFound" | "blobNotFound" => Problem::new(StatusCode::NOT_FOUND, "there is no such account or blob"),
        "requestTooLarge" => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "the upload is larger than maxSizeUpload"),
        "accountReadOnly" | "forbidden" => Problem::new(StatusCode::FORBIDDEN, "the account is read-only"),
        "serverUnavailable" => unavailable(),
        kind => failed(command, &kind),
    }
}
