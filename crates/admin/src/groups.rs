//! `doublet group`: groups and their members.

use std::sync::Arc;

use directory::{Group, GroupChange, GroupKind, NewGroup};
use instance::Instance;
use serde_json::json;

use super::answer::record;
use super::request::{GroupPurpose, GroupRequest, GroupUpdate};
use super::{AdminError, AdminResult, Answer, format_count};
use crate::directory_entries::all_entries;

pub(super) fn execute(instance: &Instance, request: GroupRequest) -> AdminResult {
    match request {
        GroupRequest::Add { address, members, aliases, kind, description } => {
            let mut new = new_group(&address, members);
            new.addresses.extend(aliases);
            new.kind = kind.map(group_kind).unwrap_or_default();
            new.description = description.unwrap_or_default();
            add_new(instance, &new)
        }
        GroupRequest::List => list(instance),
        GroupRequest::Show { group } => show(instance, &group),
        GroupRequest::Set(update) => set(instance, update),
        GroupRequest::Remove { group } => {
            find(instance, &group)?;
            let removed = instance.directory.group_remove(&group)?;
            Ok(Answer::message(format!("{} was removed.", removed.label())))
        }
    }
}

/// Adds a group. An address with an `@` makes it a mail group; without it the group is only a list of names.
pub fn add(instance: &Instance, address: &str, members: Vec<String>) -> AdminResult {
    add_new(instance, &new_group(address, members))
}

fn new_group(address: &str, members: Vec<String>) -> NewGroup {
    match address.contains('@') {
        true => NewGroup { addresses: vec![address.to_owned()], members, ..NewGroup::default() },
        false => NewGroup { name: address.to_owned(), members, ..NewGroup::default() },
    }
}

fn add_new(instance: &Instance, new: &NewGroup) -> AdminResult {
    let group = instance.directory.group_add(new)?;
    with_warning(instance, &group, format!("{} was added with {}.", group.label(), members_of(&group)))
}

fn set(instance: &Instance, update: GroupUpdate) -> AdminResult {
    let GroupUpdate { group, add_members, remove_members, add_aliases, remove_aliases, kind, description } = update;
    let lists = [&add_members, &remove_members, &add_aliases, &remove_aliases];
    if lists.iter().all(|list| list.is_empty()) && kind.is_none() && description.is_none() {
        return Err(AdminError::nothing_to_change("group set"));
    }
    find(instance, &group)?;
    let change = GroupChange {
        description,
        kind: kind.map(group_kind),
        addresses_add: add_aliases,
        addresses_remove: remove_aliases,
        members_add: add_members,
        members_remove: remove_members,
    };
    let changed = instance.directory.group_set(&group, &change)?;
    with_warning(instance, &changed, format!("{} was changed: {}.", changed.label(), members_of(&changed)))
}

fn members_of(group: &Group) -> String {
    format_count(group.members.len(), "member", "members")
}

fn group_kind(purpose: GroupPurpose) -> GroupKind {
    match purpose {
        GroupPurpose::MultiPurpose => GroupKind::MultiPurpose,
        GroupPurpose::Mail => GroupKind::MailOnly,
        GroupPurpose::Acl => GroupKind::AclOnly,
        GroupPurpose::DenyList => GroupKind::DenyList,
        GroupPurpose::Servers => GroupKind::ServersOnly,
    }
}

fn list(instance: &Instance) -> AdminResult {
    let row = |group: &Arc<Group>| {
        record(vec![
            ("address", json!(group.address().map(ToString::to_string))),
            ("name", json!(group.name.to_string())),
            ("kind", json!(group.kind.name())),
            ("members", json!(group.members.len())),
        ])
    };
    let groups = all_entries(&|position, limit| instance.directory.groups(position, limit))?;
    Ok(Answer::list(groups.iter().map(row).collect()))
}

fn show(instance: &Instance, name: &str) -> AdminResult {
    let group = find(instance, name)?;
    Ok(Answer::record(vec![
        ("name", json!(group.name.to_string())),
        ("addresses", json!(group.addresses.iter().map(ToString::to_string).collect::<Vec<_>>())),
        ("kind", json!(group.kind.name())),
        ("description", json!(group.description)),
        ("members", json!(group.members)),
        ("unknown_members", json!(instance.directory.unknown_members(&group)?)),
    ]))
}

fn find(instance: &Instance, name: &str) -> Result<std::sync::Arc<Group>, AdminError> {
    instance.directory.group(name)?.ok_or_else(|| AdminError::no_such("group", name))
}

fn with_warning(instance: &Instance, group: &Group, text: String) -> AdminResult {
    let unknown = instance.directory.unknown_members(group)?;
    let answer = Answer::message(text);
    if unknown.is_empty() {
        return Ok(answer);
    }
    Ok(answer.with_message(format!("The directory does not contain these members: {}.", unknown.join(", "))))
}
