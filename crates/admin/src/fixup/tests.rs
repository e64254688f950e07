//! Tests of the report of a fixup: findings that are new, repaired and left.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use config::Config;
use instance::data_folder::DataFolder;
use instance::{Instance, StoreServices};
use mail::mailbox::{Flags, MailFile, NewMessage};
use sample::Sample;

use super::*;

/// Creates findings from `(kind, place, what)`. Those of the kind `Derived` count as repaired.
fn findings(rows: &[(FindingKind, &str, &str)]) -> Findings {
    let mut findings = Findings::default();
    rows.iter()
        .for_each(|(kind, place, what)| findings.add(place, *kind, (*what).to_owned(), *kind == FindingKind::Derived));
    findings
}

fn left(findings: &Findings) -> Vec<&str> {
    findings.unrepaired().map(|row| row.description.as_str()).collect()
}

fn block(key: &[u8]) -> store::Error {
    store::Error::Damaged { table: Table::Summary, key: key.to_vec(), reason: "checksum".to_owned() }
}

#[test]
fn blocks_that_remain_after_repair_are_reported_as_unrepaired() {
    let description = block(b"found by the first scan").to_string();
    let mut found = findings(&[(FindingKind::Block, STORE, &description), (FindingKind::Lost, "a.nsf", "note 7")]);
    found.merge_remaining_blocks(&[block(b"elsewhere")]);
    assert_eq!(left(&found), ["note 7", &block(b"elsewhere").to_string()]);
    let failure = found.answer(false).expect_err("not everything is mended").to_string();
    assert!(failure.starts_with("3 findings, 2 of them not repaired:\n  a.nsf: note 7\n  store: damaged"), "{failure}");
    let mut found = findings(&[(FindingKind::Block, STORE, &description)]);
    found.merge_remaining_blocks(&[block(b"found by the first scan")]);
    assert_eq!(left(&found), [&description]);
    found.merge_remaining_blocks(&[]);
    assert!(found.answer(false).expect("mended").messages[0].contains("1 finding, all repaired."));
}

#[test]
fn failed_repair_marks_its_derived_findings_unrepaired() {
    let derived = [
        (FindingKind::Derived, "a.nsf", "order"),
        (FindingKind::Derived, "a.nsf", "folder"),
        (FindingKind::Derived, "b.nsf", "order"),
    ];
    let mut found = findings(&derived);
    found.merge_second_repair(findings(&[(FindingKind::Failed, "a.nsf", "no space left")]));
    assert_eq!(left(&found), ["order", "folder", "no space left"]);
    assert!(found.rows.iter().filter(|row| row.location == "b.nsf").all(|row| row.repaired));
    let mut found = findings(&derived);
    found.merge_second_repair(findings(&[(FindingKind::Lost, "a.nsf", "note 7")]));
    assert_eq!(left(&found), ["note 7"]);
}

fn message(text: &str) -> NewMessage {
    NewMessage { raw: text.as_bytes().to_vec(), flags: Flags::default(), received: None }
}

/// A data folder that no program has open, and the configuration to open it.
struct ClosedDataFolder {
    config: Arc<Config>,
    folder: tempfile::TempDir,
    /// The sorted file of each table.
    files: HashMap<Table, PathBuf>,
}

impl ClosedDataFolder {
    /// Creates a sample with mail that has attachments. Each table lies in one file of the last level.
    fn new() -> Self {
        let Sample { instance, folder } = Sample::new();
        for user in ["ann", "bob"] {
            let file = instance.mail.open_as_server(&format!("mail/{user}.nsf")).expect("the mail file exists");
            let inbox = file.snapshot().expect("a snapshot").folder("INBOX").expect("a lookup").expect("an inbox").id;
            let attachment = format!("{user} ").repeat(100_000);
            let text = format!(
                "Subject: hello\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhello\r\n--b\r\n\
                 Content-Type: application/pdf\r\n\r\n{attachment}\r\n--b--\r\n"
            );
            file.append(inbox, &[message(&text)]).expect("it goes in");
        }
        let store = instance.data.store_folder();
        let sorted = || {
            let files = std::fs::read_dir(&store).expect("a folder").map(|entry| entry.expect("an entry").path());
            files.filter(|path| path.extension().is_some_and(|end| end == "sst")).collect::<Vec<_>>()
        };
        instance.store.flush().expect("flushed");
        let mut files = HashMap::new();
        for table in Table::ALL {
            let before = sorted();
            instance.store.engine().compact(table, &KeyRange::all()).expect("compacted");
            files.extend(sorted().into_iter().filter(|file| !before.contains(file)).map(|file| (table, file)));
        }
        Self { config: Arc::clone(&instance.config), folder, files }
    }

    /// Flips a bit in the first block of a table.
    fn flip(&self, table: Table) {
        let file = &self.files[&table];
        let mut bytes = std::fs::read(file).expect("read");
        bytes[20] ^= 0x10;
        std::fs::write(file, bytes).expect("written");
    }

    fn fixup(&self) -> AdminResult {
        let data = DataFolder::new(&self.config.server.data);
        let lock = data.lock().expect("nobody works on it");
        let services = StoreServices::open_for_fixup(Arc::clone(&self.config), data, lock).expect("the store opens");
        execute_offline(services, &FixupRequest::default(), &mut |_| ControlFlow::Continue(()))
    }

    /// Asserts that no damage is left and that the server opens.
    fn reopen(&self) -> Instance {
        let again = self.fixup().expect("nothing is left to mend");
        assert_eq!(again.messages, ["No damage was found."]);
        Instance::open(Arc::clone(&self.config)).expect("it opens")
    }
}

#[test]
fn derived_data_is_rebuilt_after_loss_of_any_block() {
    for table in [Table::Unid, Table::ByModseq, Table::View, Table::Tree, Table::ViewBack, Table::Meta] {
        let closed = ClosedDataFolder::new();
        closed.flip(table);
        let answer = closed.fixup().unwrap_or_else(|failure| panic!("{table:?}: {failure}"));
        assert!(answer.messages[0].ends_with("findings, all repaired."), "{table:?}: {answer:?}");
        let instance = closed.reopen();
        for user in ["ann", "bob"] {
            assert!(instance.directory.person(&format!("{user}@acme.test")).expect("a lookup").is_some(), "{table:?}");
            let file = instance.mail.open_as_server(&format!("mail/{user}.nsf")).expect("the mail file exists");
            let snapshot = file.snapshot().expect("a snapshot");
            let inbox = snapshot.folder("INBOX").expect("a lookup").expect("an inbox");
            assert_eq!(snapshot.status(inbox.id).expect("a status").messages, 1, "{table:?}");
        }
        drop(closed.folder);
    }
}

#[test]
fn server_opens_after_the_first_notes_are_lost() {
    let closed = ClosedDataFolder::new();
    closed.flip(Table::Summary);
    let failure = closed.fixup().expect_err("lost notes are reported").to_string();
    assert!(
        failure.contains("names.nsf: ") && failure.contains("mail/bob.nsf: ") && !failure.contains("store: "),
        "{failure}"
    );
    let instance = closed.reopen();
    instance.directory.domain_add("elsewhere.test", &[]).expect("the directory can be changed");
}

#[test]
fn lost_mailboxes_are_restored_with_their_names() {
    let Sample { instance, folder } = Sample::new();
    let file = instance.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
    let names = |file: &MailFile| {
        let folders = file.snapshot().expect("a snapshot").folders().expect("a list");
        folders
            .into_iter()
            .map(|folder| (folder.name, folder.special_use.map(|special| special.name())))
            .collect::<Vec<_>>()
    };
    let before = names(&file);
    let drafts =
        file.snapshot().expect("a snapshot").folder("Drafts").expect("a lookup").expect("the mailbox exists").id;
    file.append(drafts, &[message("Subject: a draft\r\n\r\n")]).expect("it goes in");
    let number = file.database().number();
    let inbox = file.snapshot().expect("a snapshot").folder("INBOX").expect("a lookup").expect("the mailbox exists").id;
    let mut batch = store::Batch::new();
    for view in [inbox, drafts] {
        for part in [0, 1] {
            batch.delete(Table::Summary, &[&number.to_key()[..], &view.to_key(), &[part]].concat());
        }
    }
    instance.store.commit(&batch).expect("written");
    execute(&instance.databases, &FixupRequest::default(), &mut |_| ControlFlow::Continue(())).expect("it is mended");
    let mut after = names(&file);
    after.sort_unstable();
    let mut expected = before;
    expected.sort_unstable();
    assert_eq!(after, expected);
    let snapshot = file.snapshot().expect("a snapshot");
    let drafts = snapshot.folder("Drafts").expect("a lookup").expect("the mailbox exists");
    assert_eq!(snapshot.status(drafts.id).expect("a status").messages, 1);
    let inbox = snapshot.folder("INBOX").expect("a lookup").expect("the mailbox exists");
    file.append(inbox.id, &[message("Subject: new\r\n\r\n")]).expect("it goes in");
    drop(folder);
}

#[test]
fn next_fixup_completes_a_killed_one() {
    let closed = ClosedDataFolder::new();
    let instance = Instance::open(Arc::clone(&closed.config)).expect("it opens");
    instance.store.blobs().set_references_missing(&instance.store).expect("noted");
    drop(instance);
    let messages = closed.fixup().expect("nothing is damaged").messages;
    assert!(messages[0] == "No damage was found." && messages[1].contains("0 were missing"), "{messages:?}");
    let instance = closed.reopen();
    maintenance::collect_unused_blobs(&instance, &mut |_| ControlFlow::Continue(())).expect("nothing is in doubt");
}

#[test]
fn attachment_references_are_rebuilt() {
    let closed = ClosedDataFolder::new();
    closed.flip(Table::BlobRef);
    closed.fixup().expect_err("the lengths of attachments were in the same block");
    let instance = Instance::open(Arc::clone(&closed.config)).expect("it opens");
    assert_eq!(instance.store.blobs().report(instance.store.as_ref()).expect("it runs").references, 2);
    maintenance::collect_unused_blobs(&instance, &mut |_| ControlFlow::Continue(())).expect("nothing is in doubt");
}
