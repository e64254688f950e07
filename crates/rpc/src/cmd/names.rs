//! Name lookup in the directory.
//!
//! Every user may call it, so a reply contains what the sender of a message needs, and no more. Deny lists are unknown
//! names, because they name people who have lost access. The path of a mail file is returned to its owner only.

use directory::{Address, Group, GroupKind, Person};
use proto::v1;
use proto::v1::name_entry::Kind;

use super::{CallContext, check_count};
use crate::error::Result;
use crate::limits::{LOGIN_BYTES_MAX, LOOKUPS_MAX, STEPS_PER_NAME};
use crate::service::CallOutcome;

/// Resolves names to the people, groups and remote addresses that they stand for.
pub(crate) fn lookup(
    context: &CallContext,
    request: &v1::LookupNamesRequest,
) -> Result<CallOutcome<v1::LookupNamesReply>> {
    let caller = context.person()?;
    check_count(request.names.len(), "names of a call", LOOKUPS_MAX)?;
    let resolve = |query: &String| resolve_name(context, caller.as_deref(), query);
    let entries = request.names.iter().map(resolve).collect::<Result<_>>()?;
    Ok(CallOutcome::immediate(v1::LookupNamesReply { entries }))
}

fn resolve_name(context: &CallContext, caller: Option<&Person>, query: &str) -> Result<v1::NameEntry> {
    context.spend(STEPS_PER_NAME)?;
    let directory = &context.services.directory;
    let entry = v1::NameEntry { query: query.to_owned(), ..v1::NameEntry::default() };
    if entry.query.len() > LOGIN_BYTES_MAX {
        return Ok(entry);
    }
    if let Some(person) = directory.person(&entry.query)?.filter(|person| !person.disabled) {
        let is_caller = caller.is_some_and(|caller| caller.note == person.note);
        let mail_file = if is_caller { person.mail_file.clone() } else { String::new() };
        return Ok(v1::NameEntry { mail_file, ..person_entry(entry, &person) });
    }
    if let Some(group) = directory.group(&entry.query)?.filter(|group| group.kind != GroupKind::DenyList) {
        return Ok(group_entry(entry, &group));
    }
    // A local address is not resolved any further, because that may expand a group.
    match Address::parse(&entry.query) {
        Ok(address) if !directory.domain_is_local(address.domain())? => {
            Ok(v1::NameEntry { kind: Kind::Remote.into(), address: address.to_string(), ..entry })
        }
        _ => Ok(entry),
    }
}

fn person_entry(entry: v1::NameEntry, person: &Person) -> v1::NameEntry {
    v1::NameEntry {
        kind: Kind::Person.into(),
        name: person.name.canonical().to_owned(),
        address: person.address().map(ToString::to_string).unwrap_or_default(),
        display_name: person.display_name(),
        ..entry
    }
}

fn group_entry(entry: v1::NameEntry, group: &Group) -> v1::NameEntry {
    v1::NameEntry {
        kind: Kind::Group.into(),
        name: group.name.canonical().to_owned(),
        address: group.addresses.first().map(ToString::to_string).unwrap_or_default(),
        ..entry
    }
}
