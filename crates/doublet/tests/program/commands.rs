//! Tests of administration commands without a server, and that they have the same results with one.

use serde_json::json;

use crate::TestFolder;

/// Runs a fixed sequence of commands, with or without a running server.
fn check_people(place: &TestFolder) {
    place.check_fails(
        &["user", "add", "ann@acme.test"],
        "acme.test is not a domain of this server; add it first: `doublet domain add acme.test`",
    );
    place.check(&["domain", "add", "acme.test"], "domain acme.test was added");
    place.check(
        &["user", "add", "ann@acme.test", "--name", "Ann Archer", "--alias", "a@acme.test", "--quota", "2GiB"],
        "The account has no password yet",
    );
    place.check_input(&["user", "set", "ann@acme.test", "--password-stdin"], "sesame street\n", "was changed");
    place.check_input(&["user", "add", "bob@acme.test", "--password-stdin"], "sesame street\n", "mail/bob.nsf");
    place.check_fails(&["user", "add", "a@acme.test"], "is already taken by");
    place.check_fails(&["user", "set", "bob@acme.test", "--password-stdin"], "no password on standard input");
    let people = place.json(&["user", "list"]);
    assert_eq!(people[0]["address"], "ann@acme.test");
    assert_eq!((&people[0]["aliases"], &people[0]["quota_bytes"]), (&json!(["a@acme.test"]), &json!(2u64 << 30)));
    assert_eq!((&people[1]["address"], &people[1]["password"]), (&json!("bob@acme.test"), &json!(true)));
    place
        .check(&["user", "set", "ann", "--quota", "none", "--remove-alias", "a@acme.test", "--disable"], "was changed");
    let ann = place.json(&["user", "show", "ann@acme.test"]);
    assert_eq!((&ann["quota_bytes"], &ann["disabled"], &ann["aliases"]), (&json!(null), &json!(true), &json!([])));
    place.check(&["user", "set", "ann", "--enable", "--forward", "bob@acme.test"], "was changed");
    place.check_fails(&["user", "set", "ann", "--forward", "nonsense"], "nonsense");
    assert_eq!(place.json(&["user", "show", "ann"])["forward"], "bob@acme.test");
}

fn check_groups_and_domains(place: &TestFolder) {
    place.check(
        &["group", "add", "team@acme.test", "--member", "ann@acme.test", "--member", "nobody@acme.test"],
        "does not contain these members: nobody@acme.test",
    );
    place.check(
        &["group", "set", "team@acme.test", "--add-member", "bob@acme.test", "--remove-member", "nobody@acme.test"],
        "2 members",
    );
    assert_eq!(place.json(&["group", "show", "team@acme.test"])["members"], json!(["ann@acme.test", "bob@acme.test"]));
    assert_eq!(place.json(&["group", "list"])[0]["members"], 2);
    place.check(&["domain", "set", "acme.test", "--catch-all", "bob@acme.test"], "was changed");
    place.check_fails(&["user", "remove", "bob@acme.test"], "--catch-all none");
    place.check(&["domain", "add", "acme.example", "--alias-of", "acme.test"], "is now an alias of acme.test");
    let domain = place.json(&["domain", "show", "acme.test"]);
    assert_eq!((&domain["aliases"], &domain["catch_all"]), (&json!(["acme.example"]), &json!("bob@acme.test")));
    let records = domain["dns_records"].to_string();
    for wanted in ["IN MX 10 mail.acme.test.", "v=spf1", "v=DMARC1", "v=DKIM1; k=rsa", "v=DKIM1; k=ed25519"] {
        assert!(records.contains(wanted), "{wanted}: {records}");
    }
    place.check_fails(&["domain", "remove", "acme.test"], "still used by");
    place.check(&["domain", "remove", "acme.example"], "no longer");
    place.check(&["domain", "set", "acme.test", "--catch-all", "none"], "was changed");
    place.check(&["group", "remove", "team@acme.test"], "was removed");
    place.check_fails(&["group", "show", "team@acme.test"], "`doublet group list` shows all");
    place.check(&["user", "remove", "bob@acme.test", "--delete-mail"], "mail/bob.nsf was deleted");
    place.check_fails(&["user", "show", "bob@acme.test"], "`doublet user list` shows all");
}

fn check_databases(place: &TestFolder) {
    place.check(&["db", "create", "projects/plan.nsf", "--title", "The plan"], "was created");
    place.check_fails(&["db", "create", "../plan.nsf"], "path");
    place.check(&["db", "rename", "projects/plan.nsf", "plan.nsf"], "is now plan.nsf");
    let plan = place.json(&["db", "show", "plan.nsf"]);
    assert_eq!((&plan["title"], &plan["kind"]), (&json!("The plan"), &json!("standard")));
    assert_eq!((&plan["structure"], &plan["structure_present"]), (&json!(2), &json!(2)));
    place.check(&["db", "compact", "plan.nsf"], "1 database was compacted");
    place.check(&["db", "compact", "plan.nsf", "--upgrade", "--dry-run"], "nothing was changed");
    place.check_fails(&["db", "compact", "plan.nsf", "--dry-run"], "--upgrade");
    let compacted = &place.json(&["db", "compact", "--upgrade"])[0];
    assert_eq!((&compacted["structure_before"], &compacted["structure_after"]), (&json!(2), &json!(2)));
    assert!(compacted["before_bytes"].is_u64() && compacted["after_bytes"].is_u64(), "{compacted}");
    place.check(&["db", "delete", "plan.nsf"], "was deleted");
    place.check_fails(&["db", "show", "plan.nsf"], "`doublet db list` shows all");
    let paths = place.json(&["db", "list"]).to_string();
    assert!(paths.contains("names.nsf") && paths.contains("mail/ann.nsf") && !paths.contains("bob"), "{paths}");
    place.check(&["fixup"], "No damage");
    place.check(&["fixup", "names.nsf", "--check-only"], "No damage");
    place.check_fails(&["fixup", "plan.nsf"], "`doublet db list` shows all");
    assert_eq!(place.json(&["blobs", "--collect"])["missing"], 0);
    assert_eq!(place.json(&["status"])["people"], 1);
    place.check_fails(&["queue", "show", "9-9"], "`doublet queue list` shows all");
    place.check_fails(&["queue", "retry", "nonsense"], "is not a queue ID");
    assert_eq!(place.json(&["queue", "list"]), json!([]));
}

#[test]
fn the_administration_works_without_a_server() {
    let place = TestFolder::new();
    check_people(&place);
    check_groups_and_domains(&place);
    check_databases(&place);
    place.check_fails(&["tls", "reload"], "no server runs");
    place.check_fails(&["status", "--running"], "no server runs");
    place.check(&["blobs", "--rebuild"], "0 were missing, 0 were wrong");
}

#[test]
fn the_administration_works_through_a_running_server() {
    let place = TestFolder::new();
    let server = place.serve();
    check_people(&place);
    check_groups_and_domains(&place);
    check_databases(&place);
    place.check(&["tls", "show"], "tls/certificate.pem");
    place.check(&["tls", "reload"], "was reloaded");
    place.check_fails(&["blobs", "--rebuild"], "stop it first");
    assert_eq!(place.json(&["status", "--running"])["running"], true);
    server.stop();
}

#[test]
fn a_data_folder_is_not_made_by_mistake() {
    let place = TestFolder::new();
    place.check_fails(&["user", "list"], "there is no data in");
    place.check_fails(&["import", "eml", "x.eml", "--user", "ann"], "check --data");
    assert!(!place.data().exists());
    place.check(&["domain", "add", "acme.test"], "--postmaster ADDRESS");
    place.check(&["user", "list"], "(none)");
}

#[test]
fn the_configuration_can_be_checked_and_shown() {
    let place = TestFolder::new();
    place.check(&["config", "check"], "is valid");
    let shown = place.json(&["config", "show"]);
    assert_eq!(shown["listen.imap"], json!({ "value": "127.0.0.1:0", "source": "command line" }));
    assert_eq!(shown["store.cache"], json!({ "value": "256MiB", "source": "default" }));
    std::fs::write(place.path("broken.toml"), "[imap]\nidle_timout = 1\n").expect("the folder is writable");
    place.check_fails(
        &["config", "check", "--config", "broken.toml"],
        "line 2: imap.idle_timout: there is no such key; did you mean imap.idle_timeout?",
    );
    place.check_fails(&["serve", "--config", "missing.toml"], "cannot be read");
}

#[test]
fn the_old_name_of_a_key_warns_and_works() {
    let mut place = TestFolder::new();
    std::fs::write(place.path("old.toml"), "[native]\ndatabase_makers = \"ann\"\n").expect("the folder is writable");
    place.options.extend(["--config".to_owned(), "old.toml".to_owned()]);
    let warning = "line 2: native.database_makers: this key is now native.database_creators";
    let output = place.run(&["config", "check", "--json"], "");
    assert!(output.status.success() && crate::text(&output.stderr).contains(warning), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report["warnings"][0].as_str().is_some_and(|text| text.starts_with(warning)), "{report}");
    assert_eq!(place.json(&["config", "show"])["native.database_creators"]["value"], "ann");
    let mut child = place.command(&["serve"]).stderr(std::process::Stdio::piped()).spawn().expect("the program starts");
    let log = std::io::BufReader::new(child.stderr.take().expect("it is piped"));
    let mut server = crate::Server { child, log, listeners: std::collections::BTreeMap::new() };
    assert!(server.wait_for_log(warning).contains("WARN"));
    server.wait_for_log(" ready ");
    server.stop();
}

#[test]
fn a_second_server_is_refused() {
    let place = TestFolder::new();
    let server = place.serve();
    place.check_fails(&["serve"], &format!("in use by another doublet, process {}", server.child.id()));
    server.stop();
}
