//! Name lookup: what every user learns about people, groups and addresses, and what remains unknown.

use directory::{GroupKind, NewGroup};
use proto::v1;
use proto::v1::name_entry::Kind;

use crate::world::{Client, TestServer, canonical};

async fn look_up(client: &Client, names: &[&str]) -> Vec<v1::NameEntry> {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let reply = client.directory().lookup_names(v1::LookupNamesRequest { names }).await;
    reply.expect("every user may").into_inner().entries
}

/// Returns the entry of a name that the directory does not have.
fn unknown(query: &str) -> v1::NameEntry {
    v1::NameEntry { query: query.to_owned(), ..v1::NameEntry::default() }
}

fn add_group(server: &TestServer, name: &str, kind: GroupKind) {
    let addresses = vec![format!("{name}@acme.test")];
    let members = vec!["ann@acme.test".to_owned(), "bob@acme.test".to_owned()];
    let new = NewGroup { name: name.to_owned(), addresses, kind, members, ..NewGroup::default() };
    server.directory.group_add(&new).expect("the name is free");
}

#[tokio::test]
async fn mail_file_is_returned_to_its_owner_only() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    for query in ["ann", "ANN@acme.test", &canonical("ann")] {
        let expected = v1::NameEntry {
            kind: Kind::Person.into(),
            name: canonical("ann"),
            address: "ann@acme.test".to_owned(),
            display_name: "ann".to_owned(),
            mail_file: "mail/ann.nsf".to_owned(),
            ..unknown(query)
        };
        assert_eq!(look_up(&ann, &[query]).await, std::slice::from_ref(&expected), "her own entry");
        let bob = server.log_in("bob").await;
        let without = v1::NameEntry { mail_file: String::new(), ..expected };
        assert_eq!(look_up(&bob, &[query]).await, [without], "the entry of another person");
    }
}

#[tokio::test]
async fn deny_lists_are_unknown_names() {
    let server = TestServer::new();
    for (name, kind) in [("team", GroupKind::MultiPurpose), ("readers", GroupKind::AclOnly)] {
        add_group(&server, name, kind);
    }
    add_group(&server, "leavers", GroupKind::DenyList);
    // Members of the list have no session. Dan is not one of them.
    let dan = server.log_in("dan").await;
    for name in ["team", "readers"] {
        let address = format!("{name}@acme.test");
        for query in [name, &address] {
            let kind = Kind::Group.into();
            let expected = v1::NameEntry { kind, name: name.to_owned(), address: address.clone(), ..unknown(query) };
            assert_eq!(look_up(&dan, &[query]).await, [expected]);
        }
    }
    let queries = ["leavers", "Leavers", "leavers@acme.test", "nobody", "nobody@acme.test", "eve", "eve@acme.test"];
    assert_eq!(look_up(&dan, &queries).await, queries.map(unknown));
}

#[tokio::test]
async fn names_are_answered_in_their_order() {
    let server = TestServer::new();
    let bob = server.log_in("bob").await;
    let found = look_up(&bob, &["x@far.test", "nobody", "bob"]).await;
    assert_eq!(found.iter().map(v1::NameEntry::kind).collect::<Vec<_>>(), [Kind::Remote, Kind::Unknown, Kind::Person]);
    assert_eq!((found[0].address.as_str(), found[2].mail_file.as_str()), ("x@far.test", "mail/bob.nsf"));
}
