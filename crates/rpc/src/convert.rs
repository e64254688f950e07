//! Conversion of items, headers and keys between the protocol and `notes`. All functions are pure.
//!
//! Values from a client are checked here as far as this is possible for a single value; `notes` enforces the limits of
//! whole notes.

use base::{NoteId, Timestamp, Unid};
use notes::{
    AclEntry, AclFlags, AclKind, AclLevel, ExpectedVersion, Item, ItemFlags, ItemValue, NoteClass, NoteFlags,
    NoteHeader,
};
use proto::v1;
use proto::v1::value::Kind;
use revision::{Revision, RevisionId};
use store::blob::BlobId;

use crate::error::{Error, Result, access_level};

pub mod replication;

/// Converts an item to the protocol's type.
#[must_use]
pub fn item_to_proto(item: &Item) -> v1::Item {
    let flag = |flag| item.flags.contains(flag);
    let flags = v1::ItemFlags {
        summary: flag(ItemFlags::SUMMARY),
        names: flag(ItemFlags::NAMES),
        readers: flag(ItemFlags::READERS),
        authors: flag(ItemFlags::AUTHORS),
        protected: flag(ItemFlags::PROTECTED),
        signed: flag(ItemFlags::SIGNED),
    };
    v1::Item { name: item.name.clone(), flags: Some(flags), value: Some(value_to_proto(&item.value)) }
}

/// Converts a value to the protocol's type.
#[must_use]
pub fn value_to_proto(value: &ItemValue) -> v1::Value {
    let kind = match value {
        ItemValue::Text(text) => Kind::Text(text.clone()),
        ItemValue::TextList(texts) => Kind::TextList(v1::TextList { values: texts.clone() }),
        ItemValue::Number(number) => Kind::Number(*number),
        ItemValue::NumberList(numbers) => Kind::NumberList(v1::NumberList { values: numbers.clone() }),
        ItemValue::Time(time) => Kind::TimeUs(time.0),
        ItemValue::TimeList(times) => {
            Kind::TimeList(v1::TimeList { values_us: times.iter().map(|time| time.0).collect() })
        }
        ItemValue::RichText(text) => Kind::RichText(text.clone()),
        ItemValue::MimePart(bytes) => Kind::MimePart(bytes.clone()),
        ItemValue::Object { file_name, media_type, length, blob } => Kind::Attachment(v1::Attachment {
            file_name: file_name.clone(),
            media_type: media_type.clone(),
            length_bytes: *length,
            content_id: blob.0.to_vec(),
        }),
        ItemValue::Json(text) => Kind::Json(text.clone()),
        ItemValue::NoteReferences(unids) => {
            Kind::NoteReferences(v1::UnidList { values: unids.iter().map(|unid| unid.0.to_vec()).collect() })
        }
    };
    v1::Value { kind: Some(kind) }
}

/// Converts an item from a client. Returns an error if its name is reserved or its value is missing or not valid.
pub fn item_from_proto(item: v1::Item) -> Result<Item> {
    let name = item.name;
    if let Some(reserved) = notes::formula_document::reserved_item(&name) {
        return Err(Error::invalid(format!(
            "{reserved} is derived from the note's header and cannot be set as an item"
        )));
    }
    let value = item.value.and_then(|value| value.kind);
    let value = value.ok_or_else(|| Error::invalid(format!("the item {name:?} has no value")))?;
    let flags = item.flags.unwrap_or_default();
    let flags = [
        (flags.summary, ItemFlags::SUMMARY),
        (flags.names, ItemFlags::NAMES),
        (flags.readers, ItemFlags::READERS),
        (flags.authors, ItemFlags::AUTHORS),
        (flags.protected, ItemFlags::PROTECTED),
        (flags.signed, ItemFlags::SIGNED),
    ];
    let set = flags.into_iter().filter(|(is_set, _)| *is_set);
    let flags = set.fold(ItemFlags::NONE, |flags, (_, flag)| flags.union(flag));
    Ok(Item { name, flags, value: value_from_proto(value)? })
}

fn value_from_proto(kind: Kind) -> Result<ItemValue> {
    Ok(match kind {
        Kind::Text(text) => ItemValue::Text(text),
        Kind::TextList(list) => ItemValue::TextList(list.values),
        Kind::Number(number) => ItemValue::Number(number),
        Kind::NumberList(list) => ItemValue::NumberList(list.values),
        Kind::TimeUs(time) => ItemValue::Time(Timestamp(time)),
        Kind::TimeList(list) => ItemValue::TimeList(list.values_us.into_iter().map(Timestamp).collect()),
        Kind::RichText(text) => ItemValue::RichText(text),
        Kind::MimePart(bytes) => ItemValue::MimePart(bytes),
        Kind::Json(text) => {
            let parsed = serde_json::from_str::<serde::de::IgnoredAny>(&text);
            parsed.map_err(|error| Error::invalid(format!("an item is not valid JSON: {error}")))?;
            ItemValue::Json(text)
        }
        Kind::Attachment(attachment) => ItemValue::Object {
            file_name: attachment.file_name,
            media_type: attachment.media_type,
            length: attachment.length_bytes,
            blob: BlobId(bytes_of(&attachment.content_id, "the content_id of an attachment")?),
        },
        Kind::NoteReferences(list) => {
            ItemValue::NoteReferences(list.values.iter().map(|unid| unid_from_proto(unid)).collect::<Result<_>>()?)
        }
    })
}

/// Converts a UNID from a client.
pub fn unid_from_proto(bytes: &[u8]) -> Result<Unid> {
    bytes_of(bytes, "a UNID").map(Unid)
}

/// Converts an optional UNID from a client; empty means `None`.
pub fn optional_unid_from_proto(bytes: &[u8]) -> Result<Option<Unid>> {
    if bytes.is_empty() { Ok(None) } else { unid_from_proto(bytes).map(Some) }
}

pub(crate) fn bytes_of<const N: usize>(bytes: &[u8], what: &str) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| Error::invalid(format!("{what} has {N} bytes, not {}", bytes.len())))
}

/// Converts a header to the protocol's type.
#[must_use]
pub fn header_to_proto(header: &NoteHeader, unread: bool) -> v1::NoteHeader {
    v1::NoteHeader {
        note_id: header.note.0,
        unid: header.unid.0.to_vec(),
        note_class: i32::from(header.class.0),
        sequence: header.sequence,
        sequence_time_us: header.sequence_time.0,
        created_us: header.created.0,
        modified_us: header.modified.0,
        modseq: header.modseq.0,
        parent_unid: header.parent.map(|unid| unid.0.to_vec()).unwrap_or_default(),
        received_us: header.received.0,
        size_bytes: header.size,
        unread,
        folder_ids: header.folders.iter().map(|place| place.folder.0).collect(),
        conflict: header.flags.contains(NoteFlags::CONFLICT),
        soft_deleted: header.flags.contains(NoteFlags::SOFT_DELETED),
        revision_id: header.revision_id.0.to_vec(),
        truncated: header.is_truncated(),
    }
}

/// Converts the version of a note that a client has read: its sequence number, and the identifier of the save or
/// nothing if the client does not know it. Returns `None` for the number 0, which stands for any version.
pub fn expected_from_proto(sequence: u32, id: &[u8]) -> Result<Option<ExpectedVersion>> {
    let id = match id {
        [] => None,
        id => Some(RevisionId(bytes_of(id, "the id of a revision")?)),
    };
    Ok((sequence != 0).then_some(ExpectedVersion { sequence, id }))
}

/// Converts the class of a note to be created. The default is a document.
pub fn class_from_proto(class: i32) -> Result<NoteClass> {
    match v1::NoteClass::try_from(class) {
        Ok(v1::NoteClass::Unspecified | v1::NoteClass::Document) => Ok(NoteClass::DOCUMENT),
        Ok(class) => Ok(NoteClass(class as u16)),
        Err(_) => Err(Error::invalid(format!("unknown note class {class}"))),
    }
}

/// The key that identifies a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKey {
    /// The note ID.
    Number(NoteId),
    /// The UNID.
    Unid(Unid),
}

/// Converts the key of a note from a client.
pub fn note_name(key: Option<v1::NoteKey>) -> Result<NoteKey> {
    match key.and_then(|key| key.key) {
        Some(v1::note_key::Key::NoteId(number)) => Ok(NoteKey::Number(NoteId(number))),
        Some(v1::note_key::Key::Unid(unid)) => Ok(NoteKey::Unid(unid_from_proto(&unid)?)),
        None => Err(Error::invalid("no note specified")),
    }
}

/// Converts an ACL to the protocol's type.
#[must_use]
pub fn acl_to_proto(acl: &notes::Acl, revision: Option<Revision>) -> v1::Acl {
    let entry = |entry: &AclEntry| v1::AclEntry {
        name: entry.name.canonical().to_owned(),
        kind: entry.kind as i32,
        level: access_level(entry.level).into(),
        flags: Some(acl_flags_to_proto(entry.flags)),
        roles: entry.roles.iter().cloned().collect(),
    };
    v1::Acl {
        entries: acl.entries.iter().map(entry).collect(),
        roles: acl.roles.iter().cloned().collect(),
        uniform: acl.enforce_consistent,
        sequence: revision.map_or(0, |revision| revision.sequence),
        revision_id: revision.map(|revision| revision.id.0.to_vec()).unwrap_or_default(),
        internet_max: Some(access_level(acl.max_internet_access).into()),
    }
}

/// Converts an ACL from a client. A missing `internet_max` is taken from `before`.
pub fn acl_from_proto(acl: v1::Acl, before: &notes::Acl) -> Result<notes::Acl> {
    let internet_max = acl
        .internet_max
        .map(|level| level_from_proto(level).ok_or_else(|| Error::invalid("internet_max is not a valid access level")));
    Ok(notes::Acl {
        max_internet_access: internet_max.transpose()?.unwrap_or(before.max_internet_access),
        entries: acl.entries.into_iter().map(acl_entry_from_proto).collect::<Result<_>>()?,
        roles: acl.roles.into_iter().collect(),
        enforce_consistent: acl.uniform,
    })
}

fn level_from_proto(level: i32) -> Option<AclLevel> {
    usize::try_from(level).ok().and_then(|level| AclLevel::ALL.get(level).copied())
}

fn acl_entry_from_proto(entry: v1::AclEntry) -> Result<AclEntry> {
    let level = level_from_proto(entry.level);
    let kinds = [
        AclKind::Unspecified,
        AclKind::Person,
        AclKind::Server,
        AclKind::MixedGroup,
        AclKind::PersonGroup,
        AclKind::ServerGroup,
    ];
    let kind = kinds.into_iter().find(|kind| *kind as i32 == entry.kind);
    Ok(AclEntry {
        level: level
            .ok_or_else(|| Error::invalid(format!("the entry {:?} has an unknown access level", entry.name)))?,
        kind: kind.ok_or_else(|| Error::invalid(format!("the entry {:?} has an unknown kind", entry.name)))?,
        flags: acl_flags_from_proto(entry.flags.unwrap_or_default()),
        roles: entry.roles.into_iter().collect(),
        name: entry.name.as_str().into(),
    })
}

fn acl_flags_to_proto(flags: AclFlags) -> v1::AclFlags {
    v1::AclFlags {
        author_no_create: flags.contains(AclFlags::AUTHOR_NO_CREATE),
        no_delete: flags.contains(AclFlags::NO_DELETE),
        create_personal_agent: flags.contains(AclFlags::CREATE_PERSONAL_AGENT),
        create_personal_folder: flags.contains(AclFlags::CREATE_PERSONAL_FOLDER),
        create_folder: flags.contains(AclFlags::CREATE_FOLDER),
        public_reader: flags.contains(AclFlags::PUBLIC_READER),
        public_writer: flags.contains(AclFlags::PUBLIC_WRITER),
    }
}

fn acl_flags_from_proto(flags: v1::AclFlags) -> AclFlags {
    let flags = [
        (flags.author_no_create, AclFlags::AUTHOR_NO_CREATE),
        (flags.no_delete, AclFlags::NO_DELETE),
        (flags.create_personal_agent, AclFlags::CREATE_PERSONAL_AGENT),
        (flags.create_personal_folder, AclFlags::CREATE_PERSONAL_FOLDER),
        (flags.create_folder, AclFlags::CREATE_FOLDER),
        (flags.public_reader, AclFlags::PUBLIC_READER),
        (flags.public_writer, AclFlags::PUBLIC_WRITER),
    ];
    let set = flags.into_iter().filter(|(is_set, _)| *is_set);
    set.fold(AclFlags::NONE, |flags, (_, flag)| flags.union(flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_read_back() {
        let values = vec![
            ItemValue::Text("a".to_owned()),
            ItemValue::TextList(vec!["a".to_owned(), String::new()]),
            ItemValue::Number(-0.5),
            ItemValue::NumberList(Vec::new()),
            ItemValue::Time(Timestamp(-1)),
            ItemValue::TimeList(vec![Timestamp(1), Timestamp(2)]),
            ItemValue::RichText("<b>a</b>".to_owned()),
            ItemValue::MimePart(vec![0, 255]),
            ItemValue::Json("{\"a\":[null,true]}".to_owned()),
            ItemValue::Object {
                file_name: "a.txt".to_owned(),
                media_type: "text/plain".to_owned(),
                length: 3,
                blob: BlobId([9; 32]),
            },
            ItemValue::NoteReferences(vec![Unid([1; 16])]),
        ];
        let flags = [
            ItemFlags::NONE,
            ItemFlags::SUMMARY,
            ItemFlags::NAMES.union(ItemFlags::READERS),
            ItemFlags::AUTHORS.union(ItemFlags::PROTECTED).union(ItemFlags::SIGNED),
        ];
        for (index, value) in values.into_iter().enumerate() {
            let item = Item { name: format!("item {index}"), flags: flags[index % flags.len()], value };
            assert_eq!(item_from_proto(item_to_proto(&item)).expect("a written value is valid"), item);
        }
    }

    #[test]
    fn incomplete_values_are_refused_with_a_reason() {
        let check = |item: v1::Item, expected: &str| {
            let error = item_from_proto(item).expect_err("the item is incomplete").to_string();
            assert!(error.contains(expected), "{error}");
        };
        let with = |kind| v1::Item { name: "a".to_owned(), flags: None, value: Some(v1::Value { kind }) };
        check(with(None), "\"a\" has no value");
        check(with(Some(Kind::NoteReferences(v1::UnidList { values: vec![vec![1; 15]] }))), "16 bytes, not 15");
        check(with(Some(Kind::Attachment(v1::Attachment::default()))), "32 bytes, not 0");
        assert!(note_name(None).is_err() && note_name(Some(v1::NoteKey { key: None })).is_err());
        assert!(class_from_proto(3).is_err());
    }

    #[test]
    fn access_lists_read_back() {
        let mut acl = notes::Acl::open_to_all(AclLevel::Reader);
        let flags = AclFlags::NO_DELETE.union(AclFlags::CREATE_FOLDER);
        acl.entries.push(AclEntry { kind: AclKind::Server, flags, ..AclEntry::new("Hub/Acme", AclLevel::Manager) });
        acl.roles.insert("[A]".to_owned());
        acl.enforce_consistent = true;
        acl.max_internet_access = AclLevel::Author;
        let other = notes::Acl::default();
        assert_eq!(acl_from_proto(acl_to_proto(&acl, None), &other).expect("a written value is valid"), acl);
        let silent = v1::Acl { internet_max: None, ..acl_to_proto(&acl, None) };
        assert_eq!(
            acl_from_proto(silent, &other).expect("a written value is valid").max_internet_access,
            other.max_internet_access
        );
        let broken =
            v1::Acl { entries: vec![v1::AclEntry { level: 7, ..v1::AclEntry::default() }], ..v1::Acl::default() };
        assert!(acl_from_proto(broken, &acl).is_err());
    }
}
