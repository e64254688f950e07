//! `doublet user`: people, their addresses, passwords, quotas and mail files.

use directory::{NewUser, Person, UserChange as DirectoryChange};
use notes::{Access, level};
use serde_json::{Value, json};

use super::answer::record;
use super::request::{NewPerson, UserChange, UserRequest};
use super::{Answer, Failure, Outcome};
use crate::config::units::ByteSize;
use crate::core::Core;
use crate::limits::PAGE;

pub(super) fn execute(core: &Core, request: UserRequest) -> Outcome {
    match request {
        UserRequest::Add { address, name, aliases, quota, password, batch: _ } => {
            // The command line sees to it that there is an address.
            let (address, password) = (address.unwrap_or_default(), password.password);
            add(core, &new_user(NewPerson { address, name, password, password_hash: None, quota, aliases })?)
        }
        UserRequest::AddMany { people } => add_many(core, people),
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

fn new_user(person: NewPerson) -> Result<NewUser, Failure> {
    let (first_name, last_name) = split_name(person.name.as_deref().unwrap_or_default());
    Ok(NewUser {
        address: person.address,
        aliases: person.aliases,
        first_name,
        last_name,
        password: person.password.map(|secret| secret.0.into_bytes()),
        password_hash: person.password_hash.map(|secret| secret.0),
        quota_bytes: person.quota.as_deref().map(read_quota).transpose()?.flatten(),
        ..NewUser::default()
    })
}

/// Adds people in one transaction; gives for each null, or why not. Their mail files are made when they are first used.
fn add_many(core: &Core, people: Vec<NewPerson>) -> Outcome {
    let (mut users, mut places) = (Vec::new(), Vec::new());
    let mut outcomes = Vec::new();
    for person in people {
        outcomes.push(match new_user(person) {
            Ok(user) => {
                places.push(outcomes.len());
                users.push(user);
                Value::Null
            }
            Err(failure) => json!(failure.to_string()),
        });
    }
    for (place, added) in places.into_iter().zip(core.directory.users_add(&users)?) {
        if let (Err(error), Some(outcome)) = (added, outcomes.get_mut(place)) {
            *outcome = json!(Failure::from(error).to_string());
        }
    }
    Ok(Answer::list(outcomes))
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
    let deny_list = core.directory.deny_list_of(&person)?;
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
        ("deny_list", json!(deny_list.map(|name| name.to_string()))),
    ]))
}

fn set(core: &Core, change: &UserChange) -> Outcome {
    let wanted = directory_change(change)?;
    if wanted.is_empty() {
        return Err(Failure::nothing_to_change("user set"));
    }
    find(core, &change.who)?;
    let person = core.directory.user_set(&change.who, &wanted)?;
    if let Some(quota_bytes) = wanted.quota_bytes {
        set_quota(core, &person, quota_bytes)?;
    }
    Ok(Answer::say(format!("{} was changed.", person.label())))
}

/// Reads all that shall be changed, so that what is wrong is told before anything is.
fn directory_change(change: &UserChange) -> Result<DirectoryChange, Failure> {
    let name = change.name.as_deref().map(split_name);
    let (first_name, last_name) = name.map_or((None, None), |(first, last)| (Some(first), Some(last)));
    Ok(DirectoryChange {
        first_name,
        last_name,
        password: change.password.password.as_ref().map(|secret| secret.0.clone().into_bytes()),
        primary_address: change.address.clone(),
        addresses_add: change.add_aliases.clone(),
        addresses_remove: change.remove_aliases.clone(),
        quota_bytes: change.quota.as_deref().map(read_quota).transpose()?,
        disabled: match (change.disable, change.enable) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        },
        forward: change.forward.as_deref().map(|text| (text != "none").then(|| text.to_owned())),
        ..DirectoryChange::default()
    })
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
pub(super) fn read_quota(text: &str) -> Result<Option<u64>, Failure> {
    match text {
        "none" => Ok(None),
        text => ByteSize::parse(text).map(|size| Some(size.0)).map_err(Failure::Refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::Request;
    use crate::admin::request::{PasswordArgument, Secret};
    use crate::sample::{PASSWORD, Sample};

    fn user(sample: &Sample, request: UserRequest) -> Result<Answer, Failure> {
        sample.execute(Request::User(request))
    }

    #[test]
    fn a_refused_change_leaves_the_password_alone() {
        let sample = Sample::new();
        let password = PasswordArgument { password: Some(Secret("another one".to_owned())), ..Default::default() };
        let bad =
            UserChange { who: "ann".to_owned(), password, add_aliases: vec!["bad".to_owned()], ..Default::default() };
        user(&sample, UserRequest::Set(bad.clone())).expect_err("no address");
        let login = |password: &str| {
            sample.core.directory.authenticate("ann", password.as_bytes(), std::net::Ipv4Addr::LOCALHOST.into()).is_ok()
        };
        assert!(login(PASSWORD) && !login("another one"));
        user(&sample, UserRequest::Set(UserChange { add_aliases: Vec::new(), ..bad })).expect("it makes sense");
        assert!(login("another one"));
    }

    #[test]
    fn a_change_of_nothing_is_refused() {
        let sample = Sample::new();
        let nothing = UserChange { who: "ann".to_owned(), ..Default::default() };
        let refused = user(&sample, UserRequest::Set(nothing.clone())).expect_err("nothing was said");
        assert!(refused.to_string().contains("user set --help"), "{refused}");
        let name = UserChange { name: Some("Ann B. Archer".to_owned()), ..nothing };
        user(&sample, UserRequest::Set(name)).expect("it makes sense");
        let ann = find(&sample.core, "ann").expect("she is there");
        assert_eq!((ann.first_name.as_str(), ann.last_name.as_str()), ("Ann B.", "Archer"));
    }

    #[test]
    fn many_are_added_and_each_failure_is_told() {
        let sample = Sample::new();
        let person = |address: &str| NewPerson { address: address.to_owned(), ..NewPerson::default() };
        let people = vec![
            person("zoe@acme.test"),
            person("ann@acme.test"),
            NewPerson { quota: Some("much".to_owned()), ..person("yan@acme.test") },
            person("x@far.test"),
            NewPerson {
                quota: Some("1MiB".to_owned()),
                aliases: vec!["w2@acme.test".to_owned()],
                ..person("w@acme.test")
            },
        ];
        let outcomes = user(&sample, UserRequest::AddMany { people }).expect("the store is sound").data;
        let told: Vec<Option<&str>> = outcomes.as_array().expect("a list").iter().map(Value::as_str).collect();
        assert_eq!(told.iter().map(Option::is_none).collect::<Vec<_>>(), [true, false, false, false, true]);
        assert_eq!(
            told[3],
            Some("far.test is not a domain of this server; add it first: `doublet domain add far.test`")
        );
        let added = find(&sample.core, "w2@acme.test").expect("it is there");
        assert_eq!(added.quota_bytes, Some(1 << 20));
    }
}
