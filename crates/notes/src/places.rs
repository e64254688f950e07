//! The places of a note: the folders that contain it, with a UID in each.
//!
//! [`Marks::DELETED`] belongs to the place, because an expunge in one folder must not concern another one; all other
//! marks and the keywords belong to the note. A note with one place, as nearly all messages are, has the mark among its
//! marks, in the form that all versions have stored. A note with several places has it in [`NoteHeader::deleted_in`].
//! A mark of deletion among its marks, which another replica may have set while the note had one place there, has no
//! effect then.
//!
//! Invariants: `deleted_in` is a subset of the folders, ascending, and empty unless there are several. A note that gets
//! a second place is not deleted there. A note that keeps one of several places keeps its mark there.
//!
//! Left out: the exchange of `deleted_in` between replicas.

use base::ViewId;

use crate::note::{Marks, Membership, NoteHeader};

impl NoteHeader {
    /// Returns `true` if the note is in several folders.
    #[must_use]
    pub fn has_several_places(&self) -> bool {
        self.folders.len() > 1
    }

    /// Returns the marks of the note in a folder.
    #[must_use]
    pub fn marks_in(&self, folder: ViewId) -> Marks {
        if !self.has_several_places() {
            return self.marks;
        }
        let others = self.marks.difference(Marks::DELETED);
        if self.deleted_in.contains(&folder) { others.union(Marks::DELETED) } else { others }
    }

    /// Sets the marks of the note; the mark of deletion in all of its places.
    pub(crate) fn set_marks(&mut self, marks: Marks) {
        self.marks = marks;
        if self.has_several_places() {
            self.marks = marks.difference(Marks::DELETED);
            let is_deleted = |_: &&Membership| marks.contains(Marks::DELETED);
            self.deleted_in = self.folders.iter().filter(is_deleted).map(|place| place.folder).collect();
            self.deleted_in.sort_unstable();
        }
    }

    /// Sets the marks of the note; the mark of deletion in one of its places only.
    pub(crate) fn set_marks_in(&mut self, folder: ViewId, marks: Marks) {
        self.marks = marks;
        if self.has_several_places() {
            self.marks = marks.difference(Marks::DELETED);
            self.deleted_in.retain(|known| *known != folder);
            self.deleted_in.extend(Some(folder).filter(|_| marks.contains(Marks::DELETED)));
            self.deleted_in.sort_unstable();
        }
    }

    /// Adds a place in a folder in which the note is not. If it is not the first place, the note is not marked as
    /// deleted there.
    pub(crate) fn add_place(&mut self, place: Membership) {
        if let [only] = self.folders[..]
            && self.marks.contains(Marks::DELETED)
        {
            self.deleted_in = vec![only.folder];
        }
        self.folders.push(place);
        if self.has_several_places() {
            self.marks = self.marks.difference(Marks::DELETED);
        }
    }

    /// Removes the place in a folder. Returns `true` if there was one. A note without a place keeps its marks, so that
    /// it has them in its next one.
    pub(crate) fn remove_place(&mut self, folder: ViewId) -> bool {
        let before = self.folders.len();
        self.folders.retain(|place| place.folder != folder);
        self.deleted_in.retain(|known| *known != folder);
        let is_removed = self.folders.len() < before;
        if let [only] = self.folders[..]
            && is_removed
        {
            let is_deleted = self.deleted_in.contains(&only.folder);
            let others = self.marks.difference(Marks::DELETED);
            self.marks = if is_deleted { others.union(Marks::DELETED) } else { others };
            self.deleted_in.clear();
        }
        is_removed
    }

    /// Removes all places, and returns their folders.
    pub(crate) fn clear_places(&mut self) -> Vec<ViewId> {
        self.deleted_in.clear();
        self.folders.drain(..).map(|place| place.folder).collect()
    }

    /// Restores the invariants after another replica has changed the places.
    pub(crate) fn settle_places(&mut self) {
        if self.deleted_in.is_empty() {
            return;
        }
        let mut deleted = std::mem::take(&mut self.deleted_in);
        deleted.retain(|folder| self.has_several_places() && self.uid_in(*folder).is_some());
        self.deleted_in = deleted;
    }

    /// Returns `true` if the invariants hold.
    pub(crate) fn are_places_right(&self) -> bool {
        let is_place = |folder: &ViewId| self.uid_in(*folder).is_some();
        let is_sorted = self.deleted_in.is_sorted_by(|one, next| one < next);
        is_sorted && self.deleted_in.iter().all(is_place) && (self.deleted_in.is_empty() || self.has_several_places())
    }
}

#[cfg(test)]
mod tests {
    use base::Uid;

    use super::*;

    const FOLDERS: [ViewId; 3] = [ViewId(9), ViewId(5), ViewId(7)];

    fn place(folder: ViewId) -> Membership {
        Membership { folder, uid: Uid(1) }
    }

    fn deleted(header: &NoteHeader) -> Vec<ViewId> {
        assert!(header.are_places_right(), "{header:?}");
        assert_eq!(NoteHeader::decode(header.note, &header.encode()).as_ref(), Ok(header));
        let is_deleted = |folder: &ViewId| header.marks_in(*folder).contains(Marks::DELETED);
        header.folders.iter().map(|place| place.folder).filter(is_deleted).collect()
    }

    #[test]
    fn mark_of_deletion_belongs_to_the_place_and_others_to_the_note() {
        let [one, two, three] = FOLDERS;
        let mut header = NoteHeader::test_document(1);
        header.add_place(place(one));
        header.set_marks_in(one, Marks::DELETED.union(Marks::SEEN));
        assert_eq!((deleted(&header), header.deleted_in.len()), (vec![one], 0), "one place needs no list");
        header.add_place(place(two));
        header.add_place(place(three));
        assert_eq!(deleted(&header), [one]);
        header.set_marks_in(three, Marks::DELETED);
        assert_eq!(deleted(&header), [one, three]);
        header.set_marks_in(one, Marks::FLAGGED);
        assert_eq!(deleted(&header), [three]);
        assert!(FOLDERS.iter().all(|folder| header.marks_in(*folder).contains(Marks::FLAGGED)));
        header.set_marks(Marks::DELETED);
        assert_eq!(deleted(&header), FOLDERS);
        header.set_marks(Marks::NONE);
        assert_eq!(deleted(&header), []);
    }

    #[test]
    fn last_of_several_places_keeps_its_own_mark() {
        let [one, two, _] = FOLDERS;
        let both = |marked: ViewId| {
            let mut header = NoteHeader::test_document(1);
            [one, two].into_iter().for_each(|folder| header.add_place(place(folder)));
            header.set_marks_in(marked, Marks::DELETED);
            header
        };
        let mut header = both(one);
        assert!(header.remove_place(one) && !header.remove_place(one));
        assert_eq!((deleted(&header), header.marks), (vec![], Marks::NONE));
        let mut header = both(two);
        assert!(header.remove_place(one));
        assert_eq!((deleted(&header), header.marks), (vec![two], Marks::DELETED));
        assert!(header.remove_place(two));
        header.add_place(place(one));
        assert_eq!(deleted(&header), [one], "a note that is moved keeps its marks");
    }

    #[test]
    fn places_of_another_replica_are_settled() {
        let [one, two, three] = FOLDERS;
        let mut header = NoteHeader::test_document(1);
        FOLDERS.into_iter().for_each(|folder| header.add_place(place(folder)));
        header.set_marks(Marks::DELETED);
        header.folders.retain(|place| place.folder != one);
        header.settle_places();
        assert_eq!(deleted(&header), [two, three]);
        header.folders.retain(|place| place.folder != two);
        header.settle_places();
        assert_eq!(deleted(&header), []);
        header.marks = Marks::DELETED;
        header.folders.push(place(one));
        assert_eq!(deleted(&header), [], "a mark that came from another replica concerns a single place");
    }
}
