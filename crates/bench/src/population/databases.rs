//! What the databases besides mail files have before a run: topics of a discussion, from the seed.
//!
//! The documents of a database are numbered, and each has a stream of its own. So they depend neither on the order in
//! which the databases are filled nor on the server.

use super::content::{Content, ContentRequest, ContentSize, Purpose};
use crate::plan::databases::path;
use crate::plan::stream::{Draw, Stream};
use crate::workload::class::{Class, Members};
use crate::workload::profile::SizeRow;
use crate::workload::units::Share;
use crate::workload::verb::Verb;
use crate::workload::{Database, Workload};

/// When the first document of a database was created: 2025-01-01, 00:00 UTC, in microseconds since 1970. The next ones
/// follow a second after one another.
const CREATED_US: i64 = 1_735_689_600_000_000;
const SECOND_US: i64 = 1_000_000;
/// The number of categories.
pub const CATEGORIES: u64 = 500;
/// A price is below this number of hundredths.
const PRICES: u64 = 1_000_000;

/// The persons who have written the documents.
const AUTHORS: u64 = 1_000;

/// What users may do in a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserRights {
    /// They change documents.
    Edit,
    /// They change views, too.
    Design,
}

/// A kind of database that a run has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseKind {
    /// Its name, number, template and view. The documents are those of this run.
    pub database: Database,
    /// The documents that the workload states.
    pub documents_stated: u64,
    /// What users may do.
    pub rights: UserRights,
    index: u64,
}

/// The databases of a run that are no mail files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DatabaseFiles {
    /// The seed.
    pub seed: u64,
    /// The kinds of which a class of the run makes use, or of which there is at least one database.
    pub kinds: Vec<DatabaseKind>,
    /// The factor by which documents are made smaller.
    pub size_scale: f64,
}

/// A database.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseFile<'a> {
    /// Its kind.
    pub kind: &'a DatabaseKind,
    /// Its number among those of its kind, from 1.
    pub number: u64,
}

/// A document that a database has before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTopic {
    /// The universal identifier.
    pub unid: [u8; 16],
    /// When it was created, in microseconds since 1970.
    pub created_us: i64,
    /// The number of its category.
    pub category: u64,
    /// A number to sort by, in hundredths.
    pub price: u64,
    /// What it says. It has no attachment.
    pub content: Content,
}

impl DatabaseFiles {
    /// Returns the databases of a workload. `documents` replaces the number of documents of each.
    pub fn of_workload(workload: &Workload, seed: u64, documents: Option<u64>, size_scale: f64) -> Self {
        let kinds = (0..).zip(&workload.databases).filter(|(_, database)| database.count > 0);
        let kinds = kinds.map(|(index, database)| DatabaseKind {
            database: Database { documents: documents.unwrap_or(database.documents), ..database.clone() },
            documents_stated: database.documents,
            rights: rights(workload, database),
            index,
        });
        Self { seed, kinds: kinds.collect(), size_scale }
    }

    /// Returns the databases.
    pub fn files(&self) -> impl Iterator<Item = DatabaseFile<'_>> {
        self.kinds.iter().flat_map(|kind| (1..=kind.database.count).map(move |number| DatabaseFile { kind, number }))
    }

    /// Returns the documents of a database in the order of their creation, which are generated one by one.
    pub fn topics(&self, file: DatabaseFile<'_>) -> impl Iterator<Item = StoredTopic> + Send + use<> {
        let row = SizeRow { body_bytes: file.kind.database.bytes, attachment_bytes: 0, share: Share::ALL };
        let size = ContentSize::scaled(&row, self.size_scale);
        let seed = self.seed;
        let index = file.kind.index;
        let number = file.number;
        (0..file.kind.database.documents).map(move |document| topic(seed, [index, number, document], size))
    }
}

impl DatabaseFile<'_> {
    /// Returns the path on the server.
    pub fn path(&self) -> String {
        path(&self.kind.database, self.number)
    }
}

fn topic(seed: u64, key: [u64; 3], size: ContentSize) -> StoredTopic {
    let mut stream = Stream::new(seed, Draw::DatabaseDocument, key);
    let category = stream.below(CATEGORIES);
    let price = stream.below(PRICES);
    let author = 1 + stream.below(AUTHORS);
    let mut numbers = stream.into_numbers();
    let mut unid = [0; 16];
    unid[..8].copy_from_slice(&numbers.number().to_be_bytes());
    unid[8..].copy_from_slice(&numbers.number().to_be_bytes());
    let created_us = CREATED_US + key[2].cast_signed() * SECOND_US;
    let purpose = Purpose::Document;
    let request = ContentRequest { seed, author, reader: None, purpose, size, kinds: &[], answered: None };
    StoredTopic { unid, created_us, category, price, content: Content::generate(&mut numbers, &request) }
}

fn rights(workload: &Workload, database: &Database) -> UserRights {
    let works_in = |class: &&Class| class.database.as_deref() == Some(&*database.name) && has_members(class);
    let mut steps = workload.classes.iter().filter(works_in).flat_map(|class| &class.steps);
    if steps.any(|step| step.verb == Verb::RebuildView) { UserRights::Design } else { UserRights::Edit }
}

/// Returns `true` if a class can have users.
pub fn has_members(class: &Class) -> bool {
    class.members != Members::Users(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{check, shipped};

    fn files(name: &str, set: &[&str], documents: Option<u64>) -> DatabaseFiles {
        let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
        let workload = check::check(&shipped::load(name).expect("shipped"), &set).expect("it is valid");
        DatabaseFiles::of_workload(&workload, 1, documents, 0.1)
    }

    #[test]
    fn databases_are_those_of_the_workload() {
        let paths = |files: &DatabaseFiles| files.files().map(|file| file.path()).collect::<Vec<_>>();
        assert_eq!(paths(&files("shareddatabase", &["databases=2"], None)), ["discussion1.nsf", "discussion2.nsf"]);
        assert!(paths(&files("largeinbox", &[], None)).is_empty(), "there are no guests");
        assert!(paths(&files("n8mail", &[], None)).is_empty());
        let rebuilt = files("viewrebuild", &[], Some(7));
        let kind = &rebuilt.kinds[0];
        assert_eq!((kind.rights, kind.database.documents, kind.documents_stated), (UserRights::Design, 7, 1_000_000));
        assert_eq!(files("shareddatabase", &[], None).kinds[0].rights, UserRights::Edit);
    }

    #[test]
    fn documents_follow_from_the_seed() {
        let made = files("shareddatabase", &["databases=2"], Some(20));
        let topics = |files: &DatabaseFiles, number: usize| {
            files.topics(files.files().nth(number).expect("a database")).collect::<Vec<_>>()
        };
        let first = topics(&made, 0);
        assert_eq!(first, topics(&made, 0));
        assert_eq!(first.len(), 20);
        assert!(first.is_sorted_by(|one, next| one.created_us < next.created_us));
        assert!(
            first.iter().all(|topic| topic.content.attachment.is_none()
                && topic.content.body.len() + topic.content.html.len() >= 100)
        );
        assert_ne!(first, topics(&made, 1));
        assert_ne!(first, topics(&DatabaseFiles { seed: 2, ..made.clone() }, 0));
        let mut unids: Vec<_> = first.iter().map(|topic| topic.unid).collect();
        unids.sort_unstable();
        unids.dedup();
        assert_eq!(unids.len(), 20);
    }
}
