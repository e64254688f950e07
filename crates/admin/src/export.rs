//! `doublet export`: writes a mailbox into mbox files, a Maildir or single files.
//!
//! `doublet import` turns these files back into the same messages, byte for byte as they are on the wire. Messages that
//! were imported from such a file are written in the form they had in it; see [`mail::import_export`]. Maildirs hold
//! flags and keywords; for the other formats these are written to a list beside the files if requested. A file that
//! holds a single message has the time of the message as its modification time.
//!
//! An existing file is never overwritten. Damaged messages are left out and named; the command writes the rest and then
//! fails.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use base::{Timestamp, Uid};
use instance::Instance;
use mail::import_export::FileQuirks;
use mail::import_export::line_endings::{FileLineEnding, to_file};
use mail::import_export::maildir::{self, KeywordTable};
use mail::import_export::mbox::MboxWriter;
use mail::mailbox::{Flags, Folder, MailSnapshot};
use notes::FolderEntry;
use serde_json::json;

use super::flag_list::{self, FlagListWriter};
use super::import::{Skipped, WIRE_FORM_SUFFIX};
use super::mail_files::{create, mailbox_path, make_folder, system_time};
use super::request::{ExportRequest, MailFormat};
use super::{AdminError, AdminResult, Answer, Progress, ProgressCallback, Unit, format_count, people, report_step};

/// Number of messages between two progress reports.
const REPORT_EVERY: u64 = 100;

pub(super) fn execute(instance: &Instance, request: &ExportRequest, report: &mut ProgressCallback<'_>) -> AdminResult {
    let person = people::find(instance, &request.user)?;
    let file = instance.mail.open_as_operator(&person.mail_file, &instance.directory.options().server)?;
    let snapshot = file.snapshot()?;
    let folders = wanted_folders(&snapshot, &request.folders)?;
    make_folder(&request.to)?;
    let total = folders.iter().try_fold(0_u64, |sum, folder| {
        let status = snapshot.status(folder.id)?;
        Ok::<_, AdminError>(sum.saturating_add(u64::from(status.messages)))
    })?;
    let mut export = Export {
        request,
        snapshot: &snapshot,
        total,
        seen: 0,
        messages: 0,
        bytes: 0,
        skipped: Skipped::default(),
        keywords_left_out: 0,
        report,
    };
    for folder in &folders {
        export.export_folder(folder)?;
    }
    let mut answer = Answer::record(vec![
        ("messages", json!(export.messages)),
        ("size_bytes", json!(export.bytes)),
        ("folders", json!(folders.iter().map(|folder| &folder.name).collect::<Vec<_>>())),
        ("to", json!(request.to.display().to_string())),
        ("skipped", json!(export.skipped.reasons())),
    ]);
    if export.keywords_left_out > 0 {
        let count = export.keywords_left_out;
        answer.messages.push(format!(
            "{} left out: a Maildir folder can have at most 26 keywords.",
            format_count(count, "keyword was", "keywords were")
        ));
    }
    answer.failure = export.skipped.failure_text();
    Ok(answer)
}

struct Export<'a, 'v, 'r> {
    request: &'a ExportRequest,
    snapshot: &'a MailSnapshot<'v>,
    total: u64,
    /// Number of messages written or left out so far.
    seen: u64,
    messages: u64,
    bytes: u64,
    skipped: Skipped,
    keywords_left_out: usize,
    report: &'a mut ProgressCallback<'r>,
}

/// A message to be written into a file.
struct OutgoingMessage {
    raw: Vec<u8>,
    form: FileQuirks,
    uid: Uid,
    received: Timestamp,
    flags: Flags,
}

/// Destination for the messages of one folder.
enum FolderWriter {
    Mbox { out: MboxWriter<BufWriter<File>>, path: PathBuf, flags: Option<FlagListWriter> },
    Maildir { folder: PathBuf, keywords: KeywordTable },
    Eml { folder: PathBuf, flags: Option<FlagListWriter> },
}

impl Export<'_, '_, '_> {
    fn export_folder(&mut self, folder: &Folder) -> Result<(), AdminError> {
        let mut sink = FolderWriter::open(self.request, &folder.name)?;
        let snapshot = self.snapshot;
        let mut failure = None;
        let mut last = Uid(0);
        let listed = snapshot.entries(folder.id, Uid(1)..=Uid(u32::MAX), &mut |entry| {
            last = entry.uid;
            Ok(match self.export_message(&mut sink, &folder.name, &entry) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            })
        });
        if let Err(error) = listed {
            self.skipped.add(format!("{}, messages after UID {last}: {}", folder.name, AdminError::from(error)));
        }
        match failure {
            Some(failure) => Err(failure),
            None => sink.close(),
        }
    }

    fn export_message(&mut self, sink: &mut FolderWriter, folder: &str, entry: &FolderEntry) -> Result<(), AdminError> {
        match self.read_message(entry) {
            Ok(Some(letter)) => {
                self.keywords_left_out += sink.write(&letter)?;
                self.messages += 1;
                self.bytes = self.bytes.saturating_add(letter.raw.len() as u64);
            }
            Ok(None) => {}
            Err(error) => self.skipped.add(format!("{folder}, UID {}: {}", entry.uid, AdminError::from(error))),
        }
        self.seen += 1;
        if self.seen.is_multiple_of(REPORT_EVERY) || self.seen == self.total {
            let step = "exporting".to_owned();
            report_step(
                self.report,
                Progress { step, done: self.seen, total: Some(self.total), unit: Unit::Messages },
            )?;
        }
        Ok(())
    }

    fn read_message(&self, entry: &FolderEntry) -> mail::Result<Option<OutgoingMessage>> {
        let Some(message) = self.snapshot.message(entry.note)? else {
            return Ok(None);
        };
        let raw = message.raw()?;
        let form = message.file_form()?;
        let flags = self.snapshot.flags(entry);
        Ok(Some(OutgoingMessage { raw, form, uid: entry.uid, received: entry.received, flags }))
    }
}

impl FolderWriter {
    fn open(request: &ExportRequest, mailbox: &str) -> Result<Self, AdminError> {
        let to = &request.to;
        let list = |path: &Path| request.flags.then(|| FlagListWriter::create(path)).transpose();
        match request.format {
            MailFormat::Mbox => {
                let path = to.join(mailbox_path(mailbox, ".mbox"));
                path.parent().map_or(Ok(()), make_folder)?;
                let out = MboxWriter::new(BufWriter::new(create(&path)?));
                Ok(Self::Mbox { out, flags: list(&flag_list::list_path(&path))?, path })
            }
            MailFormat::Maildir => {
                let folder = to.join(maildir::directory_of(mailbox));
                for part in ["cur", "new", "tmp"] {
                    make_folder(&folder.join(part))?;
                }
                if folder.join(maildir::KEYWORDS_FILE).exists() {
                    let text = format!("{} is already in use; export into another folder", folder.display());
                    return Err(AdminError::Refused(text));
                }
                Ok(Self::Maildir { folder, keywords: KeywordTable::default() })
            }
            MailFormat::Eml => {
                let folder = to.join(mailbox_path(mailbox, ""));
                make_folder(&folder)?;
                Ok(Self::Eml { flags: list(&folder.join(flag_list::FOLDER_LIST))?, folder })
            }
        }
    }

    /// Writes a message. Returns the number of its keywords that the format has no place for.
    fn write(&mut self, letter: &OutgoingMessage) -> Result<usize, AdminError> {
        let wanted = |usual| letter.form.line_ends.unwrap_or(usual);
        match self {
            Self::Mbox { out, path, flags } => {
                let offset = out.write(&letter.raw, letter.received, &letter.form).map_err(AdminError::file(path))?;
                write_flags(flags, &offset.to_string(), letter)?;
                Ok(0)
            }
            Self::Maildir { folder, keywords } => {
                let file = to_file(&letter.raw, wanted(FileLineEnding::Lf));
                let (name, left_out) = maildir::MessageFileName {
                    received: letter.received,
                    unique: u64::from(letter.uid.0),
                    size: file.bytes.len(),
                    has_wire_line_ends: file.needs_wire_mark,
                    flags: &letter.flags,
                }
                .file_name(keywords);
                write_file(&folder.join("cur").join(name), &file.bytes, letter.received)?;
                Ok(left_out)
            }
            Self::Eml { folder, flags } => {
                let file = to_file(&letter.raw, wanted(FileLineEnding::Crlf));
                let name =
                    format!("{:08}{}", letter.uid.0, if file.needs_wire_mark { WIRE_FORM_SUFFIX } else { ".eml" });
                write_file(&folder.join(&name), &file.bytes, letter.received)?;
                write_flags(flags, &name, letter)?;
                Ok(0)
            }
        }
    }

    fn close(self) -> Result<(), AdminError> {
        let flags = match self {
            Self::Mbox { out, path, flags } => {
                out.finish().map_err(AdminError::file(&path))?;
                flags
            }
            Self::Maildir { folder, keywords } => {
                if let Some(text) = keywords.to_file() {
                    let path = folder.join(maildir::KEYWORDS_FILE);
                    create(&path)?.write_all(text.as_bytes()).map_err(AdminError::file(&path))?;
                }
                None
            }
            Self::Eml { flags, .. } => flags,
        };
        flags.map_or(Ok(()), FlagListWriter::finish)
    }
}

fn write_flags(list: &mut Option<FlagListWriter>, message: &str, letter: &OutgoingMessage) -> Result<(), AdminError> {
    list.as_mut().map_or(Ok(()), |list| list.write(message, &letter.flags, letter.received))
}

/// Writes a file and sets its modification time to the time of the message.
fn write_file(path: &Path, content: &[u8], received: Timestamp) -> Result<(), AdminError> {
    let mut file = create(path)?;
    let written = file.write_all(content).and_then(|()| file.set_modified(system_time(received)));
    written.map_err(AdminError::file(path))
}

fn wanted_folders(snapshot: &MailSnapshot<'_>, names: &[String]) -> Result<Vec<Folder>, AdminError> {
    if names.is_empty() {
        let mut folders = snapshot.folders()?;
        folders.retain(|folder| folder.selectable);
        return Ok(folders);
    }
    let find = |name: &String| snapshot.folder(name)?.ok_or_else(|| mail::Error::NoMailbox(name.clone()).into());
    names.iter().map(find).collect()
}
