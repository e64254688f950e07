//! The principals of JMAP: the people and groups of the directory.
//!
//! Everybody who may log in sees them, as in Domino's directory and in the look-up of addresses of the lite web mail.
//! Disabled people, deny lists and groups of servers are left out. The list is kept until the directory changes.
//! It has at most [`ADDRESS_SCAN_MAX`] people and as many groups, in the order of their addresses; in larger ones,
//! people and groups beyond that are found by their exact name or address.

use std::collections::HashSet;
use std::sync::Arc;

use base::sync::Mutex;
use base::{NoteId, Unid};
use directory::{Directory, DirectoryEntry, Group, GroupKind, Person};
use jmap::principal::{PrincipalInfo, PrincipalKind, Principals};

use crate::limits::{ADDRESS_SCAN_MAX, ADDRESS_SCAN_PAGE};

/// The principals of JMAP.
pub struct PrincipalList {
    directory: Arc<Directory>,
    /// The principals, and the generation of the directory that they are of.
    cached: Mutex<Option<(u64, Arc<Vec<PrincipalInfo>>)>>,
}

impl PrincipalList {
    /// Creates the list.
    #[must_use]
    pub fn new(directory: &Arc<Directory>) -> Self {
        Self { directory: Arc::clone(directory), cached: Mutex::default() }
    }

    fn all(&self) -> directory::Result<Arc<Vec<PrincipalInfo>>> {
        let mut cached = self.cached.lock();
        let generation = self.directory.generation();
        if let Some((_, known)) = cached.as_ref().filter(|(of, _)| *of == generation) {
            return Ok(Arc::clone(known));
        }
        let people = self
            .scan(&|position| Ok(self.directory.users(position, ADDRESS_SCAN_PAGE)?.entries), |person| {
                (person.note, individual(person))
            })?;
        let groups = self
            .scan(&|position| Ok(self.directory.groups(position, ADDRESS_SCAN_PAGE)?.entries), |group| {
                (group.note, group_of(group))
            })?;
        let all = Arc::new([people, groups].concat());
        *cached = Some((generation, Arc::clone(&all)));
        Ok(all)
    }

    /// Reads a list of the directory page by page, and describes its entries. Those without a description are left out.
    fn scan<T>(
        &self,
        page: &dyn Fn(u64) -> directory::Result<Vec<Arc<T>>>,
        describe: impl Fn(&T) -> (NoteId, Option<PrincipalInfo>),
    ) -> directory::Result<Vec<PrincipalInfo>> {
        let mut found = Vec::new();
        let mut position = 0;
        while position < ADDRESS_SCAN_MAX {
            let entries = page(position)?;
            if entries.is_empty() {
                break;
            }
            position += entries.len() as u64;
            let described: Vec<_> = entries.iter().map(|entry| describe(entry)).collect();
            let notes: Vec<NoteId> = described.iter().map(|(note, _)| *note).collect();
            let unids: std::collections::HashMap<NoteId, Unid> = self.directory.unids(&notes)?.into_iter().collect();
            let identified = described.into_iter().filter_map(|(note, info)| Some(identify(info?, *unids.get(&note)?)));
            found.extend(identified);
        }
        Ok(found)
    }

    /// Returns the person and the group with exactly this name or address.
    fn named(&self, text: &str) -> directory::Result<Vec<PrincipalInfo>> {
        let person = self.directory.active_person(text)?.and_then(|person| Some((person.note, individual(&person)?)));
        let group = self.directory.group(text)?.and_then(|group| Some((group.note, group_of(&group)?)));
        let mut found = Vec::new();
        for (note, info) in person.into_iter().chain(group) {
            let unid = self.directory.unids(&[note])?.first().map(|(_, unid)| *unid);
            found.extend(unid.map(|unid| identify(info, unid)));
        }
        Ok(found)
    }
}

impl Principals for PrincipalList {
    fn state(&self) -> mail::Result<String> {
        let database = self.directory.database();
        Ok(database.modseq_to_client(database.modseq()).to_string())
    }

    fn for_each(&self, exact: &[String], each: &mut dyn FnMut(&PrincipalInfo)) -> mail::Result<()> {
        let all = self.all().map_err(|error| unavailable(&error))?;
        all.iter().for_each(&mut *each);
        let is_complete = (all.len() as u64) < ADDRESS_SCAN_MAX;
        if is_complete || exact.is_empty() {
            return Ok(());
        }
        let mut known: HashSet<&str> = all.iter().map(|info| info.id.as_str()).collect();
        let mut others = Vec::new();
        for text in exact {
            others.extend(self.named(text).map_err(|error| unavailable(&error))?);
        }
        others.iter().filter(|info| known.insert(&info.id)).for_each(each);
        Ok(())
    }

    fn find(&self, id: &str) -> mail::Result<Option<PrincipalInfo>> {
        let Some(unid) = id.strip_prefix('P').and_then(|unid| unid.parse::<Unid>().ok()) else { return Ok(None) };
        if principal_id(unid) != id {
            return Ok(None);
        }
        let info = match self.directory.entry(unid).map_err(|error| unavailable(&error))? {
            Some(DirectoryEntry::Person(person)) => individual(&person),
            Some(DirectoryEntry::Group(group)) => group_of(&group),
            None => None,
        };
        Ok(info.map(|info| identify(info, unid)))
    }
}

/// Returns the identifier of the principal whose note has a UNID.
#[must_use]
pub fn principal_id(unid: Unid) -> String {
    format!("P{unid}")
}

fn identify(info: PrincipalInfo, unid: Unid) -> PrincipalInfo {
    PrincipalInfo { id: principal_id(unid), ..info }
}

/// Describes a person, still without identifier. Returns `None` for a disabled one.
fn individual(person: &Person) -> Option<PrincipalInfo> {
    (!person.disabled).then(|| PrincipalInfo {
        id: String::new(),
        kind: PrincipalKind::Individual,
        name: person.display_name(),
        description: None,
        email: person.address().map(ToString::to_string),
    })
}

/// Describes a group, still without identifier. Returns `None` for one that is of no use to people.
fn group_of(group: &Group) -> Option<PrincipalInfo> {
    let is_hidden = matches!(group.kind, GroupKind::DenyList | GroupKind::ServersOnly);
    (!is_hidden).then(|| PrincipalInfo {
        id: String::new(),
        kind: PrincipalKind::Group,
        name: group.name.abbreviated(),
        description: Some(group.description.clone()).filter(|text| !text.is_empty()),
        email: group.address().filter(|_| group.kind.takes_mail()).map(ToString::to_string),
    })
}

/// Logs why the directory cannot be read, and returns the error for the caller.
fn unavailable(error: &directory::Error) -> mail::Error {
    tracing::error!(target: "jmap", %error, "the directory cannot be read");
    mail::Error::Unavailable("directory")
}
