//! The entry point for fuzzing: reads arbitrary bytes as a query, as a text to split into words, as HTML, and as an
//! attachment.

use crate::extract::{self, FileKind};
use crate::query::Query;
use crate::words::Words;
use crate::{html, limits};

/// Reads bytes with every parser of this crate.
///
/// # Panics
///
/// Panics if the code under test panics or violates an invariant.
pub fn read(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Err(error) = Query::parse(&text) {
        assert!(error.position <= text.chars().count() && !error.message.is_empty());
    }
    let mut words = Words::new(&text);
    let mut word = String::new();
    let mut end = 0;
    while let Some(range) = words.next_into(&mut word) {
        assert!(range.start >= end && text.get(range.clone()).is_some(), "words are returned in the order of the text");
        assert!(!word.is_empty() && word.len() <= limits::WORD_BYTES_MAX);
        end = range.end;
        word.clear();
    }
    let (left, right) = text.split_at(text.floor_char_boundary(text.len() / 2));
    let mut reader = html::HtmlReader::default();
    let mut converted = String::new();
    reader.push(left, &mut converted);
    reader.push(right, &mut converted);
    reader.finish(&mut converted);
    assert_eq!(converted, html::to_text(&text), "pieces of a document are converted like the whole");
    for kind in FileKind::ALL {
        let found = extract::text(kind, input, None);
        assert!(found.is_none_or(|found| found.len() <= limits::ATTACHMENT_TEXT_BYTES_MAX));
    }
}
