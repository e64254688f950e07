//! Import of many messages into a mail file.
//!
//! Messages are imported in groups. Each group is one transaction, which also records the position of the import in its
//! source. An interrupted import continues where it stopped, and no message is lost or imported twice. The record
//! contains a check of the position ([`ImportPosition::check`]). If the source has changed, its reader starts again
//! ([`Importer::restart`]). Messages that are already in their mailbox are then skipped, each as often as it is there.
//!
//! A completely read source stays in the record with its last position, until everything that was imported together
//! with it has ended successfully ([`remove_progress`]). If the import is repeated before that, only the part that was
//! added to the source since then is read. A source of which a part was skipped ([`Importer::mark_incomplete`]) is then
//! read from its beginning. So is a source that is missing in a full record ([`is_progress_record_full`]), since it may
//! have been dropped.
//!
//! Most of the work is the parsing of messages. It is shared between threads.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use base::{Timestamp, Uid, ViewId};
use notes::limits::KEYWORDS_PER_DATABASE_MAX;
use notes::{Item, ItemValue, Writer};
use store::Ticket;

use crate::error::{Error, Result};
use crate::import_export::file_quirks::FileQuirks;
use crate::limits::{IMPORT_GROUP_BYTES, IMPORT_GROUP_MESSAGES, IMPORT_SOURCES_MAX};
use crate::mailbox::ready_message::check_quota;
use crate::mailbox::settings::{read_settings, settings_note};
use crate::mailbox::{Flags, MailFile};
use crate::message::PreparedMessage;
use crate::mime;

/// The item of the profile note that records the progress of imports.
const PROGRESS_ITEM: &str = "$ImportProgress";

/// A marker in the record: the next import reads the source from its beginning and skips messages that are already
/// present.
const REREAD_MARKER: &str = "again";

/// The progress of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ImportPosition {
    /// The offset in the source. Its unit is defined by the reader of the source.
    pub offset: u64,
    /// A check value by which the reader recognizes that the source is unchanged at the offset.
    pub check: u64,
}

impl ImportPosition {
    /// Computes a check value of bytes.
    #[must_use]
    pub fn digest(bytes: &[u8]) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(bytes).as_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl From<u64> for ImportPosition {
    fn from(offset: u64) -> Self {
        Self { offset, check: 0 }
    }
}

/// A message to be imported.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImportedMessage {
    /// The mailbox that the message goes to. It is created if it is missing.
    pub mailbox: String,
    /// The message, with the line ends of the wire.
    pub raw: Vec<u8>,
    /// The flags of the message.
    pub flags: Flags,
    /// The time of receipt. `None` stands for the result of [`time_of`], or else for the current time.
    pub received: Option<Timestamp>,
    /// The unusual properties of the message's file.
    pub form: FileQuirks,
    /// The position of the import after this message.
    pub next_position: ImportPosition,
}

/// Options of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ImportOptions {
    /// Skips messages that are already in their mailbox, byte for byte.
    pub skip_duplicates: bool,
}

/// The result of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ImportReport {
    /// Number of imported messages.
    pub messages: u64,
    /// Number of bytes of the imported messages.
    pub bytes: u64,
    /// Number of messages that were skipped because they were already present.
    pub duplicates: u64,
    /// Number of keywords that were dropped because the mail file cannot have more of them.
    pub keywords_left_out: u64,
    /// Number of sources that had been imported before and contain nothing new.
    pub sources_done: u64,
}

/// The treatment of messages that are already present.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DuplicatePolicy {
    /// They are imported once more.
    Keep,
    /// They are skipped, and so are messages that occur twice in the source.
    Skip,
    /// The source is read again. Each message is skipped as often as it is present.
    Match,
}

/// An import in progress.
pub struct Importer<'f> {
    file: &'f MailFile,
    duplicates: DuplicatePolicy,
    /// The name of the source in the record of progress.
    source: String,
    /// The position up to which the source was read, by this import or by the one that it continues.
    position: Option<ImportPosition>,
    /// `true` if a part of the source was skipped that the next import tries again.
    has_gap: bool,
    group: Vec<ImportedMessage>,
    group_bytes: usize,
    folders: HashMap<String, ViewId>,
    /// Number of copies of each message in the mailboxes examined so far, by mailbox and content.
    known: HashMap<(ViewId, [u8; 32]), u32>,
    report: ImportReport,
    ticket: Ticket,
}

impl<'f> Importer<'f> {
    /// Starts an import. `source` identifies the source and its target. An import with the same name continues where
    /// the previous one stopped.
    pub fn new(file: &'f MailFile, source: &str, options: ImportOptions) -> Result<Self> {
        Ok(Self {
            file,
            duplicates: if options.skip_duplicates { DuplicatePolicy::Skip } else { DuplicatePolicy::Keep },
            source: source_name(source),
            position: None,
            has_gap: false,
            group: Vec::new(),
            group_bytes: 0,
            folders: HashMap::new(),
            known: HashMap::new(),
            report: ImportReport::default(),
            ticket: Ticket::NONE,
        })
    }

    /// Returns the position up to which the source was read. Returns `None` if the source must be read from its
    /// beginning.
    pub fn position(&mut self) -> Result<Option<ImportPosition>> {
        let lines = read_progress_record(self.file)?;
        let Some((position, again)) = lines.iter().find_map(|line| position_in(line, &self.source)) else {
            return Ok(None);
        };
        if again {
            // A position is not sufficient. If a message occurs twice in the source, once before the position, the
            // mailbox contains either both copies or only one.
            self.restart();
            return Ok(None);
        }
        self.position = Some(position);
        Ok(self.position)
    }

    /// Starts again at the beginning of the source. Messages that are already present are skipped.
    pub fn restart(&mut self) {
        self.position = None;
        if self.duplicates == DuplicatePolicy::Keep {
            self.duplicates = DuplicatePolicy::Match;
        }
    }

    /// Records that a part of the source was skipped. The next import of the source reads it from its beginning.
    pub fn mark_incomplete(&mut self) {
        self.has_gap = true;
    }

    /// Adds a message. It is written with its group.
    pub fn add(&mut self, message: ImportedMessage) -> Result<()> {
        self.group_bytes += message.raw.len();
        self.group.push(message);
        if self.group.len() >= IMPORT_GROUP_MESSAGES || self.group_bytes >= IMPORT_GROUP_BYTES {
            return self.write_group();
        }
        Ok(())
    }

    /// Returns the result so far, without the group that is being gathered.
    #[must_use]
    pub fn report(&self) -> ImportReport {
        self.report
    }

    /// Ends an import that cannot continue. Written messages become durable, and the group that is being gathered is
    /// discarded.
    #[must_use]
    pub fn stop(self) -> ImportReport {
        // The import has failed already. If its written part cannot become durable either, the reason is the same.
        let _ = self.file.durable(self.ticket).wait();
        self.report
    }

    /// Writes the last group, records that the source is done, and waits until everything is durable.
    pub fn finish(mut self) -> Result<ImportReport> {
        let is_done = self.position.is_some() && self.group.is_empty() && self.report == ImportReport::default();
        self.report.sources_done = u64::from(is_done && !self.has_gap);
        if !self.group.is_empty() {
            self.write_group()?;
        }
        let end = match (self.has_gap, self.position) {
            (true, position) => Some((position.unwrap_or_default(), true)),
            (false, position) => position.map(|position| (position, false)),
        };
        let ((), ticket) =
            self.file.write(|writer| record_progress(writer, |old| with_position(old, &self.source, end)))?;
        for ticket in [self.ticket, ticket] {
            self.file.durable(ticket).wait()?;
        }
        Ok(self.report)
    }

    fn write_group(&mut self) -> Result<()> {
        let mut group = std::mem::take(&mut self.group);
        self.group_bytes = 0;
        let position = group.last().map(|message| message.next_position).unwrap_or_default();
        for message in &group {
            self.folder(&message.mailbox)?;
        }
        self.skip_duplicates(&mut group);
        self.drop_excess_keywords(&mut group);
        let prepared = self.prepare(&group)?;
        let folders = &self.folders;
        let source = &self.source;
        let again = self.duplicates == DuplicatePolicy::Match || self.has_gap;
        let ((), ticket) = self.file.write(|writer| {
            let limit = writer.database().record().options.quota_bytes;
            for (message, prepared) in group.iter().zip(&prepared) {
                check_quota(writer, limit, prepared.length())?;
                let mut note = prepared.note(writer)?;
                note.received = message.received.or_else(|| time_of(&message.raw));
                note.items.extend(message.form.items());
                note.marks = message.flags.marks;
                note.keywords.clone_from(&message.flags.keywords);
                note.folders.extend(folders.get(&message.mailbox));
                writer.note_create(note)?;
            }
            record_progress(writer, |old| with_position(old, source, Some((position, again))))
        })?;
        self.ticket = ticket;
        self.position = Some(position);
        self.report.messages += group.len() as u64;
        self.report.bytes += group.iter().map(|message| message.raw.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Prepares the messages of a group, half of them in another thread.
    fn prepare(&self, group: &[ImportedMessage]) -> Result<Vec<PreparedMessage>> {
        let mail = self.file.mail();
        let separation = mail.options().separation;
        let prepare = |message: &ImportedMessage| PreparedMessage::new(mail.databases(), &message.raw, separation);
        let all = |messages: &[ImportedMessage]| messages.iter().map(prepare).collect::<Result<Vec<_>>>();
        let (left, right) = group.split_at(group.len() / 2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| all(left));
            let right = all(right)?;
            let mut both = other.join().map_err(|_| Error::Damaged("message that cannot be parsed"))??;
            both.extend(right);
            Ok(both)
        })
    }

    fn folder(&mut self, mailbox: &str) -> Result<()> {
        if self.folders.contains_key(mailbox) {
            return Ok(());
        }
        let found = self.file.snapshot()?.folder(mailbox)?;
        let id = match found {
            Some(folder) if folder.selectable => folder.id,
            _ => self.file.folder_create(mailbox, None)?.0,
        };
        self.folders.insert(mailbox.to_owned(), id);
        if self.duplicates != DuplicatePolicy::Keep {
            self.count_existing(id)?;
        }
        Ok(())
    }

    /// Counts the messages of a mailbox by content.
    fn count_existing(&mut self, folder: ViewId) -> Result<()> {
        let snapshot = self.file.snapshot()?;
        snapshot.entries(folder, Uid(1)..=Uid(u32::MAX), &mut |entry| {
            if let Some(message) = snapshot.message(entry.note)? {
                *self.known.entry((folder, *blake3::hash(&message.raw()?).as_bytes())).or_default() += 1;
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    fn skip_duplicates(&mut self, group: &mut Vec<ImportedMessage>) {
        if self.duplicates == DuplicatePolicy::Keep {
            return;
        }
        let before = group.len();
        group.retain(|message| {
            let Some(folder) = self.folders.get(&message.mailbox) else { return true };
            let count = self.known.entry((*folder, *blake3::hash(&message.raw).as_bytes())).or_default();
            let is_new = *count == 0;
            *count = match (self.duplicates, is_new) {
                (DuplicatePolicy::Skip, true) => 1,
                (DuplicatePolicy::Match, false) => *count - 1,
                _ => *count,
            };
            is_new
        });
        self.report.duplicates += (before - group.len()) as u64;
    }

    /// Drops new keywords beyond the maximum number of a mail file. A message is worth more than its keywords.
    fn drop_excess_keywords(&mut self, group: &mut [ImportedMessage]) {
        let known = self.file.database().keywords();
        let mut fresh: HashSet<String> = HashSet::new();
        for message in group {
            let before = message.flags.keywords.len();
            message.flags.keywords.retain(|name| {
                let lower = name.to_ascii_lowercase();
                if known.find(name).is_some() || fresh.contains(&lower) {
                    return true;
                }
                let has_room = known.names().len() + fresh.len() < KEYWORDS_PER_DATABASE_MAX;
                has_room && fresh.insert(lower)
            });
            self.report.keywords_left_out += (before - message.flags.keywords.len()) as u64;
        }
    }
}

/// Removes the progress of these sources. The sources that were imported together have ended successfully, so the next
/// import of them is a new one.
pub fn remove_progress(file: &MailFile, sources: &[String]) -> Result<()> {
    let names: HashSet<String> = sources.iter().map(|source| source_name(source)).collect();
    let is_kept = |line: &&String| fields_of(line).is_none_or(|(_, _, name)| !names.contains(name));
    change_progress_record(file, |old| old.iter().filter(is_kept).cloned().collect())
}

/// Removes the progress of all sources.
pub fn remove_all_progress(file: &MailFile) -> Result<()> {
    change_progress_record(file, |_| Vec::new())
}

/// Returns `true` if the record is full. A source that is missing in it may then have been dropped.
pub fn is_progress_record_full(file: &MailFile) -> Result<bool> {
    Ok(read_progress_record(file)?.len() >= IMPORT_SOURCES_MAX)
}

fn change_progress_record(file: &MailFile, change: impl FnOnce(&[String]) -> Vec<String>) -> Result<()> {
    if read_progress_record(file)?.is_empty() {
        return Ok(());
    }
    let ((), ticket) = file.write(|writer| record_progress(writer, change))?;
    Ok(file.durable(ticket).wait()?)
}

/// Returns the time at which a message was received: that of its topmost Received field, or else its Date.
#[must_use]
pub fn time_of(message: &[u8]) -> Option<Timestamp> {
    let header = mime::message_header::top_header(message);
    crate::message::received_time(header).or_else(|| {
        let date = mime::header::first(header, "Date").and_then(mime::date::HeaderDate::parse)?;
        Some(date.timestamp)
    })
}

/// Returns the name of a source in a form that fits on one line of the record.
fn source_name(source: &str) -> String {
    source.replace(char::is_control, "?")
}

fn read_progress_record(file: &MailFile) -> Result<Vec<String>> {
    let snapshot = file.snapshot()?;
    let note = settings_note(&snapshot.reading)?;
    let summary = note.map(|note| snapshot.reading.summary(note)).transpose()?.flatten();
    let item = summary.as_ref().and_then(|summary| notes::item::find_item(&summary.items, PROGRESS_ITEM));
    Ok(item.map_or_else(Vec::new, |item| item.value.texts().to_vec()))
}

/// Parses a line of the record: offset, check, `again` if the source must be read from its beginning, and the source.
fn fields_of(line: &str) -> Option<(ImportPosition, bool, &str)> {
    let fields: Vec<&str> = line.splitn(4, '\t').collect();
    let [offset, check, again, name] = fields.as_slice() else { return None };
    let position = ImportPosition { offset: offset.parse().ok()?, check: u64::from_str_radix(check, 16).ok()? };
    Some((position, *again == REREAD_MARKER, name))
}

fn position_in(line: &str, source: &str) -> Option<(ImportPosition, bool)> {
    fields_of(line).and_then(|(position, again, name)| (name == source).then_some((position, again)))
}

/// Returns the record with the new position of a source, or without the source. The sources that have not been
/// continued for the longest time are dropped first.
fn with_position(old: &[String], source: &str, position: Option<(ImportPosition, bool)>) -> Vec<String> {
    let mut lines: Vec<String> = old.iter().filter(|line| position_in(line, source).is_none()).cloned().collect();
    lines.extend(position.map(|(ImportPosition { offset, check }, again)| {
        format!("{offset}\t{check:016x}\t{}\t{source}", if again { REREAD_MARKER } else { "" })
    }));
    lines.drain(..lines.len().saturating_sub(IMPORT_SOURCES_MAX));
    lines
}

/// Changes the record, which is in the profile note.
fn record_progress(writer: &mut Writer<'_, '_>, change: impl FnOnce(&[String]) -> Vec<String>) -> Result<()> {
    let profile = read_settings(writer)?;
    let old = profile.item(PROGRESS_ITEM).map_or_else(Vec::new, |item| item.value.texts().to_vec());
    let lines = change(&old);
    if lines == old {
        return Ok(());
    }
    let mut items = profile.items;
    items.retain(|item| !item.is_named(PROGRESS_ITEM));
    items.push(Item::summary(PROGRESS_ITEM, ItemValue::TextList(lines)));
    writer.note_update(profile.header.note, profile.header.revision(), &items, &[])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_of_too_many_interrupted_imports_is_dropped() {
        let position = ImportPosition { offset: 7, check: u64::MAX };
        let name = |number: usize| format!("source {number}");
        let mut lines = Vec::new();
        for number in 0..=IMPORT_SOURCES_MAX {
            lines = with_position(&lines, &name(number), Some((position, number == 1)));
        }
        let find = |lines: &[String], number| lines.iter().find_map(|line| position_in(line, &name(number)));
        assert_eq!((lines.len(), find(&lines, 0)), (IMPORT_SOURCES_MAX, None));
        assert_eq!(find(&lines, 1), Some((position, true)));
        assert_eq!(find(&lines, IMPORT_SOURCES_MAX), Some((position, false)));
        lines = with_position(&lines, &name(1), Some((position, false)));
        assert_eq!((lines.len(), find(&lines[lines.len() - 1..], 1)), (IMPORT_SOURCES_MAX, Some((position, false))));
        lines = with_position(&lines, &name(1), None);
        assert_eq!((lines.len(), find(&lines, 1)), (IMPORT_SOURCES_MAX - 1, None));
    }
}
