//! Fuzz target for stored records of notes: decodes arbitrary bytes as every kind of record.
//!
//! Every accepted record can be encoded and decodes to the same value. Damage in the store must end in an error that
//! names the record. A decoder that panics would turn one damaged block into a server that does not start.

use base::codec::{Decoder, Encoder};
use base::{NoteId, Uid};
use notes::catalog::DatabaseRecord;
use notes::folder::FolderState;
use notes::instance::{Instances, ReplicationHistory};
use notes::item::{decode_items, encode_items};
use notes::revision_record::RevisionRecord;
use notes::{Acl, DeletionRecord, FolderEntry, Item, Keywords, NoteHeader, Summary};
use revision::{Revision, RevisionId};

/// Decodes the bytes as every kind of record.
pub fn decode(bytes: &[u8]) {
    if let Ok(record) = DatabaseRecord::decode(bytes) {
        assert_eq!(DatabaseRecord::decode(&record.encode()).as_ref(), Ok(&record), "a database record reads back");
    }
    if let Ok(acl) = Acl::decode(bytes) {
        assert_eq!(Acl::decode(&acl.encode()).as_ref(), Ok(&acl), "an access list reads back");
    }
    if let Ok(state) = FolderState::decode(bytes) {
        assert_eq!(FolderState::decode(&state.encode()).as_ref(), Ok(&state), "a folder's state reads back");
    }
    if let Ok(keywords) = Keywords::decode(bytes) {
        assert_eq!(Keywords::decode(&keywords.encode()).as_ref(), Ok(&keywords), "keywords read back");
    }
    if let Ok(summary) = Summary::decode(bytes) {
        assert_eq!(Summary::decode(&summary.encode()).as_ref(), Ok(&summary), "a summary reads back");
    }
    if let Ok(header) = NoteHeader::decode(NoteId(1), bytes) {
        assert_eq!(NoteHeader::decode(NoteId(1), &header.encode()).as_ref(), Ok(&header), "a header reads back");
    }
    if let Ok(history) = ReplicationHistory::decode(bytes) {
        assert_eq!(ReplicationHistory::decode(&history.encode()).as_ref(), Ok(&history), "a history reads back");
    }
    if let Ok(instances) = Instances::decode(bytes) {
        assert_eq!(Instances::decode(&instances.encode()).as_ref(), Ok(&instances), "a list of instances reads back");
    }
    if let Ok(deletion) = DeletionRecord::decode(bytes) {
        assert_eq!(DeletionRecord::decode(&deletion.encode()).as_ref(), Ok(&deletion), "a deletion reads back");
    }
    let revision = Revision { sequence: 9, id: RevisionId([7; 16]) };
    if let Ok(record) = RevisionRecord::decode(bytes, revision) {
        let written = record.encode(revision);
        assert_eq!(RevisionRecord::decode(&written, revision).as_ref(), Ok(&record), "a list of revisions reads back");
    }
    let _ = FolderEntry::decode(Uid(1), bytes);
    let _ = notes::change_log::decode(&bytes[..bytes.len() / 2], &bytes[bytes.len() / 2..]);
    if let Ok(items) = decode_items(&mut Decoder::new(bytes)) {
        let record = encoded(&items);
        let again = decode_items(&mut Decoder::new(&record)).expect("items that were just written read back");
        // The comparison uses bytes, because NaN is not equal to itself.
        assert_eq!(encoded(&again), record, "items read back");
    }
}

fn encoded(items: &[Item]) -> Vec<u8> {
    let mut out = Encoder::new();
    encode_items(&mut out, items.iter());
    out.finish()
}
