//! The command `compare`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::stored_report::Figures;
use bench::report::model::Report;

fn unchanged(_: &mut Report) {}

/// Runs `compare` in a folder, checks the exit code, and returns standard output and standard error.
fn compare(folder: &Path, arguments: &[&str], code: i32) -> (String, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_doublet-bench"));
    let output = program.current_dir(folder).arg("compare").args(arguments).output().expect("the program was built");
    let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {texts:?}");
    texts.into()
}

/// The means of blocks that are by turns *d* above and below have the half-width 2.200985 × *d* / √11: 0.0066 of 0.01,
/// and 1.33 of 2.
#[test]
fn rows_and_verbs_are_compared_with_their_spreads() {
    let folder = tempfile::tempdir().expect("a folder");
    Figures::default().write(folder.path(), "a", unchanged);
    let new = Figures { read_us: 1_100, processor: 41.0, ..Figures::default() };
    new.write(folder.path(), "b", unchanged);
    let (out, err) = compare(folder.path(), &["a", "b"], 0);
    let expected = "# Comparison\n\n\
        - baseline: N8Mail, 10 users, 20 documents instead of 3000; valid; begun 2026-01-05T08:00:00Z, commit unknown; a\n\
        - new: N8Mail, 10 users, 20 documents instead of 3000; valid; begun 2026-01-05T08:00:00Z, commit unknown; b\n\n\
        ## 10 users\n\n\
        | figure | unit | baseline | new | % change |\n\
        |---|---|---:|---:|---:|\n\
        | notesmark | transactions a minute | 120.0 ± 0.0 | 120.0 ± 0.0 | none |\n\
        | response_time_msec | ms | 0.750 ± 0.003 | 0.800 ± 0.003 | +6.7 % |\n\
        | processor_percent_busy | percent of all cores | 40.00 ± 1.33 | 41.00 ± 1.33 | none |\n\
        | process_resident_memory_in_mb | MB | 400.0 | 410.0 | (+2.5 %) |\n\
        | read (users) | ms | 1.000 ± 0.007 | 1.100 ± 0.007 | +10.0 % |\n\
        | delete (users) | ms | 0.500 ± 0.000 | 0.500 ± 0.000 | none |\n\n";
    assert!(out.starts_with(expected), "{out}");
    assert_eq!(err, "");
}

#[test]
fn a_verb_without_steps_in_a_block_is_not_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    Figures { delete_samples: 11, has_samples: false, ..Figures::default() }.write(folder.path(), "a", unchanged);
    Figures { delete_samples: 0, transactions: 22, ..Figures::default() }.write(folder.path(), "b", unchanged);
    let (out, _) = compare(folder.path(), &["a", "b", "a"], 0);
    let rows = [
        "| figure | unit | baseline | new 1 | % change | new 2 | % change |\n",
        "| notesmark | transactions a minute | 120.0 ± 0.0 | 132.0 ± 0.0 | +10.0 % | 120.0 ± 0.0 | none |\n",
        "| processor_percent_busy | percent of all cores | 40.00 | 40.00 ± 1.33 | (+0.0 %) | 40.00 | (+0.0 %) |\n",
        "| delete (users) | ms | 0.500 | – | – | 0.500 | (+0.0 %) |\n",
    ];
    for row in rows {
        assert!(out.contains(row), "{row}{out}");
    }
}

#[test]
fn json_has_the_same_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    Figures::default().write(folder.path(), "a", unchanged);
    Figures { read_us: 900, ..Figures::default() }.write(folder.path(), "b", unchanged);
    let (out, _) = compare(folder.path(), &["--json", "a", "b"], 0);
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&json["format"], &json["runs"][1]["label"]), (&1.into(), &"new".into()));
    let rows = json["levels"][0]["rows"].as_array().expect("rows");
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).expect("a row");
    let read = row("read (users)");
    assert_eq!((&read["baseline"]["mean"], &read["new"][0]["figure"]["mean"]), (&1.0.into(), &0.9.into()));
    let half_width = read["baseline"]["half_width"].as_f64().expect("a spread");
    assert!((half_width - 0.006_636_22).abs() < 1e-7, "{half_width}");
    let percent = read["new"][0]["change_percent"].as_f64().expect("a change");
    assert!((percent + 10.0).abs() < 1e-9, "{percent}");
    assert_eq!(read["new"][0]["judgement"], "differs");
    assert_eq!(row("delete (users)")["new"][0]["judgement"], "none");
    let memory = row("process_resident_memory_in_mb");
    assert_eq!(
        (&memory["new"][0]["judgement"], &memory["baseline"]["half_width"]),
        (&"not_judged".into(), &serde_json::Value::Null)
    );
}

#[test]
fn other_plans_doors_and_machines_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    Figures::default().write(folder.path(), "a", unchanged);
    Figures::default().write(folder.path(), "b", |report| {
        report.run.plan = "cc33".to_owned();
        report.run.seed = 2;
        report.run.door = "imap".to_owned();
        report.run.speedup = 60.0;
        report.driver.pinned = true;
        report.machine.kernel = "Linux | 6.2\n".to_owned();
        report.state.name = "overloaded".to_owned();
        report.left_out.clear();
    });
    let (out, _) = compare(folder.path(), &["a", "b"], 0);
    let notes: Vec<&str> = out.lines().filter(|line| line.starts_with("- Note: ")).collect();
    assert_eq!(
        notes,
        [
            "- Note: new is overloaded: ",
            "- Note: new and baseline differ: plans (seed)",
            "- Note: new and baseline differ: doors (native, imap)",
            "- Note: new and baseline differ: speed-up (1, 60)",
            "- Note: new and baseline differ: cores of server and driver (shared, apart)",
            "- Note: new and baseline differ: left out (invite, nothing)",
            "- Note: new and baseline differ: machine: kernel (Linux 6.1, Linux \\| 6.2 )",
        ]
    );
}

#[test]
fn other_iterations_intervals_and_settings_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let configuration = |path: &Path, folder: &str, cache: &str| {
        let lines = [
            format!("server.data = \"{folder}/data\"  # command line"),
            format!("listen.lmtp = \"{folder}/lmtp\""),
            format!("store.cache = \"{cache}\""),
        ];
        fs::write(path.join("server.toml"), lines.join("\n")).expect("a file");
    };
    let baseline = Figures::default().write(folder.path(), "a", unchanged);
    configuration(&baseline, "/tmp/one", "auto");
    let new = Figures::default().write(folder.path(), "b", |report| {
        report.run.plan = "cc33".to_owned();
        report.run.iterations = Some(2);
        report.phases[0].measure_end_us = Some(90_000_000);
        report.run.interval_us = None;
        report.run.time_limit_us = Some(1_000_000);
        report.run.server.as_mut().expect("a program").digest = "dd44".to_owned();
    });
    configuration(&new, "/tmp/two", "64MiB");
    let (out, _) = compare(folder.path(), &["a", "b"], 0);
    let notes: Vec<&str> = out.lines().filter(|line| line.starts_with("- Note: ")).collect();
    assert_eq!(
        notes,
        [
            "- Note: new and baseline differ: plans (iterations)",
            "- Note: new and baseline differ: measured interval (2 min, 1 min)",
            "- Note: new and baseline differ: time limit of steps (1 min, 1 s)",
            "- Note: new and baseline differ: programs of the server (doublet 0.1.0, SHA-256 cc33, doublet 0.1.0, SHA-256 dd44)",
            "- Note: new and baseline differ: store.cache of the server (auto, 64MiB)",
        ]
    );
    Figures::default().write(folder.path(), "c", |report| {
        report.run.plan = "dd44".to_owned();
        report.run.server = None;
    });
    let (out, _) = compare(folder.path(), &["a", "c"], 0);
    assert!(out.contains("differ: plans (iterations or recipients)\n") && !out.contains("server"), "{out}");
    fs::write(new.join("server.toml"), "not = toml = at all").expect("a file");
    let (_, err) = compare(folder.path(), &["a", "b"], 1);
    assert!(err.contains("server.toml is no configuration: "), "{err}");
}

#[test]
fn levels_are_compared_by_their_users() {
    let folder = tempfile::tempdir().expect("a folder");
    Figures::default().write(folder.path(), "a", unchanged);
    Figures::default().write(folder.path(), "b", |report| {
        report.phases[0].users = 20;
        report.headline.iter_mut().flatten().for_each(|level| level.users = 20);
        report.verbs.iter_mut().for_each(|verb| verb.users = 20);
    });
    Figures::default().write(folder.path(), "c", |report| {
        let before = report.phases[0].clone();
        report.phases = vec![before.clone(), before];
        report.phases[0].users = 5;
    });
    let (out, _) = compare(folder.path(), &["a", "b"], 0);
    assert!(
        out.contains("## 10, 20 users\n") && out.contains("| read (users) | ms | 1.000 ± 0.007 | 1.000 ±"),
        "{out}"
    );
    let (out, _) = compare(folder.path(), &["b", "c"], 0);
    assert!(out.contains("## 20, – users\n") && out.contains("| read (users) | ms | 1.000 ± 0.007 | – | – |"), "{out}");
}

#[test]
fn runs_that_cannot_be_compared_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    Figures::default().write(folder.path(), "a", unchanged);
    Figures::default().write(folder.path(), "weights", |report| report.run.transactions_version = 2);
    Figures::default().write(folder.path(), "invalid", |report| report.state.name = "not valid".to_owned());
    let (out, err) = compare(folder.path(), &["--anyway", "a", "weights"], 5);
    let weights = "weights has version 2 of the weights of transactions, and the baseline has 1\n";
    assert_eq!((out.as_str(), err), ("", format!("doublet-bench: {weights}")));
    let (out, err) = compare(folder.path(), &["a", "invalid"], 5);
    let invalid = "doublet-bench: invalid is not valid; --anyway compares it nevertheless\n";
    assert_eq!((out.as_str(), err.as_str()), ("", invalid));
    compare(folder.path(), &["invalid", "a"], 5);
    let (out, _) = compare(folder.path(), &["a", "invalid", "--anyway"], 0);
    assert!(out.contains("- Note: new is not valid: \n") && out.contains("| read (users) |"), "{out}");
}

#[test]
fn damaged_reports_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    Figures::default().write(folder.path(), "a", unchanged);
    let damaged = |name: &str, edit: &dyn Fn(&Path)| {
        let path = Figures::default().write(folder.path(), name, unchanged);
        edit(&path);
        compare(folder.path(), &["a", name], 1).1
    };
    let error = damaged("missing", &|path| fs::remove_file(path.join("report.json")).expect("it is there"));
    assert!(error.starts_with("doublet-bench: missing/report.json cannot be read: "), "{error}");
    let error = damaged("newer", &|path| fs::write(path.join("report.json"), "{\"format\": 2}").expect("a file"));
    assert_eq!(error, "doublet-bench: newer/report.json has the format 2; this program reads the format 1\n");
    let error = damaged("cut", &|path| fs::write(path.join("report.json"), "{\"format\": 1").expect("a file"));
    assert!(error.starts_with("doublet-bench: cut/report.json is not a report: "), "{error}");
    let error = damaged("log", &|path| fs::write(path.join("histograms.hlog"), "nothing\n").expect("a file"));
    assert_eq!(error, "doublet-bench: log/histograms.hlog: line 1 is damaged: it has no histogram\n");
    let error = damaged("samples", &|path| fs::write(path.join("samples.csv"), "x").expect("a file"));
    assert!(error.starts_with("doublet-bench: samples/samples.csv: line 1 is damaged: "), "{error}");
    Figures::default().write(folder.path(), "interval", |report| {
        report.phases[0].measure_end_us = report.phases[0].measure_start_us;
    });
    let (_, error) = compare(folder.path(), &["a", "interval"], 1);
    let reason = "interval/report.json is not a report: a measured interval has no length\n";
    assert_eq!(error, format!("doublet-bench: {reason}"));
}
