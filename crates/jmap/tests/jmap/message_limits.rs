//! Tests of the limits of messages that the Session object states: a message that has just as much is accepted.

use std::sync::Arc;

use jmap::limits::Limits;
use mail::mailbox::file::MailOptions;
use serde_json::{Map, Value, json};

use crate::world::{World, caller, session};

const MESSAGE_BYTES_MAX: u64 = 1 << 20;

/// Creates a world with the limits of a server.
fn world() -> World {
    let mail = MailOptions { message_bytes_max: MESSAGE_BYTES_MAX, ..MailOptions::default() };
    let mut world = World::with_mail_options(mail);
    let services = Arc::get_mut(&mut world.services).expect("nobody else has them");
    services.limits = Limits { message_bytes_max: MESSAGE_BYTES_MAX, ..Limits::default() };
    world
}

/// Returns a limit of the account of `alice`.
fn stated(world: &World, name: &str) -> usize {
    let session = session(world, &caller("alice"));
    let mail = &session["accounts"]["Aalice"]["accountCapabilities"]["urn:ietf:params:jmap:mail"];
    usize::try_from(mail[name].as_u64().expect("a limit")).expect("a small number")
}

fn create(world: &World, mut email: Value) -> Value {
    email["subject"] = json!("limit");
    world.call("alice", "Email/set", json!({ "accountId": "Aalice", "create": { "m": email } }))
}

#[test]
fn a_message_is_in_as_many_mailboxes_as_is_stated() {
    let world = world();
    let count_max = stated(&world, "maxMailboxesPerEmail");
    let create_one = |index: usize| (format!("b{index}"), json!({ "name": format!("Box {index}") }));
    let boxes: Map<String, Value> = (0..=count_max).map(create_one).collect();
    let made = world.call("alice", "Mailbox/set", json!({ "accountId": "Aalice", "create": boxes }));
    let ids = made["created"].as_object().expect("mailboxes").values().map(|created| created["id"].clone());
    let ids: Vec<String> = ids.map(|id| id.as_str().expect("an id").to_owned()).collect();
    let places = |ids: &[String]| ids.iter().map(|id| (id.clone(), json!(true))).collect::<Map<_, _>>();

    let made = create(&world, json!({ "mailboxIds": places(&ids[..count_max]) }));
    assert!(made["created"]["m"]["id"].is_string(), "{made}");
    let refused = create(&world, json!({ "mailboxIds": places(&ids) }));
    assert_eq!(refused["notCreated"]["m"]["type"], "tooManyMailboxes");

    let email = made["created"]["m"]["id"].as_str().expect("an id");
    let patch = json!({ format!("mailboxIds/{}", ids[count_max]): true });
    let refused = world.call("alice", "Email/set", json!({ "accountId": "Aalice", "update": { email: patch } }));
    assert_eq!(refused["notUpdated"][email]["type"], "tooManyMailboxes");
}

#[test]
fn attachments_of_the_stated_size_fit_into_a_message() {
    let world = world();
    let bytes_max = stated(&world, "maxSizeAttachmentsPerEmail");
    assert!(bytes_max > 600 << 10, "{bytes_max}");
    let inbox = world.call("alice", "Mailbox/query", json!({ "accountId": "Aalice", "filter": { "role": "inbox" } }));
    let inbox = inbox["ids"][0].as_str().expect("an inbox");
    for (length, is_accepted) in [(bytes_max, true), (bytes_max + (100 << 10), false)] {
        let blob = world.upload(&caller("alice"), "Aalice", &vec![b'x'; length], "image/png").expect("an upload");
        let attachment = json!({ "blobId": blob["blobId"], "type": "image/png", "disposition": "attachment" });
        let made = create(&world, json!({ "mailboxIds": { inbox: true }, "attachments": [attachment] }));
        assert_eq!(made["created"]["m"]["id"].is_string(), is_accepted, "{made}");
        if !is_accepted {
            assert_eq!(made["notCreated"]["m"]["type"], "tooLarge");
        }
    }
}
