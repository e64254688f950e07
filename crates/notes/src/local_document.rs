//! Local documents: what a CouchDB client stores in a database for itself, such as the place up to which it has
//! replicated. They are never replicated, are in no view, and do not count as changes.
//!
//! Each person has local documents of their own, so nobody can change the places of somebody else's clients. Names and
//! ids are represented by digests in the keys.

use base::codec::{Decoder, Encoder};
use base::{DbNumber, Timestamp};
use store::{Direction, Table, TableReader as _};

use crate::acl::AclLevel;
use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Error, Result};
use crate::grant::Grant;
use crate::keys;
use crate::limits::{LOCAL_DOCUMENT_BYTES_MAX, LOCAL_DOCUMENTS_PER_PERSON_MAX};
use crate::writer::Writer;

/// Name of the item that keeps the `_id` of a document that a CouchDB client has created. The UNID is derived from it,
/// so the stub of a deletion keeps the item, too.
pub const ID_ITEM: &str = "$CouchId";

/// Version of the stored form.
const VERSION: u8 = 1;

impl DatabaseSnapshot<'_> {
    /// Returns the caller's local document with an id, or `None` if there is none.
    pub fn local_document(&self, id: &str) -> Result<Option<String>> {
        let Some(person) = person_digest(self.grant()) else { return Ok(None) };
        let key = keys::local_document(self.database().number(), person, digest(id));
        let Some(stored) = self.snapshot.get(Table::Meta, &key)? else { return Ok(None) };
        // What cannot be read is as good as lost: clients then begin anew.
        Ok(decode(&stored).map(|(_, text)| text.to_owned()))
    }
}

impl Writer<'_, '_> {
    /// Sets the caller's local document with an id, or deletes it. Beyond [`LOCAL_DOCUMENTS_PER_PERSON_MAX`], the one
    /// that was set the longest time ago is deleted.
    pub fn local_document_set(&mut self, id: &str, text: Option<&str>) -> Result<()> {
        self.require_level(AclLevel::Reader)?;
        let number = self.number();
        let Some(person) = person_digest(&self.part.grant) else {
            return Err(Error::invalid("the local document", "only people who have logged in have local documents"));
        };
        let key = keys::local_document(number, person, digest(id));
        let Some(text) = text else {
            self.batch.delete(Table::Meta, &key);
            return Ok(());
        };
        if text.len() > LOCAL_DOCUMENT_BYTES_MAX {
            return Err(Error::Limit { what: "bytes of a local document", max: LOCAL_DOCUMENT_BYTES_MAX });
        }
        if self.store.get(Table::Meta, &key)?.is_none() {
            self.make_room(number, person)?;
        }
        let mut out = Encoder::with_capacity(text.len() + 16);
        out.u8(VERSION).i64(self.part.now.0).text(text);
        self.batch.put(Table::Meta, &key, &out.finish());
        Ok(())
    }

    /// Deletes the oldest local document of a person who has as many as possible.
    fn make_room(&mut self, number: DbNumber, person: [u8; 16]) -> Result<()> {
        let mut count = 0;
        let mut oldest: Option<(Timestamp, Vec<u8>)> = None;
        let mut cursor = self.store.scan(Table::Meta, &keys::local_documents(number, person), Direction::Forward)?;
        while let Some((key, value)) = cursor.next()? {
            count += 1;
            let at = decode(value).map_or(Timestamp(i64::MIN), |(at, _)| at);
            if oldest.as_ref().is_none_or(|(least, _)| at < *least) {
                oldest = Some((at, key.to_vec()));
            }
        }
        drop(cursor);
        if let Some((_, key)) = oldest.filter(|_| count >= LOCAL_DOCUMENTS_PER_PERSON_MAX) {
            self.batch.delete(Table::Meta, &key);
        }
        Ok(())
    }
}

fn decode(stored: &[u8]) -> Option<(Timestamp, &str)> {
    let mut input = Decoder::new(stored);
    let is_known = input.u8().ok()? == VERSION;
    let at = Timestamp(input.i64().ok()?);
    is_known.then_some((at, input.text().ok()?))
}

/// Returns the digest of the name of the caller, or `None` if nobody has logged in.
fn person_digest(grant: &Grant) -> Option<[u8; 16]> {
    grant.name().map(|name| digest(&name.canonical().to_lowercase()))
}

fn digest(text: &str) -> [u8; 16] {
    let mut short = [0; 16];
    blake3::Hasher::new().update(text.as_bytes()).finalize_xof().fill(&mut short);
    short
}
