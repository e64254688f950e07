//! Tests of servers that replicate: two programs, each with its certificate, and databases that are changed on both.

use rcgen::DnType;
use serde_json::{Value, json};

use crate::native_mutual_tls::CertificateAuthority;
use crate::{Server, TestFolder};

/// Two servers of one organization.
struct Pair {
    hub: TestFolder,
    spoke: TestFolder,
}

impl Pair {
    /// Creates the data folders. Both servers have Ann, and certificates of one authority.
    fn new() -> Self {
        let authority = CertificateAuthority::new("Acme servers");
        Self { hub: Self::folder(&authority, "hub"), spoke: Self::folder(&authority, "spoke") }
    }

    fn folder(authority: &CertificateAuthority, name: &str) -> TestFolder {
        let mut folder = TestFolder::with_people(&["ann@acme.test"]);
        let host = format!("{name}.acme.test");
        let (chain, key) = authority.sign(&host, &[(DnType::CommonName, &host), (DnType::OrganizationName, "Acme")]);
        for (file, text) in [("peers.pem", &authority.pem), ("chain.pem", &chain), ("key.pem", &key)] {
            std::fs::write(folder.path(file), text).expect("writes a test file");
        }
        let settings = [
            ("server.name", host),
            ("server.organization", "Acme".to_owned()),
            ("tls.peers", folder.path("peers.pem").display().to_string()),
            ("tls.certificate", folder.path("chain.pem").display().to_string()),
            ("tls.key", folder.path("key.pem").display().to_string()),
        ];
        for (key, value) in settings {
            folder.options.extend(["--set".to_owned(), format!("{key}={value}")]);
        }
        folder
    }

    /// Creates the database on the hub, open to Ann and to the servers.
    fn create_database(&self) {
        self.hub.check(&["db", "create", "talk.nsf"], "was created");
        for (name, kind, level) in [("ann@acme.test", "person", "editor"), ("*/Acme", "server", "manager")] {
            self.hub.check(&["db", "acl", "talk.nsf", "set", name, "--kind", kind, "--level", level], "");
        }
    }
}

/// Lets the server of a folder replicate with another one, and returns the row of the database.
fn replicate(folder: &TestFolder, other: &Server, name: &str, options: &[&str]) -> Value {
    let address = other.listeners.get("native").expect("it listens");
    let server_name = format!("{name}.acme.test");
    let direction: &[&str] = if options.contains(&"--compare") { &[] } else { &["--pull"] };
    let words = [&["replicate", address, "talk.nsf", "--server-name", &server_name], options, direction].concat();
    let rows = folder.json(&words);
    rows.as_array().and_then(|rows| rows.first()).cloned().expect("one row")
}

fn subjects(folder: &TestFolder) -> Vec<String> {
    subjects_of("ann", folder)
}

/// Returns the subjects that a user sees.
fn subjects_of(user: &str, folder: &TestFolder) -> Vec<String> {
    let listed = folder.as_user(user, &["note", "list", "talk.nsf", "--item", "Subject", "--limit", "0"]);
    let rows = listed.as_array().expect("a list").iter();
    let mut subjects: Vec<String> = rows.filter_map(|row| row["Subject"].as_str().map(str::to_owned)).collect();
    subjects.sort();
    subjects
}

#[test]
fn two_servers_replicate_a_discussion() {
    let pair = Pair::new();
    pair.create_database();
    let hub = pair.hub.serve();
    let spoke = pair.spoke.serve();
    let ann = |folder: &TestFolder, words: &[&str]| folder.as_user("ann", words);
    let made = ann(&pair.hub, &["note", "create", "talk.nsf", "Subject=Welcome", "Color=red", "$ConflictAction=1"]);
    let unid = made["unid"].as_str().expect("it has one").to_owned();
    std::fs::write(pair.hub.path("plan.txt"), "the plan\n".repeat(50_000)).expect("writes a test file");
    let file = pair.hub.path("plan.txt").display().to_string();
    ann(&pair.hub, &["note", "attach", "talk.nsf", &unid, &file]);
    let row = replicate(&pair.spoke, &hub, "hub", &[]);
    assert_eq!((&row["received"], &row["refused"], &row["skipped"]), (&json!(2), &json!(0), &json!(0)), "{row}");
    assert_eq!(subjects(&pair.spoke), ["Welcome"]);
    // What has come is not fetched again.
    assert_eq!(replicate(&pair.spoke, &hub, "hub", &[])["listed"], json!(0));
    // Both change different items, and one of them makes a further document.
    ann(&pair.hub, &["note", "set", "talk.nsf", &unid, "Subject=Welcome all"]);
    ann(&pair.spoke, &["note", "set", "talk.nsf", &unid, "Color=green"]);
    ann(&pair.spoke, &["note", "create", "talk.nsf", "Subject=From the spoke"]);
    let row = replicate(&pair.hub, &spoke, "spoke", &[]);
    assert_eq!((&row["received"], &row["merged"], &row["conflicts"]), (&json!(2), &json!(1), &json!(0)), "{row}");
    replicate(&pair.spoke, &hub, "hub", &[]);
    for folder in [&pair.hub, &pair.spoke] {
        assert_eq!(subjects(folder), ["From the spoke", "Welcome all"]);
    }
    let compared = replicate(&pair.spoke, &hub, "hub", &["--compare"]);
    assert_eq!((&compared["different"], &compared["notes_here"]), (&json!(0), &json!(3)), "{compared}");
    // The attachment has come with its note.
    let out = pair.spoke.path("out.txt").display().to_string();
    ann(&pair.spoke, &["note", "fetch", "talk.nsf", &unid, "plan.txt", "--to", &out]);
    assert_eq!(std::fs::read(&out).expect("it was written").len(), 9 * 50_000);
    // A deletion replicates.
    ann(&pair.spoke, &["note", "delete", "talk.nsf", &unid]);
    assert_eq!(replicate(&pair.hub, &spoke, "spoke", &[])["deleted"], json!(1));
    assert_eq!(subjects(&pair.hub), ["From the spoke"]);
    let logged = pair.spoke.json(&["replication", "log", "talk.nsf", "--from", "hub.acme.test"]);
    let logged = logged.as_array().expect("a list");
    assert!(logged.iter().all(|run| run["result"] == "complete" && run["by"] == "command"), "{logged:?}");
    let first = logged.last().expect("the first run brought something");
    assert_eq!((&first["received"], &first["runs"]), (&json!(2), &json!(1)), "{first}");
    assert!(first["bytes_received"].as_u64().expect("a number") > 9 * 50_000, "{first}");
    pair.spoke.check(&["replication", "log", "other.nsf"], "no such replications");
    pair.spoke.check_fails(&["db", "create", "log.nsf"], "reserved");
    hub.stop();
    spoke.stop();
    for folder in [&pair.hub, &pair.spoke] {
        folder.check(&["fixup"], "No damage was found.");
    }
}

/// Returns what Ann has not read in the discussion.
fn unread_of_ann(folder: &TestFolder) -> Vec<String> {
    let listed = folder.as_user("ann", &["note", "list", "talk.nsf", "--item", "Subject", "--limit", "0"]);
    let rows = listed.as_array().expect("a list").iter().filter(|row| row["unread"] == json!(true));
    let mut subjects: Vec<String> = rows.filter_map(|row| row["Subject"].as_str().map(str::to_owned)).collect();
    subjects.sort();
    subjects
}

#[test]
fn what_a_user_has_read_on_one_server_is_read_on_the_other() {
    let pair = Pair::new();
    pair.create_database();
    let hub = pair.hub.serve();
    let spoke = pair.spoke.serve();
    let ann = |folder: &TestFolder, words: &[&str]| folder.as_user("ann", words);
    let mut made = Vec::new();
    for subject in ["Subject=One", "Subject=Two", "Subject=Three"] {
        let note = ann(&pair.hub, &["note", "create", "talk.nsf", subject]);
        made.push(note["unid"].as_str().expect("it has one").to_owned());
    }
    let shown = pair.hub.json(&["db", "show", "talk.nsf"]);
    assert_eq!((&shown["unread_replication"], &shown["owner"]), (&json!("cluster"), &json!("")), "{shown}");
    ann(&pair.hub, &["note", "mark", "talk.nsf", &made[0]]);
    replicate(&pair.spoke, &hub, "hub", &[]);
    assert_eq!(unread_of_ann(&pair.hub), ["Three", "Two"]);
    assert_eq!(unread_of_ann(&pair.spoke), ["One", "Three", "Two"], "marks stay within a cluster by default");
    for folder in [&pair.hub, &pair.spoke] {
        folder.check(&["db", "set", "talk.nsf", "--unread-replication", "everywhere"], "was changed");
    }
    ann(&pair.spoke, &["note", "mark", "talk.nsf", &made[1]]);
    let row = replicate(&pair.spoke, &hub, "hub", &[]);
    assert_eq!((&row["unread_marks"], &row["received"]), (&json!(1), &json!(0)), "{row}");
    replicate(&pair.hub, &spoke, "spoke", &[]);
    for folder in [&pair.hub, &pair.spoke] {
        assert_eq!(unread_of_ann(folder), ["Three"]);
    }
    ann(&pair.hub, &["note", "mark", "talk.nsf", &made[1], "--unread"]);
    replicate(&pair.spoke, &hub, "hub", &[]);
    assert_eq!(unread_of_ann(&pair.spoke), ["Three", "Two"]);
    // A server that may not change all documents neither learns who has read what, nor is it believed.
    pair.hub.check(&["db", "acl", "talk.nsf", "set", "*/Acme", "--kind", "server", "--level", "author"], "");
    ann(&pair.hub, &["note", "mark", "talk.nsf", &made[2]]);
    assert_eq!(replicate(&pair.spoke, &hub, "hub", &[])["unread_marks"], json!(0));
    assert_eq!(unread_of_ann(&pair.spoke), ["Three", "Two"]);
    hub.stop();
    spoke.stop();
    for folder in [&pair.hub, &pair.spoke] {
        folder.check(&["fixup"], "No damage was found.");
    }
}

/// Returns a folder of a server of the domain, without data.
fn server_folder(host: &str, mut folder: TestFolder) -> TestFolder {
    for assignment in [format!("server.name={host}"), "server.organization=Acme".to_owned()] {
        folder.options.extend(["--set".to_owned(), assignment]);
    }
    folder
}

#[test]
fn a_server_joins_the_domain_of_another_one() {
    let hub = server_folder("hub.acme.test", TestFolder::new());
    hub.check(&["domain", "add", "acme.test"], "was added");
    hub.check_input(&["user", "add", "ann@acme.test", "--password-stdin"], "sesame street\n", "was added");
    let spoke = server_folder("spoke.acme.test", TestFolder::new());
    let running = hub.serve();
    let address = running.listeners.get("native").expect("it listens").clone();
    let file = hub.path("spoke.pem").display().to_string();
    let register = ["server", "register", "spoke.acme.test", "--output", &file, "--own-address", &address];
    hub.check(&register, "is registered");
    hub.check_fails(&register, "exists already");
    hub.check_fails(&["server", "join", &file], "the name of this server is hub.acme.test");
    spoke.check_fails(&["server", "join", &hub.path("key.pem").display().to_string()], "key.pem");
    spoke.check(&["server", "join", &file], "has joined the domain of hub.acme.test/Acme");
    let joined = spoke.serve();
    // The person and the password have come with the directory.
    let databases = spoke.as_user("ann", &["db", "list"]);
    assert!(databases.is_array(), "{databases}");
    // Another person, and a database.
    hub.check_input(&["user", "add", "bob@acme.test", "--password-stdin"], "sesame street\n", "was added");
    hub.check(&["db", "create", "talk.nsf"], "was created");
    hub.check(&["db", "acl", "talk.nsf", "set", "bob@acme.test", "--level", "editor"], "");
    hub.as_user("bob", &["note", "create", "talk.nsf", "Subject=Hello"]);
    let rows = spoke.json(&["replicate", "hub.acme.test", "names.nsf", "talk.nsf", "--pull"]);
    let refused: Vec<_> = rows.as_array().into_iter().flatten().map(|row| row["refused"].clone()).collect();
    assert_eq!(refused, [json!(0), json!(0)], "{rows}");
    let listed = spoke.as_user("bob", &["note", "list", "talk.nsf", "--item", "Subject"]);
    assert_eq!(listed[0]["Subject"], json!("Hello"));
    // Without a list of databases, those that both servers have are replicated.
    let rows = spoke.json(&["replicate", "hub.acme.test", "--compare"]);
    let different: Vec<_> = rows.as_array().into_iter().flatten().map(|row| row["different"].clone()).collect();
    assert_eq!(different, [json!(0), json!(0)], "{rows}");
    // A joined server that joins again gets its certificate anew.
    joined.stop();
    spoke.check(&["server", "join", &file], "has joined");
    hub.check(&["server", "list"], "spoke.acme.test/Acme");
    hub.check(&["server", "remove", "spoke.acme.test"], "was removed");
    let joined = spoke.serve();
    let denied = "the deny list TerminatedServers excludes spoke.acme.test/Acme";
    spoke.check_fails(&["replicate", "hub.acme.test", "talk.nsf", "--pull"], denied);
    // Registered again, it is let in.
    let again = hub.path("again.pem").display().to_string();
    hub.check(
        &["server", "register", "spoke.acme.test", "--output", &again, "--own-address", &address],
        "is registered",
    );
    spoke.check(&["replicate", "hub.acme.test", "talk.nsf", "--pull"], "talk.nsf");
    // A server admits only those that its document admits, if there are any.
    let pull = ["replicate", "hub.acme.test", "talk.nsf", "--pull"];
    hub.check(&["server", "set", "hub.acme.test", "--exclude", "*/Acme"], "hub.acme.test/Acme was changed");
    spoke.check_fails(&pull, "this server excludes spoke.acme.test/Acme");
    hub.check(&["server", "set", "hub.acme.test", "--exclude", "none", "--admit", "other.acme.test"], "was changed");
    spoke.check_fails(&pull, "this server does not admit spoke.acme.test/Acme");
    hub.check(&["server", "set", "hub.acme.test", "--admit", "LocalDomainServers"], "was changed");
    spoke.check(&pull, "talk.nsf");
    joined.stop();
    running.stop();
}

/// Returns two running servers of one domain, the second joined to the first, which has Ann.
pub fn joined_servers() -> ((TestFolder, Server), (TestFolder, Server)) {
    let hub = server_folder("hub.acme.test", TestFolder::with_people(&["ann@acme.test"]));
    hub.check_input(&["user", "add", "bob@acme.test", "--password-stdin"], "sesame street\n", "was added");
    let spoke = server_folder("spoke.acme.test", TestFolder::new());
    let running = hub.serve();
    let address = running.listeners.get("native").expect("it listens").clone();
    let file = hub.path("spoke.pem").display().to_string();
    hub.check(
        &["server", "register", "spoke.acme.test", "--output", &file, "--own-address", &address],
        "is registered",
    );
    spoke.check(&["server", "join", &file], "has joined");
    let joined = spoke.serve();
    ((hub, running), (spoke, joined))
}

#[test]
fn connections_replicate_without_a_command() {
    let ((hub, running), (spoke, mut joined)) = joined_servers();
    hub.check(&["db", "create", "talk.nsf"], "was created");
    hub.check(&["db", "acl", "talk.nsf", "set", "bob@acme.test", "--level", "editor"], "");
    hub.as_user("bob", &["note", "create", "talk.nsf", "Subject=Hello"]);
    spoke.check_fails(&["connection", "add", "other.acme.test"], "there is no server other.acme.test");
    spoke.check(
        &["connection", "add", "hub.acme.test", "--database", "talk.nsf", "--direction", "pull"],
        "takes over the changes of hub.acme.test/Acme every 15min.",
    );
    let line = joined.wait_for_log(" replicated ");
    assert!(line.contains("received=2") && line.contains("hub.acme.test/Acme"), "{line}");
    let listed = spoke.json(&["connection", "list"]);
    assert_eq!(
        (&listed[0]["with"], &listed[0]["result"]),
        (&json!("hub.acme.test/Acme"), &json!("received 2, sent 0")),
        "{listed}"
    );
    assert_eq!(spoke.as_user("bob", &["note", "list", "talk.nsf", "--item", "Subject"])[0]["Subject"], json!("Hello"));
    // A failure is in the list, too.
    running.stop();
    spoke.check(&["connection", "add", "hub.acme.test", "--database", "other.nsf"], "every 15min");
    spoke.check(&["connection", "remove", "hub.acme.test"], "was removed");
    joined.stop();
}

#[test]
fn a_push_is_the_pull_of_the_other_server() {
    let ((hub, running), (spoke, joined)) = joined_servers();
    hub.check(&["db", "create", "talk.nsf"], "was created");
    hub.check(&["db", "acl", "talk.nsf", "set", "bob@acme.test", "--level", "editor"], "");
    // The hub does not know yet where the spoke is.
    spoke.json(&["replicate", "hub.acme.test", "talk.nsf", "--pull"]);
    spoke.as_user("bob", &["note", "create", "talk.nsf", "Subject=From the spoke"]);
    let hint = "`doublet server set spoke.acme.test --address`";
    spoke.check_fails(&["replicate", "hub.acme.test", "talk.nsf", "--push"], hint);
    let address = joined.listeners.get("native").expect("it listens").clone();
    hub.check_fails(&["server", "set", "other.acme.test", "--address", &address], "no server other.acme.test");
    hub.check_fails(&["server", "set", "spoke.acme.test", "--address", "spoke:0"], "optional port");
    hub.check(&["server", "set", "spoke.acme.test", "--address", &address], "spoke.acme.test/Acme was changed");
    let rows = hub.json(&["replicate", "spoke.acme.test", "talk.nsf", "--dry-run"]);
    assert_eq!((&rows[0]["would"], &rows[0]["receive"]), (&json!("update"), &json!(1)), "{rows}");
    let rows = spoke.json(&["replicate", "hub.acme.test", "talk.nsf", "--push"]);
    assert_eq!((&rows[0]["direction"], &rows[0]["received"]), (&json!("push"), &json!(1)), "{rows}");
    assert_eq!(subjects_of("bob", &hub), ["From the spoke"]);
    // A push creates nothing on the other server: its operator decides what it has.
    spoke.check(&["db", "create", "plans.nsf"], "was created");
    spoke.check_fails(&["replicate", "hub.acme.test", "plans.nsf", "--push"], "plans.nsf --pull");
    assert!(!hub.json(&["db", "list"]).to_string().contains("plans.nsf"));
    let logged = hub.json(&["replication", "log", "plans.nsf"]);
    assert!(logged[0]["result"].as_str().is_some_and(|result| result.contains("no replica")), "{logged}");
    // A joined server has no key to issue certificates with, and keeps its trust in the certifier.
    let third = spoke.path("third.pem").display().to_string();
    spoke.check_fails(&["server", "register", "third.acme.test", "--output", &third], "first one of the domain");
    // Without a direction, both servers get the changes of the other one.
    hub.as_user("bob", &["note", "create", "talk.nsf", "Subject=From the hub"]);
    spoke.as_user("bob", &["note", "create", "talk.nsf", "Subject=More"]);
    let rows = spoke.json(&["replicate", "hub.acme.test", "talk.nsf"]);
    let directions: Vec<_> = rows.as_array().into_iter().flatten().map(|row| row["direction"].clone()).collect();
    assert_eq!(directions, [json!("pull"), json!("push")], "{rows}");
    for folder in [&hub, &spoke] {
        assert_eq!(subjects_of("bob", folder), ["From the hub", "From the spoke", "More"]);
    }
    let rows = spoke.json(&["replicate", "hub.acme.test", "talk.nsf", "--compare"]);
    assert_eq!(rows[0]["different"], json!(0), "{rows}");
    let rows = hub.json(&["replication", "history", "talk.nsf"]);
    assert_eq!((&rows[0]["from"], &rows[0]["state"]), (&json!("spoke.acme.test/Acme"), &json!("complete")), "{rows}");
    hub.check(&["replication", "clear", "talk.nsf", "--from", "spoke.acme.test"], "compare everything");
    let rows = hub.json(&["replicate", "spoke.acme.test", "talk.nsf", "--dry-run"]);
    assert_eq!((&rows[0]["listed"], &rows[0]["receive"]), (&json!(4), &json!(0)), "{rows}");
    joined.stop();
    running.stop();
}

#[test]
fn mail_file_of_another_server_comes_as_a_replica() {
    let ((_hub, running), (spoke, joined)) = joined_servers();
    crate::deliver(&running, "bob@acme.test", "Subject: one\r\n\r\nHello");
    let log_in = |wanted: &str| {
        let mut imap = joined.dial("imap");
        imap.expect("* OK");
        imap.ask("a LOGIN bob \"sesame street\"", wanted);
        imap
    };
    log_in("a NO [CONTACTADMIN]");
    assert!(!spoke.json(&["db", "list"]).to_string().contains("mail/bob.nsf"), "no other mail file was created");
    let rows = spoke.json(&["replicate", "hub.acme.test", "mail/bob.nsf", "--pull"]);
    assert_eq!((&rows[0]["refused"], &rows[0]["skipped"]), (&json!(0), &json!(0)), "{rows}");
    let mut imap = log_in("a OK");
    imap.say("b SELECT INBOX");
    assert_eq!(imap.line_with("EXISTS"), "* 1 EXISTS");
    imap.expect("b OK");
    imap.say("c FETCH 1 BODY.PEEK[HEADER.FIELDS (SUBJECT)]");
    assert_eq!(imap.line_with("Subject"), "Subject: one");
    // It is read and answered here, and the marks reach the other server.
    drop(imap);
    let mut imap = log_in("a OK");
    imap.ask("b SELECT INBOX", "b OK");
    imap.ask("c STORE 1 +FLAGS (\\Seen \\Answered Work)", "c OK");
    let compared = spoke.json(&["replicate", "hub.acme.test", "mail/bob.nsf", "--compare"]);
    assert_eq!(compared[0]["different"], json!(1), "{compared}");
    joined.stop();
    running.stop();
}

#[test]
fn a_version_that_came_from_another_server_is_not_overwritten_unseen() {
    let pair = Pair::new();
    pair.create_database();
    let hub = pair.hub.serve();
    let spoke = pair.spoke.serve();
    let made = pair.hub.as_user("ann", &["note", "create", "talk.nsf", "Subject=Plan"]);
    let unid = made["unid"].as_str().expect("it has one").to_owned();
    replicate(&pair.spoke, &hub, "hub", &[]);
    let set = |folder: &TestFolder, subject: &str| {
        let saved = folder.as_user("ann", &["note", "set", "talk.nsf", &unid, &format!("Subject={subject}")]);
        saved["revision"].as_str().expect("it has one").to_owned()
    };
    let read = set(&pair.hub, "Hub");
    set(&pair.spoke, "Spoke");
    // The version of the spoke has the same number and is later, so it takes the place of the one that was read.
    replicate(&pair.hub, &spoke, "spoke", &[]);
    let found = pair.hub.as_user("ann", &["note", "get", "talk.nsf", &unid]);
    assert_eq!((&found["sequence"], &found["items"]["Subject"]), (&json!(2), &json!("Spoke")), "{found}");
    for expected in ["2", &read] {
        let change = ["note", "set", "talk.nsf", &unid, "Subject=Over", "--expect", expected];
        pair.hub.fails_as_user("ann", &change, "from another server");
    }
    let current = found["revision"].as_str().expect("it has one");
    pair.hub.as_user("ann", &["note", "set", "talk.nsf", &unid, "Subject=Seen", "--expect", current]);
}

#[test]
fn settings_leave_out_documents_of_a_new_replica_and_disable_it() {
    let pair = Pair::new();
    pair.create_database();
    let hub = pair.hub.serve();
    let spoke = pair.spoke.serve();
    for (subject, color) in [("Apple", "red"), ("Sea", "blue")] {
        let items = [format!("Subject={subject}"), format!("Color={color}")];
        pair.hub.as_user("ann", &["note", "create", "talk.nsf", &items[0], &items[1]]);
    }
    let settings = ["db", "replication", "talk.nsf", "set", "--on", "spoke.acme.test"];
    pair.hub.check(&[&settings[..], &["--formula", "SELECT Color = \"red\""]].concat(), "were changed");
    pair.hub.check_fails(&[&settings[..], &["--formula", "SELECT Color = "]].concat(), "the replication formula");
    let row = replicate(&pair.spoke, &hub, "hub", &[]);
    assert_eq!((&row["received"], &row["left_out"]), (&json!(3), &json!(1)), "{row}");
    assert_eq!(subjects(&pair.spoke), ["Apple"]);
    let compared = replicate(&pair.spoke, &hub, "hub", &["--compare"]);
    assert_eq!(compared["different"], json!(0), "{compared}");
    let listed = pair.spoke.json(&["db", "replication", "talk.nsf", "list"]);
    assert_eq!((&listed[0]["on"], &listed[0]["with"]), (&json!("spoke.acme.test/Acme"), &json!("*")));

    let here = ["db", "replication", "talk.nsf", "set"];
    pair.spoke.check(&[&here[..], &["--disable"]].concat(), "were changed");
    let address = hub.listeners.get("native").expect("it listens");
    let pull = ["replicate", address, "talk.nsf", "--server-name", "hub.acme.test", "--pull"];
    pair.spoke.check(&pull, "talk.nsf was not replicated");
    let back = spoke.listeners.get("native").expect("it listens");
    pair.hub
        .check(&["replicate", back, "talk.nsf", "--server-name", "spoke.acme.test", "--pull"], "was not replicated");
    pair.spoke.check(&[&here[..], &["--enable", "--formula", "none"]].concat(), "were changed");
    let row = replicate(&pair.spoke, &hub, "hub", &["--call-per-note"]);
    assert_eq!((&row["received"], &row["left_out"]), (&json!(1), &json!(0)), "{row}");
    assert_eq!(subjects(&pair.spoke), ["Apple", "Sea"]);
}

#[test]
fn content_that_another_database_has_is_proved() {
    let pair = Pair::new();
    pair.create_database();
    pair.hub.check(&["db", "create", "plans.nsf"], "was created");
    for (name, kind, level) in [("ann@acme.test", "person", "editor"), ("*/Acme", "server", "manager")] {
        pair.hub.check(&["db", "acl", "plans.nsf", "set", name, "--kind", kind, "--level", level], "");
    }
    let hub = pair.hub.serve();
    let spoke = pair.spoke.serve();
    let content = "the plan\n".repeat(300_000);
    std::fs::write(pair.hub.path("plan.txt"), &content).expect("writes a test file");
    let file = pair.hub.path("plan.txt").display().to_string();
    let address = hub.listeners.get("native").expect("it listens");
    for database in ["talk.nsf", "plans.nsf"] {
        let made = pair.hub.as_user("ann", &["note", "create", database, "Subject=Plan"]);
        let unid = made["unid"].as_str().expect("it has one");
        pair.hub.as_user("ann", &["note", "attach", database, unid, &file]);
        let row = pair.spoke.json(&["replicate", address, database, "--server-name", "hub.acme.test", "--pull"]);
        assert_eq!((&row[0]["received"], &row[0]["skipped"]), (&json!(2), &json!(0)), "{row}");
        let out = pair.spoke.path("out.txt").display().to_string();
        pair.spoke.as_user("ann", &["note", "fetch", database, unid, "plan.txt", "--to", &out]);
        assert_eq!(std::fs::read_to_string(&out).expect("it was written"), content);
        std::fs::remove_file(&out).expect("it was written");
    }
    hub.stop();
    spoke.stop();
    pair.spoke.check(&["fixup"], "No damage was found.");
}

#[test]
fn mail_for_a_mailbox_of_another_server_is_forwarded() {
    let ((hub, running), (spoke, mut joined)) = joined_servers();
    // The group is expanded here, and not again by the other server.
    hub.check_input(&["user", "add", "dora@acme.test", "--password-stdin"], "sesame street\n", "was added");
    let members = ["--member", "bob@acme.test", "--member", "dora@acme.test"];
    hub.check(&[&["group", "add", "team@acme.test"], &members[..]].concat(), "was added");
    spoke.json(&["replicate", "hub.acme.test", "names.nsf", "--pull"]);
    let mut smtp = joined.reception();
    smtp.ask("MAIL FROM:<carl@away.test>", "250 ");
    smtp.ask("RCPT TO:<team@acme.test>", "250 ");
    smtp.ask("DATA", "354 ");
    smtp.ask("From: carl@away.test\r\nTo: team@acme.test\r\nSubject: Hello team\r\n\r\nfrom the spoke\r\n.", "250 ");
    let line = joined.wait_for_log("accepted as");
    assert!(line.contains("hub.acme.test/Acme"), "{line}");
    for user in ["bob", "dora"] {
        let mut imap = running.dial("imap");
        imap.expect("* OK");
        imap.ask(&format!("a LOGIN {user} \"sesame street\""), "a OK");
        imap.say("b SELECT INBOX");
        assert_eq!(imap.line_with("EXISTS"), "* 1 EXISTS");
        imap.expect("b OK");
        imap.say("c FETCH 1 BODY.PEEK[HEADER.FIELDS (SUBJECT RETURN-PATH)]");
        assert_eq!(imap.line_with("Return-Path"), "Return-Path: <carl@away.test>");
        assert_eq!(imap.line_with("Subject"), "Subject: Hello team");
    }
    assert_eq!(spoke.json(&["queue", "list"]), json!([]));
    joined.stop();
    running.stop();
}

/// Sends a message to the spoke for a mailbox of the hub. Waits until the hub has accepted it.
fn send_to_hub(joined: &mut Server, to: &str, subject: &str) -> String {
    crate::deliver(joined, to, &format!("From: carl@away.test\r\nSubject: {subject}\r\n\r\nfrom the spoke"));
    joined.wait_for_log("accepted as")
}

#[test]
fn forwarded_mail_uses_a_kept_connection_and_survives_its_loss() {
    let ((hub, running), (spoke, mut joined)) = joined_servers();
    let connections = |server: &Server| {
        let metrics = server.metrics();
        let counter = "doublet_connections_accepted_total{listener=\"native\"}";
        let line = metrics.lines().find(|line| line.starts_with(counter));
        line.and_then(|line| line.rsplit(' ').next()).expect("it is counted").to_owned()
    };
    send_to_hub(&mut joined, "bob@acme.test", "one");
    let before = connections(&running);
    send_to_hub(&mut joined, "bob@acme.test", "two");
    assert_eq!(connections(&running), before, "the first connection is used again");
    // The other server is killed, so the kept connection is lost.
    let address = running.listeners.get("native").expect("it listens").clone();
    running.kill();
    let mut again = hub.serve_command();
    again.args(["--set", &format!("listen.native={address}")]);
    let running = hub.start(again, &[]);
    send_to_hub(&mut joined, "bob@acme.test", "three");
    let mut imap = running.dial("imap");
    imap.expect("* OK");
    imap.ask("a LOGIN bob \"sesame street\"", "a OK");
    imap.say("b SELECT INBOX");
    assert_eq!(imap.line_with("EXISTS"), "* 3 EXISTS", "each message is there once");
    assert_eq!(spoke.json(&["queue", "list"]), json!([]));
    joined.stop();
    running.stop();
}

#[test]
fn forwarded_mail_for_a_person_who_is_gone_is_reported() {
    let ((hub, running), (_spoke, mut joined)) = joined_servers();
    // The directory of the spoke still has the person.
    hub.check(&["user", "remove", "bob@acme.test"], "was removed");
    send_to_hub(&mut joined, "bob@acme.test", "late");
    let queued = hub.json(&["queue", "list"]);
    let report = queued.as_array().into_iter().flatten().find(|row| row.to_string().contains("dora@elsewhere.test"));
    assert!(report.is_some(), "the report waits for the sender's server: {queued}");
    joined.stop();
    running.stop();
}

#[test]
fn message_that_was_deleted_on_one_server_vanishes_from_the_inbox_of_the_other() {
    let ((hub, running), (spoke, joined)) = joined_servers();
    // Replicas without ranks number messages in the order of arrival, and small ones arrive first.
    for subject in ["one", "the second one"] {
        crate::deliver(&running, "bob@acme.test", &format!("Subject: {subject}\r\n\r\nHello"));
    }
    spoke.json(&["replicate", "hub.acme.test", "mail/bob.nsf", "--pull"]);
    let address = joined.listeners.get("native").expect("it listens").clone();
    let file = hub.path("again.pem").display().to_string();
    hub.check(&["server", "register", "spoke.acme.test", "--output", &file, "--address", &address], "is registered");
    let log_in = |server: &Server| {
        let mut imap = server.dial("imap");
        imap.expect("* OK");
        imap.ask("a LOGIN bob \"sesame street\"", "a OK");
        imap.say("b SELECT INBOX");
        assert_eq!(imap.line_with("EXISTS"), "* 2 EXISTS");
        imap.expect("b OK");
        imap
    };
    let mut at_hub = log_in(&running);
    let mut at_spoke = log_in(&joined);
    at_spoke.ask("c STORE 1 +FLAGS (\\Deleted)", "c OK");
    at_spoke.ask("d EXPUNGE", "d OK");
    let rows = hub.json(&["replicate", "spoke.acme.test", "mail/bob.nsf", "--pull"]);
    assert_eq!((&rows[0]["deleted"], &rows[0]["refused"]), (&json!(1), &json!(0)), "{rows}");
    at_hub.say("c NOOP");
    assert_eq!(at_hub.line_with("EXPUNGE"), "* 1 EXPUNGE");
    at_hub.expect("c OK");
    at_hub.say("d FETCH 1 BODY.PEEK[HEADER.FIELDS (SUBJECT)]");
    assert_eq!(at_hub.line_with("Subject"), "Subject: the second one");
    joined.stop();
    running.stop();
}

/// Both servers encrypt attachments, each with a key of its own, so they name contents differently.
#[test]
fn servers_with_different_keys_exchange_attachments_and_messages() {
    let mut pair = Pair::new();
    for folder in [&mut pair.hub, &mut pair.spoke] {
        folder.options.extend(["--set".to_owned(), "blobs.encryption=true".to_owned()]);
    }
    pair.create_database();
    pair.hub.check(&["db", "acl", "mail/ann.nsf", "set", "*/Acme", "--kind", "server", "--level", "manager"], "");
    let hub = pair.hub.serve();
    pair.spoke.check(&["db", "delete", "mail/ann.nsf", "--force"], "");
    let spoke = pair.spoke.serve();
    let lines: String = (0..4_000).map(|number| format!("line {number} of the message\r\n")).collect();
    crate::deliver(&hub, "ann@acme.test", &format!("Subject: long\r\n\r\n{lines}"));
    let made = pair.hub.as_user("ann", &["note", "create", "talk.nsf", "Subject=Plan"]);
    let unid = made["unid"].as_str().expect("it has one");
    std::fs::write(pair.hub.path("plan.txt"), "the plan\n".repeat(50_000)).expect("writes a test file");
    let file = pair.hub.path("plan.txt").display().to_string();
    pair.hub.as_user("ann", &["note", "attach", "talk.nsf", unid, &file]);
    // This one is stored while it arrives.
    let noise: Vec<u8> =
        (0..2_500_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_769).to_be_bytes()).collect();
    std::fs::write(pair.hub.path("large.bin"), &noise).expect("writes a test file");
    let file = pair.hub.path("large.bin").display().to_string();
    pair.hub.as_user("ann", &["note", "attach", "talk.nsf", unid, &file]);
    let sent = crate::collect(&hub, "ann");
    for database in ["talk.nsf", "mail/ann.nsf"] {
        let address = hub.listeners.get("native").expect("it listens");
        let words = ["replicate", address, database, "--server-name", "hub.acme.test", "--pull"];
        let row = pair.spoke.json(&words)[0].clone();
        assert_eq!((&row["skipped"], &row["refused"]), (&json!(0), &json!(0)), "{row}");
    }
    let out = pair.spoke.path("out.txt").display().to_string();
    pair.spoke.as_user("ann", &["note", "fetch", "talk.nsf", unid, "plan.txt", "--to", &out]);
    assert_eq!(std::fs::read(&out).expect("it was written").len(), 9 * 50_000);
    let out = pair.spoke.path("large.out").display().to_string();
    pair.spoke.as_user("ann", &["note", "fetch", "talk.nsf", unid, "large.bin", "--to", &out]);
    assert!(std::fs::read(&out).expect("it was written") == noise, "the large attachment is the same");
    let received = crate::collect(&spoke, "ann");
    assert!(received.len() == 1 && received == sent, "the message is the same byte for byte");
    drop(spoke);
    pair.spoke.check(&["fixup"], "");
}

#[test]
fn changes_of_a_person_on_two_servers_are_merged_and_lock_nobody_out() {
    let ((hub, running), (spoke, joined)) = joined_servers();
    hub.check(&["user", "set", "bob@acme.test", "--name", "Bob at the hub"], "was changed");
    spoke.check(&["user", "set", "bob@acme.test", "--disable"], "was changed");
    let rows = spoke.json(&["replicate", "hub.acme.test", "names.nsf", "--pull"]);
    assert_eq!((&rows[0]["merged"], &rows[0]["conflicts"]), (&json!(1), &json!(0)), "{rows}");
    let people = spoke.json(&["user", "list"]);
    let bob = people.as_array().into_iter().flatten().find(|row| row["address"] == "bob@acme.test");
    let bob = bob.expect("he is in the list");
    assert_eq!((&bob["name"], &bob["disabled"]), (&json!("Bob at the hub"), &json!(true)), "{people}");
    // The same item: one version counts, and the other one is a conflict document, which is not a person.
    hub.check(&["user", "set", "ann@acme.test", "--name", "Ann at the hub"], "was changed");
    spoke.check(&["user", "set", "ann@acme.test", "--name", "Ann at the spoke"], "was changed");
    let rows = spoke.json(&["replicate", "hub.acme.test", "names.nsf", "--pull"]);
    assert_eq!(rows[0]["conflicts"], json!(1), "{rows}");
    let people = spoke.json(&["user", "list"]);
    assert_eq!(people.as_array().map(Vec::len), Some(2), "{people}");
    spoke.check(&["user", "set", "ann@acme.test", "--disable"], "was changed");
    joined.stop();
    running.stop();
}
