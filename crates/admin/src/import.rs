//! `doublet import`: imports mail from mbox files, Maildirs and single files into a mailbox.
//!
//! This module opens the files and passes their bytes to [`mail::import_export`]. An interrupted import of the same
//! files into the same folder continues where it stopped if the files are unchanged: in an mbox file the message
//! imported last must be at the same offset, and in a folder all imported files must still exist. Otherwise the import
//! starts again from the beginning and skips messages that the mailbox already has.
//!
//! An mbox file, a folder of a Maildir or of single files, and a run of single files named one after another are one
//! *source* each. The progress of each source is recorded until the whole command has ended without a failure.
//! Finished sources thus stay finished if another source stops the command. After success all records are deleted in
//! one step.
//!
//! A file that cannot be read, or is not mail, is named at the end and does not stop the rest; the command fails after
//! the rest is imported. Links, pipes and devices are such files ([`instance::regular_file`]), and links to folders are
//! not followed. An error that does stop the command, such as an exceeded quota, is reported together with the number
//! of messages imported before it.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use base::Timestamp;
use base::limits::MESSAGE_BYTES_MAX;
use instance::Instance;
use instance::data_folder::read_content;
use instance::regular_file::{NOT_REGULAR, open_below};
use mail::import_export::import::{is_progress_record_full, remove_all_progress, remove_progress, time_of};
use mail::import_export::line_endings::{FileLineEnding, from_file, from_marked_file};
use mail::import_export::maildir::{self, KeywordTable};
use mail::import_export::mbox::{MboxMessage, MboxReader};
use mail::import_export::{FileQuirks, ImportOptions, ImportPosition, ImportReport, ImportedMessage, Importer};
use mail::mailbox::{Flags, MailFile};
use serde_json::json;

use super::flag_list::{self, MessageFlagList};
use super::mail_files::{self, FileEntry, FileListing, display_name, is_folder, without_ending};
use super::request::{ImportRequest, MailFormat};
use super::{AdminError, AdminResult, Answer, Progress, ProgressCallback, Unit, format_count, people, report_step};

/// Reason why a folder of mail is left out.
const NOT_FOLDER: &str = "not a folder; links to folders are not followed";

/// Number of messages between two progress reports.
const REPORT_EVERY: u64 = 100;

/// Number of bytes of an mbox file read at once.
const READ_BYTES: usize = 1 << 20;

/// Maximum size of a keyword file in bytes.
const KEYWORDS_BYTES_MAX: u64 = 1 << 20;

/// Maximum number of left-out files whose names are kept. Beyond it they are only counted.
const REASONS_MAX: usize = 10_000;

/// Maximum number of left-out files named in the final error message.
const FAILURES_SHOWN_MAX: usize = 10;

pub(super) fn execute(instance: &Instance, request: &ImportRequest, report: &mut ProgressCallback<'_>) -> AdminResult {
    let person = people::find(instance, &request.user)?;
    instance.mail.create_if_missing(&person.mail_file, &person.display_name(), &person.name, person.quota_bytes)?;
    let tool = instance.mail.open_as_operator(&person.mail_file, &instance.directory.options().server)?;
    tool.require_editor()?;
    // Progress records are written with the rights of the server, because the ACL does not apply to them.
    let file = instance.mail.open_as_server(&person.mail_file)?;
    if request.restart {
        remove_all_progress(&file)?;
    }
    let mut import = Import {
        file: &file,
        request,
        is_forgetful: is_progress_record_full(&file)?,
        sum: ImportReport::default(),
        skipped: Skipped::default(),
        sources: Vec::new(),
        changed: Vec::new(),
        report,
    };
    let together =
        |one: &PathBuf, next: &PathBuf| request.format == MailFormat::Eml && !is_folder(one) && !is_folder(next);
    for paths in request.files.chunk_by(together) {
        let done = match (request.format, paths) {
            (MailFormat::Mbox, [path]) => import.import_mboxes(path),
            (MailFormat::Maildir, [path]) => import.import_maildir(path),
            (_, paths) => import.import_single_files(paths),
        };
        match done {
            Err(failure @ AdminError::File { .. }) => import.skipped.add(failure),
            other => other.map_err(|failure| import.with_partial_result(failure))?,
        }
    }
    if import.skipped.count == 0 {
        remove_progress(&file, &import.sources)?;
    }
    Ok(import.answer())
}

struct Import<'a, 'p, 'r> {
    file: &'a MailFile,
    request: &'a ImportRequest,
    /// Set if the table of recorded sources is full. A source without a record may have been imported before all the
    /// same.
    is_forgetful: bool,
    sum: ImportReport,
    skipped: Skipped,
    /// Names of the sources imported so far, as they are recorded.
    sources: Vec<String>,
    /// Messages about sources that have changed since their import was interrupted.
    changed: Vec<String>,
    report: &'p mut ProgressCallback<'r>,
}

/// Files and messages that could not be imported or exported, with the reasons.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    reasons: Vec<String>,
    count: usize,
}

impl Skipped {
    pub(super) fn add(&mut self, what: impl std::fmt::Display) {
        self.count += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(what.to_string());
        }
    }

    pub(super) fn reasons(&self) -> &[String] {
        &self.reasons
    }

    /// Returns the text with which the command fails after its results, or `None` if nothing was left out.
    pub(super) fn failure_text(&self) -> Option<String> {
        let first: Vec<&str> = self.reasons.iter().take(FAILURES_SHOWN_MAX).map(String::as_str).collect();
        let more = self.count - first.len();
        let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
        (self.count > 0).then(|| format!("{} left out:\n  {}{more}", self.count, first.join("\n  ")))
    }
}

/// Flag lists beside the files. Only the last list is cached.
#[derive(Default)]
struct FlagListCache {
    last: Option<(PathBuf, MessageFlagList)>,
}

impl FlagListCache {
    /// Returns the list for the folder of a file, which is `named` or lies below it.
    fn list_for(&mut self, named: &Path, file: &Path) -> Result<&MessageFlagList, AdminError> {
        let path = file.with_file_name(flag_list::FOLDER_LIST);
        let last = match self.last.take() {
            Some(last) if last.0 == path => last,
            _ => {
                let list = MessageFlagList::read(named, &path)?;
                (path, list)
            }
        };
        Ok(&self.last.insert(last).1)
    }
}

/// A message in a file of its own.
struct MessageFile {
    file: FileEntry,
    mailbox: String,
    /// Name that identifies the file as long as it stays in its folder.
    base: String,
    flags: Flags,
    /// The time from the file name or from a list.
    received: Option<Timestamp>,
    /// Set if the file is marked to hold the message exactly as it was on the wire.
    as_is: bool,
}

impl MessageFile {
    /// Returns a checksum that identifies this message in the progress record.
    fn checksum(&self) -> u64 {
        ImportPosition::digest(format!("{}\0{}\0{}", self.mailbox, self.base, self.file.size).as_bytes())
    }
}

impl<'a> Import<'a, '_, '_> {
    /// Imports an mbox file, or all files in a folder and its subfolders, each into the mailbox of its name.
    fn import_mboxes(&mut self, path: &Path) -> Result<(), AdminError> {
        if !is_folder(path) {
            return self.import_mbox(path, path, &self.request.folder);
        }
        for file in self.regular_files(mail_files::files_below(path)?) {
            if flag_list::is_list(&file.path) {
                continue;
            }
            match self.import_mbox(path, &file.path, &mail_files::mailbox_of_mbox(path, &file.path)) {
                Err(failure @ AdminError::File { .. }) => self.skipped.add(failure),
                other => other?,
            }
        }
        Ok(())
    }

    /// Returns the regular files of a listing, and reports the others as left out.
    fn regular_files(&mut self, listing: FileListing) -> Vec<FileEntry> {
        listing.others.iter().for_each(|path| self.skipped.add(format!("{}: {NOT_REGULAR}", path.display())));
        listing.files
    }

    /// Imports an mbox file that is `named` or lies below it.
    fn import_mbox(&mut self, named: &Path, path: &Path, mailbox: &str) -> Result<(), AdminError> {
        let flags = MessageFlagList::read(named, &flag_list::list_path(path))?;
        let input = open_below(named, path).map_err(AdminError::file(path))?;
        let mut importer = self.start_importer(&[path.to_owned()], mailbox)?;
        let done = self.mbox_messages(&mut importer, (path, mailbox), input, &flags);
        self.finish(importer, done)
    }

    fn mbox_messages(
        &mut self,
        importer: &mut Importer<'_>,
        (path, mailbox): (&Path, &str),
        mut input: File,
        flags: &MessageFlagList,
    ) -> Result<(), AdminError> {
        let total = input.metadata().ok().map(|facts| facts.len());
        let mut reader = self.mbox_reader(importer, path, &mut input)?;
        let mut count: u64 = 0;
        let step = display_name(path);
        let mut done = 0;
        while let Some(message) = reader.next_message().map_err(AdminError::file(path))? {
            count += 1;
            done = message.next_offset;
            if message.truncated {
                let at = message.offset;
                let path = path.display();
                self.skipped.add(format!("{path}, message at byte {at}: longer than {MESSAGE_BYTES_MAX} bytes"));
                importer.mark_incomplete();
                continue;
            }
            importer.add(with_listed_flags(message, mailbox, flags))?;
            if count.is_multiple_of(REPORT_EVERY) {
                report_step(self.report, Progress { step: step.clone(), done, total, unit: Unit::Bytes })?;
            }
        }
        if !count.is_multiple_of(REPORT_EVERY) {
            report_step(self.report, Progress { step, done, total, unit: Unit::Bytes })?;
        }
        Ok(())
    }

    /// Returns a reader that is positioned behind the part imported already.
    fn mbox_reader<'i>(
        &mut self,
        importer: &mut Importer<'_>,
        path: &Path,
        input: &'i mut File,
    ) -> Result<MboxReader<BufReader<&'i File>>, AdminError> {
        let position = importer.position()?;
        let offset = position.map_or(0, |position| position.offset);
        input.seek(SeekFrom::Start(offset)).map_err(AdminError::file(path))?;
        let input: &File = input;
        let start = |offset| MboxReader::new(BufReader::with_capacity(READ_BYTES, input), offset);
        let mut reader = start(offset);
        let Some(position) = position else { return Ok(reader) };
        match reader.next_message() {
            Ok(Some(message)) if message.position() == position => return Ok(reader),
            Err(error) if error.kind() != io::ErrorKind::InvalidData => return Err(AdminError::file(path)(error)),
            _ => {}
        }
        self.restart_source(importer, &[path.to_owned()]);
        let mut input = input;
        input.seek(SeekFrom::Start(0)).map_err(AdminError::file(path))?;
        Ok(start(0))
    }

    fn import_maildir(&mut self, path: &Path) -> Result<(), AdminError> {
        let mut messages = Vec::new();
        for (folder, mailbox) in self.maildir_folders(path)? {
            let mailbox = if mailbox == "INBOX" { self.request.folder.clone() } else { mailbox };
            let keywords = self.keywords(path, &folder);
            for (part, seen_before) in [("cur", true), ("new", false)] {
                for file in self.maildir_files(&folder.join(part))? {
                    if file.name().starts_with('.') {
                        self.skipped.add(format!("{}: its name is not that of a message", file.path.display()));
                        continue;
                    }
                    messages.push(maildir_message(file, &mailbox, seen_before.then_some(&keywords)));
                }
            }
        }
        messages.sort_by_cached_key(|message| {
            (maildir::time_of(&message.base), message.mailbox.clone(), message.base.clone())
        });
        self.import_files(&[path.to_owned()], &messages, FileLineEnding::Lf)
    }

    /// Returns the folders of a Maildir with the names of their mailboxes. Links to folders are reported as left out.
    fn maildir_folders(&mut self, top: &Path) -> Result<Vec<(PathBuf, String)>, AdminError> {
        let cur = top.join("cur");
        if let Some(other) = [top, cur.as_path()].into_iter().find(|path| path.exists() && !is_folder(path)) {
            return Err(AdminError::Refused(format!("{}: {NOT_FOLDER}", other.display())));
        }
        if !is_folder(&cur) {
            return Err(AdminError::Refused(format!("{} is not a Maildir: it has no folder cur", top.display())));
        }
        let mut folders = vec![(top.to_owned(), "INBOX".to_owned())];
        for entry in std::fs::read_dir(top).map_err(AdminError::file(top))? {
            let path = entry.map_err(AdminError::file(top))?.path();
            let name = display_name(&path);
            let cur = path.join("cur");
            // A link that looks like a folder of mail is followed here, so that it can be reported.
            if !name.starts_with('.') || !cur.is_dir() {
                continue;
            }
            let link = [&path, &cur].into_iter().find(|path| !is_folder(path)).cloned();
            match link {
                None => folders.push((path, mail_files::sanitized_mailbox_name(&maildir::mailbox_of(&name)))),
                Some(link) => self.skipped.add(format!("{}: {NOT_FOLDER}", link.display())),
            }
        }
        folders.sort();
        Ok(folders)
    }

    /// Lists the files in `cur` or `new` of a Maildir folder.
    fn maildir_files(&mut self, part: &Path) -> Result<Vec<FileEntry>, AdminError> {
        if is_folder(part) {
            let listing = mail_files::files_of(part)?;
            return Ok(self.regular_files(listing));
        }
        if part.exists() {
            self.skipped.add(format!("{}: {NOT_FOLDER}", part.display()));
        }
        Ok(Vec::new())
    }

    /// Reads the keyword names of a folder of the Maildir `top`.
    fn keywords(&mut self, top: &Path, folder: &Path) -> KeywordTable {
        let path = folder.join(maildir::KEYWORDS_FILE);
        match open_below(top, &path).and_then(|file| read_content(file, KEYWORDS_BYTES_MAX)) {
            Ok(bytes) => KeywordTable::read(&String::from_utf8_lossy(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => KeywordTable::default(),
            Err(error) => {
                self.skipped.add(AdminError::file(&path)(error));
                KeywordTable::default()
            }
        }
    }

    /// Imports all message files in a folder and its subfolders, or single files.
    fn import_single_files(&mut self, paths: &[PathBuf]) -> Result<(), AdminError> {
        let messages = match paths {
            [path] if is_folder(path) => self.files_in_folder(path)?,
            files => self.named_files(files),
        };
        self.import_files(paths, &messages, FileLineEnding::Crlf)
    }

    fn named_files(&mut self, files: &[PathBuf]) -> Vec<MessageFile> {
        let mut lists = FlagListCache::default();
        let mut messages = Vec::new();
        for path in files {
            match lists.list_for(path, path) {
                Ok(list) => {
                    messages.push(single_file_message(FileEntry::read(path), self.request.folder.clone(), list))
                }
                Err(failure) => self.skipped.add(failure),
            }
        }
        messages
    }

    fn files_in_folder(&mut self, path: &Path) -> Result<Vec<MessageFile>, AdminError> {
        let mut lists = FlagListCache::default();
        let mut messages = Vec::new();
        for file in self.regular_files(mail_files::files_below(path)?) {
            if file.name() == flag_list::FOLDER_LIST {
                continue;
            }
            if !is_message_file_name(&file.name()) {
                self.skipped
                    .add(format!("{}: its name is not that of a message (.eml, or a number)", file.path.display()));
                continue;
            }
            let folder = file.path.parent().unwrap_or(path);
            let is_top = folder == path;
            let mailbox =
                if is_top { self.request.folder.clone() } else { mail_files::mailbox_of_folder(path, folder) };
            let list = lists.list_for(path, &file.path)?;
            messages.push(single_file_message(file, mailbox, list));
        }
        Ok(messages)
    }

    /// Imports messages from files of their own, in the given order.
    fn import_files(
        &mut self,
        source: &[PathBuf],
        messages: &[MessageFile],
        usual: FileLineEnding,
    ) -> Result<(), AdminError> {
        let mut importer = self.start_importer(source, &self.request.folder)?;
        let done = self.import_remaining_files(&mut importer, source, messages, usual);
        self.finish(importer, done)
    }

    fn import_remaining_files(
        &mut self,
        importer: &mut Importer<'_>,
        source: &[PathBuf],
        messages: &[MessageFile],
        usual: FileLineEnding,
    ) -> Result<(), AdminError> {
        let mut next = self.imported_position(importer, source, messages)?;
        let total = Some(messages.len() as u64);
        let step = source.first().map_or_else(String::new, |path| display_name(path));
        for message in messages.get(usize::try_from(next.offset).unwrap_or(usize::MAX)..).unwrap_or_default() {
            next = ImportPosition { offset: next.offset + 1, check: next.check.wrapping_add(message.checksum()) };
            match read_message(source, &message.file.path) {
                Ok(raw) => importer.add(imported_message(message, raw, usual, next))?,
                Err(error) => {
                    self.skipped.add(error);
                    importer.mark_incomplete();
                }
            }
            if next.offset.is_multiple_of(REPORT_EVERY) || Some(next.offset) == total {
                report_step(
                    self.report,
                    Progress { step: step.clone(), done: next.offset, total, unit: Unit::Messages },
                )?;
            }
        }
        Ok(())
    }

    /// Returns how many of these messages are imported already, with the sum of their checksums. Returns zero if the
    /// files are not the recorded ones.
    fn imported_position(
        &mut self,
        importer: &mut Importer<'_>,
        source: &[PathBuf],
        messages: &[MessageFile],
    ) -> Result<ImportPosition, AdminError> {
        let Some(position) = importer.position()? else { return Ok(ImportPosition::default()) };
        let done = messages.get(..usize::try_from(position.offset).unwrap_or(usize::MAX)).unwrap_or_default();
        let check = done.iter().fold(0_u64, |sum, message| sum.wrapping_add(message.checksum()));
        if done.len() as u64 == position.offset && check == position.check {
            return Ok(position);
        }
        self.restart_source(importer, source);
        Ok(ImportPosition::default())
    }

    fn restart_source(&mut self, importer: &mut Importer<'_>, source: &[PathBuf]) {
        importer.restart();
        let first = source.first().map_or_else(String::new, |path| path.display().to_string());
        let more = if source.len() > 1 { format!(" to {} files", source.len()) } else { String::new() };
        self.changed.push(format!(
            "{first}{more} has changed since its import was interrupted: it was read from the beginning, and messages that were already imported were left out."
        ));
    }

    /// Starts the import of a source into a mailbox. The same source with another mailbox is a separate import.
    fn start_importer(&mut self, paths: &[PathBuf], mailbox: &str) -> Result<Importer<'a>, AdminError> {
        let options = ImportOptions { skip_duplicates: self.request.skip_duplicates };
        let source = format!("{:?} {mailbox:?} {}", self.request.format, source_name(paths));
        let mut importer = Importer::new(self.file, &source, options)?;
        self.sources.push(source);
        if self.is_forgetful && importer.position()?.is_none() {
            importer.restart();
        }
        Ok(importer)
    }

    fn finish(&mut self, importer: Importer<'_>, outcome: Result<(), AdminError>) -> Result<(), AdminError> {
        let (done, outcome) = match outcome {
            Ok(()) => {
                let before = importer.report();
                match importer.finish() {
                    Ok(done) => (done, Ok(())),
                    Err(error) => (before, Err(error.into())),
                }
            }
            Err(failure) => (importer.stop(), Err(failure)),
        };
        self.sum.messages += done.messages;
        self.sum.bytes += done.bytes;
        self.sum.duplicates += done.duplicates;
        self.sum.keywords_left_out += done.keywords_left_out;
        self.sum.sources_done += done.sources_done;
        outcome
    }

    /// Adds to a failure the number of messages imported before it.
    fn with_partial_result(&self, failure: AdminError) -> AdminError {
        if matches!(failure, AdminError::Refused(_)) && self.sum == ImportReport::default() {
            return failure;
        }
        let ImportReport { messages, bytes, duplicates, .. } = self.sum;
        let there = if duplicates > 0 {
            format!("; {} already there", format_count(duplicates, "was", "were"))
        } else {
            String::new()
        };
        let same = if self.request.restart { "The same command without --restart" } else { "The same command" };
        let done = format!(
            "Imported before that and kept: {} ({}){there}. {same} continues where it stopped.",
            format_count(messages, "message", "messages"),
            format_count(bytes, "byte", "bytes")
        );
        failure.with_partial_result(done)
    }

    fn answer(self) -> Answer {
        let sum = self.sum;
        let mut answer = Answer::record(vec![
            ("messages", json!(sum.messages)),
            ("size_bytes", json!(sum.bytes)),
            ("duplicates", json!(sum.duplicates)),
            ("already_imported", json!(sum.sources_done)),
            ("skipped", json!(self.skipped.reasons())),
        ]);
        answer.messages = self.changed;
        if sum.sources_done > 0 {
            let files = format_count(sum.sources_done, "file or folder", "files or folders");
            answer.messages.push(format!(
                "{files} skipped: already imported by an interrupted command and unchanged since; --restart imports everything again."
            ));
        }
        if sum.keywords_left_out > 0 {
            let keywords = format_count(sum.keywords_left_out, "keyword was", "keywords were");
            let reason = "the mailbox has reached its limit of different keywords";
            answer.messages.push(format!("{keywords} left out: {reason}."));
        }
        answer.failure = self.skipped.failure_text();
        answer
    }
}

/// Reads a message of a source: one of its files, or a file below its only folder.
fn read_message(source: &[PathBuf], path: &Path) -> Result<Vec<u8>, AdminError> {
    let named = if let [named] = source { named.as_path() } else { path };
    let content = open_below(named, path).and_then(|file| read_content(file, MESSAGE_BYTES_MAX as u64));
    content.map_err(AdminError::file(path))
}

/// Returns a name for the files that does not depend on the working directory. For several files it is the path of the
/// first, with a digest of the others.
fn source_name(paths: &[PathBuf]) -> String {
    let whole = |path: &PathBuf| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let mut names = paths.iter().map(|path| whole(path).as_os_str().as_encoded_bytes().escape_ascii().to_string());
    let first = names.next().unwrap_or_default();
    if paths.len() < 2 {
        return first;
    }
    let all: Vec<String> = names.collect();
    format!("{first} {:016x}", ImportPosition::digest(all.join("\n").as_bytes()))
}

/// Converts a message of an mbox file for the import, with flags and time from the list beside the file.
fn with_listed_flags(message: MboxMessage, mailbox: &str, flags: &MessageFlagList) -> ImportedMessage {
    let known = flags.find(&message.offset.to_string()).cloned();
    let mut imported = message.into_imported(mailbox);
    if let Some((flags, received)) = known {
        imported.flags = flags;
        imported.received = Some(received);
    }
    imported
}

fn imported_message(
    message: &MessageFile,
    raw: Vec<u8>,
    usual: FileLineEnding,
    next_position: ImportPosition,
) -> ImportedMessage {
    let (raw, line_ends) = if message.as_is { from_marked_file(raw, usual) } else { from_file(raw, usual) };
    ImportedMessage {
        mailbox: message.mailbox.clone(),
        flags: message.flags.clone(),
        received: message.received.or_else(|| time_of(&raw)).or(message.file.modified),
        raw,
        form: FileQuirks { line_ends, ..FileQuirks::default() },
        next_position,
    }
}

/// Creates a message from a file of a Maildir. Files in `new` have neither flags nor keywords.
fn maildir_message(file: FileEntry, mailbox: &str, keywords: Option<&KeywordTable>) -> MessageFile {
    let name = file.name();
    // A delivery sets both times to the same value. Dovecot sets the file's time to the one that the client gave;
    // careless copies make it later.
    let received = maildir::time_of(&name).map(|named| file.modified.map_or(named, |modified| modified.min(named)));
    let size = usize::try_from(file.size).unwrap_or(usize::MAX);
    MessageFile {
        mailbox: mailbox.to_owned(),
        base: maildir::unique_name(&name).to_owned(),
        flags: keywords.map_or_else(Flags::none, |keywords| maildir::flags_of(&name, keywords)),
        received,
        as_is: maildir::is_marked_as_wire(&name, size),
        file,
    }
}

/// Creates a message from a single file.
fn single_file_message(file: FileEntry, mailbox: String, list: &MessageFlagList) -> MessageFile {
    let name = file.name();
    let (flags, received) = match list.find(&name) {
        Some((flags, received)) => (flags.clone(), Some(*received)),
        None => (Flags::none(), None),
    };
    let as_is = name.ends_with(WIRE_FORM_SUFFIX);
    MessageFile { mailbox, base: file.path.to_string_lossy().into_owned(), flags, received, as_is, file }
}

/// Suffix of a single file whose message has bare LFs on the wire too.
pub(super) const WIRE_FORM_SUFFIX: &str = ".as-is.eml";

/// Returns `true` if the name is that of a message file: `NAME.eml`, or a number as in MH folders.
fn is_message_file_name(name: &str) -> bool {
    let is_eml = without_ending(name, ".eml").is_some();
    is_eml || (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
