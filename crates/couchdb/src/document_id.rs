//! The `_id` of a document, and its UNID.
//!
//! An `_id` of 32 lower-case hexadecimal digits is the UNID itself, so a document of any other client has an `_id`. For
//! every other text, the UNID is derived: a prefix that no generated UNID has by chance more often than once in 2^32,
//! and a digest. The item [`ID_ITEM`] keeps the text, also in the stub of a deletion.

use base::{Unid, hex};
use notes::Item;
use notes::item::find_item;
use notes::local_document::ID_ITEM;

use crate::error::{Error, Result};
use crate::limits::ID_BYTES_MAX;

/// Prefix of the UNIDs that are derived from an `_id`.
const UNID_PREFIX: [u8; 4] = *b"\xffcdb";

/// Returns the UNID of the document with an `_id`. Fails if no document can have it.
pub fn unid_of(id: &str) -> Result<Unid> {
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        return Err(Error::BadRequest("an _id must have 1 to 512 bytes".to_owned()));
    }
    if id.starts_with('_') && !id.starts_with("_design/") {
        return Err(Error::BadRequest("Only reserved document ids may start with underscore.".to_owned()));
    }
    Ok(hexadecimal(id).unwrap_or_else(|| derived(id)))
}

/// Returns the UNID that an `_id` of 32 lower-case digits is.
fn hexadecimal(id: &str) -> Option<Unid> {
    let is_lower_case = id.bytes().all(|byte| !byte.is_ascii_uppercase());
    hex::parse_array(id).filter(|_| is_lower_case).map(Unid).filter(|unid| !unid.0.starts_with(&UNID_PREFIX))
}

fn derived(id: &str) -> Unid {
    let mut unid = [0; 16];
    let (prefix, rest) = unid.split_at_mut(UNID_PREFIX.len());
    prefix.copy_from_slice(&UNID_PREFIX);
    blake3::Hasher::new().update(b"couchdb id\0").update(id.as_bytes()).finalize_xof().fill(rest);
    Unid(unid)
}

/// Returns `true` if the `_id` of a document with this UNID may be another text than its digits.
pub fn is_derived(unid: Unid) -> bool {
    unid.0.starts_with(&UNID_PREFIX)
}

/// Returns the `_id` of a document with these items. Another document may have a copy of the item, so the text counts
/// only for the UNID that is derived from it.
pub fn id_of(unid: Unid, items: &[Item]) -> String {
    let kept = || find_item(items, ID_ITEM)?.value.text().filter(|id| derived(id) == unid);
    let kept = if is_derived(unid) { kept() } else { None };
    kept.map_or_else(|| hex::lower(&unid.0), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_the_unid_and_other_texts_are_kept() {
        let digits = "00112233445566778899aabbccddeeff";
        let unid = unid_of(digits).expect("an id");
        assert_eq!((id_of(unid, &[]).as_str(), is_derived(unid)), (digits, false));
        for id in ["doc-1", "00112233445566778899AABBCCDDEEFF", "_design/x", "ff636462445566778899aabbccddeeff", "é"] {
            let unid = unid_of(id).expect("an id");
            assert!(is_derived(unid), "{id}");
            assert_eq!(id_of(unid, &[Item::text(ID_ITEM, id)]), id);
            assert_eq!(id_of(unid, &[Item::text(ID_ITEM, "other")]), hex::lower(&unid.0), "a copied item");
        }
        assert_ne!(unid_of("a").expect("an id"), unid_of("b").expect("an id"));
    }

    #[test]
    fn ids_that_no_document_can_have_are_refused() {
        for id in ["", "_local", "_all", &"x".repeat(ID_BYTES_MAX + 1)] {
            assert!(unid_of(id).is_err(), "{id}");
        }
    }
}
