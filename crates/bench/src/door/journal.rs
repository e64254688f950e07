//! The journal of a run: each change that a user has asked the server for, and whether the server has acknowledged it.
//!
//! A check after crashes of the server compares it with the mail files: what was acknowledged must be there, and what
//! was not may be there. The file (`journal.jsonl`) has two lines for an acknowledged change, and one for a change
//! without an answer or with an error:
//!
//! ```json
//! {"change":1,"user":3,"kind":"message","reference":"K7Q2-…","to":[8,1]}
//! {"change":1,"acknowledged":true}
//! ```
//!
//! The kinds are `message` (sent), `copy` (saved among the sent messages), `appointment`, `delete` and `move`. The
//! reference is in the body of the message, and in no other one. `unid` is that of the document in the mail file of the
//! user; that of a new document is in the line of its acknowledgement.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

use base::sync::Mutex;
use serde::{Serialize, Serializer};

/// A UNID, which is written with 32 hexadecimal digits.
#[derive(Debug, Clone, Copy)]
pub struct Unid(pub [u8; 16]);

impl Serialize for Unid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base::hex::lower(&self.0))
    }
}

/// A change that a user asks for.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change<'a> {
    /// A message is sent.
    Message {
        /// The reference in its body.
        reference: &'a str,
        /// The numbers of its recipients.
        to: &'a [u64],
    },
    /// A copy of a sent message is saved.
    Copy {
        /// The reference in its body.
        reference: &'a str,
    },
    /// An appointment is saved.
    Appointment,
    /// A document is deleted.
    Delete {
        /// The document.
        unid: Unid,
    },
    /// A document is moved.
    Move {
        /// The document.
        unid: Unid,
        /// The folder.
        to: &'a str,
    },
}

#[derive(Serialize)]
struct ChangeLine<'a> {
    #[serde(rename = "change")]
    number: u64,
    user: u64,
    #[serde(flatten)]
    change: Change<'a>,
}

#[derive(Serialize)]
struct AcknowledgedLine {
    #[serde(rename = "change")]
    number: u64,
    acknowledged: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    unid: Option<Unid>,
}

/// The journal of a run.
#[derive(Debug)]
pub struct Journal {
    lines: Mutex<Lines>,
}

#[derive(Debug)]
struct Lines {
    file: BufWriter<File>,
    changes: u64,
    error: Option<io::Error>,
}

impl Lines {
    fn write(&mut self, line: &impl Serialize) {
        let written = serde_json::to_writer(&mut self.file, line).map_err(io::Error::from);
        let written = written.and_then(|()| self.file.write_all(b"\n"));
        self.error = self.error.take().or(written.err());
    }
}

/// A change that was written to a journal, or to none, and may be acknowledged.
#[derive(Debug)]
pub struct OpenChange {
    journal: Option<(Arc<Journal>, u64)>,
}

impl OpenChange {
    /// Writes that the server has acknowledged the change, with the UNID of what was created.
    pub fn acknowledge(self, unid: Option<Unid>) {
        if let Some((journal, number)) = self.journal {
            journal.lines.lock().write(&AcknowledgedLine { number, acknowledged: true, unid });
        }
    }
}

impl Journal {
    /// Creates the file.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        Ok(Self { lines: Mutex::new(Lines { file, changes: 0, error: None }) })
    }

    /// Writes a change that a user is about to ask for, if there is a journal.
    pub fn begin(journal: Option<&Arc<Self>>, user: u64, change: Change<'_>) -> OpenChange {
        let write = |journal: &Arc<Self>| {
            let mut lines = journal.lines.lock();
            lines.changes += 1;
            let number = lines.changes;
            lines.write(&ChangeLine { number, user, change });
            (Arc::clone(journal), number)
        };
        OpenChange { journal: journal.map(write) }
    }

    /// Writes what is not in the file yet.
    ///
    /// # Errors
    ///
    /// The first error of any line: the journal has gaps.
    pub fn finish(&self) -> io::Result<()> {
        let mut lines = self.lines.lock();
        match lines.error.take() {
            Some(error) => Err(error),
            None => lines.file.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_and_acknowledgements_are_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal.jsonl");
        let journal = Arc::new(Journal::create(&path).expect("a file"));
        let message = Journal::begin(Some(&journal), 3, Change::Message { reference: "K7", to: &[8, 1] });
        Journal::begin(Some(&journal), 4, Change::Delete { unid: Unid([9; 16]) });
        message.acknowledge(None);
        Journal::begin(Some(&journal), 3, Change::Appointment).acknowledge(Some(Unid([12; 16])));
        Journal::begin(None, 5, Change::Appointment).acknowledge(Some(Unid([13; 16])));
        journal.finish().expect("a flush");
        let expected = r#"{"change":1,"user":3,"kind":"message","reference":"K7","to":[8,1]}
{"change":2,"user":4,"kind":"delete","unid":"09090909090909090909090909090909"}
{"change":1,"acknowledged":true}
{"change":3,"user":3,"kind":"appointment"}
{"change":3,"acknowledged":true,"unid":"0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c"}
"#;
        assert_eq!(std::fs::read_to_string(path).expect("a file"), expected);
    }

    #[test]
    fn gaps_are_errors() {
        let journal = Arc::new(Journal::create(Path::new("/dev/full")).expect("a file"));
        for _ in 0..10_000 {
            Journal::begin(Some(&journal), 1, Change::Appointment).acknowledge(None);
        }
        assert!(journal.finish().is_err());
    }
}
