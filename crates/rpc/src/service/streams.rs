//! Streaming calls: each is a sequence of steps on the worker pool, and a step starts when the client has read the
//! result of the previous one.

use std::collections::VecDeque;

use base::memory::MeteredBuffer;
use notes::limits::BLOBS_PER_NOTE_MAX;
use proto::v1;
use proto::v1::attach_file_request::Part;
use tonic::{Request, Response, Status, Streaming};

use super::{Replies, Service, replies, split_request};
use crate::cmd::CallContext;
use crate::cmd::attachment::{self, ContentStream, Upload};
use crate::cmd::deposit::{self, AnyEnvelope};
use crate::cmd::local_replica::{self, ReplicaWrite};
use crate::cmd::replication::{ContentProofStream, ReplicaContentStream, ReplicaNoteStream};
use crate::cmd::search::Search;
use crate::error::{Error, Result};
use crate::limits::CHUNK_BYTES;

type Outcome<R> = std::result::Result<Response<R>, Status>;

/// Serves `ReadItem`.
pub(super) fn read_item(service: &Service, request: Request<v1::ReadItemRequest>) -> Outcome<Replies<v1::Chunk>> {
    let (caller, message) = split_request(request)?;
    Ok(Response::new(content_replies(service, caller, ContentStream::of_item(message))))
}

/// Serves `ReadAttachment`.
pub(super) fn read_attachment(
    service: &Service,
    request: Request<v1::ReadAttachmentRequest>,
) -> Outcome<Replies<v1::Chunk>> {
    let (caller, message) = split_request(request)?;
    Ok(Response::new(content_replies(service, caller, ContentStream::of_attachment(message))))
}

/// Chunks that were read but not sent yet, and the remaining content.
struct ChunkStream {
    ready: VecDeque<v1::Chunk>,
    rest: Option<ContentStream>,
}

fn content_replies(service: &Service, caller: crate::admission::Caller, content: ContentStream) -> Replies<v1::Chunk> {
    let start = ChunkStream { ready: VecDeque::new(), rest: Some(content) };
    replies(service.clone(), caller, start, |service, caller, mut flow: ChunkStream| async move {
        if flow.ready.is_empty()
            && let Some(content) = flow.rest.take()
        {
            let pieces = service.run_divided(&caller, content, ContentStream::step).await?;
            flow = ChunkStream { ready: pieces.chunks.into(), rest: pieces.rest };
        }
        Ok(flow.ready.pop_front().map(|chunk| (chunk, flow)))
    })
}

/// Serves `SearchNotes`.
pub(super) fn search_notes(
    service: &Service,
    request: Request<v1::SearchNotesRequest>,
) -> Outcome<Replies<v1::SearchNotesReply>> {
    let (caller, message) = split_request(request)?;
    let search = Search::begin(message)?;
    Ok(Response::new(replies(service.clone(), caller, Some(search), |service, caller, mut search| async move {
        // Steps without results send no message, except for the last step.
        while let Some(rest) = search.take() {
            let step = service.run_on_worker(&caller, move |context| rest.step(context)).await?;
            search = step.rest;
            if search.is_none() || !step.reply.notes.is_empty() || !step.reply.deleted.is_empty() {
                return Ok(Some((step.reply, search)));
            }
        }
        Ok(None)
    })))
}

/// Serves `ReadReplicaNotes`.
pub(super) fn read_replica_notes(
    service: &Service,
    request: Request<v1::ReadReplicaNotesRequest>,
) -> Outcome<Replies<v1::ReplicaNotes>> {
    let (caller, message) = split_request(request)?;
    let start = ReplicaNoteStream::begin(&message)?;
    Ok(Response::new(replies(service.clone(), caller, start, |service, caller, stream| async move {
        if stream.is_over() {
            return Ok(None);
        }
        let step = service.run_on_worker(&caller, move |context| ReplicaNoteStream::step(context, &stream)).await?;
        Ok(Some(step))
    })))
}

/// Serves `ReadContents`.
pub(super) fn read_contents(
    service: &Service,
    request: Request<v1::ReadContentsRequest>,
) -> Outcome<Replies<v1::ContentPiece>> {
    let (caller, message) = split_request(request)?;
    let start = ReplicaContentStream::begin(&message)?;
    Ok(Response::new(replies(service.clone(), caller, start, |service, caller, stream| async move {
        service.run_on_worker(&caller, move |context| ReplicaContentStream::step(context, &stream)).await
    })))
}

/// Serves `ProveContents`.
pub(super) fn prove_contents(
    service: &Service,
    request: Request<v1::ProveContentsRequest>,
) -> Outcome<Replies<v1::ContentProof>> {
    let (caller, message) = split_request(request)?;
    let start = ContentProofStream::begin(&message)?;
    Ok(Response::new(replies(service.clone(), caller, start, |service, caller, mut stream| async move {
        // Steps within a content send no message.
        while !stream.is_over() {
            let work = move |context: &CallContext| ContentProofStream::step(context, &stream);
            let (proof, next) = service.run_on_worker(&caller, work).await?;
            if let Some(proof) = proof {
                return Ok(Some((proof, next)));
            }
            stream = next;
        }
        Ok(None)
    })))
}

/// Serves `AttachFile`.
pub(super) async fn attach_file(
    service: &Service,
    request: Request<Streaming<v1::AttachFileRequest>>,
) -> Outcome<v1::SavedNote> {
    let (caller, mut messages) = split_request(request)?;
    let Some(Part::Header(header)) = messages.message().await?.and_then(|message| message.part) else {
        return Err(Error::invalid("the first message must contain the header").into());
    };
    attachment::check_header(&header, service.services.submissions.options().message_bytes_max)?;
    let checked = header.clone();
    service.run_on_worker(&caller, move |context| attachment::check_before_content(context, checked)).await?;
    let length = usize::try_from(header.length_bytes).map_err(|_| Error::Unavailable)?;
    // The store accepts content only as a whole. The budget limits how much content may wait for the rest and for the
    // disk.
    let mut content = MeteredBuffer::new(&caller.budget);
    while let Some(message) = messages.message().await? {
        let Some(Part::Content(piece)) = message.part else {
            return Err(Error::invalid("all messages after the first must contain content").into());
        };
        append(&mut content, &piece, length)?;
    }
    let (content, memory) = content.into_parts();
    check_announced(content.len(), length)?;
    let upload = Upload::new(header, (content, memory));
    Ok(Response::new(service.run_divided(&caller, upload, attachment::attach).await?))
}

/// Appends a piece of streamed content. Returns an error if the piece, or the content as a whole, is too long.
fn append(content: &mut MeteredBuffer, piece: &[u8], length_max: usize) -> Result<()> {
    if piece.len() > CHUNK_BYTES {
        return Err(Error::Limit { what: "bytes of a chunk", max: CHUNK_BYTES as u64 });
    }
    if content.bytes().len().saturating_add(piece.len()) > length_max {
        return Err(Error::invalid("more bytes received than announced"));
    }
    Ok(content.append(piece, length_max)?)
}

fn check_announced(length: usize, announced: usize) -> Result<()> {
    if length != announced {
        return Err(Error::invalid(format!("{length} bytes received, but {announced} announced")));
    }
    Ok(())
}

/// Serves `DepositMail`.
pub(super) async fn deposit_mail(
    service: &Service,
    request: Request<Streaming<v1::DepositMailRequest>>,
) -> Outcome<v1::DepositMailReply> {
    use v1::deposit_mail_request::Part;
    let (caller, mut messages) = split_request(request)?;
    let envelope = match messages.message().await?.and_then(|message| message.part) {
        Some(Part::Envelope(envelope)) => AnyEnvelope::Person(envelope),
        Some(Part::Forwarded(envelope)) => AnyEnvelope::Server(envelope),
        Some(Part::Content(_)) | None => {
            return Err(Error::invalid("the first message must contain the envelope").into());
        }
    };
    let limits = service.services.submissions.options();
    deposit::check(&envelope, limits.recipients_max, limits.message_bytes_max)?;
    let announced = usize::try_from(envelope.length_bytes()).ok().filter(|length| *length > 0);
    let bytes_max = announced.unwrap_or(usize::try_from(limits.message_bytes_max).unwrap_or(usize::MAX));
    let mut content = MeteredBuffer::new(&caller.budget);
    while let Some(message) = messages.message().await? {
        let Some(Part::Content(piece)) = message.part else {
            return Err(Error::invalid("all messages after the first must contain content").into());
        };
        append(&mut content, &piece, bytes_max)?;
    }
    let (content, memory) = content.into_parts();
    check_announced(content.len(), announced.unwrap_or(content.len()))?;
    let deposited = service
        .run_on_worker(&caller, move |context| {
            let _memory = memory;
            deposit::deposit(context, envelope, content)
        })
        .await?;
    deposited.durable.await.map_err(|refusal| deposit::submission_error(refusal.into()))?;
    Ok(Response::new(v1::DepositMailReply { id: deposited.id }))
}

/// Serves `WriteReplicaNotes`.
pub(super) async fn write_replica_notes(
    service: &Service,
    request: Request<Streaming<v1::WriteReplicaNotesRequest>>,
) -> Outcome<v1::WriteReplicaNotesReply> {
    use v1::write_replica_notes_request::Part;
    let (caller, mut messages) = split_request(request)?;
    let Some(Part::Database(database)) = messages.message().await?.and_then(|message| message.part) else {
        return Err(Error::invalid("the first message must name the database").into());
    };
    let named = database.clone();
    service.run_on_worker(&caller, move |context| ReplicaWrite::check(context, named)).await?;
    let mut write = ReplicaWrite::new(database, &caller.budget);
    let content_bytes_max = caller.budget.bytes_max();
    let mut content = MeteredBuffer::new(&caller.budget);
    while let Some(message) = messages.message().await? {
        match message.part {
            Some(Part::Note(note)) if content.bytes().is_empty() => write.add_note(note)?,
            Some(Part::Content(piece)) => {
                let expected = u32::try_from(write.content_count()).unwrap_or(u32::MAX);
                if write.content_count() >= BLOBS_PER_NOTE_MAX {
                    return Err(Error::Limit { what: "contents of a call", max: BLOBS_PER_NOTE_MAX as u64 }.into());
                }
                if piece.index != expected || (piece.content.is_empty() && !piece.last) {
                    return Err(Error::invalid(format!("a piece of content {expected} was expected")).into());
                }
                append(&mut content, &piece.content, content_bytes_max)?;
                if piece.last {
                    let whole = std::mem::replace(&mut content, MeteredBuffer::new(&caller.budget)).into_parts();
                    let bytes = whole.0.len();
                    let prepared = service.run_divided(&caller, whole, local_replica::prepare_content).await?;
                    write.add_content(prepared, bytes)?;
                }
            }
            _ => return Err(Error::invalid("a note or the next piece of a content was expected").into()),
        }
    }
    while !write.is_over() {
        write = service.run_on_worker(&caller, move |context| ReplicaWrite::step(context, write)).await?;
    }
    Ok(Response::new(write.into_reply()))
}
