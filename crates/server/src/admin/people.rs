//! `doublet user`: people, their addresses, passwords, quotas and mail files.

use directory::{NewUser, Person, UserChange as DirectoryChange};
use notes::{Access, level};
use serde_json::json;

use super::answer::record;
use super::request::{UserChange, UserRequest};
use super::{Answer, Failure, Outcome};
use crate::config::units::ByteSize;
use crate::core::Core;

/// People that are read from the directory at once.
const PAGE: usize = 500;

pub(super) fn execute(core: &Core, request: UserRequest) -> Outcome {
    match request {
        UserRequest::Add { address, name, aliases, quota, password } => {
            let (first_name, last_name) = split_name(name.as_deref().unwrap_or_default());
            let new = NewUser {
                address,
                aliases,
                first_name,
                last_name,
                password: password.password.map(|secret| secret.0.into_bytes()),
                quota_bytes: quota.as_deref().map(read_quota).transpose()?.flatten(),
                ..NewUser::default()
            };
            add(core, &new)
        }
        UserRequest::List { domain } => list(core, domain.as_deref()),
        UserRequest::Show { who } => show(core, &who),
        UserRequest::Set(change) => set(core, &change),
        UserRequest::Remove { who, delete_mail } => remove(core, &who, delete_mail),
    }
}

/// Adds a person with a mail file.
pub(crate) fn add(core: &Core, new: &NewUser) -> Outcome {
    let person = core.directory.user_add(new)?;
    core.mail.ensure(&person.mail_file, &person.display_name(), &person.name, person.quota_bytes)?;
    let answer = Answer::say(format!("{} was added, with the mail file {}.", person.label(), person.mail_file));
    if person.has_password() {
        return Ok(answer);
    }
    Ok(answer
        .and(format!("Nobody can log in yet: `doublet user set {} --password-stdin` sets a password.", new.address)))
}

/// Finds a person by address, login or name.
pub(crate) fn find(core: &Core, who: &str) -> Result<std::sync::Arc<Person>, Failure> {
    core.directory.person(who)?.ok_or_else(|| Failure::no_such("user", who))
}

fn list(core: &Core, domain: Option<&str>) -> Outcome {
    let mut rows = Vec::new();
    let mut position = 0;
    loop {
        let page = core.directory.users(position, PAGE)?;
        if page.entries.is_empty() {
            break;
        }
        position += page.entries.len() as u64;
        let of_domain = |person: &&std::sync::Arc<Person>| {
            let wanted =
                |domain: &str| person.addresses.iter().any(|address| address.domain().eq_ignore_ascii_case(domain));
            domain.is_none_or(wanted)
        };
        for person in page.entries.iter().filter(of_domain) {
            rows.push(record(vec![
                ("address", json!(person.address().map(ToString::to_string))),
                ("name", json!(person.display_name())),
                ("aliases", json!(addresses(person).skip(1).collect::<Vec<_>>())),
                ("quota_bytes", json!(person.quota_bytes)),
                ("password", json!(person.has_password())),
                ("disabled", json!(person.disabled)),
            ]));
        }
    }
    Ok(Answer::list(rows))
}

fn show(core: &Core, who: &str) -> Outcome {
    let person = find(core, who)?;
    let used = match core.mail.open_as_server(&person.mail_file) {
        Ok(file) => Some(file.quota()?.used_bytes),
        Err(mail::Error::Notes(notes::Error::NotFound { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    let groups: Vec<String> = core.directory.identity(&person)?.groups.iter().map(ToString::to_string).collect();
    Ok(Answer::record(vec![
        ("address", json!(person.address().map(ToString::to_string))),
        ("name", json!(person.name.to_string())),
        ("aliases", json!(addresses(&person).skip(1).collect::<Vec<_>>())),
        ("logins", json!(person.logins())),
        ("groups", json!(groups)),
        ("mail_file", json!(person.mail_file)),
        ("used_bytes", json!(used)),
        ("quota_bytes", json!(person.quota_bytes)),
        ("forward", json!(person.forward)),
        ("password", json!(person.has_password())),
        ("disabled", json!(person.disabled)),
    ]))
}

fn set(core: &Core, change: &UserChange) -> Outcome {
    let quota = change.quota.as_deref().map(read_quota).transpose()?;
    let disabled = match (change.disable, change.enable) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let forward = change.forward.as_deref().map(|text| (text != "none").then(|| text.to_owned()));
    if let Some(Some(address)) = &forward {
        directory::Address::parse(address).map_err(|why| Failure::Refused(format!("{address:?}: {why}")))?;
    }
    let person = find(core, &change.who)?;
    if let Some(password) = &change.password.password {
        core.directory.password_set(&change.who, password.0.as_bytes())?;
    }
    let wanted = DirectoryChange {
        addresses_add: change.add_aliases.clone(),
        addresses_remove: change.remove_aliases.clone(),
        quota_bytes: quota,
        disabled,
        forward,
        ..DirectoryChange::default()
    };
    core.directory.user_set(&change.who, &wanted)?;
    if let Some(quota_bytes) = quota {
        set_quota(core, &person, quota_bytes)?;
    }
    Ok(Answer::say(format!("{} was changed.", person.label())))
}

/// Changes how much a mail file may hold.
pub(crate) fn set_quota(core: &Core, person: &Person, quota_bytes: Option<u64>) -> Result<(), Failure> {
    core.mail.ensure(&person.mail_file, &person.display_name(), &person.name, quota_bytes)?;
    let access = manager(core, &person.mail_file)?;
    let record = access.database().record();
    let options = notes::DatabaseOptions { quota_bytes, ..record.options };
    Ok(core.notes.database_set(&access, &record.title, options)?)
}

fn remove(core: &Core, who: &str, delete_mail: bool) -> Outcome {
    let person = core.directory.user_remove(&find(core, who).map(|person| person.name.canonical().to_owned())?)?;
    let answer = Answer::say(format!("{} was removed.", person.label()));
    if !delete_mail {
        return Ok(answer.and(format!("The mail file {} stays; `doublet db delete {0}` deletes it.", person.mail_file)));
    }
    match manager(core, &person.mail_file) {
        Ok(access) => core.notes.database_delete(&access)?,
        Err(Failure::Notes(notes::Error::NotFound { .. })) => {}
        Err(failure) => return Err(failure),
    }
    Ok(answer.and(format!("The mail file {} was deleted.", person.mail_file)))
}

/// Opens a database as the server itself.
pub(crate) fn manager(core: &Core, path: &str) -> Result<Access<level::Manager>, Failure> {
    let database = core.notes.database_open(path)?;
    let identity = std::sync::Arc::new(notes::Identity::local_server(core.directory.options().server.clone()));
    Ok(database.authorize(&identity)?)
}

fn addresses(person: &Person) -> impl Iterator<Item = String> {
    person.addresses.iter().map(ToString::to_string)
}

fn split_name(name: &str) -> (String, String) {
    match name.trim().rsplit_once(' ') {
        Some((first, last)) => (first.trim().to_owned(), last.to_owned()),
        None => (String::new(), name.trim().to_owned()),
    }
}

/// Reads a quota; `none` is no limit.
fn read_quota(text: &str) -> Result<Option<u64>, Failure> {
    match text {
        "none" => Ok(None),
        text => ByteSize::parse(text).map(|size| Some(size.0)).map_err(Failure::Refused),
    }
}
