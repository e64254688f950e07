//! `doublet group`: groups and their members.

use directory::{Group, GroupChange, NewGroup};
use serde_json::json;

use super::answer::record;
use super::request::GroupRequest;
use super::{Answer, Failure, Outcome};
use crate::core::Core;

/// Groups that are read from the directory at once.
const PAGE: usize = 500;

pub(super) fn execute(core: &Core, request: GroupRequest) -> Outcome {
    match request {
        GroupRequest::Add { address, members } => add(core, &address, members),
        GroupRequest::List => list(core),
        GroupRequest::Show { group } => show(core, &group),
        GroupRequest::Set { group, add_members, remove_members } => {
            find(core, &group)?;
            let change =
                GroupChange { members_add: add_members, members_remove: remove_members, ..GroupChange::default() };
            let changed = core.directory.group_set(&group, &change)?;
            with_warning(core, &changed, format!("{} was changed: {} members.", changed.label(), changed.members.len()))
        }
        GroupRequest::Remove { group } => {
            find(core, &group)?;
            let removed = core.directory.group_remove(&group)?;
            Ok(Answer::say(format!("{} was removed.", removed.label())))
        }
    }
}

/// Adds a group: with an `@` it gets mail, without it is only a list of names.
pub(crate) fn add(core: &Core, address: &str, members: Vec<String>) -> Outcome {
    let new = if address.contains('@') {
        NewGroup { addresses: vec![address.to_owned()], members, ..NewGroup::default() }
    } else {
        NewGroup { name: address.to_owned(), members, ..NewGroup::default() }
    };
    let group = core.directory.group_add(&new)?;
    with_warning(core, &group, format!("{} was added with {} members.", group.label(), group.members.len()))
}

fn list(core: &Core) -> Outcome {
    let mut rows = Vec::new();
    let mut position = 0;
    loop {
        let page = core.directory.groups(position, PAGE)?;
        if page.entries.is_empty() {
            return Ok(Answer::list(rows));
        }
        position += page.entries.len() as u64;
        rows.extend(page.entries.iter().map(|group| {
            record(vec![
                ("address", json!(group.address().map(ToString::to_string))),
                ("name", json!(group.name.to_string())),
                ("kind", json!(group.kind.name())),
                ("members", json!(group.members.len())),
            ])
        }));
    }
}

fn show(core: &Core, name: &str) -> Outcome {
    let group = find(core, name)?;
    Ok(Answer::record(vec![
        ("name", json!(group.name.to_string())),
        ("addresses", json!(group.addresses.iter().map(ToString::to_string).collect::<Vec<_>>())),
        ("kind", json!(group.kind.name())),
        ("description", json!(group.description)),
        ("members", json!(group.members)),
        ("unknown_members", json!(core.directory.members_unknown(&group)?)),
    ]))
}

fn find(core: &Core, name: &str) -> Result<std::sync::Arc<Group>, Failure> {
    core.directory.group(name)?.ok_or_else(|| Failure::no_such("group", name))
}

fn with_warning(core: &Core, group: &Group, text: String) -> Outcome {
    let unknown = core.directory.members_unknown(group)?;
    let answer = Answer::say(text);
    if unknown.is_empty() {
        return Ok(answer);
    }
    Ok(answer.and(format!("These members are nobody here: {}.", unknown.join(", "))))
}
