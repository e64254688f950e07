//! Stored records: every record reads back unchanged; truncated records, other versions, and values beyond a limit are
//! refused.

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, Modseq, Name, NoteId, ReplicaId, Timestamp, Uid, Unid, ViewId};
use notes::change_times::{ChangeTimes, StateKey};
use notes::counters::Counters;
use notes::item::{decode_item_refs, decode_items, encode_items, summary_len};
use notes::limits::{
    BLOBS_PER_NOTE_MAX, BODY_ITEMS_MAX, FOLDERS_PER_NOTE_MAX, JOINED_VALUES_MAX, KEYWORDS_PER_DATABASE_MAX,
    KEYWORDS_PER_NOTE_MAX,
};
use notes::note::{BodyDirectoryEntry, summary_items};
use notes::{
    DatabaseKind, DatabaseOptions, DatabaseRecord, DeletionRule, FolderEntry, FolderState, FullTextSchedule, Item,
    ItemFlags, ItemValue, Keyword, Keywords, Marks, Membership, NoteClass, NoteFlags, NoteHeader, OdsVersion,
    SettingTimes, Summary, UnreadReplication,
};
use proptest::prelude::*;
use revision::RevisionId;
use store::BlobId;

/// Asserts that a record reads back unchanged, and that no truncated record is accepted.
fn check<T: PartialEq + std::fmt::Debug>(
    stored: &[u8],
    value: &T,
    decode: impl Fn(&[u8]) -> Result<T, InvalidRecord>,
) -> Result<(), TestCaseError> {
    let read = decode(stored);
    prop_assert_eq!(read.as_ref(), Ok(value));
    // All lengths of a short record; of a long record those near its beginning and its end.
    let lengths = (0..stored.len()).filter(|length| *length < 200 || length + 50 > stored.len());
    for length in lengths {
        prop_assert_eq!(decode(&stored[..length]).err(), Some(InvalidRecord), "{} of {}", length, stored.len());
    }
    Ok(())
}

fn value() -> impl Strategy<Value = ItemValue> {
    // No NaN, because the comparison of values would fail: NaN is not equal to itself.
    let number = || any::<i32>().prop_map(|number| f64::from(number) / 3.0);
    let time = || any::<i64>().prop_map(Timestamp);
    let unid = || any::<[u8; 16]>().prop_map(Unid);
    prop_oneof![
        ".{0,40}".prop_map(ItemValue::Text),
        prop::collection::vec(".{0,9}", 0..5).prop_map(ItemValue::TextList),
        number().prop_map(ItemValue::Number),
        prop::collection::vec(number(), 0..5).prop_map(ItemValue::NumberList),
        time().prop_map(ItemValue::Time),
        prop::collection::vec(time(), 0..5).prop_map(ItemValue::TimeList),
        ".{0,40}".prop_map(ItemValue::RichText),
        prop::collection::vec(any::<u8>(), 0..60).prop_map(ItemValue::MimePart),
        (".{0,9}", ".{0,9}", any::<u64>(), any::<[u8; 32]>()).prop_map(|(file_name, media_type, length, blob)| {
            ItemValue::Object { file_name, media_type, length, blob: BlobId(blob) }
        }),
        prop::collection::vec(unid(), 0..4).prop_map(ItemValue::NoteReferences),
        "[0-9]{1,20}".prop_map(ItemValue::Json),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    (".{1,12}", any::<u16>(), value()).prop_map(|(name, flags, value)| Item { name, flags: ItemFlags(flags), value })
}

fn keywords() -> impl Strategy<Value = Vec<Keyword>> {
    prop::collection::btree_set(any::<u16>(), 0..KEYWORDS_PER_NOTE_MAX)
        .prop_map(|numbers| numbers.into_iter().map(Keyword).collect())
}

fn header() -> impl Strategy<Value = NoteHeader> {
    let times = any::<[i64; 4]>();
    let membership =
        (any::<u32>(), any::<u32>()).prop_map(|(folder, uid)| Membership { folder: ViewId(folder), uid: Uid(uid) });
    let memberships = prop::collection::vec(membership, 0..FOLDERS_PER_NOTE_MAX);
    // The stored form uses the bits 0x10, 0x40, 0x80, 0x100, 0x1000 and 0x2000.
    let flags = any::<u16>().prop_map(|flags| NoteFlags(flags & !0x31D0));
    let sizes = (any::<u64>(), prop_oneof![Just(0), any::<u64>()]);
    let numbers = (any::<u16>(), flags, any::<u32>(), any::<u64>(), any::<u8>());
    let names = (any::<[u8; 16]>(), prop::option::of(any::<[u8; 16]>()));
    let revision = (0..3u8, any::<[u8; 16]>());
    let key = prop_oneof![
        (0..8u8).prop_map(StateKey::Mark),
        any::<u16>().prop_map(|number| StateKey::Keyword(Keyword(number))),
        any::<u32>().prop_map(|number| StateKey::Folder(ViewId(number))),
    ];
    let change_times = prop::collection::vec((key, any::<i64>().prop_map(Timestamp)), 0..5);
    (names, numbers, times, sizes, keywords(), memberships, (revision, change_times)).prop_map(
        |(names, numbers, times, sizes, keywords, folders, ((form, id), change_times))| {
            let (class, flags, sequence, modseq, marks) = numbers;
            let revision_id = match form {
                0 => RevisionId::first(Timestamp(times[0]), Unid(names.0)),
                1 => RevisionId::new(Timestamp(times[0]), RevisionId(id).tail()),
                _ => RevisionId(id),
            };
            NoteHeader {
                note: NoteId(7),
                unid: Unid(names.0),
                class: NoteClass(class),
                flags,
                sequence,
                sequence_time: Timestamp(times[0]),
                revision_id,
                created: Timestamp(times[1]),
                modified: Timestamp(times[2]),
                modseq: Modseq(modseq),
                saved_modseq: Modseq(modseq.saturating_sub(sizes.0 % 1_000)),
                parent: names.1.map(Unid),
                received: Timestamp(times[3]),
                size: sizes.0,
                crlf_growth: sizes.1,
                marks: Marks(marks),
                keywords,
                deleted_in: folders.iter().skip(usize::from(marks)).map(|place| place.folder).collect(),
                folders,
                change_times: ChangeTimes::from_list(change_times),
            }
        },
    )
}

fn options() -> impl Strategy<Value = DatabaseOptions> {
    let full_text = prop_oneof![
        Just(FullTextSchedule::Off),
        Just(FullTextSchedule::Immediate),
        Just(FullTextSchedule::Hourly),
        (0_u8..24).prop_map(FullTextSchedule::Daily)
    ];
    let quota = prop::option::of(0..u64::MAX);
    let kept = prop::option::of(1..u16::MAX);
    let replication = prop::sample::select(UnreadReplication::ALL.to_vec());
    (any::<u16>(), any::<[bool; 3]>(), quota, full_text, kept, replication).prop_map(
        |(purge_interval_days, switches, quota_bytes, full_text, keep_deleted_hours, unread_replication)| {
            let [no_unread_marks, no_view_updates, is_open_to_couchdb] = switches;
            DatabaseOptions {
                purge_interval_days,
                no_unread_marks,
                quota_bytes,
                full_text,
                no_view_updates,
                keep_deleted_hours,
                is_open_to_couchdb,
                deletions: None,
                unread_replication,
            }
        },
    )
}

proptest! {
    #[test]
    fn items_read_back_owned_and_borrowed(items in prop::collection::vec(item(), 0..6)) {
        let mut out = Encoder::new();
        encode_items(&mut out, items.iter());
        let stored = out.finish();
        check(&stored, &items, |bytes| decode_items(&mut Decoder::new(bytes)))?;
        let borrowed: Vec<_> = items.iter().map(Item::as_borrowed).collect();
        prop_assert_eq!(decode_item_refs(&mut Decoder::new(&stored)), Ok(borrowed.clone()));
        prop_assert_eq!(borrowed.iter().map(|item| item.to_item()).collect::<Vec<_>>(), items);
    }

    #[test]
    fn headers_read_back(header in header()) {
        check(&header.encode(), &header, |bytes| NoteHeader::decode(header.note, bytes))?;
    }

    #[test]
    fn summaries_read_back(items in prop::collection::vec(item(), 0..4), names in prop::collection::vec(".{1,9}", 0..4), blobs in any::<[[u8; 32]; 3]>()) {
        let body = (0..).zip(names).map(|(ordinal, name)| BodyDirectoryEntry { ordinal, name, length: u64::from(ordinal) << 40 });
        let summary = Summary { items, body: body.collect(), blobs: blobs.map(BlobId).to_vec() };
        let stored = summary.encode();
        check(&stored, &summary, Summary::decode)?;
        let borrowed = summary_items(&stored).expect("the record is complete");
        prop_assert_eq!(borrowed.iter().map(|item| item.to_item()).collect::<Vec<_>>(), summary.items);
    }

    #[test]
    fn encoded_lengths_are_computed_without_encoding(items in prop::collection::vec(item(), 0..6)) {
        let length = |item: &Item| {
            let mut out = Encoder::new();
            item.encode(&mut out);
            out.len()
        };
        let mut summary = Summary::default();
        for item in &items {
            prop_assert_eq!(item.encoded_len(), length(item));
            if item.is_summary() {
                summary.items.push(item.clone());
            } else {
                let ordinal = u16::try_from(summary.body.len()).expect("they are few");
                summary.body.push(BodyDirectoryEntry { ordinal, name: item.name.clone(), length: length(item) as u64 });
            }
        }
        prop_assert_eq!(summary_len(&items), summary.encode().len());
    }

    #[test]
    fn folder_entries_read_back(header in header(), uid in any::<u32>(), saved in any::<i64>()) {
        // An entry uses the two upper bits of the byte of marks.
        let header = NoteHeader { marks: Marks(header.marks.0 & 0x1F), ..header };
        let place = Membership { folder: ViewId(0), uid: Uid(uid) };
        let entry = FolderEntry::from_header(&header, place, Timestamp(saved));
        let stored = entry.encode();
        let read = FolderEntry::decode(Uid(uid), &stored);
        prop_assert_eq!(read.as_ref(), Ok(&entry));
        // Keywords extend to the end of the record, so only a half keyword is recognized as truncated.
        let fixed = stored.len() - 2 * entry.keywords.len();
        for length in (0..fixed).chain((fixed + 1..stored.len()).step_by(2)) {
            prop_assert_eq!(FolderEntry::decode(Uid(uid), &stored[..length]).err(), Some(InvalidRecord));
        }
        let state = FolderState { uid_validity: uid, uid_next: Uid(uid), highest_modseq: header.modseq, shared: None };
        check(&state.encode(), &state, FolderState::decode)?;
    }

    #[test]
    fn database_records_read_back(options in options(), structure in 1_u16..4, number in any::<u32>(), replica in any::<u64>(), kind in 0_usize..4, texts in any::<[i64; 1]>()) {
        let kinds = [DatabaseKind::Standard, DatabaseKind::Mail, DatabaseKind::MailBox, DatabaseKind::Directory];
        let record = DatabaseRecord {
            number: DbNumber(number),
            path: "Mail/Änn.nsf".to_owned(),
            replica_id: ReplicaId(replica),
            title: "Ein Titel".to_owned(),
            kind: kinds[kind],
            owner: Name::new("Ann/Acme"),
            created: Timestamp(texts[0]),
            options,
            shard: number.rotate_left(7),
            ods: OdsVersion(structure),
            setting_times: SettingTimes::default(),
        };
        let stored = record.encode();
        check(&stored, &record, DatabaseRecord::decode)?;
        let record = DatabaseRecord { ods: OdsVersion(OdsVersion::CURRENT.0 + 1), ..record };
        let newer = [&record.encode()[..], b"what a newer structure adds"].concat();
        prop_assert_eq!(DatabaseRecord::decode(&newer), Ok(record.clone()));
        let setting_times = SettingTimes { title: record.created, deletions: Timestamp(7), ..SettingTimes::default() };
        let deletions = Some(DeletionRule::DeletionsCount);
        let options = DatabaseOptions { deletions, is_open_to_couchdb: false, ..record.options };
        let changed = DatabaseRecord { ods: OdsVersion::CURRENT, options, setting_times, ..record };
        prop_assert_eq!(DatabaseRecord::decode(&changed.encode()), Ok(changed));
    }

    #[test]
    fn keywords_read_back(names in prop::collection::btree_set("[a-z]{1,9}", 0..40)) {
        let mut out = Encoder::new();
        out.u8(1).varint(names.len() as u64);
        for name in &names {
            out.text(name);
        }
        let stored = out.finish();
        let keywords = Keywords::decode(&stored).expect("the record is complete");
        prop_assert_eq!(keywords.encode(), stored.clone());
        check(&stored, &keywords, Keywords::decode)?;
        for (number, name) in names.iter().enumerate() {
            prop_assert_eq!(keywords.find(&name.to_uppercase()), Some(Keyword(number as u16)));
            prop_assert_eq!(keywords.name(Keyword(number as u16)), Some(name.as_str()));
        }
        prop_assert_eq!(keywords.name(Keyword(names.len() as u16)), None);
    }

    #[test]
    fn counters_read_back_and_are_validated(numbers in any::<[u64; 8]>(), next_note in 1_u32.., uid_validity in any::<u32>()) {
        let modseq = numbers[0];
        let counters = Counters {
            next_note: NoteId(next_note),
            modseq: Modseq(modseq),
            design_modseq: Modseq(numbers[1].min(modseq)),
            purged_modseq: Modseq(numbers[2].min(modseq)),
            notes: numbers[3],
            stubs: numbers[4],
            bytes: numbers[5],
            uid_validity,
            index_bytes: numbers[6],
            personal_index_bytes: numbers[7],
        };
        let stored = counters.encode();
        check(&stored, &counters, Counters::decode)?;
        // Version 1 ended before the sizes of the indexes.
        let without = Counters { index_bytes: 0, personal_index_bytes: 0, ..counters };
        let shorter = without.encode();
        let first = [&[1_u8][..], &shorter[1..shorter.len() - 2]].concat();
        prop_assert_eq!(Counters::decode(&first), Ok(without));
        // The numbers are at fixed offsets: version, next note, then the three modseqs.
        let changed = |offset: usize, bytes: &[u8]| {
            let mut wrong = stored.clone();
            wrong[offset..offset + bytes.len()].copy_from_slice(bytes);
            Counters::decode(&wrong)
        };
        prop_assert!(changed(1, &[0; 4]).is_err(), "note numbers start at 1");
        if let Some(later) = modseq.checked_add(1) {
            prop_assert!(changed(13, &later.to_be_bytes()).is_err(), "the design changed after the last change");
            prop_assert!(changed(21, &later.to_be_bytes()).is_err(), "changes cannot be purged before they happen");
        }
    }
}

#[test]
fn unknown_versions_are_refused() {
    let header = NoteHeader { flags: NoteFlags::STUB, ..any_header() };
    let records =
        [header.encode(), Summary::default().encode(), Counters::START.encode(), Keywords::default().encode()];
    for (number, stored) in records.iter().enumerate() {
        for version in [0, if number == 2 { 3 } else { 2 }, 255] {
            let stored = [&[version], &stored[1..]].concat();
            let is_refused = match number {
                0 => NoteHeader::decode(NoteId(1), &stored).is_err(),
                1 => Summary::decode(&stored).is_err() && summary_items(&stored).is_err(),
                2 => Counters::decode(&stored).is_err(),
                _ => Keywords::decode(&stored).is_err(),
            };
            assert!(is_refused, "version {version} of record {number}");
        }
    }
}

#[test]
fn values_beyond_the_limits_are_refused() {
    let membership = Membership { folder: ViewId(1), uid: Uid(1) };
    let header = |folders: usize, keywords: usize| NoteHeader {
        folders: vec![membership; folders],
        keywords: vec![Keyword(1); keywords],
        ..any_header()
    };
    let reads = |header: NoteHeader| NoteHeader::decode(NoteId(1), &header.encode()).is_ok();
    assert!(reads(header(JOINED_VALUES_MAX, JOINED_VALUES_MAX)));
    assert!(!reads(header(JOINED_VALUES_MAX + 1, 0)) && !reads(header(0, JOINED_VALUES_MAX + 1)));
    let place = Membership { folder: ViewId(1), uid: Uid(1) };
    let entry = |keywords: usize| FolderEntry::from_header(&header(0, keywords), place, Timestamp(0)).encode();
    assert!(FolderEntry::decode(Uid(1), &entry(JOINED_VALUES_MAX)).is_ok());
    assert!(FolderEntry::decode(Uid(1), &entry(JOINED_VALUES_MAX + 1)).is_err());
    let summary = |body: usize, blobs: usize| Summary {
        items: Vec::new(),
        body: vec![BodyDirectoryEntry { ordinal: 0, name: "B".to_owned(), length: 1 }; body],
        blobs: vec![BlobId([1; 32]); blobs],
    };
    let reads = |summary: Summary| Summary::decode(&summary.encode()).is_ok();
    assert!(reads(summary(BODY_ITEMS_MAX, BLOBS_PER_NOTE_MAX)));
    assert!(!reads(summary(BODY_ITEMS_MAX + 1, 0)) && !reads(summary(0, BLOBS_PER_NOTE_MAX + 1)));
    let keywords = |count: usize| {
        let mut out = Encoder::new();
        out.u8(1).varint(count as u64);
        for _ in 0..count {
            out.text("K");
        }
        Keywords::decode(&out.finish())
    };
    assert!(keywords(KEYWORDS_PER_DATABASE_MAX).is_ok() && keywords(KEYWORDS_PER_DATABASE_MAX + 1).is_err());
}

fn any_header() -> NoteHeader {
    NoteHeader {
        note: NoteId(1),
        unid: Unid([1; 16]),
        class: NoteClass::DOCUMENT,
        flags: NoteFlags::default(),
        sequence: 1,
        sequence_time: Timestamp(1),
        revision_id: RevisionId::first(Timestamp(1), Unid([1; 16])),
        created: Timestamp(2),
        modified: Timestamp(3),
        modseq: Modseq(4),
        saved_modseq: Modseq(4),
        parent: None,
        received: Timestamp(5),
        size: 6,
        crlf_growth: 0,
        marks: Marks::NONE,
        keywords: Vec::new(),
        folders: Vec::new(),
        deleted_in: Vec::new(),
        change_times: ChangeTimes::default(),
    }
}
