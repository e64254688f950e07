//! Opening views: the list of views, the search by name, the update of indexes, and the rows that a reader sees.
//!
//! [`Access::view_refresh`] creates the index for a design and applies changes to it. [`DatabaseSnapshot::view`]
//! returns the view as of a snapshot, and [`DatabaseSnapshot::view_rows`] its rows. A view is not found if the reader
//! may not see its design note.

use std::sync::{Arc, OnceLock};

use base::{Modseq, NoteId, Pacer, Unid, Unpaced};
use store::{Batch, Table, TableReader};

use crate::access::{Access, AtLeast, level};
use crate::database::Database;
use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Error, Result};
use crate::grant::{Grant, ReadersId};
use crate::item::{Item, ItemRef};
use crate::keys;
use crate::limits::{STEPS_PER_LOOKUP, VIEW_BUILD_NOTES_MIN};
use crate::note::{NoteClass, NoteFlags, NoteHeader, summary_items};
use crate::records;
use crate::view::hidden_rows::HiddenRows;
use crate::view::hidden_rows::cache::HiddenKey;
use crate::view::index_record::{self, IndexRecord};
use crate::view::index_update::IndexUpdateProgress;
use crate::view::note::{ViewInfo, ViewNote};
use crate::view::reader::ViewReader;
use crate::view::view_cache::OpenView;

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

impl OpenView {
    /// Applies at most about `limit` changes to the index. Returns `None` if another index has replaced it.
    pub(crate) fn catch_up(&self, database: &Database, limit: usize) -> Result<Option<IndexUpdateProgress>> {
        self.index.apply_changes(database, &self.formulas, limit, Some(&self.hidden))
    }
}

impl DatabaseSnapshot<'_> {
    /// Returns the views that the reader may see, in the order of their creation.
    pub fn views(&self) -> Result<Vec<Arc<ViewInfo>>> {
        let list = self.all_views()?;
        let mut visible = Vec::with_capacity(list.len());
        for info in list.iter() {
            if self.may_see_view(info)? {
                visible.push(Arc::clone(info));
            }
        }
        Ok(visible)
    }

    /// Returns the view with a design note, or `None` if there is none that the reader may see.
    pub fn view_info(&self, note: NoteId) -> Result<Option<Arc<ViewInfo>>> {
        let list = self.all_views()?;
        let Some(info) = list.iter().find(|info| info.note == note) else { return Ok(None) };
        Ok(self.may_see_view(info)?.then(|| Arc::clone(info)))
    }

    /// Finds a view by its name, an alias, or the UNID of its design note.
    pub fn view_find(&self, name: &str) -> Result<Arc<ViewInfo>> {
        let unid = name.parse::<Unid>().ok();
        for info in self.all_views()?.iter() {
            if (info.view.is_named(name) || Some(info.unid) == unid) && self.may_see_view(info)? {
                return Ok(Arc::clone(info));
            }
        }
        Err(Error::not_found(format!("view {name:?} of {}", self.database().path())))
    }

    /// Opens a view as of this snapshot. Fails with "not found" unless [`Access::view_refresh`] has created its index.
    pub fn view(&self, note: NoteId) -> Result<Arc<OpenView>> {
        let info = self.view_info(note)?;
        let info = info.ok_or_else(|| Error::not_found(format!("view {note} of {}", self.database().path())))?;
        let record = IndexRecord::load(&self.snapshot, self.database().number(), note)?;
        let record = record.filter(|record| record.follows(&info, &self.database().record()));
        let record = record.ok_or_else(|| Error::not_found(format!("index of view {:?}", info.view.title)))?;
        self.database().views.view(&self.database().record(), &info, &record)
    }

    /// Returns the way in which the index of a view is to be brought up to date.
    pub fn view_update_method(&self, note: NoteId) -> Result<UpdateMethod> {
        let notes = self.counters().notes;
        let now = self.database().clock.now();
        let needs_build = match self.view(note) {
            Ok(view) => view.needs_build(&self.snapshot, notes, now)?,
            // The view has no index yet, or the reader may not see the view. In the second case the update fails too.
            Err(Error::NotFound { .. }) => notes > VIEW_BUILD_NOTES_MIN,
            Err(error) => return Err(error),
        };
        Ok(match needs_build {
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
        let rows = ViewReader::open(&self.snapshot, &view.index, collation)?.paced(self.pacer());
        if self.grant().is_server_itself() || !rows.has_restricted()? {
            return Ok(rows);
        }
        let seen = HiddenKey { collation, applied: rows.applied()?, names: self.grant().names_digest() };
        let may_read = &mut |note, readers: &ReadersId| self.may_read(view, note, readers, seen.names);
        // A state within a transaction has the modseq of an earlier one, whose hidden rows may be cached.
        if rows.is_within_transaction()? {
            let hidden = Arc::new(HiddenRows::find(&rows.order(), may_read)?);
            return Ok(rows.with_hidden_rows(hidden));
        }
        if let Some(hidden) = view.hidden.get(&seen) {
            return Ok(rows.with_hidden_rows(hidden));
        }
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
            view.hidden.insert(seen, Arc::clone(&hidden));
        }
        Ok(rows.with_hidden_rows(hidden))
    }

    /// Returns `true` if the reader may read a note with these readers in its row.
    fn may_read(&self, view: &OpenView, note: NoteId, readers: &ReadersId, names: [u8; 16]) -> Result<bool> {
        if let Some(known) = view.hidden.cached_may_read(names, readers) {
            return Ok(known);
        }
        // The note may have changed since the index followed it. Then the result is not cached for other notes with the
        // readers of the row.
        let Some(bytes) = records::load_summary_bytes(&self.snapshot, self.database(), note)? else {
            return Ok(false);
        };
        let items = summary_items(&bytes).map_err(|_| records::damaged_note(self.database(), note, "summary"))?;
        let owned: Vec<Item> = items.iter().map(ItemRef::to_item).collect();
        // The row of a note whose readers changed may show contents for other readers. It is hidden until the index
        // follows.
        let may_read = self.grant().may_read(&owned);
        let is_as_before = ReadersId::compute(&items) == *readers;
        if is_as_before {
            view.hidden.cache_may_read(names, *readers, may_read);
        }
        Ok(may_read && is_as_before)
    }

    fn all_views(&self) -> Result<Arc<[Arc<ViewInfo>]>> {
        self.database().view_list(&self.snapshot, self.counters().design_modseq, self.pacer())
    }

    fn may_see_view(&self, info: &ViewInfo) -> Result<bool> {
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
    pub fn view_refresh(&self, view: NoteId, limit: usize) -> Result<IndexUpdateProgress> {
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
    /// Returns all views as of a modseq of the design, without checking access.
    pub(crate) fn view_list(
        &self,
        reader: &dyn TableReader,
        design_modseq: Modseq,
        pacer: &dyn Pacer,
    ) -> Result<Arc<[Arc<ViewInfo>]>> {
        self.views.list(design_modseq, || load_views(reader, self, pacer))
    }

    /// Returns a view with its index, or with a new one without rows.
    ///
    /// Fails if a personal view has too many sort orders, because its design may be from an older program.
    pub(crate) fn view_with_index(&self, note: NoteId, grant: &Grant) -> Result<Arc<OpenView>> {
        let mut lock = self.lock();
        self.check_not_dropped()?;
        let reader: &dyn TableReader = self.store.as_ref();
        let list = self.view_list(reader, lock.design_modseq, &Unpaced)?;
        let info = list.iter().find(|info| info.note == note);
        let not_found = || Error::not_found(format!("view {note} of {}", self.path()));
        let info = info.ok_or_else(not_found)?;
        if info.restricted {
            let header = records::load_header(reader, self, note)?.ok_or_else(not_found)?;
            if records::is_hidden(reader, self, grant, &header)? {
                return Err(not_found());
            }
        }
        info.view.check_sort_orders()?;
        if let Some(view) = self.views.current(info, &self.record()) {
            return Ok(view);
        }
        let stored = IndexRecord::load(reader, self.number, note)?;
        if let Some(record) = stored.as_ref().filter(|record| record.follows(info, &self.record())) {
            let view = self.views.view(&self.record(), info, record)?;
            self.views.set_current(&view);
            return Ok(view);
        }
        let mut batch = Batch::new();
        let mut counters = *lock;
        if let Some(old) = stored {
            old.account.charge(&mut counters, old.counted_bytes(reader, self.number)?, 0);
            old.remove(self.number, note, &mut batch);
            batch.put(Table::Meta, &keys::counters(self.number), &counters.encode());
        }
        let index = index_record::next_index(reader, self.number, &mut batch)?;
        let record = IndexRecord::new(index, info, &self.record(), self.clock.now());
        record.put(self.number, note, &mut batch);
        self.store.commit(&batch)?;
        *lock = counters;
        let view = self.views.view(&self.record(), info, &record)?;
        self.views.set_current(&view);
        drop(lock);
        Ok(view)
    }
}

/// Reads the design notes of all views, without checking access. Views of an unknown format are skipped.
fn load_views(reader: &dyn TableReader, database: &Database, pacer: &dyn Pacer) -> Result<Vec<Arc<ViewInfo>>> {
    let mut found = Vec::new();
    for note in records::load_design_notes(reader, database, NoteClass::VIEW)? {
        pacer.spend(2 * STEPS_PER_LOOKUP)?;
        let header = records::load_header(reader, database, note)?;
        let summary = records::load_summary(reader, database, note)?;
        let (Some(header), Some(summary)) = (header, summary) else {
            return Err(records::damaged_note(database, note, "summary"));
        };
        found.extend(view_info(&header, &summary.items).map(Arc::new));
    }
    Ok(found)
}

fn view_info(header: &NoteHeader, items: &[Item]) -> Option<ViewInfo> {
    let view = ViewNote::of_items(items)?;
    let restricted = header.flags.contains(NoteFlags::HAS_READERS);
    Some(ViewInfo {
        note: header.note,
        unid: header.unid,
        revision: header.revision(),
        restricted,
        view,
        external_inputs: OnceLock::new(),
    })
}
