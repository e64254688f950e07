//! A server's databases in memory, with a clock that advances only on request.

use std::sync::Arc;

use base::sim::{SeededRandom, SimClock};
use base::{Name, NoteId};
use notes::view::index::ViewIndex;
use notes::view::limits::CATEGORY_BYTES;
use notes::view::row::StoredRow;
use notes::view::sort_key::SortDirection;
use notes::view::view_format::Column;
use notes::{
    Access, Acl, AclEntry, AclLevel, Database, DatabaseKind, Databases, Identity, NewDatabase, ServerSettings, Writer,
    level,
};
use store::memory::MemoryEngine;
use store::{Direction, KeyRange, Store, StoreOptions, SyncMode, Table, TableReader};

pub struct TestServer {
    pub databases: Arc<Databases>,
    pub memory: Arc<MemoryEngine>,
    pub clock: Arc<SimClock>,
    settings: ServerSettings,
    /// Number of restarts. It seeds the randomness, so that a restarted world does not repeat it.
    starts: u64,
}

impl TestServer {
    pub fn new() -> Self {
        Self::with(ServerSettings::default())
    }

    /// Creates a server whose randomness differs from that of other servers.
    pub fn numbered(number: u64) -> Self {
        let memory = Arc::new(MemoryEngine::new(11));
        Self::over(memory, Arc::new(SimClock::new()), ServerSettings::default(), number << 32)
    }

    pub fn with(settings: ServerSettings) -> Self {
        Self::over(Arc::new(MemoryEngine::new(11)), Arc::new(SimClock::new()), settings, 0)
    }

    fn over(memory: Arc<MemoryEngine>, clock: Arc<SimClock>, settings: ServerSettings, starts: u64) -> Self {
        let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
        let engine: Arc<dyn store::Engine> = memory.clone();
        let store = Arc::new(Store::with_engine(engine, &options).expect("a store in memory opens"));
        let databases = Databases::open_with(store, clock.clone(), Arc::new(SeededRandom::new(starts)), settings);
        Self { databases, memory, clock, settings, starts }
    }

    /// Returns the same databases after the loss of everything in memory.
    pub fn restarted(&self) -> Self {
        let memory = Arc::new(self.memory.crash_losing_all());
        Self::over(memory, self.clock.clone(), self.settings, self.starts + 1)
    }

    /// Creates `docs.nsf`, which Ann manages and in which the others have these levels.
    pub fn database(&self, others: &[(&str, AclLevel)]) -> Arc<Database> {
        let mut acl = Acl::private(&Name::new("Ann/Acme"));
        acl.entries.extend(others.iter().map(|(name, level)| AclEntry::new(*name, *level)));
        let new = NewDatabase {
            owner: Name::new("Ann/Acme"),
            ..NewDatabase::new("docs.nsf", "Documents", DatabaseKind::Standard, acl)
        };
        self.databases.database_create(&new).expect("the database is created")
    }

    /// Runs one transaction as a user.
    pub fn write<T>(
        &self,
        database: &Arc<Database>,
        who: &str,
        change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>,
    ) -> notes::Result<T> {
        let access: Access<level::Depositor> = database.authorize(&identity(who))?;
        let accesses = [&access];
        let mut transaction = self.databases.transaction(&accesses)?;
        let outcome = change(&mut transaction.writer(0))?;
        transaction.commit()?;
        Ok(outcome)
    }
}

/// Returns the size of an index from a scan of its rows and categories: twice each key and the value of a document, and
/// a fixed size beside the keys of a category.
pub fn scanned_index_bytes(world: &TestServer, database: &Database, index: &ViewIndex) -> u64 {
    let prefix = [database.number().to_key(), index.id().0.to_be_bytes()].concat();
    let store = world.databases.store();
    let mut cursor = store.scan(Table::View, &KeyRange::prefix(&prefix), Direction::Forward).expect("a scan");
    let mut bytes = 0;
    while let Some((stored_key, value)) = cursor.next().expect("sound") {
        let order = usize::from(stored_key[prefix.len()]);
        let key = &stored_key[prefix.len() + 1..];
        bytes += match StoredRow::decode(value) {
            _ if order >= index.orders() => 2 * key.len() + CATEGORY_BYTES,
            Ok(StoredRow::Document(_)) => 2 * key.len() + value.len(),
            Ok(StoredRow::Category) => 0,
            Err(error) => panic!("{error}"),
        };
    }
    bytes as u64
}

/// Returns a column that shows an item.
pub fn column(item: &str) -> Column {
    Column { title: item.into(), item: item.into(), ..Column::default() }
}

/// Returns a column that shows an item and by which rows are sorted.
pub fn sorted(item: &str) -> Column {
    Column { sort: Some(SortDirection::Ascending), ..column(item) }
}

pub fn identity(who: &str) -> Arc<Identity> {
    Arc::new(Identity::person(who))
}

/// Returns the identity of the server itself.
pub fn server() -> Arc<Identity> {
    Arc::new(Identity::local_server("CN=server/O=Acme"))
}

pub fn reader(database: &Arc<Database>, who: &str) -> notes::Result<Access<level::Reader>> {
    database.authorize(&identity(who))
}

pub fn subject(database: &Arc<Database>, who: &str, note: NoteId) -> Option<String> {
    let access = reader(database, who).expect("a reader");
    let reading = access.read().expect("a snapshot");
    reading.note(note).expect("a sound database").and_then(|note| note.text("Subject").map(str::to_owned))
}

/// Asserts that a check of a database finds no fault.
pub fn assert_sound(database: &Database) {
    let report = notes::fixup::check(database).expect("a check runs");
    assert_eq!(report.findings, [], "nothing is wrong");
}
