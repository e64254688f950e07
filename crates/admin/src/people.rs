//! `doublet user`: people, their addresses, passwords, quotas and mail files.
//!
//! The directory and a mail file change in two transactions. If a change concerns a mail file, it is opened before the
//! directory is changed, so that a mail file that does not open leaves everything unchanged. If the second transaction
//! still fails, the error says what is done and what is left to do.

use config::units::ByteSize;
use directory::{NewUser, Person, PersonChange};
use instance::Instance;
use notes::{Access, level};
use serde_json::{Value, json};

use super::answer::record;
use super::request::{NewUserRequest, UserRequest, UserUpdate};
use super::{AdminError, AdminResult, Answer};
use crate::limits::DIRECTORY_PAGE_SIZE;

pub(super) fn execute(instance: &Instance, request: UserRequest) -> AdminResult {
    match request {
        UserRequest::Add { address, name, aliases, quota, password, batch: _ } => {
            // The command line ensures that there is an address.
            let address = address.unwrap_or_default();
            let password = password.password;
            add(instance, &new_user(NewUserRequest { address, name, password, password_hash: None, quota, aliases })?)
        }
        UserRequest::AddMany { people } => add_many(instance, people),
        UserRequest::List { domain } => list(instance, domain.as_deref()),
        UserRequest::Show { person } => show(instance, &person),
        UserRequest::Set(change) => set(instance, &change),
        UserRequest::Remove { person, delete_mail } => remove(instance, &person, delete_mail),
    }
}

/// Adds a person with a mail file.
pub fn add(instance: &Instance, new: &NewUser) -> AdminResult {
    let person = instance.directory.user_add(new)?;
    let made =
        instance.mail.create_if_missing(&person.mail_file, &person.display_name(), &person.name, person.quota_bytes);
    made.map_err(|error| {
        let done =
            format!("{} was added nevertheless; the mail file will be created when it is first used.", person.label());
        AdminError::from(error).with_partial_result(done)
    })?;
    let answer = Answer::message(format!("{} was added, with the mail file {}.", person.label(), person.mail_file));
    if person.has_password() {
        return Ok(answer);
    }
    Ok(answer.with_message(format!(
        "The account has no password yet; `doublet user set {} --password-stdin` sets one.",
        new.address
    )))
}

fn new_user(person: NewUserRequest) -> Result<NewUser, AdminError> {
    let (first_name, last_name) = split_name(person.name.as_deref().unwrap_or_default());
    Ok(NewUser {
        address: person.address,
        aliases: person.aliases,
        first_name,
        last_name,
        password: person.password.map(|secret| secret.0.into_bytes()),
        password_hash: person.password_hash.map(|secret| secret.0),
        quota_bytes: person.quota.as_deref().map(parse_quota).transpose()?.flatten(),
        ..NewUser::default()
    })
}

/// Adds people in one transaction. The answer lists one value per person: null, or the text of the error. Their mail
/// files are created at first use.
fn add_many(instance: &Instance, people: Vec<NewUserRequest>) -> AdminResult {
    let mut users = Vec::new();
    let mut places = Vec::new();
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
    for (place, added) in places.into_iter().zip(instance.directory.users_add(&users)?) {
        if let (Err(error), Some(outcome)) = (added, outcomes.get_mut(place)) {
            *outcome = json!(AdminError::from(error).to_string());
        }
    }
    Ok(Answer::list(outcomes))
}

/// Finds a person by address, login or name.
pub fn find(instance: &Instance, name: &str) -> Result<std::sync::Arc<Person>, AdminError> {
    instance.directory.person(name)?.ok_or_else(|| AdminError::no_such("user", name))
}

fn list(instance: &Instance, domain: Option<&str>) -> AdminResult {
    let mut rows = Vec::new();
    let mut position = 0;
    loop {
        let page = instance.directory.users(position, DIRECTORY_PAGE_SIZE)?;
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

fn show(instance: &Instance, name: &str) -> AdminResult {
    let person = find(instance, name)?;
    let used = match instance.mail.open_as_server(&person.mail_file) {
        Ok(file) => Some(file.quota()?.used_bytes),
        Err(mail::Error::Notes(notes::Error::NotFound { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    let groups: Vec<String> = instance.directory.identity(&person)?.groups.iter().map(ToString::to_string).collect();
    let deny_list = instance.directory.deny_list_of(&person)?;
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
        ("second_factor", json!(person.second_factor().is_some())),
        ("application_passwords", json!(person.application_passwords().len())),
        ("disabled", json!(person.disabled)),
        ("deny_list", json!(deny_list.map(|name| name.to_string()))),
    ]))
}

fn set(instance: &Instance, change: &UserUpdate) -> AdminResult {
    let wanted = directory_change(change)?;
    if wanted.is_empty() {
        return Err(AdminError::nothing_to_change("user set"));
    }
    let person = find(instance, &change.person)?;
    if wanted.quota_bytes.is_some() {
        mail_file(instance, &person)?;
    }
    let person = instance.directory.user_set(&change.person, &wanted)?;
    if let Some(quota_bytes) = wanted.quota_bytes {
        set_quota(instance, &person, quota_bytes).map_err(|failure| {
            let label = person.label();
            let who = person.address().map_or_else(|| person.name.to_string(), ToString::to_string);
            failure.with_partial_result(format!(
                "{label} was changed, except for the quota of the mail file: `doublet user set {who} --quota SIZE` sets it."
            ))
        })?;
    }
    Ok(Answer::message(format!("{} was changed.", person.label())))
}

/// Parses all requested changes, so that an invalid value is reported before anything is changed.
fn directory_change(change: &UserUpdate) -> Result<PersonChange, AdminError> {
    let name = change.name.as_deref().map(split_name);
    let (first_name, last_name) = name.map_or((None, None), |(first, last)| (Some(first), Some(last)));
    Ok(PersonChange {
        first_name,
        last_name,
        password: change.password.password.as_ref().map(|secret| secret.0.clone().into_bytes()),
        primary_address: change.address.clone(),
        addresses_add: change.add_aliases.clone(),
        addresses_remove: change.remove_aliases.clone(),
        quota_bytes: change.quota.as_deref().map(parse_quota).transpose()?,
        disabled: match (change.disable, change.enable) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        },
        remove_second_factor: change.remove_second_factor,
        forward: change.forward.as_deref().map(|text| (text != "none").then(|| text.to_owned())),
        ..PersonChange::default()
    })
}

/// Sets the quota of a mail file. A mail file that does not exist yet needs no change, because it is created with the
/// quota in the directory.
pub fn set_quota(instance: &Instance, person: &Person, quota_bytes: Option<u64>) -> Result<(), AdminError> {
    let Some(access) = mail_file(instance, person)? else { return Ok(()) };
    let record = access.database().record();
    let options = notes::DatabaseOptions { quota_bytes, ..record.options };
    Ok(instance.databases.database_options_set(&access, &record.title, options)?)
}

fn remove(instance: &Instance, name: &str, delete_mail: bool) -> AdminResult {
    let person = find(instance, name)?;
    if delete_mail {
        mail_file(instance, &person)?;
    }
    let person = instance.directory.user_remove(person.name.canonical())?;
    let answer = Answer::message(format!("{} was removed.", person.label()));
    if !delete_mail {
        return Ok(answer.with_message(format!(
            "The mail file {} was kept; `doublet db delete {0}` deletes it.",
            person.mail_file
        )));
    }
    delete_mail_file(instance, &person).map_err(|failure| {
        let label = person.label();
        let path = &person.mail_file;
        failure.with_partial_result(format!(
            "{label} was removed, but the mail file was kept; `doublet db delete {path}` deletes it."
        ))
    })?;
    Ok(answer.with_message(format!("The mail file {} was deleted.", person.mail_file)))
}

fn delete_mail_file(instance: &Instance, person: &Person) -> Result<(), AdminError> {
    match mail_file(instance, person)? {
        Some(access) => Ok(instance.databases.database_delete(&access)?),
        None => Ok(()),
    }
}

/// Opens the mail file of a person. Returns `None` if it does not exist yet.
fn mail_file(instance: &Instance, person: &Person) -> Result<Option<Access<level::Manager>>, AdminError> {
    match open_as_manager(instance, &person.mail_file) {
        Ok(access) => Ok(Some(access)),
        Err(AdminError::Notes(notes::Error::NotFound { .. })) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Opens a database with the rights of this server.
pub fn open_as_manager(instance: &Instance, path: &str) -> Result<Access<level::Manager>, AdminError> {
    let database = instance.databases.database_open(path)?;
    let identity = std::sync::Arc::new(notes::Identity::local_server(instance.directory.options().server.clone()));
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

/// Parses a quota; `none` means no limit.
pub(super) fn parse_quota(text: &str) -> Result<Option<u64>, AdminError> {
    match text {
        "none" => Ok(None),
        text => ByteSize::parse(text).map(|size| Some(size.0)).map_err(AdminError::Refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;
    use crate::request::{PasswordOptions, SecretText};
    use crate::tests::ExecuteRequest;
    use sample::{PASSWORD, Sample};

    fn user(sample: &Sample, request: UserRequest) -> Result<Answer, AdminError> {
        sample.execute(Request::User(request))
    }

    #[test]
    fn refused_change_keeps_the_password() {
        let sample = Sample::new();
        let password = PasswordOptions { password: Some(SecretText("another one".to_owned())), ..Default::default() };
        let bad = UserUpdate {
            person: "ann".to_owned(),
            password,
            add_aliases: vec!["bad".to_owned()],
            ..Default::default()
        };
        user(&sample, UserRequest::Set(bad.clone())).expect_err("no address");
        let login = |password: &str| {
            sample
                .instance
                .directory
                .authenticate("ann", password.as_bytes(), &sasl::LoginOrigin::local(sasl::LoginProtocol::Imap))
                .is_ok()
        };
        assert!(login(PASSWORD) && !login("another one"));
        user(&sample, UserRequest::Set(UserUpdate { add_aliases: Vec::new(), ..bad })).expect("it makes sense");
        assert!(login("another one"));
    }

    /// Overwrites a record of the store with invalid content, while no open database has it in memory.
    fn damage(sample: &Sample, table: store::Table, key: &[u8]) {
        sample.instance.databases.close_idle();
        let mut batch = store::Batch::new();
        batch.put(table, key, b"?");
        sample.instance.store.engine().write(&batch).expect("the disk is well");
    }

    #[test]
    fn damaged_mail_file_prevents_changes_of_its_owner() {
        let sample = Sample::new();
        let number =
            open_as_manager(&sample.instance, "mail/ann.nsf").expect("the mail file exists").database().number();
        damage(&sample, store::Table::Meta, &[&number.to_key()[..], b"c"].concat());
        let before = find(&sample.instance, "ann").expect("the user exists");
        let password = PasswordOptions { password: Some(SecretText("another one".to_owned())), ..Default::default() };
        let change =
            UserUpdate { person: "ann".to_owned(), password, quota: Some("1GiB".to_owned()), ..Default::default() };
        for request in [UserRequest::Set(change), UserRequest::Remove { person: "ann".to_owned(), delete_mail: true }] {
            let failure = user(&sample, request).expect_err("the mail file is damaged");
            assert!(failure.to_string().contains("damaged record"), "{failure}");
            assert_eq!(find(&sample.instance, "ann").expect("the user exists"), before);
        }
        user(&sample, UserRequest::Remove { person: "ann".to_owned(), delete_mail: false }).expect("it is not touched");
    }

    #[test]
    fn partial_failure_reports_the_completed_step() {
        let sample = Sample::new();
        damage(&sample, store::Table::Catalog, b"#");
        let zoe = UserRequest::Add {
            address: Some("zoe@acme.test".to_owned()),
            name: None,
            aliases: Vec::new(),
            quota: None,
            password: PasswordOptions::default(),
            batch: None,
        };
        let failure = user(&sample, zoe).expect_err("no database can be made");
        assert!(matches!(failure, AdminError::Partial { .. }), "{failure}");
        assert!(failure.to_string().contains("zoe@acme.test was added nevertheless"), "{failure}");
        find(&sample.instance, "zoe").expect("she was added");
    }

    #[test]
    fn quota_without_a_mail_file_is_stored_in_the_directory() {
        let sample = Sample::new();
        let zoe = NewUserRequest { address: "zoe@acme.test".to_owned(), ..NewUserRequest::default() };
        user(&sample, UserRequest::AddMany { people: vec![zoe] }).expect("it is free");
        let change = UserUpdate { person: "zoe".to_owned(), quota: Some("1MiB".to_owned()), ..Default::default() };
        user(&sample, UserRequest::Set(change)).expect("it makes sense");
        let zoe = find(&sample.instance, "zoe").expect("the user exists");
        assert!(mail_file(&sample.instance, &zoe).expect("the catalog can be read").is_none());
        assert_eq!(zoe.quota_bytes, Some(1 << 20));
    }

    #[test]
    fn empty_change_is_refused() {
        let sample = Sample::new();
        let nothing = UserUpdate { person: "ann".to_owned(), ..Default::default() };
        let refused = user(&sample, UserRequest::Set(nothing.clone())).expect_err("the change is empty");
        assert!(refused.to_string().contains("user set --help"), "{refused}");
        let name = UserUpdate { name: Some("Ann B. Archer".to_owned()), ..nothing };
        user(&sample, UserRequest::Set(name)).expect("it makes sense");
        let ann = find(&sample.instance, "ann").expect("the user exists");
        assert_eq!((ann.first_name.as_str(), ann.last_name.as_str()), ("Ann B.", "Archer"));
    }

    #[test]
    fn add_many_reports_each_failure() {
        let sample = Sample::new();
        let person = |address: &str| NewUserRequest { address: address.to_owned(), ..NewUserRequest::default() };
        let people = vec![
            person("zoe@acme.test"),
            person("ann@acme.test"),
            NewUserRequest { quota: Some("much".to_owned()), ..person("yan@acme.test") },
            person("x@far.test"),
            NewUserRequest {
                quota: Some("1MiB".to_owned()),
                aliases: vec!["w2@acme.test".to_owned()],
                ..person("w@acme.test")
            },
        ];
        let outcomes = user(&sample, UserRequest::AddMany { people }).expect("the store is sound").data;
        let failures: Vec<Option<&str>> = outcomes.as_array().expect("a list").iter().map(Value::as_str).collect();
        assert_eq!(failures.iter().map(Option::is_none).collect::<Vec<_>>(), [true, false, false, false, true]);
        assert_eq!(
            failures[3],
            Some("far.test is not a domain of this server; add it first: `doublet domain add far.test`")
        );
        let added = find(&sample.instance, "w2@acme.test").expect("the user exists");
        assert_eq!(added.quota_bytes, Some(1 << 20));
    }
}
