//! The entry point for fuzzing: any bytes as a query, as a text that is cut into words, and as an attachment.

use crate::extract::{self, Kind};
use crate::query::Query;
use crate::words::Words;
use crate::{html, limits};

/// Reads bytes in every way there is.
///
/// # Panics
///
/// When something panics that must not, or a promise is broken.
pub fn read(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Err(error) = Query::parse(&text) {
        assert!(error.position <= text.chars().count() && !error.what.is_empty());
    }
    let (mut words, mut word, mut end) = (Words::new(&text), String::new(), 0);
    while let Some(range) = words.next_into(&mut word) {
        assert!(range.start >= end && text.get(range.clone()).is_some(), "words come in their order");
        assert!(!word.is_empty() && word.len() <= limits::WORD_BYTES_MAX);
        end = range.end;
        word.clear();
    }
    let _ = html::to_text(&text);
    for kind in Kind::ALL {
        let found = extract::text(kind, input, None);
        assert!(found.is_none_or(|found| found.len() <= limits::ATTACHMENT_TEXT_BYTES_MAX));
    }
}
