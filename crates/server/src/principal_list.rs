//! The principals of JMAP: the people and groups of the directory.
//!
//! Everybody who may log in sees them, as in Domino's directory and in the look-up of addresses of the lite web mail.
//! Disabled people, deny lists and groups of servers are left out. The list is kept until the directory changes.
//! It has the first [`ADDRESS_SCAN_MAX`] people and as many groups, in the order of their addresses; in larger
//! directories, people and groups beyond that are found by their exact name or address.

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
    /// Number of people, and of groups, that are listed.
    scanned_max: u64,
    /// The principals, and the generation of the directory that they are of.
    cached: Mutex<Option<(u64, Arc<ScannedPrincipals>)>>,
}

/// The principals that are listed.
#[derive(Default)]
struct ScannedPrincipals {
    infos: Vec<PrincipalInfo>,
    /// `true` if the directory may have more people or groups, which are found by their exact names and addresses.
    is_cut_off: bool,
}

impl PrincipalList {
    /// Creates the list.
    #[must_use]
    pub fn new(directory: &Arc<Directory>) -> Self {
        Self { directory: Arc::clone(directory), scanned_max: ADDRESS_SCAN_MAX, cached: Mutex::default() }
    }

    fn all(&self) -> directory::Result<Arc<ScannedPrincipals>> {
        let mut cached = self.cached.lock();
        let generation = self.directory.generation();
        if let Some((_, known)) = cached.as_ref().filter(|(of, _)| *of == generation) {
            return Ok(Arc::clone(known));
        }
        let mut all = ScannedPrincipals::default();
        let people = |position, limit| Ok(self.directory.users(position, limit)?.entries);
        self.scan(&mut all, &people, |person| (person.note, individual(person)))?;
        let groups = |position, limit| Ok(self.directory.groups(position, limit)?.entries);
        self.scan(&mut all, &groups, |group| (group.note, group_of(group)))?;
        let all = Arc::new(all);
        *cached = Some((generation, Arc::clone(&all)));
        Ok(all)
    }

    /// Reads a list of the directory page by page, and describes its entries. Those without a description are left out,
    /// and count nevertheless.
    fn scan<T>(
        &self,
        found: &mut ScannedPrincipals,
        page: &dyn Fn(u64, usize) -> directory::Result<Vec<Arc<T>>>,
        describe: impl Fn(&T) -> (NoteId, Option<PrincipalInfo>),
    ) -> directory::Result<()> {
        let mut position = 0;
        while position < self.scanned_max {
            let left = usize::try_from(self.scanned_max - position).unwrap_or(usize::MAX);
            let entries = page(position, left.min(ADDRESS_SCAN_PAGE))?;
            if entries.is_empty() {
                return Ok(());
            }
            position += entries.len() as u64;
            let described: Vec<_> = entries.iter().map(|entry| describe(entry)).collect();
            let notes: Vec<NoteId> = described.iter().map(|(note, _)| *note).collect();
            let unids: std::collections::HashMap<NoteId, Unid> = self.directory.unids(&notes)?.into_iter().collect();
            let identified = described.into_iter().filter_map(|(note, info)| Some(identify(info?, *unids.get(&note)?)));
            found.infos.extend(identified);
        }
        found.is_cut_off = true;
        Ok(())
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
        all.infos.iter().for_each(&mut *each);
        if !all.is_cut_off || exact.is_empty() {
            return Ok(());
        }
        let mut known: HashSet<&str> = all.infos.iter().map(|info| info.id.as_str()).collect();
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

#[cfg(test)]
mod tests {
    use directory::PersonChange;
    use sample::Sample;

    use super::*;

    /// Returns the addresses of the people that are found with exact names or addresses.
    fn people(list: &PrincipalList, exact: &[&str]) -> Vec<String> {
        let exact: Vec<String> = exact.iter().map(|text| (*text).to_owned()).collect();
        let mut found = Vec::new();
        let listed = list.for_each(&exact, &mut |info| {
            let email = info.email.clone().filter(|_| info.kind == PrincipalKind::Individual);
            found.extend(email);
        });
        listed.expect("a sound store");
        found
    }

    #[test]
    fn people_beyond_those_that_are_listed_are_found_by_exact_names_and_addresses() {
        let sample = Sample::new();
        let directory = &sample.instance.directory;
        let whole = PrincipalList::new(directory);
        assert_eq!(people(&whole, &["bob@acme.test"]), ["ann@acme.test", "bob@acme.test"]);
        let cut_off = |scanned_max| PrincipalList { scanned_max, ..PrincipalList::new(directory) };
        let list = cut_off(1);
        assert_eq!(people(&list, &[]), ["ann@acme.test"]);
        for exact in ["bob@acme.test", "bob"] {
            assert_eq!(people(&list, &[exact, "nobody"]), ["ann@acme.test", "bob@acme.test"], "{exact}");
        }
        assert_eq!(people(&list, &["ann"]), ["ann@acme.test"], "nobody is found twice");
        // Disabled people are left out of the list, which does not make it complete.
        let disabled = PersonChange { disabled: Some(true), ..PersonChange::default() };
        directory.user_set("ann", &disabled).expect("the user exists");
        assert_eq!(people(&list, &["bob"]), ["bob@acme.test"]);
        assert_eq!(people(&list, &["ann", "ann@acme.test"]), Vec::<String>::new());
    }
}
