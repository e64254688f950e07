//! The cache of the views of a database: the designs, and for each view the compiled formulas with the index.
//!
//! A compiled view is kept as long as its design and its index stay the same. The cache does not read the store;
//! [`crate::view::open`] fills it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use base::sync::Mutex;
use base::{Modseq, NoteId, Timestamp, ViewId};
use store::TableReader;

use crate::catalog::DatabaseRecord;
use crate::error::{Error, Result};
use crate::limits::{TIME_REFRESH_MIN, VIEW_BUILD_NOTES_MIN};
use crate::view::hidden_rows::cache::HiddenCache;
use crate::view::index::ViewIndex;
use crate::view::index_record::IndexRecord;
use crate::view::note::ViewInfo;
use crate::view::selection::CompiledView;
use crate::view::sort_key::SortDirection;
use crate::view::view_format::Refresh;

/// Number of seconds in a day.
const DAY_SECONDS: i64 = 86_400;

/// A view with its index.
pub struct OpenView {
    /// The design note.
    pub info: Arc<ViewInfo>,
    /// The index that holds the rows.
    pub index: ViewIndex,
    /// The moment for which the index was evaluated, if its formulas depend on the time.
    pub evaluated_at: Timestamp,
    pub(crate) formulas: CompiledView,
    /// The values of the inputs that the formulas used, from the record of the index.
    external_input_values: Vec<u8>,
    pub(crate) hidden: HiddenCache,
}

impl OpenView {
    fn new(database: &DatabaseRecord, info: Arc<ViewInfo>, record: &IndexRecord) -> Result<Self> {
        let formulas = info.view.compile(info.id())?.at(record.evaluated, database, &info.view.title);
        let index = ViewIndex::new(database.number, record.index, info.view.design.clone());
        let index = index.charged_to(record.account.clone());
        let external_inputs = record.external_inputs.clone();
        let hidden = HiddenCache::default();
        Ok(Self {
            info,
            index,
            evaluated_at: record.evaluated,
            formulas,
            external_input_values: external_inputs,
            hidden,
        })
    }

    /// Returns `true` if the contents change as time passes, so that they hold only for [`OpenView::evaluated_at`].
    #[must_use]
    pub fn is_time_relative(&self) -> bool {
        self.formulas.is_time_relative()
    }

    /// Returns `true` if the formulas may have other results now than at the evaluation: another day has begun, or the
    /// formulas use the time of day and the refresh interval has passed. The interval is at least one minute. A manual
    /// view is never outdated.
    #[must_use]
    pub fn is_outdated(&self, now: Timestamp) -> bool {
        if !self.is_time_relative() {
            return false;
        }
        let interval = match self.info.view.design.refresh {
            Refresh::Manual => return false,
            Refresh::Hours(hours) => Duration::from_secs(u64::from(hours) * 3_600),
            Refresh::Automatic | Refresh::AfterFirstUse => TIME_REFRESH_MIN,
        };
        let day = |time: Timestamp| time.seconds().div_euclid(DAY_SECONDS);
        let is_late = now.since(self.evaluated_at) >= interval.max(TIME_REFRESH_MIN);
        day(now) != day(self.evaluated_at) || (is_late && self.formulas.is_clock_relative())
    }

    /// Returns the number of the view's own order, or of the order that a click on a column selects.
    pub fn collation(&self, column: Option<(usize, SortDirection)>) -> Result<usize> {
        let Some(clicked) = column else { return Ok(0) };
        let collations = self.info.view.design.collations();
        let found = collations.iter().position(|collation| collation.first() == Some(&clicked));
        found.ok_or_else(|| {
            Error::invalid(format!("column {}", clicked.0), "click-to-sort is not enabled for it in this direction")
        })
    }

    /// Returns `true` if the index is to be built from all documents at once: it is new and there are many documents,
    /// or it is outdated.
    pub(crate) fn needs_build(&self, reader: &dyn TableReader, notes: u64, now: Timestamp) -> Result<bool> {
        if self.index.stored_modseq(reader)? == Modseq(0) {
            return Ok(notes > VIEW_BUILD_NOTES_MIN);
        }
        Ok(self.is_outdated(now))
    }

    /// Returns the formulas prepared for evaluation at a moment.
    pub(crate) fn formulas_at(&self, now: Timestamp, database: &DatabaseRecord) -> CompiledView {
        self.formulas.at(now, database, &self.info.view.title)
    }

    fn matches(&self, info: &ViewInfo, record: &IndexRecord) -> bool {
        self.info.note == info.note
            && self.info.revision == info.revision
            && self.index.id() == record.index
            && self.evaluated_at == record.evaluated
    }
}

/// The cache of the compiled views of a database.
#[derive(Default)]
pub(crate) struct ViewCache {
    list: Mutex<Option<ViewList>>,
    /// The views as of recent snapshots.
    compiled: Mutex<HashMap<NoteId, Arc<OpenView>>>,
    /// The views with their current index. Changed only under the lock of the database.
    current: Mutex<HashMap<NoteId, Arc<OpenView>>>,
    /// The views whose index is being built, with the number of the new index as soon as it has one.
    building: Mutex<HashMap<NoteId, Option<ViewId>>>,
}

/// The exclusive right to build the index of a view. It ends when the value is dropped.
pub(crate) struct BuildGuard<'v> {
    views: &'v ViewCache,
    note: NoteId,
}

impl BuildGuard<'_> {
    /// Sets the number of the index that is being built.
    pub(crate) fn set_index(&self, index: ViewId) {
        self.views.building.lock().insert(self.note, Some(index));
    }
}

impl Drop for BuildGuard<'_> {
    fn drop(&mut self) {
        self.views.building.lock().remove(&self.note);
    }
}

/// The views of a database as of a modseq of the design.
#[derive(Clone)]
struct ViewList {
    design: Modseq,
    views: Arc<[Arc<ViewInfo>]>,
}

impl ViewCache {
    /// Acquires the right to build the index of a view. Returns `None` while another build has it.
    pub(crate) fn begin_build(&self, note: NoteId) -> Option<BuildGuard<'_>> {
        match self.building.lock().entry(note) {
            Entry::Occupied(_) => None,
            Entry::Vacant(vacant) => {
                vacant.insert(None);
                Some(BuildGuard { views: self, note })
            }
        }
    }

    pub(crate) fn is_being_built(&self, note: NoteId) -> bool {
        self.building.lock().contains_key(&note)
    }

    /// Returns a view with its current index. The caller holds the lock of the database.
    pub(crate) fn current(&self, info: &ViewInfo, database: &DatabaseRecord) -> Option<Arc<OpenView>> {
        let current = self.current.lock().get(&info.note).cloned();
        current.filter(|view| {
            view.info.revision == info.revision && view.external_input_values == info.external_input_values(database)
        })
    }

    pub(crate) fn set_current(&self, view: &Arc<OpenView>) {
        let mut current = self.current.lock();
        current.insert(view.info.note, Arc::clone(view));
    }

    /// Removes the current index of a view, or of all views, from the cache. The caller holds the lock of the database.
    pub(crate) fn remove(&self, note: Option<NoteId>) {
        let mut current = self.current.lock();
        match note {
            Some(note) => drop(current.remove(&note)),
            None => current.clear(),
        }
    }

    /// Returns `true` if an index is in use or being built, so that changes may be applied to it. The caller holds the
    /// lock of the database.
    pub(crate) fn is_in_use(&self, index: ViewId) -> bool {
        let building = self.building.lock();
        building.values().any(|building| *building == Some(index))
            || self.current.lock().values().any(|view| view.index.id() == index)
    }

    /// Returns `true` if any view was opened, so that its index follows the documents.
    pub(crate) fn is_any_open(&self) -> bool {
        !self.current.lock().is_empty()
    }

    /// Returns the modseq up to which all indexes in use have followed the documents exactly.
    pub(crate) fn followed_modseq(&self) -> Modseq {
        let current = self.current.lock();
        current.values().map(|view| view.index.followed_modseq()).min().unwrap_or(Modseq(u64::MAX))
    }

    /// Returns the views as of a modseq of the design, from memory or with `load`.
    pub(crate) fn list(
        &self,
        design: Modseq,
        load: impl FnOnce() -> Result<Vec<Arc<ViewInfo>>>,
    ) -> Result<Arc<[Arc<ViewInfo>]>> {
        let known = self.list.lock().clone();
        if let Some(known) = known.filter(|known| known.design == design) {
            return Ok(known.views);
        }
        let list: Arc<[Arc<ViewInfo>]> = Arc::from(load()?);
        let kept = ViewList { design, views: Arc::clone(&list) };
        *self.list.lock() = Some(kept);
        self.compiled
            .lock()
            .retain(|note, view| list.iter().any(|info| info.note == *note && info.revision == view.info.revision));
        Ok(list)
    }

    /// Returns a view with the index that a record names.
    pub(crate) fn view(
        &self,
        database: &DatabaseRecord,
        info: &Arc<ViewInfo>,
        record: &IndexRecord,
    ) -> Result<Arc<OpenView>> {
        let known = self.compiled.lock().get(&info.note).cloned();
        if let Some(view) = known.filter(|view| view.matches(info, record)) {
            return Ok(view);
        }
        let view = Arc::new(OpenView::new(database, Arc::clone(info), record)?);
        self.compiled.lock().insert(info.note, Arc::clone(&view));
        Ok(view)
    }
}
