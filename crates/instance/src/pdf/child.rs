//! The child process that reads PDFs: it enters its sandbox, limits its own resources, and answers requests until its
//! standard input ends.
//!
//! A request consists of a head (one unused byte, and the length as a big-endian `u32`) and the bytes of a file. A
//! reply consists of a head (1 if there is text, else 0, and the length) and the text. The output of the PDF parser is
//! kept apart from the replies. The parser may panic, run forever, or exhaust its stack or memory: this process then
//! ends, and only the current file is lost.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};

use rustix::process::{Resource, Rlimit, setrlimit};
use search::limits::{ATTACHMENT_BYTES_MAX, ATTACHMENT_TEXT_BYTES_MAX};

use super::{HEAD_BYTES, sandbox};
use crate::limits::{PDF_ADDRESS_SPACE_BYTES_MAX, PDF_PROCESSOR_SECONDS_MAX};

/// Encodes a head.
pub(super) fn encode_head(is_text: bool, length: usize) -> [u8; HEAD_BYTES] {
    let mut head = [u8::from(is_text); HEAD_BYTES];
    let length = u32::try_from(length).expect("both sides refuse lengths above a few MiB");
    head[1..].copy_from_slice(&length.to_be_bytes());
    head
}

/// Decodes a head.
pub(super) fn decode_head(head: [u8; HEAD_BYTES]) -> (bool, usize) {
    let [is_text, length @ ..] = head;
    (is_text == 1, u32::from_be_bytes(length) as usize)
}

/// Reads PDFs until standard input ends.
pub fn run() -> io::Result<()> {
    let mut answers = File::from(rustix::io::dup(rustix::stdio::stdout())?);
    // Standard output is redirected, so that nothing the parser prints ends up among the replies.
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    // Landlock needs a file descriptor, and the limits need a system call that the filter denies.
    sandbox::deny_paths();
    limit_resources()?;
    sandbox::filter_system_calls()?;
    let mut questions = io::stdin().lock();
    let mut head_bytes = [0; HEAD_BYTES];
    loop {
        match questions.read_exact(&mut head_bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
        let (_, length) = decode_head(head_bytes);
        if length > ATTACHMENT_BYTES_MAX {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let mut bytes = vec![0; length];
        questions.read_exact(&mut bytes)?;
        let text = extract_text(&bytes);
        let extracted = text.as_deref().unwrap_or_default();
        answers.write_all(&encode_head(text.is_some(), extracted.len()))?;
        answers.write_all(extracted.as_bytes())?;
    }
}

/// Limits the resources of this process to those needed to read bytes.
fn limit_resources() -> io::Result<()> {
    let limits = [
        (Resource::As, PDF_ADDRESS_SPACE_BYTES_MAX),
        (Resource::Cpu, PDF_PROCESSOR_SECONDS_MAX),
        // The process cannot open or write files, leave a core dump, or start processes.
        (Resource::Nofile, 0),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Nproc, 0),
    ];
    for (resource, most) in limits {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

fn extract_text(bytes: &[u8]) -> Option<String> {
    let text = pdf_extract::extract_text_from_mem(bytes).ok()?;
    let end = text.floor_char_boundary(ATTACHMENT_TEXT_BYTES_MAX.min(text.len()));
    Some(text[..end].to_owned()).filter(|text| !text.trim().is_empty())
}
