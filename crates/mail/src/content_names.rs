//! The names of contents in notes as replicas exchange them.
//!
//! A store that encrypts attachments names contents by a keyed hash, which means nothing elsewhere. On the wire they
//! are named by their BLAKE3 hashes. The names are in the list of the note, in items with attachments, and in the
//! skeletons of messages, whose other bytes stay as they are.

use std::collections::HashMap;

use base::NoteId;
use notes::replica::ReplicaNote;
use notes::{DatabaseSnapshot, Item, ItemValue};
use store::blob::{BlobId, Blobs};

use crate::message::{BODY_ITEMS, SKELETON_ORDINAL};
use crate::mime::skeleton::{ContentId, Skeleton};

/// Replaces the names of contents in a note of this store by their hashes, as replicas exchange it. Fails if a content
/// is damaged.
pub fn name_by_hash(
    blobs: &Blobs,
    reading: &DatabaseSnapshot<'_>,
    id: NoteId,
    note: &mut ReplicaNote,
) -> notes::Result<()> {
    if blobs.names_by_hash() || note.blobs.is_empty() {
        return Ok(());
    }
    let mut names = HashMap::new();
    for blob in &note.blobs {
        names.insert(*blob, BlobId(reading.content_hash(id, blob)?));
    }
    rename_contents(note, &|blob| names.get(&blob).copied().unwrap_or(blob));
    Ok(())
}

/// Replaces the hashes of contents in a note that has arrived by their names in this store. Adds the hashes by the new
/// names.
pub fn name_as_stored(blobs: &Blobs, note: &mut ReplicaNote, hashes: &mut HashMap<BlobId, BlobId>) {
    if blobs.names_by_hash() {
        return;
    }
    // Only what is in the list of the note can be a content of it.
    let names: HashMap<BlobId, BlobId> = note.blobs.iter().map(|hash| (*hash, blobs.id_of_hash(&hash.0))).collect();
    hashes.extend(names.iter().map(|(hash, name)| (*name, *hash)));
    rename_contents(note, &|hash| names.get(&hash).copied().unwrap_or(hash));
}

/// Returns the name of a content of a note by its hash, with its length, or `None` if the note does not have it.
pub fn find_by_hash(
    blobs: &Blobs,
    reading: &DatabaseSnapshot<'_>,
    note: NoteId,
    hash: &BlobId,
) -> notes::Result<Option<(BlobId, u64)>> {
    let length_of = |name: BlobId| match reading.blob_length(note, &name) {
        Ok(length) => Ok(Some((name, length))),
        Err(notes::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    match length_of(blobs.id_of_hash(&hash.0))? {
        // Content from before encryption is named by its hash.
        None if !blobs.names_by_hash() => length_of(*hash),
        found => Ok(found),
    }
}

/// Replaces the names of contents in a note.
fn rename_contents(note: &mut ReplicaNote, name: &dyn Fn(BlobId) -> BlobId) {
    note.blobs.iter_mut().for_each(|blob| *blob = name(*blob));
    for item in note.items.iter_mut().flatten() {
        rename_in_item(item, name);
    }
}

fn rename_in_item(item: &mut Item, name: &dyn Fn(BlobId) -> BlobId) {
    let is_skeleton = item.name.eq_ignore_ascii_case(BODY_ITEMS[usize::from(SKELETON_ORDINAL)]);
    match &mut item.value {
        ItemValue::Object { blob, .. } => *blob = name(*blob),
        ItemValue::MimePart(bytes) if is_skeleton => {
            // An item of this name that is no skeleton names no contents.
            let Ok(mut skeleton) = Skeleton::decode(bytes) else { return };
            skeleton.rename(&|content| ContentId(name(BlobId(content.0)).0));
            *bytes = skeleton.encode();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use base::{Timestamp, Unid};
    use notes::NoteClass;
    use notes::revision_record::RevisionRecord;
    use revision::Revision;

    use super::*;
    use crate::mime::{self, skeleton};

    fn flipped(blob: BlobId) -> BlobId {
        BlobId(blob.0.map(|byte| !byte))
    }

    #[test]
    fn names_in_lists_items_and_skeletons_are_replaced_and_come_back() {
        let body = "line of the file\r\n".repeat(1_000);
        let raw = format!("Subject: x\r\nContent-Type: text/plain\r\n\r\n{body}");
        let mut names = Vec::new();
        let segments = skeleton::split(raw.as_bytes(), &mime::parse(raw.as_bytes()), 4_096);
        let skeleton = Skeleton::from_segments(segments, |content| {
            let id = *blake3::hash(&content).as_bytes();
            names.push(BlobId(id));
            Ok::<_, ()>(ContentId(id))
        });
        let skeleton = skeleton.expect("every content has a name").encode();
        assert_eq!(names.len(), 1, "the body is a content");
        let mut items = vec![Item::body("$MIME", ItemValue::MimePart(skeleton))];
        let value = ItemValue::Object {
            file_name: "a".to_owned(),
            media_type: "text/plain".to_owned(),
            length: 1,
            blob: BlobId([7; 32]),
        };
        items.push(Item::summary("$FILE", value));
        items.push(Item::body("$MIME", ItemValue::MimePart(b"no skeleton".to_vec())));
        names.push(BlobId([7; 32]));
        let revision = Revision::first(Timestamp(1), Unid([1; 16]));
        let note = ReplicaNote {
            unid: Unid([1; 16]),
            class: NoteClass::DOCUMENT,
            is_conflict: false,
            revision,
            sequence_time: Timestamp(1),
            record: RevisionRecord::default(),
            created: Timestamp(1),
            received: Timestamp(1),
            size: None,
            crlf_growth: 0,
            parent: None,
            items: Some(items),
            blobs: names.clone(),
            state: Vec::new(),
            client_id: None,
            is_truncated: false,
        };
        let mut renamed = note.clone();
        rename_contents(&mut renamed, &flipped);
        let bytes = format!("{:?}", renamed.items);
        assert_ne!(renamed, note);
        assert!(names.iter().all(|name| !renamed.blobs.contains(name) && !bytes.contains(&name.to_string())));
        let skeletons = renamed.items.iter().flatten().filter(|item| item.name == "$MIME");
        let kept = skeletons.filter(|item| matches!(&item.value, ItemValue::MimePart(part) if part == b"no skeleton"));
        assert_eq!(kept.count(), 1);
        rename_contents(&mut renamed, &flipped);
        assert_eq!(renamed, note);
    }
}
