//! The open views of a database: the design note, the index, and the update of the index.
//!
//! [`Access::view_refresh`] creates the index for a design and applies changes to it. [`DatabaseSnapshot::view`]
//! returns the view as of a snapshot, and [`DatabaseSnapshot::view_rows`] its rows. A view is not found if the reader
//! may not see its design note.
//!
//! Compiled views are cached with their database, one for each design note, as long as design and index stay the same.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{Modseq, NoteId, Timestamp, Unid, ViewId};
use store::{Batch, Read};

use crate::access::{Access, AtLeast, Grant, ReadersId, level};
use crate::database::Database;
use crate::database_reader::{self, DatabaseSnapshot};
use crate::error::{Error, Result};
use crate::item::{Item, ItemRef};
use crate::limits::{TIME_REFRESH_MIN, VIEW_BUILD_NOTES_MIN};
use crate::note::{Header, NoteClass, NoteFlags, summary_items};
use crate::view::index::{Progress, ViewIndex};
use crate::view::index_record::{self, IndexRecord};
use crate::view::note::{ViewInfo, ViewNote};
use crate::view::reader::ViewReader;
use crate::view::readers_filter::HiddenRows;
use crate::view::readers_filter::cache::{HiddenCache, HiddenKey};
use crate::view::selection::CompiledView;
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
    question: CompiledView,
    /// The values of the inputs that the formulas used, from the record of the index.
    external_input_values: Vec<u8>,
    hidden: HiddenCache,
}

impl OpenView {
    fn new(database: &Database, info: Arc<ViewInfo>, record: &IndexRecord) -> Result<Self> {
        let question = info.view.question(info.id())?.at(record.evaluated, database, &info.view.title);
        let index = ViewIndex::new(database.number(), record.index, info.view.design.clone());
        let told = record.told.clone();
        let hidden = HiddenCache::default();
        Ok(Self { info, index, evaluated_at: record.evaluated, question, external_input_values: told, hidden })
    }

    /// Returns `true` if the contents change as time passes, so that they hold only for [`OpenView::evaluated_at`].
    #[must_use]
    pub fn is_time_relative(&self) -> bool {
        self.question.is_time_relative()
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
        day(now) != day(self.evaluated_at) || (is_late && self.question.is_clock_relative())
    }

    /// Returns the number of the view's own order, or of the order that a click on a column selects.
    pub fn collation(&self, column: Option<(usize, crate::view::sort_key::SortDirection)>) -> Result<usize> {
        let Some(clicked) = column else { return Ok(0) };
        let collations = self.info.view.design.collations();
        let found = collations.iter().position(|collation| collation.first() == Some(&clicked));
        found.ok_or_else(|| {
            Error::invalid(format!("column {}", clicked.0), "click-to-sort is not enabled for it in this direction")
        })
    }

    /// Returns `true` if the index is to be built from all documents at once: it is new and there are many documents,
    /// or it is outdated.
    pub(crate) fn wants_build(&self, reader: &dyn Read, notes: u64, now: Timestamp) -> Result<bool> {
        if self.index.stored_modseq(reader)? == Modseq(0) {
            return Ok(notes > VIEW_BUILD_NOTES_MIN);
        }
        Ok(self.is_outdated(now))
    }

    /// Applies at most about `limit` changes to the index. Returns `None` if another index has replaced it.
    pub(crate) fn catch_up(&self, database: &Database, limit: usize) -> Result<Option<Progress>> {
        self.index.apply_changes(database, &self.question, limit, Some(&self.hidden))
    }

    /// Returns the formulas prepared for evaluation at a moment.
    pub(crate) fn formulas_at(&self, now: Timestamp, database: &Database) -> CompiledView {
        self.question.at(now, database, &self.info.view.title)
    }

    fn is_of(&self, info: &ViewInfo, record: &IndexRecord) -> bool {
        self.info.note == info.note
            && self.info.sequence == info.sequence
            && self.index.id() == record.index
            && self.evaluated_at == record.evaluated
    }
}

/// The way in which the index of a view is brought up to date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpdateMethod {
    /// By applying the changes: [`Access::view_refresh`].
    Changes,
    /// By building it from all documents: [`Access::view_update`].
    Build,
    /// By waiting, because a build is running.
    Wait,
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
        self.views.building.lock().unwrap_or_else(PoisonError::into_inner).insert(self.note, Some(index));
    }
}

impl Drop for BuildGuard<'_> {
    fn drop(&mut self) {
        self.views.building.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.note);
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
        match self.building.lock().unwrap_or_else(PoisonError::into_inner).entry(note) {
            Entry::Occupied(_) => None,
            Entry::Vacant(vacant) => {
                vacant.insert(None);
                Some(BuildGuard { views: self, note })
            }
        }
    }

    fn is_being_built(&self, note: NoteId) -> bool {
        self.building.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&note)
    }

    /// Returns a view with its current index. The caller holds the lock of the database.
    fn current(&self, info: &ViewInfo, database: &Database) -> Option<Arc<OpenView>> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).get(&info.note).cloned();
        current.filter(|view| {
            view.info.sequence == info.sequence && view.external_input_values == info.external_input_values(database)
        })
    }

    fn set_current(&self, view: &Arc<OpenView>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.insert(view.info.note, Arc::clone(view));
    }

    /// Removes the current index of a view, or of all views, from the cache. The caller holds the lock of the database.
    pub(crate) fn forget(&self, note: Option<NoteId>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match note {
            Some(note) => drop(current.remove(&note)),
            None => current.clear(),
        }
    }

    /// Returns `true` if an index is in use or being built, so that changes may be applied to it. The caller holds the
    /// lock of the database.
    pub(crate) fn is_in_use(&self, index: ViewId) -> bool {
        let building = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        building.values().any(|building| *building == Some(index))
            || self.current.lock().unwrap_or_else(PoisonError::into_inner).values().any(|view| view.index.id() == index)
    }

    /// Returns `true` if any view was opened, so that its index follows the documents.
    pub(crate) fn is_any_open(&self) -> bool {
        !self.current.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Returns the modseq up to which all indexes in use have followed the documents exactly.
    pub(crate) fn followed_modseq(&self) -> Modseq {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.values().map(|view| view.index.followed_modseq()).min().unwrap_or(Modseq(u64::MAX))
    }

    fn list(&self, design: Modseq, load: impl FnOnce() -> Result<Vec<Arc<ViewInfo>>>) -> Result<Arc<[Arc<ViewInfo>]>> {
        let known = self.list.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| known.design == design) {
            return Ok(known.views);
        }
        let list: Arc<[Arc<ViewInfo>]> = Arc::from(load()?);
        let kept = ViewList { design, views: Arc::clone(&list) };
        *self.list.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        self.compiled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|note, view| list.iter().any(|info| info.note == *note && info.sequence == view.info.sequence));
        Ok(list)
    }

    fn view(&self, database: &Database, info: &Arc<ViewInfo>, record: &IndexRecord) -> Result<Arc<OpenView>> {
        let known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner).get(&info.note).cloned();
        if let Some(view) = known.filter(|view| view.is_of(info, record)) {
            return Ok(view);
        }
        let view = Arc::new(OpenView::new(database, Arc::clone(info), record)?);
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner).insert(info.note, Arc::clone(&view));
        Ok(view)
    }
}

impl DatabaseSnapshot<'_> {
    /// Returns the views that the reader may see, in the order of their creation.
    pub fn views(&self) -> Result<Vec<Arc<ViewInfo>>> {
        let list = self.all_views()?;
        let mut visible = Vec::with_capacity(list.len());
        for info in list.iter() {
            if self.sees(info)? {
                visible.push(Arc::clone(info));
            }
        }
        Ok(visible)
    }

    /// Finds a view by its name, an alias, or the UNID of its design note.
    pub fn view_find(&self, name: &str) -> Result<Arc<ViewInfo>> {
        let unid = name.parse::<Unid>().ok();
        for info in self.all_views()?.iter() {
            if (info.view.is_named(name) || Some(info.unid) == unid) && self.sees(info)? {
                return Ok(Arc::clone(info));
            }
        }
        Err(Error::not_found(format!("view {name:?} of {}", self.database().path())))
    }

    /// Opens a view as of this snapshot. Fails with "not found" unless [`Access::view_refresh`] has created its index.
    pub fn view(&self, note: NoteId) -> Result<Arc<OpenView>> {
        let list = self.all_views()?;
        let info = list.iter().find(|info| info.note == note);
        let not_found = || Error::not_found(format!("view {note} of {}", self.database().path()));
        let info = info.ok_or_else(not_found)?;
        if !self.sees(info)? {
            return Err(not_found());
        }
        let record = IndexRecord::load(&self.snapshot, self.database().number(), note)?;
        let record = record.filter(|record| record.follows(info, self.database()));
        let record = record.ok_or_else(|| Error::not_found(format!("index of view {:?}", info.view.title)))?;
        self.database().views.view(self.database(), info, &record)
    }

    /// Returns the way in which the index of a view is to be brought up to date.
    pub fn view_update_way(&self, note: NoteId) -> Result<UpdateMethod> {
        let notes = self.counters().notes;
        let now = self.database().clock.now();
        let wants_build = match self.view(note) {
            Ok(view) => view.wants_build(&self.snapshot, notes, now)?,
            // The view has no index yet, or the reader may not see the view. In the second case the update fails too.
            Err(Error::NotFound { .. }) => notes > VIEW_BUILD_NOTES_MIN,
            Err(error) => return Err(error),
        };
        Ok(match wants_build {
            false => UpdateMethod::Changes,
            true if self.database().views.is_being_built(note) => UpdateMethod::Wait,
            true => UpdateMethod::Build,
        })
    }

    /// Returns the rows of a view in one of its orders.
    pub fn view_rows<'v>(&'v self, view: &'v OpenView, collation: usize) -> Result<ViewReader<'v>> {
        if collation >= view.index.orders() {
            return Err(Error::not_found(format!("sort order {collation} of view {:?}", view.info.view.title)));
        }
        let rows = ViewReader::open(&self.snapshot, &view.index, collation)?;
        if self.grant().is_server_itself() || !rows.has_restricted()? {
            return Ok(rows);
        }
        let seen = HiddenKey { collation, applied: rows.applied()?, names: self.grant().names_digest() };
        if let Some(hidden) = view.hidden.get(&seen) {
            return Ok(rows.hiding(hidden));
        }
        let may_read = &mut |note, readers: &ReadersId| self.may_read(view, note, readers, seen.names);
        let hidden = match view.hidden.take_older(&seen) {
            Some((mut hidden, changes)) => {
                Arc::make_mut(&mut hidden).apply_changes(&rows.order(), &changes, may_read)?;
                hidden
            }
            None => Arc::new(HiddenRows::find(&rows.order(), may_read)?),
        };
        // Until the index has removed the notes whose stubs were purged, its states have no modseqs of their own and
        // are not cached.
        if seen.applied >= self.counters().purged_modseq {
            view.hidden.keep(seen, Arc::clone(&hidden));
        }
        Ok(rows.hiding(hidden))
    }

    /// Returns `true` if the reader may read a note with these readers in its row.
    fn may_read(&self, view: &OpenView, note: NoteId, readers: &ReadersId, names: [u8; 16]) -> Result<bool> {
        if let Some(known) = view.hidden.known(names, readers) {
            return Ok(known);
        }
        // The note may have changed since the index followed it. Then the result is not cached for other notes with the
        // readers of the row.
        let Some(bytes) = database_reader::load_summary_bytes(&self.snapshot, self.database(), note)? else {
            return Ok(false);
        };
        let items =
            summary_items(&bytes).map_err(|_| database_reader::damaged_note(self.database(), note, "summary"))?;
        let owned: Vec<Item> = items.iter().map(ItemRef::to_item).collect();
        // The row of a note whose readers changed may show contents for other readers. It is hidden until the index
        // follows.
        let may_read = self.grant().may_read(&owned);
        let is_as_before = ReadersId::of(&items) == *readers;
        if is_as_before {
            view.hidden.cache_may_read(names, *readers, may_read);
        }
        Ok(may_read && is_as_before)
    }

    fn all_views(&self) -> Result<Arc<[Arc<ViewInfo>]>> {
        let load = || load_views(&self.snapshot, self.database());
        self.database().views.list(self.counters().design_modseq, load)
    }

    fn sees(&self, info: &ViewInfo) -> Result<bool> {
        Ok(!info.restricted || self.header(info.note)?.is_some())
    }
}

impl<L: AtLeast<level::Reader>> Access<L> {
    /// Creates the index of a view, without rows, if there is none for its design. The view can then be read while its
    /// index is built.
    pub fn view_begin(&self, view: NoteId) -> Result<()> {
        self.database().view_with_index(view, &*self.grant()?).map(drop)
    }

    /// Applies at most about `limit` changes to the index of a view. Creates the index if there is none for its design.
    ///
    /// The caller repeats the call until the progress is complete; others may write in between.
    pub fn view_refresh(&self, view: NoteId, limit: usize) -> Result<Progress> {
        let grant = self.grant()?;
        let database = self.database();
        // A build may replace the index that was found.
        loop {
            let found = database.view_with_index(view, &grant)?;
            if let Some(progress) = found.catch_up(database, limit)? {
                return Ok(progress);
            }
        }
    }
}

impl Database {
    /// Returns a view with its index, or with a new one without rows.
    pub(crate) fn view_with_index(&self, note: NoteId, grant: &Grant) -> Result<Arc<OpenView>> {
        let lock = self.lock();
        self.check_not_dropped()?;
        let reader: &dyn Read = self.store.as_ref();
        let list = self.views.list(lock.design_modseq, || load_views(reader, self))?;
        let info = list.iter().find(|info| info.note == note);
        let not_found = || Error::not_found(format!("view {note} of {}", self.path()));
        let info = info.ok_or_else(not_found)?;
        if info.restricted {
            let header = database_reader::load_header(reader, self, note)?.ok_or_else(not_found)?;
            if database_reader::is_hidden(reader, self, grant, &header)? {
                return Err(not_found());
            }
        }
        if let Some(view) = self.views.current(info, self) {
            return Ok(view);
        }
        let stored = IndexRecord::load(reader, self.number, note)?;
        if let Some(record) = stored.as_ref().filter(|record| record.follows(info, self)) {
            let view = self.views.view(self, info, record)?;
            self.views.set_current(&view);
            return Ok(view);
        }
        let mut batch = Batch::new();
        if let Some(old) = stored {
            old.remove(self.number, note, &mut batch);
        }
        let index = index_record::next_index(reader, self.number, &mut batch)?;
        let record = IndexRecord::new(index, &info.view, info.external_input_values(self), self.clock.now());
        record.put(self.number, note, &mut batch);
        self.store.commit(&batch)?;
        let view = self.views.view(self, info, &record)?;
        self.views.set_current(&view);
        drop(lock);
        Ok(view)
    }
}

/// Reads the design notes of all views, without checking access. Views of an unknown format are skipped.
fn load_views(reader: &dyn Read, database: &Database) -> Result<Vec<Arc<ViewInfo>>> {
    let mut found = Vec::new();
    for note in database_reader::load_design_notes(reader, database, NoteClass::VIEW)? {
        let header = database_reader::load_header(reader, database, note)?;
        let summary = database_reader::load_summary(reader, database, note)?;
        let (Some(header), Some(summary)) = (header, summary) else {
            return Err(database_reader::damaged_note(database, note, "summary"));
        };
        found.extend(view_info(&header, &summary.items).map(Arc::new));
    }
    Ok(found)
}

fn view_info(header: &Header, items: &[Item]) -> Option<ViewInfo> {
    let view = ViewNote::of_items(items)?;
    let restricted = header.flags.has(NoteFlags::HAS_READERS);
    let asks = view.external_inputs(ViewId(header.note.0));
    Some(ViewInfo {
        note: header.note,
        unid: header.unid,
        sequence: header.sequence,
        restricted,
        view,
        external_inputs: asks,
    })
}
