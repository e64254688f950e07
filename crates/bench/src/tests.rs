//! Tests of the workloads: the commands that a server receives.

mod recording_server;

use std::collections::BTreeMap;

use crate::arguments::{Arguments, Result};
use crate::{append, churn, mix, passage};
use recording_server::RecordingServer;

type Workload = fn(&Arguments) -> Result<()>;

fn run(workload: Workload, server: &RecordingServer, options: &str) -> Result<()> {
    let line = format!("--address {} --password secret {options}", server.address);
    workload(&Arguments::parse(line.split_whitespace().map(str::to_owned)).expect("pairs of options and values"))
}

/// Runs a workload, and returns the commands of each user.
fn commands(workload: Workload, connections: usize, options: &str) -> BTreeMap<String, Vec<String>> {
    let server = RecordingServer::start(connections, &[]);
    run(workload, &server, options).unwrap_or_else(|error| panic!("{options}: {error}"));
    server.finish()
}

/// Returns the commands of the only user.
fn commands_of_one(workload: Workload, connections: usize, options: &str) -> Vec<String> {
    let all = commands(workload, connections, options);
    assert_eq!(all.len(), 1, "{:?}", all.keys());
    all.into_values().next().expect("one user")
}

/// Returns the first words of commands, without literals.
fn verbs(commands: &[String]) -> Vec<&str> {
    commands.iter().map(|command| command.split([' ', '\n']).next().unwrap_or_default()).collect()
}

fn count(commands: &[String], prefix: &str) -> usize {
    commands.iter().filter(|command| command.starts_with(prefix)).count()
}

/// Returns the numbers of the messages that a command marks as deleted.
fn deleted_numbers(command: &str) -> Option<Vec<usize>> {
    let set = command.strip_prefix("STORE ")?.strip_suffix(" +FLAGS.SILENT (\\Deleted)")?;
    Some(set.split(',').map(|number| number.parse().expect("a message number")).collect())
}

/// Returns the message of an APPEND command.
fn message(command: &str) -> &str {
    command.split_once('\n').expect("a literal").1
}

#[test]
fn the_mix_is_the_same_in_every_run_and_differs_between_users() {
    let options = "--clients 3 --rounds 2 --messages 20 --login once";
    let first = commands(mix::run, 6, options);
    assert_eq!(first, commands(mix::run, 6, options));
    assert_eq!(first.keys().collect::<Vec<_>>(), ["1bench@bench.test", "2bench@bench.test", "3bench@bench.test"]);
    assert_ne!(first["1bench@bench.test"][5..], first["2bench@bench.test"][5..]);
}

#[test]
fn a_mailbox_is_filled_to_the_size_of_the_mix() {
    let said = commands_of_one(mix::run, 1, "--clients 1 --rounds 0 --messages 25");
    assert_eq!(said[..4], ["LOGIN 1bench@bench.test secret", "SELECT INBOX", FLAG_ALL, "EXPUNGE"]);
    assert_eq!((count(&said, "APPEND INBOX () {"), said.last().map(String::as_str)), (25, Some("LOGOUT")));
    assert_eq!(said.len(), 30);
}

const FLAG_ALL: &str = "STORE 1:* +FLAGS.SILENT (\\Deleted)";

#[test]
fn a_round_of_the_mix_is_a_session_of_a_mail_program() {
    let said = commands_of_one(mix::run, 1, "--clients 1 --rounds 1 --messages 100 --fill 0");
    let expected = "LOGIN LIST SELECT FETCH FETCH FETCH FETCH FETCH FETCH FETCH STORE STORE SEARCH SEARCH \
                    APPEND APPEND STORE EXPUNGE NOOP LOGOUT";
    assert_eq!(verbs(&said).join(" "), expected);
    assert_eq!(said[4], "FETCH 81:100 (FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)");
    assert_eq!(said[11], "STORE 81:100 FLAGS.SILENT (\\Answered)");
}

#[test]
fn a_round_of_the_mix_removes_as_many_messages_as_it_appends() {
    let said = commands_of_one(mix::run, 30, "--clients 1 --rounds 30 --messages 21 --fill 0");
    let removed: Vec<Vec<usize>> = said.iter().filter_map(|command| deleted_numbers(command)).collect();
    assert_eq!((removed.len(), count(&said, "APPEND ")), (30, 60));
    for numbers in &removed {
        assert!(matches!(numbers[..], [1..=10, 11..=21]), "one of each half: {numbers:?}");
    }
}

#[test]
fn a_client_of_the_mix_logs_in_once_or_in_each_round() {
    let always = commands_of_one(mix::run, 4, "--clients 1 --rounds 4 --messages 20 --fill 0");
    let once = commands_of_one(mix::run, 1, "--clients 1 --rounds 4 --messages 20 --fill 0 --login once");
    assert_eq!((count(&always, "LOGIN "), count(&always, "LOGOUT")), (4, 4));
    assert_eq!((count(&once, "LOGIN "), count(&once, "LOGOUT")), (1, 1));
    let work = |said: &[String]| said.iter().filter(|said| !said.starts_with("LOG")).cloned().collect::<Vec<_>>();
    assert_eq!(work(&always), work(&once), "the work is the same");
}

#[test]
fn a_refused_command_does_not_end_a_measurement() {
    let server = RecordingServer::start(1, &["SEARCH", "APPEND"]);
    run(mix::run, &server, "--clients 1 --rounds 1 --messages 20 --fill 0").expect("failures are counted");
    let said = server.finish().remove("1bench@bench.test").expect("the user has logged in");
    assert_eq!((count(&said, "SEARCH"), count(&said, "APPEND"), count(&said, "EXPUNGE")), (2, 2, 1));
}

#[test]
fn a_refused_login_ends_the_program() {
    let server = RecordingServer::start(1, &["LOGIN"]);
    let error = run(mix::run, &server, "--clients 1 --rounds 1 --fill 0").expect_err("there is no session");
    assert!(error.to_string().starts_with("unexpected reply to \"LOGIN 1bench@bench.test secret\""), "{error}");
    server.finish();
}

#[test]
fn mailboxes_that_are_too_small_are_refused_before_connecting() {
    let server = RecordingServer::start(0, &[]);
    let refused = |workload, options| run(workload, &server, options).expect_err("too few messages").to_string();
    let expected = "--messages 19 is too low: each round reads the newest 20 messages";
    assert_eq!(refused(mix::run, "--messages 19"), expected);
    assert_eq!(refused(churn::run, "--messages 7"), "--messages 7 is less than 8");
    assert!(server.finish().is_empty());
}

#[test]
fn churn_fills_two_mailboxes_of_each_user_with_messages_of_all_sizes() {
    let all = commands(churn::run, 2, "--clients 2 --messages 40 --seconds 0");
    assert_eq!(all, commands(churn::run, 2, "--clients 2 --messages 40 --seconds 0"));
    for said in all.values() {
        let mailboxes = ["INBOX", "Work"].map(|name| count(said, &format!("APPEND {name} () ")));
        assert_eq!((mailboxes, count(said, "CREATE ")), ([40, 40], 2));
        let sizes = || said.iter().filter(|said| said.starts_with("APPEND ")).map(|said| message(said).len());
        assert!(sizes().min() < Some(5_000) && sizes().max() > Some(30_000), "{:?}", (sizes().min(), sizes().max()));
    }
}

#[test]
fn appended_messages_are_determined_by_their_seed() {
    let said = |options| commands_of_one(append::run, 1, options);
    let first = said("--count 5 --size 300 --mailbox Archive");
    assert_eq!(verbs(&first).join(" "), "LOGIN APPEND APPEND APPEND APPEND APPEND LOGOUT");
    assert!(first[1..6].iter().all(|said| said.starts_with("APPEND Archive (\\Seen) {")));
    assert_eq!(first, said("--count 5 --size 300 --mailbox Archive --seed 7"), "the default seed");
    assert_ne!(first, said("--count 5 --size 300 --mailbox Archive --seed 8"));
    assert_eq!(said("--count 0 --user 9"), ["LOGIN 9bench@bench.test secret", "LOGOUT"]);
}

#[test]
fn messages_pass_through_a_mailbox_in_runs_of_twenty() {
    let server = RecordingServer::start(1, &["STATUS Passed (MESSAGES)"]);
    run(passage::run, &server, "--messages 30 --pass 45 --samples 2").expect("the server answers");
    let said = server.finish().remove("1bench@bench.test").expect("the user has logged in");
    let select = said.iter().position(|said| said == "SELECT Passed").expect("messages pass");
    let unselect = said.iter().position(|said| said == "UNSELECT").expect("all have passed");
    let passing = &said[select..unselect];
    let runs: Vec<usize> = passing.split(|said| said == "EXPUNGE").map(|run| count(run, "APPEND Passed ")).collect();
    assert_eq!(runs, [20, 20, 5, 0]);
    let widths = passing.iter().filter_map(|said| {
        let (first, rest) = said.strip_prefix("STORE ")?.split_once(':')?;
        let last: usize = rest.split(' ').next()?.parse().ok()?;
        Some(last + 1 - first.parse::<usize>().ok()?)
    });
    assert_eq!(widths.collect::<Vec<_>>(), [20, 20, 5], "as many are expunged as were appended");
    assert_eq!((count(&said, "CREATE Passed"), count(&said, "CREATE Fresh")), (1, 1));
    let samples = ["Passed", "Fresh"].map(|name| count(&said, &format!("STATUS {name} (MESSAGES UNSEEN")));
    assert_eq!(samples, [2, 2]);
}

#[test]
fn a_mailbox_through_which_messages_passed_before_is_kept() {
    let said = commands_of_one(passage::run, 1, "--messages 10 --samples 0");
    assert_eq!(verbs(&said)[..6].join(" "), "LOGIN STATUS SELECT UNSELECT DELETE CREATE");
    assert_eq!((count(&said, "CREATE Passed"), count(&said, "APPEND Fresh ")), (0, 10));
}
