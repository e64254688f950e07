//! Tests of mail import and export, backups, and their restoration.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::{TestFolder, collect};

const MBOX: &str = "From dora@elsewhere.test Sat Jan  3 01:05:34 2026\nFrom: Dora <dora@elsewhere.test>\nSubject: one\n\nHello.\n>From here on it is quoted.\n\n\
                    From eve@elsewhere.test Sat Jan  3 01:06:34 2026\nReturn-Path: <eve@elsewhere.test>\nSubject: two\n\nBye.\n\n";

#[test]
fn mbox_round_trips_through_import_and_export() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    fs::write(folder.path("old.mbox"), MBOX).expect("the folder is writable");
    let done = folder.json(&["import", "mbox", "old.mbox", "--user", "ann@acme.test", "--folder", "Old/2026"]);
    assert_eq!((&done["messages"], &done["duplicates"]), (&json!(2), &json!(0)));
    let again =
        folder.json(&["import", "mbox", "old.mbox", "--user", "ann", "--folder", "Old/2026", "--skip-duplicates"]);
    assert_eq!((&again["messages"], &again["duplicates"]), (&json!(0), &json!(2)));
    let out = folder.json(&["export", "mbox", "out", "--user", "ann", "--folder", "Old/2026"]);
    assert_eq!((&out["messages"], &out["folders"]), (&json!(2), &json!(["Old/2026"])));
    assert_eq!(fs::read_to_string(folder.path("out/Old/2026.mbox")).expect("it was written"), MBOX);
    folder.check_fails(&["export", "mbox", "out", "--user", "ann", "--folder", "Old/2026"], "2026.mbox");
    folder.check_fails(&["import", "mbox", "missing.mbox", "--user", "ann"], "missing.mbox");
    folder.check_fails(&["import", "mbox", "old.mbox", "--user", "nobody"], "`doublet user list` shows all");
}

#[test]
fn a_maildir_keeps_its_flags_and_folders() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    for name in ["in/cur", "in/new", "in/.Work.2026/cur"] {
        fs::create_dir_all(folder.path(name)).expect("the folder is writable");
    }
    let letter = |name: &str, subject: &str| {
        fs::write(folder.path(name), format!("Subject: {subject}\n\ntext\n")).expect("the folder is writable");
    };
    letter("in/cur/1700000001.a:2,FS", "seen");
    letter("in/new/1700000002.b", "new");
    letter("in/.Work.2026/cur/1700000003.c:2,R", "work");
    let done = folder.json(&["import", "maildir", "in", "--user", "ann"]);
    assert_eq!(done["messages"], 3);
    folder.check(&["export", "maildir", "out", "--user", "ann"], "");
    let names = |path: &str| -> Vec<String> {
        let entries = fs::read_dir(folder.path(path)).expect("it was made");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let inbox = names("out/cur");
    assert_eq!(inbox.len(), 2);
    assert!(inbox[0].starts_with("1700000001.") && inbox[0].ends_with(":2,FS"), "{inbox:?}");
    assert!(inbox[1].starts_with("1700000002.") && inbox[1].ends_with(":2,"), "{inbox:?}");
    let work = names("out/.Work.2026/cur");
    assert!(work[0].ends_with(":2,R"), "{work:?}");
    let text = fs::read_to_string(folder.path("out/.Work.2026/cur").join(&work[0])).expect("it was written");
    assert_eq!(text, "Subject: work\n\ntext\n");
    folder.check_fails(&["import", "maildir", "out/cur", "--user", "ann"], "is not a Maildir");
}

#[test]
fn eml_files_are_imported_through_a_running_server() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    fs::create_dir_all(folder.path("letters/sub")).expect("the folder is writable");
    fs::write(folder.path("letters/a.eml"), "Subject: a\r\n\r\n").expect("the folder is writable");
    fs::write(folder.path("letters/sub/b.eml"), "Subject: b\r\n\r\n").expect("the folder is writable");
    fs::write(folder.path("broken.eml"), [0xFF, 0, b'\n', 0x80]).expect("the folder is writable");
    let server = folder.serve();
    assert_eq!(folder.json(&["import", "eml", "letters", "--user", "ann"])["messages"], 2);
    assert_eq!(folder.json(&["import", "eml", "broken.eml", "--user", "ann", "--folder", "Odd"])["messages"], 1);
    assert_eq!(collect(&server, "ann"), ["Subject: a\n\n"]);
    folder.check(&["export", "eml", "out", "--user", "ann", "--folder", "sub", "--folder", "Odd"], "");
    let written = |name: &str| fs::read(folder.path(name)).expect("it was written");
    assert_eq!(written("out/sub/00000001.eml"), b"Subject: b\r\n\r\n");
    assert_eq!(written("out/Odd/00000001.eml"), [0xFF, 0, b'\n', 0x80]);
    // A file that is not a message is reported, and the command fails after printing its results.
    fs::write(folder.path("letters/notes.txt"), "no message").expect("the folder is writable");
    let output = folder.command(&["--json", "import", "eml", "letters", "--user", "ann"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let done: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON despite the failure");
    assert_eq!((&done["messages"], done["skipped"].as_array().map(Vec::len)), (&json!(2), Some(1)));
    assert!(String::from_utf8_lossy(&output.stderr).contains("notes.txt"));
    server.stop();
}

#[test]
fn a_backup_of_a_running_server_is_restored() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    fs::write(folder.path("old.mbox"), MBOX).expect("the folder is writable");
    let server = folder.serve();
    folder.check(&["import", "mbox", "old.mbox", "--user", "ann"], "");
    let first = folder.json(&["backup", "saved"]);
    assert_eq!(first["backup"], 1);
    let second = folder.json(&["backup", "saved"]);
    assert!(second["copied_bytes"].as_u64() < first["copied_bytes"].as_u64(), "{first} {second}");
    server.kill();
    folder.check_fails(&["restore", "saved"], "restore into a new folder");
    folder.check(&["restore", "saved", "--verify"], "is intact");
    assert_eq!(folder.json(&["restore", "saved", "--list"]).as_array().map(Vec::len), Some(2));
    fs::remove_dir_all(folder.data()).expect("it is ours");
    assert_eq!(folder.json(&["restore", "saved", "--backup", "1"])["backup"], 1);
    let server = folder.serve();
    assert_eq!(collect(&server, "ann@acme.test").len(), 2);
    server.stop();
}

/// Creates a data folder with encryption and a message whose attachment is stored encrypted. Returns the message, too.
fn with_encrypted_attachment() -> (TestFolder, String) {
    let mut folder = TestFolder::new();
    folder.options.extend(["--set".to_owned(), "blobs.encryption=true".to_owned()]);
    folder.check(&["domain", "add", "acme.test"], "was added");
    folder.check_input(&["user", "add", "ann@acme.test", "--password-stdin"], "sesame street\n", "was added");
    let letter = format!("Subject: large\r\nContent-Type: text/csv\r\n\r\n{}", "a secret, often\r\n".repeat(2_000));
    fs::write(folder.path("large.eml"), &letter).expect("the folder is writable");
    folder.check(&["import", "eml", "large.eml", "--user", "ann"], "");
    fs::write(folder.path("passphrase"), "seven brass monkeys\n").expect("the folder is writable");
    (folder, letter)
}

#[test]
fn encrypted_store_is_restored_from_its_backup_alone() {
    let (folder, letter) = with_encrypted_attachment();
    let template = include_str!("../../../../templates/discussion.toml").replace("\"discussion\"", "\"ours\"");
    fs::write(folder.path("ours.toml"), template).expect("the folder is writable");
    folder.check(&["design", "add", "ours.toml"], "was added");
    let server = folder.serve();
    folder.check_fails(&["backup", "saved"], "so that the backup contains the key");
    let done = folder.json(&["backup", "saved", "--passphrase-file", "passphrase"]);
    assert_eq!((&done["encrypted"], &done["has_keys"]), (&json!(true), &json!(true)));
    server.stop();

    let mut other = TestFolder::new();
    fs::rename(folder.path("saved"), other.path("saved")).expect("one file system");
    fs::rename(folder.path("passphrase"), other.path("passphrase")).expect("one file system");
    fs::write(other.path("wrong"), "seven brass donkeys\n").expect("the folder is writable");
    for words in [&["restore", "saved"][..], &["restore", "saved", "--verify"]] {
        other.check_fails(words, "name a file with the passphrase with --passphrase-file");
        other.check_fails(&[words, &["--passphrase-file", "wrong"]].concat(), "does not match this backup");
        other.check_fails(&[words, &["--without-keys"]].concat(), "without their key they cannot be read");
    }
    assert!(!other.data().join("store").exists() && !other.data().join("keys").exists());
    other.check(
        &["restore", "saved", "--verify", "--passphrase-file", "passphrase"],
        "The key matches its encrypted attachments",
    );
    let words = ["restore", "saved", "--passphrase-file", "-"];
    other.check_input(&words, "seven brass monkeys\n", "set blobs.encryption = true");
    other.options.extend(["--set".to_owned(), "blobs.encryption=true".to_owned()]);
    for name in ["keys/blobs.key", "tls/key.pem", "tls/certificate.pem", "templates/ours.toml"] {
        let read = |folder: &TestFolder| fs::read(folder.data().join(name)).expect("it was written");
        assert_eq!(read(&folder), read(&other), "{name}");
    }
    let mode = fs::metadata(other.data().join("keys/blobs.key")).expect("it was written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(folder);
    let server = other.serve();
    assert_eq!(collect(&server, "ann@acme.test"), [letter.replace("\r\n", "\n")]);
    other.check(&["db", "create", "d.nsf", "--template", "ours"], "");
    server.stop();
}

#[test]
fn restore_without_keys_requires_a_copy_of_the_key() {
    let (folder, _) = with_encrypted_attachment();
    let done = folder.json(&["backup", "saved", "--without-keys"]);
    assert_eq!((&done["encrypted"], &done["has_keys"]), (&json!(true), &json!(false)));
    fs::write(folder.path("short"), "sesame\n").expect("the folder is writable");
    folder.check_fails(&["backup", "saved", "--passphrase-file", "short"], "at least 12 characters");
    let key = fs::read(folder.data().join("keys/blobs.key")).expect("it was made");
    fs::write(folder.path("copy.key"), &key).expect("the folder is writable");
    fs::write(folder.path("other.key"), "7".repeat(64)).expect("the folder is writable");
    fs::remove_dir_all(folder.data()).expect("it is ours");
    folder.check_fails(&["restore", "saved", "--verify"], "name a copy of keys/blobs.key with --key-file");
    folder.check_fails(&["restore", "saved", "--key-file", "other.key"], "this is not the key");
    folder.check(
        &["restore", "saved", "--verify", "--key-file", "copy.key"],
        "The key matches its encrypted attachments",
    );
    fs::create_dir_all(folder.data().join("keys")).expect("the folder is writable");
    fs::write(folder.data().join("keys/blobs.key"), "7".repeat(64)).expect("the folder is writable");
    folder.check_fails(&["restore", "saved", "--key-file", "copy.key"], "move it away");
    fs::remove_dir_all(folder.data()).expect("it is ours");
    folder.check(&["restore", "saved", "--key-file", "copy.key"], "The store was restored");
    assert_eq!(folder.json(&["blobs"])["missing"], 0);
    assert_eq!(fs::read(folder.data().join("keys/blobs.key")).expect("it was written"), key);
}

#[test]
fn backups_are_pruned_and_refused_inside_the_data_folder() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    for words in [&["backup", "saved"][..], &["backup", "saved"], &["backup", "saved", "--keep", "2"]] {
        folder.check(words, "restores it");
    }
    let numbers: Vec<u64> = folder
        .json(&["restore", "saved", "--list"])
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|backup| backup["backup"].as_u64())
        .collect();
    assert_eq!(numbers, [2, 3]);
    for target in ["data", "data/store", "data/backup", "data/../data/keys"] {
        folder.check_fails(&["backup", target], "name a folder elsewhere");
    }
    assert!(!folder.data().join("backup").exists() && !folder.data().join("objects").exists());
    folder.check_fails(&["backup", "saved", "--keep", "0"], "0 is not in");
}

#[test]
fn failed_restore_leaves_no_data_folder() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    folder.check(&["backup", "saved"], "");
    for object in fs::read_dir(folder.path("saved/objects")).expect("a folder") {
        let object = object.expect("an entry").path();
        let mut content = fs::read(&object).expect("read");
        content.push(0);
        fs::write(&object, content).expect("written");
    }
    fs::remove_dir_all(folder.data()).expect("it is ours");
    folder.check_fails(&["restore", "saved"], "use another backup");
    folder.check_fails(&["user", "list"], "there is no data in");
    folder.check_fails(&["restore", "saved"], "use another backup");
}

#[test]
fn store_without_its_log_or_current_file_is_refused() {
    let mut folder = TestFolder::new();
    let logs = folder.path("log");
    folder.options.extend(["--set".to_owned(), format!("store.log_folder={}", logs.display())]);
    folder.check(&["domain", "add", "acme.test"], "was added");
    fs::rename(&logs, folder.path("away")).expect("not mounted");
    for words in [["domain", "list"], ["user", "list"], ["domain", "list"]] {
        folder.check_fails(&words, "mount the device of the log");
    }
    assert!(!logs.exists());
    fs::rename(folder.path("away"), &logs).expect("mounted");
    folder.check(&["domain", "list"], "acme.test");
    fs::remove_file(folder.data().join("store/CURRENT")).expect("the file exists");
    for _ in 0..3 {
        folder.check_fails(&["domain", "list"], "restore a backup");
    }
}

#[test]
fn orderly_shutdown_leaves_an_empty_log() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let server = folder.serve();
    folder.check(&["user", "list"], "ann@acme.test");
    server.stop();
    let logs = fs::read_dir(folder.data().join("store")).expect("a folder").map(|entry| entry.expect("an entry"));
    let left: u64 = logs
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "log"))
        .map(|entry| entry.metadata().expect("a file").len())
        .sum();
    assert_eq!(left, 0);
    folder.check(&["user", "list"], "ann@acme.test");
}

#[test]
fn flipped_bytes_are_repaired_or_reported() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    fs::write(folder.path("old.mbox"), MBOX.repeat(200)).expect("the folder is writable");
    folder.check(&["import", "mbox", "old.mbox", "--user", "ann"], "");
    folder.serve().stop();
    let sorted = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "sst");
    let entries =
        fs::read_dir(folder.data().join("store")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = entries.filter(sorted).collect();
    files.sort();
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        let sound = fs::read(&file).expect("read");
        let mut broken = sound.clone();
        broken[100] ^= 0x10;
        fs::write(&file, &broken).expect("written");
        let output = folder.run(&["fixup", "--check-only"], "");
        let complaint = crate::text(&output.stderr);
        // Damage in files that the store needs to open, or in the catalog of databases, is not ignored: the error names
        // the table and the file.
        let reports = ["restore a backup", "remain in the store's files", "damaged record in table"];
        let is_reported = reports.iter().any(|words| complaint.contains(words));
        assert!(output.status.success() || is_reported, "{}: {complaint}", file.display());
        fs::write(&file, &sound).expect("written");
    }
    folder.check(&["fixup"], "No damage was found");
}
