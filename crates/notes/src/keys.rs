//! The keys of the tables. All begin with the number of the database. Integers are big-endian.
//!
//! | table | key | value |
//! |---|---|---|
//! | `summary` | database, note, 0 | header |
//! | `summary` | database, note, 1 | summary items, directory of the body, blobs |
//! | `body` | database, note, ordinal, chunk | a piece of a body item |
//! | `unid` | database, UNID | note |
//! | `bymod` | database, modseq, note, kind | see [`crate::change_log`] |
//! | `children` | database, parent's UNID, note | empty |
//! | `meta` | database, `c` | counters |
//! | `meta` | database, `d`, note | class of a design note |
//! | `meta` | database, `k` | keywords |
//! | `meta` | database, `v`, note | index of a view |
//! | `meta` | database, `w` | number of the next view index |
//! | `meta` | database, `q`, note, part | a damaged record that a repair moved into quarantine |
//! | `meta` | database, `s`, note | time and author of the deletion of a note that can be restored |
//! | `meta` | database, `h`, modseq | a change of the access control list |
//! | `meta` | database, `i` | instances |
//! | `meta` | database, `p`, server | what was received from another server |
//! | `meta` | database, `l`, UNID, sequence number, id | a version of the note that lost a conflict; empty |
//! | `meta` | database, `g`, UNID | the deletion of a note whose stub was purged ([`crate::purged_deletions`]) |
//! | `meta` | database, `a`, UNID, sequence number, id | a revision from which such a deletion descends |
//! | `meta` | database, `o`, person, id | a document of a CouchDB client that does not replicate |
//! | `meta` | database, `u`, user, 0, block | times of unread marks that replicate ([`crate::unread_times`]) |
//! | `meta` | database, `m`, modseq, user, 0, block | the last change of such a block; empty |
//! | `meta` | database, `r`, UNID, user | an unread mark of a note that has not arrived |
//! | `meta` | database, `n` | what is known about these records as a whole |
//! | `meta` | database, `t`, thread key, note | the id of the note's thread ([`crate::thread_index`]) |
//! | `meta` | database, `x` | the database from which this one was copied ([`crate::database_copy`]) |
//! | `unread` | database, user, 0, block | the notes that a user has read ([`crate::unread`]) |

use base::{DbNumber, Modseq, NoteId, Unid, ViewId};
use revision::{Revision, RevisionId};
use store::KeyRange;

use crate::thread_index::ThreadKey;

/// The two records of a note in the table `summary`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum SummaryRecord {
    Header = 0,
    Summary = 1,
}

pub(crate) fn summary(database: DbNumber, note: NoteId, part: SummaryRecord) -> [u8; 9] {
    let mut key = [0; 9];
    key[..4].copy_from_slice(&database.to_key());
    key[4..8].copy_from_slice(&note.to_key());
    key[8] = part as u8;
    key
}

/// Splits a key of the table `summary` into note and part number.
pub(crate) fn split_summary(key: &[u8]) -> Option<(NoteId, u8)> {
    let note = key.get(4..8)?.try_into().ok()?;
    (key.len() == 9).then(|| (NoteId::from_key(note), key[8]))
}

pub(crate) fn body(database: DbNumber, note: NoteId, ordinal: u16, chunk: u32) -> [u8; 14] {
    let mut key = [0; 14];
    key[..4].copy_from_slice(&database.to_key());
    key[4..8].copy_from_slice(&note.to_key());
    key[8..10].copy_from_slice(&ordinal.to_be_bytes());
    key[10..].copy_from_slice(&chunk.to_be_bytes());
    key
}

pub(crate) fn body_of_item(database: DbNumber, note: NoteId, ordinal: u16) -> KeyRange {
    KeyRange::prefix(&body(database, note, ordinal, 0)[..10])
}

pub(crate) fn unid(database: DbNumber, unid: Unid) -> [u8; 20] {
    let mut key = [0; 20];
    key[..4].copy_from_slice(&database.to_key());
    key[4..].copy_from_slice(&unid.0);
    key
}

pub(crate) fn bymod(database: DbNumber, modseq: Modseq, note: NoteId, kind: u8) -> [u8; 17] {
    let mut key = [0; 17];
    key[..4].copy_from_slice(&database.to_key());
    key[4..12].copy_from_slice(&modseq.to_key());
    key[12..16].copy_from_slice(&note.to_key());
    key[16] = kind;
    key
}

/// Splits a key of the table `bymod` into modseq, note and kind.
pub(crate) fn split_bymod(key: &[u8]) -> Option<(Modseq, NoteId, u8)> {
    let key: &[u8; 17] = key.try_into().ok()?;
    let modseq = Modseq(u64::from_be_bytes(key[4..12].try_into().ok()?));
    Some((modseq, NoteId(u32::from_be_bytes(key[12..16].try_into().ok()?)), key[16]))
}

pub(crate) fn child(database: DbNumber, parent: Unid, note: NoteId) -> [u8; 24] {
    let mut key = [0; 24];
    key[..4].copy_from_slice(&database.to_key());
    key[4..20].copy_from_slice(&parent.0);
    key[20..].copy_from_slice(&note.to_key());
    key
}

pub(crate) fn children_of(database: DbNumber, parent: Unid) -> KeyRange {
    KeyRange::prefix(&child(database, parent, NoteId(0))[..20])
}

pub(crate) fn counters(database: DbNumber) -> [u8; 5] {
    meta(database, b'c')
}

/// The number that no body item has, under which the revisions of a note are stored.
pub(crate) const REVISIONS_ORDINAL: u16 = u16::MAX;

/// Returns the key of the record of a note's revisions.
pub(crate) fn revisions(database: DbNumber, note: NoteId) -> [u8; 14] {
    body(database, note, REVISIONS_ORDINAL, 0)
}

pub(crate) fn keywords(database: DbNumber) -> [u8; 5] {
    meta(database, b'k')
}

/// Returns the key of the list of instances.
pub(crate) fn instances(database: DbNumber) -> [u8; 5] {
    meta(database, b'i')
}

/// Returns the key of the history of replications from another server. Its name is compared without regard to case.
pub(crate) fn replication_history(database: DbNumber, source: &str) -> Vec<u8> {
    [&meta(database, b'p')[..], source.to_lowercase().as_bytes()].concat()
}

pub(crate) fn replication_histories(database: DbNumber) -> KeyRange {
    KeyRange::prefix(&meta(database, b'p'))
}

pub(crate) fn design(database: DbNumber, note: NoteId) -> [u8; 9] {
    let mut key = [0; 9];
    key[..5].copy_from_slice(&meta(database, b'd'));
    key[5..].copy_from_slice(&note.to_key());
    key
}

pub(crate) fn designs(database: DbNumber) -> KeyRange {
    KeyRange::prefix(&meta(database, b'd'))
}

/// Returns the key of the record that names the index of a view.
pub(crate) fn view_index(database: DbNumber, view: NoteId) -> [u8; 9] {
    let mut key = [0; 9];
    key[..5].copy_from_slice(&meta(database, b'v'));
    key[5..].copy_from_slice(&view.to_key());
    key
}

/// Returns the range of keys of all such records.
pub(crate) fn view_indexes(database: DbNumber) -> KeyRange {
    KeyRange::prefix(&meta(database, b'v'))
}

/// Returns the view in the key of such a record.
pub(crate) fn split_view_index(key: &[u8]) -> Option<NoteId> {
    Some(NoteId::from_key(key.get(5..9)?.try_into().ok()?))
}

/// Returns the key of the number of the next view index.
pub(crate) fn next_view_index(database: DbNumber) -> [u8; 5] {
    meta(database, b'w')
}

/// Returns the first key after the list of design notes.
pub(crate) fn designs_end(database: DbNumber) -> [u8; 5] {
    assert_eq!(
        designs(database).end.as_deref(),
        Some(&meta(database, b'd' + 1)[..]),
        "no other key range lies in between"
    );
    meta(database, b'd' + 1)
}

/// Returns the range of keys under which a view stores the rows that each note has in its index.
pub(crate) fn view_back_range(database: DbNumber, view: ViewId) -> KeyRange {
    KeyRange::prefix(&view_back_key(database, view, NoteId(0))[..8])
}

pub(crate) fn view_back_key(database: DbNumber, view: ViewId, note: NoteId) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&database.to_key());
    key[4..8].copy_from_slice(&view.to_key());
    key[8..].copy_from_slice(&note.to_key());
    key
}

/// Returns the note in a key of the table `viewback`.
pub(crate) fn split_view_back(key: &[u8]) -> Option<NoteId> {
    let note = key.get(8..12)?.try_into().ok()?;
    (key.len() == 12).then(|| NoteId::from_key(note))
}

pub(crate) fn quarantine(database: DbNumber, note: NoteId, part: SummaryRecord) -> [u8; 10] {
    let mut key = [part as u8; 10];
    key[..5].copy_from_slice(&meta(database, b'q'));
    key[5..9].copy_from_slice(&note.to_key());
    key
}

pub(crate) fn quarantines(database: DbNumber) -> KeyRange {
    KeyRange::prefix(&meta(database, b'q'))
}

/// Returns the note in the key of a record in quarantine.
pub(crate) fn split_quarantine(key: &[u8]) -> Option<NoteId> {
    Some(NoteId::from_key(key.get(5..9)?.try_into().ok()?))
}

pub(crate) fn deletion(database: DbNumber, note: NoteId) -> [u8; 9] {
    let mut key = [0; 9];
    key[..5].copy_from_slice(&meta(database, b's'));
    key[5..].copy_from_slice(&note.to_key());
    key
}

pub(crate) fn deletions(database: DbNumber) -> KeyRange {
    KeyRange::prefix(&meta(database, b's'))
}

/// Returns the note in the key of a deletion record.
pub(crate) fn split_deletion(key: &[u8]) -> Option<NoteId> {
    Some(NoteId::from_key(key.get(5..9)?.try_into().ok()?))
}

pub(crate) fn acl_change(database: DbNumber, modseq: Modseq) -> [u8; 13] {
    let mut key = [0; 13];
    key[..5].copy_from_slice(&meta(database, b'h'));
    key[5..].copy_from_slice(&modseq.to_key());
    key
}

pub(crate) fn acl_history(database: DbNumber) -> KeyRange {
    KeyRange::prefix(&meta(database, b'h'))
}

/// Returns the modseq in the key of a change of the access control list.
pub(crate) fn split_acl_change(key: &[u8]) -> Option<Modseq> {
    Some(Modseq(u64::from_be_bytes(key.get(5..13)?.try_into().ok()?)))
}

/// Returns the key of the record that a version of a note has lost a conflict.
pub(crate) fn loser(database: DbNumber, unid: Unid, revision: Revision) -> Vec<u8> {
    [&meta(database, b'l')[..], &unid.0, &revision.to_bytes()].concat()
}

/// Returns the range of keys of the versions of a note that have lost conflicts.
pub(crate) fn losers_of(database: DbNumber, unid: Unid) -> KeyRange {
    KeyRange::prefix(&[&meta(database, b'l')[..], &unid.0].concat())
}

/// Returns the revision in the key of a version that has lost a conflict.
pub(crate) fn split_loser(key: &[u8]) -> Option<Revision> {
    split_revision(key.get(21..)?)
}

/// Returns the key of the deletion of a note whose stub was purged.
pub(crate) fn purged_deletion(database: DbNumber, unid: Unid) -> Vec<u8> {
    [&meta(database, b'g')[..], &unid.0].concat()
}

/// Returns the key of a revision from which a purged deletion descends.
pub(crate) fn purged_version(database: DbNumber, unid: Unid, revision: Revision) -> Vec<u8> {
    [&meta(database, b'a')[..], &unid.0, &revision.to_bytes()].concat()
}

/// Returns the range of keys of the revisions from which the purged deletion of a note descends.
pub(crate) fn purged_versions_of(database: DbNumber, unid: Unid) -> KeyRange {
    KeyRange::prefix(&[&meta(database, b'a')[..], &unid.0].concat())
}

/// Returns the ranges of keys of all that is known of purged notes.
pub(crate) fn all_purged(database: DbNumber) -> [KeyRange; 2] {
    [b'a', b'g'].map(|kind| KeyRange::prefix(&meta(database, kind)))
}

/// Returns the revision in the key of one from which a purged deletion descends.
pub(crate) fn split_purged_version(key: &[u8]) -> Option<Revision> {
    split_revision(key.get(21..)?)
}

fn split_revision(bytes: &[u8]) -> Option<Revision> {
    let (sequence, id) = bytes.split_at_checked(4)?;
    let sequence = u32::from_be_bytes(sequence.try_into().ok()?);
    Some(Revision { sequence, id: RevisionId(id.try_into().ok()?) })
}

/// Returns the range of keys of the local documents of a person, of whose name `person` is a digest.
pub(crate) fn local_documents(database: DbNumber, person: [u8; 16]) -> KeyRange {
    KeyRange::prefix(&[&meta(database, b'o')[..], &person].concat())
}

/// Returns the key of a local document of a person. Name and id are represented by digests.
pub(crate) fn local_document(database: DbNumber, person: [u8; 16], id: [u8; 16]) -> Vec<u8> {
    [&meta(database, b'o')[..], &person, &id].concat()
}

/// Returns the key of a block of the unread marks of a user, whose name is in lower case.
pub(crate) fn unread_block(database: DbNumber, user: &str, block: u32) -> Vec<u8> {
    [&database.to_key()[..], user.as_bytes(), &[0], &block.to_be_bytes()].concat()
}

/// Splits the key of a block of unread marks into user and number of the block.
pub(crate) fn split_unread_block(key: &[u8]) -> Option<(&str, u32)> {
    split_user_and_block(key.get(4..)?)
}

/// Returns the key of the times of a block of the unread marks of a user, whose name is in lower case.
pub(crate) fn unread_times(database: DbNumber, user: &str, block: u32) -> Vec<u8> {
    [&meta(database, b'u')[..], user.as_bytes(), &[0], &block.to_be_bytes()].concat()
}

/// Returns the range of keys of the times of all unread marks.
pub(crate) fn all_unread_times(database: DbNumber) -> KeyRange {
    KeyRange::prefix(&meta(database, b'u'))
}

/// Splits the key of the times of unread marks into user and number of the block.
pub(crate) fn split_unread_times(key: &[u8]) -> Option<(&str, u32)> {
    split_user_and_block(key.get(5..)?)
}

/// Returns the key of the last change of a block of the unread marks of a user, whose name is in lower case.
pub(crate) fn unread_change(database: DbNumber, modseq: Modseq, user: &str, block: u32) -> Vec<u8> {
    [&meta(database, b'm')[..], &modseq.to_key(), user.as_bytes(), &[0], &block.to_be_bytes()].concat()
}

/// Returns the range of keys of the changes of unread marks after a modseq.
pub(crate) fn unread_changes_after(database: DbNumber, modseq: Modseq) -> KeyRange {
    let all = KeyRange::prefix(&meta(database, b'm'));
    KeyRange { start: [&meta(database, b'm')[..], &modseq.next().to_key()].concat(), ..all }
}

/// Splits the key of a change of unread marks into modseq, user and number of the block.
pub(crate) fn split_unread_change(key: &[u8]) -> Option<(Modseq, &str, u32)> {
    let modseq = Modseq(u64::from_be_bytes(key.get(5..13)?.try_into().ok()?));
    let (user, block) = split_user_and_block(key.get(13..)?)?;
    Some((modseq, user, block))
}

/// Returns the key of an unread mark of a note that has not arrived. The user's name is in lower case.
pub(crate) fn pending_mark(database: DbNumber, unid: Unid, user: &str) -> Vec<u8> {
    [&meta(database, b'r')[..], &unid.0, user.as_bytes()].concat()
}

/// Returns the range of keys of the unread marks of a note that has not arrived.
pub(crate) fn pending_marks_of(database: DbNumber, unid: Unid) -> KeyRange {
    KeyRange::prefix(&pending_mark(database, unid, ""))
}

/// Returns the range of keys of the unread marks of all notes that have not arrived.
pub(crate) fn pending_marks(database: DbNumber) -> KeyRange {
    KeyRange::prefix(&meta(database, b'r'))
}

/// Returns the user in the key of an unread mark of a note that has not arrived.
pub(crate) fn split_pending_mark(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(21..)?).ok()
}

/// Returns the key of what is known about the times of unread marks as a whole.
pub(crate) fn unread_state(database: DbNumber) -> [u8; 5] {
    meta(database, b'n')
}

/// Returns the key of the record of the database from which a database was copied.
pub(crate) fn copy_origin(database: DbNumber) -> [u8; 5] {
    meta(database, b'x')
}

/// Returns the range of keys of all records of one kind in the table `meta`.
pub(crate) fn meta_records(database: DbNumber, kind: u8) -> KeyRange {
    KeyRange::prefix(&meta(database, kind))
}

/// Returns a key of any table of a database with the number of another database.
pub(crate) fn in_database(database: DbNumber, key: &[u8]) -> Vec<u8> {
    let mut moved = key.to_vec();
    moved[..4].copy_from_slice(&database.to_key());
    moved
}

/// Returns the note in a key of the table `body`, the number of the item, and that of its piece.
pub(crate) fn split_body(key: &[u8]) -> Option<(NoteId, u16, u32)> {
    let key: &[u8; 14] = key.try_into().ok()?;
    let note = NoteId(u32::from_be_bytes(key[4..8].try_into().ok()?));
    Some((note, u16::from_be_bytes(key[8..10].try_into().ok()?), u32::from_be_bytes(key[10..].try_into().ok()?)))
}

/// Returns the key of the record of a note in the index of threads.
pub(crate) fn thread_entry(database: DbNumber, key: ThreadKey, note: NoteId) -> [u8; 17] {
    let mut entry = [0; 17];
    entry[..5].copy_from_slice(&meta(database, b't'));
    entry[5..13].copy_from_slice(&key.0.to_be_bytes());
    entry[13..].copy_from_slice(&note.to_key());
    entry
}

/// Returns the range of keys of the notes with a key in the index of threads.
pub(crate) fn thread_entries_of(database: DbNumber, key: ThreadKey) -> KeyRange {
    KeyRange::prefix(&thread_entry(database, key, NoteId(0))[..13])
}

/// Returns the range of keys of the index of threads.
pub(crate) fn thread_entries(database: DbNumber) -> KeyRange {
    KeyRange::prefix(&meta(database, b't'))
}

/// Splits the key of a record in the index of threads into key and note.
pub(crate) fn split_thread_entry(entry: &[u8]) -> Option<(ThreadKey, NoteId)> {
    let entry: &[u8; 17] = entry.try_into().ok()?;
    let key = u64::from_be_bytes(entry[5..13].try_into().ok()?);
    Some((ThreadKey(key), NoteId::from_key(entry[13..].try_into().ok()?)))
}

fn split_user_and_block(key: &[u8]) -> Option<(&str, u32)> {
    let (user, block) = key.split_at_checked(key.len().checked_sub(5)?)?;
    let block = u32::from_be_bytes(block.strip_prefix(&[0])?.try_into().ok()?);
    Some((std::str::from_utf8(user).ok()?, block))
}

fn meta(database: DbNumber, kind: u8) -> [u8; 5] {
    let mut key = [kind; 5];
    key[..4].copy_from_slice(&database.to_key());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTES: [NoteId; 4] = [NoteId(1), NoteId(255), NoteId(256), NoteId(u32::MAX)];

    fn holds(range: &KeyRange, key: &[u8]) -> bool {
        key >= range.start.as_slice() && range.end.as_ref().is_none_or(|end| key < end.as_slice())
    }

    #[test]
    fn keys_are_split_into_their_parts() {
        let database = DbNumber(9);
        for note in NOTES {
            let modseq = Modseq(u64::from(note.0) << 20);
            assert_eq!(split_summary(&summary(database, note, SummaryRecord::Header)), Some((note, 0)));
            assert_eq!(split_summary(&summary(database, note, SummaryRecord::Summary)), Some((note, 1)));
            assert_eq!(split_bymod(&bymod(database, modseq, note, 3)), Some((modseq, note, 3)));
            assert_eq!(split_view_index(&view_index(database, note)), Some(note));
            assert_eq!(split_view_back(&view_back_key(database, ViewId(note.0), note)), Some(note));
            assert_eq!(split_quarantine(&quarantine(database, note, SummaryRecord::Summary)), Some(note));
            assert_eq!(split_deletion(&deletion(database, note)), Some(note));
            assert_eq!(split_acl_change(&acl_change(database, modseq)), Some(modseq));
            let marks = Some(("cn=ann", note.0));
            assert_eq!(split_unread_block(&unread_block(database, "cn=ann", note.0)), marks);
            assert_eq!(split_unread_times(&unread_times(database, "cn=ann", note.0)), marks);
            let change = unread_change(database, modseq, "cn=ann", note.0);
            assert_eq!(split_unread_change(&change), Some((modseq, "cn=ann", note.0)));
            assert!(!holds(&unread_changes_after(database, modseq), &change));
            assert!(holds(&unread_changes_after(database, Modseq(modseq.0.saturating_sub(1))), &change));
            let entry = thread_entry(database, ThreadKey(modseq.0), note);
            assert_eq!(split_thread_entry(&entry), Some((ThreadKey(modseq.0), note)));
            assert!(holds(&thread_entries_of(database, ThreadKey(modseq.0)), &entry));
            assert!(!holds(&thread_entries_of(database, ThreadKey(modseq.0 + 1)), &entry));
            assert_eq!(split_pending_mark(&pending_mark(database, Unid([3; 16]), "cn=ann")), Some("cn=ann"));
        }
        for length in (0..30).filter(|length| *length != 9) {
            assert_eq!(split_summary(&vec![0; length]), None, "{length}");
        }
        for length in (0..30).filter(|length| *length != 17) {
            assert_eq!(split_bymod(&vec![0; length]), None, "{length}");
        }
        assert_eq!(
            (split_view_back(&[0; 11]), split_deletion(&[0; 8]), split_acl_change(&[0; 12])),
            (None, None, None)
        );
    }

    #[test]
    fn change_keys_sort_by_modseq_note_and_kind() {
        let mut changes = Vec::new();
        for modseq in [0, 1, 255, 256, u64::MAX] {
            for note in NOTES {
                changes.extend([0, 1, 2, 255].map(|kind| (Modseq(modseq), note, kind)));
            }
        }
        let keys: Vec<_> =
            changes.iter().map(|(modseq, note, kind)| bymod(DbNumber(1), *modseq, *note, *kind)).collect();
        assert!(keys.is_sorted_by(|one, next| one < next));
        assert!(
            keys.iter().all(|key| *key < bymod(DbNumber(2), Modseq(0), NoteId(0), 0)),
            "the keys of a database precede those of the next"
        );
    }

    /// Checks that a range of the table `meta` contains the keys of one kind and one database only, whatever keys are
    /// next to it.
    #[test]
    fn ranges_contain_exactly_their_own_keys() {
        let kinds = |database: DbNumber, note: NoteId| {
            let modseq = Modseq(u64::from(note.0) << 32);
            [
                (designs(database), design(database, note).to_vec()),
                (view_indexes(database), view_index(database, note).to_vec()),
                (quarantines(database), quarantine(database, note, SummaryRecord::Summary).to_vec()),
                (deletions(database), deletion(database, note).to_vec()),
                (acl_history(database), acl_change(database, modseq).to_vec()),
                (thread_entries(database), thread_entry(database, ThreadKey(modseq.0), note).to_vec()),
            ]
        };
        let databases = [DbNumber(0), DbNumber(1), DbNumber(255), DbNumber(256), DbNumber(u32::MAX)];
        for (own, other) in databases.iter().flat_map(|own| databases.map(|other| (*own, other))) {
            for note in NOTES {
                for (number, (range, _)) in kinds(own, note).iter().enumerate() {
                    for (kind, (_, key)) in kinds(other, note).iter().enumerate() {
                        assert_eq!(
                            holds(range, key),
                            own == other && number == kind,
                            "{own:?} {other:?} {number} {kind}"
                        );
                    }
                    let single = [counters(other), keywords(other), next_view_index(other)];
                    assert!(single.iter().all(|key| !holds(range, key)));
                }
                let body_range = body_of_item(own, note, 7);
                let children = children_of(own, Unid([7; 16]));
                for ordinal in [6, 7, 8] {
                    let is_its = own == other && ordinal == 7;
                    assert_eq!(holds(&body_range, &body(other, note, ordinal, u32::MAX)), is_its);
                    assert_eq!(holds(&children, &child(other, Unid([ordinal as u8; 16]), note)), is_its);
                }
            }
        }
    }
}
