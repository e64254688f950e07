//! Tests of access control: a user can neither find nor count documents that the user may not read now.

use notes::{AclLevel, Item, level};
use search::{Error, PageRequest, Query};

use crate::fixture::{Fixture, identity};

fn restricted(subject: &str, readers: &[&str]) -> Vec<Item> {
    let readers = readers.iter().map(|name| (*name).to_owned()).collect();
    vec![Item::text("Subject", subject), Item::readers("Readers", readers)]
}

#[test]
fn current_readers_items_are_enforced() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[("Bob/Acme", AclLevel::Reader)]);
    let open = world.document(&database, "plan", "");
    let hidden = world.create(&database, restricted("plan", &["Ann/Acme"]));
    world.index(&database);
    let check = |who: &str, expected: &[base::NoteId]| {
        let found = world.find(&database, who, "plan");
        assert_eq!(found.hits.iter().map(|hit| hit.note).collect::<Vec<_>>(), expected, "{who}");
        assert_eq!(found.total, expected.len() as u64, "{who}");
    };
    check("Ann/Acme", &[open, hidden]);
    check("Bob/Acme", &[open]);
    // The index does not yet contain these changes.
    world.update_items(&database, hidden, &restricted("plan", &["Bob/Acme"]));
    check("Ann/Acme", &[open]);
    check("Bob/Acme", &[open, hidden]);
    world.update_items(&database, open, &restricted("plan", &["Ann/Acme"]));
    check("Ann/Acme", &[open]);
    check("Bob/Acme", &[hidden]);
    world.delete(&database, open);
    check("Ann/Acme", &[]);
    world.index(&database);
    check("Bob/Acme", &[hidden]);
}

#[test]
fn access_is_checked_on_each_query() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[("Bob/Acme", AclLevel::Reader), ("Dan/Acme", AclLevel::Depositor)]);
    world.document(&database, "plan", "");
    assert!(database.authorize::<level::Reader>(&identity("Dan/Acme")).is_err());
    let access = database.authorize::<level::Reader>(&identity("Bob/Acme")).expect("a reader");
    let run_query = || world.search.query(&access, &Query::all(), PageRequest::default(), &|| false);
    assert!(matches!(run_query(), Err(Error::NotIndexed { .. })));
    world.index(&database);
    assert_eq!(run_query().expect("an answer").total, 1);
    let mut acl = notes::Acl::private(&base::Name::new("Ann/Acme"));
    acl.entries.push(notes::AclEntry::new("Bob/Acme", AclLevel::NoAccess));
    world.write(&database, |writer| writer.acl_set(acl));
    assert!(matches!(run_query(), Err(Error::Notes(notes::Error::AccessDenied { .. }))));
    let reader = database.authorize::<level::Reader>(&identity("Ann/Acme")).expect("a reader");
    assert!(matches!(world.search.update(&reader, 1, &|| false), Err(Error::Notes(notes::Error::ServerOnly { .. }))));
}
