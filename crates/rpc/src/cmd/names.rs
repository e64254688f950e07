//! Name lookup in the directory.

use directory::{Group, Person, Resolution};
use proto::v1;
use proto::v1::name_entry::Kind;

use super::{CallContext, check_count};
use crate::error::Result;
use crate::limits::{LOGIN_BYTES_MAX, LOOKUPS_MAX};
use crate::service::CallOutcome;

/// Resolves names to the people, groups and remote addresses that they stand for.
pub(crate) fn lookup(
    context: &CallContext,
    request: v1::LookupNamesRequest,
) -> Result<CallOutcome<v1::LookupNamesReply>> {
    context.identity()?;
    check_count(request.names.len(), "names of a call", LOOKUPS_MAX)?;
    let entries = request.names.into_iter().map(|query| resolve_name(context, query)).collect::<Result<_>>()?;
    Ok(CallOutcome::immediate(v1::LookupNamesReply { entries }))
}

fn resolve_name(context: &CallContext, query: String) -> Result<v1::NameEntry> {
    let directory = &context.services.directory;
    let entry = v1::NameEntry { query, ..v1::NameEntry::default() };
    if entry.query.len() > LOGIN_BYTES_MAX {
        return Ok(entry);
    }
    if let Some(person) = directory.person(&entry.query)?.filter(|person| !person.disabled) {
        return Ok(person_entry(entry, &person));
    }
    if let Some(group) = directory.group(&entry.query)? {
        return Ok(group_entry(entry, &group));
    }
    if let Resolution::Remote(address) = directory.resolve(&entry.query)? {
        return Ok(v1::NameEntry { kind: Kind::Remote.into(), address: address.to_string(), ..entry });
    }
    Ok(entry)
}

fn person_entry(entry: v1::NameEntry, person: &Person) -> v1::NameEntry {
    v1::NameEntry {
        kind: Kind::Person.into(),
        name: person.name.canonical().to_owned(),
        address: person.address().map(ToString::to_string).unwrap_or_default(),
        display_name: person.display_name(),
        mail_file: person.mail_file.clone(),
        ..entry
    }
}

fn group_entry(entry: v1::NameEntry, group: &Group) -> v1::NameEntry {
    v1::NameEntry {
        kind: Kind::Group.into(),
        name: group.name.canonical().to_owned(),
        address: group.addresses.first().map(ToString::to_string).unwrap_or_default(),
        members: u32::try_from(group.members.len()).unwrap_or(u32::MAX),
        ..entry
    }
}
