//! `doublet export`: a mailbox into mbox files, a Maildir or single files, byte for byte.
//!
//! An existing file is never overwritten.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use base::Uid;
use mail::mailbox::{Flags, Folder, MailView};
use mail::mime::Source;
use mail::transport::{line_ends, maildir, mbox};
use notes::Entry;
use serde_json::json;

use super::request::{ExportRequest, MailFormat};
use super::{Answer, Failure, Outcome, Progress, Report, Unit, people, step};
use crate::core::Core;

/// Messages between two reports of progress.
const REPORT_EVERY: u64 = 100;

pub(super) fn execute(core: &Core, request: &ExportRequest, report: &mut Report<'_>) -> Outcome {
    let person = people::find(core, &request.user)?;
    let file = core.mail.open_as_server(&person.mail_file)?;
    let view = file.view()?;
    let folders = wanted_folders(&view, &request.folders)?;
    make_folder(&request.to)?;
    let total = folders.iter().try_fold(0_u64, |sum, folder| {
        let status = view.status(folder.id)?;
        Ok::<_, Failure>(sum.saturating_add(u64::from(status.messages)))
    })?;
    let mut export = Export { request, view: &view, total, messages: 0, bytes: 0, report };
    for folder in &folders {
        export.folder(folder)?;
    }
    Ok(Answer::record(vec![
        ("messages", json!(export.messages)),
        ("size_bytes", json!(export.bytes)),
        ("folders", json!(folders.iter().map(|folder| &folder.name).collect::<Vec<_>>())),
        ("to", json!(request.to.display().to_string())),
    ]))
}

struct Export<'a, 'v, 'r> {
    request: &'a ExportRequest,
    view: &'a MailView<'v>,
    total: u64,
    messages: u64,
    bytes: u64,
    report: &'a mut Report<'r>,
}

/// Where the messages of one folder go.
enum Sink {
    Mbox(BufWriter<File>, PathBuf),
    Maildir(PathBuf),
    Eml(PathBuf),
}

impl Export<'_, '_, '_> {
    fn folder(&mut self, folder: &Folder) -> Result<(), Failure> {
        let mut sink = Sink::open(self.request.format, &self.request.to, &folder.name)?;
        let view = self.view;
        let mut failure = None;
        view.entries(folder.id, Uid(1)..=Uid(u32::MAX), &mut |entry| match self.message(&mut sink, &entry) {
            Ok(()) => Ok(ControlFlow::Continue(())),
            Err(error) => {
                failure = Some(error);
                Ok(ControlFlow::Break(()))
            }
        })?;
        match failure {
            Some(failure) => Err(failure),
            None => sink.close(),
        }
    }

    fn message(&mut self, sink: &mut Sink, entry: &Entry) -> Result<(), Failure> {
        let Some(message) = self.view.message(entry.note)? else {
            return Ok(());
        };
        let raw = message.raw()?;
        let sender = sender_of(message.header());
        sink.write(&raw, &sender, (entry, &self.view.flags(entry)))?;
        self.messages += 1;
        self.bytes = self.bytes.saturating_add(raw.len() as u64);
        if self.messages.is_multiple_of(REPORT_EVERY) {
            let what = "exporting".to_owned();
            step(self.report, Progress { what, done: self.messages, total: Some(self.total), unit: Unit::Messages })?;
        }
        Ok(())
    }
}

impl Sink {
    fn open(format: MailFormat, to: &Path, mailbox: &str) -> Result<Self, Failure> {
        match format {
            MailFormat::Mbox => {
                let path = to.join(format!("{}.mbox", file_name_of(mailbox)));
                Ok(Self::Mbox(BufWriter::new(create(&path)?), path))
            }
            MailFormat::Maildir => {
                let folder = to.join(maildir::directory_of(mailbox));
                for part in ["cur", "new", "tmp"] {
                    make_folder(&folder.join(part))?;
                }
                Ok(Self::Maildir(folder.join("cur")))
            }
            MailFormat::Eml => {
                let folder = to.join(mailbox.split('/').map(file_name_of).collect::<PathBuf>());
                make_folder(&folder)?;
                Ok(Self::Eml(folder))
            }
        }
    }

    fn write(&mut self, raw: &[u8], sender: &str, (entry, flags): (&Entry, &Flags)) -> Result<(), Failure> {
        let (path, content) = match self {
            Self::Mbox(out, path) => {
                let written = mbox::write_message(out, &line_ends::to_file(raw), sender, entry.received);
                return written.map_err(Failure::file(path));
            }
            Self::Maildir(folder) => {
                let name = maildir::file_name(entry.received, u64::from(entry.uid.0), raw.len(), flags);
                (folder.join(name), line_ends::to_file(raw))
            }
            Self::Eml(folder) => (folder.join(format!("{:08}.eml", entry.uid.0)), raw.into()),
        };
        let mut file = create(&path)?;
        file.write_all(&content).map_err(Failure::file(&path))
    }

    fn close(self) -> Result<(), Failure> {
        match self {
            Self::Mbox(mut out, path) => out.flush().map_err(Failure::file(&path)),
            Self::Maildir(_) | Self::Eml(_) => Ok(()),
        }
    }
}

fn wanted_folders(view: &MailView<'_>, names: &[String]) -> Result<Vec<Folder>, Failure> {
    if names.is_empty() {
        let mut folders = view.folders()?;
        folders.retain(|folder| folder.selectable);
        return Ok(folders);
    }
    let find = |name: &String| view.folder(name)?.ok_or_else(|| mail::Error::NoMailbox(name.clone()).into());
    names.iter().map(find).collect()
}

/// Gives the address of the sender, for the separators of mbox files.
fn sender_of(header: &[u8]) -> String {
    let field = ["Return-Path", "From", "Sender"].into_iter().find_map(|name| mail::mime::header::first(header, name));
    let mailbox = field.and_then(|value| mail::mime::address::mailboxes(value).next());
    mailbox.map(|mailbox| mailbox.address()).unwrap_or_default()
}

/// Makes a name for a file out of any text.
fn file_name_of(text: &str) -> String {
    let name: String = text.chars().map(|c| if c == '/' || c.is_control() { '.' } else { c }).collect();
    if name.is_empty() || name.starts_with('.') { format!("_{name}") } else { name }
}

fn create(path: &Path) -> Result<File, Failure> {
    OpenOptions::new().write(true).create_new(true).open(path).map_err(Failure::file(path))
}

fn make_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(Failure::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_mailboxes_and_never_leave_their_folder() {
        let check = |mailbox: &str, expected: &str| assert_eq!(file_name_of(mailbox), expected);
        check("INBOX", "INBOX");
        check("Projects/2026", "Projects.2026");
        check("..", "_..");
        check("../../etc", "_......etc");
        check("", "_");
        check("a\u{0}b", "a.b");
    }

    #[test]
    fn senders_are_found_in_the_header() {
        assert_eq!(sender_of(b"Return-Path: <a@b.test>\r\nFrom: C <c@d.test>\r\n\r\n"), "a@b.test");
        assert_eq!(sender_of(b"From: C <c@d.test>\r\n\r\n"), "c@d.test");
        assert_eq!(sender_of(b"\r\n"), "");
    }
}
