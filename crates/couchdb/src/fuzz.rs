//! The entry point for fuzzing: reads arbitrary bytes as an address, a document, a selector and a sequence.

use serde_json::Value;

use crate::compression::AttachmentDecompressor;
use crate::document::{Members, append_fields, items_of};
use crate::multipart::{boundary_of, parts_of};
use crate::selector::Selector;
use crate::sequence::Since;
use crate::service::parse_address;
use crate::write::SentDocument;

/// Reads bytes with every parser of this crate.
///
/// # Panics
///
/// Panics if the code under test panics or violates an invariant.
pub fn read(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    parse_address(&text);
    if let Some(boundary) = boundary_of(&text) {
        let _ = parts_of(input, &boundary);
    }
    let _ = parts_of(input, "b");
    let mut hold = |_| Ok(());
    let mut decompressor = AttachmentDecompressor::new(&mut hold);
    let _ = SentDocument::parse_parts(input, "b", "x", &mut decompressor);
    let _ = Since::parse(&text);
    let _ = SentDocument::parse(&text, None, String::new, &mut decompressor);
    if let Ok(value) = serde_json::from_str::<Value>(&text)
        && let Ok(selector) = Selector::parse(&value)
    {
        let _ = selector.examine(&value);
    }
    if let Ok(members) = Members::parse(&text)
        && let Ok(items) = items_of(&members)
    {
        let mut written = String::from("{\"_id\":\"x\"");
        append_fields(&mut written, &items);
        written.push('}');
        let again = Members::parse(&written).and_then(|members| items_of(&members));
        assert_eq!(again.ok(), Some(items), "items read back from their document");
    }
}
