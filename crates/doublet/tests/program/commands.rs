//! Tests of administration commands without a server, and that they have the same results with one.

use serde_json::json;

use crate::TestFolder;

/// Runs a fixed sequence of commands, with or without a running server.
fn check_people(folder: &TestFolder) {
    folder.check_fails(
        &["user", "add", "ann@acme.test"],
        "acme.test is not a domain of this server; add it first: `doublet domain add acme.test`",
    );
    folder.check(&["domain", "add", "acme.test"], "domain acme.test was added");
    folder.check(
        &["user", "add", "ann@acme.test", "--name", "Ann Archer", "--alias", "a@acme.test", "--quota", "2GiB"],
        "The account has no password yet",
    );
    folder.check_input(&["user", "set", "ann@acme.test", "--password-stdin"], "sesame street\n", "was changed");
    folder.check_input(&["user", "add", "bob@acme.test", "--password-stdin"], "sesame street\n", "mail/bob.nsf");
    folder.check_fails(&["user", "add", "a@acme.test"], "is already taken by");
    folder.check_fails(&["user", "set", "bob@acme.test", "--password-stdin"], "no password on standard input");
    let people = folder.json(&["user", "list"]);
    assert_eq!(people[0]["address"], "ann@acme.test");
    assert_eq!((&people[0]["aliases"], &people[0]["quota_bytes"]), (&json!(["a@acme.test"]), &json!(2u64 << 30)));
    assert_eq!((&people[1]["address"], &people[1]["password"]), (&json!("bob@acme.test"), &json!(true)));
    folder
        .check(&["user", "set", "ann", "--quota", "none", "--remove-alias", "a@acme.test", "--disable"], "was changed");
    let ann = folder.json(&["user", "show", "ann@acme.test"]);
    assert_eq!((&ann["quota_bytes"], &ann["disabled"], &ann["aliases"]), (&json!(null), &json!(true), &json!([])));
    folder.check(&["user", "set", "ann", "--enable", "--forward", "bob@acme.test"], "was changed");
    folder.check_fails(&["user", "set", "ann", "--forward", "nonsense"], "nonsense");
    assert_eq!(folder.json(&["user", "show", "ann"])["forward"], "bob@acme.test");
}

fn check_groups_and_domains(folder: &TestFolder) {
    folder.check(
        &["group", "add", "team@acme.test", "--member", "ann@acme.test", "--member", "nobody@acme.test"],
        "does not contain these members: nobody@acme.test",
    );
    folder.check(
        &["group", "set", "team@acme.test", "--add-member", "bob@acme.test", "--remove-member", "nobody@acme.test"],
        "2 members",
    );
    assert_eq!(folder.json(&["group", "show", "team@acme.test"])["members"], json!(["ann@acme.test", "bob@acme.test"]));
    assert_eq!(folder.json(&["group", "list"])[0]["members"], 2);
    folder.check(&["domain", "set", "acme.test", "--catch-all", "bob@acme.test"], "was changed");
    folder.check_fails(&["user", "remove", "bob@acme.test"], "--catch-all none");
    folder.check(&["domain", "add", "acme.example", "--alias-of", "acme.test"], "is now an alias of acme.test");
    let domain = folder.json(&["domain", "show", "acme.test"]);
    assert_eq!((&domain["aliases"], &domain["catch_all"]), (&json!(["acme.example"]), &json!("bob@acme.test")));
    let records = domain["dns_records"].to_string();
    let jmap = "_jmap._tcp.acme.test. IN SRV 0 1 443 mail.acme.test.";
    for wanted in ["IN MX 10 mail.acme.test.", "v=spf1", "v=DMARC1", "v=DKIM1; k=rsa", "v=DKIM1; k=ed25519", jmap] {
        assert!(records.contains(wanted), "{wanted}: {records}");
    }
    folder.check_fails(&["domain", "remove", "acme.test"], "still used by");
    folder.check(&["domain", "remove", "acme.example"], "no longer");
    folder.check(&["domain", "set", "acme.test", "--catch-all", "none"], "was changed");
    folder.check(&["group", "remove", "team@acme.test"], "was removed");
    folder.check_fails(&["group", "show", "team@acme.test"], "`doublet group list` shows all");
    folder.check(&["user", "remove", "bob@acme.test", "--delete-mail"], "mail/bob.nsf was deleted");
    folder.check_fails(&["user", "show", "bob@acme.test"], "`doublet user list` shows all");
}

fn check_databases(folder: &TestFolder) {
    folder.check(&["db", "create", "projects/plan.nsf", "--title", "The plan"], "was created");
    folder.check_fails(&["db", "create", "../plan.nsf"], "path");
    folder.check(&["db", "rename", "projects/plan.nsf", "plan.nsf"], "is now plan.nsf");
    let plan = folder.json(&["db", "show", "plan.nsf"]);
    assert_eq!((&plan["title"], &plan["kind"]), (&json!("The plan"), &json!("standard")));
    assert_eq!((&plan["structure"], &plan["structure_present"]), (&json!(3), &json!(3)));
    folder.check(&["db", "compact", "plan.nsf"], "1 database was compacted");
    folder.check(&["db", "compact", "plan.nsf", "--upgrade", "--dry-run"], "nothing was changed");
    folder.check_fails(&["db", "compact", "plan.nsf", "--dry-run"], "--upgrade");
    let compacted = &folder.json(&["db", "compact", "--upgrade"])[0];
    assert_eq!((&compacted["structure_before"], &compacted["structure_after"]), (&json!(3), &json!(3)));
    assert!(compacted["before_bytes"].is_u64() && compacted["after_bytes"].is_u64(), "{compacted}");
    folder.check(&["db", "delete", "plan.nsf"], "was deleted");
    folder.check_fails(&["db", "show", "plan.nsf"], "`doublet db list` shows all");
    let paths = folder.json(&["db", "list"]).to_string();
    assert!(paths.contains("names.nsf") && paths.contains("mail/ann.nsf") && !paths.contains("bob"), "{paths}");
    folder.check(&["fixup"], "No damage");
    folder.check(&["fixup", "names.nsf", "--check-only"], "No damage");
    folder.check_fails(&["fixup", "plan.nsf"], "`doublet db list` shows all");
    assert_eq!(folder.json(&["blobs", "--collect"])["missing"], 0);
    let status = folder.json(&["status"]);
    assert_eq!(status["people"], 1);
    assert!(status["memory"]["ceiling_bytes"].as_u64() > status["memory"]["store_cache_bytes"].as_u64(), "{status}");
    folder.check_fails(&["queue", "show", "9-9"], "`doublet queue list` shows all");
    folder.check_fails(&["queue", "retry", "nonsense"], "is not a queue ID");
    assert_eq!(folder.json(&["queue", "list"]), json!([]));
}

#[test]
fn the_administration_works_without_a_server() {
    let folder = TestFolder::new();
    check_people(&folder);
    check_groups_and_domains(&folder);
    check_databases(&folder);
    folder.check_fails(&["tls", "reload"], "no server runs");
    folder.check_fails(&["status", "--running"], "no server runs");
    folder.check(&["blobs", "--rebuild"], "0 were missing, 0 were wrong");
}

#[test]
fn the_administration_works_through_a_running_server() {
    let folder = TestFolder::new();
    let server = folder.serve();
    check_people(&folder);
    check_groups_and_domains(&folder);
    check_databases(&folder);
    folder.check(&["tls", "show"], "tls/certificate.pem");
    folder.check(&["tls", "reload"], "was reloaded");
    folder.check_fails(&["blobs", "--rebuild"], "stop it first");
    assert_eq!(folder.json(&["status", "--running"])["running"], true);
    server.stop();
}

#[test]
fn commands_do_not_create_a_data_folder_by_mistake() {
    let folder = TestFolder::new();
    folder.check_fails(&["user", "list"], "there is no data in");
    folder.check_fails(&["import", "eml", "x.eml", "--user", "ann"], "check --data");
    assert!(!folder.data().exists());
    folder.check(&["domain", "add", "acme.test"], "--postmaster ADDRESS");
    folder.check(&["user", "list"], "(none)");
}

#[test]
fn the_configuration_can_be_checked_and_shown() {
    let folder = TestFolder::new();
    folder.check(&["config", "check"], "is valid");
    let shown = folder.json(&["config", "show"]);
    assert_eq!(shown["listen.imap"], json!({ "value": "127.0.0.1:0", "source": "command line" }));
    assert_eq!(shown["store.cache"], json!({ "value": "auto", "source": "default" }));
    std::fs::write(folder.path("broken.toml"), "[imap]\nidle_timout = 1\n").expect("the folder is writable");
    folder.check_fails(
        &["config", "check", "--config", "broken.toml"],
        "line 2: imap.idle_timout: there is no such key; did you mean imap.idle_timeout?",
    );
    folder.check_fails(&["serve", "--config", "missing.toml"], "cannot be read");
    let too_little = "server.memory: 512MiB is not enough, because these parts need at least ";
    for command in [&["config", "check"][..], &["serve"]] {
        folder.check_fails(&[command, &["--set", "server.memory=512MiB"]].concat(), too_little);
    }
}

#[test]
fn renamed_key_works_with_a_warning() {
    let mut folder = TestFolder::new();
    std::fs::write(folder.path("old.toml"), "[native]\ndatabase_makers = \"ann\"\n").expect("the folder is writable");
    folder.options.extend(["--config".to_owned(), "old.toml".to_owned()]);
    let warning = "line 2: native.database_makers: this key is now native.database_creators";
    let output = folder.run(&["config", "check", "--json"], "");
    assert!(output.status.success() && crate::text(&output.stderr).contains(warning), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report["warnings"][0].as_str().is_some_and(|text| text.starts_with(warning)), "{report}");
    assert_eq!(folder.json(&["config", "show"])["native.database_creators"]["value"], "ann");
    let mut child =
        folder.command(&["serve"]).stderr(std::process::Stdio::piped()).spawn().expect("the program starts");
    let log = std::io::BufReader::new(child.stderr.take().expect("it is piped"));
    let mut server =
        crate::Server { child, log, before_ready: String::new(), listeners: std::collections::BTreeMap::new() };
    assert!(server.wait_for_log(warning).contains("WARN"));
    server.wait_for_log(" ready ");
    server.stop();
}

#[test]
fn a_second_server_is_refused() {
    let folder = TestFolder::new();
    let server = folder.serve();
    folder.check_fails(&["serve"], &format!("in use by another doublet, process {}", server.child.id()));
    server.stop();
}
