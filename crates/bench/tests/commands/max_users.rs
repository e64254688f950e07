//! The levels of a search are judged by their reports: the criterion, the limit, and the result.

use bench::compare::max_users::{Criterion, End, FORMAT, Level, Limit, Search, SearchResult, output};
use bench::report::model::{ErrorFigures, Remark, Report, Row};
use bench::report::samples::SampleValue;
use std::time::Duration;

use crate::check;
use crate::stored_report::Figures;

/// Returns the report of a valid run, after a change.
fn report(edit: impl FnOnce(&mut Report)) -> Report {
    let mut report = Figures::default().report();
    report.state.name = "valid".to_owned();
    report.state.reasons.clear();
    report.state.warnings.clear();
    report.errors.clear();
    edit(&mut report);
    report
}

fn judge(report: &Report, samples: &[SampleValue]) -> Level {
    let criterion = Criterion::new(Duration::from_millis(5));
    Level::judge(200, criterion, report, samples, "level-1-200")
}

fn reason(rule: &str, text: &str) -> Remark {
    Remark { rule: rule.to_owned(), text: text.to_owned(), value: None, limit: None, users: None }
}

fn end_with(report: &mut Report, state: &str, rule: &str) {
    report.state.name = state.to_owned();
    report.state.reasons = vec![reason(rule, "a reason")];
}

fn row(resource: &str, mean: f64) -> Row {
    let text = |text: &str| text.to_owned();
    Row { users: 10, resource: text(resource), unit: text("percent"), mean, min: mean, max: mean, origin: text("x") }
}

fn slow(report: &mut Report) {
    let headline = report.headline.as_mut().expect("levels");
    headline[0].response.as_mut().expect("times").mean_us = 5_001;
}

#[test]
fn a_level_meets_the_criterion_if_it_is_valid_and_fast() {
    let met = judge(&report(|_| {}), &[]);
    assert_eq!((met.is_met, met.reasons.len(), met.limits.len()), (true, 0, 0));
    let missed = judge(&report(slow), &[]);
    assert_eq!((missed.is_met, missed.limits.len()), (false, 0));
    assert_eq!(missed.reasons, ["the average response is 5.0 ms, above 5.0 ms"]);
    for state in ["overloaded", "not valid", "not steady", "failed", "broken off"] {
        let missed = judge(&report(|report| end_with(report, state, "ended")), &[]);
        assert_eq!(missed.reasons, [format!("the run is {state}"), "a reason".to_owned()]);
    }
}

#[test]
fn the_limit_is_what_was_used_up() {
    let check = |edit: &dyn Fn(&mut Report), samples: &[SampleValue], expected: &[Limit]| {
        let report = report(|report| {
            slow(report);
            report.server.rows.clear();
            report.driver.processor_share = Some(0.2);
            edit(report);
        });
        assert_eq!(judge(&report, samples).limits, expected);
    };
    let processor =
        |percent| move |report: &mut Report| report.server.rows = vec![row("processor_percent_busy", percent)];
    check(&processor(70.0), &[], &[Limit::Processor]);
    check(&processor(69.9), &[], &[]);
    let pinned = |percent| {
        move |report: &mut Report| {
            processor(percent)(report);
            report.driver.pinned = true;
        }
    };
    check(&pinned(89.9), &[], &[]);
    check(&pinned(90.0), &[], &[Limit::Processor]);
    check(&|report| report.server.rows = vec![row("data_disk_percent_busy_percent", 90.0)], &[], &[Limit::Disk]);
    check(&|report| report.state.warnings = vec![reason("swap", "the machine swapped")], &[], &[Limit::Memory]);
    for (code, other, limits) in [
        ("full", 10, &[Limit::Memory][..]),
        ("connect", 10, &[Limit::Connections]),
        ("connect", 11, &[]),
        ("timeout", 0, &[]),
    ] {
        let error = |code: &str, count| ErrorFigures {
            verb: "read".to_owned(),
            code: code.to_owned(),
            count,
            first: String::new(),
        };
        check(&|report| report.errors = vec![error(code, 10), error("other", other)], &[], limits);
    }
    for (rule, limits) in [
        ("lateness", &[Limit::Driver][..]),
        ("open-files", &[Limit::Driver]),
        ("ended", &[]),
        ("processor-unknown", &[]),
    ] {
        check(&|report| end_with(report, "not valid", rule), &[], limits);
    }
}

#[test]
fn a_run_that_is_not_steady_has_the_limit_of_its_last_samples() {
    let value = |end_us, value| SampleValue { end_us, resource: "processor_percent_busy".to_owned(), value };
    let samples = [value(1, 5.0), value(2, 5.0), value(3, 95.0), value(4, 99.0)];
    let report = report(|report| {
        end_with(report, "not steady", "steady");
        report.headline = None;
        report.phases[0].measure_start_us = None;
        report.phases[0].measure_end_us = None;
        report.server.rows.clear();
        report.driver.processor_share = None;
    });
    assert_eq!(judge(&report, &samples).limits, [Limit::Processor]);
    assert_eq!(judge(&report, &[]).limits, []);
    let sample = |resource: &str, value| SampleValue { end_us: 1, resource: resource.to_owned(), value };
    let together = [sample("processor_percent_busy", 70.0), sample("driver_processor_percent_of_one_core", 40.0)];
    assert_eq!(report.driver.cores, 2);
    assert_eq!(judge(&report, &together).limits, [Limit::Processor], "the driver used 20 % of both cores");
    assert_eq!(judge(&report, &together[..1]).limits, []);
}

fn result(levels: Vec<Level>, search: &Search, end: End) -> SearchResult {
    let mut result = SearchResult {
        format: FORMAT,
        workload: "N8Mail".to_owned(),
        title: "N8Mail, 1000 users, speed-up 60".to_owned(),
        command: "doublet-bench max-users n8mail".to_owned(),
        speedup: 60.0,
        criterion: Criterion::new(Duration::from_millis(5)),
        end,
        users: None,
        users_missed: None,
        limits: Vec::new(),
        levels,
    };
    result.take(search);
    result
}

#[test]
fn results_name_the_number_and_the_limit() {
    let mut search = Search::new(200, 1_000).expect("a range");
    let met = judge(&report(|_| {}), &[]);
    search.record(200, true);
    assert_eq!(SearchResult::end_after(&search, &report(|_| {})), None);
    let late = report(|report| end_with(report, "not valid", "lateness"));
    let missed = Level { users: 203, ..judge(&late, &[]) };
    search.record(203, false);
    assert_eq!(SearchResult::end_after(&search, &late), Some(End::Found));
    let found = result(vec![met.clone(), missed], &search, End::Found);
    assert_eq!((found.users, found.limits.as_slice(), found.exit_code()), (Some(200), &[Limit::Driver][..], 0));
    let text = output::format(&found);
    for line in [
        "**200 users** meet the criterion: at most 5.0 ms of average response, in a valid run.\n203 users miss it. \
         Limit: driver.\n",
        "| 200 | met | 120.0 | 0.8 | 1.0 | 1 | valid | level-1-200 |",
        "- 203 users: the run is not valid; a reason. Limit: driver.\n",
        "With the speed-up 60, a user makes the requests of 60 users",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let json = serde_json::to_value(&found).expect("JSON");
    assert_eq!((&json["users"], &json["limits"][0], &json["end"]), (&200.into(), &"driver".into(), &"found".into()));

    let permitted = result(vec![met], &Search::new(1, 1).expect("a range"), End::Permitted);
    assert!(output::format(&permitted).contains("No limit was met: larger numbers were not tried (--to)."));
}

#[test]
fn a_server_that_ends_and_a_stop_end_the_search() {
    let search = Search::new(200, 1_000).expect("a range");
    let ended = report(|report| end_with(report, "failed", "server-ended"));
    assert_eq!(SearchResult::end_after(&search, &ended), Some(End::ServerEnded));
    let stopped = report(|report| end_with(report, "broken off", "stopped"));
    assert_eq!(SearchResult::end_after(&search, &stopped), Some(End::BrokenOff));
    let mut stopped_search = search;
    let level = judge(&stopped, &[]);
    level.record_in(&mut stopped_search);
    assert_eq!((stopped_search, level.verdict()), (search, "not decided"));
    let code = |end| result(Vec::new(), &search, end).exit_code();
    assert_eq!([End::Found, End::ServerEnded, End::BrokenOff].map(code), [3, 4, 130]);
}

#[test]
fn the_range_of_numbers_is_checked() {
    let (_, err) = check("", &["max-users", "n8mail", "--from", "200", "--to", "100"], 2);
    assert_eq!(err, "doublet-bench: --from 200 is above the largest number of users, 100 (--to)\n");
}
