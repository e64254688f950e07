//! The child that reads PDFs: it bounds itself, and answers until its standard input ends.
//!
//! A question is a head (one byte that says nothing, the length as u32) and the bytes of a file; an answer a head (1 where there is text, else 0; the length) and
//! the text. What the reader of PDFs prints goes nowhere near the answers. It may panic, run for ever, use up its stack or its memory: then this process is
//! gone, and with it no more than what it was reading.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};

use rustix::process::{Resource, Rlimit, setrlimit};
use search::limits::{ATTACHMENT_BYTES_MAX, ATTACHMENT_TEXT_BYTES_MAX};

use super::HEAD_BYTES;
use crate::limits::{PDF_ADDRESS_SPACE_BYTES_MAX, PDF_PROCESSOR_SECONDS_MAX};

/// Makes a head.
pub(super) fn head(is_text: bool, length: usize) -> [u8; HEAD_BYTES] {
    let mut head = [u8::from(is_text); HEAD_BYTES];
    let length = u32::try_from(length).expect("both sides refuse what is longer than some MiB");
    head[1..].copy_from_slice(&length.to_be_bytes());
    head
}

/// Takes a head apart.
pub(super) fn split_head(head: [u8; HEAD_BYTES]) -> (bool, usize) {
    let [is_text, length @ ..] = head;
    (is_text == 1, u32::from_be_bytes(length) as usize)
}

/// Reads PDFs until standard input ends.
pub fn run() -> io::Result<()> {
    let mut answers = File::from(rustix::io::dup(rustix::stdio::stdout())?);
    // Whatever prints from now on does not end up among the answers.
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    confine()?;
    let mut questions = io::stdin().lock();
    let mut head_bytes = [0; HEAD_BYTES];
    loop {
        match questions.read_exact(&mut head_bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
        let (_, length) = split_head(head_bytes);
        if length > ATTACHMENT_BYTES_MAX {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let mut bytes = vec![0; length];
        questions.read_exact(&mut bytes)?;
        let text = text_of(&bytes);
        let said = text.as_deref().unwrap_or_default();
        answers.write_all(&head(text.is_some(), said.len()))?;
        answers.write_all(said.as_bytes())?;
    }
}

/// Gives up everything that reading bytes does not need.
fn confine() -> io::Result<()> {
    let limits = [
        (Resource::As, PDF_ADDRESS_SPACE_BYTES_MAX),
        (Resource::Cpu, PDF_PROCESSOR_SECONDS_MAX),
        // No file is opened, written or left behind, and nothing is started.
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

fn text_of(bytes: &[u8]) -> Option<String> {
    let text = pdf_extract::extract_text_from_mem(bytes).ok()?;
    let end = text.floor_char_boundary(ATTACHMENT_TEXT_BYTES_MAX.min(text.len()));
    Some(text[..end].to_owned()).filter(|text| !text.trim().is_empty())
}
