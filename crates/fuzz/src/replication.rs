//! Fuzz target for what other servers send: decodes arbitrary bytes as a note and as a page of a list of changes.
//!
//! Every accepted message can be encoded, and decodes to the same value.

use prost::Message as _;
use proto::v1;
use rpc::convert::replication::{note_from_proto, note_to_proto, page_from_proto, page_to_proto};

/// Decodes the bytes as the messages of a replication.
pub fn decode(bytes: &[u8]) {
    if let Ok(sent) = v1::ReplicaNote::decode(bytes)
        && let Ok(note) = note_from_proto(sent)
    {
        // The comparison uses bytes, because NaN is not equal to itself.
        let written = note_to_proto(note).encode_to_vec();
        let again = v1::ReplicaNote::decode(written.as_slice()).expect("a written message reads back");
        let again = note_from_proto(again).expect("a written note is valid");
        assert_eq!(note_to_proto(again).encode_to_vec(), written, "a note reads back");
    }
    if let Ok(sent) = v1::ChangedNotes::decode(bytes)
        && let Ok(page) = page_from_proto(sent)
    {
        let written = page_to_proto(page.clone());
        assert_eq!(page_from_proto(written).expect("a written page is valid"), page, "a page reads back");
    }
}
