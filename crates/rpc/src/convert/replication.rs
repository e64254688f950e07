//! Conversion between the protocol and what replicas exchange. All functions are pure.

use base::{Timestamp, Unid};
use notes::instance::{ListProgress, Position, UnreadPlace};
use notes::replica::{ListedNote, ReplicaNote, StateName};
use notes::revision_record::RevisionRecord;
use notes::unread_replication::UnreadMarks;
use notes::{NoteClass, SharedSetting, SharedSettings};
use proto::v1;
use proto::v1::state_value::Name;
use replica::{ListPage, Selection, UnreadPage};
use revision::{DeletionRule, Register, Revision, RevisionId};
use store::blob::BlobId;

use super::{bytes_of, item_from_proto, item_to_proto, optional_unid_from_proto, unid_from_proto};
use crate::error::{Error, Result};

/// Converts a page of a list of changes to the protocol's type.
#[must_use]
pub fn page_to_proto(page: ListPage) -> v1::ChangedNotes {
    v1::ChangedNotes {
        notes: page.notes.into_iter().map(listed_to_proto).collect(),
        position: Some(position_to_proto(page.position)),
        seen: Some(position_to_proto(page.seen)),
        last: page.is_last,
        comparison: page.is_comparison,
        unknown_position: page.is_position_unknown,
        settings: page.settings.map(settings_to_proto),
    }
}

fn settings_to_proto(settings: SharedSettings) -> v1::SharedSettings {
    let SharedSettings { title, purge_interval_days, keep_deleted_hours, deletions } = settings;
    let rule = match deletions.value {
        None => v1::DeletionRule::Unspecified,
        Some(DeletionRule::EditsCount) => v1::DeletionRule::KeepEdits,
        Some(DeletionRule::DeletionsCount) => v1::DeletionRule::Delete,
    };
    v1::SharedSettings {
        title: title.value,
        title_changed_us: title.changed.0,
        purge_interval_days: u32::from(purge_interval_days.value),
        purge_interval_changed_us: purge_interval_days.changed.0,
        keep_deleted_hours: keep_deleted_hours.value.map_or(0, u32::from),
        keep_deleted_changed_us: keep_deleted_hours.changed.0,
        deletions: rule.into(),
        deletions_changed_us: deletions.changed.0,
    }
}

fn settings_from_proto(settings: v1::SharedSettings) -> Result<SharedSettings> {
    let deletions = match settings.deletions() {
        v1::DeletionRule::Unspecified => None,
        v1::DeletionRule::KeepEdits => Some(DeletionRule::EditsCount),
        v1::DeletionRule::Delete => Some(DeletionRule::DeletionsCount),
    };
    let number = |number: u32| u16::try_from(number).map_err(|_| Error::invalid("a setting is out of range"));
    let keep_deleted_hours = Some(number(settings.keep_deleted_hours)?).filter(|hours| *hours > 0);
    Ok(SharedSettings {
        title: SharedSetting { value: settings.title, changed: Timestamp(settings.title_changed_us) },
        purge_interval_days: SharedSetting {
            value: number(settings.purge_interval_days)?,
            changed: Timestamp(settings.purge_interval_changed_us),
        },
        keep_deleted_hours: SharedSetting {
            value: keep_deleted_hours,
            changed: Timestamp(settings.keep_deleted_changed_us),
        },
        deletions: SharedSetting { value: deletions, changed: Timestamp(settings.deletions_changed_us) },
    })
}

/// Converts a page of a list of changes from another server.
pub fn page_from_proto(page: v1::ChangedNotes) -> Result<ListPage> {
    Ok(ListPage {
        notes: page.notes.into_iter().map(listed_from_proto).collect::<Result<_>>()?,
        position: required_position(page.position.as_ref())?,
        seen: required_position(page.seen.as_ref())?,
        is_comparison: page.comparison,
        is_position_unknown: page.unknown_position,
        is_last: page.last,
        settings: page.settings.map(settings_from_proto).transpose()?,
    })
}

/// Converts a position to the protocol's type.
#[must_use]
pub fn position_to_proto(position: Position) -> v1::ReplicaPosition {
    v1::ReplicaPosition { state: position.encode() }
}

/// Converts a position from another server.
pub fn position_from_proto(position: &v1::ReplicaPosition) -> Result<Position> {
    Position::decode(&position.state).map_err(|_| Error::invalid("the position cannot be read"))
}

fn required_position(position: Option<&v1::ReplicaPosition>) -> Result<Position> {
    position_from_proto(position.ok_or_else(|| Error::invalid("a position is missing"))?)
}

/// Converts the progress of a list to the protocol's type.
#[must_use]
pub fn progress_to_proto(progress: ListProgress) -> v1::ListProgress {
    v1::ListProgress {
        position: Some(position_to_proto(progress.position)),
        seen: Some(position_to_proto(progress.seen)),
        comparison: progress.is_comparison,
    }
}

/// Converts the progress of a list from another server.
pub fn progress_from_proto(progress: &v1::ListProgress) -> Result<ListProgress> {
    Ok(ListProgress {
        position: required_position(progress.position.as_ref())?,
        seen: required_position(progress.seen.as_ref())?,
        is_comparison: progress.comparison,
    })
}

/// Converts a selection to the protocol's type.
#[must_use]
pub fn selection_to_proto(selection: &Selection) -> v1::ReplicaSelection {
    v1::ReplicaSelection {
        formula: selection.formula.clone(),
        folders: selection.folders.clone(),
        saved_since_us: selection.saved_since.map_or(0, |since| since.0),
    }
}

/// Converts the selection of another server.
#[must_use]
pub fn selection_from_proto(selection: v1::ReplicaSelection) -> Selection {
    let v1::ReplicaSelection { formula, folders, saved_since_us } = selection;
    Selection { formula, folders, saved_since: (saved_since_us != 0).then_some(Timestamp(saved_since_us)) }
}

/// Converts a page of unread marks to the protocol's type.
#[must_use]
pub fn marks_to_proto(page: UnreadPage) -> v1::ListUnreadMarksReply {
    let to_proto = |marks: UnreadMarks| v1::UnreadMarks {
        user: marks.user,
        read: marks.register.is_set,
        time_us: marks.register.time.0,
        unids: marks.unids.iter().flat_map(|unid| unid.0).collect(),
    };
    v1::ListUnreadMarksReply {
        marks: page.marks.into_iter().map(to_proto).collect(),
        place: page.place.encode(),
        last: page.is_last,
    }
}

/// Converts a page of unread marks from another server.
pub fn marks_from_proto(page: v1::ListUnreadMarksReply) -> Result<UnreadPage> {
    let from_proto = |marks: v1::UnreadMarks| -> Result<UnreadMarks> {
        let (unids, rest) = marks.unids.as_chunks::<16>();
        if !rest.is_empty() {
            return Err(Error::invalid("the UNIDs of unread marks must have 16 bytes each"));
        }
        let register = Register::new(marks.read, Timestamp(marks.time_us));
        Ok(UnreadMarks { user: marks.user, register, unids: unids.iter().copied().map(Unid).collect() })
    };
    Ok(UnreadPage {
        marks: page.marks.into_iter().map(from_proto).collect::<Result<_>>()?,
        place: unread_place_from_proto(&page.place)?,
        is_last: page.last,
    })
}

/// Parses a place in a list of unread marks, which is opaque for other servers.
pub fn unread_place_from_proto(place: &[u8]) -> Result<UnreadPlace> {
    UnreadPlace::decode(place).map_err(|_| Error::invalid("the place in the list of unread marks cannot be read"))
}

fn listed_to_proto(note: ListedNote) -> v1::ListedNote {
    v1::ListedNote {
        unid: note.unid.0.to_vec(),
        note_class: i32::from(note.class.0),
        revision: Some(revision_to_proto(note.revision)),
        size_bytes: note.size,
        states: note.state.into_iter().map(state_to_proto).collect(),
        old: note.is_old,
        unselected: note.is_unselected,
        truncated: note.is_truncated,
        saved_us: note.saved.0,
    }
}

fn listed_from_proto(note: v1::ListedNote) -> Result<ListedNote> {
    let revision = revision_from_proto(note.revision)?;
    let saved = if note.saved_us == 0 { revision.id.time() } else { Timestamp(note.saved_us) };
    Ok(ListedNote {
        unid: unid_from_proto(&note.unid)?,
        class: class_from_proto(note.note_class)?,
        revision,
        saved,
        size: note.size_bytes,
        state: note.states.into_iter().map(state_from_proto).collect::<Result<_>>()?,
        is_old: note.old,
        is_unselected: note.unselected,
        is_truncated: note.truncated,
    })
}

/// Converts a document that a local replica offers.
#[must_use]
pub fn offered_to_proto(note: ListedNote) -> v1::OfferedNote {
    v1::OfferedNote {
        unid: note.unid.0.to_vec(),
        revision: Some(revision_to_proto(note.revision)),
        states: note.state.into_iter().map(state_to_proto).collect(),
    }
}

/// Converts a note to the protocol's type.
#[must_use]
pub fn note_to_proto(note: ReplicaNote) -> v1::ReplicaNote {
    let history = note.record.encode(note.revision);
    v1::ReplicaNote {
        unid: note.unid.0.to_vec(),
        note_class: i32::from(note.class.0),
        conflict: note.is_conflict,
        revision: Some(revision_to_proto(note.revision)),
        sequence_time_us: note.sequence_time.0,
        history,
        created_us: note.created.0,
        received_us: note.received.0,
        size_bytes: note.size,
        crlf_growth_bytes: note.crlf_growth,
        parent_unid: note.parent.map(|parent| parent.0.to_vec()).unwrap_or_default(),
        deleted: note.items.is_none(),
        items: note.items.iter().flatten().map(item_to_proto).collect(),
        content_ids: note.blobs.iter().map(|blob| blob.0.to_vec()).collect(),
        states: note.state.into_iter().map(state_to_proto).collect(),
        unsent: false,
        client_id: note.client_id.unwrap_or_default(),
        truncated: note.is_truncated,
        more: false,
        continued: false,
    }
}

/// Converts a note from another server.
pub fn note_from_proto(note: v1::ReplicaNote) -> Result<ReplicaNote> {
    let unid = unid_from_proto(&note.unid)?;
    if note.unsent {
        return Err(Error::invalid(format!("the note {unid} is damaged there, or too large for the protocol")));
    }
    if note.more || note.continued {
        return Err(Error::invalid(format!("some parts of the note {unid} are missing")));
    }
    let revision = revision_from_proto(note.revision)?;
    let record = RevisionRecord::decode(&note.history, revision)
        .map_err(|_| Error::invalid(format!("the history of the note {unid} cannot be read")))?;
    let items = match note.deleted {
        true => None,
        false => Some(note.items.into_iter().map(item_from_proto).collect::<Result<_>>()?),
    };
    let blob = |id: &Vec<u8>| bytes_of(id, "the id of a content").map(BlobId);
    Ok(ReplicaNote {
        unid,
        class: class_from_proto(note.note_class)?,
        is_conflict: note.conflict,
        revision,
        sequence_time: Timestamp(note.sequence_time_us),
        record,
        created: Timestamp(note.created_us),
        received: Timestamp(note.received_us),
        size: note.size_bytes,
        crlf_growth: note.crlf_growth_bytes,
        parent: optional_unid_from_proto(&note.parent_unid)?,
        items,
        blobs: note.content_ids.iter().map(blob).collect::<Result<_>>()?,
        state: note.states.into_iter().map(state_from_proto).collect::<Result<_>>()?,
        client_id: Some(note.client_id).filter(|id| note.deleted && !id.is_empty()),
        is_truncated: note.truncated,
    })
}

fn class_from_proto(class: i32) -> Result<NoteClass> {
    let class = u16::try_from(class).ok().filter(|class| class.is_power_of_two());
    class.map(NoteClass).ok_or_else(|| Error::invalid("a note has an unknown class"))
}

fn revision_to_proto(revision: Revision) -> v1::Revision {
    v1::Revision { sequence: revision.sequence, id: revision.id.0.to_vec() }
}

pub(crate) fn revision_from_proto(revision: Option<v1::Revision>) -> Result<Revision> {
    let revision = revision.ok_or_else(|| Error::invalid("a note has no revision"))?;
    Ok(Revision { sequence: revision.sequence, id: RevisionId(bytes_of(&revision.id, "the id of a revision")?) })
}

fn state_to_proto((name, value): (StateName, Register)) -> v1::StateValue {
    let name = match name {
        StateName::Mark(bit) => Name::Mark(u32::from(bit)),
        StateName::Keyword(keyword) => Name::Keyword(keyword),
        StateName::Folder(unid) => Name::FolderUnid(unid.0.to_vec()),
        StateName::UidValidity => Name::UidValidity(true),
    };
    v1::StateValue { name: Some(name), set: value.is_set, time_us: value.time.0, uid: value.number }
}

pub(crate) fn state_from_proto(state: v1::StateValue) -> Result<(StateName, Register)> {
    let name = match state.name {
        Some(Name::Mark(bit)) => {
            StateName::Mark(u8::try_from(bit).map_err(|_| Error::invalid("a mark has no such number"))?)
        }
        Some(Name::Keyword(keyword)) => StateName::Keyword(keyword),
        Some(Name::FolderUnid(unid)) => StateName::Folder(bytes_of(&unid, "the UNID of a folder").map(Unid)?),
        Some(Name::UidValidity(_)) => StateName::UidValidity,
        None => return Err(Error::invalid("a state has no name")),
    };
    Ok((name, Register { is_set: state.set, time: Timestamp(state.time_us), number: state.uid }))
}

#[cfg(test)]
mod tests {
    use base::Modseq;
    use notes::{Item, ItemValue};

    use super::*;

    fn note() -> ReplicaNote {
        let first = Revision::first(Timestamp(1), Unid([1; 16]));
        let revision = first.child(RevisionId::new(Timestamp(2), [7; 8]));
        let ancestors = revision::Ancestors::of_child(first, &revision::Ancestors::default());
        ReplicaNote {
            unid: Unid([1; 16]),
            class: NoteClass::DOCUMENT,
            is_conflict: true,
            revision,
            sequence_time: Timestamp(2),
            record: RevisionRecord { ancestors, ..RevisionRecord::default() },
            created: Timestamp(1),
            received: Timestamp(-3),
            size: Some(77),
            crlf_growth: 5,
            parent: Some(Unid([2; 16])),
            items: Some(vec![Item::summary("A", ItemValue::Number(1.0))]),
            blobs: vec![BlobId([9; 32])],
            state: vec![
                (StateName::Mark(2), Register::new(true, Timestamp(4))),
                (StateName::Keyword("Work".to_owned()), Register::new(false, Timestamp(5))),
                (StateName::Folder(Unid([3; 16])), Register { number: 7, ..Register::new(true, Timestamp(6)) }),
                (StateName::UidValidity, Register { number: 8, ..Register::new(true, Timestamp(9)) }),
            ],
            client_id: None,
            is_truncated: true,
        }
    }

    #[test]
    fn notes_and_lists_read_back() {
        let client_id = Some("of a client".to_owned());
        let stub = ReplicaNote { items: None, parent: None, size: None, client_id, ..note() };
        for note in [note(), stub] {
            assert_eq!(note_from_proto(note_to_proto(note.clone())).expect("a written note is valid"), note);
        }
        let position = Position { instance: notes::instance::InstanceId(5), modseq: Modseq(6), names: [7; 16] };
        let ReplicaNote { unid, class, revision, state, .. } = note();
        let listed = ListedNote {
            unid,
            class,
            revision,
            saved: Timestamp(3),
            size: 9,
            state,
            is_old: true,
            is_unselected: true,
            is_truncated: true,
        };
        let seen = Position { modseq: Modseq(8), ..position };
        let (notes, is_last) = (vec![listed], false);
        let settings = Some(SharedSettings {
            title: SharedSetting { value: "Talk".to_owned(), changed: Timestamp(1) },
            purge_interval_days: SharedSetting { value: 90, changed: Timestamp(2) },
            keep_deleted_hours: SharedSetting { value: Some(48), changed: Timestamp(3) },
            deletions: SharedSetting { value: Some(DeletionRule::DeletionsCount), changed: Timestamp(4) },
        });
        let page =
            ListPage { notes, position, seen, is_comparison: true, is_position_unknown: true, is_last, settings };
        assert_eq!(page_from_proto(page_to_proto(page.clone())).expect("a written page is valid"), page);
        let progress = ListProgress { position, seen, is_comparison: true };
        assert_eq!(progress_from_proto(&progress_to_proto(progress)).expect("written progress is valid"), progress);
        let no_position = v1::ChangedNotes { position: None, ..page_to_proto(page) };
        assert!(page_from_proto(no_position).is_err());
    }

    #[test]
    fn unread_marks_read_back() {
        let position = Position { instance: notes::instance::InstanceId(5), modseq: Modseq(6), names: [7; 16] };
        let changes = ListProgress { position, seen: position, is_comparison: true };
        let register = Register::new(true, Timestamp(4));
        let unids = vec![Unid([1; 16]), Unid([2; 16])];
        let page = UnreadPage {
            marks: vec![UnreadMarks { user: "cn=ann/o=acme".to_owned(), register, unids }],
            place: UnreadPlace { changes, without_times: Some(vec![3]) },
            is_last: true,
        };
        let sent = marks_to_proto(page.clone());
        assert_eq!(marks_from_proto(sent.clone()).expect("a written page is valid"), page);
        let mut cut = sent.clone();
        cut.marks[0].unids.truncate(31);
        assert!(marks_from_proto(cut).is_err());
        assert!(marks_from_proto(v1::ListUnreadMarksReply { place: Vec::new(), ..sent }).is_err());
    }

    #[test]
    fn what_is_not_valid_is_refused_with_a_reason() {
        let check = |change: &dyn Fn(&mut v1::ReplicaNote), expected: &str| {
            let mut sent = note_to_proto(note());
            change(&mut sent);
            let error = note_from_proto(sent).expect_err("the note is not valid").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&|note| note.unid.truncate(15), "16 bytes, not 15");
        check(&|note| note.revision = None, "no revision");
        check(&|note| note.history.truncate(3), "history of the note");
        check(&|note| note.note_class = 3, "unknown class");
        check(&|note| note.content_ids.push(vec![1]), "32 bytes, not 1");
        check(&|note| note.unsent = true, "too large");
        check(&|note| note.states.push(v1::StateValue::default()), "no name");
        let mark = v1::StateValue { name: Some(Name::Mark(256)), ..v1::StateValue::default() };
        check(&|note| note.states.push(mark.clone()), "no such number");
    }
}
