//! Tests of the names and groups that identify a person in access control lists.

use base::{Name, Timestamp};
use directory::{GroupChange, IssuedCertificate, PersonChange, ServerDocument};

use crate::fixture::World;

const ACME: &str = "domain acme.test alias acme.example
    user ann@acme.test full Ann_Smith/West/Acme short asmith
    user bob@acme.test
    group by-name: Ann Smith/West/Acme
    group by-short-name: ASMITH
    group by-address: ann@acme.test
    group by-alias-domain: ann@acme.example
    group by-unit: */West/Acme
    group by-organization: */Acme
    group everybody: *
    group east: */East/Acme
    group nested: by-name
    group nested-by-address@acme.test: nested
    group top: nested-by-address@acme.example, top
    group letters mail: ann@acme.test
    group above-letters: letters
    group deny deny-list: ann@acme.test
    group above-deny: deny";

fn groups_of(world: &World, login: &str) -> String {
    let person = world.directory.person(login).expect("readable").expect("exists");
    let identity = world.directory.identity(&person).expect("readable");
    let mut names: Vec<String> = identity.groups.iter().map(ToString::to_string).collect();
    names.sort();
    names.join(" ")
}

#[test]
fn direct_and_nested_groups_are_found() {
    let world = World::new(ACME);
    assert_eq!(
        groups_of(&world, "asmith"),
        "by-address by-alias-domain by-name by-organization by-short-name by-unit everybody nested nested-by-address top"
    );
    assert_eq!(groups_of(&world, "bob"), "everybody");
}

#[test]
fn the_identity_has_all_names() {
    let world = World::new(ACME);
    let ann = world.directory.person("asmith").expect("readable").expect("exists");
    let identity = world.directory.identity(&ann).expect("readable");
    assert_eq!(identity.name.canonical(), "CN=Ann Smith/OU=West/O=Acme");
    let aliases: Vec<&str> = identity.aliases.iter().map(base::Name::canonical).collect();
    assert_eq!(aliases, ["asmith", "ann@acme.test"]);
    assert!(!identity.server && !identity.is_local_server);
}

#[test]
fn changes_of_groups_and_names_take_effect_immediately() {
    let world = World::new(ACME);
    let add = |member: &str| GroupChange { members_add: vec![member.to_owned()], ..GroupChange::default() };
    assert_eq!(groups_of(&world, "bob"), "everybody");
    world.directory.group_set("nested", &add("bob")).expect("possible");
    assert_eq!(groups_of(&world, "bob"), "everybody nested nested-by-address top");
    world.directory.group_remove("nested-by-address@acme.test").expect("exists");
    assert_eq!(groups_of(&world, "bob"), "everybody nested");
    world.directory.group_set("east", &add("robert")).expect("possible");
    let change = PersonChange { short_names_add: vec!["robert".into()], ..PersonChange::default() };
    world.directory.user_set("bob", &change).expect("possible");
    assert_eq!(groups_of(&world, "bob"), "east everybody nested");
}

#[test]
fn too_deep_nesting_is_an_error() {
    let world = World::new("domain acme.test\nuser ann@acme.test");
    let mut below = "ann".to_owned();
    for level in 0..=base::limits::GROUP_DEPTH_MAX {
        let name = format!("g{level}");
        let group = directory::NewGroup { name: name.clone(), members: vec![below], ..Default::default() };
        world.directory.group_add(&group).expect("free");
        below = name;
    }
    let ann = world.directory.person("ann").expect("readable").expect("exists");
    let outcome = world.directory.identity(&ann);
    assert_eq!(outcome.expect_err("too deep").to_string(), "group g32 is nested too deeply");
}

#[test]
fn servers_are_admitted_and_excluded_by_names_wildcards_and_groups() {
    let world = World::new("group partners: CN=spoke/O=Acme\ngroup gone deny-list: CN=old/O=Acme");
    let own = world.directory.options().server.clone();
    let server = |name: &str| Name::new(&format!("CN={name}/O=Acme"));
    world.directory.servers_register(&[(own.clone(), None), (server("spoke"), None)]).expect("possible");
    let set = |admitted: &[&str], excluded: &[&str]| {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let lists = (list(admitted), list(excluded));
        let change = |server: &mut ServerDocument| (server.admitted, server.excluded) = lists;
        world.directory.change_server(&own, change).expect("it is registered");
    };
    let check = |name: &str, expected: Option<&str>| {
        let found = world.directory.server_exclusion(&server(name), &certificate("X", 1)).expect("readable");
        let reason = found.map(|exclusion| exclusion.describe(&server(name)));
        match (&reason, expected) {
            (Some(reason), Some(expected)) => assert!(reason.contains(expected), "{reason}"),
            (reason, expected) => assert_eq!(reason.as_deref(), expected, "{name}"),
        }
    };
    check("spoke", None);
    check("old", Some("the deny list gone excludes old/Acme"));
    set(&["Partners"], &[]);
    check("spoke", None);
    check("third", Some("does not admit third/Acme"));
    set(&["*/Acme"], &["cn=SPOKE/o=acme"]);
    check("third", None);
    check("spoke", Some("this server excludes spoke/Acme"));
    set(&[], &[]);
    check("spoke", None);
}

fn certificate(issuer: &str, day: i64) -> IssuedCertificate {
    IssuedCertificate { issuer: issuer.to_owned(), until: Timestamp::from_seconds(day * 86_400) }
}

#[test]
fn replaced_certificates_are_refused_in_both_directions() {
    let world = World::new("domain acme.test");
    let spoke = Name::new("CN=spoke/O=Acme");
    let check = |presented: IssuedCertificate, expected: bool| {
        let as_caller = world.directory.server_exclusion(&spoke, &presented).expect("readable");
        let as_partner = world.directory.partner_exclusion(&spoke, &presented).expect("readable");
        assert_eq!(as_caller, as_partner);
        assert_eq!(as_caller.is_none(), expected, "{presented:?}: {as_caller:?}");
    };
    check(certificate("CN=Certifier", 1), true);
    world.directory.servers_register(&[(spoke.clone(), None)]).expect("possible");
    check(certificate("CN=Certifier", 1), true);
    let today = base::Clock::now(world.clock.as_ref()).seconds() / 86_400;
    let record = |day| {
        let recorded = certificate("CN=Certifier", day);
        world.directory.server_set_certificate(&spoke, recorded).expect("it is registered");
    };
    record(today + 1_000);
    check(certificate("CN=Certifier", today + 999), false);
    check(certificate("CN=Certifier", today + 1_000), true);
    check(certificate("CN=Certifier", today + 1_001), true);
    // The certificate of a public authority ends earlier.
    check(certificate("CN=Other authority", today + 999), true);
    record(today + 6 * 365);
    check(certificate("CN=Certifier", today + 999), false);
    // One that was issued while a clock was years ahead excludes none.
    record(today + 7 * 366);
    check(certificate("CN=Certifier", today + 999), true);
}

#[test]
fn local_domain_servers_counts_only_for_servers_with_a_document() {
    let world = World::new("group all: LocalDomainServers");
    let spoke = Name::new("CN=spoke/O=Acme");
    let groups = || {
        let identity = world.directory.server_identity(&spoke).expect("readable");
        identity.groups.iter().map(Name::abbreviated).collect::<Vec<_>>().join(" ")
    };
    world.directory.servers_register(&[(spoke.clone(), None)]).expect("possible");
    assert_eq!(groups(), "LocalDomainServers all");
    world.directory.server_remove(&spoke).expect("it is registered");
    let add = GroupChange { members_add: vec![spoke.canonical().to_owned()], ..GroupChange::default() };
    world.directory.group_set("LocalDomainServers", &add).expect("it exists");
    assert_eq!(groups(), "");
    world.directory.servers_register(&[(spoke.clone(), None)]).expect("possible");
    assert_eq!(groups(), "LocalDomainServers all");
}
