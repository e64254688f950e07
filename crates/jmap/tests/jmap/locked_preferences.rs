//! Tests of preferences that the operator has set for all people.

use mail::mailbox::MailOptions;
use mail::preferences::LockedPreferences;
use serde_json::{Value, json};

use crate::world::{World, account};

fn set(world: &World, patch: Value) -> Value {
    let arguments = json!({ "accountId": account("alice"), "update": { "singleton": patch } });
    world.call("alice", "Preferences/set", arguments)
}

fn get(world: &World) -> Value {
    world.call("alice", "Preferences/get", json!({ "accountId": account("alice") }))["list"][0].clone()
}

#[test]
fn locked_preferences_have_one_value_for_all_and_cannot_be_changed() {
    let locked_preferences = LockedPreferences::parse("undoSeconds=10, collapseThreads=true").expect("they are valid");
    let world = World::with_mail_options(MailOptions { locked_preferences, ..MailOptions::default() });
    let before = get(&world);
    assert_eq!(before["locked"], json!(["undoSeconds", "collapseThreads"]));
    assert_eq!((&before["undoSeconds"], &before["collapseThreads"]), (&json!(10), &json!(true)));
    let refused = set(&world, json!({ "undoSeconds": 20, "collapseThreads": null, "language": "de" }));
    let error = &refused["notUpdated"]["singleton"];
    assert_eq!(error["type"], "invalidProperties");
    assert_eq!(error["properties"], json!(["collapseThreads", "undoSeconds"]));
    let done = set(&world, json!({ "undoSeconds": 10, "language": "de" }));
    assert_eq!(done["updated"], json!({ "singleton": null }), "the value that it has is no change: {done}");
    let after = get(&world);
    assert_eq!((&after["undoSeconds"], &after["language"]), (&json!(10), &json!("de")));
}
