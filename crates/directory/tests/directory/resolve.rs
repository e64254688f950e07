//! Tests of resolving addresses to recipients.

use directory::Resolution;

use crate::fixture::World;

const ACME: &str = "domain acme.test alias acme.example
    domain quiet.test
    user ann@acme.test alias a.smith@acme.test
    user bob@acme.test
    user carl@acme.test disabled
    user dora@acme.test forward dora@far.test
    user emil@acme.test forward ANN@acme.example
    user fred@acme.test forward gina@acme.test
    user gina@acme.test forward fred@acme.test
    user plus+tag@acme.test
    group sales@acme.test: ann, bob+x@acme.test, A.Smith@acme.test, x@far.test, nobody, carl
    group all@acme.test: sales@acme.example, dora, emil, all@acme.test, X@Far.test
    group empty@acme.test:
    group admins@acme.test acl: ann";

/// Formats a resolution in one line.
fn show(resolution: Resolution) -> String {
    match resolution {
        Resolution::Local(recipients) => {
            let people = recipients.people.iter().map(|person| person.short_names[0].clone());
            let remote = recipients.remote.iter().map(ToString::to_string);
            let unknown = recipients.unknown.iter().map(|member| format!("?{member}"));
            let group = recipients.group.iter().map(|group| format!("({})", group.name));
            let detail = recipients.detail.iter().map(|detail| format!("[{detail}]"));
            people.chain(remote).chain(unknown).chain(group).chain(detail).collect::<Vec<_>>().join(" ")
        }
        Resolution::Remote(address) => format!("remote {address}"),
        Resolution::NotForMail { reason } => reason,
        Resolution::Invalid(reason) => reason.to_string(),
        Resolution::Unknown => "unknown".to_owned(),
        Resolution::Disabled => "disabled".to_owned(),
        Resolution::NoRecipients => "nobody".to_owned(),
    }
}

fn check(world: &World, address: &str, expected: &str) {
    let resolution = world.directory.resolve(address).expect("readable");
    assert_eq!(show(resolution), expected, "{address}");
}

#[test]
fn people_are_found_by_address_alias_and_detail() {
    let world = World::new(ACME);
    check(&world, "ann@acme.test", "ann");
    check(&world, "A.Smith@ACME.test", "ann");
    check(&world, "ann@acme.example", "ann");
    check(&world, "ann+lists@acme.test", "ann [lists]");
    check(&world, "Ann+a+b@acme.example", "ann [a+b]");
    check(&world, "plus+tag@acme.test", "plus+tag");
}

#[test]
fn remote_unknown_disabled_and_invalid_addresses_are_distinguished() {
    let world = World::new(ACME);
    check(&world, "Ann@FAR.test", "remote Ann@far.test");
    check(&world, "nobody@acme.test", "unknown");
    check(&world, "nobody+ann@acme.test", "unknown");
    check(&world, "ann@quiet.test", "unknown");
    check(&world, "carl@acme.test", "disabled");
    check(&world, "not an address", "the address is not of the form name@domain");
}

#[test]
fn groups_are_expanded() {
    let world = World::new(ACME);
    check(&world, "sales@acme.test", "ann bob x@far.test ?nobody (sales)");
    check(&world, "sales+x@acme.test", "ann bob x@far.test ?nobody (sales) [x]");
    check(&world, "all@acme.test", "ann bob X@far.test x@far.test dora@far.test ?nobody (all)");
    check(&world, "empty@acme.test", "nobody");
    check(&world, "admins@acme.test", "admins is not a mail group");
}

#[test]
fn mail_is_forwarded() {
    let world = World::new(ACME);
    check(&world, "dora@acme.test", "dora@far.test");
    check(&world, "dora+x@acme.test", "dora@far.test [x]");
    check(&world, "emil@acme.test", "ann");
    check(&world, "fred@acme.test", "nobody");
}

#[test]
fn unclaimed_mail_goes_to_the_catch_all() {
    let world = World::new(
        "domain acme.test
        user ann@acme.test
        user bob@acme.test
        domain catch.test catchall ann@acme.test postmaster bob@acme.test
        domain away.test catchall everything@far.test
        user carl@catch.test",
    );
    check(&world, "postmaster@acme.test", "unknown");
    check(&world, "nobody@catch.test", "ann");
    check(&world, "nobody+x@catch.test", "ann");
    check(&world, "Postmaster@catch.test", "bob");
    check(&world, "carl@catch.test", "carl");
    check(&world, "nobody@away.test", "everything@far.test");
}

#[test]
fn oversized_and_deeply_nested_groups_receive_no_mail() {
    let mut options = crate::fixture::options();
    options.expansion = directory::expansion::ExpansionLimits { depth_max: 2, results_max: 6 };
    let world = World::with(
        options,
        "domain acme.test
        user ann@acme.test
        group g3@acme.test: ann
        group g2@acme.test: g3
        group g1@acme.test: g2
        group g0@acme.test: g1
        group large@acme.test: a@far.test, b@far.test, c@far.test, d@far.test, e@far.test, f@far.test",
    );
    check(&world, "g1@acme.test", "ann (g1)");
    check(&world, "g0@acme.test", "group g3 is nested too deeply");
    check(&world, "large@acme.test", "the group has too many members");
}

#[test]
fn sender_owns_all_forms_of_own_addresses() {
    let world = World::new(ACME);
    let ann = world.directory.person("ann").expect("readable").expect("exists");
    let check = |address: &str, expected: bool| {
        assert_eq!(world.directory.owns_address(&ann, address).expect("readable"), expected, "{address}");
    };
    check("ann@acme.test", true);
    check("A.SMITH+x@acme.example", true);
    check("bob@acme.test", false);
    check("sales@acme.test", false);
    check("ann@far.test", false);
    check("ann", false);
}
