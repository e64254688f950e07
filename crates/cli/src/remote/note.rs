//! `doublet note`: notes on a server.

use std::io::{Read, Write};
use std::path::PathBuf;

use admin::Answer;
use admin::answer::{record, timestamp_json};
use base::hex;
use clap::{Args, Subcommand};
use client::v1::item_selection::Extent;
use client::v1::saved_note::Outcome;
use client::{Client, v1};
use serde_json::{Map, Value, json};

use super::database::key;
use super::folder::NoteSelector;
use super::item::{read, to_json};
use super::note_list::{self, ListPosition};
use super::profile::{self, ProfileCommand};
use super::revision::{ExpectedRevision, revision_text};
use super::{call_error, media_type};
use crate::CommandError;

/// Default number of notes in a list.
const LIST_LIMIT: u32 = 100;

/// Maximum number of deleted notes per call.
const DELETED_PAGE: usize = 1_000;

/// Number of bytes per chunk of an attachment.
const CHUNK_BYTES: usize = 256 << 10;

/// Maximum number of chunks of an attachment that wait for the connection.
const CHUNKS_AHEAD: usize = 4;

/// Note commands.
#[derive(Debug, Clone, Subcommand)]
pub enum NoteCommand {
    /// Lists documents, all or those selected by a formula.
    List {
        /// Path of the database, for example mail/ann.nsf.
        database: String,
        /// Selection formula, for example 'SELECT Form = "Memo"'.
        #[arg(long, value_name = "FORMULA")]
        formula: Option<String>,
        /// Item to show. May be given several times. Default: Form and Subject.
        #[arg(long = "item", value_name = "NAME")]
        items: Vec<String>,
        /// Maximum number of documents shown; 0 for all.
        #[arg(long, value_name = "COUNT", default_value_t = LIST_LIMIT)]
        limit: u32,
        /// Lists only documents after this position, as printed at the end of the previous list. A number is that of a
        /// change of the database; a number with a note, for example 77/12, starts within a change that a list could
        /// not show completely.
        #[arg(long, value_name = "MODSEQ[/NOTE]", default_value = "0")]
        since: ListPosition,
    },
    /// Shows a note with its items.
    Get {
        /// Path of the database in the catalog.
        database: String,
        /// Note number, or UNID of 32 hexadecimal digits.
        note: String,
        /// Item to show. May be given several times. Default: all.
        #[arg(long = "item", value_name = "NAME")]
        items: Vec<String>,
    },
    /// Creates a document.
    Create {
        /// Path of the database in the catalog.
        database: String,
        /// Items, for example Subject=Hello Count:number=5 Due:time=2026-01-31T12:00:00Z. The same name several times
        /// makes a list. Types: text, number, time (a date alone is midnight in UTC), html, and lists of names: names,
        /// readers (only they may read the document), authors (they may change it as authors).
        #[arg(value_name = "NAME[:TYPE]=VALUE", required = true)]
        items: Vec<String>,
        /// UNID of the parent document, for a response.
        #[arg(long, value_name = "UNID")]
        response_to: Option<String>,
    },
    /// Changes items of a note. Other items are not changed.
    Set {
        /// Path of the database in the catalog.
        database: String,
        /// Note number or UNID.
        note: String,
        #[command(flatten)]
        edit: NoteEdit,
        /// Action if the document was saved since the sequence number of --expect: `refuse` fails and changes nothing;
        /// `resolve` follows the item `$ConflictAction` of the document, and saves the change as a response to the
        /// document if there is no such item.
        #[arg(long, value_name = "WHAT", value_enum, default_value_t, requires = "expect")]
        on_conflict: ConflictAction,
        /// Value of an item at the sequence number of --expect, written as in `doublet note create`. May be given
        /// several times. With these values, changes of several users are merged item by item if the document's
        /// `$ConflictAction` requests it.
        #[arg(long, value_name = "NAME[:TYPE]=VALUE", requires = "expect")]
        base: Vec<String>,
    },
    /// Marks documents as read, or as unread.
    Mark {
        /// Path of the database in the catalog.
        database: String,
        #[command(flatten)]
        notes: NoteSelector,
        /// Marks them as unread.
        #[arg(long)]
        unread: bool,
    },
    /// Deletes a note. If the database keeps deleted documents (`doublet db set --keep-deleted`), a document can be
    /// restored during that time.
    Delete {
        /// Path of the database in the catalog.
        database: String,
        /// Note number or UNID.
        note: String,
        /// Fails if the note was saved since it had this revision, as `doublet note get` shows it. Its sequence number
        /// is enough for what was saved last on this server.
        #[arg(long, value_name = "REVISION")]
        expect: Option<ExpectedRevision>,
        /// Fails if the document could not be restored later.
        #[arg(long)]
        soft: bool,
        /// Deletes permanently, including documents that are deleted already.
        #[arg(long, conflicts_with = "soft")]
        permanent: bool,
    },
    /// Lists deleted documents that can be restored.
    Deleted {
        /// Path of the database in the catalog.
        database: String,
        /// Item to show. May be given several times. Default: Form and Subject.
        #[arg(long = "item", value_name = "NAME")]
        items: Vec<String>,
        /// Maximum number of documents shown; 0 for all.
        #[arg(long, value_name = "COUNT", default_value_t = LIST_LIMIT)]
        limit: u32,
    },
    /// Restores a deleted document into the folders it was in.
    Restore {
        /// Path of the database in the catalog.
        database: String,
        /// Note number or UNID, as in the list of `doublet note deleted`.
        note: String,
    },
    /// Shows, changes and deletes profile documents: named settings of a database.
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Attaches a file to a note. It replaces an attachment of the same name.
    Attach {
        /// Path of the database in the catalog.
        database: String,
        /// Note number or UNID.
        note: String,
        /// File to attach.
        file: PathBuf,
        /// Media type of the file. Default: according to the extension of its name.
        #[arg(long, value_name = "TYPE")]
        media_type: Option<String>,
    },
    /// Removes an attachment from a note.
    Detach {
        /// Path of the database in the catalog.
        database: String,
        /// Note number or UNID.
        note: String,
        /// Name of the attachment.
        name: String,
    },
    /// Writes an attachment to a file.
    Fetch {
        /// Path of the database in the catalog.
        database: String,
        /// Note number or UNID.
        note: String,
        /// Name of the attachment.
        name: String,
        /// Output file, which must not exist. Default: the name of the attachment, in the current folder.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

/// Action if the document was saved by another user in the meantime.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub enum ConflictAction {
    #[default]
    Refuse,
    Resolve,
}

impl From<ConflictAction> for v1::update_note_request::OnConflict {
    fn from(wish: ConflictAction) -> Self {
        match wish {
            ConflictAction::Refuse => Self::Refuse,
            ConflictAction::Resolve => Self::Resolve,
        }
    }
}

/// Changes to a document.
#[derive(Debug, Clone, Args)]
pub struct NoteEdit {
    /// Items, written as in `doublet note create`.
    #[arg(value_name = "NAME[:TYPE]=VALUE")]
    items: Vec<String>,
    /// Item to remove. May be given several times.
    #[arg(long, value_name = "NAME")]
    pub(super) remove: Vec<String>,
    /// Fails if the document was saved since it had this revision, as `doublet note get` shows it. Its sequence number
    /// is enough for what was saved last on this server.
    #[arg(long, value_name = "REVISION")]
    pub(super) expect: Option<ExpectedRevision>,
}

impl NoteEdit {
    /// Parses the items. Fails if there is nothing to change.
    pub(super) fn items(&self) -> Result<Vec<v1::Item>, CommandError> {
        if self.items.is_empty() && self.remove.is_empty() {
            return Err(CommandError("nothing to change; specify NAME=VALUE or --remove NAME".to_owned()));
        }
        read(&self.items)
    }
}

/// Runs a command.
pub(super) async fn run(client: Client, command: NoteCommand) -> Result<Answer, CommandError> {
    match command {
        NoteCommand::List { database, formula, items, limit, since } => {
            let items = shown_items(items);
            let request = v1::SearchNotesRequest {
                database: Some(key(database)),
                formula: formula.unwrap_or_default(),
                items: Some(item_selection(Extent::Header, items.clone())),
                ..v1::SearchNotesRequest::default()
            };
            note_list::list(&client, request, &items, since, limit as usize).await
        }
        NoteCommand::Get { database, note, items } => {
            let extent = if items.is_empty() { Extent::All } else { Extent::Header };
            get(&client, database, &note, item_selection(extent, items)).await
        }
        NoteCommand::Create { database, items, response_to } => create(&client, database, &items, response_to).await,
        NoteCommand::Set { database, note, edit, on_conflict, base } => {
            let base = if base.is_empty() { None } else { Some(v1::update_note_request::Base { items: read(&base)? }) };
            let request = v1::UpdateNoteRequest {
                database: Some(key(database)),
                note: Some(parse_note_key(&note)?),
                items: edit.items()?,
                remove: edit.remove,
                replace_all: false,
                expected_sequence: ExpectedRevision::sequence(&edit.expect),
                expected_revision_id: ExpectedRevision::id(&edit.expect),
                on_conflict: v1::update_note_request::OnConflict::from(on_conflict).into(),
                base,
            };
            updated_note(client.notes().update_note(request).await)
        }
        NoteCommand::Mark { database, notes, unread } => mark(&client, database, notes.keys()?, unread).await,
        NoteCommand::Delete { database, note, expect, soft, permanent } => {
            let request = v1::DeleteNoteRequest {
                database: Some(key(database)),
                note: Some(parse_note_key(&note)?),
                expected_sequence: ExpectedRevision::sequence(&expect),
                expected_revision_id: ExpectedRevision::id(&expect),
                soft,
                permanent,
            };
            delete(&client, request).await
        }
        NoteCommand::Deleted { database, items, limit } => {
            list_deleted(&client, database, shown_items(items), limit).await
        }
        NoteCommand::Restore { database, note } => {
            let database = Some(key(database));
            let note = Some(parse_note_key(&note)?);
            saved_note(client.notes().restore_note(v1::RestoreNoteRequest { database, note }).await)
        }
        NoteCommand::Profile(command) => profile::run(&client, command).await,
        NoteCommand::Attach { database, note, file, media_type } => {
            attach(&client, database, &note, file, media_type).await
        }
        NoteCommand::Detach { database, note, name: file_name } => {
            let database = Some(key(database));
            let note = Some(parse_note_key(&note)?);
            let request = v1::DetachFileRequest { database, note, file_name, ..v1::DetachFileRequest::default() };
            saved_note(client.notes().detach_file(request).await)
        }
        NoteCommand::Fetch { database, note, name, to } => fetch(&client, database, &note, name, to).await,
    }
}

async fn get(client: &Client, database: String, note: &str, items: v1::ItemSelection) -> Result<Answer, CommandError> {
    let database = Some(key(database));
    let note = Some(parse_note_key(note)?);
    let request = v1::OpenNoteRequest { database, note, items: Some(items), mark_read: false };
    Ok(note_answer(&client.notes().open_note(request).await.map_err(call_error)?.into_inner()))
}

/// Returns an answer with the header and the items of a note.
pub(super) fn note_answer(found: &v1::Note) -> Answer {
    let header = found.header.clone().unwrap_or_default();
    let mut values: Map<String, Value> = Map::new();
    for item in &found.items {
        let value = to_json(item.value.as_ref());
        match values.get_mut(&item.name) {
            Some(Value::Array(list)) => list.push(value),
            Some(first) => *first = json!([first, value]),
            None => drop(values.insert(item.name.clone(), value)),
        }
    }
    let parent = if header.parent_unid.is_empty() { Value::Null } else { json!(hex::upper(&header.parent_unid)) };
    Answer::record(vec![
        ("note", json!(header.note_id)),
        ("unid", json!(hex::upper(&header.unid))),
        ("sequence", json!(header.sequence)),
        ("revision", json!(revision_text(header.sequence, &header.revision_id))),
        ("modseq", json!(header.modseq)),
        ("created", timestamp_json(Some(base::Timestamp(header.created_us)))),
        ("modified", timestamp_json(Some(base::Timestamp(header.sequence_time_us)))),
        ("modified_here", timestamp_json(Some(base::Timestamp(header.modified_us)))),
        ("response_to", parent),
        ("size_bytes", json!(header.size_bytes)),
        ("unread", json!(header.unread)),
        ("truncated", json!(header.truncated)),
        ("items", Value::Object(values)),
    ])
}

async fn create(
    client: &Client,
    database: String,
    items: &[String],
    response_to: Option<String>,
) -> Result<Answer, CommandError> {
    let parent_unid = response_to.map(|unid| read_unid(&unid)).transpose()?.unwrap_or_default();
    let database = Some(key(database));
    let request = v1::CreateNoteRequest { database, items: read(items)?, parent_unid, ..Default::default() };
    saved_note(client.notes().create_note(request).await)
}

async fn delete(client: &Client, request: v1::DeleteNoteRequest) -> Result<Answer, CommandError> {
    let reply = client.notes().delete_note(request).await.map_err(call_error)?.into_inner();
    match (reply.deleted, reply.soft) {
        (true, true) => Ok(Answer::message("The note was deleted; `doublet note restore` brings it back.")),
        (true, false) => Ok(Answer::message("The note was deleted.")),
        (false, _) => Err(CommandError("there is no such note".to_owned())),
    }
}

/// Marks notes as read or unread. Fails if some of them do not exist, after the others are marked.
async fn mark(
    client: &Client,
    database: String,
    notes: Vec<v1::NoteKey>,
    unread: bool,
) -> Result<Answer, CommandError> {
    let total = notes.len();
    let request = v1::MarkNotesRequest { database: Some(key(database)), notes, unread };
    let reply = client.notes().mark_notes(request).await.map_err(call_error)?.into_inner();
    let found = usize::try_from(reply.found).unwrap_or(usize::MAX);
    let state = if unread { "unread" } else { "read" };
    let noun = if found == 1 { "note" } else { "notes" };
    let answer = Answer::message(format!("Marked {found} {noun} as {state}."));
    let missing = total.saturating_sub(found);
    Ok(Answer { failure: (missing > 0).then(|| format!("{missing} of {total} notes do not exist")), ..answer })
}

async fn list_deleted(
    client: &Client,
    database: String,
    items: Vec<String>,
    limit: u32,
) -> Result<Answer, CommandError> {
    let limit = if limit == 0 { usize::MAX } else { limit as usize };
    let mut rows = Vec::new();
    let mut after = 0;
    loop {
        let request = v1::ListDeletedNotesRequest {
            database: Some(key(database.clone())),
            limit: u32::try_from(limit.saturating_sub(rows.len()).min(DELETED_PAGE)).unwrap_or(u32::MAX),
            after,
            items: Some(item_selection(Extent::Header, items.clone())),
        };
        let page = client.notes().list_deleted_notes(request).await.map_err(call_error)?.into_inner();
        rows.extend(page.notes.iter().map(|found| deleted_row(found, &items)));
        after = page.next;
        if after == 0 || rows.len() >= limit {
            break;
        }
    }
    let answer = Answer::list(rows).with_message(format!("`doublet note restore {database} NOTE` restores a note."));
    Ok(if after == 0 {
        answer
    } else {
        answer.with_message("There may be more deleted notes; a higher --limit shows them.")
    })
}

fn deleted_row(found: &v1::DeletedNote, items: &[String]) -> Value {
    let note = found.note.clone().unwrap_or_default();
    let header = note.header.clone().unwrap_or_default();
    let mut fields = vec![
        ("note", json!(header.note_id)),
        ("unid", json!(hex::upper(&header.unid))),
        ("deleted_at", timestamp_json(Some(base::Timestamp(found.deleted_us)))),
        ("deleted_by", json!(found.deleted_by)),
        ("folders", json!(found.folder_ids.len())),
        ("size_bytes", json!(header.size_bytes)),
    ];
    fields.extend(items.iter().map(|name| (name.as_str(), item_value(&note, name))));
    record(fields)
}

/// Returns the value of an item.
pub(super) fn item_value(note: &v1::Note, name: &str) -> Value {
    let item = note.items.iter().find(|item| item.name.eq_ignore_ascii_case(name));
    to_json(item.and_then(|item| item.value.as_ref()))
}

async fn attach(
    client: &Client,
    database: String,
    note: &str,
    path: PathBuf,
    media_type: Option<String>,
) -> Result<Answer, CommandError> {
    let media_type = media_type.unwrap_or_else(|| media_type::from_path(&path).to_owned());
    let cannot = |error: std::io::Error| CommandError(format!("{}: {error}", path.display()));
    let mut file = std::fs::File::open(&path).map_err(cannot)?;
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let header = v1::attach_file_request::Header {
        database: Some(key(database)),
        note: Some(parse_note_key(note)?),
        expected_sequence: 0,
        expected_revision_id: Vec::new(),
        file_name: file_name.ok_or_else(|| CommandError("the path has no file name; specify a file".to_owned()))?,
        media_type,
        length_bytes: file.metadata().map_err(cannot)?.len(),
    };
    let (pieces, requests) = client::request_channel(CHUNKS_AHEAD);
    let read = async {
        let part = |part| v1::AttachFileRequest { part: Some(part) };
        let mut is_taken = pieces.send(part(v1::attach_file_request::Part::Header(header))).await;
        while is_taken {
            let mut piece = vec![0; CHUNK_BYTES];
            let length = file.read(&mut piece)?;
            if length == 0 {
                break;
            }
            piece.truncate(length);
            is_taken = pieces.send(part(v1::attach_file_request::Part::Content(piece))).await;
        }
        drop(pieces);
        Ok(())
    };
    let mut notes = client.notes();
    let (read, outcome) = tokio::join!(read, notes.attach_file(requests));
    read.map_err(cannot)?;
    saved_note(outcome)
}

async fn fetch(
    client: &Client,
    database: String,
    note: &str,
    file_name: String,
    to: Option<PathBuf>,
) -> Result<Answer, CommandError> {
    let database = Some(key(database));
    let note = Some(parse_note_key(note)?);
    let request = v1::ReadAttachmentRequest { database, note, file_name: file_name.clone(), offset_bytes: 0 };
    let mut chunks = client.notes().read_attachment(request).await.map_err(call_error)?.into_inner();
    let first = chunks.message().await.map_err(call_error)?;
    // The name of an attachment is chosen by its sender. Only its last path component is used, and an existing file is
    // not replaced.
    let own = file_name.rsplit(['/', '\\']).next().unwrap_or_default();
    let path = to.unwrap_or_else(|| PathBuf::from(own));
    let cannot = |error: std::io::Error| CommandError(format!("{}: {error}", path.display()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path).map_err(cannot)?;
    let mut next = first;
    let mut bytes = 0;
    while let Some(chunk) = next {
        file.write_all(&chunk.content).map_err(cannot)?;
        bytes += chunk.content.len();
        next = chunks.message().await.map_err(call_error)?;
    }
    Ok(Answer::record(vec![("file", json!(path.display().to_string())), ("length_bytes", json!(bytes))]))
}

/// Returns an answer with the state of a saved note.
pub(super) fn saved_note(
    outcome: Result<client::Response<v1::SavedNote>, client::Status>,
) -> Result<Answer, CommandError> {
    Ok(saved_answer("note", &outcome.map_err(call_error)?.into_inner()))
}

/// Returns an answer with the state of a saved document and the outcome of a conflict.
fn updated_note(outcome: Result<client::Response<v1::SavedNote>, client::Status>) -> Result<Answer, CommandError> {
    let saved = outcome.map_err(call_error)?.into_inner();
    let (word, message) = match saved.outcome() {
        Outcome::Plain => ("plain", None),
        Outcome::Merged => ("merged", Some("Another user had changed other items; the document now has both changes.")),
        Outcome::Kept => {
            ("kept", Some("Another user had saved the document; this change was saved as a response to it."))
        }
    };
    let mut fields = saved_fields("note", &saved);
    fields.push(("outcome", json!(word)));
    let answer = Answer::record(fields);
    Ok(message.into_iter().fold(answer, Answer::with_message))
}

/// Returns an answer with the state of a saved note. `kind` names the field with its number.
pub(super) fn saved_answer(kind: &str, saved: &v1::SavedNote) -> Answer {
    Answer::record(saved_fields(kind, saved))
}

fn saved_fields<'w>(kind: &'w str, saved: &v1::SavedNote) -> Vec<(&'w str, Value)> {
    vec![
        (kind, json!(saved.note_id)),
        ("unid", json!(hex::upper(&saved.unid))),
        ("sequence", json!(saved.sequence)),
        ("revision", json!(revision_text(saved.sequence, &saved.revision_id))),
        ("modseq", json!(saved.modseq)),
    ]
}

/// Returns the items shown in a list.
fn shown_items(items: Vec<String>) -> Vec<String> {
    if items.is_empty() { vec!["Form".to_owned(), "Subject".to_owned()] } else { items }
}

pub(super) fn item_selection(extent: Extent, names: Vec<String>) -> v1::ItemSelection {
    v1::ItemSelection { extent: extent.into(), names }
}

/// Parses a note number or a UNID.
pub(super) fn parse_note_key(text: &str) -> Result<v1::NoteKey, CommandError> {
    let key = match text.parse() {
        Ok(number) => v1::note_key::Key::NoteId(number),
        Err(_) => v1::note_key::Key::Unid(read_unid(text)?),
    };
    Ok(v1::NoteKey { key: Some(key) })
}

fn read_unid(text: &str) -> Result<Vec<u8>, CommandError> {
    let unid: base::Unid = text.parse().map_err(|_| {
        CommandError(format!("{text:?} is neither the number of a note nor a UNID of 32 hexadecimal digits"))
    })?;
    Ok(unid.0.to_vec())
}
