//! Lists of message flags beside files whose format cannot hold them: `NAME.mbox.flags.jsonl` for an mbox file,
//! `flags.jsonl` for the single files of a folder.
//!
//! A line is a JSON object for one message: `message` (the byte offset of its separator, as a text, or the name of its
//! file), `flags` (as IMAP names them), and `received` (seconds since 1970). The list takes precedence over flags and
//! times in the message. A line that is skipped. A message without a line is imported as if there were
//! no list.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use base::Timestamp;
use instance::regular_file::open_below;
use mail::import_export::status;
use mail::mailbox::{Flags, flags};
use serde::{Deserialize, Serialize};

use super::AdminError;
use super::mail_files::create;

/// File name of the list for a folder of single files.
pub const FOLDER_LIST: &str = "flags.jsonl";

/// Suffix that is appended to the name of an mbox file.
const MBOX_LIST_SUFFIX: &str = ".flags.jsonl";

/// Maximum length of a line in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Maximum number of lines read.
const LINES_MAX: usize = 10_000_000;

/// A line of the list, for one message.
#[derive(Debug, Serialize, Deserialize)]
struct FlagRecord {
    message: String,
    flags: Vec<String>,
    received: i64,
}

/// The flags and received times of messages.
#[derive(Debug, Default)]
pub struct MessageFlagList {
    messages: HashMap<String, (Flags, Timestamp)>,
}

impl MessageFlagList {
    /// Reads a list for the import of `named`, which is an mbox file or a folder above the list. If the file does not
    /// exist, the list is empty.
    pub fn read(named: &Path, path: &Path) -> Result<Self, AdminError> {
        let mut list = Self::default();
        let mut input = match open_below(named, path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(list),
            opened => BufReader::new(opened.map_err(AdminError::file(path))?),
        };
        for _ in 0..LINES_MAX {
            let mut bytes = Vec::new();
            if input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).map_err(AdminError::file(path))? == 0 {
                break;
            }
            let Ok(line) = serde_json::from_slice::<FlagRecord>(&bytes) else { continue };
            let mut flags = Flags::none();
            line.flags.iter().for_each(|name| status::add(&mut flags, name));
            list.messages.insert(line.message, (flags, Timestamp::from_seconds(line.received)));
        }
        Ok(list)
    }

    /// Returns the flags and the received time of a message, if the list has a line for it.
    #[must_use]
    pub fn find(&self, message: &str) -> Option<&(Flags, Timestamp)> {
        self.messages.get(message)
    }
}

/// Writer of a flag list.
pub struct FlagListWriter {
    out: BufWriter<File>,
    path: PathBuf,
}

impl FlagListWriter {
    /// Creates the file, which must not exist yet.
    pub fn create(path: &Path) -> Result<Self, AdminError> {
        Ok(Self { out: BufWriter::new(create(path)?), path: path.to_owned() })
    }

    /// Adds a line for a message.
    pub fn write(&mut self, message: &str, found: &Flags, received: Timestamp) -> Result<(), AdminError> {
        let marks = flags::system_flag_names(found.marks).map(str::to_owned);
        let line = FlagRecord {
            message: message.to_owned(),
            flags: marks.chain(found.keywords.iter().cloned()).collect(),
            received: received.seconds(),
        };
        let written = serde_json::to_string(&line).map_err(std::io::Error::from);
        written.and_then(|text| writeln!(self.out, "{text}")).map_err(AdminError::file(&self.path))
    }

    /// Flushes the buffered lines to the file.
    pub fn finish(mut self) -> Result<(), AdminError> {
        self.out.flush().map_err(AdminError::file(&self.path))
    }
}

/// Returns the path of the list for an mbox file.
#[must_use]
pub fn list_path(mbox: &Path) -> PathBuf {
    let mut name = mbox.as_os_str().to_owned();
    name.push(MBOX_LIST_SUFFIX);
    name.into()
}

/// Returns `true` if a file is the list of an existing mbox file.
#[must_use]
pub fn is_list(path: &Path) -> bool {
    path.to_str().and_then(|name| name.strip_suffix(MBOX_LIST_SUFFIX)).is_some_and(|mbox| Path::new(mbox).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_flags_read_back_and_invalid_lines_are_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = list_path(&folder.path().join("a.mbox"));
        let flags: Flags = ["\\Seen", "Work"].into_iter().collect();
        let mut out = FlagListWriter::create(&path).expect("it is new");
        out.write("0", &flags, Timestamp::from_seconds(7)).expect("writable");
        out.write("12", &Flags::none(), Timestamp::from_seconds(8)).expect("writable");
        out.finish().expect("writable");
        assert!(FlagListWriter::create(&path).is_err());
        let text = std::fs::read_to_string(&path).expect("readable");
        std::fs::write(&path, format!("rubbish\n{{}}\n{text}")).expect("writable");
        let read = |path: &Path| MessageFlagList::read(folder.path(), path);
        let list = read(&path).expect("readable");
        assert_eq!(list.find("0"), Some(&(flags, Timestamp::from_seconds(7))));
        assert_eq!(list.find("12"), Some(&(Flags::none(), Timestamp::from_seconds(8))));
        assert!(list.find("1").is_none() && read(&folder.path().join("missing")).expect("none").find("0").is_none());
        assert!(read(folder.path()).is_err(), "a folder is no list");
        assert!(!is_list(&path));
        std::fs::write(folder.path().join("a.mbox"), "").expect("writable");
        assert!(is_list(&path));
    }
}
