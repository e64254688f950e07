//! The syntax of IMAP: commands as values, the decoder that produces them from bytes, and the writer of responses.
//!
//! This module is pure: bytes in, values out. It does not depend on sockets, mailboxes or time.

pub mod command;
mod decoder;
mod error;
mod parse;
mod scanner;
mod verb;
mod writer;

#[cfg(test)]
mod tests;

use base::memory::MemoryBudget;

pub use decoder::{CommandDecoder, DecodeResult, RefusedCommand, SyntaxMode};
pub use error::SyntaxError;
pub use verb::{PermittedState, Pipelining, UidForm, VERBS, Verb};
pub use writer::{MONTHS, ResponseStatus, ResponseWriter, TextEncoding, is_atom_byte};

/// Decodes arbitrary bytes from a fuzzer, whole and in pieces, and panics only if the decoder breaks a promise.
pub fn fuzz(data: &[u8]) {
    for (authenticated, utf8) in [(false, false), (true, false), (true, true)] {
        let mode = SyntaxMode { authenticated, utf8, charset_refused: utf8, append_bytes_max: 1 << 16 };
        let whole = decode_all(mode, data, data.len().max(1));
        let pieces = decode_all(mode, data, 7);
        assert_eq!(whole, pieces, "the result must not depend on how the input is split");
    }
}

/// Decodes all data, fed in pieces of the given size, until the end or a fatal error.
fn decode_all(mode: SyntaxMode, data: &[u8], piece_bytes: usize) -> Vec<DecodeResult> {
    let mut decoder = CommandDecoder::new(mode, MemoryBudget::unlimited());
    let mut all = Vec::new();
    for piece in data.chunks(piece_bytes.max(1)) {
        decoder.feed(piece);
        loop {
            match decoder.decode() {
                DecodeResult::Incomplete => break,
                DecodeResult::Fatal(error) => {
                    all.push(DecodeResult::Fatal(error));
                    return all;
                }
                decoded => all.push(decoded),
            }
        }
    }
    all
}
