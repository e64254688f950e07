//! Random histories with crashes, compared with a naive evaluation of the current database.
//!
//! A crash loses the writes that the store has not synced. The index falls back to its last commit, or to the state of
//! an interrupted commit: new segment files with the old list of segments. After each crash the index catches up. Every
//! query must then return the documents found by reading all documents.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::sim::{SeededRandom, SimClock};
use base::{Name, NoteId};
use notes::{
    Access, Acl, AclEntry, AclLevel, Database, DatabaseKind, DatabaseSnapshot, Databases, Item, ItemValue, Marks,
    NewDatabase, NewNote, level,
};
use proptest::prelude::*;
use search::{FullTextIndex, HitOrder, PageRequest, Query};
use store::memory::MemoryEngine;
use store::{Store, StoreOptions, SyncMode};

use crate::fixture::{identity, open, server};

/// The words of all documents.
const WORDS: [&str; 6] = ["wa", "wb", "wab", "Wä", "x1", "x2"];

/// A step of a history. Its numbers select among the existing documents.
#[derive(Clone, Debug)]
enum Step {
    Create {
        subject: Vec<usize>,
        body: Vec<usize>,
        is_restricted: bool,
    },
    Edit {
        which: usize,
        subject: Vec<usize>,
        is_restricted: bool,
    },
    Mark {
        which: usize,
    },
    Delete {
        which: usize,
    },
    /// Purges deletion stubs, whether or not the index has applied them.
    Purge,
    Update {
        limit: usize,
    },
    Commit,
    /// The process ends. The index is in the state of its last commit.
    Crash,
    /// The process ends during a commit.
    CrashInCommit,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let words = || prop::collection::vec(0..WORDS.len(), 0..4);
    let step = prop_oneof![
        6 => (words(), words(), prop::bool::weighted(0.3))
            .prop_map(|(subject, body, is_restricted)| Step::Create { subject, body, is_restricted }),
        4 => (0..100_usize, words(), any::<bool>())
            .prop_map(|(which, subject, is_restricted)| Step::Edit { which, subject, is_restricted }),
        1 => (0..100_usize).prop_map(|which| Step::Mark { which }),
        2 => (0..100_usize).prop_map(|which| Step::Delete { which }),
        1 => Just(Step::Purge),
        4 => (1..6_usize).prop_map(|limit| Step::Update { limit }),
        2 => Just(Step::Commit),
        1 => Just(Step::Crash),
        1 => Just(Step::CrashInCommit),
    ];
    prop::collection::vec(step, 1..40)
}

/// A query in a form that can both be written as text and be evaluated naively.
#[derive(Clone, Debug)]
enum TestQuery {
    Word(usize),
    InSubject(usize),
    Pair(usize, usize),
    Near(usize, usize),
    Begins(&'static str),
    Not(Box<TestQuery>),
    And(Box<TestQuery>, Box<TestQuery>),
    Or(Box<TestQuery>, Box<TestQuery>),
}

fn test_query() -> impl Strategy<Value = TestQuery> {
    let word = || 0..WORDS.len();
    let leaf = prop_oneof![
        word().prop_map(TestQuery::Word),
        word().prop_map(TestQuery::InSubject),
        (word(), word()).prop_map(|(one, two)| TestQuery::Pair(one, two)),
        (word(), word()).prop_map(|(one, two)| TestQuery::Near(one, two)),
        prop::sample::select(vec!["w", "wa", "x"]).prop_map(TestQuery::Begins),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|one| TestQuery::Not(Box::new(one))),
            (inner.clone(), inner.clone()).prop_map(|(one, two)| TestQuery::And(Box::new(one), Box::new(two))),
            (inner.clone(), inner).prop_map(|(one, two)| TestQuery::Or(Box::new(one), Box::new(two))),
        ]
    })
}

impl TestQuery {
    fn text(&self) -> String {
        match self {
            Self::Word(word) => WORDS[*word].to_owned(),
            Self::InSubject(word) => format!("subject:{}", WORDS[*word]),
            Self::Pair(one, two) => format!("\"{} {}\"", WORDS[*one], WORDS[*two]),
            Self::Near(one, two) => format!("{} NEAR/1 {}", WORDS[*one], WORDS[*two]),
            Self::Begins(start) => format!("{start}*"),
            Self::Not(one) => format!("NOT ({})", one.text()),
            Self::And(one, two) => format!("({}) AND ({})", one.text(), two.text()),
            Self::Or(one, two) => format!("({}) OR ({})", one.text(), two.text()),
        }
    }

    /// Returns `true` if a document with these texts matches.
    fn matches(&self, subject: &[String], body: &[String]) -> bool {
        let folded = |word: &usize| search::words::all(WORDS[*word]).concat();
        let in_one = |test: &dyn Fn(&[String]) -> bool| test(subject) || test(body);
        match self {
            Self::Word(word) => in_one(&|words| words.contains(&folded(word))),
            Self::InSubject(word) => subject.contains(&folded(word)),
            Self::Pair(one, two) => {
                let pair = [folded(one), folded(two)];
                in_one(&|words| words.windows(2).any(|window| window == pair))
            }
            Self::Near(one, two) => {
                let one = folded(one);
                let two = folded(two);
                let near =
                    |words: &[String]| words.windows(3).any(|window| window.contains(&one) && window.contains(&two));
                // A text of two words has no window of three words.
                in_one(&|words| near(words) || (words.len() < 3 && words.contains(&one) && words.contains(&two)))
            }
            Self::Begins(start) => in_one(&|words| words.iter().any(|word| word.starts_with(start))),
            Self::Not(one) => !one.matches(subject, body),
            Self::And(one, two) => one.matches(subject, body) && two.matches(subject, body),
            Self::Or(one, two) => one.matches(subject, body) || two.matches(subject, body),
        }
    }
}

struct Model {
    memory: Arc<MemoryEngine>,
    clock: Arc<SimClock>,
    databases: Arc<Databases>,
    search: FullTextIndex,
    folder: tempfile::TempDir,
    starts: u64,
}

impl Model {
    fn new() -> Self {
        let memory = Arc::new(MemoryEngine::new(3));
        let clock = Arc::new(SimClock::new());
        let databases = databases_over(&memory, &clock, 0);
        let mut acl = Acl::private(&Name::new("Ann/Acme"));
        acl.entries.push(AclEntry::new("Bob/Acme", AclLevel::Reader));
        databases.database_create(&NewDatabase::new("docs.nsf", "", DatabaseKind::Standard, acl)).expect("it is made");
        let folder = tempfile::tempdir().expect("a folder");
        let search = open(&databases, folder.path());
        Self { memory, clock, databases, search, folder, starts: 0 }
    }

    fn database(&self) -> Arc<Database> {
        self.databases.database_open("docs.nsf").expect("it exists")
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Create { subject, body, is_restricted } => {
                let mut items = items(subject, *is_restricted);
                items.push(Item::body("Body", ItemValue::RichText(text(body))));
                self.write(|writer| writer.note_create(NewNote::document(items)).map(|_| ()));
            }
            Step::Edit { which, subject, is_restricted } => {
                self.on(*which, |writer, note, sequence| {
                    writer.note_update(note, sequence, &items(subject, *is_restricted), &[]).map(|_| ())
                });
            }
            Step::Mark { which } => {
                self.on(*which, |writer, note, _| writer.marks_set(note, Marks::SEEN, &[]).map(|_| ()));
            }
            Step::Delete { which } => self.on(*which, |writer, note, _| writer.note_delete(note).map(|_| ())),
            Step::Purge => {
                self.clock.advance(Duration::from_secs(200 * 86_400));
                notes::purge::purge(&self.database()).expect("a purge");
            }
            Step::Update { limit } => {
                let access = self.database().authorize(&server()).expect("the server has access");
                self.search.update(&access, *limit, &|| false).expect("an update");
            }
            Step::Commit => self.search.commit().expect("a commit"),
            Step::Crash => self.crash(&[]),
            Step::CrashInCommit => self.crash_in_commit(),
        }
    }

    fn write(&self, change: impl FnOnce(&mut notes::Writer<'_, '_>) -> notes::Result<()>) {
        let access: Access<level::Depositor> = self.database().authorize(&server()).expect("the server has access");
        let accesses = [&access];
        let mut transaction = self.databases.transaction(&accesses).expect("it begins");
        change(&mut transaction.writer(0)).expect("the change is made");
        // The write is not awaited until it is durable.
        transaction.commit().expect("it is committed");
        self.clock.advance(Duration::from_secs(1));
    }

    fn on(&self, which: usize, change: impl FnOnce(&mut notes::Writer<'_, '_>, NoteId, u32) -> notes::Result<()>) {
        let documents = self.documents("Ann/Acme");
        let Some((note, sequence)) =
            documents.iter().nth(which % documents.len().max(1)).map(|(note, document)| (*note, document.sequence))
        else {
            return;
        };
        self.write(|writer| change(writer, note, sequence));
    }

    /// Loses the writes that the store has not synced, and the changes of the index that are not in its folder. `more`
    /// are additional files in the folder.
    fn crash(&mut self, more: &[(String, Vec<u8>)]) {
        let after = tempfile::tempdir().expect("a folder");
        copy(self.folder.path(), after.path());
        for (name, bytes) in more {
            std::fs::write(after.path().join("index-5").join(name), bytes).expect("written");
        }
        self.memory = Arc::new(self.memory.crash_losing_all());
        // The random sequence continues instead of starting again.
        self.starts += 1;
        self.databases = databases_over(&self.memory, &self.clock, self.starts);
        self.search = open(&self.databases, after.path());
        assert!(!self.search.was_recreated(), "a crash leaves an index that can be used");
        self.folder = after;
    }

    /// Crashes after new segments are written and before they replace the old ones.
    fn crash_in_commit(&mut self) {
        let before = files(&self.folder.path().join("index-5"));
        self.search.commit().expect("a commit");
        self.crash(&before);
    }

    /// Returns the documents that a user sees by reading the whole database.
    fn documents(&self, who: &str) -> BTreeMap<NoteId, Document> {
        let access: Access<level::Reader> = self.database().authorize(&identity(who)).expect("a reader");
        let reading = access.read().expect("a snapshot");
        let mut found = BTreeMap::new();
        let each = &mut |header: notes::NoteHeader| {
            if !header.is_stub() && header.class.is_document() {
                found.insert(header.note, Document::read(&reading, &header));
            }
            Ok(true)
        };
        reading.for_each_note(NoteId(0), each).expect("a sound database");
        found
    }

    fn check(&self, test_query: &TestQuery) {
        for who in ["Ann/Acme", "Bob/Acme"] {
            let answers = |document: &Document| test_query.matches(&document.subject, &document.body);
            let expected: Vec<NoteId> = self
                .documents(who)
                .into_iter()
                .filter(|(_, document)| answers(document))
                .map(|(note, _)| note)
                .collect();
            let access: Access<level::Reader> = self.database().authorize(&identity(who)).expect("a reader");
            let query = Query::parse(&test_query.text()).expect("a query");
            let page = PageRequest { sort: HitOrder::Oldest, offset: 0, limit: 1_000 };
            let found = self.search.query(&access, &query, page, &|| false).expect("an answer");
            let notes: Vec<NoteId> = found.hits.iter().map(|hit| hit.note).collect();
            assert_eq!((notes, found.total), (expected.clone(), expected.len() as u64), "{who}: {}", test_query.text());
            assert!(found.is_current && found.is_exact);
        }
    }

    /// Checks that the index shows no document that the user may not read, whatever its state.
    fn check_hidden(&self) {
        let known = self.documents("Bob/Acme");
        let access: Access<level::Reader> = self.database().authorize(&identity("Bob/Acme")).expect("a reader");
        let page = PageRequest { sort: HitOrder::Newest, offset: 0, limit: 1_000 };
        let Ok(found) = self.search.query(&access, &Query::all(), page, &|| false) else { return };
        assert_eq!(found.total, found.hits.len() as u64);
        assert!(found.hits.iter().all(|hit| known.contains_key(&hit.note)), "{found:?}");
    }

    fn catch_up(&self) {
        let access = self.database().authorize(&server()).expect("the server has access");
        while !self.search.update(&access, 7, &|| false).expect("an update").complete {}
        self.search.commit().expect("a commit");
    }
}

struct Document {
    sequence: u32,
    subject: Vec<String>,
    body: Vec<String>,
}

impl Document {
    fn read(reading: &DatabaseSnapshot<'_>, header: &notes::NoteHeader) -> Self {
        let note = reading.note(header.note).expect("a sound database").expect("the note exists");
        let body = match note.item("Body").map(|item| &item.value) {
            Some(ItemValue::RichText(text)) => search::words::all(text),
            _ => Vec::new(),
        };
        Self { sequence: header.sequence, subject: search::words::all(note.text("Subject").unwrap_or_default()), body }
    }
}

fn databases_over(memory: &Arc<MemoryEngine>, clock: &Arc<SimClock>, starts: u64) -> Arc<Databases> {
    let options = StoreOptions { sync: SyncMode::Group, ..StoreOptions::default() };
    let engine: Arc<dyn store::Engine> = memory.clone();
    let store = Arc::new(Store::with_engine(engine, &options).expect("a store in memory opens"));
    Databases::open(store, clock.clone(), Arc::new(SeededRandom::new(starts)))
}

fn text(words: &[usize]) -> String {
    words.iter().map(|word| WORDS[*word]).collect::<Vec<_>>().join(" ")
}

fn items(subject: &[usize], is_restricted: bool) -> Vec<Item> {
    let mut items = vec![Item::text("Subject", text(subject))];
    if is_restricted {
        items.push(Item::readers("Readers", vec!["Ann/Acme".into()]));
    }
    items
}

/// Returns the files of an index, at a moment at which no merge in the background changes them.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    loop {
        let found = read_files(folder);
        if let Ok(found) = found
            && read_files(folder).is_ok_and(|again| again == found)
        {
            return found;
        }
    }
}

/// Reads the files of an index. Fails if one of them is removed meanwhile.
fn read_files(folder: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        if path.is_file() && !name.ends_with(".lock") {
            found.push((name, std::fs::read(&path)?));
        }
    }
    found.sort();
    Ok(found)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to.join("index-5")).expect("made");
    for (name, bytes) in files(&from.join("index-5")) {
        std::fs::write(to.join("index-5").join(name), bytes).expect("written");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn index_matches_naive_evaluation_after_random_histories(steps in steps(), queries in prop::collection::vec(test_query(), 1..6)) {
        let mut model = Model::new();
        for step in &steps {
            model.apply(step);
            model.check_hidden();
        }
        model.catch_up();
        queries.iter().for_each(|query| model.check(query));
        model.crash(&[]);
        model.catch_up();
        queries.iter().for_each(|query| model.check(query));
    }
}

/// Checks that the index commits no change that the store may lose. The next writes would get the same modseqs, and
/// would wrongly count as applied.
#[test]
fn index_commits_only_durable_changes() {
    let mut model = Model::new();
    model.apply(&Step::Create { subject: vec![0], body: vec![], is_restricted: false });
    model.catch_up();
    let database = model.database();
    let applied = model.search.applied(database.number());
    model.memory.faults().hold_syncs();
    model.apply(&Step::Create { subject: vec![1], body: vec![], is_restricted: false });
    model.apply(&Step::Update { limit: 100 });
    model.memory.faults().fail_next_sync();
    model.memory.faults().release_syncs();
    assert!(model.search.commit().is_err(), "the store cannot make it durable");
    model.crash(&[]);
    assert_eq!(model.search.applied(database.number()), applied);
    model.apply(&Step::Create { subject: vec![2], body: vec![], is_restricted: false });
    model.catch_up();
    (0..3).for_each(|word| model.check(&TestQuery::Word(word)));
}
