//! Tests of imports: files as they are found on disk, interrupted imports, and export of what was imported.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;

use crate::tests::ExecuteRequest;
use mail::mailbox::NewMessage;
use sample::Sample;

use super::*;
use crate::Request;
use crate::request::ExportRequest;

const COUNT: u64 = 2_000;

fn request(sample: &Sample, name: &str, format: MailFormat) -> ImportRequest {
    ImportRequest {
        format,
        files: vec![sample.folder.path().join(name)],
        user: "ann".to_owned(),
        folder: "INBOX".to_owned(),
        skip_duplicates: false,
        restart: false,
    }
}

fn count(sample: &Sample) -> u64 {
    let file = sample.instance.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
    let snapshot = file.snapshot().expect("a snapshot");
    let inbox = snapshot.folder("INBOX").expect("a lookup").expect("an inbox").id;
    u64::from(snapshot.status(inbox).expect("a status").messages)
}

/// Repeats an import that is cancelled after a few progress reports until it completes.
fn check_resumes(sample: &Sample, request: &ImportRequest) {
    let mut attempts = 0;
    loop {
        attempts += 1;
        assert!(attempts < 100, "the import makes no progress");
        let mut steps = 0;
        let outcome = execute(&sample.instance, request, &mut |_| {
            steps += 1;
            if steps < 9 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        match outcome {
            Ok(_) => break,
            Err(failure) => assert!(matches!(failure, AdminError::Partial { .. }), "{failure}"),
        }
    }
    assert!(attempts > 1, "the import was never cancelled");
    assert_eq!(count(sample), COUNT);
}

#[test]
fn interrupted_mbox_import_resumes() {
    let sample = Sample::new();
    let text: String =
        (0..COUNT).map(|n| format!("From a@b.test Sat Jan  3 01:05:34 2026\nSubject: {n}\n\ntext\n\n")).collect();
    std::fs::write(sample.folder.path().join("big.mbox"), text).expect("the folder is writable");
    check_resumes(&sample, &request(&sample, "big.mbox", MailFormat::Mbox));
}

#[test]
fn interrupted_eml_import_resumes() {
    let sample = Sample::new();
    let folder = sample.folder.path().join("letters");
    std::fs::create_dir(&folder).expect("the folder is writable");
    for number in 0..COUNT {
        std::fs::write(folder.join(format!("{number:05}.eml")), format!("Subject: {number}\r\n\r\n"))
            .expect("writable");
    }
    check_resumes(&sample, &request(&sample, "letters", MailFormat::Eml));
}

#[test]
fn several_named_files_are_one_import() {
    let sample = Sample::new();
    let top = sample.folder.path();
    let files: Vec<PathBuf> = (0..COUNT).map(|number| top.join(format!("{number}.eml"))).collect();
    files.iter().for_each(|path| write(path, "Subject: one of many\r\n\r\n"));
    check_resumes(&sample, &ImportRequest { files: files.clone(), ..request(&sample, "", MailFormat::Eml) });
    let mixed = vec![files[0].clone(), top.join("folder"), files[1].clone(), files[2].clone()];
    write(&top.join("folder/1.eml"), "Subject: in a folder\r\n\r\n");
    let answer = import(&sample, ImportRequest { files: mixed, ..request(&sample, "", MailFormat::Eml) });
    assert_eq!(answer.data["messages"], json!(4));
    assert_eq!(mailbox(&sample, "INBOX")[COUNT as usize + 1].0, b"Subject: in a folder\r\n\r\n");
}

fn write(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().expect("it has one")).expect("the folder is writable");
    std::fs::write(path, content).expect("the folder is writable");
}

/// Runs an import and asserts that nothing is left out.
fn import(sample: &Sample, request: ImportRequest) -> Answer {
    let answer = sample.execute(Request::Import(request)).expect("it goes in");
    assert_eq!(answer.failure, None);
    answer
}

fn export(sample: &Sample, format: MailFormat, to: &str, flags: bool) -> Answer {
    let to = sample.folder.path().join(to);
    let request = ExportRequest { format, to, user: "ann".to_owned(), folders: Vec::new(), flags };
    let answer = sample.execute(Request::Export(request)).expect("it goes out");
    assert_eq!(answer.failure, None);
    answer
}

/// Returns the content of a mailbox: bytes, flag names and time of each message, in order.
fn mailbox(sample: &Sample, name: &str) -> Vec<(Vec<u8>, Vec<String>, i64)> {
    let file = sample.instance.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
    let snapshot = file.snapshot().expect("a snapshot");
    let folder = snapshot.folder(name).expect("a lookup").unwrap_or_else(|| panic!("there is a mailbox {name}")).id;
    let mut found = Vec::new();
    snapshot
        .entries(folder, base::Uid(1)..=base::Uid(u32::MAX), &mut |entry| {
            let raw = snapshot.message(entry.note)?.expect("an entry has its message").raw()?;
            let flags = snapshot.flags(&entry);
            let marks = mail::mailbox::flags::system_flag_names(flags.marks).map(str::to_owned);
            let mut names: Vec<String> = marks.chain(flags.keywords).collect();
            names.sort();
            found.push((raw, names, entry.received.seconds()));
            Ok(ControlFlow::Continue(()))
        })
        .expect("it can be read");
    found
}

fn folders(sample: &Sample) -> Vec<String> {
    let file = sample.instance.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
    let folders = file.snapshot().expect("a snapshot").folders().expect("a lookup");
    folders.into_iter().map(|folder| folder.name).collect()
}

/// Appends a message to a mailbox as IMAP APPEND does.
fn append(sample: &Sample, name: &str, raw: &[u8], flags: &[&str], seconds: i64) {
    let file = sample.instance.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
    let found = file.snapshot().expect("a snapshot").folder(name).expect("a lookup");
    let folder = found.map_or_else(|| file.folder_create(name, None).expect("it is new").0, |folder| folder.id);
    let flags = flags.iter().copied().collect();
    let message = NewMessage { raw: raw.to_vec(), flags, received: Some(Timestamp::from_seconds(seconds)) };
    file.append(folder, &[message]).expect("within the limit");
}

/// Returns all files below a folder: relative path and content.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let found = mail_files::files_below(folder).expect("readable").files;
    let relative = |found: &FileEntry| found.path.strip_prefix(folder).expect("below").to_string_lossy().into_owned();
    found.iter().map(|found| (relative(found), std::fs::read(&found.path).expect("readable"))).collect()
}

/// Returns messages that combine the difficult cases of line ends, quoting and ends of files.
fn nasty() -> Vec<Vec<u8>> {
    let pieces = ["\r\n", "\n", "\r", "\0\u{80}", "From ", ">From Sat Jan  3 01:05:34 2026", "A: b", "\r\r\n"];
    let mut all = vec![String::new()];
    for _ in 0..3 {
        let longer: Vec<String> = all.iter().flat_map(|start| pieces.map(|piece| format!("{start}{piece}"))).collect();
        all.extend(longer);
        all.sort();
        all.dedup();
    }
    all.into_iter().map(String::into_bytes).collect()
}

#[test]
fn messages_round_trip_through_every_format() {
    let sample = Sample::new();
    let file = sample.instance.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
    let messages = nasty();
    let new = |raw: &Vec<u8>| NewMessage { raw: raw.clone(), flags: Flags::none(), received: None };
    let id = file.folder_create("wire", None).expect("it is new").0;
    file.append(id, &messages.iter().map(new).collect::<Vec<_>>()).expect("within the limit");
    for (format, out) in [(MailFormat::Mbox, "m"), (MailFormat::Maildir, "d"), (MailFormat::Eml, "e")] {
        export(&sample, format, out, false);
        let from = match format {
            MailFormat::Mbox => format!("{out}/wire.mbox"),
            MailFormat::Maildir => format!("{out}/.wire"),
            MailFormat::Eml => format!("{out}/wire"),
        };
        let request = ImportRequest { folder: format!("{out}-back"), ..request(&sample, &from, format) };
        import(&sample, request);
        let mut back: Vec<Vec<u8>> =
            mailbox(&sample, &format!("{out}-back")).into_iter().map(|(raw, ..)| raw).collect();
        // Messages of a Maildir are ordered by time and name.
        let mut expected = messages.clone();
        back.sort();
        expected.sort();
        assert_eq!(back.len(), expected.len(), "{format:?}");
        assert!(back == expected, "{format:?}");
    }
}

#[test]
fn files_round_trip_through_every_format() {
    let sample = Sample::new();
    let top = sample.folder.path();
    for (number, content) in (1_700_000_000..).zip(nasty()) {
        write(&top.join(format!("in-d/.Entw&APw-rfe/cur/{number}.x:2,")), &content);
        write(&top.join(format!("in-e/letters/{}.eml", number - 1_699_999_999)), &content);
    }
    let text = "From - Sat Jan 03 01:05:34 2026\r\nX-Mozilla-Status: 0001\r\nSubject: a\r\n\r\n>From b\r\n\r\n";
    write(&top.join("in-m/a.2023.mbox"), text.repeat(2));
    write(&top.join("in-m/Work/x.mbox"), text.replace("\r\n", "\n").trim_end());
    write(&top.join("in-d/cur/.keep"), "");
    std::fs::remove_file(top.join("in-d/cur/.keep")).expect("it was made");
    for (format, from, out) in
        [(MailFormat::Mbox, "in-m", "m"), (MailFormat::Maildir, "in-d", "d"), (MailFormat::Eml, "in-e", "e")]
    {
        import(&sample, request(&sample, from, format));
        export(&sample, format, out, false);
    }
    let before = tree(&top.join("in-m"));
    let after = tree(&top.join("m"));
    assert!(before.iter().all(|(path, content)| after.get(path) == Some(content)), "{after:?}");
    let contents = |path: &str| -> Vec<Vec<u8>> { tree(&top.join(path)).into_values().collect() };
    assert!(contents("in-d/.Entw&APw-rfe/cur") == contents("d/.Entw&APw-rfe/cur"));
    let sorted = |path: &str| {
        let mut contents = contents(path);
        contents.sort();
        contents
    };
    assert!(sorted("in-e/letters") == sorted("e/letters"));
}

#[test]
fn flags_dates_and_folders_round_trip() {
    for format in [MailFormat::Mbox, MailFormat::Maildir, MailFormat::Eml] {
        let sample = Sample::new();
        let names = ["Work.2026", "Work/2026", "Entw\u{fc}rfe/a & b", "a.mbox", "..", "flags.jsonl"];
        for name in names {
            let raw = b"Status: RO\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\n\r\n";
            append(&sample, name, raw, &["\\Answered", "\\Draft", "$Forwarded", "Later"], 1_000_000_000);
            append(&sample, name, raw, &[], 1_100_000_000);
        }
        let before: Vec<_> = names.map(|name| mailbox(&sample, name)).into();
        assert_eq!(before[0][0].1, ["$Forwarded", "Later", "\\Answered", "\\Draft"]);
        export(&sample, format, "out", true);
        let out = sample.folder.path().join("out");
        let fresh = Sample::new();
        import(&fresh, ImportRequest { files: vec![out], ..request(&fresh, "", format) });
        let after: Vec<_> = names.map(|name| mailbox(&fresh, name)).into();
        assert_eq!(before, after, "{format:?}");
        assert_eq!(folders(&sample), folders(&fresh), "{format:?}");
    }
}

#[test]
fn exported_files_are_private_and_keep_message_times() {
    use std::os::unix::fs::PermissionsExt;
    let sample = Sample::new();
    append(&sample, "Old", b"Subject: a\r\n\r\n", &["Later"], 1_000_000_000);
    for (format, out) in [(MailFormat::Mbox, "m"), (MailFormat::Maildir, "d"), (MailFormat::Eml, "e")] {
        export(&sample, format, out, true);
        let top = sample.folder.path().join(out);
        let mode = |path: &Path| std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        assert_eq!(mode(&top), 0o700);
        for found in mail_files::files_below(&top).expect("readable").files {
            assert_eq!(mode(&found.path), 0o600, "{}", found.path.display());
            let is_message = found.name().ends_with(".eml") || found.name().contains(":2,");
            assert!(!is_message || found.modified == Some(Timestamp::from_seconds(1_000_000_000)));
        }
    }
    let name = tree(&sample.folder.path().join("d/.Old/cur")).into_keys().next().expect("a message");
    assert_eq!(name, "1000000000.M000000Q00000001.doublet,S=12:2,a");
}

#[test]
fn flags_are_read_from_headers_and_maildir_keywords() {
    let sample = Sample::new();
    let top = sample.folder.path();
    let separator = "From a@b.test Sat Jan  3 01:05:34 2026\n";
    write(
        &top.join("a.mbox"),
        format!("{separator}Status: RO\nX-Keywords: Later\n\n\n{separator}X-Mozilla-Status: 0006\n\n\n"),
    );
    import(&sample, request(&sample, "a.mbox", MailFormat::Mbox));
    let found = mailbox(&sample, "INBOX");
    assert_eq!(
        (found[0].1.as_slice(), found[1].1.as_slice()),
        (&["Later".into(), "\\Seen".into()][..], &["\\Answered".into(), "\\Flagged".into()][..])
    );
    assert_eq!(found[0].0, b"Status: RO\r\nX-Keywords: Later\r\n\r\n", "the headers stay");
    write(&top.join("dir/cur/1.a:2,Sb"), "");
    write(&top.join("dir/new/2.b"), "");
    write(&top.join("dir/dovecot-keywords"), "0 One\n1 Two\n");
    import(&sample, ImportRequest { folder: "D".into(), ..request(&sample, "dir", MailFormat::Maildir) });
    let flags: Vec<Vec<String>> = mailbox(&sample, "D").into_iter().map(|(_, flags, _)| flags).collect();
    assert_eq!(flags, [vec!["Two".to_owned(), "\\Seen".into()], vec![]]);
}

#[test]
fn received_time_falls_back_to_date_header_and_file_time() {
    let sample = Sample::new();
    let top = sample.folder.path();
    let date = "Date: Thu, 1 Jan 2026 00:00:00 +0000\n";
    write(&top.join("in/1"), format!("Received: by a; Fri, 2 Jan 2026 00:00:00 +0000\n{date}\n"));
    write(&top.join("in/2"), format!("{date}\n"));
    write(&top.join("in/3"), "\n");
    let file = File::options().write(true).open(top.join("in/3")).expect("it was written");
    file.set_modified(mail_files::system_time(Timestamp::from_seconds(5))).expect("its time can be set");
    import(&sample, request(&sample, "in", MailFormat::Eml));
    let times: Vec<i64> = mailbox(&sample, "INBOX").into_iter().map(|(.., time)| time).collect();
    assert_eq!(times, [1_767_312_000, 1_767_225_600, 5]);
}

#[test]
fn unreadable_files_are_reported_and_skipped() {
    let sample = Sample::new();
    let top = sample.folder.path();
    write(&top.join("letters/good.eml"), "Subject: good\r\n\r\n");
    write(&top.join("letters/.DS_Store"), "rubbish");
    let large = File::create(top.join("letters/large.eml")).expect("writable");
    large.set_len(MESSAGE_BYTES_MAX as u64 + 1).expect("a file with a hole");
    write(&top.join("boxes/a.msf"), "rubbish");
    write(&top.join("boxes/b"), "From a@b.test Sat Jan  3 01:05:34 2026\nSubject: b\n\n");
    let check = |request: ImportRequest, messages: u64, named: &[&str]| {
        let answer = sample.execute(Request::Import(request)).expect("it goes on");
        let skipped = answer.data["skipped"].as_array().expect("a list");
        assert_eq!((&answer.data["messages"], skipped.len()), (&json!(messages), named.len()), "{skipped:?}");
        let failure = answer.failure.expect("the command fails");
        for name in named {
            assert!(failure.contains(name) && skipped.iter().any(|text| text.to_string().contains(name)), "{name}");
        }
    };
    check(request(&sample, "letters", MailFormat::Eml), 1, &[".DS_Store", "large.eml"]);
    check(request(&sample, "boxes", MailFormat::Mbox), 1, &["a.msf"]);
    check(request(&sample, "letters/good.eml", MailFormat::Mbox), 0, &["good.eml: not an mbox file"]);
    let two = ["missing.eml", "letters/good.eml"].map(|name| top.join(name)).to_vec();
    check(ImportRequest { files: two, ..request(&sample, "", MailFormat::Eml) }, 1, &["missing.eml"]);
}

/// Creates a Maildir of ann's and, outside of it, a message that she may not read.
fn maildir_beside_a_secret(sample: &Sample) -> PathBuf {
    let top = sample.folder.path();
    write(&top.join("secret/cur/1"), "Subject: secret\n\n");
    write(&top.join("ann/cur/1"), "Subject: own\n\n");
    write(&top.join("ann/new/2"), "Subject: new\n\n");
    top.to_owned()
}

fn create_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("a part of coreutils");
    assert!(made.success());
}

#[test]
fn links_and_pipes_in_a_folder_are_reported_and_not_read() {
    let sample = Sample::new();
    let top = maildir_beside_a_secret(&sample);
    symlink(top.join("secret/cur/1"), top.join("ann/cur/3")).expect("writable");
    symlink(top.join("secret/cur"), top.join("ann/cur/4")).expect("writable");
    create_pipe(&top.join("ann/cur/5"));
    write(&top.join("ann/.Sub/cur/6"), "Subject: sub\n\n");
    symlink(top.join("secret/cur"), top.join("ann/.Sub/new")).expect("writable");
    symlink(top.join("secret"), top.join("ann/.Linked")).expect("writable");
    std::fs::create_dir(top.join("ann/.Half")).expect("writable");
    symlink(top.join("secret/cur"), top.join("ann/.Half/cur")).expect("writable");
    symlink(top.join("secret/cur/1"), top.join("ann/dovecot-keywords")).expect("writable");
    for (format, messages) in [(MailFormat::Maildir, 3), (MailFormat::Eml, 3), (MailFormat::Mbox, 0)] {
        let to = ImportRequest { folder: format!("{format:?}"), ..request(&sample, "ann", format) };
        let answer = sample.execute(Request::Import(to)).expect("it goes on");
        assert_eq!(answer.data["messages"], json!(messages), "{format:?}");
        let failure = answer.failure.expect("files are left out");
        let named = ["cur/3", "cur/4", "cur/5", ".Sub/new", ".Linked", ".Half/cur", "dovecot-keywords"];
        assert!(named.iter().all(|name| failure.contains(name)), "{format:?}: {failure}");
        assert!(failure.contains("not a regular file; links, pipes and devices are not read"), "{failure}");
    }
    for name in folders(&sample) {
        assert!(mailbox(&sample, &name).iter().all(|(raw, ..)| raw != b"Subject: secret\r\n\r\n"), "{name}");
    }
}

#[test]
fn named_links_and_pipes_are_refused_at_once() {
    let sample = Sample::new();
    let top = maildir_beside_a_secret(&sample);
    symlink(top.join("secret/cur/1"), top.join("file")).expect("writable");
    symlink(top.join("secret"), top.join("folder")).expect("writable");
    create_pipe(&top.join("pipe"));
    for (name, format) in [
        ("file", MailFormat::Eml),
        ("file", MailFormat::Mbox),
        ("folder", MailFormat::Eml),
        ("folder", MailFormat::Mbox),
        ("pipe", MailFormat::Eml),
        ("pipe", MailFormat::Mbox),
    ] {
        let answer = sample.execute(Request::Import(request(&sample, name, format))).expect("it goes on");
        assert_eq!(answer.data["messages"], json!(0), "{name} {format:?}");
        let failure = answer.failure.expect("nothing is imported");
        assert!(failure.contains(&format!("{name}: not a regular file")), "{failure}");
    }
    symlink(top.join("secret/cur"), top.join("ann/.cur")).expect("writable");
    std::fs::rename(top.join("ann/cur"), top.join("ann/old")).expect("writable");
    std::fs::rename(top.join("ann/.cur"), top.join("ann/cur")).expect("writable");
    for name in ["folder", "file", "ann"] {
        let failed = sample.execute(Request::Import(request(&sample, name, MailFormat::Maildir)));
        let failure = failed.expect_err("no Maildir").to_string();
        assert!(failure.contains("not a folder; links to folders are not followed"), "{name}: {failure}");
    }
    assert_eq!(count(&sample), 0);
}

#[test]
fn import_over_quota_reports_progress_and_resumes() {
    let sample = Sample::new();
    let text = format!("From a@b.test Sat Jan  3 01:05:34 2026\n\n{}\n\n", "x".repeat(1_000));
    write(&sample.folder.path().join("big.mbox"), text.repeat(1_500));
    let request = ImportRequest { user: "bob".to_owned(), ..request(&sample, "big.mbox", MailFormat::Mbox) };
    let failure = sample.execute(Request::Import(request.clone())).expect_err("bob has 1 MiB").to_string();
    assert!(failure.contains("over quota") && failure.contains("raises the quota"), "{failure}");
    assert!(failure.contains("Imported before that and kept: 1000 messages (1004000 bytes)"), "{failure}");
    let bob = people::find(&sample.instance, "bob").expect("he is there");
    people::set_quota(&sample.instance, &bob, None).expect("it can be raised");
    assert_eq!(import(&sample, request).data["messages"], json!(500));
}

/// Cancels an import after a number of progress reports.
fn cancel(sample: &Sample, request: &ImportRequest, steps: usize) {
    let mut left = steps;
    let outcome = execute(&sample.instance, request, &mut |_| {
        left -= 1;
        if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let failure = outcome.expect_err("the import is cancelled").to_string();
    assert!(
        failure.contains("interrupted; completed work is kept") && failure.contains("continues where it stopped"),
        "{failure}"
    );
}

fn numbered(count: u64) -> Vec<String> {
    (0..count).map(|n| format!("From a@b.test Sat Jan  3 01:05:34 2026\nSubject: {n}\n\ntext\n\n")).collect()
}

/// Returns the numbers of the messages in a mailbox, sorted.
fn numbers(sample: &Sample, name: &str) -> Vec<u64> {
    let number = |raw: Vec<u8>| -> u64 {
        let text = String::from_utf8(raw).expect("text");
        text.split("\r\n").next().and_then(|line| line.strip_prefix("Subject: ")?.parse().ok()).expect("a number")
    };
    let mut found: Vec<u64> = mailbox(sample, name).into_iter().map(|(raw, ..)| number(raw)).collect();
    found.sort_unstable();
    found
}

#[test]
fn changed_mbox_is_imported_completely_on_resume() {
    let all = numbered(COUNT + 10);
    let check = |now: &[String], expected: Vec<u64>| {
        let sample = Sample::new();
        let path = sample.folder.path().join("big.mbox");
        write(&path, all[..COUNT as usize].concat());
        let request = request(&sample, "big.mbox", MailFormat::Mbox);
        cancel(&sample, &request, 9);
        write(&path, now.concat());
        import(&sample, request);
        assert_eq!(numbers(&sample, "INBOX"), expected);
    };
    let count = COUNT as usize;
    let grown_in_front: Vec<String> = [&all[count..], &all[..count]].concat();
    check(&grown_in_front, (0..COUNT + 10).collect());
    check(&all, (0..COUNT + 10).collect());
    check(&all[100..count], (0..COUNT).collect());
    // The messages that are no longer in the file were imported before they were removed.
    check(&all[count..], (0..500).chain(COUNT..COUNT + 10).collect());
}

#[test]
fn import_into_another_folder_is_independent() {
    let sample = Sample::new();
    write(&sample.folder.path().join("big.mbox"), numbered(COUNT).concat());
    let to = |folder: &str| ImportRequest { folder: folder.into(), ..request(&sample, "big.mbox", MailFormat::Mbox) };
    cancel(&sample, &to("B2"), 9);
    import(&sample, to("B3"));
    import(&sample, to("B2"));
    for folder in ["B2", "B3"] {
        assert_eq!(numbers(&sample, folder), (0..COUNT).collect::<Vec<_>>());
    }
}

#[test]
fn changed_maildir_is_imported_completely_on_resume() {
    let check = |change: &dyn Fn(&Path)| -> Answer {
        let sample = Sample::new();
        let top = sample.folder.path().join("dir");
        for number in 0..COUNT {
            let part = if number < 1_000 { "cur" } else { "new" };
            write(&top.join(part).join(format!("{}.x", 1_000_000_000 + number)), format!("Subject: {number}\n\n"));
        }
        let request = request(&sample, "dir", MailFormat::Maildir);
        cancel(&sample, &request, 9);
        change(&top);
        let answer = import(&sample, request);
        assert_eq!(numbers(&sample, "INBOX"), (0..COUNT).collect::<Vec<_>>());
        answer
    };
    let path = |top: &Path, part: &str, number: u64| top.join(part).join(format!("{}.x", 1_000_000_000 + number));
    let gone = check(&|top| {
        (0..400).for_each(|number| std::fs::remove_file(path(top, "cur", number)).expect("the message file exists"))
    });
    assert!(gone.messages[0].contains("was read from the beginning"), "{:?}", gone.messages);
    let moved = check(&|top| {
        for number in 1_000..COUNT {
            let mut to = path(top, "cur", number).into_os_string();
            to.push(":2,S");
            std::fs::rename(path(top, "new", number), to).expect("the message file exists");
        }
    });
    assert!(moved.messages.is_empty(), "{:?}", moved.messages);
}

#[test]
fn completed_files_are_not_reimported_after_an_interruption() {
    let check = |files: &[&str], folder: &str| {
        let sample = Sample::new();
        let top = sample.folder.path();
        let all = numbered(COUNT);
        for (number, part) in all.chunks(COUNT as usize / 4).enumerate() {
            write(&top.join(format!("profile/{number}.mbox")), part.concat());
        }
        write(&top.join("profile/empty.mbox"), "");
        let files = files.iter().map(|name| top.join(name)).collect();
        let request = ImportRequest { files, folder: folder.into(), ..request(&sample, "", MailFormat::Mbox) };
        // The first call finishes the second file and starts the third. The second call finishes the third file and
        // starts the last.
        cancel(&sample, &request, 12);
        cancel(&sample, &request, 7);
        let found = |sample: &Sample| -> Vec<u64> {
            let names = folders(sample).into_iter().filter(|name| name == folder || name.len() == 1);
            let mut found: Vec<u64> = names.flat_map(|name| numbers(sample, &name)).collect();
            found.sort_unstable();
            found
        };
        import(&sample, request.clone());
        assert_eq!(found(&sample), (0..COUNT).collect::<Vec<_>>());
        // The command has succeeded, so running it again imports everything again.
        assert_eq!(import(&sample, request).data["messages"], json!(COUNT));
    };
    check(&["profile"], "INBOX");
    check(&["profile/0.mbox", "profile/1.mbox", "profile/2.mbox", "profile/3.mbox"], "All");
}

#[test]
fn completed_files_are_not_reimported_while_others_are_skipped() {
    let sample = Sample::new();
    let top = sample.folder.path();
    let first = numbered(3)[..2].concat();
    let second = &numbered(3)[2];
    write(&top.join("profile/a"), &first);
    write(&top.join("profile/a.msf"), "rubbish");
    let plain = request(&sample, "profile", MailFormat::Mbox);
    let run = |request: &ImportRequest| -> (Option<u64>, Option<u64>, bool) {
        let answer = sample.execute(Request::Import(request.clone())).expect("it goes on");
        (answer.data["messages"].as_u64(), answer.data["already_imported"].as_u64(), answer.failure.is_some())
    };
    assert_eq!(run(&plain), (Some(2), Some(0), true));
    assert_eq!(run(&plain), (Some(0), Some(1), true));
    assert_eq!(run(&ImportRequest { restart: true, ..plain.clone() }), (Some(2), Some(0), true));
    write(&top.join("profile/a"), format!("{first}{second}"));
    assert_eq!(run(&plain), (Some(1), Some(0), true), "only the added message");
    std::fs::remove_file(top.join("profile/a.msf")).expect("the file exists");
    assert_eq!(run(&plain), (Some(0), Some(1), false));
    assert_eq!(run(&plain), (Some(3), Some(0), false), "a new import");
    assert_eq!(numbers(&sample, "a"), [0, 0, 0, 1, 1, 1, 2, 2]);
}

#[test]
fn skipped_files_are_retried_after_an_interruption() {
    let sample = Sample::new();
    let top = sample.folder.path().join("letters");
    for number in 1..=COUNT {
        write(&top.join(format!("{number:05}")), format!("Subject: {number}\r\n\r\n"));
    }
    let hide = |number: u64| {
        let file = File::create(top.join(format!("{number:05}"))).expect("writable");
        file.set_len(MESSAGE_BYTES_MAX as u64 + 1).expect("a file with a hole");
    };
    hide(3);
    hide(COUNT);
    let request = request(&sample, "letters", MailFormat::Eml);
    cancel(&sample, &request, 9);
    let answer = sample.execute(Request::Import(request.clone())).expect("it goes on");
    assert!(answer.failure.is_some_and(|failure| failure.contains("00003") && failure.contains("02000")));
    for number in [3, COUNT] {
        write(&top.join(format!("{number:05}")), format!("Subject: {number}\r\n\r\n"));
    }
    assert_eq!(import(&sample, request).data["messages"], json!(2));
    assert_eq!(numbers(&sample, "INBOX"), (1..=COUNT).collect::<Vec<_>>());
}

#[test]
fn evicted_import_state_falls_back_to_duplicate_detection() {
    let sample = Sample::new();
    write(&sample.folder.path().join("boxes/a"), numbered(4).concat());
    write(&sample.folder.path().join("boxes/a.msf"), "rubbish");
    let request = request(&sample, "boxes", MailFormat::Mbox);
    sample.execute(Request::Import(request.clone())).expect("it goes on");
    let file = sample.instance.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
    for number in 0..mail::limits::IMPORT_SOURCES_MAX {
        let mut importer = Importer::new(&file, &number.to_string(), ImportOptions::default()).expect("an import");
        importer.mark_incomplete();
        importer.finish().expect("within the limit");
    }
    let answer = sample.execute(Request::Import(request)).expect("it goes on");
    assert_eq!((&answer.data["messages"], &answer.data["duplicates"]), (&json!(0), &json!(4)));
}

#[test]
fn damaged_message_is_reported_and_the_rest_is_exported() {
    for (format, out) in [(MailFormat::Mbox, "m"), (MailFormat::Maildir, "d"), (MailFormat::Eml, "e")] {
        let sample = Sample::new();
        for subject in ["one", "two", "three"] {
            append(&sample, "INBOX", format!("Subject: {subject}\r\n\r\ntext\r\n").as_bytes(), &[], 1_000_000_000);
        }
        let file = sample.instance.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
        let snapshot = file.snapshot().expect("a snapshot");
        let inbox = snapshot.folder("INBOX").expect("a lookup").expect("an inbox").id;
        let second = snapshot.entry(inbox, base::Uid(2)).expect("a lookup").expect("the second message").note;
        let key = |note: base::NoteId| [file.database().number().to_key(), note.to_key()].concat();
        let mut batch = store::Batch::new();
        batch.delete_range(store::Table::Body, &key(second), &key(base::NoteId(second.0 + 1)));
        sample.instance.store.engine().write(&batch).expect("the disk is well");
        let to = sample.folder.path().join(out);
        let request = ExportRequest { format, to, user: "ann".to_owned(), folders: Vec::new(), flags: false };
        let answer = sample.execute(Request::Export(request)).expect("it goes on");
        assert_eq!(answer.data["messages"], json!(2));
        assert!(answer.failure.expect("the command fails").contains("INBOX, UID 2: damaged"));
    }
}
