//! Adding, changing and removing groups.
//!
//! Members need not exist: a group may be filled before its members are added, and may list remote addresses.
//! [`Directory::unknown_members`] returns the members that do not exist, for a warning.

use std::sync::Arc;

use base::{Name, NoteId};

use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::group::{Group, GroupKind};
use crate::key::LookupKey;
use crate::person_edit::{
    choose_plain_name, parse_address, parse_addresses, remove_from_groups, require_unreferenced, update_addresses,
};
use crate::record::Record;
use crate::transaction::DirectoryTransaction;

/// A group to be added.
#[derive(Debug, Clone, Default)]
pub struct NewGroup {
    /// Name of the group. If empty, the local part of the first address is used.
    pub name: String,
    /// Mail addresses, the primary one first. Their domains must be local.
    pub addresses: Vec<String>,
    /// Description of the group.
    pub description: String,
    /// Purpose of the group.
    pub kind: GroupKind,
    /// Names and addresses of the members.
    pub members: Vec<String>,
}

/// A change of a group. Fields that are `None` or empty change nothing.
#[derive(Debug, Clone, Default)]
pub struct GroupChange {
    /// New description.
    pub description: Option<String>,
    /// New purpose.
    pub kind: Option<GroupKind>,
    /// Addresses to add.
    pub addresses_add: Vec<String>,
    /// Addresses to remove.
    pub addresses_remove: Vec<String>,
    /// Members to add.
    pub members_add: Vec<String>,
    /// Members to remove.
    pub members_remove: Vec<String>,
}

impl Directory {
    /// Adds a group.
    pub fn group_add(&self, new: &NewGroup) -> Result<Arc<Group>> {
        let mut edit = self.edit()?;
        let name = choose_group_name(&edit, new)?;
        let addresses = parse_addresses(&edit, new.addresses.iter())?;
        let mut group = Group {
            note: NoteId(0),
            name,
            description: new.description.clone(),
            kind: new.kind,
            addresses,
            members: Vec::new(),
        };
        add_members(&mut group, &new.members);
        group.note = edit.save(&Record::Group(Arc::new(group.clone())))?;
        self.commit_durable(edit)?;
        Ok(Arc::new(group))
    }

    /// Changes a group.
    pub fn group_set(&self, name: &str, change: &GroupChange) -> Result<Arc<Group>> {
        let mut edit = self.edit()?;
        let mut group = find_group(&mut edit, name)?;
        if let Some(description) = &change.description {
            group.description.clone_from(description);
        }
        group.kind = change.kind.unwrap_or(group.kind);
        update_addresses(&edit, &mut group.addresses, (&change.addresses_remove, &change.addresses_add))?;
        remove_members(&mut group, &change.members_remove)?;
        add_members(&mut group, &change.members_add);
        let group = Arc::new(group);
        edit.save(&Record::Group(Arc::clone(&group)))?;
        self.commit_durable(edit)?;
        Ok(group)
    }

    /// Removes a group, also from the groups that list it, and returns it.
    pub fn group_remove(&self, name: &str) -> Result<Arc<Group>> {
        let mut edit = self.edit()?;
        let group = Arc::new(find_group(&mut edit, name)?);
        let record = Record::Group(Arc::clone(&group));
        require_unreferenced(&mut edit, &record)?;
        remove_from_groups(&mut edit, &record)?;
        edit.remove(group.note)?;
        self.commit_durable(edit)?;
        Ok(group)
    }

    /// Returns the members that are neither a known name or address nor a remote address. Wildcards are not checked.
    pub fn unknown_members(&self, group: &Group) -> Result<Vec<String>> {
        let mut unknown = Vec::new();
        for member in &group.members {
            let is_unknown = !member.starts_with('*') && self.is_unknown(member)?;
            if is_unknown && self.server(&Name::new(member))?.is_none() {
                unknown.push(member.clone());
            }
        }
        Ok(unknown)
    }
}

fn choose_group_name(edit: &DirectoryTransaction<'_>, new: &NewGroup) -> Result<Name> {
    if !new.name.trim().is_empty() {
        return Ok(Name::new(&new.name));
    }
    let Some(address) = new.addresses.first() else {
        return Err(Error::name("", "a group needs a name or an address"));
    };
    let address = parse_address(address)?;
    Ok(Name::new(&choose_plain_name(edit, address.local(), &address)?))
}

fn find_group(edit: &mut DirectoryTransaction<'_>, name: &str) -> Result<Group> {
    match edit.find_named(name)? {
        Some(Record::Group(group)) => Ok(group.as_ref().clone()),
        _ => Err(Error::not_found(format!("group {name}"))),
    }
}

/// Adds the members that are not listed yet. Members are compared by key.
fn add_members(group: &mut Group, members: &[String]) {
    let mut known: std::collections::HashSet<LookupKey> =
        group.members.iter().map(|member| LookupKey::address_or_name(member)).collect();
    for member in members.iter().map(|member| member.trim()) {
        if known.insert(LookupKey::address_or_name(member)) {
            group.members.push(member.to_owned());
        }
    }
}

fn remove_members(group: &mut Group, members: &[String]) -> Result<()> {
    if let Some(missing) = members.iter().find(|member| !group.has_member(member)) {
        return Err(Error::not_found(format!("member {missing} of {}", group.label())));
    }
    let gone: std::collections::HashSet<LookupKey> =
        members.iter().map(|member| LookupKey::address_or_name(member)).collect();
    group.members.retain(|member| !gone.contains(&LookupKey::address_or_name(member)));
    Ok(())
}
