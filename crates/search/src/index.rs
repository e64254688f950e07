//! The full-text index: its location, its updates and its guarantees (`docs/full-text.md`).
//!
//! One index serves all databases of a server. [`FullTextIndex::update`] applies the changes of a database since its
//! last update. [`FullTextIndex::commit`] makes all applied changes durable and visible at once. The applied modseq of
//! each database is stored in the index itself, as a document of the same commit. After a crash, the index therefore
//! continues from the state that it really holds.
//!
//! Invariants:
//!
//! - Changes that the index records as applied were durable in the store before the commit.
//! - A note is in the index at most once.
//! - The documents of a commit and its applied modseqs become visible together.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::sync::{Mutex, MutexGuard, RwLock};
use base::{DbNumber, Modseq, NoteId};
use notes::{Access, DatabaseSnapshot, Databases, Identity, NoteHeader, level};
use store::Ticket;
use tantivy::directory::MmapDirectory;
use tantivy::merge_policy::LogMergePolicy;
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, Searcher, TantivyDocument};

use crate::content_reader::{ContentReader, OpenNote};
use crate::error::{Error, Result};
use crate::extract::IsolatedReader;
use crate::limits::{COMMIT_BYTES, COMMIT_DOCUMENTS_MAX, MERGE_DOCUMENTS_MIN};
use crate::schema::{self, Schema};
use crate::tokenizers::{FieldTokenizer, WordListTokenizer};
use crate::{content_reader, index_documents};

/// Options of the index.
pub struct FullTextOptions {
    /// Readers of note contents, tried in order.
    pub contents: Vec<Box<dyn ContentReader>>,
    /// The reader of files that are not read in this process. If it is `None`, these files are skipped.
    pub isolated_reader: Option<Arc<dyn IsolatedReader>>,
    /// Number of threads that split and sort words.
    pub threads: usize,
    /// Number of bytes that each thread may use before it writes a segment of the index.
    pub thread_bytes: usize,
    /// Number of bytes of text after which an update commits automatically. The text waits in memory for the threads.
    pub waiting_bytes: usize,
}

impl Default for FullTextOptions {
    fn default() -> Self {
        Self {
            contents: Vec::new(),
            isolated_reader: None,
            threads: 1,
            thread_bytes: 64 << 20,
            waiting_bytes: COMMIT_BYTES,
        }
    }
}

/// The full-text index of a server.
pub struct FullTextIndex {
    databases: Arc<Databases>,
    /// The identity of the server itself, for reading changes that a reader may not see.
    server_identity: Arc<Identity>,
    schema: Schema,
    index: Index,
    reader: IndexReader,
    options: FullTextOptions,
    /// The state of the uncommitted changes. The lock is held by the thread that changes the index.
    writing: Mutex<PendingChanges>,
    /// The state that queries see.
    published: RwLock<Arc<CommittedState>>,
    was_renewed: bool,
}

/// A committed state of the index.
pub(crate) struct CommittedState {
    pub(crate) searcher: Searcher,
    applied: HashMap<DbNumber, Modseq>,
}

impl CommittedState {
    pub(crate) fn applied(&self, database: DbNumber) -> Option<Modseq> {
        self.applied.get(&database).copied()
    }
}

/// The changes since the last commit.
#[derive(Default)]
struct PendingChanges {
    /// The index writer. It is created when first needed, because it starts threads.
    writer: Option<IndexWriter>,
    /// The modseqs up to which the uncommitted changes apply each database. `None` for a dropped database.
    applied: HashMap<DbNumber, Option<Modseq>>,
    /// The notes with uncommitted changes, which the last commit holds in another state.
    touched: HashSet<(DbNumber, NoteId)>,
    /// Number of bytes of uncommitted text.
    bytes: usize,
    /// The store writes that must be durable before the commit.
    ticket: Ticket,
    /// The databases that are compared with the index as a whole, with the progress of the comparison.
    comparing: HashMap<DbNumber, ComparisonProgress>,
    /// The last note of each database that the index may hold. Notes after it need not be deleted before they are
    /// added.
    last_notes: HashMap<DbNumber, NoteId>,
}

/// The progress of the comparison of a whole database with the index.
#[derive(Clone, Copy)]
struct ComparisonProgress {
    /// The last note compared.
    after: NoteId,
    /// The database's modseq when the comparison began.
    since: Modseq,
}

/// The result of an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpdateResult {
    /// The modseq up to which changes are applied.
    pub applied: Modseq,
    /// `true` if no changes are left to apply.
    pub complete: bool,
    /// Number of changes examined.
    pub changes: usize,
    /// Number of documents indexed.
    pub indexed: usize,
    /// Number of documents of which some part could not be read.
    pub damaged: usize,
}

/// The size of the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IndexStatus {
    /// Number of documents of all databases.
    pub documents: u64,
    /// Number of segments of the index.
    pub segments: usize,
    /// Number of bytes on disk.
    pub bytes: u64,
}

/// The name of the folder that holds the index. Its number is the version of the format, which includes the rules for
/// splitting words and the choice of texts for substring search.
const FOLDER: &str = "index-5";

impl FullTextIndex {
    /// Opens the index in a folder, or creates an empty one. An index that cannot be read or has another format is
    /// recreated.
    pub fn open(databases: Arc<Databases>, folder: &Path, options: FullTextOptions) -> Result<Self> {
        let schema = Schema::new();
        let (index, was_renewed) = open_index(folder, &schema)?;
        register_tokenizers(&index);
        let reader: IndexReader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let searcher = reader.searcher();
        let applied = index_documents::applied(&schema, &searcher)?;
        let published = RwLock::new(Arc::new(CommittedState { searcher, applied }));
        let itself = Arc::new(Identity::local_server(""));
        Ok(Self {
            databases,
            server_identity: itself,
            schema,
            index,
            reader,
            options,
            writing: Mutex::default(),
            published,
            was_renewed,
        })
    }

    /// Returns `true` if [`FullTextIndex::open`] found an unusable index and recreated it.
    #[must_use]
    pub fn was_recreated(&self) -> bool {
        self.was_renewed
    }

    /// Applies about `limit` changes of a database at most. The caller repeats the call until all changes are applied.
    /// `stop` is called between notes.
    ///
    /// The changes become visible after [`FullTextIndex::commit`], which runs automatically after many documents.
    ///
    /// # Errors
    ///
    /// After an error, all uncommitted changes are discarded. No data is lost, because they are applied again later.
    pub fn update(
        &self,
        access: &Access<level::Reader>,
        limit: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<UpdateResult> {
        let mut writing = self.lock_writing();
        let done = self.update_with(&mut writing, access, (limit, stop));
        let done = match done {
            Ok(progress) if self.should_commit(&writing) => self.commit_with(&mut writing).map(|()| progress),
            other => other,
        };
        if done.is_err() {
            *writing = PendingChanges::default();
        }
        done
    }

    /// Commits all applied changes, which makes them durable and visible.
    pub fn commit(&self) -> Result<()> {
        let mut writing = self.lock_writing();
        let done = self.commit_with(&mut writing);
        if done.is_err() {
            *writing = PendingChanges::default();
        }
        done
    }

    /// Removes a database from the index. The removal is durable on return.
    pub fn remove_database(&self, database: DbNumber) -> Result<()> {
        let mut writing = self.lock_writing();
        self.delete_database(&mut writing, database)?;
        let done = self.commit_with(&mut writing);
        if done.is_err() {
            *writing = PendingChanges::default();
        }
        done
    }

    /// Returns the databases in the index, including those that no longer exist.
    #[must_use]
    pub fn databases(&self) -> Vec<DbNumber> {
        let mut known: Vec<DbNumber> = self.published().applied.keys().copied().collect();
        known.sort_unstable();
        known
    }

    /// Returns the modseq up to which changes of a database are in the index, or `None` if it was never indexed.
    #[must_use]
    pub fn applied(&self, database: DbNumber) -> Option<Modseq> {
        self.published().applied(database)
    }

    /// Returns the number of documents of a database in the index.
    pub fn documents(&self, database: DbNumber) -> Result<u64> {
        index_documents::count(&self.published().searcher, &self.schema.database_term(database))
    }

    /// Returns the size of the index.
    pub fn status(&self) -> Result<IndexStatus> {
        let published = self.published();
        let documents = published.searcher.num_docs().saturating_sub(published.applied.len() as u64);
        let bytes = published.searcher.space_usage()?.total().get_bytes();
        Ok(IndexStatus { documents, segments: published.searcher.segment_readers().len(), bytes })
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn server_identity(&self) -> &Arc<Identity> {
        &self.server_identity
    }

    pub(crate) fn published(&self) -> Arc<CommittedState> {
        Arc::clone(&self.published.read())
    }

    fn lock_writing(&self) -> MutexGuard<'_, PendingChanges> {
        self.writing.lock()
    }

    fn update_with(
        &self,
        writing: &mut PendingChanges,
        access: &Access<level::Reader>,
        step: (usize, &dyn Fn() -> bool),
    ) -> Result<UpdateResult> {
        let reading = access.read()?;
        let database = access.database();
        if !reading.grant().is_server_itself() {
            let who = reading.grant().display_name().to_owned();
            return Err(notes::Error::ServerOnly { database: database.path(), who }.into());
        }
        let number = database.number();
        let applied = match writing.applied.get(&number).copied().unwrap_or_else(|| self.applied(number)) {
            Some(applied) => applied,
            None => {
                self.delete_database(writing, number)?;
                Modseq(0)
            }
        };
        let is_lost = applied > Modseq(0) && (reading.modseq() < applied || !reading.is_complete_since(applied));
        if is_lost && !writing.comparing.contains_key(&number) {
            // The comparison works on the committed index.
            self.commit_with(writing)?;
            writing.comparing.insert(number, ComparisonProgress { after: NoteId(0), since: reading.modseq() });
        }
        self.load_last_note(writing, number)?;
        let comparing = writing.comparing.get(&number).copied();
        let committed = self.published();
        let progress = UpdateResult::at(applied);
        let mut update = Update { search: self, reading: &reading, committed: &committed, writing, progress };
        match comparing {
            Some(comparing) => update.compare(comparing, step)?,
            None => update.follow(applied, step)?,
        }
        let progress = update.progress;
        writing.applied.insert(number, Some(progress.applied));
        writing.ticket = writing.ticket.max(reading.ticket());
        Ok(progress)
    }

    fn should_commit(&self, writing: &PendingChanges) -> bool {
        writing.touched.len() >= COMMIT_DOCUMENTS_MAX || writing.bytes >= self.options.waiting_bytes
    }

    fn load_last_note(&self, writing: &mut PendingChanges, database: DbNumber) -> Result<()> {
        if let Entry::Vacant(vacant) = writing.last_notes.entry(database) {
            let known = index_documents::notes(&self.published().searcher, &self.schema.database_term(database))?;
            vacant.insert(known.into_iter().max().unwrap_or(NoteId(0)));
        }
        Ok(())
    }

    fn commit_with(&self, writing: &mut PendingChanges) -> Result<()> {
        if writing.applied.is_empty() {
            return Ok(());
        }
        // If the store loses its last writes and the index has them, later changes with the same modseqs would wrongly
        // count as applied.
        self.databases.store().durable(writing.ticket).wait()?;
        let changed = std::mem::take(&mut writing.applied);
        let writer = self.writer(writing)?;
        for (database, applied) in &changed {
            writer.delete_term(self.schema.state_term(*database));
            if let Some(applied) = applied {
                writer.add_document(index_documents::progress_document(&self.schema, *database, *applied))?;
            }
        }
        writer.commit()?;
        writing.touched.clear();
        writing.bytes = 0;
        writing.ticket = Ticket::NONE;
        self.publish(changed)
    }

    fn publish(&self, changed: HashMap<DbNumber, Option<Modseq>>) -> Result<()> {
        self.reader.reload()?;
        let mut applied = self.published().applied.clone();
        for (database, modseq) in changed {
            match modseq {
                Some(modseq) => applied.insert(database, modseq),
                None => applied.remove(&database),
            };
        }
        let published = CommittedState { searcher: self.reader.searcher(), applied };
        *self.published.write() = Arc::new(published);
        Ok(())
    }

    fn delete_database(&self, writing: &mut PendingChanges, database: DbNumber) -> Result<()> {
        self.writer(writing)?.delete_term(self.schema.database_term(database));
        writing.applied.insert(database, None);
        writing.comparing.remove(&database);
        writing.last_notes.insert(database, NoteId(0));
        Ok(())
    }

    fn writer<'w>(&self, writing: &'w mut PendingChanges) -> Result<&'w mut IndexWriter> {
        let writer = match writing.writer.take() {
            Some(writer) => writer,
            None => {
                let threads = self.options.threads.max(1);
                let bytes = self.options.thread_bytes.saturating_mul(threads);
                let writer = self.index.writer_with_num_threads(threads, bytes)?;
                writer.set_merge_policy(Box::new(merge_policy()));
                writer
            }
        };
        Ok(writing.writer.insert(writer))
    }
}

/// Returns the merge policy. Segments of a few changes each are merged with each other. The default policy would merge
/// them each time with segments of thousands of documents.
fn merge_policy() -> LogMergePolicy {
    let mut policy = LogMergePolicy::default();
    policy.set_min_layer_size(MERGE_DOCUMENTS_MIN);
    policy
}

impl UpdateResult {
    fn at(applied: Modseq) -> Self {
        Self { applied, complete: false, changes: 0, indexed: 0, damaged: 0 }
    }
}

/// The state of a note in relation to the index.
enum NoteState {
    /// The note does not exist or is not indexed.
    Absent,
    /// The index holds the current version of the note.
    UpToDate,
    /// The document to add to the index.
    Document(Box<TantivyDocument>),
}

/// An update of one database.
struct Update<'u> {
    search: &'u FullTextIndex,
    reading: &'u DatabaseSnapshot<'u>,
    committed: &'u CommittedState,
    writing: &'u mut PendingChanges,
    progress: UpdateResult,
}

impl Update<'_> {
    /// Applies changes in their order.
    fn follow(&mut self, since: Modseq, (limit, stop): (usize, &dyn Fn() -> bool)) -> Result<()> {
        let changes = self.reading.changes_by_transaction(since, limit)?;
        let mut last_note = None;
        for change in &changes {
            let begins = change.modseq != self.progress.applied;
            if begins && self.progress.applied != since && (stop() || self.search.should_commit(self.writing)) {
                return Ok(());
            }
            if last_note != Some(change.note) {
                self.apply(change.note)?;
            }
            last_note = Some(change.note);
            self.progress.applied = change.modseq;
            self.progress.changes += 1;
        }
        if changes.len() < limit {
            self.progress.applied = self.reading.modseq();
            self.progress.complete = true;
        }
        Ok(())
    }

    /// Compares the whole database with the index. This is necessary if the order of changes no longer has all changes
    /// since the last update.
    fn compare(&mut self, comparing: ComparisonProgress, (limit, stop): (usize, &dyn Fn() -> bool)) -> Result<()> {
        let number = self.reading.database().number();
        let mut found = Vec::new();
        let mut is_cut = false;
        self.reading.for_each_note(comparing.after, &mut |header| {
            is_cut = found.len() >= limit.max(1) || (!found.is_empty() && stop());
            if !is_cut {
                found.push(header.note);
            }
            Ok(!is_cut)
        })?;
        let mut last = found.last().copied().filter(|_| is_cut).unwrap_or(NoteId(u32::MAX));
        let live: HashSet<NoteId> = found.iter().copied().collect();
        for note in index_documents::notes(&self.committed.searcher, &self.search.schema.database_term(number))? {
            if note > comparing.after && note <= last && !live.contains(&note) {
                self.apply(note)?;
            }
        }
        for (place, note) in found.iter().enumerate() {
            self.apply(*note)?;
            self.progress.changes += 1;
            if place + 1 < found.len() && self.search.should_commit(self.writing) {
                last = *note;
                is_cut = true;
                break;
            }
        }
        if is_cut {
            self.writing.comparing.insert(number, ComparisonProgress { after: last, ..comparing });
        } else {
            self.writing.comparing.remove(&number);
            self.progress.applied = comparing.since;
            self.progress.complete = comparing.since == self.reading.modseq();
        }
        Ok(())
    }

    /// Updates the index for one note.
    fn apply(&mut self, note: NoteId) -> Result<()> {
        let number = self.reading.database().number();
        let finding = match self.document(note) {
            Err(error) if error.is_damage() => {
                self.progress.damaged += 1;
                NoteState::Absent
            }
            other => other?,
        };
        let document = match finding {
            NoteState::UpToDate => return Ok(()),
            NoteState::Absent => None,
            NoteState::Document(document) => Some(*document),
        };
        let may_have = self.may_contain(note);
        let writer = self.search.writer(self.writing)?;
        if may_have {
            writer.delete_term(self.search.schema.key_term(number, note));
        }
        if let Some(document) = document {
            writer.add_document(document)?;
            self.progress.indexed += 1;
            let last = self.writing.last_notes.entry(number).or_insert(note);
            *last = note.max(*last);
        }
        self.writing.touched.insert((number, note));
        Ok(())
    }

    /// Returns `true` if the index may hold a note, committed or not.
    fn may_contain(&self, note: NoteId) -> bool {
        let number = self.reading.database().number();
        self.writing.last_notes.get(&number).is_none_or(|last| note <= *last)
    }

    /// Creates the document of a note for the index.
    fn document(&mut self, note: NoteId) -> Result<NoteState> {
        let Some(header) = self.reading.header(note)?.filter(|header| !header.is_stub() && header.class.is_document())
        else {
            return Ok(NoteState::Absent);
        };
        if self.is_up_to_date(&header)? {
            return Ok(NoteState::UpToDate);
        }
        let Some(summary) = self.reading.summary(note)? else { return Ok(NoteState::Absent) };
        let isolated_reader = self.search.options.isolated_reader.as_deref();
        let opened = OpenNote { reading: self.reading, header: &header, summary: &summary, isolated_reader };
        let read = content_reader::read(&opened, &self.search.options.contents)?;
        self.progress.damaged += usize::from(read.damaged);
        self.writing.bytes += read.text.size_bytes();
        Ok(NoteState::Document(Box::new(index_documents::document(
            &self.search.schema,
            self.reading.database().number(),
            &header,
            read.text,
        ))))
    }

    /// Returns `true` if the index holds the last saved version of a note. Marks and folders are not indexed.
    fn is_up_to_date(&self, header: &NoteHeader) -> Result<bool> {
        let number = self.reading.database().number();
        if !self.may_contain(header.note) || self.writing.touched.contains(&(number, header.note)) {
            return Ok(false);
        }
        let saved = index_documents::saved_version(
            &self.committed.searcher,
            &self.search.schema.key_term(number, header.note),
        )?;
        Ok(saved == Some((u64::from(header.sequence), header.sequence_time)))
    }
}

fn open_index(folder: &Path, schema: &Schema) -> Result<(Index, bool)> {
    let own = folder.join(FOLDER);
    let had_other = remove_others(folder)?;
    std::fs::create_dir_all(&own)?;
    match open_at(&own, schema) {
        Ok(index) => Ok((index, had_other)),
        Err(_) => {
            std::fs::remove_dir_all(&own)?;
            std::fs::create_dir_all(&own)?;
            Ok((open_at(&own, schema)?, true))
        }
    }
}

fn open_at(folder: &Path, schema: &Schema) -> Result<Index> {
    let directory = MmapDirectory::open(folder).map_err(|error| Error::Index(error.to_string()))?;
    let index = Index::open_or_create(directory, schema.fields.clone())?;
    // Opening every segment detects missing ones.
    register_tokenizers(&index);
    let reader: IndexReader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
    index_documents::applied(schema, &reader.searcher())?;
    remove_unfinished(folder, &index)?;
    Ok(index)
}

fn register_tokenizers(index: &Index) {
    index.tokenizers().register(schema::TOKENIZER, FieldTokenizer::default());
    index.tokenizers().register(schema::LIST_TOKENIZER, WordListTokenizer::default());
}

/// Removes the files of an unfinished commit. Their numbers are assigned again, and an existing file would make every
/// later commit fail.
fn remove_unfinished(folder: &Path, index: &Index) -> Result<()> {
    let used: HashSet<PathBuf> = index.load_metas()?.list_segment_files();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(name) = path.file_name().map(PathBuf::from) else { continue };
        let is_of_index = name == Path::new("meta.json") || name.to_string_lossy().starts_with('.');
        if !is_of_index && !used.contains(&name) {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Removes indexes of other formats.
fn remove_others(folder: &Path) -> Result<bool> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(false) };
    let mut found = false;
    for entry in entries {
        let path: PathBuf = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("index-") && name != FOLDER {
            std::fs::remove_dir_all(&path)?;
            found = true;
        }
    }
    Ok(found)
}
