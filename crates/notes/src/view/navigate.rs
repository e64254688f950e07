//! Navigation in a view: from a row to the next row, the parent, or the next row on the same level (`docs/views.md`,
//! "Reading").
//!
//! A [`Navigator`] is one kind of step; the names are Domino's. A step reads a few keys, independent of the distance:
//! the rows beneath a collapsed row are skipped as one range. The exception is the step to the next unread document,
//! which reads all rows in between.

use std::collections::HashSet;

use store::engine::next_key;
use store::{Direction, KeyRange};

use crate::error::{Error, Result, damaged};
use crate::limits::VIEW_EXPANSIONS_MAX;
use crate::view::reader::{ViewReader, ViewRow};
use crate::view::row::mark;

/// A kind of step from one row to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Navigator {
    /// The row itself.
    Current,
    /// The next row, even beneath a collapsed row.
    Next,
    /// The previous row, even beneath a collapsed row.
    Previous,
    /// The next row that is shown. A collapsed row is skipped with all rows beneath it.
    NextExpanded,
    /// The previous row that is shown.
    PreviousExpanded,
    /// The next row beneath the same parent.
    NextPeer,
    /// The previous row beneath the same parent.
    PreviousPeer,
    /// The first row beneath the same parent.
    FirstPeer,
    /// The last row beneath the same parent.
    LastPeer,
    /// The parent row.
    Parent,
    /// The first row directly beneath.
    Child,
    /// The next document that is not a response.
    NextMain,
    /// The previous document that is not a response.
    PreviousMain,
    /// The next category.
    NextCategory,
    /// The previous category. For a document, its own category.
    PreviousCategory,
    /// The next document that the reader has not read.
    NextUnread,
    /// The previous document that the reader has not read.
    PreviousUnread,
}

/// The expanded and collapsed rows of a client.
#[derive(Clone, Debug, Default)]
pub struct RowExpansion {
    /// `true` if rows are collapsed except for the exceptions; `false` if they are expanded except for these.
    collapsed: bool,
    exceptions: HashSet<Vec<u8>>,
}

impl RowExpansion {
    /// Creates an expansion in which all rows are expanded except those with these keys. Fails if there are more than
    /// [`VIEW_EXPANSIONS_MAX`].
    pub fn all_but(exceptions: HashSet<Vec<u8>>) -> Result<Self> {
        Self::new(false, exceptions)
    }

    /// Creates an expansion in which all rows are collapsed except those with these keys. Fails if there are more than
    /// [`VIEW_EXPANSIONS_MAX`].
    pub fn none_but(exceptions: HashSet<Vec<u8>>) -> Result<Self> {
        Self::new(true, exceptions)
    }

    fn new(collapsed: bool, exceptions: HashSet<Vec<u8>>) -> Result<Self> {
        if exceptions.len() > VIEW_EXPANSIONS_MAX {
            return Err(Error::Limit { what: "expanded and collapsed rows of a view", max: VIEW_EXPANSIONS_MAX });
        }
        Ok(Self { collapsed, exceptions })
    }

    /// Returns `true` if the rows beneath a row are not shown.
    #[must_use]
    pub fn is_collapsed(&self, key: &[u8]) -> bool {
        self.collapsed != self.exceptions.contains(key)
    }

    /// Returns `true` if only the outermost rows are shown.
    #[must_use]
    pub fn is_fully_collapsed(&self) -> bool {
        self.collapsed && self.exceptions.is_empty()
    }
}

impl ViewReader<'_> {
    /// Returns the row that a step leads to, or `None` if there is no such row. The starting row need not exist any
    /// more.
    ///
    /// Fails for [`Navigator::NextUnread`] and [`Navigator::PreviousUnread`], because unread marks are known only to
    /// readers of entries.
    pub fn step(&self, key: &[u8], navigator: Navigator, expansion: &RowExpansion) -> Result<Option<ViewRow>> {
        match navigator {
            Navigator::Current => self.find(key),
            Navigator::Next => self.first_from(&next_key(key)),
            Navigator::Previous => self.last_before(Some(key)),
            Navigator::NextExpanded => {
                let shown = self.outermost_collapsed(key, expansion)?;
                if expansion.is_collapsed(&shown) { self.first_behind(&shown) } else { self.first_from(&next_key(key)) }
            }
            Navigator::PreviousExpanded => self.shown_before(key, expansion),
            Navigator::NextPeer => {
                let next = self.first_behind(key)?;
                self.filter_child_of(next, self.parent_of(key)?)
            }
            Navigator::PreviousPeer => self.previous_peer(key),
            Navigator::FirstPeer => match self.parent_of(key)? {
                Some(parent) => self.step(&parent, Navigator::Child, expansion),
                None => self.first_from(&[]),
            },
            Navigator::LastPeer => self.last_peer(key),
            Navigator::Parent => self.parent_of(key)?.map_or(Ok(None), |parent| self.find(&parent)),
            Navigator::Child => {
                let next = self.first_from(&next_key(key))?;
                self.filter_child_of(next, Some(key.to_vec()))
            }
            Navigator::NextMain => self.main_document_at(self.main_documents_before(&next_key(key))?),
            Navigator::PreviousMain => {
                self.main_documents_before(key)?.checked_sub(1).map_or(Ok(None), |number| self.main_document_at(number))
            }
            Navigator::NextCategory => self.next_category(key),
            Navigator::PreviousCategory => self.previous_category(key),
            Navigator::NextUnread | Navigator::PreviousUnread => {
                Err(Error::invalid("navigator", "unread navigators can only be used when reading entries"))
            }
        }
    }

    /// Returns the first row of the view.
    pub fn first(&self) -> Result<Option<ViewRow>> {
        self.first_from(&[])
    }

    /// Returns the last row that is shown.
    pub fn last(&self, expansion: &RowExpansion) -> Result<Option<ViewRow>> {
        let Some(last) = self.last_before(None)? else { return Ok(None) };
        self.visible_row(last, expansion).map(Some)
    }

    /// Returns the key of the parent row, or `None` for an outermost row.
    pub fn parent_of(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let keys = self.keys();
        let wrong = || damaged(store::Table::View, key);
        if !self.is_category(key)
            && let [.., parent, _] = keys.documents_in(key).ok_or_else(wrong)?[..]
        {
            return Ok(Some(key[..parent].to_vec()));
        }
        let above = keys.paths_above(key).ok_or_else(wrong)?;
        Ok(above.last().map(|path| [path, &[mark::ROW][..]].concat()))
    }

    /// Returns the number of rows above a row in the hierarchy.
    pub fn depth_of(&self, key: &[u8]) -> Result<usize> {
        let wrong = || damaged(store::Table::View, key);
        let categories = self.keys().paths_above(key).ok_or_else(wrong)?.len();
        if self.is_category(key) {
            return Ok(categories);
        }
        Ok(categories + self.keys().documents_in(key).ok_or_else(wrong)?.len() - 1)
    }

    /// Returns `true` if a key belongs to a category row.
    #[must_use]
    pub fn is_category(&self, key: &[u8]) -> bool {
        self.keys().is_category_row(key)
    }

    /// Returns the first row at or behind a key.
    pub(crate) fn first_from(&self, key: &[u8]) -> Result<Option<ViewRow>> {
        let entry = self.scan(KeyRange { start: key.to_vec(), end: None }, Direction::Forward)?.next()?;
        entry.map(|entry| self.row(entry.key, &entry.value)).transpose()
    }

    /// Returns the first row behind a row and all rows beneath it.
    pub(crate) fn first_behind(&self, key: &[u8]) -> Result<Option<ViewRow>> {
        self.end_of(key).map_or(Ok(None), |end| self.first_from(&end))
    }

    fn last_before(&self, key: Option<&[u8]>) -> Result<Option<ViewRow>> {
        let range = KeyRange { start: Vec::new(), end: key.map(<[u8]>::to_vec) };
        let entry = self.scan(range, Direction::Backward)?.next()?;
        entry.map(|entry| self.row(entry.key, &entry.value)).transpose()
    }

    fn filter_child_of(&self, row: Option<ViewRow>, parent: Option<Vec<u8>>) -> Result<Option<ViewRow>> {
        match row {
            Some(row) if self.parent_of(&row.key)? == parent => Ok(Some(row)),
            _ => Ok(None),
        }
    }

    fn shown_before(&self, key: &[u8], expansion: &RowExpansion) -> Result<Option<ViewRow>> {
        let Some(row) = self.last_before(Some(key))? else { return Ok(None) };
        self.visible_row(row, expansion).map(Some)
    }

    /// Returns the visible row for a row: the outermost collapsed row above it, or the row itself.
    fn visible_row(&self, row: ViewRow, expansion: &RowExpansion) -> Result<ViewRow> {
        let shown = self.outermost_collapsed(&row.key, expansion)?;
        if shown == row.key { Ok(row) } else { Ok(self.find(&shown)?.unwrap_or(row)) }
    }

    /// Returns the key of the outermost collapsed row above a row, or the key of the row itself.
    pub(crate) fn outermost_collapsed(&self, key: &[u8], expansion: &RowExpansion) -> Result<Vec<u8>> {
        let mut shown = key.to_vec();
        let mut above = self.parent_of(key)?;
        while let Some(key) = above {
            above = self.parent_of(&key)?;
            if expansion.is_collapsed(&key) {
                shown = key;
            }
        }
        Ok(shown)
    }

    fn previous_peer(&self, key: &[u8]) -> Result<Option<ViewRow>> {
        let parent = self.parent_of(key)?;
        let Some(row) = self.last_before(Some(key))? else { return Ok(None) };
        if Some(&row.key) == parent.as_ref() {
            return Ok(None);
        }
        self.ancestor_beneath(row, parent)
    }

    fn last_peer(&self, key: &[u8]) -> Result<Option<ViewRow>> {
        let parent = self.parent_of(key)?;
        let end = parent.as_ref().and_then(|parent| self.end_of(parent));
        let Some(row) = self.last_before(end.as_deref())? else { return Ok(None) };
        self.ancestor_beneath(row, parent)
    }

    /// Returns the row directly beneath `parent` that contains a row or is the row itself.
    fn ancestor_beneath(&self, row: ViewRow, parent: Option<Vec<u8>>) -> Result<Option<ViewRow>> {
        let mut key = row.key.clone();
        loop {
            let above = self.parent_of(&key)?;
            if above == parent {
                break;
            }
            match above {
                Some(above) => key = above,
                None => return Ok(None),
            }
        }
        if key == row.key { Ok(Some(row)) } else { self.find(&key) }
    }

    fn next_category(&self, key: &[u8]) -> Result<Option<ViewRow>> {
        let Some(path) = self.innermost_path(key)? else { return Ok(None) };
        let next = self.first_from(&[path, &[mark::NEXT_COLUMN]].concat())?;
        Ok(next.filter(|row| self.is_category(&row.key)))
    }

    fn previous_category(&self, key: &[u8]) -> Result<Option<ViewRow>> {
        if !self.keys().has_categories() {
            return Ok(None);
        }
        if !self.is_category(key) {
            return self.own_category(key);
        }
        match self.last_before(Some(key))? {
            Some(row) if !self.is_category(&row.key) => self.own_category(&row.key),
            other => Ok(other),
        }
    }

    fn own_category(&self, key: &[u8]) -> Result<Option<ViewRow>> {
        let Some(path) = self.innermost_path(key)? else { return Ok(None) };
        self.find(&[path, &[mark::ROW]].concat())
    }

    /// Returns the path of the category that a row is, or that contains the row.
    fn innermost_path<'k>(&self, key: &'k [u8]) -> Result<Option<&'k [u8]>> {
        if self.is_category(key) {
            return Ok(Some(&key[..key.len() - 1]));
        }
        let above = self.keys().paths_above(key).ok_or_else(|| damaged(store::Table::View, key))?;
        Ok(above.last().copied())
    }
}
