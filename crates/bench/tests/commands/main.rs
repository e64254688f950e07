//! The commands `check`, `timetable`, `max-users`, `compare` and `report` as a stranger calls them, and `run` when it
//! is interrupted: output and exit codes.

mod compare;
mod interrupts;
mod max_users;
mod report;
mod stored_report;

use std::process::{Command, Output};

/// Runs the program in a folder with the file `own.toml`.
fn run(own: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("own.toml"), own).expect("a file");
    let mut program = Command::new(env!("CARGO_BIN_EXE_doublet-bench"));
    program.current_dir(folder.path()).args(arguments).output().expect("the program was built")
}

/// Checks the exit code, and returns standard output and standard error.
fn check(own: &str, arguments: &[&str], code: i32) -> (String, String) {
    let output = run(own, arguments);
    let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {texts:?}");
    texts.into()
}

const OWN: &str = "format = 1\nname = \"Own\"\ntitle = \"A short one\"\niteration = \"30 min\"\n\
                   parameters = { busy = { value = 3, max = 5 } }\n\
                   step = [{ verb = \"read\", count = \"$busy\", bytes = 1 }]\n";

#[test]
fn check_prints_rates_of_shipped_and_own_files() {
    let own = OWN.replace(", bytes = 1", "");
    let (out, err) = check(&own, &["check", "own.toml", "--set", "busy=5"], 0);
    let expected = "Own: A short one\n\
                    door native, 1 users, measured for 1 h\n\
                    parameter busy = 5, in the file 3\n\
                    \n\
                    class users: 100 % of the users, iterations of 30 min\n\
                    \x20 per user and       iteration      hour\n\
                    \x20 read                       5        10\n\
                    \x20 messages sent              0         0\n\
                    \x20 received                   0         0\n\
                    \x20 transactions               5        10\n\
                    \n\
                    all users: 0.167 transactions a user and minute\n\
                    sizes server-load: a mean of 97,305 bytes, 10.5 % with attachments\n\
                    numbers by source: assumed 2\n";
    assert_eq!((out.as_str(), err.as_str()), (expected, ""));
    let (out, _) = check("", &["check", "n8mail"], 0);
    let rows = ["messages sent              2         8\n", "received                   3        12\n"];
    assert!(rows.iter().all(|row| out.contains(row)), "{out}");
    let (out, _) = check("", &["check", "r6mail"], 0);
    assert!(out.contains("all users: 1.333 transactions a user and minute\n"), "{out}");
}

#[test]
fn check_prints_errors_with_lines() {
    let expected = "own.toml is not a valid workload:\n  line 6: step 1 (read): there is no key bytes\n";
    assert_eq!(check(OWN, &["check", "own.toml"], 2), (String::new(), expected.to_owned()));
    let missing = "doublet-bench: there is no workload n9mail; did you mean n8mail?\n";
    assert_eq!(check("", &["check", "n9mail"], 1), (String::new(), missing.to_owned()));
    check("", &["check"], 2);
}

#[test]
fn check_writes_json() {
    let json = |own: &str, arguments: &[&str], code| {
        let (out, err) = check(own, arguments, code);
        assert_eq!(err, "");
        serde_json::from_str::<serde_json::Value>(&out).expect("JSON")
    };
    let invalid = json(OWN, &["check", "own.toml", "--json"], 2);
    let finding = serde_json::json!({
        "line": 6, "key": "step 1 (read)", "rule": "there is no key bytes", "nearest": null,
    });
    assert_eq!(invalid["findings"], serde_json::json!([finding]));
    assert!(invalid["workload"].is_null());
    let valid = json("", &["check", "r6mail", "--json", "--set", "nth=3"], 0);
    assert_eq!((&valid["format"], &valid["findings"]), (&1.into(), &serde_json::json!([])));
    assert_eq!(valid["workload"]["classes"][0]["rhythm"]["iteration_us"], 900_000_000);
    assert_eq!(valid["workload"]["parameters"][0]["value"], 3);
    assert_eq!(valid["rates"][0]["hour"]["by_verb"]["read"], 20.0);
    assert_eq!(valid["rates"][1]["hour"]["transactions"], 4.0 * 18.0 + 4.0 * 12.0 / 3.0);
}

#[test]
fn timetable_is_that_of_the_seed() {
    let arguments = ["timetable", "r6mail", "--user", "3", "--users", "10", "--iterations", "2", "--seed", "5"];
    let (out, err) = check("", &arguments, 0);
    assert_eq!((out.lines().next(), err.as_str()), (Some("R6Mail: user 3 of 10, class mail, seed 5"), ""));
    assert_eq!(out, check("", &arguments, 0).0);
    let other = check("", &["timetable", "r6mail", "--user", "3", "--users", "10", "--iterations", "2"], 0);
    assert_ne!(out, other.0);
    let (_, err) = check("", &["timetable", "r6mail", "--user", "11", "--users", "10"], 1);
    assert_eq!(err, "doublet-bench: user 11 is none of the 10 users\n");
    let (_, err) = check(OWN, &["timetable", "own.toml"], 2);
    assert!(err.starts_with("own.toml is not a valid workload:\n"), "{err}");
}
