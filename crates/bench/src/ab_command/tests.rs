//! Tests of `ab` without a server: what it refuses, and how it ends.

use bench::compare::experiment::EXPERIMENTS;

use super::*;

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn command(b: &[&str], populations: Populations) -> AbCommand {
    AbCommand {
        workload: "n8mail".to_owned(),
        a: Vec::new(),
        b: strings(b),
        turns: TURNS_MIN,
        populations,
        keep_populations: false,
        out: PathBuf::from("."),
        run: strings(&["--users", "10", "--documents", "20"]),
    }
}

#[test]
fn settings_that_decide_the_population_need_one_of_their_own() {
    let refused = |b: &[&str]| checked(&command(b, Populations::One)).err().map(|error| error.to_string());
    for b in [["run.masters=2", "run.own=0.5"], ["run.door=imap", "store.sync=off"], ["run.folder=/x", "run.pin=true"]]
    {
        let reason =
            format!("{} decides what is in the data folder, or where it is: add --populations each", b.join(" "));
        assert_eq!(refused(&b), Some(reason));
        checked(&command(&b, Populations::Each)).expect("each side has its own");
    }
    assert_eq!(refused(&["workload.attachments=0.5", "run.closed=true"]), None);
    let unknown = refused(&["workload.atachments=0.5"]).expect("it is no parameter");
    assert_eq!(unknown, "the workload file is not valid");
}

#[test]
fn experiments_have_the_populations_that_they_need() {
    for experiment in &EXPERIMENTS.experiments {
        for pair in &experiment.pairs {
            let populations = if experiment.own_populations { Populations::Each } else { Populations::One };
            let ab = AbCommand {
                workload: experiment.workload.clone(),
                a: pair.a.clone(),
                run: experiment.run.clone(),
                ..command(&[], populations)
            };
            let checked = checked(&AbCommand { b: pair.b.clone(), ..ab });
            assert!(checked.is_ok(), "{} {}: {:?}", experiment.name, pair.label, checked.err());
        }
    }
}

/// Returns an `ab` with a population in a folder, which has a file.
fn ab_with_population<'a>(command: &'a AbCommand, folder: &Path) -> Ab<'a> {
    let data = folder.join("population");
    fs::create_dir(&data).expect("a folder");
    fs::write(data.join("file"), "x").expect("a file");
    let Checked { words, sides, title } = checked(command).expect("valid settings");
    Ab {
        command,
        words,
        sides,
        title,
        runner: Runner::new().expect("signals can be taken"),
        directory: folder.to_owned(),
        populations: vec![Population { data, memory: None }],
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries.map(|entry| file_name(&entry.expect("it is there").path())).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_stop_before_a_turn_has_a_result_that_is_broken_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let command = command(&["store.sync=off"], Populations::One);
    let mut ab = ab_with_population(&command, folder.path());
    ab.runner.stop();
    let played = [ab.play_turns(), ab.play()].map(|played| played.expect("a result can be written"));
    for played in &played {
        assert!(played.result.is_none());
        assert_eq!(played.worst.exit_code(), 130);
    }
    assert_eq!(names_in(folder.path()), ["ab.json", "ab.md", "population"], "there is no copy");
    let json = fs::read_to_string(folder.path().join("ab.json")).expect("a file");
    let result: Alternation = serde_json::from_str(&json).expect("it was written");
    assert_eq!((result.state.as_str(), result.turns.len(), result.rows.len()), ("broken off", 0, 0));
    assert_eq!(result.title, "N8Mail, 10 users, 20 documents instead of 3000");
}

#[test]
fn no_process_is_started_after_a_signal() {
    let runner = Runner::new().expect("signals can be taken");
    runner.stop();
    let ended = runner.run(&[]).expect("nothing is started");
    assert_eq!((ended.code, ended.path), (130, None));
}

/// The folder in memory exists already, as if a process of the same number had left it.
#[test]
fn a_turn_that_cannot_begin_leaves_no_copy_of_the_data_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let command = command(&["store.log_folder={memory}/log"], Populations::Each);
    let ab = ab_with_population(&command, folder.path());
    let words = strings(&["{memory}"]);
    let _memory = MemoryFolder::for_words(&words, "turn-901", None).expect("there is memory").expect("it is named");
    let error = ab.turn(901, Side::B).expect_err("the folder exists").to_string();
    assert!(error.contains("File exists"), "{error}");
    assert_eq!(names_in(folder.path()), ["population"]);
}
