//! Replicas that `doublet db copy --replica` makes: they exchange changes with the source and with others, like any
//! replica that replication has made, and remember what they have received.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{NoteId, Unid};
use notes::{Access, DatabaseCopy, Identity, NewCopy, level};

use crate::exchange::{Server, two};

/// Copies the database of a server, and returns the replica as that of a server of its own.
fn copied(source: &Server, name: &str) -> Server {
    let itself = Arc::new(Identity::local_server(source.name.as_str()));
    let access: Access<level::Manager> = source.database.authorize(&itself).expect("it is the server");
    let new = NewCopy { is_replica: true, ..NewCopy::new("copy.nsf", &source.database.record()) };
    let mut copy = DatabaseCopy::begin(&source.databases, &access, &new).expect("the path is free");
    while !copy.step().expect("a sound store").is_complete {}
    let database = copy.finish().expect("a sound store");
    let databases = Arc::clone(&source.databases);
    Server { name: name.to_owned(), clock: Arc::clone(&source.clock), databases, database }
}

/// Returns the subjects of the documents of a server.
fn subjects(server: &Server) -> BTreeMap<Unid, String> {
    let access: Access<level::Reader> = server.database.authorize(&server.ann()).expect("Ann may");
    let reading = access.read().expect("a snapshot");
    let mut found = BTreeMap::new();
    let mut each = |header: notes::NoteHeader| {
        if header.class.is_document() && !header.is_stub() {
            let note = reading.note(header.note)?.expect("it was listed");
            found.insert(header.unid, note.text("Subject").unwrap_or_default().to_owned());
        }
        Ok(true)
    };
    reading.for_each_note(NoteId(0), &mut each).expect("a sound store");
    found
}

#[test]
fn a_copied_replica_exchanges_changes_with_its_source() {
    let (one, two) = two();
    for number in 11..=40 {
        one.create(number);
    }
    two.pull(&one);
    let copy = copied(&one, "CN=copy/O=Acme");
    assert_eq!(subjects(&copy), subjects(&one));
    // All three change something.
    one.save(1, "changed in the source");
    copy.save(2, "changed in the copy");
    two.save(3, "changed elsewhere");
    copy.create(41);
    let deleted = copy.write(|writer| {
        let note = writer.find(Unid([4; 16]))?.expect("it exists");
        writer.note_delete(note)
    });
    assert!(deleted);
    for (target, source) in [(&copy, &one), (&one, &copy), (&two, &copy), (&copy, &two), (&one, &two), (&two, &one)] {
        target.pull(source);
    }
    let expected = subjects(&one);
    assert_eq!(expected.len(), 40);
    let texts = [1, 2, 3].map(|number| expected[&Unid([number; 16])].as_str());
    assert_eq!(texts, ["changed in the source", "changed in the copy", "changed elsewhere"]);
    assert_eq!((subjects(&copy), subjects(&two)), (expected.clone(), expected));
    for server in [&one, &two, &copy] {
        assert_eq!(notes::fixup::check(&server.database).expect("a check").findings, []);
        let quiet = [&one, &two, &copy]
            .map(|source| if std::ptr::eq(source, server) { 0 } else { server.pull(source).received });
        assert_eq!(quiet, [0; 3], "nothing is left");
    }
}

#[test]
fn a_copied_replica_remembers_what_was_received() {
    let (one, two) = two();
    for number in 11..=40 {
        one.create(number);
    }
    two.pull(&one);
    // It is on the same server, which the source of the changes knows.
    let copy = copied(&two, &two.name);
    one.save(1, "changed");
    let pulled = copy.pull(&one);
    assert!(pulled.listed < 10, "the list begins where the source of the copy ended: {pulled:?}");
    assert_eq!(subjects(&copy), subjects(&one));
}
