//! The test fixture: a server's databases in memory, and their index in a folder that is removed with the fixture.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::sim::{SeededRandom, SimClock};
use base::{Name, NoteId};
use notes::{
    Access, Acl, AclEntry, AclLevel, Database, DatabaseKind, Databases, Identity, Item, ItemValue, NewDatabase,
    NewNote, Writer, level,
};
use search::{FullTextIndex, HitOrder, PageRequest, Query, QueryResult};
use store::memory::MemoryEngine;
use store::{Store, StoreOptions, SyncMode};

pub struct Fixture {
    pub databases: Arc<Databases>,
    pub search: FullTextIndex,
    pub clock: Arc<SimClock>,
    pub folder: tempfile::TempDir,
}

impl Fixture {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the index");
        let clock = Arc::new(SimClock::new());
        let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
        let store =
            Arc::new(Store::with_engine(Arc::new(MemoryEngine::new(11)), &options).expect("a store in memory opens"));
        let databases = Databases::open(store, clock.clone(), Arc::new(SeededRandom::new(1)));
        let search = open(&databases, folder.path());
        Self { databases, search, clock, folder }
    }

    /// Reopens the index as after a restart. Uncommitted changes are lost.
    pub fn reopen(&mut self) {
        let elsewhere = tempfile::tempdir().expect("a folder");
        // Dropping the old index releases the lock of its writer.
        self.search = open(&self.databases, elsewhere.path());
        self.search = open(&self.databases, self.folder.path());
    }

    /// Creates a database that Ann manages and in which the other users have the given levels.
    pub fn database(&self, path: &str, others: &[(&str, AclLevel)]) -> Arc<Database> {
        let mut acl = Acl::private(&Name::new("Ann/Acme"));
        acl.entries.extend(others.iter().map(|(name, level)| AclEntry::new(*name, *level)));
        let new = NewDatabase {
            owner: Name::new("Ann/Acme"),
            ..NewDatabase::new(path, "Documents", DatabaseKind::Standard, acl)
        };
        self.databases.database_create(&new).expect("the database is made")
    }

    /// Runs one transaction as the server.
    pub fn write<T>(
        &self,
        database: &Arc<Database>,
        change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>,
    ) -> T {
        let access: Access<level::Depositor> = database.authorize(&server()).expect("the server has access");
        let accesses = [&access];
        let mut transaction = self.databases.transaction(&accesses).expect("a transaction begins");
        let outcome = change(&mut transaction.writer(0)).expect("the change is made");
        transaction.commit().expect("the change is committed");
        self.clock.advance(Duration::from_secs(1));
        outcome
    }

    /// Creates a document.
    pub fn create(&self, database: &Arc<Database>, items: Vec<Item>) -> NoteId {
        self.write(database, |writer| writer.note_create(NewNote::document(items)))
    }

    /// Creates a document with a subject and a body.
    pub fn document(&self, database: &Arc<Database>, subject: &str, body: &str) -> NoteId {
        self.create(
            database,
            vec![Item::text("Subject", subject), Item::body("Body", ItemValue::RichText(body.into()))],
        )
    }

    /// Changes the items of a document.
    pub fn update_items(&self, database: &Arc<Database>, note: NoteId, items: &[Item]) {
        let sequence = header(database, note).sequence;
        self.write(database, |writer| writer.note_update(note, sequence, items, &[]));
    }

    pub fn delete(&self, database: &Arc<Database>, note: NoteId) {
        self.write(database, |writer| writer.note_delete(note));
    }

    /// Updates the index, with `limit` changes at a time. Returns the number of documents indexed.
    pub fn update_by(&self, database: &Arc<Database>, limit: usize) -> usize {
        let access = database.authorize(&server()).expect("the server has access");
        let mut indexed = 0;
        loop {
            let progress = self.search.update(&access, limit, &|| false).expect("the index is updated");
            assert_eq!(progress.damaged, 0, "nothing is damaged");
            indexed += progress.indexed;
            if progress.complete {
                return indexed;
            }
        }
    }

    /// Updates the index and commits it.
    pub fn index(&self, database: &Arc<Database>) -> usize {
        let indexed = self.update_by(database, 1_000);
        self.search.commit().expect("the index is committed");
        indexed
    }

    pub fn find(&self, database: &Arc<Database>, who: &str, query: &str) -> QueryResult {
        self.find_page(database, who, query, PageRequest { sort: HitOrder::Oldest, limit: 1_000, offset: 0 })
    }

    pub fn find_page(&self, database: &Arc<Database>, who: &str, query: &str, page: PageRequest) -> QueryResult {
        let access: Access<level::Reader> = database.authorize(&identity(who)).expect("a reader");
        let query = Query::parse(query).expect("a query");
        self.search.query(&access, &query, page, &|| false).expect("an answer")
    }

    /// Returns the matching notes that Ann sees, oldest first.
    pub fn hits(&self, database: &Arc<Database>, query: &str) -> Vec<u32> {
        let found = self.find(database, "Ann/Acme", query);
        assert_eq!(found.total, found.hits.len() as u64, "the total of {query}");
        found.hits.iter().map(|hit| hit.note.0).collect()
    }
}

pub fn open(databases: &Arc<Databases>, folder: &Path) -> FullTextIndex {
    let options = search::FullTextOptions { thread_bytes: 16 << 20, ..search::FullTextOptions::default() };
    FullTextIndex::open(Arc::clone(databases), folder, options).expect("the index opens")
}

pub fn header(database: &Arc<Database>, note: NoteId) -> notes::NoteHeader {
    let access: Access<level::Reader> = database.authorize(&server()).expect("the server has access");
    let reading = access.read().expect("a snapshot");
    reading.header(note).expect("a sound database").expect("the note exists")
}

pub fn identity(who: &str) -> Arc<Identity> {
    Arc::new(Identity::person(who))
}

/// Returns the identity of the server itself.
pub fn server() -> Arc<Identity> {
    Arc::new(Identity::local_server("CN=server/O=Acme"))
}
