//! `doublet import`: mail from mbox files, Maildirs and single files into a mailbox.
//!
//! Files are opened here and their bytes handed to [`mail::transport`]. An import of the same file goes on where an interrupted
//! one has stopped. What cannot be read is named at the end and does not stop the rest.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use base::Timestamp;
use base::limits::MESSAGE_BYTES_MAX;
use mail::mailbox::{Flags, MailFile};
use mail::transport::mbox::MboxReader;
use mail::transport::{ImportOptions, ImportReport, ImportedMessage, Importer, line_ends, maildir};
use serde_json::json;

use super::request::{ImportRequest, MailFormat};
use super::{Answer, Failure, Outcome, Progress, Report, Unit, people, step};
use crate::core::Core;
use crate::data::read_limited;

/// Messages between two reports of progress.
const REPORT_EVERY: u64 = 100;

/// Deepest nesting of folders that is looked into.
const FOLDER_DEPTH_MAX: usize = 16;

/// Bytes of an mbox file that are read at once.
const READ_BYTES: usize = 1 << 20;

pub(super) fn execute(core: &Core, request: &ImportRequest, report: &mut Report<'_>) -> Outcome {
    let person = people::find(core, &request.user)?;
    core.mail.ensure(&person.mail_file, &person.display_name(), &person.name, person.quota_bytes)?;
    let file = core.mail.open_as_server(&person.mail_file)?;
    let mut import = Import { file: &file, request, sum: ImportReport::default(), skipped: Vec::new(), report };
    for path in &request.files {
        match request.format {
            MailFormat::Mbox => import.mboxes(path)?,
            MailFormat::Maildir => import.maildir(path)?,
            MailFormat::Eml => import.letters(path)?,
        }
    }
    let (sum, skipped) = (import.sum, import.skipped);
    let mut answer = Answer::record(vec![
        ("messages", json!(sum.messages)),
        ("size_bytes", json!(sum.bytes)),
        ("duplicates", json!(sum.duplicates)),
        ("skipped", json!(skipped)),
    ]);
    if !skipped.is_empty() {
        answer.says.push(format!("{} were left out; they are named above.", skipped.len()));
    }
    Ok(answer)
}

struct Import<'a, 'p, 'r> {
    file: &'a MailFile,
    request: &'a ImportRequest,
    sum: ImportReport,
    /// What could not be imported, and why.
    skipped: Vec<String>,
    report: &'p mut Report<'r>,
}

/// A message in a file of its own.
struct Letter {
    path: PathBuf,
    mailbox: String,
    flags: Flags,
    received: Option<Timestamp>,
}

impl<'a> Import<'a, '_, '_> {
    /// Imports an mbox file, or all files of a folder, each into the mailbox of its name.
    fn mboxes(&mut self, path: &Path) -> Result<(), Failure> {
        if !path.is_dir() {
            return self.mbox(path, &self.request.folder);
        }
        for file in files_of(path)? {
            let mailbox = mailbox_of(path, &file);
            self.mbox(&file, &mailbox)?;
        }
        Ok(())
    }

    fn mbox(&mut self, path: &Path, mailbox: &str) -> Result<(), Failure> {
        let mut importer = self.importer(&source_name(path))?;
        let position = importer.position()?;
        let mut input = File::open(path).map_err(Failure::file(path))?;
        let total = input.metadata().ok().map(|facts| facts.len());
        input.seek(SeekFrom::Start(position)).map_err(Failure::file(path))?;
        let mut reader = MboxReader::new(BufReader::with_capacity(READ_BYTES, input), position);
        let mut count: u64 = 0;
        while let Some(message) = reader.next_message().map_err(Failure::file(path))? {
            count += 1;
            let (done, next_position) = (message.next_offset, message.next_offset);
            if message.truncated {
                self.skipped
                    .push(format!("{}, message {count}: longer than {MESSAGE_BYTES_MAX} bytes", path.display()));
                continue;
            }
            importer.add(ImportedMessage {
                mailbox: mailbox.to_owned(),
                raw: line_ends::to_wire(message.raw),
                flags: Flags::none(),
                received: message.received,
                next_position,
            })?;
            if count.is_multiple_of(REPORT_EVERY) {
                step(self.report, Progress { what: name_of(path), done, total, unit: Unit::Bytes })?;
            }
        }
        self.finish(importer)
    }

    fn maildir(&mut self, path: &Path) -> Result<(), Failure> {
        let mut letters = Vec::new();
        for (folder, mailbox) in maildir_folders(path)? {
            let mailbox = if mailbox == "INBOX" { self.request.folder.clone() } else { mailbox };
            for (part, seen_before) in [("cur", true), ("new", false)] {
                let part = folder.join(part);
                for file in if part.is_dir() { files_of(&part)? } else { Vec::new() } {
                    let name = name_of(&file);
                    let flags = if seen_before { maildir::flags_of(&name) } else { Flags::none() };
                    letters.push(Letter {
                        received: maildir::time_of(&name),
                        path: file,
                        mailbox: mailbox.clone(),
                        flags,
                    });
                }
            }
        }
        letters.sort_by(|one, other| (one.received, &one.path).cmp(&(other.received, &other.path)));
        self.post(path, &letters)
    }

    fn letters(&mut self, path: &Path) -> Result<(), Failure> {
        let letter = |path: PathBuf, mailbox: String| Letter { path, mailbox, flags: Flags::none(), received: None };
        let letters = if path.is_dir() {
            let mut letters = Vec::new();
            for file in files_below(path, 0)? {
                let folder = file.parent().unwrap_or(path);
                let mailbox = if folder == path { self.request.folder.clone() } else { mailbox_of(path, folder) };
                letters.push(letter(file, mailbox));
            }
            letters
        } else {
            vec![letter(path.to_owned(), self.request.folder.clone())]
        };
        self.post(path, &letters)
    }

    /// Imports messages that lie in files of their own, in this order.
    fn post(&mut self, source: &Path, letters: &[Letter]) -> Result<(), Failure> {
        let mut importer = self.importer(&source_name(source))?;
        let done_before = importer.position()?;
        let total = letters.len() as u64;
        for (index, letter) in (1_u64..).zip(letters) {
            if index <= done_before {
                continue;
            }
            match read_limited(&letter.path, MESSAGE_BYTES_MAX as u64) {
                Ok(raw) => importer.add(ImportedMessage {
                    mailbox: letter.mailbox.clone(),
                    raw: line_ends::to_wire(raw),
                    flags: letter.flags.clone(),
                    received: letter.received,
                    next_position: index,
                })?,
                Err(error) => self.skipped.push(error.to_string()),
            }
            if index.is_multiple_of(REPORT_EVERY) {
                let what = name_of(source);
                step(self.report, Progress { what, done: index, total: Some(total), unit: Unit::Messages })?;
            }
        }
        self.finish(importer)
    }

    fn importer(&self, source: &str) -> Result<Importer<'a>, Failure> {
        let options = ImportOptions { skip_duplicates: self.request.skip_duplicates };
        Ok(Importer::new(self.file, source, options)?)
    }

    fn finish(&mut self, importer: Importer<'_>) -> Result<(), Failure> {
        let done = importer.finish()?;
        self.sum.messages += done.messages;
        self.sum.bytes += done.bytes;
        self.sum.duplicates += done.duplicates;
        Ok(())
    }
}

/// Gives the folders of a Maildir with the names of their mailboxes.
fn maildir_folders(top: &Path) -> Result<Vec<(PathBuf, String)>, Failure> {
    if !top.join("cur").is_dir() {
        return Err(Failure::Refused(format!("{} is no Maildir: it has no folder cur", top.display())));
    }
    let mut folders = vec![(top.to_owned(), "INBOX".to_owned())];
    for entry in std::fs::read_dir(top).map_err(Failure::file(top))? {
        let path = entry.map_err(Failure::file(top))?.path();
        let name = name_of(&path);
        if name.starts_with('.') && path.join("cur").is_dir() {
            folders.push((path, maildir::mailbox_of(&name)));
        }
    }
    folders.sort();
    Ok(folders)
}

/// Lists the files of a folder in the order of their names.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Failure::file(folder))? {
        let path = entry.map_err(Failure::file(folder))?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Lists the files of a folder and of the folders below it.
fn files_below(folder: &Path, depth: usize) -> Result<Vec<PathBuf>, Failure> {
    let mut files = files_of(folder)?;
    if depth >= FOLDER_DEPTH_MAX {
        return Ok(files);
    }
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Failure::file(folder))? {
        let path = entry.map_err(Failure::file(folder))?.path();
        if path.is_dir() && !path.is_symlink() {
            folders.push(path);
        }
    }
    folders.sort();
    for below in folders {
        files.extend(files_below(&below, depth + 1)?);
    }
    Ok(files)
}

/// Names the mailbox of a file or folder by its way from the top, without the ending.
fn mailbox_of(top: &Path, path: &Path) -> String {
    let way = path.strip_prefix(top).unwrap_or(path);
    let name = way.with_extension("").to_string_lossy().into_owned();
    if name.eq_ignore_ascii_case("inbox") { "INBOX".to_owned() } else { name }
}

/// Names a source in the record of progress: the same file is the same source.
fn source_name(path: &Path) -> String {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::admin::{Request, execute as execute_any};
    use crate::sample::Sample;

    const COUNT: u64 = 2_000;

    fn request(sample: &Sample, name: &str, format: MailFormat) -> ImportRequest {
        ImportRequest {
            format,
            files: vec![sample.folder.path().join(name)],
            user: "ann".to_owned(),
            folder: "INBOX".to_owned(),
            skip_duplicates: false,
        }
    }

    fn count(sample: &Sample) -> u64 {
        let file = sample.core.mail.open_as_server("mail/ann.nsf").expect("it is there");
        let view = file.view().expect("a view");
        let inbox = view.folder("INBOX").expect("a look").expect("an inbox").id;
        u64::from(view.status(inbox).expect("a status").messages)
    }

    /// Breaks an import off at every step that it reports, until it is done.
    fn check_resumes(sample: &Sample, request: &ImportRequest) {
        let mut attempts = 0;
        loop {
            attempts += 1;
            assert!(attempts < 100, "the import gets nowhere");
            let mut steps = 0;
            let outcome = execute(&sample.core, request, &mut |_| {
                steps += 1;
                if steps < 9 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            match outcome {
                Ok(_) => break,
                Err(failure) => assert!(matches!(failure, Failure::BrokenOff), "{failure}"),
            }
        }
        assert!(attempts > 1, "the import was never broken off");
        assert_eq!(count(sample), COUNT);
    }

    #[test]
    fn an_import_of_an_mbox_goes_on_where_it_was_broken_off() {
        let sample = Sample::new();
        let text: String =
            (0..COUNT).map(|n| format!("From a@b.test Sat Jan  3 01:05:34 2026\nSubject: {n}\n\ntext\n\n")).collect();
        std::fs::write(sample.folder.path().join("big.mbox"), text).expect("the folder is writable");
        check_resumes(&sample, &request(&sample, "big.mbox", MailFormat::Mbox));
    }

    #[test]
    fn an_import_of_files_goes_on_where_it_was_broken_off() {
        let sample = Sample::new();
        let folder = sample.folder.path().join("letters");
        std::fs::create_dir(&folder).expect("the folder is writable");
        for number in 0..COUNT {
            std::fs::write(folder.join(format!("{number:05}.eml")), format!("Subject: {number}\r\n\r\n"))
                .expect("writable");
        }
        check_resumes(&sample, &request(&sample, "letters", MailFormat::Eml));
    }

    #[test]
    fn what_cannot_be_read_is_named_and_does_not_stop_the_rest() {
        let sample = Sample::new();
        let folder = sample.folder.path().join("letters");
        std::fs::create_dir(&folder).expect("the folder is writable");
        std::fs::write(folder.join("good.eml"), "Subject: good\r\n\r\n").expect("writable");
        let large = std::fs::File::create(folder.join("large.eml")).expect("writable");
        large.set_len(MESSAGE_BYTES_MAX as u64 + 1).expect("a file with a hole");
        let answer = sample.execute(Request::Import(request(&sample, "letters", MailFormat::Eml))).expect("it goes on");
        assert_eq!((&answer.data["messages"], answer.data["skipped"].as_array().map(Vec::len)), (&json!(1), Some(1)));
        assert!(answer.data["skipped"][0].as_str().is_some_and(|text| text.contains("large.eml")));
        let no_mbox = execute_any(
            &sample.core,
            Request::Import(request(&sample, "letters/good.eml", MailFormat::Mbox)),
            &mut |_| ControlFlow::Continue(()),
        );
        assert!(no_mbox.expect_err("no mbox").to_string().contains("no mbox file"));
    }

    #[test]
    fn mailboxes_are_named_after_files_and_folders() {
        let check = |path: &str, expected: &str| assert_eq!(mailbox_of(Path::new("/top"), Path::new(path)), expected);
        check("/top/Inbox.mbox", "INBOX");
        check("/top/Work/2026.mbox", "Work/2026");
        check("/top/Work", "Work");
    }
}
