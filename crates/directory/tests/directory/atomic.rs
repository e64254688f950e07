//! Tests of changes with several parts: they are made completely or not at all, readers see them as one step, and a
//! crash leaves no partial change.

use std::sync::Arc;

use directory::limits::USERS_AT_ONCE_MAX;
use directory::{Error, NewDomain, NewUser, PersonChange, Resolution};
use notes::{Access, Acl, AclLevel, DatabaseKind, Identity, NewDatabase, level};

use crate::fixture::{World, error_text, home, imap, password_of};

const ACME: &str = "domain acme.test
    user ann@acme.test
    user bob@acme.test";

fn mail_file(world: &World, path: &str) -> Access<level::Manager> {
    let new = NewDatabase::new(path, path, DatabaseKind::Mail, Acl::open_to_all(AclLevel::NoAccess));
    let database = world.databases.database_create(&new).expect("it is new");
    database.authorize(&Arc::new(Identity::local_server("hub"))).expect("the server has access")
}

#[test]
fn rename_moves_mail_file_and_owner_atomically() {
    let world = World::new(ACME);
    let access = mail_file(&world, "mail/ann.nsf");
    let moved = world.directory.mail_file_rename(&access, "mail/moved.nsf").expect("it is free");
    assert_eq!(moved.map(|person| person.mail_file.clone()).as_deref(), Some("mail/moved.nsf"));
    drop(access);
    let world = world.crash();
    let ann = world.directory.person("ann").expect("readable").expect("exists");
    assert_eq!(ann.mail_file, "mail/moved.nsf");
    assert!(world.databases.database_exists("mail/moved.nsf").expect("readable"));
    assert!(!world.databases.database_exists("mail/ann.nsf").expect("readable"));
    let holder = |path| world.directory.mail_file_holder(path).expect("readable").map(|person| person.note);
    assert_eq!((holder("MAIL/moved.nsf"), holder("mail/ann.nsf")), (Some(ann.note), None));
}

#[test]
fn rename_to_a_taken_path_changes_nothing() {
    let world = World::new(ACME);
    let access = mail_file(&world, "mail/ann.nsf");
    let refused = error_text(world.directory.mail_file_rename(&access, "mail/bob.nsf"));
    assert_eq!(refused, "mail file mail/bob.nsf is already taken by user bob@acme.test");
    assert!(error_text(world.directory.mail_file_rename(&access, "../x")).contains("database path"));
    assert_eq!(access.database().path(), "mail/ann.nsf");
    assert!(world.databases.database_exists("mail/ann.nsf").expect("readable"));
    let other = mail_file(&world, "plans.nsf");
    assert!(world.directory.mail_file_rename(&other, "plans/2026.nsf").expect("it is free").is_none());
    assert_eq!(other.database().path(), "plans/2026.nsf");
}

#[test]
fn path_of_an_uncreated_mail_file_is_reserved() {
    let world = World::new(ACME);
    let plans = mail_file(&world, "plans.nsf");
    let taken = "mail file mail/bob.nsf is already taken by user bob@acme.test";
    assert_eq!(error_text(world.directory.mail_file_rename(&plans, "Mail/Bob.nsf")).to_lowercase(), taken);
    let new = |path| NewDatabase::new(path, path, DatabaseKind::Standard, Acl::open_to_all(AclLevel::NoAccess));
    assert_eq!(error_text(world.directory.database_create(&new("mail/bob.nsf"))), taken);
    assert_eq!(plans.database().path(), "plans.nsf");
    assert!(!world.databases.database_exists("mail/bob.nsf").expect("readable"));
    world.directory.database_create(&new("mail/carl.nsf")).expect("it is free");
}

#[test]
fn concurrent_renames_keep_the_path_of_the_owner() {
    let world = World::new(ACME);
    let access = mail_file(&world, "mail/ann.nsf");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let directory = &world.directory;
            let access = &access;
            scope.spawn(move || {
                for number in 0..100 {
                    directory.mail_file_rename(access, &format!("mail/{thread}-{number}.nsf")).expect("it is free");
                }
            });
        }
    });
    let ann = world.directory.person("ann").expect("readable").expect("exists");
    assert_eq!(ann.mail_file, access.database().path());
}

#[test]
fn user_change_is_atomic() {
    let world = World::new(ACME);
    let before = world.directory.database().modseq();
    let change = PersonChange {
        password: Some(b"another password".to_vec()),
        addresses_add: vec!["bob@acme.test".to_owned()],
        ..PersonChange::default()
    };
    assert!(!change.is_empty() && PersonChange::default().is_empty());
    assert_eq!(
        error_text(world.directory.user_set("ann", &change)),
        "address bob@acme.test is already taken by user bob@acme.test"
    );
    assert_eq!(world.directory.database().modseq(), before);
    let stamp = || world.directory.person("ann").expect("readable").expect("exists").password_stamp();
    let old = stamp();
    world
        .directory
        .authenticate("ann", &password_of("ann@acme.test"), &imap(home()))
        .expect("the password is the old one");
    let change = PersonChange { addresses_add: vec!["ann2@acme.test".to_owned()], ..change };
    world.directory.user_set("ann", &change).expect("it is free");
    world.directory.authenticate("ann", b"another password", &imap(home())).expect("the password is the new one");
    assert_ne!(stamp(), old);
}

#[test]
fn domain_addition_is_atomic() {
    let world = World::new(ACME);
    let settings = vec![("DKIM new.test".to_owned(), "a".to_owned(), "key".to_owned())];
    let new = NewDomain { name: "new.test".to_owned(), settings, ..NewDomain::default() };
    let value = || {
        let settings = world.directory.settings("DKIM new.test").expect("readable");
        settings.and_then(|settings| settings.value("a").map(str::to_owned))
    };
    for unknown in ["nobody@acme.test", "nobody@new.test"] {
        let refused = NewDomain { catch_all: Some(unknown.to_owned()), ..new.clone() };
        assert_eq!(error_text(world.directory.domain_add_with(&refused)), format!("address {unknown} does not exist"));
        assert!(!world.directory.domain_is_local("new.test").expect("readable") && value().is_none());
    }
    let wanted = NewDomain { catch_all: Some("ann@acme.test".to_owned()), ..new.clone() };
    let domain = world.directory.domain_add_with(&wanted).expect("ann is there");
    assert_eq!((domain.catch_all.as_deref(), value().as_deref()), (Some("ann@acme.test"), Some("key")));
    world.directory.domain_remove("new.test").expect("no address uses it");
    let again = vec![("DKIM new.test".to_owned(), "a".to_owned(), "another".to_owned())];
    world.directory.domain_add_with(&NewDomain { settings: again, ..new }).expect("it is free again");
    assert_eq!(value().as_deref(), Some("key"), "keys that are published stay");
}

#[test]
fn many_users_are_added_in_one_transaction() {
    let world = World::new("domain acme.test\n domain other.test\n user bob@acme.test");
    let before = world.directory.database().modseq();
    let new = |address: &str| NewUser { password: Some(password_of(address)), ..NewUser::new(address) };
    let short = NewUser { password: Some(b"short".to_vec()), ..NewUser::new("carl@acme.test") };
    let wanted = [
        new("ann@acme.test"),
        new("ann@other.test"),
        new("bob@acme.test"),
        short,
        new("x@far.test"),
        new("ANN@acme.test"),
    ];
    let outcomes = world.directory.users_add(&wanted).expect("the store is sound");
    let results: Vec<String> = outcomes
        .iter()
        .map(|outcome| outcome.as_ref().map_or_else(Error::to_string, |person| person.mail_file.clone()))
        .collect();
    let expected = [
        "mail/ann.nsf",
        "mail/ann.other.test.nsf",
        "address bob@acme.test is already taken by user bob@acme.test",
        "the password is too short: at least 8 characters are required",
        "far.test is not a domain of this server; add it first",
    ];
    assert_eq!(results[..5], expected);
    assert!(results[5].starts_with("address ann@acme.test is already taken by "), "{}", results[5]);
    assert_eq!(world.directory.database().modseq().0, before.0 + 1);
    let world = world.crash();
    for address in ["ann@acme.test", "ann@other.test"] {
        world.directory.authenticate(address, &password_of(address), &imap(home())).expect("they were acknowledged");
    }
    let many = vec![NewUser::new("x@acme.test"); USERS_AT_ONCE_MAX + 1];
    assert!(world.directory.users_add(&many).is_err());
}

#[test]
fn cached_resolutions_are_returned_without_the_store() {
    let world = World::new(
        "domain acme.test\n user ann@acme.test\n user eve@acme.test disabled\n user f@acme.test forward ann@acme.test",
    );
    let cached = |address: &str| world.directory.resolve_cached(address);
    let resolve = |address: &str| drop(world.directory.resolve(address).expect("readable"));
    for address in ["ann@acme.test", "eve@acme.test", "x@far.test", "nobody@acme.test", "f@acme.test"] {
        assert!(cached(address).is_none(), "{address} was not resolved yet");
        resolve(address);
    }
    assert!(matches!(cached("ann@acme.test"), Some(Resolution::Local(found)) if found.people.len() == 1));
    assert!(matches!(cached("eve@acme.test"), Some(Resolution::Disabled)));
    assert!(matches!(cached("y@far.test"), Some(Resolution::Remote(_))));
    assert!(matches!(cached("no address"), Some(Resolution::Invalid(_))));
    for address in ["nobody@acme.test", "f@acme.test", "ann+x@acme.test", "z@acme.test"] {
        assert!(cached(address).is_none(), "{address} needs several lookups");
    }
    let disable = PersonChange { disabled: Some(true), ..PersonChange::default() };
    world.directory.user_set("ann", &disable).expect("the user exists");
    assert!(cached("ann@acme.test").is_none(), "a change invalidates the cache");
}
