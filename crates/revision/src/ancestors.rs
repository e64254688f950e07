//! The revisions from which a version descends.

use base::codec::{Decoder, Encoder, InvalidRecord};

use crate::limits::ANCESTORS_MAX;
use crate::revision_id::{Revision, RevisionId};

/// An ancestor of a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ancestor {
    /// The revision.
    pub revision: Revision,
    /// `true` if the revision is reached through the greater parent of each merge. The CouchDB protocol, which knows no
    /// merges, shows only these.
    pub is_on_main_path: bool,
}

/// The ancestors that a list does not contain, because it has a limit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Cut {
    /// The list contains all ancestors.
    #[default]
    Nothing,
    /// All others precede the list on its main path.
    MainPath,
    /// Some may be on other paths.
    Branches,
}

/// The path that a list of ancestors belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    Main,
    Other,
}

/// The ancestors of a version, the greatest first, at most [`ANCESTORS_MAX`].
///
/// A merge has two parents, so this is a set and not a chain. A version is never its own ancestor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ancestors {
    list: Vec<Ancestor>,
    cut: Cut,
}

impl Ancestors {
    /// Returns the ancestors of a version that a save makes from another.
    #[must_use]
    pub fn of_child(parent: Revision, of_parent: &Self) -> Self {
        Self { list: vec![Ancestor { revision: parent, is_on_main_path: true }], cut: Cut::Nothing }
            .with(of_parent, Path::Main)
            .shortened()
    }

    /// Returns the ancestors of the merge of two versions. They are the same whichever is named first.
    #[must_use]
    pub fn of_merge(one: (Revision, &Self), other: (Revision, &Self)) -> Self {
        let (lesser, greater) = if one.0 < other.0 { (one, other) } else { (other, one) };
        let lesser_list = vec![Ancestor { revision: lesser.0, is_on_main_path: true }];
        let of_lesser = Self { list: lesser_list, cut: Cut::Nothing }.with(lesser.1, Path::Main);
        Self { list: vec![Ancestor { revision: greater.0, is_on_main_path: true }], cut: Cut::Nothing }
            .with(greater.1, Path::Main)
            .with(&of_lesser, Path::Other)
            .shortened()
    }

    /// Returns the ancestors of a version that restores the contents of `kept` after a deletion, which may descend from
    /// later contents.
    ///
    /// The restored version then does not know the later contents. Where they still exist, both are put together like
    /// any other concurrent versions, so that nothing is lost.
    #[must_use]
    pub fn of_restored(deletion: Revision, of_deletion: &Self, kept: Revision) -> Self {
        if of_deletion.parent() == Some(kept) {
            return Self::of_child(deletion, of_deletion);
        }
        let restored = Ancestor { revision: deletion, is_on_main_path: true };
        let is_chain = of_deletion.list.iter().all(|ancestor| ancestor.is_on_main_path);
        if let Some(place) = of_deletion.position(kept).filter(|_| is_chain) {
            let list = std::iter::once(restored).chain(of_deletion.list[place..].iter().copied()).collect();
            return Self { list, cut: of_deletion.cut }.shortened();
        }
        let mut list = vec![restored, Ancestor { revision: kept, is_on_main_path: false }];
        list.sort_by_key(|ancestor| std::cmp::Reverse(ancestor.revision));
        Self { list, cut: Cut::Branches }
    }

    /// Returns the ancestors that one of two lists of the same version has. Servers may have different ones of a
    /// version that a client has made, because they leave out what they do not know.
    #[must_use]
    pub fn united(&self, other: &Self) -> Self {
        self.clone().with(other, Path::Main).shortened()
    }

    /// Returns the revision from which a save made the version, if the list contains it: the greatest on the main path.
    #[must_use]
    pub fn parent(&self) -> Option<Revision> {
        self.list.iter().find(|ancestor| ancestor.is_on_main_path).map(|ancestor| ancestor.revision)
    }

    /// Adds a list that continues the main path, or another path.
    fn with(mut self, other: &Self, path: Path) -> Self {
        let known = self.list.len();
        for ancestor in &other.list {
            if self.list[..known].iter().all(|one| one.revision != ancestor.revision) {
                let is_on_main_path = ancestor.is_on_main_path && path == Path::Main;
                self.list.push(Ancestor { is_on_main_path, ..*ancestor });
            }
        }
        self.list.sort_by_key(|ancestor| std::cmp::Reverse(ancestor.revision));
        let cut = if other.cut == Cut::MainPath && path == Path::Other { Cut::Branches } else { other.cut };
        self.cut = self.cut.max(cut);
        self
    }

    /// Creates a list. Returns `None` unless the revisions are in descending order, without repetitions, and not too
    /// many.
    #[must_use]
    pub fn from_list(list: Vec<Ancestor>, cut: Cut) -> Option<Self> {
        let is_valid = list.len() <= ANCESTORS_MAX && list.is_sorted_by(|one, next| one.revision > next.revision);
        is_valid.then_some(Self { list, cut })
    }

    /// Returns the list, the greatest first.
    #[must_use]
    pub fn list(&self) -> &[Ancestor] {
        &self.list
    }

    /// Returns which ancestors are missing.
    #[must_use]
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// Returns `true` if a revision is in the list.
    #[must_use]
    pub fn contains(&self, revision: Revision) -> bool {
        self.position(revision).is_some()
    }

    /// Returns the place of a revision in the list.
    pub(crate) fn position(&self, revision: Revision) -> Option<usize> {
        self.list.binary_search_by(|ancestor| revision.cmp(&ancestor.revision)).ok()
    }

    /// Removes the least revisions beyond the limit.
    fn shortened(mut self) -> Self {
        if self.list.len() > ANCESTORS_MAX {
            // What is removed precedes the main path of the list only if no other path leads into the list.
            let has_branches = self.list.iter().any(|ancestor| !ancestor.is_on_main_path);
            self.cut = self.cut.max(if has_branches { Cut::Branches } else { Cut::MainPath });
            self.list.truncate(ANCESTORS_MAX);
        }
        self
    }

    /// Appends the stored form: a flag byte, the number, and for each ancestor a flag byte, its sequence number as the
    /// difference to the one before, and the identifier.
    pub fn encode(&self, out: &mut Encoder, revision: Revision) {
        out.u8(match self.cut {
            Cut::Nothing => 0,
            Cut::MainPath => 1,
            Cut::Branches => 2,
        });
        out.varint(self.list.len() as u64);
        let mut before = revision.sequence;
        for ancestor in &self.list {
            out.u8(u8::from(ancestor.is_on_main_path));
            out.varint(u64::from(before.saturating_sub(ancestor.revision.sequence)));
            out.raw(&ancestor.revision.id.0);
            before = ancestor.revision.sequence;
        }
    }

    /// Parses the stored form of the ancestors of a revision.
    pub fn decode(input: &mut Decoder<'_>, revision: Revision) -> Result<Self, InvalidRecord> {
        let cut = match input.u8()? {
            0 => Cut::Nothing,
            1 => Cut::MainPath,
            2 => Cut::Branches,
            _ => return Err(InvalidRecord),
        };
        let count = input.count()?;
        if count > ANCESTORS_MAX {
            return Err(InvalidRecord);
        }
        let mut before = revision.sequence;
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            let is_on_main_path = match input.u8()? {
                0 => false,
                1 => true,
                _ => return Err(InvalidRecord),
            };
            let difference = u32::try_from(input.varint()?).map_err(|_| InvalidRecord)?;
            let sequence = before.checked_sub(difference).ok_or(InvalidRecord)?;
            let revision = Revision { sequence, id: RevisionId(input.array()?) };
            list.push(Ancestor { revision, is_on_main_path });
            before = sequence;
        }
        let is_before = |ancestors: &Self| ancestors.list.first().is_none_or(|first| first.revision < revision);
        Self::from_list(list, cut).filter(is_before).ok_or(InvalidRecord)
    }
}

#[cfg(test)]
mod tests {
    use base::Timestamp;

    use super::*;

    fn revision(sequence: u32, tail: u8) -> Revision {
        Revision { sequence, id: RevisionId::new(Timestamp(i64::from(sequence)), [tail; 8]) }
    }

    /// Returns the revision after some saves, and its ancestors.
    fn saved(times: u32, tail: u8, from: (Revision, Ancestors)) -> (Revision, Ancestors) {
        (0..times).fold(from, |(parent, ancestors), _| {
            (revision(parent.sequence + 1, tail), Ancestors::of_child(parent, &ancestors))
        })
    }

    fn first() -> (Revision, Ancestors) {
        (revision(1, 0), Ancestors::default())
    }

    #[test]
    fn a_child_has_its_parent_and_the_ancestors_of_its_parent() {
        let (last, ancestors) = saved(3, 7, first());
        assert_eq!(last, revision(4, 7));
        let list: Vec<Revision> = ancestors.list().iter().map(|ancestor| ancestor.revision).collect();
        assert_eq!(list, [revision(3, 7), revision(2, 7), revision(1, 0)]);
        assert!(ancestors.contains(revision(1, 0)) && !ancestors.contains(last));
        assert_eq!(ancestors.cut(), Cut::Nothing);
    }

    #[test]
    fn a_merge_descends_from_both_and_has_one_main_path() {
        let (one, other) = (saved(2, 1, first()), saved(3, 2, first()));
        let merged = Ancestors::of_merge((one.0, &one.1), (other.0, &other.1));
        assert_eq!(merged, Ancestors::of_merge((other.0, &other.1), (one.0, &one.1)));
        let main: Vec<Revision> =
            merged.list().iter().filter(|one| one.is_on_main_path).map(|one| one.revision).collect();
        assert_eq!(main, [revision(4, 2), revision(3, 2), revision(2, 2), revision(1, 0)]);
        assert_eq!(merged.list().len(), 6);
        assert!(merged.contains(revision(3, 1)) && merged.contains(revision(2, 1)));
    }

    #[test]
    fn two_lists_of_one_version_are_united() {
        let ancestors = saved(4, 7, first()).1;
        let part = Ancestors::from_list(ancestors.list()[1..3].to_vec(), Cut::Branches).expect("it is in order");
        let united = part.united(&ancestors);
        assert_eq!((united.list(), united.cut()), (ancestors.list(), Cut::Branches));
        assert_eq!(ancestors.united(&part), united);
    }

    #[test]
    fn a_restored_version_does_not_know_what_was_saved_after_the_kept_contents() {
        let (last, ancestors) = saved(3, 7, first());
        let deletion = revision(5, 9);
        let of_deletion = Ancestors::of_child(last, &ancestors);
        let list = |kept| -> Vec<Revision> {
            let restored = Ancestors::of_restored(deletion, &of_deletion, kept);
            restored.list().iter().map(|ancestor| ancestor.revision).collect()
        };
        assert_eq!(list(last), [deletion, last, revision(3, 7), revision(2, 7), revision(1, 0)]);
        assert_eq!(list(revision(2, 7)), [deletion, revision(2, 7), revision(1, 0)]);
        let elsewhere = revision(2, 8);
        assert_eq!(list(elsewhere), [deletion, elsewhere]);
        assert_eq!(Ancestors::of_restored(deletion, &of_deletion, elsewhere).cut(), Cut::Branches);
        assert_eq!((of_deletion.parent(), Ancestors::default().parent()), (Some(last), None));
    }

    #[test]
    fn a_long_list_loses_the_least_and_says_so() {
        let (_, ancestors) = saved(ANCESTORS_MAX as u32 + 5, 1, first());
        assert_eq!((ancestors.list().len(), ancestors.cut()), (ANCESTORS_MAX, Cut::MainPath));
        assert!(!ancestors.contains(revision(1, 0)) && ancestors.contains(revision(69, 1)));
        let (one, other) = (saved(40, 1, first()), saved(41, 2, first()));
        let merged = Ancestors::of_merge((one.0, &one.1), (other.0, &other.1));
        assert_eq!((merged.list().len(), merged.cut()), (ANCESTORS_MAX, Cut::Branches));
        let late = Ancestors::of_child(revision(43, 9), &merged);
        assert_eq!(saved(100, 9, (revision(44, 9), late)).1.cut(), Cut::Branches, "what is lost stays lost");
    }

    #[test]
    fn the_stored_form_reads_back() {
        let (one, other) = (saved(2, 1, first()), saved(300, 2, first()));
        for (revision, ancestors) in [
            first(),
            one.clone(),
            other.clone(),
            (revision(400, 3), Ancestors::of_merge((one.0, &one.1), (other.0, &other.1))),
        ] {
            let mut out = Encoder::new();
            ancestors.encode(&mut out, revision);
            let bytes = out.finish();
            assert_eq!(Ancestors::decode(&mut Decoder::new(&bytes), revision), Ok(ancestors));
            for length in 0..bytes.len() {
                assert!(Ancestors::decode(&mut Decoder::new(&bytes[..length]), revision).is_err());
            }
        }
        let (last, ancestors) = one;
        let mut out = Encoder::new();
        ancestors.encode(&mut out, last);
        let before = Revision { sequence: 0, ..last };
        assert_eq!(Ancestors::decode(&mut Decoder::new(&out.finish()), before), Err(InvalidRecord));
    }
}
