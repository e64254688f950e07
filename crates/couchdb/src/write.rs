//! Writing: documents that clients send, with revisions of their own or with those of the server.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use base::{Timestamp, Unid, Unpaced, hex};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use notes::edit_history::with_editor;
use notes::item::blobs_of;
use notes::local_document::ID_ITEM;
use notes::losers::CONFLICT_REVISIONS_ITEM;
use notes::replica::{ReceiveOutcome, ReplicaNote};
use notes::revision_record::RevisionRecord;
use notes::{Access, Databases, Item, ItemFlags, ItemValue, NoteClass, Writer, level};
use revision::{Ancestor, Ancestors, Cut, DeletionRule, ItemChanges, Revision, RevisionId};
use serde_json::value::RawValue;
use store::Ticket;
use store::blob::PreparedBlob;

use crate::compression::AttachmentDecompressor;
use crate::document::{Members, bounded_list, items_of};
use crate::document_id::{is_derived, unid_of};
use crate::error::{Error, Result};
use crate::leaves::{Leaves, time_after};
use crate::limits::{DOCUMENT_BYTES_MAX, DOCUMENTS_PER_REQUEST_MAX, DOCUMENTS_PER_TRANSACTION, TRANSACTION_BYTES};
use crate::multipart::{BodyPart, parts_of};
use crate::read::{PARENT_MEMBER, items_of_leaf, stored_attachments};

/// Number of revisions of a client's path that are kept, with the version's own.
const PATH_LENGTH_MAX: usize = 65;

/// Name of the items that attachments become.
const FILE_ITEM: &str = "$FILE";

/// Names of items that only the server sets.
const SERVER_ITEMS: [&str; 3] = [ID_ITEM, CONFLICT_REVISIONS_ITEM, "$Conflict"];

/// How revisions are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revisions {
    /// The server gives them, and a document must have the revision that the client names (`new_edits: true`).
    OfServer,
    /// The client gives them, and versions that do not know each other are a conflict (`new_edits: false`).
    OfClient,
}

/// A document that a client has sent.
#[derive(Debug, Clone)]
pub struct SentDocument {
    /// The `_id`.
    pub id: String,
    unid: Unid,
    /// The path of its revisions, its own first. With revisions of the server: that which the client has read.
    path: Vec<Revision>,
    is_deletion: bool,
    items: Vec<Item>,
    parent: Option<Unid>,
    attachments: Vec<SentAttachment>,
    /// Size of the JSON text.
    size: usize,
}

#[derive(Debug, Clone)]
struct SentAttachment {
    name: String,
    media_type: Option<String>,
    /// `true` if the content is sent compressed with gzip. It is stored as it was before.
    is_compressed: bool,
    content: SentContent,
}

#[derive(Debug, Clone)]
enum SentContent {
    Inline(Vec<u8>),
    /// The content is in a part of the body behind the document, which has this length if one is named.
    Follows(Option<u64>),
    /// The content of an attachment of this name that the server has, with this digest if one is named.
    Stub(Option<String>),
}

/// A document that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedDocument {
    /// The `_id`.
    pub id: String,
    /// The revision that the version has.
    pub revision: Revision,
}

/// Range of the random microseconds in the time of an arrival that is not that of the clock.
const ARRIVAL_SPREAD_US: u64 = 1_000_000;

impl SentDocument {
    /// Parses a document. `id` is the `_id` if the path of the request names it.
    pub fn parse(
        text: &str,
        id: Option<&str>,
        generated: impl FnOnce() -> String,
        decompressor: &mut AttachmentDecompressor<'_>,
    ) -> Result<Self> {
        let document = Self::parse_first(text, id, generated, decompressor)?;
        match document.attachments.iter().find(|attachment| matches!(attachment.content, SentContent::Follows(_))) {
            Some(SentAttachment { name, .. }) => {
                Err(Error::BadRequest(format!("the content of the attachment {name} does not follow in the body")))
            }
            None => Ok(document),
        }
    }

    /// Parses a body in several parts: a document, and contents of its attachments. Contents that their parts or the
    /// document say to be compressed are decompressed.
    pub fn parse_parts(
        body: &[u8],
        boundary: &str,
        id: &str,
        decompressor: &mut AttachmentDecompressor<'_>,
    ) -> Result<Self> {
        let parts = parts_of(body, boundary)?;
        let (first, contents) =
            parts.split_first().ok_or_else(|| Error::BadRequest("the body has no document".to_owned()))?;
        let text =
            std::str::from_utf8(first.content).map_err(|_| Error::BadRequest("invalid UTF-8 JSON".to_owned()))?;
        let mut document = Self::parse_first(text, Some(id), String::new, decompressor)?;
        let mut following: Vec<&mut SentAttachment> = document
            .attachments
            .iter_mut()
            .filter(|attachment| matches!(attachment.content, SentContent::Follows(_)))
            .collect();
        if following.len() != contents.len() {
            return Err(Error::BadRequest(format!(
                "{} attachments follow by the document, and {} in the body",
                following.len(),
                contents.len()
            )));
        }
        for (part, place) in contents.iter().zip(places_of(contents, &following)?) {
            let attachment = &mut following[place];
            check_length(attachment, part.content)?;
            attachment.content = SentContent::Inline(match attachment.is_compressed {
                true => decompressor.decompress(part.content)?,
                false => part.content.to_vec(),
            });
        }
        document.size = body.len();
        Ok(document)
    }

    fn parse_first(
        text: &str,
        id: Option<&str>,
        generated: impl FnOnce() -> String,
        decompressor: &mut AttachmentDecompressor<'_>,
    ) -> Result<Self> {
        if text.len() > DOCUMENT_BYTES_MAX {
            return Err(Error::TooLarge(format!("a document can have at most {DOCUMENT_BYTES_MAX} bytes")));
        }
        let members = Members::parse(text)?;
        let sent: Option<String> = members.read("_id")?;
        let id = match (id, sent) {
            (Some(id), Some(sent)) if id != sent => {
                return Err(Error::BadRequest("the _id of the document is not that of the address".to_owned()));
            }
            (Some(id), _) => id.to_owned(),
            (None, Some(sent)) => sent,
            (None, None) => generated(),
        };
        let unid = unid_of(&id)?;
        check_members(&members)?;
        let is_deletion = members.read("_deleted")?.unwrap_or(false);
        let mut items = if is_deletion { Vec::new() } else { items_of(&members)? };
        let parent = parent_of(&items)?;
        items.retain(|item| !item.is_named(PARENT_MEMBER) && !SERVER_ITEMS.iter().any(|name| item.is_named(name)));
        if is_derived(unid) {
            items.push(Item::text(ID_ITEM, id.as_str()));
        }
        let attachments = if is_deletion { Vec::new() } else { read_attachments(&members, decompressor)? };
        let path = path_of(&members)?;
        Ok(Self { id, unid, path, is_deletion, items, parent, attachments, size: text.len() })
    }

    /// Creates the deletion of a document.
    pub fn deletion(id: &str, revision: Option<Revision>) -> Result<Self> {
        Ok(Self {
            id: id.to_owned(),
            unid: unid_of(id)?,
            path: revision.into_iter().collect(),
            is_deletion: true,
            items: Vec::new(),
            parent: None,
            attachments: Vec::new(),
            size: 0,
        })
    }

    /// Sets the revision that the client has read, if the document does not name one.
    pub fn set_read_revision(&mut self, revision: Revision) -> Result<()> {
        match self.path.first() {
            None => self.path.push(revision),
            Some(named) if *named == revision => {}
            Some(_) => {
                return Err(Error::BadRequest("the document and the address name different revisions".to_owned()));
            }
        }
        Ok(())
    }

    /// Returns a document with another attachment, or without one.
    pub fn with_attachment(mut self, name: &str, content: Option<(String, Vec<u8>)>) -> Self {
        self.attachments.retain(|attachment| attachment.name != name);
        self.attachments.extend(content.map(|(media_type, content)| SentAttachment {
            name: name.to_owned(),
            media_type: Some(media_type),
            is_compressed: false,
            content: SentContent::Inline(content),
        }));
        self
    }
}

/// Returns the place of the attachment to which each of the contents of a body belongs: under its name, and those
/// without a name in the order of the document. If no part has a name of an attachment, all go by the order; otherwise
/// a name that no attachment has is an error, because contents would go to other attachments.
fn places_of(contents: &[BodyPart<'_>], following: &[&mut SentAttachment]) -> Result<Vec<usize>> {
    let names: Vec<Option<String>> = contents.iter().map(BodyPart::file_name).collect();
    let place_of = |name: &String| following.iter().position(|attachment| attachment.name == *name);
    let mut places: Vec<Option<usize>> = names.iter().map(|name| name.as_ref().and_then(place_of)).collect();
    let mut taken: HashSet<usize> = HashSet::new();
    for (name, place) in names.iter().zip(&places) {
        let Some(name) = name else { continue };
        if place.is_some_and(|place| !taken.insert(place)) {
            return Err(Error::BadRequest(format!("the body has two contents of the attachment {name}")));
        }
    }
    let unknown = names.iter().zip(&places).find_map(|(name, place)| name.as_ref().filter(|_| place.is_none()));
    if let Some(name) = unknown.filter(|_| !taken.is_empty()) {
        return Err(Error::BadRequest(format!("the document has no attachment {name} whose content follows")));
    }
    let mut free = (0..following.len()).filter(|place| !taken.contains(place));
    for place in &mut places {
        *place = place.or_else(|| free.next());
    }
    Ok(places.into_iter().flatten().collect())
}

/// Checks that the content of an attachment has the length that the document names.
fn check_length(attachment: &SentAttachment, content: &[u8]) -> Result<()> {
    match attachment.content {
        SentContent::Follows(Some(length)) if length != content.len() as u64 => Err(Error::BadRequest(format!(
            "the content of the attachment {} has {} bytes, and not {length}",
            attachment.name,
            content.len()
        ))),
        _ => Ok(()),
    }
}

/// Checks that all members that the protocol reserves are known.
fn check_members(members: &Members<'_>) -> Result<()> {
    const KNOWN: [&str; 10] = [
        "_id",
        "_rev",
        "_deleted",
        "_attachments",
        "_revisions",
        "_conflicts",
        "_deleted_conflicts",
        "_local_seq",
        "_revs_info",
        "_removed",
    ];
    match members.0.iter().find(|(name, _)| name.starts_with('_') && !KNOWN.contains(&name.as_ref())) {
        Some((name, _)) => Err(Error::BadRequest(format!("Bad special document member: {name}"))),
        None => Ok(()),
    }
}

/// Returns the document to which a document is a response.
fn parent_of(items: &[Item]) -> Result<Option<Unid>> {
    let Some(item) = items.iter().find(|item| item.is_named(PARENT_MEMBER)) else { return Ok(None) };
    let text = item.value.text().unwrap_or_default();
    let parent = hex::parse_array(text).map(Unid).map_or_else(|| unid_of(text), Ok);
    parent.map(Some).map_err(|_| Error::BadRequest(format!("{PARENT_MEMBER} must be the _id of a document")))
}

/// Returns the path of the revisions of a document: `_revisions`, or `_rev` alone.
fn path_of(members: &Members<'_>) -> Result<Vec<Revision>> {
    let invalid = || Error::BadRequest("Invalid rev format".to_owned());
    let named: Option<String> = members.read("_rev")?;
    let named = named.map(|text| text.parse::<Revision>().map_err(|_| invalid())).transpose()?;
    let Some(revisions) = members.read::<Members<'_>>("_revisions")? else { return Ok(named.into_iter().collect()) };
    let start: u32 = revisions.read("start")?.ok_or_else(invalid)?;
    let ids = revisions.get("ids").ok_or_else(invalid)?;
    let ids: Vec<String> = bounded_list(ids.get(), DOCUMENTS_PER_REQUEST_MAX, "revisions")?;
    if ids.len() > start as usize {
        return Err(invalid());
    }
    let path: Result<Vec<Revision>> = (1..=start)
        .rev()
        .zip(ids.iter().take(PATH_LENGTH_MAX))
        .map(|(sequence, id)| format!("{sequence}-{id}").parse().map_err(|_| invalid()))
        .collect();
    let path = path?;
    match (named, path.first()) {
        (Some(named), Some(first)) if named != *first => Err(invalid()),
        (_, None) => Err(invalid()),
        _ => Ok(path),
    }
}

fn read_attachments(
    members: &Members<'_>,
    decompressor: &mut AttachmentDecompressor<'_>,
) -> Result<Vec<SentAttachment>> {
    let mut read = Vec::new();
    let Some(sent) = members.read::<Members<'_>>("_attachments")? else { return Ok(read) };
    for (name, value) in &sent.0 {
        let attachment = Members::parse(value.get())?;
        if name.is_empty() || name.starts_with('_') {
            return Err(Error::BadRequest("the name of an attachment is empty or begins with _".to_owned()));
        }
        let is_compressed = match attachment.read::<String>("encoding")?.as_deref() {
            None | Some("identity") => false,
            Some("gzip") => true,
            Some(other) => {
                return Err(Error::BadRequest(format!("the attachment {name} has the unknown encoding {other}")));
            }
        };
        let content = match attachment.read::<String>("data")? {
            Some(data) => {
                let invalid = |_| Error::BadRequest(format!("the attachment {name} is not valid base64"));
                let decoded = STANDARD.decode(data.as_bytes()).map_err(invalid)?;
                SentContent::Inline(if is_compressed { decompressor.decompress(&decoded)? } else { decoded })
            }
            None if attachment.read::<bool>("stub")? == Some(true) => SentContent::Stub(attachment.read("digest")?),
            None if attachment.read::<bool>("follows")? == Some(true) => {
                // The length of a compressed content is that of the decompressed one.
                SentContent::Follows(attachment.read(if is_compressed { "encoded_length" } else { "length" })?)
            }
            None => {
                return Err(Error::BadRequest(format!("the attachment {name} has neither data, stub nor follows")));
            }
        };
        let media_type = attachment.read("content_type")?;
        read.push(SentAttachment { name: name.to_string(), media_type, is_compressed, content });
    }
    Ok(read)
}

/// The database that is written, and the caller.
pub struct Target<'t> {
    /// The databases of the server.
    pub databases: &'t Databases,
    /// The caller's right to read.
    pub reader: &'t Access<level::Reader>,
}

/// A document that is ready to be taken over.
struct ReadyDocument {
    note: ReplicaNote,
    contents: Vec<Arc<PreparedBlob<'static>>>,
    /// The notes to whose attachments the document refers.
    sources: Vec<base::NoteId>,
    /// With revisions of the server: the stored revision from which the document was made.
    expected: Option<Option<Revision>>,
    /// `true` if a leaf is the version or descends from it.
    is_known: bool,
}

impl Target<'_> {
    /// Takes documents over, several in one transaction. Returns the outcome for each, and the ticket that makes all of
    /// them durable.
    pub fn put(&self, documents: Vec<SentDocument>, revisions: Revisions) -> (Vec<Result<SavedDocument>>, Ticket) {
        let mut outcomes = Vec::with_capacity(documents.len());
        let mut ticket = Ticket::NONE;
        let mut rest = documents.into_iter().peekable();
        while rest.peek().is_some() {
            let mut group = Vec::new();
            let mut bytes = 0;
            while group.len() < DOCUMENTS_PER_TRANSACTION && bytes < TRANSACTION_BYTES {
                let Some(document) = rest.next() else { break };
                bytes += document.size;
                group.push(document);
            }
            outcomes.extend(self.put_group(&group, revisions, &mut ticket));
        }
        (outcomes, ticket)
    }

    /// Takes documents over in one transaction or, if one of them is refused, each in its own.
    fn put_group(
        &self,
        group: &[SentDocument],
        revisions: Revisions,
        ticket: &mut Ticket,
    ) -> Vec<Result<SavedDocument>> {
        let mut saved = Vec::with_capacity(group.len());
        let together = self.put_together(group, revisions, ticket, &mut saved);
        let rest = if together.is_ok() { &[][..] } else { &group[saved.len()..] };
        let mut outcomes: Vec<_> = saved.into_iter().map(Ok).collect();
        for document in rest {
            let mut alone = Vec::with_capacity(1);
            let outcome = self.put_together(std::slice::from_ref(document), revisions, ticket, &mut alone);
            outcomes.push(outcome.and_then(|()| alone.pop().ok_or(Error::Unavailable)));
        }
        outcomes
    }

    /// Saves documents, in one transaction unless some of them occur several times. `saved` gets those that are saved,
    /// also if a later one fails.
    fn put_together(
        &self,
        documents: &[SentDocument],
        revisions: Revisions,
        ticket: &mut Ticket,
        saved: &mut Vec<SavedDocument>,
    ) -> Result<()> {
        let depositor = self.reader.downgrade();
        let accesses = [&depositor];
        let mut rest = documents;
        let mut is_repeated = false;
        while !rest.is_empty() {
            let ready: Vec<ReadyDocument> = {
                let reading = self.reader.read()?;
                // A document that occurs again is made ready when the version before it is stored.
                let mut unids = HashSet::new();
                let fresh = rest.iter().take_while(|document| unids.insert(document.unid));
                fresh.map(|document| self.make_ready(&reading, document, revisions)).collect::<Result<_>>()?
            };
            let mut transaction = self.databases.transaction(&accesses)?;
            let mut writer = transaction.writer(0);
            let mut written = Vec::with_capacity(ready.len());
            for (document, sent) in ready.iter().zip(rest) {
                if !document.is_known && receive(&mut writer, document)? == ReceiveOutcome::Later {
                    break;
                }
                written.push(SavedDocument { id: sent.id.clone(), revision: document.note.revision });
            }
            check_quota(&writer, &ready)?;
            *ticket = (*ticket).max(transaction.commit()?);
            // The first transaction may have written only the stub of a document whose deletion was purged.
            if written.is_empty() && is_repeated {
                return Err(Error::Unavailable);
            }
            is_repeated = written.is_empty();
            rest = &rest[written.len()..];
            saved.append(&mut written);
        }
        Ok(())
    }

    /// Makes a version of a document: finds out its revisions, and prepares its attachments.
    fn make_ready(
        &self,
        reading: &notes::DatabaseSnapshot<'_>,
        document: &SentDocument,
        revisions: Revisions,
    ) -> Result<ReadyDocument> {
        let leaves = Leaves::read(reading, document.unid)?;
        let header = leaves.as_ref().map(|leaves| &leaves.header);
        let stored = header.map(notes::NoteHeader::revision);
        let now = self.databases.clock().now();
        let mut time = time_after(header.map(|header| header.sequence_time), now);
        if revisions == Revisions::OfClient && time > now {
            // The parent is of a clock that is ahead. Another server that takes this revision must not state this time.
            time = Timestamp(time.0.saturating_add_unsigned(self.databases.random().below(ARRIVAL_SPREAD_US)));
        }
        let (mut items, contents, sources) = self.complete(reading, document, leaves.as_ref())?;
        if let Some(name) = reading.grant().name() {
            items = with_editor(items, name);
        }
        let (path, expected) = match revisions {
            Revisions::OfClient if document.path.is_empty() => {
                return Err(Error::BadRequest("a document with a revision of the client needs _rev".to_owned()));
            }
            Revisions::OfClient => (document.path.clone(), None),
            Revisions::OfServer => (self.next_path(document, leaves.as_ref(), time)?, Some(stored)),
        };
        let revision = path[0];
        let record = match (expected, path.get(1)) {
            // The version is made here, from one that is stored here: so its items can be compared.
            (Some(Some(stored)), Some(parent)) if stored == *parent => {
                let header = header.ok_or(Error::NotFound("missing"))?;
                let before = leaves.as_ref().and_then(|leaves| leaves.leaf(stored));
                let before = before.map(|leaf| items_of_leaf(reading, leaf)).transpose()?.flatten();
                let changed = changed_names(&before.unwrap_or_default(), &items);
                reading.revisions(header.note)?.unwrap_or_default().after_save(stored, revision, &changed)
            }
            _ => record_of_client(&path, &items),
        };
        let created = header.map_or(time, |header| header.created);
        let id = || items.iter().find(|item| item.is_named(ID_ITEM))?.value.text().map(str::to_owned);
        let client_id = document.is_deletion.then(id).flatten();
        let note = ReplicaNote {
            unid: document.unid,
            class: header.map_or(NoteClass::DOCUMENT, |header| header.class),
            is_conflict: header.is_some_and(|header| header.flags.contains(notes::NoteFlags::CONFLICT)),
            revision,
            sequence_time: time,
            record,
            created,
            received: header.map_or(created, |header| header.received),
            size: None,
            crlf_growth: 0,
            parent: document.parent,
            blobs: blobs_of(&items),
            items: (!document.is_deletion).then_some(items),
            state: Vec::new(),
            client_id,
            is_truncated: false,
        };
        let is_known = leaves.is_some_and(|leaves| leaves.knows(revision));
        Ok(ReadyDocument { note, contents, sources, expected, is_known })
    }

    /// Returns the path of a version that the server makes. The client must have read a leaf, or the document must be
    /// new or deleted.
    fn next_path(&self, document: &SentDocument, leaves: Option<&Leaves>, time: Timestamp) -> Result<Vec<Revision>> {
        let random = self.databases.random();
        let id = RevisionId::new(time, random.next_u64().to_be_bytes());
        let parent = match (document.path.first(), leaves) {
            (None, None) if document.is_deletion => return Err(Error::NotFound("missing")),
            (None, None) => return Ok(vec![Revision { sequence: 1, id }]),
            (None, Some(leaves)) if leaves.winner().is_deletion() && !document.is_deletion => {
                leaves.leaf(leaves.header.revision()).unwrap_or_else(|| leaves.winner())
            }
            (Some(read), Some(leaves)) => leaves.leaf(*read).ok_or(Error::Conflict)?,
            _ => return Err(Error::Conflict),
        };
        let mut path = vec![parent.revision().child(id)];
        path.extend(parent.path.iter().take(PATH_LENGTH_MAX - 1));
        Ok(path)
    }

    /// Returns the items of a document with its attachments, the contents that are new, and the notes that have the
    /// others.
    fn complete(
        &self,
        reading: &notes::DatabaseSnapshot<'_>,
        document: &SentDocument,
        leaves: Option<&Leaves>,
    ) -> Result<CompleteDocument> {
        let mut items = document.items.clone();
        let mut contents = Vec::new();
        let mut sources = Vec::new();
        for attachment in &document.attachments {
            let (media_type, length, blob) = match &attachment.content {
                SentContent::Inline(content) => {
                    let prepared = self.databases.blob_prepare(content.clone(), &Unpaced)?.into_owned();
                    let blob = prepared.id();
                    contents.push(Arc::new(prepared));
                    (None, content.len() as u64, blob)
                }
                SentContent::Follows(_) => {
                    return Err(Error::BadRequest(format!("the attachment {} has no content", attachment.name)));
                }
                SentContent::Stub(digest) => {
                    let missing = || {
                        let id = &document.id;
                        let name = &attachment.name;
                        Error::MissingStub(format!("id {id}: the server has no attachment {name} with this digest"))
                    };
                    let mut found = None;
                    for leaf in leaves.iter().flat_map(|leaves| &leaves.list) {
                        let of_leaf = items_of_leaf(reading, leaf)?.unwrap_or_default();
                        let is_it = |known: &crate::read::Attachment| {
                            known.name == attachment.name
                                && digest.as_ref().is_none_or(|digest| *digest == known.digest())
                        };
                        let Some(note) = leaf.note else { continue };
                        found = stored_attachments(reading, note, &of_leaf)?.into_iter().find(is_it);
                        if found.is_some() {
                            sources.extend(leaf.note);
                            break;
                        }
                    }
                    let known = found.ok_or_else(missing)?;
                    (Some(known.media_type), known.length, known.blob)
                }
            };
            let media_type = attachment.media_type.clone().or(media_type);
            let media_type = media_type.unwrap_or_else(|| "application/octet-stream".to_owned());
            let file_name = attachment.name.clone();
            let value = ItemValue::Object { file_name, media_type, length, blob };
            items.push(Item { name: FILE_ITEM.to_owned(), flags: ItemFlags::SUMMARY, value });
        }
        Ok((items, contents, sources))
    }
}

/// Items, the contents of new attachments, and the notes that have the other ones.
type CompleteDocument = (Vec<Item>, Vec<Arc<PreparedBlob<'static>>>, Vec<base::NoteId>);

fn receive(writer: &mut Writer<'_, '_>, document: &ReadyDocument) -> Result<ReceiveOutcome> {
    if let Some(expected) = document.expected
        && writer.stored_revision(document.note.unid)? != expected
    {
        return Err(Error::Conflict);
    }
    document.contents.iter().for_each(|content| writer.blob_offer(Arc::clone(content)));
    for source in &document.sources {
        // Reading a note permits references to its attachments.
        writer.note(*source)?;
    }
    writer.note_receive_from_person(&document.note, DeletionRule::EditsCount).map_err(|error| match error {
        // A client goes on after a refusal. PouchDB would end its push at any other error, each time.
        notes::Error::NotFound { .. } => Error::Forbidden("you may not change this document".to_owned()),
        error => error.into(),
    })
}

/// Fails if documents exceed the quota of the database. Deletions are always possible.
fn check_quota(writer: &Writer<'_, '_>, documents: &[ReadyDocument]) -> Result<()> {
    let adds = documents.iter().any(|document| document.note.items.is_some());
    match writer.database().record().options.quota_bytes {
        Some(quota) if adds && writer.bytes_used() > quota => {
            Err(Error::Forbidden("the database has reached its quota".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Returns the record of a version that a client made.
///
/// Which items it has changed is not known everywhere alike, so all of them count as changed by it, and what it has
/// removed as unknown. Therefore it is never merged on a guess: another version that it does not know is a conflict,
/// unless the items are equal.
fn record_of_client(path: &[Revision], items: &[Item]) -> RevisionRecord {
    let ancestors = path.iter().skip(1).map(|revision| Ancestor { revision: *revision, is_on_main_path: true });
    let ancestors: Vec<Ancestor> = ancestors.collect();
    if ancestors.is_empty() {
        return RevisionRecord::default();
    }
    let ancestors = Ancestors::from_list(ancestors, Cut::Branches).unwrap_or_default();
    let names: Vec<String> = items.iter().map(|item| item.name.to_ascii_lowercase()).collect();
    let changes = ItemChanges::default().with_changed(&names, path[0], &ancestors);
    RevisionRecord { ancestors, changes }
}

/// Returns the names, in lower case, of the items that differ between two versions.
fn changed_names(before: &[Item], after: &[Item]) -> BTreeSet<String> {
    let by_name = |items: &'_ [Item]| {
        let mut found: BTreeMap<String, Vec<Item>> = BTreeMap::new();
        for item in items {
            found.entry(item.name.to_ascii_lowercase()).or_default().push(item.clone());
        }
        found
    };
    let before = by_name(before);
    let after = by_name(after);
    before.keys().chain(after.keys()).filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}

/// Parses a list of documents.
pub fn parse_documents(
    documents: &[&RawValue],
    mut generated: impl FnMut() -> String,
    decompressor: &mut AttachmentDecompressor<'_>,
) -> Vec<std::result::Result<SentDocument, (String, Error)>> {
    let mut parse = |document: &&RawValue| {
        SentDocument::parse(document.get(), None, &mut generated, decompressor).map_err(|error| {
            let id = Members::parse(document.get()).ok().and_then(|members| members.read("_id").ok().flatten());
            (id.unwrap_or_default(), error)
        })
    };
    documents.iter().map(&mut parse).collect()
}
