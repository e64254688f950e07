//! Local replicas: a person takes databases along, changes them offline, and brings the changes to the server.

use serde_json::{Value, json};

use crate::{Server, TestFolder};

/// A server with a discussion of Ann, an editor, and Bob, an author, and the folders of both.
struct World {
    folder: TestFolder,
    server: Server,
}

impl World {
    fn new() -> Self {
        let folder = TestFolder::with_people(&["ann@acme.test", "bob@acme.test"]);
        folder.check(&["db", "create", "talk.nsf"], "was created");
        for (name, level) in [("ann@acme.test", "editor"), ("bob@acme.test", "author")] {
            folder.check(&["db", "acl", "talk.nsf", "set", name, "--level", level], "");
        }
        let server = folder.serve();
        Self { folder, server }
    }

    fn local(&self, who: &str) -> String {
        self.folder.path(&format!("{who}-local")).display().to_string()
    }

    /// Replicates the folder of a person. Returns the rows of the directions.
    fn replicate(&self, who: &str, options: &[&str]) -> (Vec<Value>, String) {
        let address = self.server.listeners.get("native").expect("it listens");
        let certificate = self.folder.data().join("tls/certificate.pem").display().to_string();
        let local = self.local(who);
        let words = [&["--local", &local, "replicate", address], options, &["--certificate", &certificate]].concat();
        // It fails if the server refuses documents, and tells what was done all the same.
        let words = [&words[..], &["--user", who, "--password-file", "-", "--json"]].concat();
        let output = self.folder.run(&words, "sesame street\n");
        let text = crate::text(&output.stdout);
        let answer: Value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{words:?}: {error} in {text:?}, {}", crate::text(&output.stderr)));
        let rows = answer.as_array().cloned().unwrap_or_else(|| vec![answer.clone()]);
        (rows, answer.to_string())
    }

    /// Runs a command on the folder of a person, without a connection.
    fn offline(&self, who: &str, words: &[&str]) -> Value {
        let local = self.local(who);
        self.folder.json(&[&["--local", &local], words].concat())
    }

    fn subjects(&self, list: &Value) -> Vec<String> {
        let rows = list.as_array().expect("a list").iter();
        let mut subjects: Vec<String> = rows.filter_map(|row| row["Subject"].as_str().map(str::to_owned)).collect();
        subjects.sort();
        subjects
    }

    fn here(&self, who: &str) -> Vec<String> {
        self.subjects(&self.offline(who, LIST))
    }

    fn there(&self, who: &str) -> Vec<String> {
        self.subjects(&self.folder.as_user(who, LIST))
    }
}

const LIST: &[&str] = &["note", "list", "talk.nsf", "--item", "Subject", "--limit", "0"];

#[test]
fn offline_changes_meet_those_of_the_server() {
    let world = World::new();
    let ann = |words: &[&str]| world.folder.as_user("ann", words);
    let made = ann(&["note", "create", "talk.nsf", "Subject=Plan", "Color=red", "$ConflictAction=1"]);
    let plan = made["unid"].as_str().expect("it has one").to_owned();
    let gone = ann(&["note", "create", "talk.nsf", "Subject=Old"])["unid"].as_str().expect("it has one").to_owned();
    let (rows, _) = world.replicate("ann", &["talk.nsf"]);
    assert_eq!((&rows[0]["received"], &rows[0]["conflicts"]), (&json!(3), &json!(0)), "{rows:?}");
    assert_eq!(world.here("ann"), ["Old", "Plan"]);
    // Offline: a change, a new document with an attachment, and a deletion. Meanwhile another item changes there.
    world.offline("ann", &["note", "set", "talk.nsf", &plan, "Color=green"]);
    let made = world.offline("ann", &["note", "create", "talk.nsf", "Subject=From the train"]);
    let unid = made["unid"].as_str().expect("it has one");
    std::fs::write(world.folder.path("notes.txt"), "the notes\n".repeat(60_000)).expect("writes a test file");
    world.offline("ann", &["note", "attach", "talk.nsf", unid, &world.folder.path("notes.txt").display().to_string()]);
    world.offline("ann", &["note", "delete", "talk.nsf", &gone]);
    ann(&["note", "set", "talk.nsf", &plan, "Subject=The plan"]);
    let (rows, text) = world.replicate("ann", &[]);
    let of = |direction: &str| rows.iter().find(|row| row["direction"] == direction).expect("a row");
    assert_eq!((&of("push")["received"], &of("push")["merged"]), (&json!(3), &json!(1)), "{text}");
    for list in [world.here("ann"), world.there("ann")] {
        assert_eq!(list, ["From the train", "The plan"]);
    }
    let color = |note: &Value| note.to_string().contains("green");
    assert!(color(&ann(&["note", "get", "talk.nsf", &plan])), "both changes are there");
    assert!(color(&world.offline("ann", &["note", "get", "talk.nsf", &plan])));
    let out = world.folder.path("out.txt").display().to_string();
    ann(&["note", "fetch", "talk.nsf", unid, "notes.txt", "--to", &out]);
    assert_eq!(std::fs::read(&out).expect("it was written").len(), 10 * 60_000);
    // Nothing is left to do, and what has come is not offered back.
    let (rows, text) = world.replicate("ann", &[]);
    assert!(rows.iter().all(|row| row["received"] == 0), "{text}");
    let (rows, text) = world.replicate("ann", &[]);
    assert!(rows.iter().all(|row| row["listed"] == 0), "{text}");
}

#[test]
fn the_server_refuses_what_the_person_may_not_do() {
    let world = World::new();
    let made = world.folder.as_user("ann", &["note", "create", "talk.nsf", "Subject=Of Ann"]);
    let of_ann = made["unid"].as_str().expect("it has one").to_owned();
    world.folder.as_user("ann", &["note", "create", "talk.nsf", "Subject=Secret", "Readers:readers=ann/acme.test"]);
    world.replicate("bob", &["talk.nsf"]);
    assert_eq!(world.here("bob"), ["Of Ann"], "hidden documents do not leave the server");
    let local = world.local("bob");
    // His own program refuses it, too.
    world.folder.check_fails(&["--local", &local, "note", "set", "talk.nsf", &of_ann, "Subject=Of Bob"], "authors");
    // With the rights of the operator of the folder, Bob makes himself Manager there, and changes it.
    let config = ["--data", &local];
    let operator = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doublet"));
        let output = command.args(config).args(words).output().expect("the program runs");
        assert!(output.status.success(), "{words:?}: {}", crate::text(&output.stderr));
    };
    operator(&["db", "acl", "talk.nsf", "set", "bob/acme.test", "--level", "manager"]);
    world.offline("bob", &["note", "set", "talk.nsf", &of_ann, "Subject=Of Bob"]);
    world.offline("bob", &["note", "create", "talk.nsf", "Subject=New"]);
    let (rows, text) = world.replicate("bob", &["--push"]);
    assert_eq!((&rows[0]["received"], &rows[0]["refused"]), (&json!(1), &json!(1)), "{text}");
    assert_eq!(world.there("ann"), ["New", "Of Ann", "Secret"]);
    // It is offered again each time.
    let (rows, text) = world.replicate("bob", &["--push"]);
    assert_eq!((&rows[0]["received"], &rows[0]["refused"]), (&json!(0), &json!(1)), "{text}");
}

#[test]
fn folders_belong_to_one_person_and_one_server() {
    let world = World::new();
    world.replicate("ann", &["talk.nsf"]);
    let address = world.server.listeners.get("native").expect("it listens");
    let certificate = world.folder.data().join("tls/certificate.pem").display().to_string();
    let local = world.local("ann");
    let words = ["--local", &local, "replicate", address, "--certificate", &certificate];
    world.folder.fails_as_user("bob", &words, "has the local replicas of ann/acme.test");
    let data = world.folder.data().display().to_string();
    let words = ["--local", &data, "replicate", address, "--certificate", &certificate];
    world.folder.fails_as_user("ann", &words, "the data folder of a server");
    world.folder.check_fails(&["--local", "nothing", "db", "list"], "has no local replicas");
    world.folder.check_fails(&["--local", &local, "db", "list", "--user", "ann"], "needs no connection");
    world.folder.check_fails(&["--local", &local, "user", "list"], "--local cannot be used here");
    let words = ["--local", &local, "replicate", "localhost:99999", "--certificate", &certificate];
    world.folder.fails_as_user("ann", &words, "\"localhost:99999\" is not a host with an optional port");
    let serve = std::process::Command::new(env!("CARGO_BIN_EXE_doublet")).args(["--data", &local, "serve"]).output();
    let text = crate::text(&serve.expect("the program runs").stderr);
    assert!(text.contains("has the local replicas of a person"), "{text}");
}
