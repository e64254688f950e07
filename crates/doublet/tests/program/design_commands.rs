//! Tests of `doublet view design`, `create`, `change`, `delete` and `doublet folder`: views and folders on the command
//! line.

use serde_json::{Value, json};

use crate::native::PASSWORD;
use crate::{Server, TestFolder, text};

const PLAN: &str = "plan.nsf";

const BY_DUE: &str = r#"[[view]]
title = "By Due"
aliases = ["($Due)"]
selection = 'SELECT Form = "Task"'
collapsed = true
columns = [
    { title = "Room", sort = "ascending", category = true },
    { title = "Task", item = "Subject", sort = "ascending", click = "descending" },
    { title = "Long", item = "$Long", formula = '@If(@Length(Subject) > 4; "yes"; "no")' },
]
"#;

/// Creates a database in which ann is Designer, and bob is Reader and may have personal folders and views.
fn plan() -> (TestFolder, Server) {
    let place = TestFolder::with_people(&["ann@acme.test", "bob@acme.test"]);
    place.check(&["db", "create", PLAN], "was created");
    place.check(&["db", "acl", PLAN, "settings", "--max-internet-access", "manager"], "");
    place.check(&["db", "acl", PLAN, "set", "ann@acme.test", "--level", "designer"], "");
    let own = ["--level", "reader", "--flag", "create-personal-folders"];
    place.check(&[&["db", "acl", PLAN, "set", "bob@acme.test"], &own[..]].concat(), "");
    std::fs::write(place.path("due.toml"), BY_DUE).expect("writes a test file");
    std::fs::write(place.path("password"), PASSWORD).expect("writes a test file");
    let server = place.serve();
    (place, server)
}

/// Runs a command with the password in a file and `input` on its standard input. Returns its readable output.
fn with_input(place: &TestFolder, who: &str, words: &[&str], input: &str) -> String {
    place.check_input(&[words, &["--user", who, "--password-file", "password"]].concat(), input, "")
}

fn task(place: &TestFolder, room: &str, subject: &str) -> Value {
    let items = [format!("Room={room}"), format!("Subject={subject}")];
    place.as_user("ann", &["note", "create", PLAN, "Form=Task", &items[0], &items[1]])
}

fn field(rows: &Value, name: &str) -> Vec<Value> {
    rows.as_array().expect("a list").iter().map(|row| row[name].clone()).collect()
}

#[test]
fn a_view_is_made_shown_changed_and_deleted() {
    let (place, server) = plan();
    let ann = |words: &[&str]| place.as_user("ann", words);
    task(&place, "Attic", "Sweep");
    task(&place, "Cellar", "Pump");
    let made = ann(&["view", "create", PLAN, "due.toml"]);
    assert_eq!((&made["sequence"], made["unid"].as_str().map(str::len)), (&json!(1), Some(32)));
    let shown = ann(&["view", "entries", PLAN, "($Due)"]);
    assert_eq!(field(&shown, "category"), ["Attic", "", "Cellar", ""]);
    assert_eq!(field(&shown, "Long")[1..], [json!("yes"), json!(null), json!("no")]);

    // The printed text equals the input and can be used as input again.
    let printed = with_input(&place, "ann", &["view", "design", PLAN, "by due"], "");
    let (head, file) = printed.split_once('\n').expect("a line about it");
    assert_eq!((head.contains("--expect 1"), file), (true, BY_DUE));
    let told = ann(&["view", "design", PLAN, "By Due"]);
    assert_eq!((&told["view"], &told["sequence"]), (&made["view"], &json!(1)));
    assert_eq!(told["design"]["columns"][0], json!({ "title": "Room", "sort": "ascending", "category": true }));

    let changed = printed.replace("\"Room\", sort = \"ascending\"", "\"Room\", sort = \"descending\"");
    with_input(&place, "ann", &["view", "change", PLAN, "By Due", "-", "--expect", "1"], &changed);
    assert_eq!(field(&ann(&["view", "entries", PLAN, "By Due"]), "category"), ["Cellar", "", "Attic", ""]);
    let again = ["view", "change", PLAN, "By Due", "due.toml", "--expect", "1"];
    place.fails_as_user("ann", &again, "`doublet view design` shows the current design");

    place.fails_as_user("bob", &["view", "delete", PLAN, "By Due"], "access");
    let expect = ["view", "delete", PLAN, "By Due", "--expect", "1"];
    place.fails_as_user("ann", &expect, "sequence number 2, not 1");
    with_input(&place, "ann", &["view", "delete", PLAN, "By Due"], "");
    let gone = "\"By Due\" does not exist; `doublet view list plan.nsf` lists the existing ones";
    place.fails_as_user("ann", &["view", "design", PLAN, "By Due"], gone);
    place.fails_as_user("ann", &["view", "change", PLAN, "By Due", "due.toml"], gone);
    server.stop();
}

#[test]
fn files_that_are_no_view_are_told_with_their_place() {
    let (place, server) = plan();
    let wrong = |file: &str, expected: &str| {
        std::fs::write(place.path("wrong.toml"), file).expect("writes a test file");
        place.fails_as_user("ann", &["view", "create", PLAN, "wrong.toml"], expected);
    };
    wrong("", "a view begins with [[view]]");
    wrong(&BY_DUE.replace("collapsed", "colapsed"), "line 5");
    wrong(&BY_DUE.replace("collapsed", "colapsed"), "docs/templates.md describes all keywords");
    wrong(&BY_DUE.replace("SELECT Form =", "SELECT Form"), "selection: line 1, column 13");
    wrong(&BY_DUE.replace("@If(", "@Iff("), "column \"Long\": line 1, column 1");
    wrong(
        &BY_DUE.replace("sort = \"ascending\", category", "category"),
        "column \"Room\": a categorized column must be sorted",
    );
    let many = format!("columns = [{}]\n", "{ title = \"a\" },".repeat(257));
    wrong(&format!("{}{many}", BY_DUE.split("columns").next().expect("it begins")), "at most 256 columns of a view");
    std::fs::write(place.path("wrong.toml"), [b'#', 0xFF]).expect("writes a test file");
    place.fails_as_user("ann", &["view", "create", PLAN, "wrong.toml"], "utf-8");
    place.fails_as_user("ann", &["view", "create", PLAN, "none.toml"], "none.toml");
    place.fails_as_user("ann", &["view", "create", PLAN, "-"], "name a file for one of them");
    place.fails_as_user("bob", &["view", "create", PLAN, "due.toml"], "--flag create-folders`");
    assert_eq!(place.as_user("ann", &["view", "list", PLAN]), json!([]), "nothing was made");
    server.stop();
}

#[test]
fn ones_own_views_and_folders_are_for_oneself() {
    let (place, server) = plan();
    let bob = |words: &[&str]| place.as_user("bob", words);
    let note = task(&place, "Attic", "Sweep");
    bob(&["view", "create", PLAN, "due.toml", "--personal"]);
    let told = with_input(&place, "bob", &["view", "design", PLAN, "By Due"], "");
    assert!(told.contains("\npersonal = true\n"), "{told}");
    let shared = ["view", "change", PLAN, "By Due", "due.toml"];
    place.fails_as_user("bob", &shared, "a personal view stays personal with `personal = true`");
    let own = told.replace("\"Task\", item", "\"What\", item");
    with_input(&place, "bob", &["view", "change", PLAN, "By Due", "-", "--expect", "1"], &own);
    assert_eq!(field(&bob(&["view", "list", PLAN]), "columns"), [json!(["Room", "What", "Long"])]);
    bob(&["folder", "create", PLAN, "Mine", "--personal"]);
    let number = note["note"].to_string();
    with_input(&place, "bob", &["folder", "add", PLAN, "Mine", &number], "");
    let shown = bob(&["view", "entries", PLAN, "Mine"]);
    assert_eq!(field(&shown, "note"), [note["note"].clone()]);
    place.fails_as_user("bob", &["folder", "create", PLAN, "Ours"], "no Designer access");

    place.as_user("ann", &["folder", "create", PLAN, "Ours"]);
    assert_eq!(field(&bob(&["folder", "list", PLAN]), "name"), ["Mine", "Ours"]);
    assert_eq!(field(&bob(&["folder", "list", PLAN, "--personal"]), "name"), ["Mine"]);
    assert_eq!(field(&place.as_user("ann", &["folder", "list", PLAN]), "name"), ["Ours"]);
    place.check(&["db", "acl", PLAN, "set", "ann@acme.test", "--level", "reader"], "");
    let own = ["folder", "create", PLAN, "Hers", "--personal"];
    place.fails_as_user("ann", &own, "no Designer access to plan.nsf: ann/acme.test has Reader");
    place.fails_as_user("ann", &own, "--flag create-personal-folders`");
    place.fails_as_user("ann", &["view", "design", PLAN, "By Due"], "does not exist");
    place.fails_as_user("ann", &["folder", "delete", PLAN, "Mine"], "`doublet folder list plan.nsf` lists");
    with_input(&place, "bob", &["view", "delete", PLAN, "By Due"], "");
    server.stop();
}

#[test]
fn folders_are_filled_and_emptied() {
    let (place, server) = plan();
    let ann = |words: &[&str]| place.as_user("ann", words);
    let notes = [task(&place, "Attic", "Sweep"), task(&place, "Cellar", "Pump")];
    let number = notes[0]["note"].to_string();
    let unid = notes[1]["unid"].as_str().expect("a text");
    let made = ann(&["folder", "create", PLAN, "Urgent/Today"]);
    assert_eq!((&made["name"], &made["personal"]), (&json!("Urgent/Today"), &json!(false)));
    place.fails_as_user("ann", &["folder", "create", PLAN, "Urgent/Today"], "exists already");
    let said = with_input(&place, "ann", &["folder", "add", PLAN, "Urgent/Today", &number, unid], "");
    assert_eq!(said, "2 notes are in Urgent/Today now.\n");
    assert_eq!(ann(&["folder", "rename", PLAN, "Urgent/Today", "Now"])["folder"], made["folder"]);
    let shown = ann(&["view", "entries", PLAN, "Now"]);
    assert_eq!(field(&shown, "Subject"), ["Sweep", "Pump"]);
    let emptied = "the folder is not empty; `doublet folder remove plan.nsf 'Now' NOTE` removes notes from it";
    place.fails_as_user("ann", &["folder", "delete", PLAN, "Now"], emptied);

    // A folder that gets its own columns is still a folder.
    let columns = "[[view]]\ntitle = \"Now\"\nfolder = true\ncolumns = [{ title = \"Room\", sort = \"descending\" }]\n";
    place.fails_as_user("ann", &["view", "design", PLAN, "Now"], "has no columns");
    with_input(&place, "ann", &["view", "change", PLAN, "Now", "-"], columns);
    assert_eq!(field(&ann(&["view", "entries", PLAN, "Now"]), "Room"), ["Cellar", "Attic"]);
    assert_eq!(field(&ann(&["folder", "list", PLAN]), "columns"), [json!(["Room"])]);
    place.fails_as_user("ann", &["view", "delete", PLAN, "Now"], "`doublet folder delete plan.nsf 'Now'` deletes it");

    place.fails_as_user("bob", &["folder", "remove", PLAN, "Now", &number], "access");
    place.fails_as_user("ann", &["folder", "add", PLAN, "Then", &number], "`doublet folder list plan.nsf` lists");
    let gone = "1 note is missing or not readable; `doublet note list plan.nsf` lists the existing notes";
    place.fails_as_user("ann", &["folder", "add", PLAN, "Now", &number, "999"], gone);
    place.fails_as_user("ann", &["folder", "add", PLAN, "Now", "x"], "neither the number of a note nor a UNID");
    with_input(&place, "ann", &["folder", "remove", PLAN, "Now", &number, unid], "");
    with_input(&place, "ann", &["folder", "delete", PLAN, "Now"], "");
    assert_eq!(ann(&["folder", "list", PLAN]), json!([]));
    assert_eq!(ann(&["note", "list", PLAN]).as_array().map(Vec::len), Some(2), "the notes stay");
    server.stop();
}

#[test]
fn help_shows_what_a_file_looks_like() {
    let place = TestFolder::new();
    let help = text(&place.run(&["view", "create", "--help"], "").stdout);
    let example = help.split_once("[[view]]").expect("an example").1.split("\n\n").next().expect("it ends");
    for word in ["title = ", "selection = ", "columns = ["] {
        assert!(example.contains(word), "{help}");
    }
    assert!(text(&place.run(&["folder", "--help"], "").stdout).contains("Takes notes out of a folder"));
}
