//! Profiles: shared ones and those of a user, found by name, changed by those who may.

use notes::AclLevel;
use proto::v1;
use tonic::Code;

use crate::world::{TestServer, note, plan, refusal, refused, text};

fn open(user: &str) -> v1::OpenProfileRequest {
    v1::OpenProfileRequest {
        database: plan(),
        profile: "settings".to_owned(),
        user: user.to_owned(),
        items: Some(v1::ItemSelection { extent: 1, names: Vec::new() }),
    }
}

fn update(user: &str, value: &str, expected_sequence: u32) -> v1::UpdateProfileRequest {
    v1::UpdateProfileRequest {
        database: plan(),
        profile: "Settings".to_owned(),
        user: user.to_owned(),
        items: vec![text("Color", value)],
        expected_sequence,
        expected_revision_id: Vec::new(),
        ..Default::default()
    }
}

#[tokio::test]
async fn profiles_are_found_by_name_and_user() {
    let server = TestServer::new();
    let bob = server.log_in("bob").await;
    let mut notes = bob.notes();
    let conflict = refused(Code::Aborted, "conflict");
    let author = refused(Code::PermissionDenied, "author");
    assert_eq!(refusal(notes.open_profile(open("")).await), refused(Code::NotFound, "not-found"));
    let shared = notes.update_profile(update("", "red", 0)).await.expect("an author makes it").into_inner();
    let own = notes.update_profile(update("bob", "blue", 0)).await.expect("he has access").into_inner();
    assert_ne!(shared.note_id, own.note_id);
    // All forms of his name lead to the same profile.
    for name in ["bob@acme.test", "CN=bob/O=acme.test", "BOB/Acme.Test"] {
        let found = notes.open_profile(open(name)).await.expect("the profile exists").into_inner();
        assert_eq!(found.header.as_ref().map(|header| header.note_id), Some(own.note_id), "{name}");
        assert!(found.items.contains(&text("Color", "blue")), "{found:?}");
    }
    assert_eq!(refusal(notes.update_profile(update("bob", "green", 7)).await), conflict);
    let saved = notes.update_profile(update("bob", "green", 1)).await.expect("no other save came first").into_inner();
    assert_eq!((saved.note_id, saved.sequence), (own.note_id, 2));
    let absent = v1::UpdateProfileRequest { profile: "Other".to_owned(), ..update("bob", "x", 1) };
    assert_eq!(refusal(notes.update_profile(absent).await), conflict, "the profile does not exist");
    assert_eq!(refusal(notes.update_profile(update("dan", "red", 0)).await), author);
    let again = notes.update_profile(update("", "blue", 0)).await;
    assert_eq!(refusal(again), author, "a shared profile is protected like a document");
}

#[tokio::test]
async fn editors_change_and_delete_profiles_of_others() {
    let server = TestServer::new();
    let bob = server.log_in("bob").await;
    for user in ["", "bob"] {
        bob.notes().update_profile(update(user, "red", 0)).await.expect("an author makes it");
    }
    server.set_level("dan", AclLevel::Editor);
    let dan = server.log_in("dan").await;
    let mut notes = dan.notes();
    let saved = notes.update_profile(update("bob", "gray", 1)).await.expect("an editor may").into_inner();
    assert_eq!(saved.sequence, 2);
    let direct = v1::UpdateNoteRequest { database: plan(), note: note(saved.note_id), ..Default::default() };
    let direct = notes.update_note(direct).await;
    assert_eq!(refusal(direct), refused(Code::InvalidArgument, "invalid"), "a profile is changed by its name only");
    for deleted in [true, false] {
        let profile = "SETTINGS".to_owned();
        let shared = v1::DeleteProfileRequest { database: plan(), profile, user: String::new() };
        let reply = notes.delete_profile(shared).await.expect("an editor may").into_inner();
        assert_eq!(reply.deleted, deleted);
    }
    assert_eq!(refusal(notes.open_profile(open("")).await), refused(Code::NotFound, "not-found"));
    notes.open_profile(open("bob")).await.expect("his profile still exists");
}
