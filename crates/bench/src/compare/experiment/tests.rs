//! Tests of the file of experiments and of what is printed.

use std::collections::BTreeSet;

use super::*;
use crate::compare::alternate::{Alternation, Settings, Side, Turn, TurnFigure, order};
use crate::workload::check::check;
use crate::workload::shipped;

#[test]
fn the_file_is_complete() {
    let all = &*EXPERIMENTS;
    let names: BTreeSet<&str> = all.names().collect();
    assert_eq!(names.len(), all.names().count(), "names are unique");
    for experiment in &all.experiments {
        let text = shipped::load(&experiment.workload).expect(&experiment.workload);
        assert!(check(&text, &[]).is_ok(), "{}", experiment.workload);
        assert!(!experiment.pairs.is_empty() && !experiment.rows.is_empty() && !experiment.claims.is_empty());
        for pair in &experiment.pairs {
            let settings = pair.a.iter().chain(&pair.b);
            assert!(settings.clone().all(|setting| setting.contains('=')), "{pair:?}");
            assert!(!pair.b.is_empty() && pair.a != pair.b, "{pair:?}");
        }
        assert!(experiment.why.ends_with('.'), "{}", experiment.name);
    }
    assert!(all.waiting.iter().all(|waiting| !waiting.claims.is_empty() && !waiting.waits_for.is_empty()));
}

#[test]
fn the_page_has_all_experiments() {
    let page = include_str!("../../../../../docs/experiments.md");
    for experiment in &EXPERIMENTS.experiments {
        assert!(page.contains(&format!("### {}\n", experiment.name)), "{}", experiment.name);
        let claims = experiment.claims.iter();
        assert!(claims.clone().all(|claim| page.contains(&claim.text)), "{}", experiment.name);
    }
    for waiting in &EXPERIMENTS.waiting {
        assert!(page.contains(&format!("| `{}` | {} | {} |", waiting.name, waiting.title, waiting.waits_for)));
    }
    assert!(EXPERIMENTS.notes.iter().all(|note| page.contains(&note.text)));
}

/// Rows that do not exist would never be judged. Those of verbs have the class of the workload.
#[test]
fn judged_rows_are_verbs_of_the_workload_or_rows_of_a_run() {
    for experiment in &EXPERIMENTS.experiments {
        let text = shipped::load(&experiment.workload).expect(&experiment.workload);
        let workload = check(&text, &[]).unwrap_or_else(|findings| panic!("{findings:?}"));
        let verbs: Vec<String> = workload
            .classes
            .iter()
            .flat_map(|class| class.steps.iter().map(|step| format!("{} ({})", step.verb.word(), class.name)))
            .chain(workload.classes.iter().map(|class| format!("read_attachment ({})", class.name)))
            .collect();
        for row in &experiment.rows {
            let is_row = crate::driver::outcome::row_names().any(|known| known == row);
            let is_own = ["response_time_msec", "response_p99_msec", "data_folder_in_mb"].contains(&row.as_str());
            assert!(is_row || is_own || verbs.contains(row), "{}: {row} of {verbs:?}", experiment.name);
        }
    }
}

#[test]
fn names_are_found_and_near_ones_are_suggested() {
    assert!(matches!(find("attachment-store"), Ok(Found::Experiment(_))));
    assert!(matches!(find("log-styles"), Ok(Found::Waiting(_))));
    assert!(matches!(find("huffman"), Ok(Found::Note(_))));
    assert_eq!(find("atachment-store"), Err(Some("attachment-store")));
    assert_eq!(find("nothing at all"), Err(None));
}

#[test]
fn a_result_has_claims_ratios_and_a_sentence() {
    let Ok(Found::Experiment(experiment)) = find("attachment-store") else { panic!("it exists") };
    let figure = |name: &str, value| TurnFigure { name: name.to_owned(), unit: "MB".to_owned(), value };
    let turns = order(5).map(|side| Turn {
        side,
        report: String::new(),
        state: "valid".to_owned(),
        figures: vec![
            figure("data_folder_in_mb", if side == Side::A { 100.0 } else { 40.0 }),
            figure("processor_percent_of_one_core", 5.0),
        ],
    });
    let settings = Settings {
        workload: "n8mail".to_owned(),
        a: Vec::new(),
        b: Vec::new(),
        run: Vec::new(),
        has_own_populations: true,
    };
    let result = Alternation::new(settings, turns.collect());
    let text = output::format_result(experiment, &experiment.pairs[0], &result);
    let parts = [
        "## attachment-store: on",
        "- Domino: Windows: 8.5 lowers disk bytes by 45 to 50 % (8.0 against 8.5, with DAOS) ([seed0], claim 57).",
        "- A: `blobs.threshold=1GiB`; B: `blobs.threshold=4KiB`",
        "| data_folder_in_mb | MB | 100.0 | 40.00 | 0.400 | 0.400 to 0.400 | -60.0 % |",
        "With B, data_folder_in_mb is 60 % lower. A large part",
        "Not measured: process_disk_mb_written_per_second,",
    ];
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_list_says_what_is_missing() {
    let list = output::format_list(&EXPERIMENTS);
    assert!(list.contains("cache                   Size of the block cache (NSF buffer pool): 256 MiB, 1 GiB, 2 GiB"));
    assert!(list.contains("waits for mail journaling"), "{list}");
}
