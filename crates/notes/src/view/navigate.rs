//! Going about in a view: from a row to the next, the parent, the next one on the same level (`docs/views.md`, "Reading").
//!
//! A [`Navigator`] is one way to go; the names are the original's (`domino.md` §3). Each step reads a few keys, whatever lies between: what is beneath
//! a collapsed row is skipped as one range. The one exception is the way to the next unread document, which looks at what lies between.

use std::collections::HashSet;

use store::engine::next_key;
use store::{Direction, KeyRange};

use crate::database::damaged;
use crate::error::{Error, Result};
use crate::limits::VIEW_EXPANSIONS_MAX;
use crate::view::reader::{ViewReader, ViewRow};
use crate::view::row::mark;

/// A way to go from one row to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Navigator {
    /// Nowhere.
    Current,
    /// The next row, also into what is collapsed.
    Next,
    /// The row before, also out of what is collapsed.
    Previous,
    /// The next row that is shown: collapsed rows are passed with all that is beneath.
    NextExpanded,
    /// The row before that is shown.
    PreviousExpanded,
    /// The next row beneath the same parent.
    NextPeer,
    /// The row before beneath the same parent.
    PreviousPeer,
    /// The first row beneath the same parent.
    FirstPeer,
    /// The last row beneath the same parent.
    LastPeer,
    /// The row above.
    Parent,
    /// The first row beneath.
    Child,
    /// The next document that is no response.
    NextMain,
    /// The document before that is no response.
    PreviousMain,
    /// The next category.
    NextCategory,
    /// The category before; of a document, its own.
    PreviousCategory,
    /// The next document that the reader has not read.
    NextUnread,
    /// The document before that the reader has not read.
    PreviousUnread,
}

/// Which rows a client has open.
#[derive(Clone, Debug, Default)]
pub struct Expansion {
    /// Rows are collapsed but for the exceptions; else they are expanded but for these.
    collapsed: bool,
    exceptions: HashSet<Vec<u8>>,
}

impl Expansion {
    /// Everything is open but for the rows with these keys.
    pub fn all_but(exceptions: HashSet<Vec<u8>>) -> Result<Self> {
        Self::new(false, exceptions)
    }

    /// Nothing is open but the rows with these keys.
    pub fn none_but(exceptions: HashSet<Vec<u8>>) -> Result<Self> {
        Self::new(true, exceptions)
    }

    fn new(collapsed: bool, exceptions: HashSet<Vec<u8>>) -> Result<Self> {
        if exceptions.len() > VIEW_EXPANSIONS_MAX {
            return Err(Error::Limit { what: "expanded and collapsed rows of a view", max: VIEW_EXPANSIONS_MAX });
        }
        Ok(Self { collapsed, exceptions })
    }

    /// Tells whether what is beneath a row is not shown.
    #[must_use]
    pub fn is_collapsed(&self, key: &[u8]) -> bool {
        self.collapsed != self.exceptions.contains(key)
    }

    /// Tells whether only the outermost rows are shown.
    #[must_use]
    pub fn shows_outermost_alone(&self) -> bool {
        self.collapsed && self.exceptions.is_empty()
    }
}

impl ViewReader<'_> {
    /// Gives the row that a step leads to; nothing where there is none. The row from which it is taken need not be there any more.
    pub fn step(&self, key: &[u8], navigator: Navigator, expansion: &Expansion) -> Result<Option<ViewRow>> {
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
                self.only_beneath(next, self.parent_of(key)?)
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
                self.only_beneath(next, Some(key.to_vec()))
            }
            Navigator::NextMain => self.main_at(self.mains_before(&next_key(key))?),
            Navigator::PreviousMain => {
                self.mains_before(key)?.checked_sub(1).map_or(Ok(None), |number| self.main_at(number))
            }
            Navigator::NextCategory => self.next_category(key),
            Navigator::PreviousCategory => self.previous_category(key),
            Navigator::NextUnread | Navigator::PreviousUnread => {
                Err(Error::invalid("navigator", "what is unread is known to those who read entries"))
            }
        }
    }

    /// Gives the first row of the view.
    pub fn first(&self) -> Result<Option<ViewRow>> {
        self.first_from(&[])
    }

    /// Gives the last row that is shown.
    pub fn last(&self, expansion: &Expansion) -> Result<Option<ViewRow>> {
        let Some(last) = self.last_before(None)? else { return Ok(None) };
        self.shown(last, expansion).map(Some)
    }

    /// Gives the key of the row above; nothing of an outermost row.
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

    /// Tells how many rows are above a row.
    pub fn depth_of(&self, key: &[u8]) -> Result<usize> {
        let wrong = || damaged(store::Table::View, key);
        let categories = self.keys().paths_above(key).ok_or_else(wrong)?.len();
        if self.is_category(key) {
            return Ok(categories);
        }
        Ok(categories + self.keys().documents_in(key).ok_or_else(wrong)?.len() - 1)
    }

    /// Tells whether this is the key of a category's row.
    #[must_use]
    pub fn is_category(&self, key: &[u8]) -> bool {
        self.keys().is_category_row(key)
    }

    /// Gives the first row at or behind a key.
    pub(crate) fn first_from(&self, key: &[u8]) -> Result<Option<ViewRow>> {
        let entry = self.walk(KeyRange { start: key.to_vec(), end: None }, Direction::Forward)?.next()?;
        entry.map(|entry| self.row(entry.key, &entry.value)).transpose()
    }

    /// Gives the first row behind a row and all that is beneath it.
    pub(crate) fn first_behind(&self, key: &[u8]) -> Result<Option<ViewRow>> {
        self.end_of(key).map_or(Ok(None), |end| self.first_from(&end))
    }

    fn last_before(&self, key: Option<&[u8]>) -> Result<Option<ViewRow>> {
        let range = KeyRange { start: Vec::new(), end: key.map(<[u8]>::to_vec) };
        let entry = self.walk(range, Direction::Backward)?.next()?;
        entry.map(|entry| self.row(entry.key, &entry.value)).transpose()
    }

    fn only_beneath(&self, row: Option<ViewRow>, parent: Option<Vec<u8>>) -> Result<Option<ViewRow>> {
        match row {
            Some(row) if self.parent_of(&row.key)? == parent => Ok(Some(row)),
            _ => Ok(None),
        }
    }

    fn shown_before(&self, key: &[u8], expansion: &Expansion) -> Result<Option<ViewRow>> {
        let Some(row) = self.last_before(Some(key))? else { return Ok(None) };
        self.shown(row, expansion).map(Some)
    }

    /// Gives what is shown of a row: itself, or the outermost collapsed row above it.
    fn shown(&self, row: ViewRow, expansion: &Expansion) -> Result<ViewRow> {
        let shown = self.outermost_collapsed(&row.key, expansion)?;
        if shown == row.key { Ok(row) } else { Ok(self.find(&shown)?.unwrap_or(row)) }
    }

    /// Gives the key of the outermost collapsed row above a row, or of the row itself.
    pub(crate) fn outermost_collapsed(&self, key: &[u8], expansion: &Expansion) -> Result<Vec<u8>> {
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

    /// Goes up from a row to the one that stands directly beneath `parent`.
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
        let next = self.first_from(&[path, &[mark::NEXT]].concat())?;
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

    /// Gives the path of the category that a row is or stands in.
    fn innermost_path<'k>(&self, key: &'k [u8]) -> Result<Option<&'k [u8]>> {
        if self.is_category(key) {
            return Ok(Some(&key[..key.len() - 1]));
        }
        let above = self.keys().paths_above(key).ok_or_else(|| damaged(store::Table::View, key))?;
        Ok(above.last().copied())
    }
}
