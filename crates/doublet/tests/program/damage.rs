//! Tests with flipped bits in the files of the store: the reports of `doublet fixup`, and that undamaged mail is kept.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{TestFolder, text};

const MESSAGES: usize = 300;

fn letter(number: usize) -> String {
    let noise = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    format!(
        "From dora@elsewhere.test Sat Jan  3 01:05:34 2026\nSubject: {number}\n\nLetter {number}: {noise:016x}{noise:064b}\n\n"
    )
}

/// Creates a data folder with mail in Ann's mailbox, whose files were written by an orderly shutdown.
fn filled() -> TestFolder {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let mbox: String = (0..MESSAGES).map(letter).collect();
    fs::write(folder.path("old.mbox"), mbox).expect("the folder is writable");
    folder.check(&["import", "mbox", "old.mbox", "--user", "ann"], "");
    folder.serve().stop();
    folder
}

fn sorted_files(store: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(store).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "sst")).collect();
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).expect("the folder is writable");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("copied");
    }
}

fn flip(file: &Path, offset: usize) {
    let mut bytes = fs::read(file).expect("read");
    bytes[offset] ^= 0x10;
    fs::write(file, bytes).expect("written");
}

/// Exports Ann's mail and returns the messages. Checks that each is one of the imported messages.
fn mail(folder: &TestFolder) -> BTreeSet<String> {
    let _ = fs::remove_dir_all(folder.path("out"));
    let _ = folder.run(&["export", "mbox", "out", "--user", "ann"], "");
    let mbox = fs::read_to_string(folder.path("out/INBOX.mbox")).unwrap_or_default();
    let found: BTreeSet<String> = mbox.split_inclusive("\n\nFrom ").map(str::to_owned).collect();
    let subject = |message: &String| message.lines().find_map(|line| line.strip_prefix("Subject: ")?.parse().ok());
    for message in &found {
        let number: usize = subject(message).unwrap_or_else(|| panic!("no subject: {message:?}"));
        let whole = letter(number);
        let kept = whole.trim_start_matches("From ").trim_end();
        assert!(message.contains(kept), "{message:?}");
    }
    found
}

/// Counts of the results of fixups of damaged stores.
#[derive(Default, Debug)]
struct FixupCounts {
    /// Stores that could not be opened or mended.
    refused: usize,
    /// Mended stores in which nothing was lost.
    whole: usize,
    /// Stores that lost mail and reported it.
    lost: usize,
}

fn flip_and_fix(folder: &TestFolder, file: &Path, counts: &mut FixupCounts) {
    let output = folder.run(&["fixup"], "");
    let report = text(&output.stdout);
    let complaint = text(&output.stderr);
    let name = file.display();
    if complaint.contains("cannot open the store") || complaint.contains("doublet: damaged record in table catalog") {
        counts.refused += 1;
        return;
    }
    if report.contains("No damage was found") {
        // The flipped bit is in data that only speeds up searches, so all messages can still be read.
        assert_eq!(mail(folder).len(), MESSAGES, "{name}");
        return;
    }
    if complaint.contains("properties unsorted") {
        // The engine does not name the file whose properties are damaged, so the file stays, and fixup reports this.
        assert!(complaint.contains("remain in the store's files"), "{name}: {complaint}");
        counts.refused += 1;
        return;
    }
    assert!(!complaint.contains("remain in the store's files"), "{name}: {report}{complaint}");
    let named = complaint.matches("cannot be read\n").count();
    assert_eq!(output.status.success(), report.contains(", all repaired"), "{name}: {report}{complaint}");
    folder.check(&["fixup"], "No damage was found");
    if complaint.contains("\n  names.nsf: note") {
        // Ann's person document is lost: her mail exists, but the directory has no owner for it.
        counts.lost += 1;
        return;
    }
    let left = mail(folder).len();
    assert!(left + named >= MESSAGES, "{name}: {left} messages are left, reported: {complaint}");
    if left == MESSAGES { counts.whole += 1 } else { counts.lost += 1 }
}

#[test]
fn fixup_replaces_damaged_files_and_keeps_good_mail() {
    let folder = filled();
    assert_eq!(mail(&folder).len(), MESSAGES);
    let store = folder.data().join("store");
    let sound = folder.path("sound");
    copy(&store, &sound);
    let mut counts = FixupCounts::default();
    for file in sorted_files(&sound) {
        let length = fs::metadata(&file).expect("a file").len() as usize;
        for spot in [length / 10, length / 2] {
            copy(&sound, &store);
            let victim = store.join(file.file_name().expect("a name"));
            flip(&victim, spot);
            flip_and_fix(&folder, &victim, &mut counts);
        }
    }
    assert!(counts.whole > 3 && counts.lost > 1, "{counts:?}");
}

#[test]
fn fixup_keeps_damaged_files_that_a_server_works_on() {
    let folder = filled();
    let largest =
        |files: Vec<PathBuf>| files.into_iter().max_by_key(|file| fs::metadata(file).map_or(0, |data| data.len()));
    let victim = largest(sorted_files(&folder.data().join("store"))).expect("there are files");
    flip(&victim, 3_000);
    let server = folder.serve();
    folder.check_fails(&["fixup"], "Stop the server and run `doublet fixup` again");
    assert!(victim.exists());
    server.stop();
    let output = folder.run(&["fixup"], "");
    assert!(!text(&output.stderr).contains("remain in the store's files"), "{}", text(&output.stderr));
    assert!(!victim.exists());
    folder.check(&["fixup"], "No damage was found");
    let mut server = folder.serve();
    server.listeners.clear();
    server.stop();
}
