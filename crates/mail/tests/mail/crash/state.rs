//! The contents of mail files and the queue as their users see them: read from a world, compared, and displayed if they
//! differ.
//!
//! A [`State`] contains everything that a client can learn. States share their files, so that one state per batch is
//! cheap. Files that a batch did not change are not read again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use base::{DbNumber, Modseq, NoteId, Timestamp, Uid, Unid, ViewId};
use mail::mailbox::{MailFile, MailSnapshot, SpecialUse};
use mail::router::{QueueEntry, QueueKey};
use notes::{DatabaseKind, Marks};

use super::content::Content;
use super::world::World;

/// The state of all mail files and the queue.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct State {
    /// Mail files by path in lower case.
    pub files: BTreeMap<String, Arc<File>>,
    /// Queued messages.
    pub queue: BTreeMap<QueueKey, Queued>,
}

/// A queued message.
#[derive(Clone, PartialEq, Debug)]
pub struct Queued {
    pub entry: QueueEntry,
    pub content: Content,
}

/// A mail file.
#[derive(Clone, PartialEq, Debug)]
pub struct File {
    pub number: DbNumber,
    pub modseq: Modseq,
    pub folders: BTreeMap<String, Folder>,
    pub subscriptions: BTreeSet<String>,
}

/// A mailbox.
#[derive(Clone, PartialEq, Debug)]
pub struct Folder {
    pub id: ViewId,
    pub special: Option<SpecialUse>,
    pub selectable: bool,
    pub uid_validity: u32,
    pub uid_next: Uid,
    pub highest_modseq: Modseq,
    pub messages: BTreeMap<Uid, Message>,
}

/// A message.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    pub note: NoteId,
    pub unid: Unid,
    pub modseq: Modseq,
    pub saved: Timestamp,
    pub visible: VisibleMessage,
}

/// The properties of a message that its owner sees.
#[derive(Clone, PartialEq, Debug)]
pub struct VisibleMessage {
    pub content: Content,
    pub marks: Marks,
    /// The keywords, in lower case.
    pub keywords: BTreeSet<String>,
    pub received: Timestamp,
}

impl File {
    /// Returns the mailbox with this ID.
    pub fn by_id(&self, id: ViewId) -> Option<&Folder> {
        self.folders.values().find(|folder| folder.id == id)
    }
}

/// Reads the current state. Files in `known` that no transaction has changed since are reused.
pub fn observe(world: &World, known: &State) -> mail::Result<State> {
    let mut state = State::default();
    for record in world.databases().database_list()?.into_iter().filter(|record| record.kind == DatabaseKind::Mail) {
        let file = world.mail.open_as_server(&record.path)?;
        let path = record.path.to_lowercase();
        let old = known.files.get(&path).filter(|old| old.number == record.number);
        let read = match old {
            Some(old) if old.modseq == file.database().modseq() => Arc::clone(old),
            _ => Arc::new(read_file(&file, old.map(Arc::as_ref))?),
        };
        state.files.insert(path, read);
    }
    for (key, entry) in world.router.list() {
        let content = match known.queue.get(&key) {
            Some(old) if old.entry.message == entry.message => old.content.clone(),
            _ => Content::new(world.router.content(key)?),
        };
        state.queue.insert(key, Queued { entry, content });
    }
    assert_eq!(world.router.counts().messages, state.queue.len(), "the queue counts its messages");
    Ok(state)
}

fn read_file(file: &MailFile, old: Option<&File>) -> mail::Result<File> {
    let snapshot = file.snapshot()?;
    let contents: BTreeMap<NoteId, Content> = old
        .into_iter()
        .flat_map(|old| old.folders.values().flat_map(|folder| folder.messages.values()))
        .map(|message| (message.note, message.visible.content.clone()))
        .collect();
    let mut folders = BTreeMap::new();
    for design in snapshot.folders()? {
        let status = snapshot.status(design.id)?;
        let messages = read_messages(&snapshot, design.id, &contents)?;
        assert_eq!(status.messages as usize, messages.len(), "a mailbox counts its messages");
        let count =
            |mark: Marks, set: bool| messages.values().filter(|m| m.visible.marks.contains(mark) == set).count();
        assert_eq!(status.unseen as usize, count(Marks::SEEN, false), "a mailbox counts what is unread");
        assert_eq!(status.deleted as usize, count(Marks::DELETED, true), "a mailbox counts what is deleted");
        let size: usize = messages.values().map(|message| message.visible.content.0.len()).sum();
        assert_eq!(status.size, size as u64, "a mailbox adds up the sizes");
        let folder = Folder {
            id: design.id,
            special: design.special_use,
            selectable: design.selectable,
            uid_validity: status.uid_validity,
            uid_next: status.uid_next,
            highest_modseq: status.highest_modseq,
            messages,
        };
        assert!(folders.insert(design.name, folder).is_none(), "mailbox names are unique");
    }
    let subscriptions = snapshot.subscriptions()?.into_iter().collect();
    Ok(File { number: file.database().number(), modseq: snapshot.modseq(), folders, subscriptions })
}

fn read_messages(
    snapshot: &MailSnapshot<'_>,
    folder: ViewId,
    contents: &BTreeMap<NoteId, Content>,
) -> mail::Result<BTreeMap<Uid, Message>> {
    let mut messages = BTreeMap::new();
    snapshot.entries(folder, Uid(1)..=Uid(u32::MAX), &mut |entry| {
        let message = snapshot.message(entry.note)?.expect("an entry has its message");
        let content = match contents.get(&entry.note) {
            Some(content) => content.clone(),
            None => Content::new(message.raw()?),
        };
        assert_eq!(entry.size, content.0.len() as u64, "an entry knows the size of its message");
        assert_eq!(snapshot.rank(folder, entry.uid)? as usize, messages.len(), "positions count the entries before");
        let flags = snapshot.flags(&entry);
        let keywords = flags.keywords.iter().map(|keyword| keyword.to_lowercase()).collect();
        let visible = VisibleMessage { content, marks: flags.marks, keywords, received: entry.received };
        let modseq = entry.modseq;
        let saved = entry.saved;
        let message = Message { note: entry.note, unid: message.unid()?, modseq, saved, visible };
        assert!(messages.insert(entry.uid, message).is_none(), "a UID exists once");
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(messages)
}

/// Returns a short description of the differences between two states, or `None` if they are equal.
pub fn difference(expected: &State, found: &State) -> Option<String> {
    let mut lines = Vec::new();
    diff(&mut lines, "file", &expected.files, &found.files, |lines, path, old, new| {
        diff(lines, &format!("{path}: mailbox"), &old.folders, &new.folders, |lines, name, old, new| {
            diff(lines, &format!("{path}/{name}: UID"), &old.messages, &new.messages, differ);
            let empty = BTreeMap::new();
            let path = format!("{path}/{name}");
            let without = |folder: &Folder| Folder { messages: empty.clone(), ..folder.clone() };
            differ(lines, &path, &without(old), &without(new));
        });
        let rest = |file: &File| (file.number, file.modseq, file.subscriptions.clone());
        differ(lines, path, &rest(old), &rest(new));
    });
    diff(&mut lines, "queue", &expected.queue, &found.queue, differ);
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn differ<K: std::fmt::Debug + ?Sized, V: PartialEq + std::fmt::Debug>(
    lines: &mut Vec<String>,
    key: &K,
    old: &V,
    new: &V,
) {
    if old != new {
        lines.push(format!("{key:?}: expected {old:?}\n    found {new:?}"));
    }
}

fn diff<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    lines: &mut Vec<String>,
    what: &str,
    expected: &BTreeMap<K, V>,
    found: &BTreeMap<K, V>,
    each: impl Fn(&mut Vec<String>, &K, &V, &V),
) {
    for (key, old) in expected {
        match found.get(key) {
            Some(new) if old == new => {}
            Some(new) => each(lines, key, old, new),
            None => lines.push(format!("{what} {key:?} is missing: {old:?}")),
        }
    }
    for (key, new) in found.iter().filter(|(key, _)| !expected.contains_key(key)) {
        lines.push(format!("{what} {key:?} should not be there: {new:?}"));
    }
}

/// Checks the invariants of every change: numbers ascend, a UID keeps its message, and a changed mailbox has a greater
/// modseq.
pub fn continuity(before: &State, after: &State) -> Result<(), String> {
    for (path, old) in &before.files {
        let Some(new) = after.files.get(path).filter(|new| new.number == old.number) else { continue };
        file_continuity(old, new).map_err(|error| format!("{path}: {error}"))?;
    }
    for (path, file) in &after.files {
        let messages = || file.folders.values().flat_map(|folder| folder.messages.values());
        let unids: BTreeSet<Unid> = messages().map(|message| message.unid).collect();
        if unids.len() != messages().count() {
            return Err(format!("{path}: a note is in two mailboxes, or two have one UNID"));
        }
    }
    Ok(())
}

fn file_continuity(old: &File, new: &File) -> Result<(), String> {
    let ensure = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
    ensure(new.modseq >= old.modseq, "the modseq decreased")?;
    let last_validity = old.folders.values().map(|folder| folder.uid_validity).max().unwrap_or(0);
    for (name, folder) in &new.folders {
        let Some(before) = old.by_id(folder.id) else {
            ensure(folder.uid_validity > last_validity, &format!("{name} is new and has an old UIDVALIDITY"))?;
            continue;
        };
        let same = |what: &str, holds: bool| ensure(holds, &format!("{name}: {what}"));
        same("UIDVALIDITY changed", folder.uid_validity == before.uid_validity)?;
        same("UIDNEXT decreased", folder.uid_next >= before.uid_next)?;
        same("HIGHESTMODSEQ decreased", folder.highest_modseq >= before.highest_modseq)?;
        same("a modseq from the future", folder.highest_modseq <= new.modseq)?;
        let changed = folder.messages != before.messages;
        same("changed without a new modseq", !changed || folder.highest_modseq > old.modseq)?;
        for (uid, message) in &folder.messages {
            same("a UID beyond UIDNEXT", *uid < folder.uid_next)?;
            match before.messages.get(uid) {
                None => same("an old UID came back", *uid >= before.uid_next)?,
                Some(known) => {
                    let still = (message.note, message.unid, message.saved, &message.visible.content)
                        == (known.note, known.unid, known.saved, &known.visible.content);
                    same("a UID has another message", still)?;
                }
            }
            let fresh = before.messages.get(uid) != Some(message);
            same("a change without a new modseq", !fresh || message.modseq > old.modseq)?;
        }
    }
    Ok(())
}
