//! Deny lists that several servers change at the same time.

use notes::{DatabaseKind, Item, ItemValue, NewNote, Writer};
use proptest::prelude::*;
use revision::DeletionRule;

use crate::replicas::Replica;

/// Returns the items of a group. `kind` is its `GroupType`.
fn group(kind: &str, members: &[&str], description: &str) -> Vec<Item> {
    let members = members.iter().map(|member| (*member).to_owned()).collect();
    vec![
        Item::text("Form", "Group"),
        Item::text("GroupType", kind),
        Item::text("ListDescription", description),
        Item::summary("Members", ItemValue::TextList(members)),
    ]
}

/// Returns directories with the same group.
fn directories<const COUNT: usize>(kind: &str, members: &[&str]) -> [Replica; COUNT] {
    let replicas = std::array::from_fn(|number| Replica::of_kind(number, DatabaseKind::Directory));
    replicas[0].write(|writer| writer.note_create(NewNote::document(group(kind, members, ""))));
    for replica in &replicas[1..] {
        replica.pull(&replicas[0], DeletionRule::EditsCount);
    }
    replicas
}

/// Changes the group of a directory.
fn change(replica: &Replica, kind: &str, members: &[&str], description: &str) {
    let unid = replica.notes().iter().find(|note| note.class.is_document() && !note.is_conflict).expect("a group").unid;
    let note = replica.find(unid).expect("a group");
    replica.write(|writer: &mut Writer<'_, '_>| {
        let revision = writer.note(note)?.expect("a group").header.revision();
        writer.note_update(note, revision, &group(kind, members, description), &[])
    });
}

/// Replicates until all are equal. Returns the members of the group, its description, and the number of conflict
/// documents.
fn agree(replicas: &[Replica]) -> (Vec<String>, String, usize) {
    for _ in 0..3 {
        for one in replicas {
            for other in replicas {
                one.pull(other, DeletionRule::EditsCount);
            }
        }
    }
    for replica in &replicas[1..] {
        assert_eq!(replica.state(), replicas[0].state());
    }
    let notes = replicas[0].notes();
    let documents = || notes.iter().filter(|note| note.class.is_document());
    let group = documents().find(|note| !note.is_conflict).expect("a group");
    let item = |name: &str| group.items.iter().flatten().find(|item| item.is_named(name)).expect("a group has it");
    let members = item("Members").value.texts().to_vec();
    let description = item("ListDescription").value.text().expect("a text").to_owned();
    (members, description, documents().filter(|note| note.is_conflict).count())
}

#[test]
fn members_of_both_versions_are_excluded() {
    let replicas = directories::<3>("3", &["Old/Acme"]);
    change(&replicas[0], "3", &["Old/Acme", "Ann/Acme"], "");
    change(&replicas[1], "3", &["Old/Acme", "Bob/Acme"], "");
    // Somebody lets Old in again, and does not know of the others.
    change(&replicas[2], "3", &["Carl/Acme"], "");
    let (mut members, _, conflicts) = agree(&replicas);
    members.sort();
    assert_eq!((members.join(" "), conflicts), ("Ann/Acme Bob/Acme Carl/Acme Old/Acme".to_owned(), 0));
}

#[test]
fn removal_that_all_have_seen_stays() {
    let replicas = directories::<2>("3", &["Old/Acme", "Ann/Acme"]);
    change(&replicas[0], "3", &["Ann/Acme"], "");
    change(&replicas[1], "3", &["Old/Acme", "Ann/Acme"], "another item");
    assert_eq!(agree(&replicas), (vec!["Ann/Acme".to_owned()], "another item".to_owned(), 0));
    change(&replicas[0], "3", &["Ann/Acme", "Bob/Acme"], "another item");
    agree(&replicas);
    change(&replicas[1], "3", &["Bob/Acme"], "another item");
    assert_eq!(agree(&replicas).0, ["Bob/Acme"]);
}

#[test]
fn change_that_a_united_list_leaves_out_is_a_conflict_document() {
    let replicas = directories::<2>("3", &[]);
    change(&replicas[0], "3", &["Ann/Acme"], "of the first server");
    change(&replicas[1], "3", &["Bob/Acme"], "of the second server");
    let (mut members, description, conflicts) = agree(&replicas);
    members.sort();
    assert_eq!((members.join(" "), conflicts), ("Ann/Acme Bob/Acme".to_owned(), 1));
    assert!(description.starts_with("of the"), "{description}");
}

#[test]
fn nobody_who_is_denied_gets_what_another_kind_of_group_gives() {
    for members_of_group in [&["Ann/Acme", "Boss/Acme"][..], &["Ann/Acme"]] {
        let replicas = directories::<2>("3", &["Ann/Acme"]);
        change(&replicas[0], "2", members_of_group, "");
        change(&replicas[1], "3", &["Ann/Acme", "Mallory/Acme"], "");
        let (members, _, conflicts) = agree(&replicas);
        let group = replicas[0].notes().into_iter().find(|note| note.class.is_document() && !note.is_conflict);
        let items = group.and_then(|group| group.items).expect("a group");
        let is_deny_list = items.contains(&Item::text("GroupType", "3"));
        assert_eq!((members.contains(&"Mallory/Acme".to_owned()), conflicts), (is_deny_list, 1));
    }
}

#[test]
fn other_groups_are_not_united() {
    let replicas = directories::<2>("0", &[]);
    change(&replicas[0], "0", &["Ann/Acme"], "");
    change(&replicas[1], "0", &["Bob/Acme"], "");
    let (members, _, conflicts) = agree(&replicas);
    assert_eq!((members.len(), conflicts), (1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Nobody whom a server has excluded since the last replication is let in by another one.
    #[test]
    fn all_directories_exclude_everybody_who_was_excluded(
        rounds in proptest::collection::vec(proptest::collection::vec((0..3_usize, 0..6_u8, any::<bool>()), 1..6), 1..4),
    ) {
        let replicas = directories::<3>("3", &[]);
        for round in &rounds {
            let mut excluded = Vec::new();
            for (server, person, adds) in round {
                let name = format!("Person {person}");
                let notes = replicas[*server].notes();
                let group = notes.iter().find(|note| note.class.is_document()).expect("a group");
                let members = group.items.iter().flatten().find(|item| item.is_named("Members"));
                let mut members: Vec<String> = members.map_or(Vec::new(), |item| item.value.texts().to_vec());
                if members.contains(&name) == *adds {
                    continue;
                }
                if *adds {
                    members.push(name.clone());
                    excluded.push((*server, name));
                } else {
                    members.retain(|member| *member != name);
                    excluded.retain(|(at, known)| at != server || *known != name);
                }
                let members: Vec<&str> = members.iter().map(String::as_str).collect();
                change(&replicas[*server], "3", &members, "");
            }
            let (members, _, conflicts) = agree(&replicas);
            prop_assert_eq!(conflicts, 0);
            for (_, name) in &excluded {
                prop_assert!(members.contains(name), "{} is let in: {:?}", name, members);
            }
        }
    }
}
