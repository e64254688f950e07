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

/// Checks that the users send what they have sent in all recorded runs. Other commands or other messages would be
/// another work, whose figures cannot be compared with those in docs/performance.md.
#[test]
fn commands_are_those_of_recorded_runs() {
    let check = |workload, connections, options: &str, expected: &str| {
        let mut digest = blake3::Hasher::new();
        for (user, received) in commands(workload, connections, options) {
            received.iter().for_each(|command| _ = digest.update(format!("{user} {command}\n").as_bytes()));
        }
        assert_eq!(digest.finalize().to_hex()[..16], *expected, "{options}");
    };
    check(mix::run, 8, "--clients 2 --rounds 3 --messages 25", "1e49b37a1346f1b9");
    check(mix::run, 4, "--clients 2 --rounds 3 --messages 25 --login once", "d31fd6eeb69e94e4");
    check(churn::run, 2, "--clients 2 --messages 10 --seconds 0", "a2cd48183ba325e1");
    check(append::run, 1, "--count 7", "a5cb4307b7fcc50d");
    check(passage::run, 1, "--messages 30 --pass 45 --samples 3", "c6c8939ae66f2997");
}

#[test]
fn mix_is_deterministic_and_differs_between_users() {
    let options = "--clients 3 --rounds 2 --messages 20 --login once";
    let first = commands(mix::run, 6, options);
    assert_eq!(first, commands(mix::run, 6, options));
    assert_eq!(first.keys().collect::<Vec<_>>(), ["1bench@bench.test", "2bench@bench.test", "3bench@bench.test"]);
    assert_ne!(first["1bench@bench.test"][5..], first["2bench@bench.test"][5..]);
}

#[test]
fn mix_fills_the_mailbox_with_the_requested_messages() {
    let received = commands_of_one(mix::run, 1, "--clients 1 --rounds 0 --messages 25");
    assert_eq!(received[..4], ["LOGIN 1bench@bench.test secret", "SELECT INBOX", FLAG_ALL, "EXPUNGE"]);
    assert_eq!((count(&received, "APPEND INBOX () {"), received.last().map(String::as_str)), (25, Some("LOGOUT")));
    assert_eq!(received.len(), 30);
}

const FLAG_ALL: &str = "STORE 1:* +FLAGS.SILENT (\\Deleted)";

#[test]
fn round_of_the_mix_has_the_expected_commands() {
    let received = commands_of_one(mix::run, 1, "--clients 1 --rounds 1 --messages 100 --fill 0");
    let expected = "LOGIN LIST SELECT FETCH FETCH FETCH FETCH FETCH FETCH FETCH STORE STORE SEARCH SEARCH \
                    APPEND APPEND STORE EXPUNGE NOOP LOGOUT";
    assert_eq!(verbs(&received).join(" "), expected);
    assert_eq!(received[4], "FETCH 81:100 (FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)");
    assert_eq!(received[11], "STORE 81:100 FLAGS.SILENT (\\Answered)");
}

#[test]
fn round_of_the_mix_keeps_the_message_count() {
    let received = commands_of_one(mix::run, 30, "--clients 1 --rounds 30 --messages 21 --fill 0");
    let removed: Vec<Vec<usize>> = received.iter().filter_map(|command| deleted_numbers(command)).collect();
    assert_eq!((removed.len(), count(&received, "APPEND ")), (30, 60));
    for numbers in &removed {
        assert!(matches!(numbers[..], [1..=10, 11..=21]), "one of each half: {numbers:?}");
    }
}

#[test]
fn login_option_determines_logins_of_the_mix() {
    let always = commands_of_one(mix::run, 4, "--clients 1 --rounds 4 --messages 20 --fill 0");
    let once = commands_of_one(mix::run, 1, "--clients 1 --rounds 4 --messages 20 --fill 0 --login once");
    assert_eq!((count(&always, "LOGIN "), count(&always, "LOGOUT")), (4, 4));
    assert_eq!((count(&once, "LOGIN "), count(&once, "LOGOUT")), (1, 1));
    let work = |received: &[String]| {
        received.iter().filter(|command| !command.starts_with("LOG")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(work(&always), work(&once), "the work is the same");
}

#[test]
fn a_refused_command_does_not_end_a_measurement() {
    let server = RecordingServer::start(1, &["SEARCH", "APPEND"]);
    run(mix::run, &server, "--clients 1 --rounds 1 --messages 20 --fill 0").expect("failures are counted");
    let received = server.finish().remove("1bench@bench.test").expect("the user has logged in");
    assert_eq!((count(&received, "SEARCH"), count(&received, "APPEND"), count(&received, "EXPUNGE")), (2, 2, 1));
}

#[test]
fn refused_login_is_an_error() {
    let server = RecordingServer::start(1, &["LOGIN"]);
    let error = run(mix::run, &server, "--clients 1 --rounds 1 --fill 0").expect_err("there is no session");
    assert_eq!(error.to_string(), "LOGIN 1bench@bench.test: no");
    server.finish();
}

#[test]
fn too_few_messages_are_refused_before_connecting() {
    let server = RecordingServer::start(0, &[]);
    let refused = |workload, options| run(workload, &server, options).expect_err("too few messages").to_string();
    let expected = "--messages 19 is too low: each round reads the newest 20 messages";
    assert_eq!(refused(mix::run, "--messages 19"), expected);
    assert_eq!(refused(churn::run, "--messages 7"), "--messages 7 is less than 8");
    assert!(server.finish().is_empty());
}

#[test]
fn churn_fills_two_mailboxes_with_messages_of_all_sizes() {
    let all = commands(churn::run, 2, "--clients 2 --messages 40 --seconds 0");
    assert_eq!(all, commands(churn::run, 2, "--clients 2 --messages 40 --seconds 0"));
    for received in all.values() {
        let mailboxes = ["INBOX", "Work"].map(|name| count(received, &format!("APPEND {name} () ")));
        assert_eq!((mailboxes, count(received, "CREATE ")), ([40, 40], 2));
        let sizes =
            || received.iter().filter(|command| command.starts_with("APPEND ")).map(|command| message(command).len());
        assert!(sizes().min() < Some(5_000) && sizes().max() > Some(30_000), "{:?}", (sizes().min(), sizes().max()));
    }
}

#[test]
fn appended_messages_are_determined_by_their_seed() {
    let append_commands = |options| commands_of_one(append::run, 1, options);
    let first = append_commands("--count 5 --size 300 --mailbox Archive");
    assert_eq!(verbs(&first).join(" "), "LOGIN APPEND APPEND APPEND APPEND APPEND LOGOUT");
    assert!(first[1..6].iter().all(|command| command.starts_with("APPEND Archive (\\Seen) {")));
    assert_eq!(first, append_commands("--count 5 --size 300 --mailbox Archive --seed 7"), "the default seed");
    assert_ne!(first, append_commands("--count 5 --size 300 --mailbox Archive --seed 8"));
    assert_eq!(append_commands("--count 0 --user 9"), ["LOGIN 9bench@bench.test secret", "LOGOUT"]);
}

#[test]
fn messages_pass_through_a_mailbox_in_runs_of_twenty() {
    let server = RecordingServer::start(1, &["STATUS Passed (MESSAGES)"]);
    run(passage::run, &server, "--messages 30 --pass 45 --samples 2").expect("the server answers");
    let received = server.finish().remove("1bench@bench.test").expect("the user has logged in");
    let select = received.iter().position(|command| command == "SELECT Passed").expect("messages pass");
    let unselect = received.iter().position(|command| command == "UNSELECT").expect("all have passed");
    let passing = &received[select..unselect];
    let runs: Vec<usize> =
        passing.split(|command| command == "EXPUNGE").map(|run| count(run, "APPEND Passed ")).collect();
    assert_eq!(runs, [20, 20, 5, 0]);
    let widths = passing.iter().filter_map(|command| {
        let (first, rest) = command.strip_prefix("STORE ")?.split_once(':')?;
        let last: usize = rest.split(' ').next()?.parse().ok()?;
        Some(last + 1 - first.parse::<usize>().ok()?)
    });
    assert_eq!(widths.collect::<Vec<_>>(), [20, 20, 5], "the appended messages are expunged");
    assert_eq!((count(&received, "CREATE Passed"), count(&received, "CREATE Fresh")), (1, 1));
    let samples = ["Passed", "Fresh"].map(|name| count(&received, &format!("STATUS {name} (MESSAGES UNSEEN")));
    assert_eq!(samples, [2, 2]);
}

#[test]
fn passage_keeps_a_mailbox_from_an_earlier_run() {
    let received = commands_of_one(passage::run, 1, "--messages 10 --samples 0");
    assert_eq!(verbs(&received)[..6].join(" "), "LOGIN STATUS SELECT UNSELECT DELETE CREATE");
    assert_eq!((count(&received, "CREATE Passed"), count(&received, "APPEND Fresh ")), (0, 10));
}
