//! The messages of a mail file in memory: what lists, states and `/changes` need.
//!
//! A table belongs to one mail file and to the names of one caller, because Readers items hide messages from some. It
//! is built by one scan of the headers, and then follows the change log: before each use it is brought to the change
//! that the snapshot shows. So it always agrees with the snapshot that was taken while its lock was held.
//!
//! A message is in the table if it is in a mailbox that the caller may see, and is not marked `\Deleted` there (RFC
//! 8621 §4.1.1). A message that leaves the table is remembered as a [`Departure`]; older ones are found in the change
//! log by their stubs. The number of tables is bounded; one that was dropped is built again, which only costs time.

mod counts;
mod live_list;
mod row_order;
mod sort_texts;

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use base::lru_map::LruMap;
use base::sync::Mutex;
use base::{DbNumber, Modseq, NoteId, Timestamp, Unid, ViewId};
use notes::change_log::NoteChange;
use notes::thread_index::thread_id_of;
use notes::{Access, Identity, Keyword, Marks, NoteFlags, NoteHeader, level};

pub use self::counts::Counts;
use self::live_list::LiveLists;
pub use self::live_list::{Arrangement, CollapsedTo, ListDefinition, RowFilter, keep_first_of_threads};
pub use self::row_order::{RowComparator, RowOrder, SortKey, SortProperty, SortValue};
pub use self::sort_texts::read_sort_texts;
use self::sort_texts::{SortTexts, UNREAD};
use crate::error::Result;
use crate::limits::{CACHED_QUERIES_MAX, DEPARTURES_MAX, TABLES_MAX};
use crate::mailbox::{MailFile, MailSnapshot};
use crate::mailbox_list::MailboxList;
use crate::mime::MimeSource;
use crate::object_id::is_object_id;
use crate::threads::computed_thread_id;

/// The tables of all mail files.
pub struct MessageTables {
    tables: Mutex<LruMap<TableKey, Arc<Mutex<MessageTable>>>>,
}

/// The mail file, and the names of the caller.
type TableKey = (DbNumber, [u8; 16]);

impl Default for MessageTables {
    fn default() -> Self {
        Self::new(TABLES_MAX)
    }
}

impl MessageTables {
    /// Creates an empty set of at most `tables_max` tables.
    #[must_use]
    pub fn new(tables_max: usize) -> Self {
        Self { tables: Mutex::new(LruMap::new(tables_max)) }
    }

    /// Returns the table of a mail file and the names of a caller.
    #[must_use]
    pub fn table(&self, database: DbNumber, names: [u8; 16]) -> Arc<Mutex<MessageTable>> {
        Arc::clone(self.tables.lock().entry(&(database, names)))
    }
}

/// A message.
#[derive(Debug)]
pub struct MessageRow {
    /// The note.
    pub note: NoteId,
    /// The universal identifier of the note.
    pub unid: Unid,
    /// The identifier of the Email, which is EMAILID in IMAP.
    pub email_id: Arc<str>,
    /// The identifier of the Thread, which is THREADID in IMAP.
    pub thread: Arc<str>,
    /// The mailboxes with the message.
    pub places: Vec<ViewId>,
    /// The system flags.
    pub marks: Marks,
    /// The keywords.
    pub keywords: Vec<Keyword>,
    /// The last change of the message.
    pub modseq: Modseq,
    /// The change with which the message came into the table.
    pub created: Modseq,
    /// The time of receipt.
    pub received: Timestamp,
    /// The size in bytes.
    pub size: u64,
    /// The texts by which the message is sorted, once they were needed.
    sort_texts: OnceLock<Box<SortTexts>>,
}

impl MessageRow {
    /// Returns `true` if the message counts as unread (RFC 8621 §2).
    #[must_use]
    pub fn is_unread(&self) -> bool {
        !self.marks.intersects(Marks::SEEN.union(Marks::DRAFT))
    }

    /// Returns the texts by which the message is sorted. They are empty until they have been read.
    fn sort_texts(&self) -> &SortTexts {
        self.sort_texts.get().map_or(&UNREAD, |texts| texts)
    }

    fn keep_sort_texts(&self, texts: SortTexts) {
        // They never change, so it does not matter who has read them.
        let _ = self.sort_texts.set(Box::new(texts));
    }

    /// Returns the identifier of the blob with the message.
    #[must_use]
    pub fn blob_id(&self) -> String {
        blob_id_of(&self.email_id)
    }
}

/// Returns the identifier of the blob with a message. It has no hyphen, which begins the number of a part.
#[must_use]
pub fn blob_id_of(email_id: &str) -> String {
    format!("B{}", email_id.get(1..).unwrap_or_default().replace('-', "_"))
}

/// A message that left the table.
#[derive(Clone, Debug)]
pub struct Departure {
    /// The change with which it left.
    pub modseq: Modseq,
    /// The change with which it had come.
    pub created: Modseq,
    /// The identifier of the Email.
    pub email_id: Arc<str>,
    /// The identifier of the Thread.
    pub thread: Arc<str>,
}

/// The messages of a mail file.
#[derive(Debug, Default)]
pub struct MessageTable {
    /// The change up to which the table was read. 0 if it was not built yet.
    modseq: Modseq,
    /// The change that the table was built from.
    built: Modseq,
    design_modseq: Modseq,
    email_modseq: Modseq,
    thread_modseq: Modseq,
    rows: HashMap<NoteId, MessageRow>,
    notes_by_email: HashMap<Arc<str>, NoteId>,
    threads: HashMap<Arc<str>, Vec<NoteId>>,
    members: HashMap<ViewId, HashSet<NoteId>>,
    /// The last change of the counts of a mailbox.
    count_modseqs: HashMap<ViewId, Modseq>,
    departures: VecDeque<Departure>,
    /// Departures after this change are all in `departures`.
    departures_since: Modseq,
    mailboxes: Arc<MailboxList>,
    /// The counts of mailboxes, once they were needed.
    counts: Option<Arc<HashMap<ViewId, Counts>>>,
    lists: LiveLists,
    queries: VecDeque<CachedQuery>,
}

/// The result of a query at a state of the messages.
#[derive(Debug)]
struct CachedQuery {
    key: String,
    email_modseq: Modseq,
    notes: Arc<Vec<NoteId>>,
}

impl MessageTable {
    /// Brings the table to the state of a snapshot of a mail file.
    pub fn update(&mut self, snapshot: &MailSnapshot<'_>, file: &MailFile) -> Result<()> {
        let modseq = snapshot.modseq();
        if modseq == self.modseq {
            return Ok(());
        }
        let is_known = self.modseq != Modseq(0) && self.modseq < modseq && snapshot.is_complete_since(self.modseq);
        if !is_known || self.must_rebuild(snapshot)? {
            return self.build(snapshot);
        }
        let changes = self.changes(modseq, file)?;
        for (modseq, note) in changes {
            self.apply(snapshot, modseq, note)?;
        }
        self.modseq = modseq;
        Ok(())
    }

    /// Returns the notes that changed since the table was read, with the change, but at most the current one.
    ///
    /// The log is read as the server, because a change may have hidden a message from the caller. It may show later
    /// changes than the snapshot of the caller; what they have changed is found again by the next update.
    fn changes(&self, current: Modseq, file: &MailFile) -> Result<Vec<(Modseq, NoteId)>> {
        let server = Arc::new(Identity::local_server(""));
        let access: Access<level::Reader> = file.database().authorize(&server)?;
        let mut changes = Vec::new();
        access.read()?.changes(self.modseq, &mut |entry| {
            if !matches!(entry.change, NoteChange::Left { .. }) {
                changes.push((entry.modseq.min(current), entry.note));
            }
            Ok(())
        })?;
        Ok(changes)
    }

    /// Updates the list of mailboxes. Returns `true` if mailboxes with messages have become visible or hidden, which
    /// the change log does not tell.
    fn must_rebuild(&mut self, snapshot: &MailSnapshot<'_>) -> Result<bool> {
        if snapshot.design_modseq()? == self.design_modseq {
            return Ok(false);
        }
        let list = MailboxList::load(snapshot)?;
        let before = Arc::clone(&self.mailboxes);
        for gone in before.all().filter(|old| list.by_view(old.view).is_none()) {
            let header = snapshot.reading().header(NoteId(gone.view.0))?;
            if header.is_none_or(|header| !header.is_stub()) {
                return Ok(true);
            }
        }
        let is_new = |view: ViewId| before.by_view(view).is_none();
        if list.all().any(|mailbox| is_new(mailbox.view) && mailbox.created_after(self.modseq) != Some(true)) {
            return Ok(true);
        }
        self.mailboxes = Arc::new(list.following(&before, snapshot.modseq()));
        // The trash may be another one.
        self.counts = None;
        self.design_modseq = snapshot.design_modseq()?;
        Ok(false)
    }

    fn build(&mut self, snapshot: &MailSnapshot<'_>) -> Result<()> {
        let modseq = snapshot.modseq();
        let list = MailboxList::load(snapshot)?.starting(modseq);
        *self = Self {
            built: modseq,
            design_modseq: snapshot.design_modseq()?,
            email_modseq: modseq,
            thread_modseq: modseq,
            departures_since: modseq,
            mailboxes: Arc::new(list),
            ..Self::default()
        };
        let mut headers = Vec::new();
        snapshot.reading().for_each_note(NoteId(0), &mut |header| {
            if self.is_message(&header) {
                headers.push(header);
            }
            Ok(true)
        })?;
        let mut threads: HashMap<NoteId, String> = HashMap::with_capacity(headers.len());
        snapshot.threads(headers.iter().map(|header| header.note), &mut |header, thread| {
            threads.insert(header.note, thread.to_owned());
            ControlFlow::Continue(())
        })?;
        for header in headers {
            let created = header.saved_modseq;
            let thread = threads.remove(&header.note);
            let row = self.load(snapshot, header, created, thread)?;
            self.insert(row);
        }
        self.modseq = modseq;
        Ok(())
    }

    fn is_message(&self, header: &NoteHeader) -> bool {
        !header.is_stub() && header.class.is_document() && self.visible_places(header).next().is_some()
    }

    /// Returns the mailboxes with a message that the caller may see, without those where it is marked `\\Deleted`.
    fn visible_places(&self, header: &NoteHeader) -> impl Iterator<Item = ViewId> {
        let folders = header.folders.iter().map(|place| place.folder);
        let is_marked = |folder: ViewId| header.marks_in(folder).contains(Marks::DELETED);
        folders.filter(move |folder| self.mailboxes.by_view(*folder).is_some() && !is_marked(*folder))
    }

    /// Reads the row of a message. `thread` is the identifier of the thread, if it is known.
    fn load(
        &self,
        snapshot: &MailSnapshot<'_>,
        header: NoteHeader,
        created: Modseq,
        thread: Option<String>,
    ) -> Result<MessageRow> {
        let mut email_id = format!("M{}", header.unid);
        let mut size = header.size;
        if header.flags.contains(NoteFlags::COMPOSED)
            && let Some(message) = snapshot.message(header.note)?
        {
            email_id = message.email_id()?;
            size = message.structure().length();
        }
        let email_id: Arc<str> = email_id.into();
        let thread = match thread {
            Some(thread) => thread,
            None => {
                let summary = snapshot.reading().summary(header.note)?;
                let items = summary.as_ref().map_or(&[][..], |summary| &summary.items);
                thread_id_of(items).map_or_else(|| computed_thread_id(header.unid), str::to_owned)
            }
        };
        let thread = if is_object_id(&thread) { thread } else { computed_thread_id(header.unid) };
        let known = self.threads.get_key_value(thread.as_str());
        let thread = known.map_or_else(|| thread.as_str().into(), |(known, _)| Arc::clone(known));
        let places = self.visible_places(&header).collect();
        Ok(MessageRow {
            note: header.note,
            unid: header.unid,
            email_id,
            thread,
            places,
            marks: header.marks,
            keywords: header.keywords,
            modseq: header.modseq,
            created,
            received: header.received,
            size,
            sort_texts: OnceLock::new(),
        })
    }

    /// Applies a change of a note.
    fn apply(&mut self, snapshot: &MailSnapshot<'_>, modseq: Modseq, note: NoteId) -> Result<()> {
        let header = snapshot.reading().header(note)?.filter(|header| self.is_message(header));
        let mut new = match header {
            Some(header) => {
                let is_new = header.saved_modseq > self.modseq;
                let created = if is_new { header.saved_modseq } else { modseq };
                Some(self.load(snapshot, header, created, None)?)
            }
            None => None,
        };
        let mut threads: Vec<Arc<str>> = self.rows.get(&note).map(|row| Arc::clone(&row.thread)).into_iter().collect();
        if let Some(row) = &new
            && !threads.contains(&row.thread)
        {
            threads.push(Arc::clone(&row.thread));
        }
        let is_same = |row: &MessageRow| self.rows.get(&note).is_some_and(|old| old.modseq == row.modseq);
        if threads.is_empty() || new.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        // The texts are those of the message before the change, unless it is another one now.
        if let Some((new, old)) = new.as_mut().zip(self.rows.get(&note))
            && new.email_id == old.email_id
        {
            new.sort_texts.clone_from(&old.sort_texts);
        }
        // What can fail comes before the first change of the table.
        if self.lists.need_texts() {
            let others = threads.iter().flat_map(|thread| self.thread(thread)).filter(|row| row.note != note);
            read_sort_texts(others.chain(&new), snapshot)?;
        }
        // A change that the log shows out of order is told with the last one before it.
        let modseq = new.as_ref().map_or(modseq, |row| row.modseq).max(self.email_modseq);
        self.email_modseq = modseq;
        let mut affected = self.mailboxes_of_threads(&threads);
        let mut lists = std::mem::take(&mut self.lists);
        lists.remove(self, note, &threads);
        self.change_counts(&threads, -1);
        self.replace(note, new, modseq);
        self.change_counts(&threads, 1);
        lists.insert(self, note, &threads);
        self.lists = lists;
        affected.extend(self.mailboxes_of_threads(&threads));
        for view in affected {
            self.count_modseqs.insert(view, modseq);
        }
        Ok(())
    }

    /// Replaces the row of a note.
    fn replace(&mut self, note: NoteId, new: Option<MessageRow>, modseq: Modseq) {
        let old = self.remove(note);
        let Some(mut row) = new else {
            self.thread_modseq = modseq;
            self.depart(old, modseq);
            return;
        };
        match old {
            Some(old) if old.email_id == row.email_id => {
                row.created = old.created;
                if old.thread != row.thread {
                    self.thread_modseq = modseq;
                }
            }
            other => {
                self.thread_modseq = modseq;
                self.depart(other, modseq);
            }
        }
        self.insert(row);
    }

    fn mailboxes_of_threads(&self, threads: &[Arc<str>]) -> HashSet<ViewId> {
        let rows = threads.iter().flat_map(|thread| self.thread(thread));
        rows.flat_map(|row| row.places.iter().copied()).collect()
    }

    fn depart(&mut self, row: Option<MessageRow>, modseq: Modseq) {
        let Some(row) = row else { return };
        self.departures.push_back(Departure {
            modseq,
            created: row.created,
            email_id: row.email_id,
            thread: row.thread,
        });
        while self.departures.len() > DEPARTURES_MAX {
            let oldest = self.departures.pop_front();
            self.departures_since = oldest.map_or(self.departures_since, |oldest| oldest.modseq);
        }
    }

    fn insert(&mut self, row: MessageRow) {
        let key = (row.received, row.note);
        let thread = self.threads.entry(Arc::clone(&row.thread)).or_default();
        let rows = &self.rows;
        let place = thread.partition_point(|note| rows.get(note).is_some_and(|other| (other.received, *note) < key));
        thread.insert(place, row.note);
        self.notes_by_email.insert(Arc::clone(&row.email_id), row.note);
        for place in &row.places {
            self.members.entry(*place).or_default().insert(row.note);
        }
        self.rows.insert(row.note, row);
    }

    fn remove(&mut self, note: NoteId) -> Option<MessageRow> {
        let row = self.rows.remove(&note)?;
        if let Some(thread) = self.threads.get_mut(&row.thread) {
            thread.retain(|other| *other != note);
            if thread.is_empty() {
                self.threads.remove(&row.thread);
            }
        }
        self.notes_by_email.remove(&row.email_id);
        for place in &row.places {
            if let Some(members) = self.members.get_mut(place) {
                members.remove(&note);
            }
        }
        Some(row)
    }

    /// Returns the change from which the table was built. Departures before it are not in it.
    #[must_use]
    pub fn departures_since(&self) -> Modseq {
        self.departures_since
    }

    /// Returns the change from which the table was built.
    #[must_use]
    pub fn built(&self) -> Modseq {
        self.built
    }

    /// Returns the last change of a message: the state of Email.
    #[must_use]
    pub fn email_modseq(&self) -> Modseq {
        self.email_modseq
    }

    /// Returns the last change of the messages of a thread: the state of Thread.
    #[must_use]
    pub fn thread_modseq(&self) -> Modseq {
        self.thread_modseq
    }

    /// Returns the last change of a mailbox or of its counts: the state of Mailbox.
    #[must_use]
    pub fn mailbox_modseq(&self) -> Modseq {
        self.email_modseq.max(self.mailboxes.modseq())
    }

    /// Returns the last change of the counts of a mailbox.
    #[must_use]
    pub fn count_modseq(&self, view: ViewId) -> Modseq {
        self.count_modseqs.get(&view).copied().unwrap_or(self.built)
    }

    /// Returns the mailboxes.
    #[must_use]
    pub fn mailboxes(&self) -> &Arc<MailboxList> {
        &self.mailboxes
    }

    /// Returns all messages.
    pub fn rows(&self) -> impl Iterator<Item = &MessageRow> {
        self.rows.values()
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns `true` if there are no messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the message of a note.
    #[must_use]
    pub fn row(&self, note: NoteId) -> Option<&MessageRow> {
        self.rows.get(&note)
    }

    /// Returns the message with an identifier.
    #[must_use]
    pub fn email(&self, id: &str) -> Option<&MessageRow> {
        self.rows.get(self.notes_by_email.get(id)?)
    }

    /// Returns the messages of a thread, the oldest first.
    pub fn thread(&self, id: &str) -> impl Iterator<Item = &MessageRow> {
        let notes = self.threads.get(id).map_or(&[][..], Vec::as_slice);
        notes.iter().filter_map(|note| self.rows.get(note))
    }

    /// Returns the identifiers of all threads.
    pub fn thread_ids(&self) -> impl Iterator<Item = &str> {
        self.threads.keys().map(|id| &**id)
    }

    /// Returns `true` if there is a thread.
    #[must_use]
    pub fn has_thread(&self, id: &str) -> bool {
        self.threads.contains_key(id)
    }

    /// Returns the messages of a mailbox, in no order.
    pub fn members(&self, view: ViewId) -> impl Iterator<Item = &MessageRow> {
        self.members.get(&view).into_iter().flatten().filter_map(|note| self.rows.get(note))
    }

    /// Returns the messages that left after a change, in order.
    pub fn departures(&self, since: Modseq) -> impl Iterator<Item = &Departure> {
        let first = self.departures.partition_point(|departure| departure.modseq <= since);
        self.departures.range(first..)
    }

    /// Returns the result of a query, if it is cached and no message has changed since.
    #[must_use]
    pub fn cached_query(&self, key: &str) -> Option<Arc<Vec<NoteId>>> {
        let found = self.queries.iter().find(|query| query.key == key && query.email_modseq == self.email_modseq)?;
        Some(Arc::clone(&found.notes))
    }

    /// Caches the result of a query.
    pub fn cache_query(&mut self, key: String, notes: Arc<Vec<NoteId>>) {
        self.queries.retain(|query| query.key != key && query.email_modseq == self.email_modseq);
        self.queries.push_back(CachedQuery { key, email_modseq: self.email_modseq, notes });
        if self.queries.len() > CACHED_QUERIES_MAX {
            self.queries.pop_front();
        }
    }
}
