//! Detection of response cycles: documents that respond to themselves, or to one of their own responses.
//!
//! Each document names its parent, and nothing prevents these names from forming a cycle: two documents created with
//! caller-chosen UNIDs may respond to each other. A *member* of such a cycle is treated as if it had no parent
//! (`docs/views.md`, "The rows of a document"), so that the hierarchy never depends on which document was read first. A
//! response beneath a member is not a member itself, and has the member as its parent.

use std::collections::HashMap;

use base::Unid;

use crate::error::Result;

/// A function that returns the UNID of a document's parent, or `None` if the document is absent or has no parent.
pub(crate) type ParentOf<'f> = dyn FnMut(Unid) -> Result<Option<Unid>> + 'f;

/// A detector of cycle members with a memory of its results. It is valid while no document's parent changes, and
/// follows the parent of each document once.
#[derive(Default)]
pub(crate) struct Cycles {
    /// The checked documents, `true` for members of a cycle.
    known: HashMap<Unid, bool>,
}

impl Cycles {
    /// Returns the result for a document, or `None` if it was not checked.
    ///
    /// A document that was not checked itself, but whose parent was, is no member of a cycle.
    pub(crate) fn cached(&self, unid: Unid) -> Option<bool> {
        self.known.get(&unid).copied()
    }

    /// Returns `true` if a document with the parent `parent` is a member of a cycle.
    pub(crate) fn is_member(&mut self, unid: Unid, parent: Unid, parent_of: &mut ParentOf<'_>) -> Result<bool> {
        if let Some(is_member) = self.cached(unid) {
            return Ok(is_member);
        }
        let mut path = vec![unid];
        let mut places = HashMap::from([(unid, 0)]);
        // The position in the path at which the cycle begins. The path never leads from a member of a cycle to a
        // document that was checked before, because the member would have been checked with it.
        let mut first_member = usize::MAX;
        let mut above = Some(parent);
        while let Some(next) = above.filter(|next| !self.known.contains_key(next)) {
            if let Some(place) = places.get(&next) {
                first_member = *place;
                break;
            }
            places.insert(next, path.len());
            path.push(next);
            above = parent_of(next)?;
        }
        self.known.extend(path.into_iter().enumerate().map(|(place, unid)| (unid, place >= first_member)));
        Ok(first_member == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unid(number: u8) -> Unid {
        Unid([number; 16])
    }

    /// Returns the members of cycles among pairs of document and parent.
    fn members(answers: &[(u8, u8)]) -> Vec<u8> {
        let parents: HashMap<Unid, Unid> = answers.iter().map(|(one, parent)| (unid(*one), unid(*parent))).collect();
        let mut cycles = Cycles::default();
        let mut is_member = |one: u8, parent: u8| {
            let found = cycles.is_member(unid(one), unid(parent), &mut |above| Ok(parents.get(&above).copied()));
            found.expect("nothing is read")
        };
        answers.iter().filter(|(one, parent)| is_member(*one, *parent)).map(|(one, _)| *one).collect()
    }

    #[test]
    fn each_document_is_visited_once() {
        let mut visited = 0;
        let mut cycles = Cycles::default();
        for number in 0..200 {
            let mut parent_of = |above: Unid| {
                visited += 1;
                Ok(Some(unid(above.0[0] + 1)).filter(|next| next.0[0] <= 200))
            };
            assert!(!cycles.is_member(unid(number), unid(number + 1), &mut parent_of).expect("nothing is read"));
        }
        assert_eq!(visited, 200);
    }

    #[test]
    fn documents_that_are_their_own_ancestors_are_members() {
        assert_eq!(members(&[(1, 2), (2, 3), (3, 9)]), [0; 0]);
        assert_eq!(members(&[(1, 1)]), [1]);
        assert_eq!(members(&[(1, 2), (2, 1)]), [1, 2]);
        assert_eq!(members(&[(7, 1), (1, 2), (2, 3), (3, 1), (8, 7), (9, 8)]), [1, 2, 3]);
        assert_eq!(members(&[(1, 2), (2, 1), (7, 1), (8, 7), (5, 6), (6, 5)]), [1, 2, 5, 6]);
    }
}
