//! The shipped files: each is valid, and promises the rates of its sources.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::fraction::Fraction;
use super::super::profile::SizeProfile;
use super::super::rates::Rates;
use super::super::shipped::{FILES, load};
use super::super::verb::Verb;
use super::super::{Workload, source, units};
use super::{HEAD, shipped, valid};

fn per_minute(workload: &Workload) -> Fraction {
    let all = Rates::of_all(workload).expect("the workload has a timetable");
    all.transactions.times(Fraction::new(1, 60))
}

fn of_hour(workload: &Workload) -> Rates {
    Rates::of_hour(workload, &workload.classes[0]).expect("the workload has a timetable")
}

#[test]
fn every_file_of_the_folder_is_shipped_and_valid() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let files: BTreeSet<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(files, FILES.iter().map(|(name, _)| format!("{name}.toml")).collect());
    for (name, _) in FILES {
        let workload = shipped(name);
        assert_eq!(workload.name.to_lowercase(), *name);
        assert!(workload.numbers.iter().all(|number| !number.source.tags.is_empty()));
        assert!(!Rates::of_iteration(&workload, &workload.classes[0]).by_verb.is_empty());
    }
}

#[test]
fn published_rates_are_promised_exactly() {
    assert_eq!(per_minute(&shipped("r6mail")), Fraction::new(120, 90));
    assert_eq!(per_minute(&shipped("entmail")), Fraction::new(1_416, 900));
    let hour = of_hour(&shipped("n8mail"));
    let messages = (hour.sent, hour.received, hour.by_verb[&Verb::Read]);
    assert_eq!(messages, (Fraction::from(8), Fraction::from(12), Fraction::from(20)));
}

/// The transactions a minute that the comments of the files state.
#[test]
fn transactions_are_those_of_the_comments() {
    let check = |name, numerator, denominator| {
        assert_eq!(per_minute(&shipped(name)), Fraction::new(numerator, denominator), "{name}");
    };
    check("attachmentcompression", 9, 15);
    check("clustermail", 162, 90);
    check("dwa8", 18_305, 12_000);
    check("dwa85", 18_305, 12_000);
    check("dwa85lite", 18_305, 12_000);
    check("idle", 2, 60);
    check("maxsessions", 4, 15);
    check("n7mail", 18_305, 12_000);
    check("n8mail", 19_905, 12_000);
    check("networkcompression", 12_525, 15_000);
    check("r5mail", 108, 90);
    check("r6imap", 14, 15);
    check("r6inotes", 76, 90);
    check("shareddatabase", 19, 15);
    let of_iteration = |name, expected: u64| {
        let workload = shipped(name);
        let rates = Rates::of_iteration(&workload, &workload.classes[0]);
        assert_eq!((rates.transactions, Rates::of_all(&workload)), (Fraction::from(expected), None), "{name}");
    };
    of_iteration("largeinbox", 15);
    of_iteration("n8mailinit", 1);
    of_iteration("namelookup", 1);
    of_iteration("streamingreplication", 1);
    of_iteration("viewrebuild", 1);
}

#[test]
fn messages_are_those_of_the_comments() {
    let check = |name: &str, sent: (u128, u128), received: u64| {
        let hour = of_hour(&shipped(name));
        let promised = (Fraction::new(sent.0, sent.1), Fraction::from(received));
        assert_eq!((hour.sent, hour.received), promised, "{name}");
    };
    check("n7mail", (8, 1), 12);
    check("dwa85", (8, 1), 12);
    check("r5mail", (4, 6), 2);
    check("r6mail", (4, 6), 2);
    check("r6inotes", (4, 6), 2);
    check("entmail", (4, 6), 2);
    check("clustermail", (20, 30), 2);
    check("r6imap", (4, 1), 12);
    check("networkcompression", (4, 1), 4);
    let filling = shipped("n8mailinit");
    let rates = Rates::of_iteration(&filling, &filling.classes[0]);
    assert_eq!((rates.sent, rates.received), (Fraction::ZERO, Fraction::from(1)));
    let attachments = of_hour(&shipped("n8mail")).by_verb[&Verb::ReadAttachment];
    assert_eq!(attachments, Fraction::new(525, 1_000));
}

#[test]
fn parameters_change_the_promise() {
    let load = |name| load(name).expect("shipped");
    let pulled = valid(&load("streamingreplication"), &["method=call", "documents=25_000"]);
    let rates = Rates::of_iteration(&pulled, &pulled.classes[0]);
    assert_eq!(rates.transactions, Fraction::from(25_000));
    let alone = valid(&load("entmail"), &["local=0"]);
    assert_eq!(per_minute(&alone), Fraction::new(138, 90));
    let number = alone.numbers.iter().find(|number| number.key == "class local, share").expect("a number");
    assert_eq!((number.parameter.as_deref(), &number.source), (Some("local"), &source::Source::assumed()));
    let heavy = valid(&load("largeinbox"), &["heavy=2"]);
    assert_eq!(heavy.database_of(&heavy.classes[1]).map(|database| database.count), Some(2));
}

#[test]
fn sources_of_numbers_are_those_nearest_to_them() {
    let workload = shipped("n8mail");
    let of = |key: &str| {
        let number = workload.numbers.iter().find(|number| number.key == key);
        number.unwrap_or_else(|| panic!("{key} is no number")).source.tags.join(", ")
    };
    assert_eq!(of("iteration"), "help-n8", "of the file");
    assert_eq!(of("measure"), "seed0, seed4", "of a single key");
    assert_eq!(of("mailbox, documents"), "seed0, seed4, help-n8init", "of a table");
    assert_eq!(of("class mail, step 16 (lookup), names"), "assumed", "of the parameter");
    assert_eq!(of("class mail, step 16 (lookup), every"), "help-n8", "of the parameter, not of the step");
}

#[test]
fn server_load_is_the_published_table() {
    let profile = SizeProfile::server_load();
    assert_eq!(profile.mean_bytes(), Fraction::from(97_305));
    assert_eq!(profile.with_attachment(), Fraction::new(105, 1_000));
    assert_eq!(profile.rows.iter().map(|row| row.share.millionths()).sum::<u32>(), 1_000_000);
}

#[test]
fn unknown_workloads_are_errors() {
    assert_eq!(load("n9mail").expect_err("unknown"), "there is no workload n9mail; did you mean n8mail?");
    let error = load("gone/n8mail.toml").expect_err("no such file");
    assert!(error.starts_with("gone/n8mail.toml cannot be read: "), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("own.toml");
    std::fs::write(&path, [0xFF, 0xFE]).expect("a file");
    let error = load(&path.to_string_lossy()).expect_err("not UTF-8");
    assert!(error.contains("cannot be read: invalid utf-8"), "{error}");
    std::fs::write(&path, "é".repeat(200_000)).expect("a file");
    let cut = load(&path.to_string_lossy()).expect("the beginning of the file");
    assert_eq!(super::findings(&cut, &[]), ["the file is longer than 256 KiB"]);
}

proptest! {
    /// Checks the promised actions against those counted in a whole cycle of iterations.
    #[test]
    fn rates_are_the_counts_of_a_cycle(
        steps in prop::collection::vec((0u64..5, 1u64..7, 1u64..4), 1..8),
        minutes in 1u64..60,
    ) {
        let cycle = 60; // of every = 1 to 6
        let text: Vec<String> = steps
            .iter()
            .map(|(count, every, recipients)| {
                format!("{{ verb = \"send\", count = {count}, every = {every}, recipients = {recipients} }}")
            })
            .collect();
        let head = HEAD.replace("10 min", &format!("{minutes} min"));
        prop_assume!(steps.iter().any(|(count, _, _)| *count > 0));
        let workload = valid(&format!("{head}step = [{}]\n", text.join(", ")), &[]);
        let sent: u64 = steps.iter().map(|(count, every, _)| cycle / every * count).sum();
        let received: u64 = steps.iter().map(|(count, every, recipients)| cycle / every * count * recipients).sum();
        let hours = Fraction::new(u128::from(cycle * minutes * 60_000_000), units::HOUR_US.into());
        let hour = of_hour(&workload);
        prop_assert_eq!(hour.sent.times(hours), Fraction::from(sent));
        prop_assert_eq!(hour.received.times(hours), Fraction::from(received));
        prop_assert_eq!(hour.transactions, hour.sent);
        prop_assert_eq!(Rates::of_all(&workload), Some(hour));
    }
}
