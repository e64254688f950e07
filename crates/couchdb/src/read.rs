//! Reading: documents, their revisions and their attachments, as JSON.

use std::collections::BTreeMap;

use base::{NoteId, hex};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use notes::local_document::ID_ITEM;
use notes::losers::CONFLICT_REVISIONS_ITEM;
use notes::{DatabaseSnapshot, Item, ItemValue, NoteHeader};
use revision::Revision;
use serde_json::json;
use store::blob::BlobId;
use store::limits::BLOB_BYTES_MAX;

use crate::document::{append_fields, push_text};
use crate::document_id::{id_of, is_derived, unid_of};
use crate::error::{Error, Result};
use crate::leaves::{Leaf, Leaves};
use crate::limits::{DOCUMENT_BYTES_MAX, REVISIONS_BYTES_MAX};

/// The member of a document that names the document to which it is a response.
pub const PARENT_MEMBER: &str = "$REF";

/// The form in which a document names its attachments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttachmentForm {
    /// Without their contents (`stub`).
    #[default]
    Stubs,
    /// With their contents (`data`).
    Inline,
    /// With contents in other parts of the answer (`follows`).
    Follow,
}

/// What a document is sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DocumentOptions {
    /// The path of its revisions (`_revisions`).
    pub revisions: bool,
    /// The path of its revisions with their state (`_revs_info`).
    pub revisions_info: bool,
    /// The form of its attachments.
    pub attachments: AttachmentForm,
    /// The other leaves that are no deletions (`_conflicts`).
    pub conflicts: bool,
}

/// An attachment of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The name, different from those of the document's other attachments.
    pub name: String,
    /// The media type.
    pub media_type: String,
    /// Length in bytes.
    pub length: u64,
    /// The content.
    pub blob: BlobId,
}

impl Attachment {
    /// Returns the digest by which clients recognise a content.
    pub fn digest(&self) -> String {
        format!("blake3-{}", STANDARD.encode(self.blob.0))
    }
}

/// Returns the attachments among items. Names that occur again get a number.
pub fn attachments_of(items: &[Item]) -> Vec<Attachment> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for item in items {
        let ItemValue::Object { file_name, media_type, length, blob } = &item.value else { continue };
        let count = seen.entry(file_name).or_default();
        *count += 1;
        let name = if *count == 1 { file_name.clone() } else { format!("{file_name} ({count})") };
        found.push(Attachment { name, media_type: media_type.clone(), length: *length, blob: *blob });
    }
    found
}

/// Returns the attachments among the items of a note, with the lengths of their stored contents: those in the items
/// come from clients and other servers, and may be anything. Attachments whose contents the note does not have are left
/// out. Those whose contents the store has lost stay, and only reading them fails: without them, a client would delete
/// them everywhere when it saves the document again.
pub fn stored_attachments(reading: &DatabaseSnapshot<'_>, note: NoteId, items: &[Item]) -> Result<Vec<Attachment>> {
    let mut found = Vec::new();
    for attachment in attachments_of(items) {
        let length = match reading.blob_length(note, &attachment.blob) {
            Err(notes::Error::NotFound { .. }) => continue,
            Err(error) if error.is_damage() => attachment.length.min(BLOB_BYTES_MAX),
            length => length?,
        };
        found.push(Attachment { length, ..attachment });
    }
    Ok(found)
}

/// Returns the `_id` of a document.
pub fn document_id(reading: &DatabaseSnapshot<'_>, header: &NoteHeader) -> Result<String> {
    let items = if is_derived(header.unid) { reading.kept_items(header.note)? } else { Vec::new() };
    Ok(id_of(header.unid, &items))
}

/// Returns the leaves of the document with an `_id`.
pub fn leaves_of(reading: &DatabaseSnapshot<'_>, id: &str) -> Result<Option<Leaves>> {
    Leaves::read(reading, unid_of(id)?)
}

/// Returns the leaf with a revision, or the winner without one. Fails if there is none, or if the winner is a deletion.
pub fn find_leaf(leaves: Option<&Leaves>, revision: Option<Revision>) -> Result<&Leaf> {
    let leaves = leaves.ok_or(Error::NotFound("missing"))?;
    match revision {
        Some(revision) => leaves.leaf(revision).ok_or(Error::NotFound("missing")),
        None if leaves.winner().is_deletion() => Err(Error::NotFound("deleted")),
        None => Ok(leaves.winner()),
    }
}

/// Returns the items of a leaf, or `None` for a deletion. Fails if they are larger than a document may be.
pub fn items_of_leaf(reading: &DatabaseSnapshot<'_>, leaf: &Leaf) -> Result<Option<Vec<Item>>> {
    let Some(note) = leaf.note else { return Ok(None) };
    let size = reading.header(note)?.map_or(0, |header| header.size);
    if size > DOCUMENT_BYTES_MAX as u64 {
        return Err(Error::TooLarge(format!(
            "the document has {size} bytes; at most {DOCUMENT_BYTES_MAX} can be sent"
        )));
    }
    let found = reading.note(note)?.ok_or(Error::NotFound("missing"))?;
    let mut items = found.items;
    items.retain(|item| !item.is_named(ID_ITEM) && !item.is_named(CONFLICT_REVISIONS_ITEM));
    Ok(Some(items))
}

/// Returns a version of a document as JSON.
pub fn document_json(
    reading: &DatabaseSnapshot<'_>,
    (id, leaves): (&str, &Leaves),
    leaf: &Leaf,
    options: DocumentOptions,
) -> Result<String> {
    let mut out = String::from("{\"_id\":");
    push_text(&mut out, id);
    out.push_str(",\"_rev\":");
    push_text(&mut out, &leaf.revision().to_string());
    match items_of_leaf(reading, leaf)? {
        None => out.push_str(",\"_deleted\":true"),
        Some(items) => {
            append_fields(&mut out, &items);
            if let Some(parent) = leaves.header.parent {
                out.push_str(&format!(",\"{PARENT_MEMBER}\":\"{}\"", hex::lower(&parent.0)));
            }
            append_attachments(&mut out, reading, (leaf, &items), options.attachments)?;
        }
    }
    if options.revisions {
        out.push_str(",\"_revisions\":");
        out.push_str(&revisions_json(leaf));
    }
    if options.revisions_info {
        let state = |revision: &Revision| match (*revision == leaf.revision(), leaf.is_deletion()) {
            (true, true) => "deleted",
            (true, false) => "available",
            (false, _) => "missing",
        };
        let infos: Vec<_> = leaf
            .path
            .iter()
            .map(|revision| json!({ "rev": revision.to_string(), "status": state(revision) }))
            .collect();
        out.push_str(&format!(",\"_revs_info\":{}", json!(infos)));
    }
    if options.conflicts {
        let others = leaves.list.iter().filter(|other| !other.is_deletion() && other.revision() != leaf.revision());
        let others: Vec<String> = others.map(|other| other.revision().to_string()).collect();
        if !others.is_empty() {
            out.push_str(&format!(",\"_conflicts\":{}", json!(others)));
        }
    }
    out.push('}');
    Ok(out)
}

fn revisions_json(leaf: &Leaf) -> String {
    let ids: Vec<String> = leaf.path.iter().map(|revision| revision.id.to_string()).collect();
    json!({ "start": leaf.revision().sequence, "ids": ids }).to_string()
}

fn append_attachments(
    out: &mut String,
    reading: &DatabaseSnapshot<'_>,
    (leaf, items): (&Leaf, &[Item]),
    form: AttachmentForm,
) -> Result<()> {
    let Some(note) = leaf.note else { return Ok(()) };
    let attachments = stored_attachments(reading, note, items)?;
    if attachments.is_empty() {
        return Ok(());
    }
    let total = attachments.iter().map(|attachment| attachment.length).fold(0, u64::saturating_add);
    if form == AttachmentForm::Inline && total > DOCUMENT_BYTES_MAX as u64 {
        return Err(Error::TooLarge(format!(
            "the attachments have {total} bytes; ask for them one by one, or for multipart/related, instead of inline"
        )));
    }
    for (index, attachment) in attachments.iter().enumerate() {
        out.push_str(if index == 0 { ",\"_attachments\":{" } else { "," });
        push_text(out, &attachment.name);
        let kind = json!(attachment.media_type);
        let digest = json!(attachment.digest());
        let start = leaf.revision().sequence;
        out.push_str(&format!(":{{\"content_type\":{kind},\"revpos\":{start},\"digest\":{digest},"));
        match form {
            AttachmentForm::Inline => {
                let content = reading.blob(note, &attachment.blob)?;
                out.push_str(&format!("\"data\":\"{}\"}}", STANDARD.encode(content)));
            }
            AttachmentForm::Stubs => out.push_str(&format!("\"length\":{},\"stub\":true}}", attachment.length)),
            AttachmentForm::Follow => out.push_str(&format!("\"length\":{},\"follows\":true}}", attachment.length)),
        }
    }
    out.push('}');
    Ok(())
}

/// A requested revision of a document, as `_bulk_get` and `open_revs` name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedRevision {
    /// The `_id`.
    pub id: String,
    /// The revision as the client wrote it, or `None` for the winner.
    pub revision: Option<String>,
}

/// Returns the leaves that answer a requested revision, as [`open_revisions`] does.
pub fn wanted_leaves<'l>(leaves: &'l Leaves, revision: Option<&str>, latest: bool) -> Vec<&'l Leaf> {
    match revision.map(str::parse::<Revision>) {
        None => vec![leaves.winner()],
        Some(Err(_)) => Vec::new(),
        Some(Ok(revision)) if latest && leaves.descendants(revision).next().is_some() => {
            leaves.descendants(revision).collect()
        }
        // A version of which a client has read, and that has lost meanwhile without a trace: it wants the leaves.
        Some(Ok(_)) if latest => leaves.list.iter().collect(),
        Some(Ok(revision)) => leaves.leaf(revision).into_iter().collect(),
    }
}

/// Returns the answers to a requested revision: objects with the member `ok`, or with `error` respectively `missing`.
///
/// With `latest`, a revision that has descendants is answered by these, and an unknown one by all leaves. Behind
/// [`REVISIONS_BYTES_MAX`], leaves are answered by errors.
pub fn open_revisions(
    reading: &DatabaseSnapshot<'_>,
    wanted: &WantedRevision,
    (latest, options): (bool, DocumentOptions),
) -> Result<Vec<String>> {
    let leaves = leaves_of(reading, &wanted.id)?;
    let text = wanted.revision.as_deref();
    let missing = |revision: &str| {
        vec![
            json!({
                "error": { "id": wanted.id, "rev": revision, "error": "not_found", "reason": "missing" }
            })
            .to_string(),
        ]
    };
    let Some(leaves) = leaves else { return Ok(missing(text.unwrap_or("undefined"))) };
    let chosen = wanted_leaves(&leaves, text, latest);
    if chosen.is_empty() {
        return Ok(missing(text.unwrap_or("undefined")));
    }
    let mut bytes = 0;
    let mut read = |leaf: &Leaf| {
        if bytes > REVISIONS_BYTES_MAX {
            let text = format!("the leaves have more than {REVISIONS_BYTES_MAX} bytes; ask for one revision at a time");
            return Err(Error::TooLarge(text));
        }
        let document = document_json(reading, (&wanted.id, &leaves), leaf, options)?;
        bytes += document.len();
        Ok(document)
    };
    let answer = |leaf: &Leaf| match read(leaf) {
        Ok(document) => Ok(format!("{{\"ok\":{document}}}")),
        Err(error @ Error::TooLarge(_)) => {
            let (_, word) = error.kind();
            let revision = leaf.revision().to_string();
            let reason = error.to_string();
            let failed = json!({ "id": wanted.id, "rev": revision, "error": word, "reason": reason });
            Ok(json!({ "error": failed }).to_string())
        }
        Err(error) => Err(error),
    };
    chosen.into_iter().map(answer).collect()
}

/// Returns which of the revisions of documents are not known here: the members of the answer to `_revs_diff`.
pub fn missing_revisions(
    reading: &DatabaseSnapshot<'_>,
    revisions_by_id: &BTreeMap<String, Vec<String>>,
) -> Result<serde_json::Map<String, serde_json::Value>> {
    let mut answer = serde_json::Map::new();
    for (id, revisions) in revisions_by_id {
        let leaves = leaves_of(reading, id)?;
        let is_known = |text: &String| {
            let revision = text.parse::<Revision>().ok();
            revision.is_some_and(|revision| leaves.as_ref().is_some_and(|leaves| leaves.knows(revision)))
        };
        let missing: Vec<&String> = revisions.iter().filter(|text| !is_known(text)).collect();
        if missing.is_empty() {
            continue;
        }
        let mut entry = serde_json::Map::new();
        entry.insert("missing".to_owned(), json!(missing));
        let leaves = leaves.iter().flat_map(|leaves| &leaves.list).filter(|leaf| !leaf.is_deletion());
        let possible: Vec<String> = leaves.map(|leaf| leaf.revision().to_string()).collect();
        if !possible.is_empty() {
            entry.insert("possible_ancestors".to_owned(), json!(possible));
        }
        answer.insert(id.clone(), entry.into());
    }
    Ok(answer)
}
