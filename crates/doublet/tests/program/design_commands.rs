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
    let folder = TestFolder::with_people(&["ann@acme.test", "bob@acme.test"]);
    folder.check(&["db", "create", PLAN], "was created");
    folder.check(&["db", "acl", PLAN, "settings", "--max-internet-access", "manager"], "");
    folder.check(&["db", "acl", PLAN, "set", "ann@acme.test", "--level", "designer"], "");
    let own = ["--level", "reader", "--flag", "create-personal-folders"];
    folder.check(&[&["db", "acl", PLAN, "set", "bob@acme.test"], &own[..]].concat(), "");
    std::fs::write(folder.path("due.toml"), BY_DUE).expect("writes a test file");
    std::fs::write(folder.path("password"), PASSWORD).expect("writes a test file");
    let server = folder.serve();
    (folder, server)
}

/// Runs a command with the password in a file and `input` on its standard input. Returns its readable output.
fn with_input(folder: &TestFolder, who: &str, words: &[&str], input: &str) -> String {
    folder.check_input(&[words, &["--user", who, "--password-file", "password"]].concat(), input, "")
}

fn task(folder: &TestFolder, room: &str, subject: &str) -> Value {
    let items = [format!("Room={room}"), format!("Subject={subject}")];
    folder.as_user("ann", &["note", "create", PLAN, "Form=Task", &items[0], &items[1]])
}

fn field(rows: &Value, name: &str) -> Vec<Value> {
    rows.as_array().expect("a list").iter().map(|row| row[name].clone()).collect()
}

#[test]
fn view_is_created_shown_changed_and_deleted() {
    let (folder, server) = plan();
    let ann = |words: &[&str]| folder.as_user("ann", words);
    task(&folder, "Attic", "Sweep");
    task(&folder, "Cellar", "Pump");
    let created = ann(&["view", "create", PLAN, "due.toml"]);
    assert_eq!((&created["sequence"], created["unid"].as_str().map(str::len)), (&json!(1), Some(32)));
    let entries = ann(&["view", "entries", PLAN, "($Due)"]);
    assert_eq!(field(&entries, "category"), ["Attic", "", "Cellar", ""]);
    assert_eq!(field(&entries, "Long")[1..], [json!("yes"), json!(null), json!("no")]);

    // The printed text equals the input and can be used as input again.
    let printed = with_input(&folder, "ann", &["view", "design", PLAN, "by due"], "");
    let (head, file) = printed.split_once('\n').expect("a line about it");
    assert_eq!((head.contains("--expect 1"), file), (true, BY_DUE));
    let design = ann(&["view", "design", PLAN, "By Due"]);
    assert_eq!((&design["view"], &design["sequence"]), (&created["view"], &json!(1)));
    assert_eq!(design["design"]["columns"][0], json!({ "title": "Room", "sort": "ascending", "category": true }));

    let changed = printed.replace("\"Room\", sort = \"ascending\"", "\"Room\", sort = \"descending\"");
    with_input(&folder, "ann", &["view", "change", PLAN, "By Due", "-", "--expect", "1"], &changed);
    assert_eq!(field(&ann(&["view", "entries", PLAN, "By Due"]), "category"), ["Cellar", "", "Attic", ""]);
    let again = ["view", "change", PLAN, "By Due", "due.toml", "--expect", "1"];
    folder.fails_as_user("ann", &again, "`doublet view design` shows the current design");

    folder.fails_as_user("bob", &["view", "delete", PLAN, "By Due"], "access");
    let expect = ["view", "delete", PLAN, "By Due", "--expect", "1"];
    folder.fails_as_user("ann", &expect, "sequence number 2, not 1");
    with_input(&folder, "ann", &["view", "delete", PLAN, "By Due"], "");
    let gone = "\"By Due\" does not exist; `doublet view list plan.nsf` lists the existing ones";
    folder.fails_as_user("ann", &["view", "design", PLAN, "By Due"], gone);
    folder.fails_as_user("ann", &["view", "change", PLAN, "By Due", "due.toml"], gone);
    server.stop();
}

#[test]
fn invalid_view_file_is_reported_with_its_position() {
    let (folder, server) = plan();
    let wrong = |file: &str, expected: &str| {
        std::fs::write(folder.path("wrong.toml"), file).expect("writes a test file");
        folder.fails_as_user("ann", &["view", "create", PLAN, "wrong.toml"], expected);
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
    std::fs::write(folder.path("wrong.toml"), [b'#', 0xFF]).expect("writes a test file");
    folder.fails_as_user("ann", &["view", "create", PLAN, "wrong.toml"], "utf-8");
    folder.fails_as_user("ann", &["view", "create", PLAN, "none.toml"], "none.toml");
    folder.fails_as_user("ann", &["view", "create", PLAN, "-"], "name a file for one of them");
    folder.fails_as_user("bob", &["view", "create", PLAN, "due.toml"], "--flag create-folders`");
    assert_eq!(folder.as_user("ann", &["view", "list", PLAN]), json!([]), "nothing was made");
    server.stop();
}

#[test]
fn personal_views_and_folders_are_visible_to_their_owner_only() {
    let (folder, server) = plan();
    let bob = |words: &[&str]| folder.as_user("bob", words);
    let note = task(&folder, "Attic", "Sweep");
    bob(&["view", "create", PLAN, "due.toml", "--personal"]);
    let design = with_input(&folder, "bob", &["view", "design", PLAN, "By Due"], "");
    assert!(design.contains("\npersonal = true\n"), "{design}");
    let shared = ["view", "change", PLAN, "By Due", "due.toml"];
    folder.fails_as_user("bob", &shared, "a personal view stays personal with `personal = true`");
    let own = design.replace("\"Task\", item", "\"What\", item");
    with_input(&folder, "bob", &["view", "change", PLAN, "By Due", "-", "--expect", "1"], &own);
    assert_eq!(field(&bob(&["view", "list", PLAN]), "columns"), [json!(["Room", "What", "Long"])]);
    bob(&["folder", "create", PLAN, "Mine", "--personal"]);
    let number = note["note"].to_string();
    with_input(&folder, "bob", &["folder", "add", PLAN, "Mine", &number], "");
    let entries = bob(&["view", "entries", PLAN, "Mine"]);
    assert_eq!(field(&entries, "note"), [note["note"].clone()]);
    folder.fails_as_user("bob", &["folder", "create", PLAN, "Ours"], "no Designer access");

    folder.as_user("ann", &["folder", "create", PLAN, "Ours"]);
    assert_eq!(field(&bob(&["folder", "list", PLAN]), "name"), ["Mine", "Ours"]);
    assert_eq!(field(&bob(&["folder", "list", PLAN, "--personal"]), "name"), ["Mine"]);
    assert_eq!(field(&folder.as_user("ann", &["folder", "list", PLAN]), "name"), ["Ours"]);
    folder.check(&["db", "acl", PLAN, "set", "ann@acme.test", "--level", "reader"], "");
    let own = ["folder", "create", PLAN, "Hers", "--personal"];
    folder.fails_as_user("ann", &own, "no Designer access to plan.nsf: ann/acme.test has Reader");
    folder.fails_as_user("ann", &own, "--flag create-personal-folders`");
    folder.fails_as_user("ann", &["view", "design", PLAN, "By Due"], "does not exist");
    folder.fails_as_user("ann", &["folder", "delete", PLAN, "Mine"], "`doublet folder list plan.nsf` lists");
    with_input(&folder, "bob", &["view", "delete", PLAN, "By Due"], "");
    server.stop();
}

#[test]
fn folders_are_filled_and_emptied() {
    let (folder, server) = plan();
    let ann = |words: &[&str]| folder.as_user("ann", words);
    let notes = [task(&folder, "Attic", "Sweep"), task(&folder, "Cellar", "Pump")];
    let number = notes[0]["note"].to_string();
    let unid = notes[1]["unid"].as_str().expect("a text");
    let created = ann(&["folder", "create", PLAN, "Urgent/Today"]);
    assert_eq!((&created["name"], &created["personal"]), (&json!("Urgent/Today"), &json!(false)));
    folder.fails_as_user("ann", &["folder", "create", PLAN, "Urgent/Today"], "exists already");
    let output = with_input(&folder, "ann", &["folder", "add", PLAN, "Urgent/Today", &number, unid], "");
    assert_eq!(output, "2 notes are in Urgent/Today now.\n");
    assert_eq!(ann(&["folder", "rename", PLAN, "Urgent/Today", "Now"])["folder"], created["folder"]);
    let entries = ann(&["view", "entries", PLAN, "Now"]);
    assert_eq!(field(&entries, "Subject"), ["Sweep", "Pump"]);
    let emptied = "is not empty; `doublet folder remove plan.nsf 'Now' NOTE` removes notes from it";
    folder.fails_as_user("ann", &["folder", "delete", PLAN, "Now"], emptied);

    // A folder that gets its own columns is still a folder.
    let columns = "[[view]]\ntitle = \"Now\"\nfolder = true\ncolumns = [{ title = \"Room\", sort = \"descending\" }]\n";
    folder.fails_as_user("ann", &["view", "design", PLAN, "Now"], "has no columns");
    with_input(&folder, "ann", &["view", "change", PLAN, "Now", "-"], columns);
    assert_eq!(field(&ann(&["view", "entries", PLAN, "Now"]), "Room"), ["Cellar", "Attic"]);
    assert_eq!(field(&ann(&["folder", "list", PLAN]), "columns"), [json!(["Room"])]);
    folder.fails_as_user("ann", &["view", "delete", PLAN, "Now"], "`doublet folder delete plan.nsf 'Now'` deletes it");

    folder.fails_as_user("bob", &["folder", "remove", PLAN, "Now", &number], "access");
    folder.fails_as_user("ann", &["folder", "add", PLAN, "Then", &number], "`doublet folder list plan.nsf` lists");
    let gone = "1 note is missing or not readable; `doublet note list plan.nsf` lists the existing notes";
    folder.fails_as_user("ann", &["folder", "add", PLAN, "Now", &number, "999"], gone);
    folder.fails_as_user("ann", &["folder", "add", PLAN, "Now", "x"], "neither the number of a note nor a UNID");
    with_input(&folder, "ann", &["folder", "remove", PLAN, "Now", &number, unid], "");
    with_input(&folder, "ann", &["folder", "delete", PLAN, "Now"], "");
    assert_eq!(ann(&["folder", "list", PLAN]), json!([]));
    assert_eq!(ann(&["note", "list", PLAN]).as_array().map(Vec::len), Some(2), "the notes stay");
    server.stop();
}

#[test]
fn help_shows_an_example_of_a_view_file() {
    let folder = TestFolder::new();
    let help = text(&folder.run(&["view", "create", "--help"], "").stdout);
    let example = help.split_once("[[view]]").expect("an example").1.split("\n\n").next().expect("it ends");
    for word in ["title = ", "selection = ", "columns = ["] {
        assert!(example.contains(word), "{help}");
    }
    assert!(text(&folder.run(&["folder", "--help"], "").stdout).contains("Removes notes from a folder"));
}
