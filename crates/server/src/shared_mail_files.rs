//! The mail files that access control lists open to people other than their owners, by the names in the lists.
//!
//! [`SharedMailFiles`] answers which mail files may be open to an identity, without opening all of them: it keeps the
//! names of all entries from level Reader on, as numbers, and the mail files in whose lists they are. The names of an
//! identity are its own, its groups, the wildcards above its own names, and `-Default-`. An answer is a superset: the
//! list of the mail file decides ([`notes::Database::authorize`]).
//!
//! The lists of all mail files are read once, after the start of the server, by the first questions. After that, only
//! those of mail files are read that have changed since the question before. Each question reads a bounded number of
//! lists, so on a server with very many mail files the first answers may be incomplete; the next ones are complete. An
//! answer never contains a mail file because of a list that was replaced before the question.
//!
//! The memory is some 100 bytes per mail file and 16 per entry.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use base::sync::Mutex;
use base::{DbNumber, Modseq};
use notes::acl::DEFAULT_ENTRY;
use notes::{Access, Acl, AclLevel, ChangeSubscriber, DatabaseKind, Databases, Identity, level};

use crate::limits::{CHANGED_LISTS_MAX, SHARED_CANDIDATES_MAX};

/// The mail files that access control lists open to other people.
pub struct SharedMailFiles {
    databases: Arc<Databases>,
    /// Collects the databases that change. Dropping it ends the subscription.
    changes: Arc<ChangeSubscriber>,
    lists: Mutex<GrantLists>,
}

/// The names in the lists, and the mail files in whose lists they are.
#[derive(Default)]
struct GrantLists {
    /// `true` if the existing mail files were put into `waiting`.
    is_begun: bool,
    /// Databases whose lists are still to be read.
    waiting: BTreeSet<DbNumber>,
    files: HashMap<DbNumber, ListedFile>,
    files_by_name: HashMap<NameKey, Vec<DbNumber>>,
}

/// A mail file whose list was read.
struct ListedFile {
    /// The last change of the design, which includes that of the list.
    design_modseq: Modseq,
    names: Box<[NameKey]>,
}

/// A digest of a name, regardless of case. Two names with the same digest only make an answer longer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct NameKey(u64);

impl NameKey {
    fn new(name: &str) -> Self {
        let mut bytes = [0; 8];
        blake3::Hasher::new().update(name.to_lowercase().as_bytes()).finalize_xof().fill(&mut bytes);
        Self(u64::from_be_bytes(bytes))
    }
}

impl SharedMailFiles {
    /// Creates the lookup, which follows the changes of all databases from now on.
    #[must_use]
    pub fn new(databases: &Arc<Databases>) -> Self {
        Self { databases: Arc::clone(databases), changes: databases.subscribe(), lists: Mutex::default() }
    }

    /// Returns the mail files that may be open to an identity, at most [`SHARED_CANDIDATES_MAX`], in the order of their
    /// creation.
    pub fn candidates(&self, identity: &Identity) -> notes::Result<Vec<DbNumber>> {
        let mut lists = self.lists.lock();
        self.update(&mut lists)?;
        let mut found = BTreeSet::new();
        for name in names_of(identity) {
            found.extend(lists.files_by_name.get(&NameKey::new(&name)).into_iter().flatten());
        }
        Ok(found.into_iter().take(SHARED_CANDIDATES_MAX).collect())
    }

    /// Reads the lists of mail files that have changed, at most [`CHANGED_LISTS_MAX`].
    fn update(&self, lists: &mut GrantLists) -> notes::Result<()> {
        if !lists.is_begun {
            let records = self.databases.database_list()?;
            lists.waiting = records.iter().filter(|of| of.kind == DatabaseKind::Mail).map(|of| of.number).collect();
            lists.is_begun = true;
        }
        lists.waiting.extend(self.changes.take());
        for _ in 0..CHANGED_LISTS_MAX {
            let Some(number) = lists.waiting.pop_first() else { break };
            if let Err(error) = self.read(lists, number) {
                tracing::error!(target: "jmap", %error, number = number.0, "an access control list cannot be read");
                lists.remove(number);
            }
        }
        Ok(())
    }

    fn read(&self, lists: &mut GrantLists, number: DbNumber) -> notes::Result<()> {
        let opened = self.databases.database_open_number(number)?;
        let Some(database) = opened.filter(|database| database.record().kind == DatabaseKind::Mail) else {
            lists.remove(number);
            return Ok(());
        };
        let access: Access<level::Reader> = database.authorize(&Arc::new(Identity::local_server("")))?;
        let reading = access.read()?;
        let design_modseq = reading.counters().design_modseq;
        if lists.files.get(&number).is_none_or(|known| known.design_modseq != design_modseq) {
            lists.replace(number, design_modseq, &reading.acl());
        }
        Ok(())
    }
}

impl GrantLists {
    fn replace(&mut self, number: DbNumber, design_modseq: Modseq, acl: &Acl) {
        self.remove(number);
        let readers = acl.entries.iter().filter(|entry| entry.level >= AclLevel::Reader);
        let names: Box<[NameKey]> = readers.map(|entry| NameKey::new(entry.name.canonical())).collect();
        for name in &names {
            self.files_by_name.entry(*name).or_default().push(number);
        }
        self.files.insert(number, ListedFile { design_modseq, names });
    }

    fn remove(&mut self, number: DbNumber) {
        let Some(known) = self.files.remove(&number) else { return };
        for name in &known.names {
            if let Some(files) = self.files_by_name.get_mut(name) {
                files.retain(|file| *file != number);
                if files.is_empty() {
                    self.files_by_name.remove(name);
                }
            }
        }
    }
}

/// Returns all names under which a list may have an entry for an identity.
fn names_of(identity: &Identity) -> BTreeSet<String> {
    let own = || std::iter::once(&identity.name).chain(&identity.aliases).filter(|name| !name.is_empty());
    let mut names: BTreeSet<String> = own().chain(&identity.groups).map(|name| name.canonical().to_owned()).collect();
    for name in own() {
        let text = name.canonical();
        names.extend(text.match_indices(['/', '@']).map(|(index, _)| format!("*{}", &text[index..])));
    }
    names.insert("*".to_owned());
    names.insert(DEFAULT_ENTRY.to_owned());
    names
}
