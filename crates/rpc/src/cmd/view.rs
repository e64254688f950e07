//! Views and folders as collections: listing them, updating an index, reading entries, and finding entries by key.
//!
//! A folder is read like a view. If it has no columns, its entries show marks and the items that a call names.

use std::collections::HashSet;
use std::sync::Arc;

use base::ViewId;
use notes::limits::STEPS_PER_RECORD;
use notes::view::cell::{Cell, CellValue};
use notes::view::entries::{EntrySource, ViewOrFolder};
use notes::view::navigate::{Navigator, RowExpansion};
use notes::view::open::UpdateMethod;
use notes::view::read_entries::{EntriesRequest, EntryContents, EntryRow, ReadMask, StartPosition};
use notes::view::reader::{Tumbler, ViewRowContents};
use notes::view::sort_key::SortDirection;
use notes::view::view_format::{Column, Refresh as When, ViewDesign};
use notes::{AclLevel, DatabaseSnapshot, FolderEntry, Marks, level};
use prost::Message;
use proto::v1;
use proto::v1::value::Kind;
use tokio::sync::watch;

use super::note::{ENVELOPE_BYTES, reply_too_large};
use super::{CallContext, check_count};
use crate::backend::IndexBuildProgress;
use crate::convert;
use crate::error::{Error, Result};
use crate::limits::{
    ENTRIES_PER_REPLY_DEFAULT, ENTRIES_PER_REPLY_MAX, FIND_KEYS_MAX, FOLDER_ITEMS_MAX, MESSAGE_BYTES_MAX,
    REFRESH_STEP_CHANGES, STEP_BYTES, STEPS_PER_NOTE,
};
use crate::service::CallOutcome;

/// Lists views and folders.
pub(crate) fn list(context: &CallContext, request: &v1::ListViewsRequest) -> Result<CallOutcome<v1::ListViewsReply>> {
    use v1::list_views_request::Kind as Wanted;
    let access = context.access::<level::Reader>(request.database.clone())?;
    let reading = context.read(&access)?;
    let is_wanted = |found: &ViewOrFolder| match request.kind() {
        Wanted::All => true,
        Wanted::Views => !found.is_folder(),
        Wanted::Folders => found.is_folder(),
    };
    let mut views = Vec::new();
    for found in reading.views_and_folders()?.iter().filter(|found| is_wanted(found)) {
        context.spend(STEPS_PER_RECORD + found.column_count() as u64)?;
        views.push(describe(found));
    }
    Ok(CallOutcome::when_durable(v1::ListViewsReply { views }, reading.ticket()))
}

/// A request to open a collection: its view, and whether its index must be updated.
#[derive(Clone)]
pub(crate) struct CollectionRequest {
    pub database: Option<v1::DatabaseKey>,
    pub view: Option<v1::ViewKey>,
    /// `true` if the index is updated even though its refresh option does not require it now.
    pub force: bool,
}

/// The next step that brings an index closer to the documents.
pub(crate) enum RefreshStep {
    /// No further step: the index is up to date, or stays as it is.
    Done,
    /// Another step, because changes remain.
    More,
    /// Waiting for a build, with its progress if this call requested it.
    Build(Option<watch::Receiver<IndexBuildProgress>>),
}

impl CollectionRequest {
    /// Applies some changes to the index. If the index must be built, requests a build, unless `was_requested` is
    /// `true`: then a requested build has already ended.
    pub(crate) fn refresh(&self, context: &CallContext, was_requested: bool) -> Result<CallOutcome<RefreshStep>> {
        let access = context.access::<level::Reader>(self.database.clone())?;
        let database = access.database().number();
        let indexer = &context.services.indexer;
        let (note, when, way) = {
            let reading = access.read()?;
            let found = find(&reading, self.view.as_ref())?;
            let Some(info) = found.info() else { return Ok(CallOutcome::immediate(RefreshStep::Done)) };
            let when = info.view.design.refresh;
            let rests = match when {
                When::Manual => true,
                When::Hours(hours) => indexer.is_recent(database, info.note, hours),
                When::Automatic | When::AfterFirstUse => false,
            };
            if rests && !self.force && reading.view(info.note).is_ok() {
                return Ok(CallOutcome::immediate(RefreshStep::Done));
            }
            (info.note, when, reading.view_update_method(info.note)?)
        };
        let build = match way {
            UpdateMethod::Wait if was_requested => Some(RefreshStep::Build(None)),
            UpdateMethod::Build | UpdateMethod::Wait if !was_requested => {
                let progress = indexer.request_build(database, note);
                progress.map(|progress| RefreshStep::Build(Some(progress)))
            }
            _ => None,
        };
        if let Some(build) = build {
            access.view_begin(note)?;
            return Ok(CallOutcome::immediate(build));
        }
        let is_complete = access.view_refresh(note, REFRESH_STEP_CHANGES)?.complete;
        if is_complete && matches!(when, When::Hours(_)) {
            indexer.record_refresh(database, note);
        }
        Ok(CallOutcome::immediate(if is_complete { RefreshStep::Done } else { RefreshStep::More }))
    }
}

/// A collection whose index was brought up to date as far as possible.
pub(crate) struct OpenedCollection {
    pub request: CollectionRequest,
    /// `true` if changes remain.
    pub incomplete: bool,
    /// The progress of the build of its index.
    pub build: Option<IndexBuildProgress>,
}

impl OpenedCollection {
    /// Describes the collection with its size.
    pub(crate) fn describe(context: &CallContext, opened: &Self) -> Result<CallOutcome<v1::Collection>> {
        let CollectionRequest { database, view, .. } = &opened.request;
        let access = context.access::<level::Reader>(database.clone())?;
        let reading = context.read(&access)?;
        let found = find(&reading, view.as_ref())?;
        let entries = found.open(&reading)?;
        let source = entries.source(&reading, 0)?;
        let build = opened.build.map(|IndexBuildProgress { done, documents }| v1::BuildProgress { done, documents });
        let collection = v1::Collection {
            view: Some(describe(&found)),
            documents: source.document_count()?,
            entries: source.count()?,
            modseq: source.modseq()?.0,
            incomplete: opened.incomplete,
            unread: source.unseen_count(),
            build,
            totals: totals_by_column(source.grand_totals()?, found.column_count()),
            // The number includes documents that Readers items hide, so only a Manager gets it.
            limited_documents: match reading.grant().level() {
                AclLevel::Manager => source.limited_documents()?,
                _ => 0,
            },
        };
        drop(source);
        Ok(CallOutcome::when_durable(collection, reading.ticket()))
    }
}

/// Reads entries.
pub(crate) fn read(
    context: &CallContext,
    request: &v1::ReadEntriesRequest,
) -> Result<CallOutcome<v1::ReadEntriesReply>> {
    check_count(request.items.len(), "items of a call", FOLDER_ITEMS_MAX)?;
    let access = context.access::<level::Reader>(request.database.clone())?;
    let reading = context.read(&access)?;
    let found = find(&reading, request.view.as_ref())?;
    let opened = found.open(&reading)?;
    let source = opened.source(&reading, collation(request.collation))?;
    let entries = source.read(&to_view_request(&source, request)?)?;
    let mut reply = v1::ReadEntriesReply {
        entries: Vec::with_capacity(entries.rows.len()),
        more: entries.continue_at.is_some(),
        next: entries.continue_at.unwrap_or_default(),
        skipped: u32::try_from(entries.skipped).unwrap_or(u32::MAX),
        modseq: source.modseq()?.0,
    };
    let mut writer = EntryWriter { reading: &reading, request, columns: found.column_count(), bytes: 0 };
    for row in entries.rows {
        if writer.bytes > STEP_BYTES {
            reply.more = true;
            reply.next = row.key;
            break;
        }
        context.spend(if request.items.is_empty() { STEPS_PER_RECORD } else { STEPS_PER_NOTE })?;
        reply.entries.push(writer.entry(row)?);
    }
    drop(source);
    Ok(CallOutcome::when_durable(reply, reading.ticket()))
}

/// Finds entries by the values of their sorted columns.
pub(crate) fn find_by_key(
    context: &CallContext,
    request: &v1::FindByKeyRequest,
) -> Result<CallOutcome<v1::FindByKeyReply>> {
    check_count(request.keys.len().max(request.to_keys.len()), "values of a key", FIND_KEYS_MAX)?;
    if request.partial && !request.to_keys.is_empty() {
        return Err(Error::invalid("partial cannot be combined with to_keys"));
    }
    let access = context.access::<level::Reader>(request.database.clone())?;
    let reading = context.read(&access)?;
    let opened = find(&reading, request.view.as_ref())?.open(&reading)?;
    let source = opened.source(&reading, collation(request.collation))?;
    let rows = source.sorted_rows()?;
    let keys = key_values_from_proto(&request.keys)?;
    let to_keys = key_values_from_proto(&request.to_keys)?;
    let found = match to_keys.as_slice() {
        [] => rows.find_by_key(&keys, request.partial)?,
        to_keys => rows.find_range(&keys, to_keys)?,
    };
    let reply = match found {
        None => v1::FindByKeyReply::default(),
        Some(found) => v1::FindByKeyReply {
            position: Some(tumbler_to_proto(&rows.tumbler(&found.first)?)),
            matches: found.rows,
            key: found.first,
        },
    };
    drop(source);
    Ok(CallOutcome::when_durable(reply, reading.ticket()))
}

/// Finds a view or folder by number or name.
pub(crate) fn find(reading: &DatabaseSnapshot<'_>, key: Option<&v1::ViewKey>) -> Result<ViewOrFolder> {
    match key.and_then(|key| key.key.as_ref()) {
        None => Err(Error::invalid("no view specified")),
        Some(v1::view_key::Key::ViewId(number)) => Ok(reading.view_or_folder(ViewId(*number))?),
        Some(v1::view_key::Key::Name(name)) => Ok(reading.view_or_folder_find(name)?),
    }
}

fn collation(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Describes a view or folder for the client.
pub(crate) fn describe(found: &ViewOrFolder) -> v1::View {
    let info = found.info();
    v1::View {
        view_id: found.id().0,
        unid: info.map(|info| info.unid.0.to_vec()).unwrap_or_default(),
        name: found.title().to_owned(),
        aliases: info.map(|info| info.view.aliases.clone()).unwrap_or_default(),
        folder: found.is_folder(),
        flags: found.flags(),
        columns: info.map(|info| describe_columns(&info.view.design)).unwrap_or_default(),
    }
}

fn describe_columns(design: &ViewDesign) -> Vec<v1::Column> {
    let collations = design.collations();
    let clicked = |column: usize, order| {
        let place = collations.iter().skip(1).position(|collation| collation.first() == Some(&(column, order)));
        place.map_or(0, |place| u32::try_from(place.saturating_add(1)).unwrap_or(0))
    };
    let sort = |column: usize| {
        let place = collations.first().and_then(|own| own.iter().position(|(sorted, _)| *sorted == column));
        place.map_or(0, |place| u32::try_from(place.saturating_add(1)).unwrap_or(0))
    };
    let column = |(index, column): (usize, &Column)| v1::Column {
        title: column.title.clone(),
        item: column.item.clone(),
        sort: sort(index),
        descending: column.sort == Some(SortDirection::Descending),
        categorized: column.categorized,
        hidden: column.hidden,
        ascending_collation: clicked(index, SortDirection::Ascending),
        descending_collation: clicked(index, SortDirection::Descending),
    };
    design.columns.iter().enumerate().map(column).collect()
}

/// Converts a client's request to a request of the view reader.
fn to_view_request(source: &EntrySource<'_>, request: &v1::ReadEntriesRequest) -> Result<EntriesRequest> {
    let mask = request.mask.unwrap_or_default();
    let goes_to_the_end = request.skip_count == u32::MAX && request.skip_navigator() == v1::Navigator::Next;
    let start = match (&request.start, request.start_row) {
        _ if goes_to_the_end => StartPosition::End,
        _ if !request.start_key.is_empty() => StartPosition::Key(request.start_key.clone()),
        (_, row) if row > 0 => StartPosition::Position(row - 1),
        (Some(tumbler), _) if !tumbler.levels.is_empty() => StartPosition::Tumbler(tumbler_from_proto(tumbler)?),
        _ => StartPosition::Beginning,
    };
    let skip_count = if goes_to_the_end { 0 } else { u64::from(request.skip_count) };
    let limit = match usize::try_from(request.count).unwrap_or(usize::MAX) {
        0 => ENTRIES_PER_REPLY_DEFAULT,
        limit => limit.min(ENTRIES_PER_REPLY_MAX),
    };
    Ok(EntriesRequest {
        start,
        skip: (navigator(request.skip_navigator()), skip_count),
        navigator: navigator(request.navigator()),
        limit,
        expansion: Arc::new(expansion(source, request.expansion.as_ref())?),
        mask: ReadMask { tumbler: mask.position, position: mask.row, counts: mask.counts, unread: mask.unread },
    })
}

fn expansion(source: &EntrySource<'_>, requested: Option<&v1::Expansion>) -> Result<RowExpansion> {
    let Some(requested) = requested else { return Ok(RowExpansion::default()) };
    check_count(requested.exceptions.len(), "expanded and collapsed rows", notes::limits::VIEW_EXPANSIONS_MAX)?;
    let mut keys = HashSet::with_capacity(requested.exceptions.len());
    for tumbler in &requested.exceptions {
        keys.extend(source.key_at(&tumbler_from_proto(tumbler)?)?);
    }
    Ok(if requested.collapsed { RowExpansion::none_but(keys)? } else { RowExpansion::all_but(keys)? })
}

fn navigator(navigator: v1::Navigator) -> Navigator {
    use v1::Navigator as N;
    match navigator {
        N::Current => Navigator::Current,
        N::Next => Navigator::Next,
        N::Prev => Navigator::Previous,
        N::Parent => Navigator::Parent,
        N::Child => Navigator::Child,
        N::NextPeer => Navigator::NextPeer,
        N::PrevPeer => Navigator::PreviousPeer,
        N::FirstPeer => Navigator::FirstPeer,
        N::LastPeer => Navigator::LastPeer,
        N::NextMain => Navigator::NextMain,
        N::PrevMain => Navigator::PreviousMain,
        N::NextUnread => Navigator::NextUnread,
        N::PrevUnread => Navigator::PreviousUnread,
        N::NextExpanded => Navigator::NextExpanded,
        N::PrevExpanded => Navigator::PreviousExpanded,
        N::NextCategory => Navigator::NextCategory,
        N::PrevCategory => Navigator::PreviousCategory,
    }
}

fn tumbler_from_proto(tumbler: &v1::Tumbler) -> Result<Tumbler> {
    check_count(tumbler.levels.len(), "levels of a position", notes::limits::POSITION_LEVELS_MAX)?;
    if tumbler.levels.contains(&0) {
        return Err(Error::invalid("positions are counted from 1"));
    }
    Ok(Tumbler(tumbler.levels.iter().map(|number| u64::from(*number)).collect()))
}

fn tumbler_to_proto(tumbler: &Tumbler) -> v1::Tumbler {
    v1::Tumbler { levels: tumbler.0.iter().map(|number| u32::try_from(*number).unwrap_or(u32::MAX)).collect() }
}

/// Converts the rows of one reply, and counts the bytes of the items that a call names.
struct EntryWriter<'r> {
    reading: &'r DatabaseSnapshot<'r>,
    request: &'r v1::ReadEntriesRequest,
    columns: usize,
    bytes: usize,
}

impl EntryWriter<'_> {
    fn entry(&mut self, row: EntryRow) -> Result<v1::Entry> {
        let mask = self.request.mask.unwrap_or_default();
        let counts = row.counts;
        let mut entry_out = v1::Entry {
            key: row.key,
            level: u32::try_from(row.depth).unwrap_or(u32::MAX),
            position: row.tumbler.as_ref().map(tumbler_to_proto),
            row: row.position.map_or(0, |position| position.saturating_add(1)),
            unread: row.unread.unwrap_or(false),
            siblings: counts.map_or(0, |counts| counts.siblings),
            children: counts.map_or(0, |counts| counts.children),
            descendants: counts.map_or(0, |counts| counts.descendants),
            ..v1::Entry::default()
        };
        match row.content {
            EntryContents::Row(ViewRowContents::Category { tally, .. }) => {
                entry_out.category = true;
                entry_out.name = tally.name().to_owned();
                if mask.values {
                    entry_out.values = vec![v1::Value::default(); self.columns];
                    fill(&mut entry_out.values, row.totals);
                }
            }
            EntryContents::Row(ViewRowContents::Document { note, row }) => {
                entry_out.note_id = note.0;
                entry_out.unid = if mask.unid { row.unid.0.to_vec() } else { Vec::new() };
                entry_out.response = row.response_level > 0;
                entry_out.conflict = row.conflict;
                if mask.values {
                    entry_out.values = row.cells.iter().map(cell).collect();
                }
            }
            EntryContents::FolderEntry(entry) => self.folder_entry(&entry, &mut entry_out)?,
        }
        Ok(entry_out)
    }

    fn folder_entry(&mut self, entry: &FolderEntry, entry_out: &mut v1::Entry) -> Result<()> {
        let mask = self.request.mask.unwrap_or_default();
        let reading = self.reading;
        entry_out.note_id = entry.note.0;
        entry_out.marks = mask.marks.then(|| marks(reading, entry));
        if mask.unid {
            entry_out.unid = reading.header(entry.note)?.map(|header| header.unid.0.to_vec()).unwrap_or_default();
        }
        if mask.values && !self.request.items.is_empty() {
            let summary = reading.summary(entry.note)?.unwrap_or_default();
            let value = |name: &String| {
                let item = summary.items.iter().find(|item| item.is_named(name));
                item.map_or_else(v1::Value::default, |item| convert::value_to_proto(&item.value))
            };
            entry_out.values = self.request.items.iter().map(value).collect();
        }
        let bytes = entry_out.encoded_len();
        if bytes > MESSAGE_BYTES_MAX - STEP_BYTES - ENVELOPE_BYTES {
            return Err(reply_too_large());
        }
        self.bytes += bytes;
        Ok(())
    }
}

fn marks(reading: &DatabaseSnapshot<'_>, entry: &FolderEntry) -> v1::MailMarks {
    let has = |mark| entry.marks.contains(mark);
    let keywords = reading.database().keywords();
    v1::MailMarks {
        uid: entry.uid.0,
        seen: has(Marks::SEEN),
        answered: has(Marks::ANSWERED),
        flagged: has(Marks::FLAGGED),
        deleted: has(Marks::DELETED),
        draft: has(Marks::DRAFT),
        keywords: entry.keywords.iter().filter_map(|keyword| keywords.name(*keyword)).map(str::to_owned).collect(),
        size_bytes: entry.size,
        received_us: entry.received.0,
    }
}

/// Converts totals to one value per column. Returns an empty list if there are no totals.
fn totals_by_column(totals: Vec<(usize, f64)>, columns: usize) -> Vec<v1::Value> {
    let mut values = if totals.is_empty() { Vec::new() } else { vec![v1::Value::default(); columns] };
    fill(&mut values, totals);
    values
}

fn fill(values: &mut [v1::Value], totals: Vec<(usize, f64)>) {
    for (column, total) in totals {
        values[column] = v1::Value { kind: Some(Kind::Number(total)) };
    }
}

fn cell(cell: &Cell) -> v1::Value {
    let kind = match cell {
        Cell::None => None,
        Cell::Texts(texts) => Some(match texts.as_slice() {
            [text] => Kind::Text(text.clone()),
            _ => Kind::TextList(v1::TextList { values: texts.clone() }),
        }),
        Cell::Numbers(numbers) => Some(match numbers.as_slice() {
            [number] => Kind::Number(*number),
            _ => Kind::NumberList(v1::NumberList { values: numbers.clone() }),
        }),
        Cell::Times(times) => Some(match times.as_slice() {
            [time] => Kind::TimeUs(time.0),
            _ => Kind::TimeList(v1::TimeList { values_us: times.iter().map(|time| time.0).collect() }),
        }),
        Cell::Error(text) => Some(Kind::Text(text.clone())),
    };
    v1::Value { kind }
}

fn key_values_from_proto(values: &[v1::Value]) -> Result<Vec<CellValue<'_>>> {
    values.iter().map(key_value_from_proto).collect()
}

fn key_value_from_proto(value: &v1::Value) -> Result<CellValue<'_>> {
    match &value.kind {
        None => Ok(CellValue::None),
        Some(Kind::Text(text)) => Ok(CellValue::Text(text)),
        Some(Kind::Number(number)) => Ok(CellValue::Number(*number)),
        Some(Kind::TimeUs(time)) => Ok(CellValue::Time(base::Timestamp(*time))),
        Some(_) => Err(Error::invalid("a key value must be a single text, number or time")),
    }
}
