//! Tests of adding, changing, listing and removing people, groups and domains.

use std::sync::Arc;

use base::Clock;
use base::sim::{SeededRandom, SimClock};
use directory::{Directory, DomainChange, GroupChange, NewGroup, NewUser, PersonChange};
use notes::{Acl, AclLevel, DatabaseKind, DatabaseRecord, Databases, NewDatabase};
use store::memory::MemoryEngine;
use store::{Batch, Store, StoreOptions, Table};

use crate::fixture::{World, error_text, options};

const ACME: &str = "domain acme.test alias acme.example
    user ann@acme.test name Ann_Smith alias a.smith@acme.test
    user bob@acme.test";

fn user_change() -> PersonChange {
    PersonChange::default()
}

#[test]
fn new_user_gets_names_and_mail_file_from_the_address() {
    let world = World::new(ACME);
    let ann = world.directory.person("ann@acme.test").expect("readable").expect("exists");
    assert_eq!(ann.name.canonical(), "CN=Ann Smith/O=acme.test");
    assert_eq!(ann.other_names, ["Ann Smith"]);
    assert_eq!(ann.short_names, ["ann"]);
    assert_eq!(ann.mail_file, "mail/ann.nsf");
    assert_eq!(ann.mail_server, "CN=hub/O=Acme");
    assert_eq!(ann.logins(), ["ann", "ann@acme.test", "a.smith@acme.test"]);
    assert_eq!(ann.display_name(), "Ann Smith");
    assert!(ann.has_password() && ann.has_scram());
    let bob = world.directory.person("bob").expect("readable").expect("exists");
    assert_eq!((bob.name.canonical(), bob.other_names.len()), ("CN=bob/O=acme.test", 0));
}

#[test]
fn a_person_is_found_by_every_name_and_address() {
    let world = World::new(ACME);
    let ann = world.directory.person("ann").expect("readable").expect("exists");
    let texts = [
        "ANN",
        " Ann@Acme.Test ",
        "a.smith@acme.test",
        "ann@acme.example",
        "Ann Smith",
        "ann  smith",
        "Ann Smith/acme.test",
        "cn=ann smith/o=acme.test",
    ];
    for text in texts {
        let found = world.directory.person(text).expect("readable");
        assert_eq!(found.map(|person| person.note), Some(ann.note), "{text}");
    }
    for text in ["", "carl", "ann@other.test", "ann+x@acme.test", "acme.test", &"x".repeat(10_000)] {
        assert!(world.directory.person(text).expect("readable").is_none(), "{text}");
    }
}

#[test]
fn generated_names_avoid_taken_ones() {
    let world = World::new(ACME);
    world.directory.domain_add("other.test", &[]).expect("free");
    let new = NewUser { first_name: "Ann".into(), last_name: "Smith".into(), ..NewUser::new("ann@other.test") };
    let ann = world.directory.user_add(&new).expect("names are chosen");
    assert_eq!(ann.short_names, ["ann.other.test"]);
    assert_eq!(ann.mail_file, "mail/ann.other.test.nsf");
    assert_eq!((ann.name.canonical(), ann.other_names.len()), ("CN=Ann Smith/O=other.test", 0));
    let new = NewUser { first_name: "Ann".into(), last_name: "Smith".into(), ..NewUser::new("ann2@acme.test") };
    let namesake = world.directory.user_add(&new).expect("names are chosen");
    assert_eq!(namesake.name.canonical(), "CN=Ann Smith (ann2)/O=acme.test");
}

#[test]
fn requested_names_that_are_taken_are_refused() {
    let world = World::new(ACME);
    let add = |change: fn(&mut NewUser)| {
        let mut new = NewUser::new("carl@acme.test");
        change(&mut new);
        error_text(world.directory.user_add(&new))
    };
    assert_eq!(add(|new| new.short_name = Some("ANN".into())), "name ann is already taken by user ann@acme.test");
    assert_eq!(
        add(|new| new.full_name = Some("Ann Smith/acme.test".into())),
        "name ann smith/acme.test is already taken by user ann@acme.test"
    );
    assert_eq!(
        add(|new| new.mail_file = Some("mail/Ann.nsf".into())),
        "mail file mail/ann.nsf is already taken by user ann@acme.test"
    );
    assert_eq!(
        add(|new| new.aliases.push("A.Smith@acme.test".into())),
        "address a.smith@acme.test is already taken by user ann@acme.test"
    );
}

#[test]
fn a_refused_change_changes_nothing() {
    let world = World::new(ACME);
    let before = world.directory.database().modseq();
    let new = NewUser { aliases: vec!["bob@acme.test".into()], ..NewUser::new("carl@acme.test") };
    assert_eq!(
        error_text(world.directory.user_add(&new)),
        "address bob@acme.test is already taken by user bob@acme.test"
    );
    assert_eq!(world.directory.database().modseq(), before);
    assert!(world.directory.person("carl").expect("readable").is_none());
}

#[test]
fn invalid_users_are_refused() {
    let world = World::new(ACME);
    let add = |new: NewUser| error_text(world.directory.user_add(&new));
    assert_eq!(add(NewUser::new("carl")), "\"carl\": the address is not of the form name@domain");
    assert_eq!(add(NewUser::new("c@far.test")), "far.test is not a domain of this server; add it first");
    let short = NewUser { password: Some(b"short".to_vec()), ..NewUser::new("carl@acme.test") };
    assert_eq!(add(short), "the password is too short: at least 8 characters are required");
    let odd = NewUser { short_name: Some("c@rl".into()), ..NewUser::new("carl@acme.test") };
    assert_eq!(add(odd), "invalid name \"c@rl\": it contains an @, which is reserved for addresses");
}

#[test]
fn new_user_does_not_inherit_an_existing_mail_file() {
    let world = World::new(ACME);
    let acl = notes::Acl::open_to_all(notes::AclLevel::NoAccess);
    let former = notes::NewDatabase::new("mail/carl.nsf", "Carl", notes::DatabaseKind::Mail, acl);
    world.databases.database_create(&former).expect("free");
    let carl = world.directory.user_add(&NewUser::new("carl@acme.test")).expect("free");
    assert_eq!(carl.mail_file, "mail/carl-2.nsf");
    let adopted = NewUser { mail_file: Some("mail/carl.nsf".into()), ..NewUser::new("carl2@acme.test") };
    assert_eq!(world.directory.user_add(&adopted).expect("free").mail_file, "mail/carl.nsf");
}

#[test]
fn users_get_mail_files_with_the_names_of_server_databases() {
    let world = World::new("domain acme.test\n user log@acme.test\n user names@acme.test");
    let log = world.directory.person("log").expect("readable").expect("exists");
    assert_eq!(log.mail_file, "mail/log.nsf", "only the folder of the server's databases reserves the name");
    let reserved = NewUser { mail_file: Some("mail3.box".to_owned()), ..NewUser::new("carl@acme.test") };
    let refused = error_text(world.directory.user_add(&reserved));
    assert_eq!(refused, "database path \"mail3.box\": the name is reserved for the server; choose another one");
}

#[test]
fn another_database_at_the_path_of_the_directory_is_refused() {
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new());
    let engine = Arc::new(MemoryEngine::new(1));
    let store = Store::with_engine(engine, &StoreOptions::default()).expect("the engine is sound");
    let databases = Databases::open(Arc::new(store), Arc::clone(&clock), Arc::new(SeededRandom::new(1)));
    let acl = Acl::open_to_all(AclLevel::Manager);
    let new = NewDatabase::new("x.nsf", "Plans", DatabaseKind::Standard, acl);
    let record = databases.database_create(&new).expect("it is new").record().as_ref().clone();
    databases.close_idle();
    let mut batch = Batch::new();
    let moved = DatabaseRecord { path: "names.nsf".to_owned(), ..record };
    batch.put(Table::Catalog, b"pnames.nsf", &moved.encode());
    databases.store().commit(&batch).expect("it is written");
    assert_eq!(
        error_text(Directory::open(&databases, options(), &clock)),
        "database names.nsf: it is a standard database, but its path belongs to the directory; restore a backup in \
         which it is the directory"
    );
}

#[test]
fn unusual_addresses_give_plain_names() {
    let world = World::new(ACME);
    let user = world.directory.user_add(&NewUser::new("\"a/b @c\"@acme.test")).expect("valid");
    assert_eq!(user.short_names, ["a-b -c"]);
    assert_eq!(user.mail_file, "mail/a-b_-c.nsf");
    assert!(world.directory.person("\"A/B @C\"@acme.test").expect("readable").is_some());
}

#[test]
fn user_fields_are_changed_independently() {
    let world = World::new(ACME);
    let set = |change: PersonChange| world.directory.user_set("ann", &change).expect("possible");
    let ann = set(PersonChange { quota_bytes: Some(Some(1_000)), disabled: Some(true), ..user_change() });
    assert_eq!((ann.quota_bytes, ann.disabled), (Some(1_000), true));
    let ann = set(PersonChange {
        forward: Some(Some("x@far.test".into())),
        first_name: Some("Anna".into()),
        ..user_change()
    });
    assert_eq!(
        (ann.forward.as_deref(), ann.quota_bytes, ann.first_name.as_str()),
        (Some("x@far.test"), Some(1_000), "Anna")
    );
    let ann =
        set(PersonChange { forward: Some(None), quota_bytes: Some(None), disabled: Some(false), ..user_change() });
    assert_eq!((ann.forward.clone(), ann.quota_bytes, ann.disabled), (None, None, false));
    let found = world.directory.person("ann").expect("readable").expect("exists");
    assert_eq!(*found, *ann);
}

#[test]
fn addresses_and_short_names_are_added_and_removed() {
    let world = World::new(ACME);
    let change = PersonChange {
        addresses_add: vec!["anna@acme.test".into()],
        addresses_remove: vec!["A.Smith@acme.test".into()],
        short_names_add: vec!["anna".into(), "ANN".into()],
        primary_address: Some("anna@acme.test".into()),
        ..user_change()
    };
    let ann = world.directory.user_set("ann", &change).expect("possible");
    assert_eq!(ann.logins(), ["ann", "anna", "anna@acme.test", "ann@acme.test"]);
    assert!(world.directory.person("a.smith@acme.test").expect("readable").is_none());
    assert!(world.directory.person("anna").expect("readable").is_some());
    let remove = PersonChange { short_names_remove: vec!["Anna".into()], ..user_change() };
    world.directory.user_set("ann", &remove).expect("possible");
    assert!(world.directory.person("anna").expect("readable").is_none());
    let missing = PersonChange { addresses_remove: vec!["x@acme.test".into()], ..user_change() };
    assert_eq!(
        error_text(world.directory.user_set("ann", &missing)),
        "address x@acme.test of this entry does not exist"
    );
    let taken = PersonChange { addresses_add: vec!["bob@acme.test".into()], ..user_change() };
    assert_eq!(
        error_text(world.directory.user_set("ann", &taken)),
        "address bob@acme.test is already taken by user bob@acme.test"
    );
}

#[test]
fn a_removed_user_leaves_groups_and_frees_the_names() {
    let world =
        World::new(&format!("{ACME}\ngroup sales@acme.test: Ann Smith/acme.test, a.smith@acme.test, bob, x@far.test"));
    let removed = world.directory.user_remove("ann@acme.test").expect("exists");
    assert_eq!(removed.mail_file, "mail/ann.nsf");
    let sales = world.directory.group("sales").expect("readable").expect("exists");
    assert_eq!(sales.members, ["bob", "x@far.test"]);
    assert!(world.directory.person("ann").expect("readable").is_none());
    assert_eq!(error_text(world.directory.user_remove("ann")), "user ann does not exist");
    world.directory.user_add(&NewUser::new("ann@acme.test")).expect("the names are free again");
}

#[test]
fn catch_all_user_cannot_be_removed() {
    let world = World::new(ACME);
    let change = DomainChange { catch_all: Some(Some("ann@acme.test".into())), ..DomainChange::default() };
    world.directory.domain_set("acme.test", &change).expect("ann exists");
    assert_eq!(
        error_text(world.directory.user_remove("ann")),
        "user ann@acme.test is still the catch-all of domain acme.test"
    );
}

#[test]
fn group_fields_are_changed_independently() {
    let world = World::new(&format!("{ACME}\ngroup sales@acme.test: ann"));
    let change = GroupChange {
        description: Some("who sells".into()),
        members_add: vec!["bob".into(), "ANN".into(), "x@far.test".into()],
        addresses_add: vec!["verkauf@acme.test".into()],
        ..GroupChange::default()
    };
    let sales = world.directory.group_set("sales@acme.test", &change).expect("possible");
    assert_eq!(sales.members, ["ann", "bob", "x@far.test"]);
    let found = world.directory.group("verkauf@acme.test").expect("readable").expect("exists");
    assert_eq!((found.name.canonical(), found.description.as_str()), ("sales", "who sells"));
    let change = GroupChange { members_remove: vec!["Bob".into()], ..GroupChange::default() };
    assert_eq!(world.directory.group_set("sales", &change).expect("possible").members, ["ann", "x@far.test"]);
    assert_eq!(
        error_text(world.directory.group_set("sales", &change)),
        "member Bob of group sales@acme.test does not exist"
    );
    world.directory.group_remove("sales").expect("exists");
    assert!(world.directory.group("verkauf@acme.test").expect("readable").is_none());
}

#[test]
fn groups_and_users_share_one_name_space() {
    let world = World::new(ACME);
    let add = |name: &str, address: &str| {
        let addresses = vec![address.to_owned()];
        error_text(world.directory.group_add(&NewGroup { name: name.into(), addresses, ..NewGroup::default() }))
    };
    assert_eq!(add("ann", "x@acme.test"), "name ann is already taken by user ann@acme.test");
    assert_eq!(add("x", "ann@acme.test"), "address ann@acme.test is already taken by user ann@acme.test");
    assert_eq!(add("hub/Acme", "x@acme.test"), "name hub/acme is already taken by server hub/Acme");
}

#[test]
fn a_removed_group_leaves_other_groups() {
    let world = World::new(&format!("{ACME}\ngroup inner@acme.test: ann\ngroup outer@acme.test: inner, bob"));
    world.directory.group_remove("inner").expect("exists");
    assert_eq!(world.directory.group("outer").expect("readable").expect("exists").members, ["bob"]);
}

#[test]
fn unknown_members_are_listed() {
    let world = World::new(&format!(
        "{ACME}\ngroup g@acme.test: ann, bob+x@acme.test, nobody, no@acme.test, x@far.test, */Acme"
    ));
    let group = world.directory.group("g").expect("readable").expect("exists");
    assert_eq!(world.directory.unknown_members(&group).expect("readable"), ["nobody", "no@acme.test"]);
}

#[test]
fn a_domain_in_use_cannot_be_removed() {
    let world = World::new(ACME);
    assert_eq!(
        error_text(world.directory.domain_remove("acme.test")),
        "domain acme.test is still used by 3 addresses; the first one is that of user ann@acme.test"
    );
    world.directory.domain_add("other.test", &["alias.test".into()]).expect("free");
    assert_eq!(world.directory.domain_remove("OTHER.test").expect("unused").aliases, ["alias.test"]);
    assert!(!world.directory.domain_is_local("alias.test").expect("readable"));
    assert_eq!(error_text(world.directory.domain_remove("other.test")), "domain other.test does not exist");
}

#[test]
fn domain_names_and_aliases_are_unique() {
    let world = World::new(ACME);
    let add = |name: &str, alias: &str| error_text(world.directory.domain_add(name, &[alias.to_owned()]));
    assert_eq!(add("acme.example", "x.test"), "domain acme.example is already taken by domain acme.test");
    assert_eq!(add("new.test", "ACME.test"), "domain acme.test is already taken by domain acme.test");
    assert_eq!(add("[192.0.2.1]", "x.test"), "\"[192.0.2.1]\": the domain is not valid");
}

#[test]
fn domain_alias_is_removed_only_when_unused() {
    let world = World::new(ACME);
    let set = |change: DomainChange| world.directory.domain_set("acme.test", &change);
    let remove = || DomainChange { aliases_remove: vec!["acme.example".into()], ..DomainChange::default() };
    world
        .directory
        .user_set("bob", &PersonChange { addresses_add: vec!["x@acme.example".into()], ..user_change() })
        .expect("local");
    assert_eq!(
        error_text(set(remove())),
        "domain acme.example is still used by 1 addresses; the first one is that of user bob@acme.test"
    );
    world
        .directory
        .user_set("bob", &PersonChange { addresses_remove: vec!["x@acme.example".into()], ..user_change() })
        .expect("there");
    assert_eq!(set(remove()).expect("unused").aliases.len(), 0);
    assert!(world.directory.person("ann@acme.example").expect("readable").is_none());
    let unknown = DomainChange { catch_all: Some(Some("nobody@acme.test".into())), ..DomainChange::default() };
    assert_eq!(error_text(set(unknown)), "address nobody@acme.test does not exist");
}

#[test]
fn lists_are_sorted_and_paged() {
    let world = World::new("domain acme.test\ndomain beta.test");
    for name in ["carl", "Ann", "dora", "bob"] {
        world.directory.user_add(&NewUser::new(&format!("{name}@acme.test"))).expect("free");
    }
    let page = |position, limit| {
        let page = world.directory.users(position, limit).expect("readable");
        let names: Vec<String> =
            page.entries.iter().filter_map(|person| Some(person.address()?.local().to_owned())).collect();
        (page.total, names.join(" "))
    };
    assert_eq!(page(0, 10), (4, "Ann bob carl dora".to_owned()));
    assert_eq!(page(1, 2), (4, "bob carl".to_owned()));
    assert_eq!(page(3, 2), (4, "dora".to_owned()));
    assert_eq!(page(9, 2), (4, String::new()));
    let domains = world.directory.domains(0, 10).expect("readable");
    assert_eq!(
        domains.entries.iter().map(|domain| domain.name.as_str()).collect::<Vec<_>>(),
        ["acme.test", "beta.test"]
    );
    assert_eq!(world.directory.groups(0, 10).expect("readable").total, 0);
    assert_eq!(world.directory.servers(0, 10).expect("readable").entries[0].name.to_string(), "hub/Acme");
}

#[test]
fn settings_are_stored_and_removed() {
    let world = World::new(ACME);
    let set = |name, value| world.directory.settings_set("Domain acme.test", name, value).expect("possible");
    set("DkimKey", Some("secret"));
    set("DkimSelector", Some("s1"));
    set("DkimKey", Some("newer"));
    let settings = world.directory.settings("domain ACME.test").expect("readable").expect("exists");
    assert_eq!((settings.value("dkimkey"), settings.value("DkimSelector")), (Some("newer"), Some("s1")));
    set("DkimKey", None);
    let settings = world.directory.settings("Domain acme.test").expect("readable").expect("exists");
    assert_eq!(settings.values.len(), 1);
    assert!(world.directory.settings("Domain other.test").expect("readable").is_none());
}

#[test]
fn everything_survives_a_crash() {
    let world = World::new(&format!("{ACME}\ngroup sales@acme.test: ann"));
    world.directory.user_remove("bob").expect("exists");
    let world = world.crash();
    assert!(world.directory.person("ann").expect("readable").is_some());
    assert!(world.directory.person("bob").expect("readable").is_none());
    assert!(world.directory.group("sales").expect("readable").is_some());
    assert!(world.directory.domain_is_local("acme.example").expect("readable"));
}
