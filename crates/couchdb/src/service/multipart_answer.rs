//! Answers in several parts: documents with the contents of their attachments, for clients that accept them.
//!
//! | request | form |
//! |---|---|
//! | a document with `attachments=true` | `multipart/related`: the document, then the contents in its order |
//! | `open_revs`, `_bulk_get` | `multipart/mixed`: a part for each version, which is JSON or, with attachments, again `multipart/related` |
//!
//! Contents are read and sent piece by piece, so attachments may have any size, and of several versions one after the
//! other is rendered. A document that changes meanwhile breaks the answer off.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use base::memory::MemoryPermit;
use base::{Modseq, NoteId, hex};
use http::Caller;
use notes::DatabaseSnapshot;
use revision::Revision;
use serde_json::json;

use super::answer::{self, Part};
use super::{Call, OpenDatabase};
use crate::error::{Error, Result};
use crate::leaves::{Leaf, Leaves};
use crate::limits::ANSWER_PART_BYTES;
use crate::multipart::quoted;
use crate::read::{
    Attachment, DocumentOptions, WantedRevision, document_json, items_of_leaf, leaves_of, stored_attachments,
    wanted_leaves,
};

/// The versions that are sent.
pub(super) struct Versions {
    /// The requested revisions.
    pub(super) wanted: Vec<WantedRevision>,
    /// `true` if later versions are sent in their place.
    pub(super) latest: bool,
    /// What the documents are sent with.
    pub(super) options: DocumentOptions,
    /// The form of the answer.
    pub(super) form: Form,
    /// The memory of the requested revisions, if the body of the request names them.
    pub(super) memory: Option<MemoryPermit>,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `multipart/related`: one version with its attachments. There must be one.
    Related,
    /// `multipart/mixed`: a part for each version.
    Mixed,
}

/// Returns `true` if a client accepts a media type and names it. One that accepts anything gets JSON.
pub(super) fn is_accepted(call: &Call, kinds: &[&str]) -> bool {
    let accepted = call.field(header::ACCEPT).unwrap_or_default().split(',');
    let mut names = accepted.map(|one| one.split(';').next().unwrap_or_default().trim());
    names.any(|name| kinds.iter().any(|kind| name.eq_ignore_ascii_case(kind)))
}

/// A piece of an answer.
enum Piece {
    Text(String),
    /// The rest of a content.
    Content {
        note: NoteId,
        attachment: Attachment,
        offset: u64,
    },
}

/// How far an answer has come.
struct Sending {
    /// Number of the next requested revision. After the last one, the end follows.
    next: usize,
    /// The versions that answer the requested revision before it, unless all were rendered.
    answering: Option<AnsweringVersions>,
    /// What was rendered and not sent.
    pieces: VecDeque<Piece>,
}

/// Sends versions of documents.
pub(super) async fn answer(
    call: &Call,
    (caller, database): (&Caller, &str),
    versions: Versions,
) -> Result<Response<Body>> {
    let service = Arc::clone(&call.service);
    let of_job = caller.clone();
    let path = database.to_owned();
    let mut boundary = [0; 16];
    service.services.random.fill(&mut boundary);
    let boundary = hex::lower(&boundary);
    let kind = match versions.form {
        Form::Related => "related",
        Form::Mixed => "mixed",
    };
    let kind = HeaderValue::from_str(&format!("multipart/{kind}; boundary=\"{boundary}\""));
    let read: answer::ReadPart<Sending> = Arc::new(move |mut sending| {
        // Their memory is held as long as they are.
        let _held = &versions.memory;
        let open = OpenDatabase::open(&service.services.databases, &of_job, &path)?;
        let reading = open.reader.read()?;
        let text = sending.fill(&reading, (&versions, &boundary))?;
        let is_last = sending.pieces.is_empty() && sending.answering.is_none() && sending.next > versions.wanted.len();
        Ok(Part { text, next: (!is_last).then_some(sending), ticket: reading.ticket() })
    });
    let start = Sending { next: 0, answering: None, pieces: VecDeque::new() };
    let mut response = answer::streamed(&call.service, caller, "multipart", (start, read)).await?;
    response.headers_mut().insert(header::CONTENT_TYPE, kind.map_err(|_| Error::Unavailable)?);
    Ok(response)
}

impl Sending {
    /// Returns the next bytes.
    fn fill(&mut self, reading: &DatabaseSnapshot<'_>, (versions, boundary): (&Versions, &str)) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        while out.len() < ANSWER_PART_BYTES {
            match self.pieces.pop_front() {
                Some(Piece::Text(text)) => out.extend_from_slice(text.as_bytes()),
                Some(Piece::Content { note, attachment, offset }) => {
                    let room = (ANSWER_PART_BYTES - out.len()) as u64;
                    let end = attachment.length.min(offset.saturating_add(room));
                    if offset < end {
                        out.extend(reading.blob_range(note, &attachment.blob, offset..end)?);
                    }
                    if end < attachment.length {
                        self.pieces.push_front(Piece::Content { note, attachment, offset: end });
                    }
                }
                None => {
                    if !self.render(reading, (versions, boundary))? {
                        break;
                    }
                }
            }
        }
        Ok(out)
    }

    /// Renders the next version, or finds the next versions. Returns `false` behind the end.
    fn render(&mut self, reading: &DatabaseSnapshot<'_>, (versions, boundary): (&Versions, &str)) -> Result<bool> {
        if let Some(answering) = &mut self.answering {
            match answering.next(reading, (versions, boundary))? {
                Some(pieces) => self.pieces.extend(pieces),
                None => self.answering = None,
            }
            return Ok(true);
        }
        if self.next > versions.wanted.len() {
            return Ok(false);
        }
        match versions.wanted.get(self.next) {
            Some(wanted) => {
                self.answering = AnsweringVersions::find(reading, wanted, versions)?;
                if self.answering.is_none() {
                    self.pieces.push_back(missing_piece(wanted, (versions, boundary))?);
                }
            }
            None if versions.form == Form::Mixed => {
                self.pieces.push_back(Piece::Text(format!("--{boundary}--\r\n")));
            }
            None => {}
        }
        self.next += 1;
        Ok(true)
    }
}

/// The versions that answer a requested revision, of which one after the other is rendered.
struct AnsweringVersions {
    id: String,
    leaves: Leaves,
    /// The modseq of the snapshot of which the leaves are.
    modseq: Modseq,
    /// The revisions of the leaves that were not rendered yet.
    revisions: VecDeque<Revision>,
}

impl AnsweringVersions {
    /// Finds the versions that answer a requested revision. Returns `None` if there are none.
    fn find(reading: &DatabaseSnapshot<'_>, wanted: &WantedRevision, versions: &Versions) -> Result<Option<Self>> {
        let leaves = match leaves_of(reading, &wanted.id) {
            Err(Error::BadRequest(_)) => return Ok(None),
            read => read?,
        };
        let Some(leaves) = leaves else { return Ok(None) };
        let chosen = wanted_leaves(&leaves, wanted.revision.as_deref(), versions.latest);
        if versions.form == Form::Related && wanted.revision.is_none() && chosen.iter().any(|leaf| leaf.is_deletion()) {
            return Err(Error::NotFound("deleted"));
        }
        let mut revisions: VecDeque<Revision> = chosen.iter().map(|leaf| leaf.revision()).collect();
        if versions.form == Form::Related {
            revisions.truncate(1);
        }
        let modseq = reading.modseq();
        Ok((!revisions.is_empty()).then(|| Self { id: wanted.id.clone(), leaves, modseq, revisions }))
    }

    /// Renders the next version. Returns `None` if none is left.
    fn next(
        &mut self,
        reading: &DatabaseSnapshot<'_>,
        (versions, boundary): (&Versions, &str),
    ) -> Result<Option<Vec<Piece>>> {
        let Some(revision) = self.revisions.pop_front() else { return Ok(None) };
        if self.modseq != reading.modseq() {
            // The note of a leaf may have other contents by now.
            self.leaves = leaves_of(reading, &self.id)?.ok_or(Error::NotFound("missing"))?;
            self.modseq = reading.modseq();
        }
        let Some(leaf) = self.leaves.leaf(revision) else {
            let missing = json!({ "id": self.id, "missing": revision.to_string() });
            return Ok(Some(vec![failed_part(boundary, &missing.to_string())]));
        };
        let version = (self.id.as_str(), &self.leaves, leaf);
        let pieces = match versions.form {
            Form::Related => related(RenderedVersion::read(reading, version, versions.options)?, boundary),
            Form::Mixed => mixed(version, RenderedVersion::read(reading, version, versions.options), boundary)?,
        };
        Ok(Some(pieces))
    }
}

/// Returns the piece for a requested revision that no version answers.
fn missing_piece(wanted: &WantedRevision, (versions, boundary): (&Versions, &str)) -> Result<Piece> {
    if versions.form == Form::Related {
        return Err(Error::NotFound("missing"));
    }
    let missing = json!({ "id": wanted.id, "missing": wanted.revision.as_deref().unwrap_or("undefined") });
    Ok(failed_part(boundary, &missing.to_string()))
}

fn failed_part(boundary: &str, text: &str) -> Piece {
    Piece::Text(format!("--{boundary}\r\nContent-Type: application/json; error=\"true\"\r\n\r\n{text}\r\n"))
}

/// Returns the part of a version in `multipart/mixed`. One that is too large is named as failed.
fn mixed((id, _, leaf): (&str, &Leaves, &Leaf), read: Result<RenderedVersion>, boundary: &str) -> Result<Vec<Piece>> {
    let revision = leaf.revision().to_string();
    // A boundary of its own. It must not begin like the outer one.
    let digest = blake3::hash(format!("{boundary} {revision}").as_bytes());
    let inner = hex::lower(&digest.as_bytes()[..16]);
    let version = match read {
        Err(error @ Error::TooLarge(_)) => {
            let (_, word) = error.kind();
            let failed = json!({ "id": id, "rev": revision, "error": word, "reason": error.to_string() });
            return Ok(vec![failed_part(boundary, &failed.to_string())]);
        }
        version => version?,
    };
    let shown = id.replace(|c: char| c.is_control(), " ");
    let mut head = format!("--{boundary}\r\nX-Doc-Id: {shown}\r\nX-Rev-Id: {revision}\r\n");
    if version.attachments.is_empty() {
        head.push_str(&format!("Content-Type: application/json\r\n\r\n{}\r\n", version.document));
        return Ok(vec![Piece::Text(head)]);
    }
    head.push_str(&format!("Content-Type: multipart/related; boundary=\"{inner}\"\r\n\r\n"));
    let tail = Piece::Text("\r\n".to_owned());
    Ok(std::iter::once(Piece::Text(head)).chain(related(version, &inner)).chain([tail]).collect())
}

/// The document of a version, and its attachments.
struct RenderedVersion {
    document: String,
    attachments: Vec<(NoteId, Attachment)>,
}

impl RenderedVersion {
    fn read(
        reading: &DatabaseSnapshot<'_>,
        (id, leaves, leaf): (&str, &Leaves, &Leaf),
        options: DocumentOptions,
    ) -> Result<Self> {
        let document = document_json(reading, (id, leaves), leaf, options)?;
        let items = items_of_leaf(reading, leaf)?.unwrap_or_default();
        let Some(note) = leaf.note else { return Ok(Self { document, attachments: Vec::new() }) };
        let attachments = stored_attachments(reading, note, &items)?;
        Ok(Self { document, attachments: attachments.into_iter().map(|attachment| (note, attachment)).collect() })
    }
}

/// Returns the parts of a version in `multipart/related`: the document and the contents of its attachments.
fn related(version: RenderedVersion, boundary: &str) -> Vec<Piece> {
    let RenderedVersion { document, attachments } = version;
    let mut pieces = vec![Piece::Text(format!("--{boundary}\r\nContent-Type: application/json\r\n\r\n{document}"))];
    for (note, attachment) in attachments {
        let Attachment { name, media_type, length, .. } = &attachment;
        let kind = media_type.replace(|c: char| c.is_control(), " ");
        pieces.push(Piece::Text(format!(
            "\r\n--{boundary}\r\nContent-Disposition: attachment; filename={}\r\nContent-Type: {kind}\r\n\
             Content-Length: {length}\r\n\r\n",
            quoted(name)
        )));
        pieces.push(Piece::Content { note, attachment, offset: 0 });
    }
    pieces.push(Piece::Text(format!("\r\n--{boundary}--")));
    pieces
}
