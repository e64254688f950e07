//! Tests of preferences that the operator has set for all people.

use jmap::push::{AccountStates, observe};
use jmap::type_selection::TypeSelection;
use mail::mailbox::MailOptions;
use mail::preferences::LockedPreferences;
use serde_json::{Value, json};

use crate::world::{World, account, caller};

fn set(world: &World, patch: Value) -> Value {
    let arguments = json!({ "accountId": account("alice"), "update": { "singleton": patch } });
    world.call("alice", "Preferences/set", arguments)
}

fn get(world: &World) -> Value {
    world.call("alice", "Preferences/get", json!({ "accountId": account("alice") }))["list"][0].clone()
}

fn options(locked: &str) -> MailOptions {
    let locked_preferences = LockedPreferences::parse(locked).expect("they are valid");
    MailOptions { locked_preferences, ..MailOptions::default() }
}

fn state(world: &World) -> String {
    let answer = world.call("alice", "Preferences/get", json!({ "accountId": account("alice") }));
    answer["state"].as_str().expect("a state").to_owned()
}

/// Returns the changed objects and the new state.
fn changes(world: &World, since: &str) -> (Value, Value) {
    let arguments = json!({ "accountId": account("alice"), "sinceState": since });
    let answer = world.call("alice", "Preferences/changes", arguments);
    (answer["updated"].clone(), answer["newState"].clone())
}

fn push_states(world: &World) -> AccountStates {
    observe(&world.services, &caller("alice")).expect("the accounts open").states
}

#[test]
fn the_state_changes_with_the_locked_preferences() {
    let world = World::new();
    set(&world, json!({ "language": "de" }));
    let free = state(&world);
    let pushed = push_states(&world);
    let world = world.restart_with(options("pageSize=20"));
    let locked = state(&world);
    assert_ne!(locked, free);
    assert_eq!(changes(&world, &free), (json!(["singleton"]), json!(locked)));
    assert_eq!(changes(&world, &locked), (json!([]), json!(locked)));
    let pushed_change =
        push_states(&world).differences(&pushed, &TypeSelection::parse("Preferences")).expect("there is a change");
    assert_eq!(pushed_change["changed"], json!({ "Aalice": { "Preferences": locked } }));
    let world = world.restart_with(options("pageSize=30"));
    let other = state(&world);
    assert_eq!(changes(&world, &locked), (json!(["singleton"]), json!(other)));
    let world = world.restart_with(options("pageSize=20"));
    assert_eq!(state(&world), locked, "the same values have the same state");
    let done = set(&world, json!({ "language": "fr" }));
    assert_eq!((&done["oldState"], &done["newState"]), (&json!(locked), &json!(state(&world))));
    assert_eq!(changes(&world, &locked), (json!(["singleton"]), done["newState"].clone()));
    let world = world.restart();
    assert_eq!(changes(&world, &locked), (json!(["singleton"]), json!(state(&world))));
}

#[test]
fn states_with_other_marks_are_unknown() {
    let world = World::with_mail_options(options("pageSize=20"));
    for since in ["0-", "0-x", "0-AB", "0-ab-cd", "-ab", "0.0.singleton-ab"] {
        let arguments = json!({ "accountId": account("alice"), "sinceState": since });
        let responses = world.calls("alice", &json!([["Preferences/changes", arguments, "c"]]));
        assert_eq!(responses[0][1]["type"], "cannotCalculateChanges", "{since}: {responses}");
    }
    let mismatch = json!({ "accountId": account("alice"), "ifInState": "0", "update": { "singleton": {} } });
    let responses = world.calls("alice", &json!([["Preferences/set", mismatch, "c"]]));
    assert_eq!(responses[0][1]["type"], "stateMismatch", "{responses}");
}

#[test]
fn locked_preferences_have_one_value_for_all_and_cannot_be_changed() {
    let world = World::with_mail_options(options("undoSeconds=10, collapseThreads=true"));
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
