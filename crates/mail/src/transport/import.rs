//! Putting many messages into a mail file.
//!
//! Messages go in groups, each group one transaction, which also records how far the import of that source has come: an import
//! that was stopped, by whatever, goes on where it stopped, without a message lost or there twice. The record says how to
//! recognize the place ([`Position::check`]); when the source is not what it was, whoever reads it begins again
//! ([`Importer::begin_again`]), and messages that are in their mailbox already are left out, each as often as it is there.
//!
//! A source that came to its end stays in the record, with its last position, until everything that was imported together with
//! it has ended well ([`forget`]): what is read of it when the import is given again is what came to it since. A source of which
//! something was left out ([`Importer::leave_gap`]) is read from its beginning then. So is one that is missing in a record that is full
//! ([`is_full`]), since it may have been forgotten.
//!
//! Taking messages apart, which is most of the work, is shared between threads.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use base::{Timestamp, Uid, ViewId};
use notes::limits::KEYWORDS_PER_DATABASE_MAX;
use notes::{Item, Value, Writer};
use store::Ticket;

use crate::error::{Error, Result};
use crate::limits::{IMPORT_GROUP_BYTES, IMPORT_GROUP_MESSAGES, IMPORT_SOURCES_MAX};
use crate::mailbox::file::{PROFILE_NOTE, check_quota};
use crate::mailbox::{Flags, MailFile};
use crate::message::Prepared;
use crate::mime;
use crate::transport::form::FileForm;

/// The item of the profile note that records how far imports have come.
const PROGRESS_ITEM: &str = "$ImportProgress";

/// In the record: the source is read from its beginning the next time, and what is there already is left out.
const AGAIN: &str = "again";

/// How far an import has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Position {
    /// Where in the source; what it counts is up to whoever reads the source.
    pub offset: u64,
    /// What tells that the source still is there what it was.
    pub check: u64,
}

impl Position {
    /// Makes a check of bytes.
    #[must_use]
    pub fn digest(bytes: &[u8]) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(bytes).as_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl From<u64> for Position {
    fn from(offset: u64) -> Self {
        Self { offset, check: 0 }
    }
}

/// A message from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImportedMessage {
    /// The mailbox that it goes to; made if it is missing.
    pub mailbox: String,
    /// The message, with the line ends of the wire.
    pub raw: Vec<u8>,
    /// Its flags.
    pub flags: Flags,
    /// When it was received; else what [`time_of`] finds, else now.
    pub received: Option<Timestamp>,
    /// What was unusual about its file.
    pub form: FileForm,
    /// How far the import has come with it.
    pub next_position: Position,
}

/// What may be set for an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ImportOptions {
    /// Messages that are in their mailbox already, byte for byte, are left out.
    pub skip_duplicates: bool,
}

/// What an import did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ImportReport {
    /// Messages put in.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages left out because they were there.
    pub duplicates: u64,
    /// Keywords left out because the mail file has as many as it can have.
    pub keywords_left_out: u64,
    /// Sources that had gone in before and hold nothing new.
    pub sources_done: u64,
}

/// What becomes of messages that are there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Duplicates {
    /// They come in once more.
    Keep,
    /// They are left out, those that the source itself has twice too.
    Skip,
    /// The source is read again: each is left out as often as it is there.
    Match,
}

/// An import under way.
pub struct Importer<'f> {
    file: &'f MailFile,
    duplicates: Duplicates,
    /// Names the source in the record of progress.
    source: String,
    /// How far the source was read, by this import or the one that it goes on with.
    position: Option<Position>,
    /// Something of the source was left out that the next import of it tries again.
    has_gap: bool,
    group: Vec<ImportedMessage>,
    group_bytes: usize,
    folders: HashMap<String, ViewId>,
    /// How often each message is in the mailboxes that were looked at, by mailbox and content.
    known: HashMap<(ViewId, [u8; 32]), u32>,
    report: ImportReport,
    ticket: Ticket,
}

impl<'f> Importer<'f> {
    /// Starts an import. `source` names what is imported, and into what: the same name goes on where it stopped.
    pub fn new(file: &'f MailFile, source: &str, options: ImportOptions) -> Result<Self> {
        Ok(Self {
            file,
            duplicates: if options.skip_duplicates { Duplicates::Skip } else { Duplicates::Keep },
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

    /// Tells how far the source was read; nothing for one that is to be read from its beginning.
    pub fn position(&mut self) -> Result<Option<Position>> {
        let lines = recorded_lines(self.file)?;
        let Some((position, again)) = lines.iter().find_map(|line| position_in(line, &self.source)) else {
            return Ok(None);
        };
        if again {
            // A position would not do: of a message that is twice in the source, once before it, both copies are in the mailbox or one.
            self.begin_again();
            return Ok(None);
        }
        self.position = Some(position);
        Ok(self.position)
    }

    /// Says that the source is read from its beginning though something of it may be there: that is left out.
    pub fn begin_again(&mut self) {
        self.position = None;
        if self.duplicates == Duplicates::Keep {
            self.duplicates = Duplicates::Match;
        }
    }

    /// Says that a part of the source was left out: the next import of it reads it from its beginning.
    pub fn leave_gap(&mut self) {
        self.has_gap = true;
    }

    /// Adds a message; it is put in with its group.
    pub fn add(&mut self, message: ImportedMessage) -> Result<()> {
        self.group_bytes += message.raw.len();
        self.group.push(message);
        if self.group.len() >= IMPORT_GROUP_MESSAGES || self.group_bytes >= IMPORT_GROUP_BYTES {
            return self.put_group();
        }
        Ok(())
    }

    /// Tells what was done so far, the group that is being gathered not counted.
    #[must_use]
    pub fn report(&self) -> ImportReport {
        self.report
    }

    /// Ends an import that cannot go on: what was put in becomes durable, the group that is being gathered is given up.
    #[must_use]
    pub fn stop(self) -> ImportReport {
        // The import has failed already; that its beginning is not durable either is for the same reason.
        let _ = self.file.durable(self.ticket).wait();
        self.report
    }

    /// Puts the last group in, records that the source is done, and waits until everything is durable.
    pub fn finish(mut self) -> Result<ImportReport> {
        let is_done = self.position.is_some() && self.group.is_empty() && self.report == ImportReport::default();
        self.report.sources_done = u64::from(is_done && !self.has_gap);
        if !self.group.is_empty() {
            self.put_group()?;
        }
        let end = match (self.has_gap, self.position) {
            (true, position) => Some((position.unwrap_or_default(), true)),
            (false, position) => position.map(|position| (position, false)),
        };
        let ((), ticket) = self.file.write(|writer| record_progress(writer, |old| recorded(old, &self.source, end)))?;
        for ticket in [self.ticket, ticket] {
            self.file.durable(ticket).wait()?;
        }
        Ok(self.report)
    }

    fn put_group(&mut self) -> Result<()> {
        let mut group = std::mem::take(&mut self.group);
        self.group_bytes = 0;
        let position = group.last().map(|message| message.next_position).unwrap_or_default();
        for message in &group {
            self.folder(&message.mailbox)?;
        }
        self.leave_out_duplicates(&mut group);
        self.leave_out_keywords(&mut group);
        let mut prepared = self.prepare(&group)?;
        let folders = &self.folders;
        let source = &self.source;
        let again = self.duplicates == Duplicates::Match || self.has_gap;
        let ((), ticket) = self.file.write(|writer| {
            let limit = writer.database().record().options.quota_bytes;
            for (message, prepared) in group.iter().zip(&mut prepared) {
                check_quota(writer, limit, prepared.length())?;
                let mut note = prepared.note(writer)?;
                note.received = message.received.or_else(|| time_of(&message.raw));
                note.items.extend(message.form.items());
                note.marks = message.flags.marks;
                note.keywords.clone_from(&message.flags.keywords);
                note.folders.extend(folders.get(&message.mailbox));
                writer.note_create(note)?;
            }
            record_progress(writer, |old| recorded(old, source, Some((position, again))))
        })?;
        self.ticket = ticket;
        self.position = Some(position);
        self.report.messages += group.len() as u64;
        self.report.bytes += group.iter().map(|message| message.raw.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Takes the messages of a group apart, half of them in another thread.
    fn prepare<'m>(&self, group: &'m [ImportedMessage]) -> Result<Vec<Prepared<'m>>> {
        let options = *self.file.mail().options();
        let all = |messages: &'m [ImportedMessage]| -> Vec<Prepared<'m>> {
            messages.iter().map(|message| Prepared::new(&message.raw, options.separate_bytes_min)).collect()
        };
        let (left, right) = group.split_at(group.len() / 2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| all(left));
            let right = all(right);
            let mut both = other.join().map_err(|_| Error::Damaged("message that cannot be taken apart"))?;
            both.extend(right);
            Ok(both)
        })
    }

    fn folder(&mut self, mailbox: &str) -> Result<()> {
        if self.folders.contains_key(mailbox) {
            return Ok(());
        }
        let found = self.file.view()?.folder(mailbox)?;
        let id = match found {
            Some(folder) if folder.selectable => folder.id,
            _ => self.file.folder_create(mailbox, None)?.0,
        };
        self.folders.insert(mailbox.to_owned(), id);
        if self.duplicates != Duplicates::Keep {
            self.learn_known(id)?;
        }
        Ok(())
    }

    /// Notes what a mailbox holds.
    fn learn_known(&mut self, folder: ViewId) -> Result<()> {
        let view = self.file.view()?;
        view.entries(folder, Uid(1)..=Uid(u32::MAX), &mut |entry| {
            if let Some(message) = view.message(entry.note)? {
                *self.known.entry((folder, *blake3::hash(&message.raw()?).as_bytes())).or_default() += 1;
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    fn leave_out_duplicates(&mut self, group: &mut Vec<ImportedMessage>) {
        if self.duplicates == Duplicates::Keep {
            return;
        }
        let before = group.len();
        group.retain(|message| {
            let Some(folder) = self.folders.get(&message.mailbox) else { return true };
            let count = self.known.entry((*folder, *blake3::hash(&message.raw).as_bytes())).or_default();
            let is_new = *count == 0;
            *count = match (self.duplicates, is_new) {
                (Duplicates::Skip, true) => 1,
                (Duplicates::Match, false) => *count - 1,
                _ => *count,
            };
            is_new
        });
        self.report.duplicates += (before - group.len()) as u64;
    }

    /// A mail file can have only so many keywords; a message is worth more than its keywords.
    fn leave_out_keywords(&mut self, group: &mut [ImportedMessage]) {
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

/// Forgets how far these sources have come: what was imported with them has ended well, and the next import of them is a new one.
pub fn forget(file: &MailFile, sources: &[String]) -> Result<()> {
    let names: HashSet<String> = sources.iter().map(|source| source_name(source)).collect();
    let is_kept = |line: &&String| fields_of(line).is_none_or(|(_, _, name)| !names.contains(name));
    forget_lines(file, |old| old.iter().filter(is_kept).cloned().collect())
}

/// Forgets how far any source has come.
pub fn forget_all(file: &MailFile) -> Result<()> {
    forget_lines(file, |_| Vec::new())
}

/// Tells whether the record has no room, so that a source that is missing in it may have been forgotten.
pub fn is_full(file: &MailFile) -> Result<bool> {
    Ok(recorded_lines(file)?.len() >= IMPORT_SOURCES_MAX)
}

fn forget_lines(file: &MailFile, change: impl FnOnce(&[String]) -> Vec<String>) -> Result<()> {
    if recorded_lines(file)?.is_empty() {
        return Ok(());
    }
    let ((), ticket) = file.write(|writer| record_progress(writer, change))?;
    Ok(file.durable(ticket).wait()?)
}

/// Gives the time at which a message was received, as far as it says so: that of its topmost Received field, else its Date.
#[must_use]
pub fn time_of(message: &[u8]) -> Option<Timestamp> {
    crate::message::received_time(message).or_else(|| {
        let date = mime::header::first(message, "Date").and_then(mime::date::Date::parse)?;
        Some(date.timestamp)
    })
}

/// Gives the name of a source as a line can hold it.
fn source_name(source: &str) -> String {
    source.replace(char::is_control, "?")
}

fn recorded_lines(file: &MailFile) -> Result<Vec<String>> {
    let view = file.view()?;
    let summary = view.reading.summary(PROFILE_NOTE)?;
    let item = summary.as_ref().and_then(|summary| notes::item::find(&summary.items, PROGRESS_ITEM));
    Ok(item.map_or_else(Vec::new, |item| item.value.texts().to_vec()))
}

/// Reads a line of the record: offset, check, `again` when the source is to be read from its beginning, and the source.
fn fields_of(line: &str) -> Option<(Position, bool, &str)> {
    let fields: Vec<&str> = line.splitn(4, '\t').collect();
    let [offset, check, again, name] = fields.as_slice() else { return None };
    let position = Position { offset: offset.parse().ok()?, check: u64::from_str_radix(check, 16).ok()? };
    Some((position, *again == AGAIN, name))
}

fn position_in(line: &str, source: &str) -> Option<(Position, bool)> {
    fields_of(line).and_then(|(position, again, name)| (name == source).then_some((position, again)))
}

/// Gives the record with a source's new position, or without it. What was not gone on with for longest goes first.
fn recorded(old: &[String], source: &str, position: Option<(Position, bool)>) -> Vec<String> {
    let mut lines: Vec<String> = old.iter().filter(|line| position_in(line, source).is_none()).cloned().collect();
    lines.extend(position.map(|(Position { offset, check }, again)| {
        format!("{offset}\t{check:016x}\t{}\t{source}", if again { AGAIN } else { "" })
    }));
    lines.drain(..lines.len().saturating_sub(IMPORT_SOURCES_MAX));
    lines
}

/// Changes the record, which the profile note holds.
fn record_progress(writer: &mut Writer<'_, '_>, change: impl FnOnce(&[String]) -> Vec<String>) -> Result<()> {
    let profile = writer.note(PROFILE_NOTE)?.ok_or(Error::Damaged("settings of the mail file"))?;
    let old = profile.item(PROGRESS_ITEM).map_or_else(Vec::new, |item| item.value.texts().to_vec());
    let lines = change(&old);
    if lines == old {
        return Ok(());
    }
    let mut items = profile.items;
    items.retain(|item| !item.is_named(PROGRESS_ITEM));
    items.push(Item::summary(PROGRESS_ITEM, Value::TextList(lines)));
    writer.note_update(PROFILE_NOTE, profile.header.sequence, &items, &[])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_interrupted_imports_the_oldest_is_forgotten() {
        let position = Position { offset: 7, check: u64::MAX };
        let name = |number: usize| format!("source {number}");
        let mut lines = Vec::new();
        for number in 0..=IMPORT_SOURCES_MAX {
            lines = recorded(&lines, &name(number), Some((position, number == 1)));
        }
        let find = |lines: &[String], number| lines.iter().find_map(|line| position_in(line, &name(number)));
        assert_eq!((lines.len(), find(&lines, 0)), (IMPORT_SOURCES_MAX, None));
        assert_eq!(find(&lines, 1), Some((position, true)));
        assert_eq!(find(&lines, IMPORT_SOURCES_MAX), Some((position, false)));
        lines = recorded(&lines, &name(1), Some((position, false)));
        assert_eq!((lines.len(), find(&lines[lines.len() - 1..], 1)), (IMPORT_SOURCES_MAX, Some((position, false))));
        lines = recorded(&lines, &name(1), None);
        assert_eq!((lines.len(), find(&lines, 1)), (IMPORT_SOURCES_MAX - 1, None));
    }
}
