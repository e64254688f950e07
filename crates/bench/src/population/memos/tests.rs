//! Tests of what mail files have: from the seed alone, with the stated shares.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use super::*;
use crate::population::message::{Mailbox, MessageHeader};

fn files(seed: u64) -> MailFiles {
    let profile = SizeProfile::server_load();
    let unread = Share::from_f64(0.1).expect("a share");
    MailFiles {
        seed,
        users: 20,
        documents: 30,
        archive: 0,
        profile,
        size_scale: 0.01,
        unread,
        purpose: Purpose::Message,
        masters: 20,
        own: Share::ALL,
    }
}

#[test]
fn mail_files_follow_from_the_seed() {
    let contents = |seed, user| files(seed).memos(user).collect::<Vec<_>>();
    assert_eq!(contents(1, 3), contents(1, 3));
    assert_ne!(contents(1, 3), contents(2, 3));
    assert_ne!(contents(1, 3), contents(1, 4));
    assert_eq!(contents(1, 20).len(), 30);
}

#[test]
fn archives_are_older_and_change_no_inbox() {
    let inboxes = files(1);
    let both = MailFiles { archive: 20, ..files(1) };
    for user in [1, 20] {
        let memos: Vec<StoredMemo> = both.memos(user).collect();
        let (inbox, archive) = memos.split_at(30);
        assert!(inboxes.memos(user).eq(inbox.iter().cloned()));
        assert!(inbox.iter().all(|memo| !memo.is_archived) && archive.iter().all(|memo| memo.is_archived));
        assert_eq!(archive.len(), 20);
        let last = archive.iter().map(|memo| memo.posted_us).max();
        assert!(last < inbox.iter().map(|memo| memo.posted_us).min());
        let references: BTreeSet<&str> = archive.iter().map(|memo| &*memo.content.reference).collect();
        let answered = archive.iter().flat_map(|memo| &memo.references);
        assert!(answered.into_iter().all(|reference| references.contains(&**reference)), "answers stay in the archive");
    }
    let all = (1..=20).flat_map(|user| both.memos(user));
    let references: BTreeSet<String> = all.map(|memo| memo.content.reference).collect();
    assert_eq!(references.len(), 20 * 50);
}

/// Checks the bytes of some messages against a stored digest. A changed digest is a changed population: reports from
/// before and after it are not those of the same run.
#[test]
fn the_bytes_of_a_seed_never_change() {
    let mut digest = Sha256::new();
    let files = MailFiles { size_scale: 0.1, documents: 10, ..files(1) };
    for memo in (1..=20).flat_map(|user| files.memos(user)) {
        let mailbox = Mailbox { name: memo.content.author.clone(), address: "mail1@bench.test".to_owned() };
        let header = MessageHeader {
            from: Some(mailbox),
            date_us: Some(memo.posted_us),
            references: memo.references,
            ..MessageHeader::default()
        };
        digest.update(memo.content.message_with(&header));
    }
    expect_test::expect!["41d99931e3c236969756a7833ee88eb45f418659aa11be7b966cacdcb1a8c492"]
        .assert_eq(&base::hex::lower(&digest.finalize()));
}

#[test]
fn senders_are_others_and_a_tenth_is_unread() {
    let files = MailFiles { documents: 100, ..files(1) };
    let memos: Vec<(u64, StoredMemo)> =
        (1..=20).flat_map(|user| files.memos(user).map(move |memo| (user, memo))).collect();
    assert!(memos.iter().all(|(user, memo)| memo.sender != *user && (1..=20).contains(&memo.sender)));
    let unread = memos.iter().filter(|(_, memo)| memo.is_unread).count();
    // 200 of 2,000, with a standard deviation of 13.
    assert!((150..=250).contains(&unread), "{unread}");
    assert!(memos.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].1.posted_us < pair[1].1.posted_us));
    let bodies: BTreeSet<&str> = memos.iter().map(|(_, memo)| memo.content.body.as_str()).collect();
    assert_eq!(bodies.len(), memos.len());
}

#[test]
fn answers_refer_to_messages_of_the_same_mail_file() {
    let files = MailFiles { documents: 400, ..files(1) };
    let memos: Vec<StoredMemo> = files.memos(3).collect();
    let mut answers = 0;
    for (index, memo) in memos.iter().enumerate() {
        let before = &memos[..index];
        let found = |reference: &String| before.iter().find(|other| other.content.reference == *reference);
        let thread: Vec<&StoredMemo> = memo.references.iter().filter_map(found).collect();
        assert_eq!(thread.len(), memo.references.len());
        let Some(first) = thread.first() else { continue };
        answers += 1;
        let subject = first.content.subject.trim_start_matches("Re: ");
        assert_eq!(memo.content.subject, format!("Re: {subject}"));
    }
    // 160 are expected, with a standard deviation of 10.
    assert!((120..=200).contains(&answers), "{answers}");
}

#[test]
fn copies_are_distributed_over_the_masters_and_a_share_is_changed() {
    let own = Share::from_f64(0.1).expect("a share");
    let files = MailFiles { documents: 2_000, masters: 3, own, ..files(1) };
    let copies: Vec<Vec<u64>> = (1..=3).map(|master| files.copies_of(master).collect()).collect();
    assert_eq!(copies[0], [4, 7, 10, 13, 16, 19]);
    assert_eq!(copies.iter().map(Vec::len).sum::<usize>(), 17);
    let changes = files.own_changes(4);
    // 200 are expected, with a standard deviation of 13.
    assert!((150..=250).contains(&changes.len()), "{}", changes.len());
    assert_ne!(changes, files.own_changes(7));
    assert!(MailFiles { masters: 20, ..files }.copies_of(1).next().is_none());
}

#[test]
fn a_user_alone_writes_to_oneself() {
    let files = MailFiles { users: 1, ..files(1) };
    assert!(files.memos(1).all(|memo| memo.sender == 1));
}

/// Checks the size profile: χ² over 100,000 draws, with 5 degrees of freedom (the value for 0.1 % is 20.5).
#[test]
fn sizes_are_those_of_the_profile() {
    let files = MailFiles { users: 100, documents: 1_000, size_scale: 1.0, ..files(4) };
    let rows = &files.profile.rows;
    let mut counts = vec![0_u64; rows.len()];
    for user in 1..=100 {
        for index in 0..1_000 {
            let size = files.head(user, index).size;
            let is_row = |row: &crate::workload::profile::SizeRow| {
                (row.body_bytes, row.attachment_bytes) == (size.body_bytes as u64, size.attachment_bytes as u64)
            };
            counts[rows.iter().position(is_row).expect("a row of the table")] += 1;
        }
    }
    let parts = rows.iter().zip(&counts).map(|(row, count)| {
        let expected = row.share.fraction().to_f64() * 100_000.0;
        (*count as f64 - expected).powi(2) / expected
    });
    let chi_squared: f64 = parts.sum();
    assert!(chi_squared < 20.5, "{chi_squared}: {counts:?}");
}
