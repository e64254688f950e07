//! Profile documents: unique by name and user, excluded from document lists, and set only with the necessary rights.

use base::{Name, NoteId};
use notes::{AclLevel, Item, NewNote, NoteClass};

use crate::fixture::{TestServer, assert_sound, reader};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";

fn items(text: &str) -> Vec<Item> {
    vec![Item::text("Text", text)]
}

#[test]
fn profile_is_unique_and_found_by_name() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let ann = Name::new(ANN);
    let set = |name: &str, user: Option<&Name>, text: &str| {
        world.write(&database, ANN, |writer| writer.profile_set(name, user, &items(text), &[])).expect("Ann may")
    };
    let shared = set("Settings", None, "1");
    let own = set("Settings", Some(&ann), "2");
    assert_eq!((set("SETTINGS", None, "3"), set("settings", Some(&Name::new("ann/ACME")), "4")), (shared, own));
    let twice = world.write(&database, ANN, |writer| {
        let first = writer.profile_set("Twice", None, &items("1"), &[])?;
        Ok((first, writer.profile_set("Twice", None, &items("2"), &[])))
    });
    assert!(twice.is_ok(), "{twice:?}");
    let again = world.restarted();
    let database = again.databases.database_open("docs.nsf").unwrap();
    let access = reader(&database, ANN).unwrap();
    let text = |name: &str, user| {
        let note = access.read().unwrap().profile(name, user).unwrap()?;
        Some(note.text("Text").expect("it was set").to_owned())
    };
    assert_eq!((text("settings", None), text("Settings", Some(&ann))), (Some("3".into()), Some("4".into())));
    assert_eq!(text("Other", None), None);
    assert!(again.write(&database, ANN, |writer| writer.profile_delete("Settings", None)).unwrap());
    assert!(!again.write(&database, ANN, |writer| writer.profile_delete("Settings", None)).unwrap());
    let before = again.write(&database, ANN, |writer| {
        writer.profile_set("Settings", Some(&ann), &items("6"), &[])?;
        let found = [writer.profile("Settings", Some(&ann))?, writer.profile("Settings", None)?];
        writer.profile_set("Settings", Some(&ann), &items("4"), &[])?;
        Ok(found.map(|note| Some(note?.text("Text")?.to_owned())))
    });
    assert_eq!(before.unwrap(), [Some("4".into()), None]);
    assert_eq!((text("Settings", None), text("Settings", Some(&ann))), (None, Some("4".into())));
    let new = again.write(&database, ANN, |writer| writer.profile_set("Settings", None, &items("5"), &[])).unwrap();
    assert!(new > own && text("Settings", None) == Some("5".into()));
    assert_sound(&database);
}

#[test]
fn profile_is_neither_document_nor_design() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let design = |_: ()| reader(&database, ANN).unwrap().read().unwrap().counters().design_modseq;
    let before = design(());
    let note = world.write(&database, ANN, |writer| writer.profile_set("P", None, &items("1"), &[])).unwrap();
    assert_eq!(design(()), before, "folders need not be read again");
    let header = reader(&database, ANN).unwrap().read().unwrap().header(note).unwrap().expect("the profile exists");
    assert!(header.class == NoteClass::PROFILE && !header.class.is_document() && !header.class.is_design());
    let refused = [
        world.write(&database, ANN, |writer| writer.note_update(note, 1, &[], &[]).map(drop)),
        world.write(&database, ANN, |writer| writer.note_delete(note).map(drop)),
        world.write(&database, ANN, |writer| {
            writer.note_create(NewNote::of_class(NoteClass::PROFILE, Vec::new())).map(drop)
        }),
        world.write(&database, ANN, |writer| writer.profile_set("", None, &[], &[]).map(drop)),
        world.write(&database, ANN, |writer| writer.profile_set(&"x".repeat(300), None, &[], &[]).map(drop)),
    ];
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    assert_sound(&database);
}

/// Returns Bob's rights at a level: read a shared profile; create, change and delete a shared one, his own, and Ann's.
fn profile_rights(level: AclLevel) -> [bool; 10] {
    let world = TestServer::new();
    let database = world.database(&[(BOB, level)]);
    let ann = Name::new(ANN);
    let bob = Name::new(BOB);
    let users = [None, Some(&bob), Some(&ann)];
    for user in users {
        world.write(&database, ANN, |writer| writer.profile_set("Old", user, &items("1"), &[])).expect("Ann may");
    }
    let reads =
        reader(&database, BOB).is_ok_and(|access| access.read().unwrap().profile("Old", None).unwrap().is_some());
    let mut found = vec![reads];
    for user in users {
        let set = |name: &str| world.write(&database, BOB, |writer| writer.profile_set(name, user, &[], &[])).is_ok();
        found.extend([set("New"), set("Old")]);
        let deleted = world.write(&database, BOB, |writer| writer.profile_delete("Old", user));
        found.push(deleted.unwrap_or(false));
    }
    assert_sound(&database);
    found.try_into().expect("ten answers")
}

#[test]
fn own_profiles_require_author() {
    let check = |level, expected: [u8; 10]| assert_eq!(profile_rights(level).map(u8::from), expected, "{level}");
    check(AclLevel::NoAccess, [0; 10]);
    check(AclLevel::Depositor, [0; 10]);
    check(AclLevel::Reader, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    check(AclLevel::Author, [1, 1, 0, 0, 1, 1, 1, 0, 0, 0]);
    for level in &AclLevel::ALL[4..] {
        check(*level, [1; 10]);
    }
}

#[test]
fn readers_items_hide_a_profile() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Editor)]);
    let secret = vec![Item::readers("Readers", vec![ANN.into()])];
    world.write(&database, ANN, |writer| writer.profile_set("P", None, &secret, &[])).expect("Ann may");
    assert!(reader(&database, BOB).unwrap().read().unwrap().profile("P", None).unwrap().is_none());
    assert!(world.write(&database, BOB, |writer| writer.profile_set("P", None, &[], &[])).is_err());
    assert!(!world.write(&database, BOB, |writer| writer.profile_delete("P", None)).unwrap_or(false));
    let ids = |who: &str| {
        let mut found = Vec::new();
        let access = reader(&database, who).unwrap();
        access
            .read()
            .unwrap()
            .for_each_note(NoteId(1), &mut |header| {
                Ok({
                    found.push(header.note);
                    true
                })
            })
            .unwrap();
        found.len()
    };
    assert_eq!((ids(ANN), ids(BOB)), (1, 0));
}
