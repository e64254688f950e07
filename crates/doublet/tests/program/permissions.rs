//! Tests of the modes of files: nothing below the data folder is open to the group or to others, whatever umask the
//! program is started with.

use std::collections::BTreeMap;
use std::fs;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Server, TestFolder, deliver, listeners};

/// Returns a command of the program that is started with a umask of zero.
fn without_umask(folder: &TestFolder, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_doublet")]);
    command.args(words).args(&folder.options).current_dir(folder.folder.path());
    command
}

fn run_without_umask(folder: &TestFolder, words: &[&str]) {
    let output = without_umask(folder, words).stdin(Stdio::null()).output().expect("the program starts");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the files and folders, `path` included, that the group or others have access to, and the number of all.
fn open_to_others(path: &Path) -> (Vec<PathBuf>, usize) {
    let mut found = Vec::new();
    let mut count = 0;
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        // A running server removes files.
        let Ok(facts) = fs::symlink_metadata(&path) else { continue };
        count += 1;
        if facts.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(entries.map(|entry| entry.path()));
        }
        if facts.permissions().mode() & 0o077 != 0 {
            found.push(path);
        }
    }
    (found, count)
}

fn check_private(path: &Path, count_min: usize) {
    let (found, count) = open_to_others(path);
    assert!(found.is_empty() && count >= count_min, "{count} files and folders, open to others: {found:?}");
}

#[test]
fn nothing_in_the_data_folder_is_open_to_others() {
    let folder = TestFolder::new();
    let data = folder.data();
    fs::create_dir(&data).expect("the folder is writable");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).expect("it is ours");
    run_without_umask(&folder, &["domain", "add", "acme.test"]);
    check_private(&data, 5);
    folder.check_input(&["user", "add", "ann@acme.test", "--password-stdin"], "sesame street\n", "was added");

    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut command = without_umask(&folder, &["serve", "--set", "server.shutdown_time=200ms"]);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let log = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut server = Server { child, log, before_ready: String::new(), listeners: BTreeMap::new() };
    server.wait_for_log("the data folder was open to other users (mode 0755)");
    server.wait_for_log(" ready ");
    server.listeners = listeners(&data);
    deliver(&server, "ann@acme.test", "Subject: annual report\r\n\r\nThe figures.");
    run_without_umask(&folder, &["db", "index", "mail/ann.nsf", "--full-text", "immediate"]);
    run_without_umask(&folder, &["backup", "saved"]);
    check_private(&data, 10);
    assert!(data.join("full-text").is_dir() && data.join("control.sock").exists());
    server.stop();
    check_private(&data, 10);
    check_private(&folder.path("saved"), 5);

    fs::remove_dir_all(&data).expect("it is ours");
    run_without_umask(&folder, &["restore", "saved"]);
    check_private(&data, 5);
}

#[test]
fn folder_with_files_of_other_programs_is_refused() {
    let folder = TestFolder::new();
    fs::create_dir_all(folder.data().join("documents")).expect("the folder is writable");
    fs::set_permissions(folder.data(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    folder.check_fails(&["domain", "add", "acme.test"], "other users have access to the data folder");
    assert_eq!(fs::read_dir(folder.data()).expect("it is there").count(), 1);
    fs::set_permissions(folder.data(), fs::Permissions::from_mode(0o700)).expect("it is ours");
    folder.check(&["domain", "add", "acme.test"], "was added");
}
