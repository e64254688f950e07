//! Putting many messages into a mail file.
//!
//! Messages go in groups, each group one transaction, which also records how far the import of that source has come: an import
//! that was stopped, by whatever, goes on where it stopped, without a message lost or there twice. Taking messages apart, which is
//! most of the work, is shared between threads.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use base::{Timestamp, Uid, ViewId};
use notes::{Item, Value, Writer};
use store::Ticket;

use crate::error::{Error, Result};
use crate::limits::{IMPORT_GROUP_BYTES, IMPORT_GROUP_MESSAGES, IMPORT_SOURCES_MAX};
use crate::mailbox::file::{PROFILE_NOTE, check_quota};
use crate::mailbox::{Flags, MailFile, MailView};
use crate::message::Prepared;

/// The item of the profile note that records how far imports have come.
const PROGRESS_ITEM: &str = "$ImportProgress";

/// A message from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedMessage {
    /// The mailbox that it goes to; made if it is missing.
    pub mailbox: String,
    /// The message, with the line ends of the wire.
    pub raw: Vec<u8>,
    /// Its flags.
    pub flags: Flags,
    /// When it was received; else the time of its topmost Received field, else now.
    pub received: Option<Timestamp>,
    /// Where its source goes on after it.
    pub next_position: u64,
}

/// What may be set for an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ImportOptions {
    /// Messages that are in the mail file already, byte for byte, are left out.
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
}

/// An import under way.
pub struct Importer<'f> {
    file: &'f MailFile,
    options: ImportOptions,
    /// Names the source in the record of progress.
    source: String,
    group: Vec<ImportedMessage>,
    group_bytes: usize,
    folders: HashMap<String, ViewId>,
    known: HashSet<[u8; 32]>,
    report: ImportReport,
    ticket: Ticket,
}

impl<'f> Importer<'f> {
    /// Starts an import. `source` names what is imported: the same name goes on where it stopped.
    pub fn new(file: &'f MailFile, source: &str, options: ImportOptions) -> Result<Self> {
        let mut importer = Self {
            file,
            options,
            source: source.to_owned(),
            group: Vec::new(),
            group_bytes: 0,
            folders: HashMap::new(),
            known: HashSet::new(),
            report: ImportReport::default(),
            ticket: Ticket::NONE,
        };
        if options.skip_duplicates {
            importer.learn_known()?;
        }
        Ok(importer)
    }

    /// Tells where the source is to be read on; 0 for one that was not begun, or was finished.
    pub fn position(&self) -> Result<u64> {
        let view = self.file.view()?;
        let summary = view.reading.summary(PROFILE_NOTE)?;
        let items = summary.as_ref().map_or(&[][..], |summary| &summary.items);
        let lines = notes::item::find(items, PROGRESS_ITEM).map_or(&[][..], |item| item.value.texts());
        Ok(lines.iter().find_map(|line| position_in(line, &self.source)).unwrap_or(0))
    }

    /// Adds a message; it is put in with its group.
    pub fn add(&mut self, message: ImportedMessage) -> Result<()> {
        self.group_bytes += message.raw.len();
        self.group.push(message);
        if self.group.len() >= IMPORT_GROUP_MESSAGES || self.group_bytes >= IMPORT_GROUP_BYTES {
            return self.put_group(false);
        }
        Ok(())
    }

    /// Tells what was done so far, the group that is being gathered not counted.
    #[must_use]
    pub fn report(&self) -> ImportReport {
        self.report
    }

    /// Puts the last group in, forgets the progress and waits until everything is durable.
    pub fn finish(mut self) -> Result<ImportReport> {
        self.put_group(true)?;
        self.file.durable(self.ticket).wait()?;
        Ok(self.report)
    }

    fn put_group(&mut self, last: bool) -> Result<()> {
        let mut group = std::mem::take(&mut self.group);
        self.group_bytes = 0;
        let position = group.last().map_or(0, |message| message.next_position);
        if self.options.skip_duplicates {
            let before = group.len();
            group.retain(|message| self.known.insert(*blake3::hash(&message.raw).as_bytes()));
            self.report.duplicates += (before - group.len()) as u64;
        }
        for message in &group {
            self.folder(&message.mailbox)?;
        }
        let mut prepared = self.prepare(&group)?;
        let folders = &self.folders;
        let source = &self.source;
        let ((), ticket) = self.file.write(|writer| {
            let limit = writer.database().record().options.quota_bytes;
            for (message, prepared) in group.iter().zip(&mut prepared) {
                check_quota(writer, limit, prepared.length())?;
                let mut note = prepared.note(writer)?;
                note.received = message.received.or_else(|| received(&message.raw));
                note.marks = message.flags.marks;
                note.keywords.clone_from(&message.flags.keywords);
                note.folders.extend(folders.get(&message.mailbox));
                writer.note_create(note)?;
            }
            record_progress(writer, source, if last { None } else { Some(position) })
        })?;
        self.ticket = ticket;
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
        Ok(())
    }

    fn learn_known(&mut self) -> Result<()> {
        let file = self.file;
        let view: MailView<'f> = file.view()?;
        for folder in view.folders()? {
            view.entries(folder.id, Uid(1)..=Uid(u32::MAX), &mut |entry| {
                if let Some(message) = view.message(entry.note)? {
                    self.known.insert(*blake3::hash(&message.raw()?).as_bytes());
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(())
    }
}

fn received(raw: &[u8]) -> Option<Timestamp> {
    crate::message::received_time(raw)
}

fn position_in(line: &str, source: &str) -> Option<u64> {
    let (position, name) = line.split_once('\t')?;
    if name == source { position.parse().ok() } else { None }
}

/// Writes how far a source has come into the profile note; nothing when it is done.
fn record_progress(writer: &mut Writer<'_, '_>, source: &str, position: Option<u64>) -> Result<()> {
    let profile = writer.note(PROFILE_NOTE)?.ok_or(Error::Damaged("settings of the mail file"))?;
    let old = profile.item(PROGRESS_ITEM).map_or_else(Vec::new, |item| item.value.texts().to_vec());
    let mut lines: Vec<String> = old.iter().filter(|line| position_in(line, source).is_none()).cloned().collect();
    lines.extend(position.map(|position| format!("{position}\t{source}")));
    lines.truncate(IMPORT_SOURCES_MAX);
    if lines == old {
        return Ok(());
    }
    let mut items = profile.items;
    items.retain(|item| !item.is_named(PROGRESS_ITEM));
    items.push(Item::summary(PROGRESS_ITEM, Value::TextList(lines)));
    writer.note_update(PROFILE_NOTE, profile.header.sequence, &items, &[])?;
    Ok(())
}
