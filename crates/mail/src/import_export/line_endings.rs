//! Conversion of line ends: LF in files, CRLF in mail files.
//!
//! Lines of mail end with CRLF on the wire, and with LF in Unix files. A message whose lines all end with LF alone
//! receives CRLFs on import and loses them on export. Any other message is left unchanged in both directions.
//!
//! Two facts are not visible in the bytes. A file with CRLFs throughout and a file with LFs become the same message. So
//! [`from_file`] reports if the line ends of a file are not those of its format, and the caller stores this beside the
//! message to write the same file again. A message that has LFs alone on the wire would receive CRLFs when it is read
//! back. [`to_file`] reports this ([`FileMessage::needs_wire_mark`]), and each format has a place outside the message
//! to note it.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memmem};

/// The line ends of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLineEnding {
    /// LF, as in mbox files and Maildirs.
    Lf,
    /// CRLF as on the wire and in single files.
    Crlf,
}

impl FileLineEnding {
    /// Returns the name under which the line ends are stored.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lf => "LF",
            Self::Crlf => "CRLF",
        }
    }

    /// Parses the stored name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Lf, Self::Crlf].into_iter().find(|known| known.name() == name)
    }
}

/// A message in the form that is written into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMessage<'a> {
    /// The bytes.
    pub bytes: Cow<'a, [u8]>,
    /// `true` if [`to_wire`] would change the bytes. The file must then be marked, so that its reader leaves them
    /// unchanged.
    pub needs_wire_mark: bool,
}

/// Converts a message of a file to the line ends of the wire.
#[must_use]
pub fn to_wire(raw: Vec<u8>) -> Vec<u8> {
    from_file(raw, FileLineEnding::Lf).0
}

/// Converts a message of a file to the line ends of the wire. Returns the line ends of the file as well if they are not
/// the `usual` ones.
#[must_use]
pub fn from_file(raw: Vec<u8>, usual: FileLineEnding) -> (Vec<u8>, Option<FileLineEnding>) {
    if memmem::find(&raw, b"\r\n").is_some() {
        return (raw, (usual == FileLineEnding::Lf).then_some(FileLineEnding::Crlf));
    }
    let count = memchr_iter(b'\n', &raw).count();
    if count == 0 {
        return (raw, None);
    }
    let mut out = Vec::with_capacity(raw.len() + count);
    let mut start = 0;
    for end in memchr_iter(b'\n', &raw) {
        out.extend_from_slice(&raw[start..end]);
        out.extend_from_slice(b"\r\n");
        start = end + 1;
    }
    out.extend_from_slice(&raw[start..]);
    (out, (usual == FileLineEnding::Crlf).then_some(FileLineEnding::Lf))
}

/// Works like [`from_file`] for a file that is marked as unchanged from the wire. A file with CRLFs does not need such
/// a mark.
#[must_use]
pub fn from_marked_file(raw: Vec<u8>, usual: FileLineEnding) -> (Vec<u8>, Option<FileLineEnding>) {
    if memmem::find(&raw, b"\r\n").is_some() { from_file(raw, usual) } else { (raw, None) }
}

/// Converts a message to the line ends of a file, provided that reading it back yields the same message.
#[must_use]
pub fn to_file(raw: &[u8], wanted: FileLineEnding) -> FileMessage<'_> {
    let converted = if wanted == FileLineEnding::Lf { without_returns(raw) } else { None };
    match converted {
        Some(bytes) => FileMessage { bytes: Cow::Owned(bytes), needs_wire_mark: false },
        None => {
            let marked = memchr(b'\n', raw).is_some() && memmem::find(raw, b"\r\n").is_none();
            FileMessage { bytes: Cow::Borrowed(raw), needs_wire_mark: marked }
        }
    }
}

/// Removes the CR from every line end. Returns `None` if a line end has no CR, or has two of them: with the remaining
/// CR the line would be read back as one with CRLF.
fn without_returns(raw: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(raw.len());
    let mut start = 0;
    for end in memchr_iter(b'\n', raw) {
        let line = raw[start..end].strip_suffix(b"\r")?;
        if line.ends_with(b"\r") {
            return None;
        }
        out.extend_from_slice(line);
        out.push(b'\n');
        start = end + 1;
    }
    out.extend_from_slice(&raw[start..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn line_endings_are_restored_on_export() {
        let check = |text: &str, usual, expected: &str, kept| {
            let (wire, ends) = from_file(text.as_bytes().to_vec(), usual);
            assert_eq!((wire.as_slice(), ends), (expected.as_bytes(), kept), "{text:?}");
            assert_eq!(&*to_file(&wire, ends.unwrap_or(usual)).bytes, text.as_bytes(), "{text:?}");
        };
        check("a\nb", FileLineEnding::Lf, "a\r\nb", None);
        check("a\nb", FileLineEnding::Crlf, "a\r\nb", Some(FileLineEnding::Lf));
        check("a\r\nb", FileLineEnding::Lf, "a\r\nb", Some(FileLineEnding::Crlf));
        check("a\r\nb", FileLineEnding::Crlf, "a\r\nb", None);
        check("a\r\nb\n", FileLineEnding::Lf, "a\r\nb\n", Some(FileLineEnding::Crlf));
        check("a\r\r\nb\r\r\n", FileLineEnding::Lf, "a\r\r\nb\r\r\n", Some(FileLineEnding::Crlf));
        check("a\rb", FileLineEnding::Crlf, "a\rb", None);
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(&b"a\r\n\0"[..]), 0..12)
    }

    fn usual() -> impl Strategy<Value = FileLineEnding> {
        prop::sample::select(vec![FileLineEnding::Lf, FileLineEnding::Crlf])
    }

    proptest! {
        #[test]
        fn file_round_trips_through_the_wire_form(file in bytes(), usual in usual()) {
            let (wire, ends) = from_file(file.clone(), usual);
            prop_assert_eq!(&*to_file(&wire, ends.unwrap_or(usual)).bytes, &file[..]);
        }

        #[test]
        fn message_round_trips_through_the_file_form(wire in bytes(), wanted in usual()) {
            let written = to_file(&wire, wanted);
            let back = if written.needs_wire_mark { written.bytes.to_vec() } else { to_wire(written.bytes.to_vec()) };
            prop_assert_eq!(back, wire);
        }
    }
}
