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
