//! Tests of the states of a run: each rule at its limit and beyond it.

use super::*;
use crate::engine::phases::PhaseTimes;
use crate::engine::run::LevelOutcome;
use crate::record::recorder::Recording;

/// Returns the figures of a run that keeps all rules, at their limits.
fn figures() -> RunFigures {
    let level = LevelFigures {
        users: None,
        due: 10_000,
        ended: 9_900,
        failed: 100,
        skipped: 100,
        lateness: Some(Lateness { p99: Duration::from_millis(5), part: None }),
        processor_share: None,
    };
    let driver = DriverFigures {
        processor_share: ProcessorShare::Known(0.75),
        calls: 10_000,
        server_calls: Some(10_100),
        clock_difference: Some(Duration::from_millis(5)),
        load_before: Some(0.5),
        ..DriverFigures::default()
    };
    RunFigures { end: RunEnd::Complete, end_users: None, levels: vec![level; 2], cut: 0, driver }
}

fn check(change: impl FnOnce(&mut RunFigures), state: State, rules: &[&str]) {
    let mut changed = figures();
    change(&mut changed);
    let verdict = judge(&changed);
    let found: Vec<&str> = verdict.reasons.iter().map(|reason| reason.rule).collect();
    assert_eq!((verdict.state, found.as_slice()), (state, rules));
    assert_eq!(verdict.warnings, []);
}

#[test]
fn figures_at_their_limits_are_valid() {
    check(|_| {}, State::Valid, &[]);
    check(|figures| figures.levels.clear(), State::Valid, &[]);
}

#[test]
fn each_rule_has_its_state() {
    check(|figures| figures.end = RunEnd::BrokenOff, State::BrokenOff, &["stopped"]);
    let incomplete = vec![IncompletePart::new(2, "it was stopped"), IncompletePart::new(3, "it was stopped")];
    check(|figures| figures.driver.incomplete = incomplete, State::BrokenOff, &["parts", "parts"]);
    check(|figures| figures.end = RunEnd::ServerEnded, State::Failed, &["server-ended"]);
    check(|figures| figures.levels[1].failed = 101, State::Failed, &["errors"]);
    check(|figures| figures.end = RunEnd::NotSteady, State::NotSteady, &["steady"]);
    check(|figures| figures.end = RunEnd::SteadyLost, State::NotSteady, &["steady-lost"]);
    let late = Some(Lateness { p99: Duration::from_micros(5_001), part: None });
    check(|figures| figures.levels[0].lateness = late, State::NotValid, &["lateness"]);
    let share = ProcessorShare::Known(0.7501);
    check(|figures| figures.driver.processor_share = share, State::NotValid, &["processor"]);
    check(|figures| figures.cut = 1, State::NotValid, &["cut"]);
    check(|figures| figures.driver.is_out_of_files = true, State::NotValid, &["open-files"]);
    check(|figures| figures.levels[1].ended = 9_899, State::Overloaded, &["ended"]);
}

#[test]
fn a_run_whose_driver_was_not_observed_is_not_valid() {
    let unknown = || ProcessorShare::Unknown("the system does not tell it".to_owned());
    check(|figures| figures.driver.processor_share = unknown(), State::NotValid, &["processor-unknown"]);
    let not_measured = |figures: &mut RunFigures| {
        figures.driver.processor_share = unknown();
        figures.levels.clear();
    };
    check(not_measured, State::Valid, &[]);
    let server_ended = |figures: &mut RunFigures| {
        figures.driver.processor_share = unknown();
        figures.end = RunEnd::ServerEnded;
    };
    check(server_ended, State::Failed, &["server-ended"]);
    let of_all = |shares: &[Result<f64, &'static str>]| ProcessorShare::of_all(shares.iter().copied());
    assert_eq!(of_all(&[Ok(0.2), Ok(0.3), Ok(0.1)]), ProcessorShare::Known(0.3));
    assert_eq!(of_all(&[Ok(0.2), Err("a reason")]), ProcessorShare::Unknown("a reason".to_owned()));
    assert_eq!(of_all(&[]).missing(), Some("no measured interval has ended"));
}

#[test]
fn the_worst_state_applies_and_all_reasons_are_listed() {
    let several = |figures: &mut RunFigures| {
        figures.levels[0].ended = 9_000;
        figures.cut = 3;
        figures.levels[1].failed = 5_000;
    };
    check(several, State::Failed, &["errors", "cut", "ended"]);
    let all = |figures: &mut RunFigures| {
        figures.end = RunEnd::BrokenOff;
        figures.driver.processor_share = ProcessorShare::Known(0.9);
        figures.levels[1].ended = 1;
    };
    check(all, State::BrokenOff, &["stopped", "processor", "ended"]);
}

#[test]
fn reasons_have_the_figure_and_the_limit() {
    let mut late = figures();
    late.levels[0].lateness = Some(Lateness { p99: Duration::from_millis(20), part: None });
    let expected = |driver: &str| Remark {
        rule: "lateness",
        text: format!("{driver} began 1 % of the steps 20.0 ms late or later"),
        value: Some(20_000.0),
        limit: Some(5_000.0),
        users: None,
    };
    assert_eq!(judge(&late).reasons, [expected("the driver")]);
    late.levels[0].lateness = Some(Lateness { p99: Duration::from_millis(20), part: Some(3) });
    assert_eq!(judge(&late).reasons, [expected("part 3")]);
    let mut incomplete = figures();
    incomplete.driver.incomplete = vec![IncompletePart::new(3, &"é".repeat(1_000))];
    let [reason] = &judge(&incomplete).reasons[..] else { panic!("one part is not complete") };
    assert_eq!(reason.text, format!("part 3 is not complete: {}", "é".repeat(250)));
}

/// The levels with 1,000 and 2,000 users keep all rules.
#[test]
fn reasons_name_their_level() {
    let mut run = figures();
    run.levels = vec![run.levels[0]; 4];
    (1..).zip(&mut run.levels).for_each(|(number, level)| level.users = Some(1_000 * number));
    run.end = RunEnd::ServerEnded;
    run.end_users = Some(4_000);
    run.driver.processor_share = ProcessorShare::Known(0.8);
    run.driver.level_shares = [0.2, 0.4, 0.8, 0.6].map(Some).to_vec();
    (2..).zip(&mut run.levels[2..]).for_each(|(index, level)| level.processor_share = run.driver.level_shares[index]);
    run.levels[3].failed = 5_000;
    run.levels[1].skipped = 1_000;
    let verdict = judge(&run);
    let found: Vec<_> = verdict.reasons.iter().map(|reason| (reason.users, reason.text.as_str())).collect();
    let expected = [
        (Some(4_000), "4000 users: the server ended during the run"),
        (Some(4_000), "4000 users: 50.00 % of the steps failed"),
        (Some(3_000), "3000 users: the driver used 80 % of its cores"),
    ];
    assert_eq!(found, expected);
    let warning = "2000 users: 10.00 % of the steps were skipped for want of a document";
    assert_eq!((verdict.warnings[0].users, verdict.warnings[0].text.as_str()), (Some(2_000), warning));
}

/// Returns the lateness of a part that has begun so many steps of level 2 in time, and so many 20 ms late.
fn lateness_of(part: u64, in_time: u64, late: u64) -> PartLateness {
    let mut histograms = HistogramSet::default();
    let key = HistogramKey { subject: Subject::Lateness, phase: Phase::Measured(2) };
    (0..in_time).for_each(|_| histograms.record(key, Duration::from_micros(100)));
    (0..late).for_each(|_| histograms.record(key, Duration::from_millis(20)));
    histograms.record(HistogramKey { phase: Phase::Other, ..key }, Duration::from_secs(9));
    PartLateness::of_histograms(part, &histograms, 2)
}

/// Part 2 has 10 of 5,010 steps, which are 0.2 % of all.
#[test]
fn the_lateness_is_that_of_the_worst_part() {
    let parts = [lateness_of(1, 5_000, 1), lateness_of(2, 0, 10), lateness_of(3, 0, 0)];
    assert_eq!(latest_part(&parts).map(|part| part.part), Some(2));
    assert_eq!((parts[1].of_level(1), parts[2].of_level(2)), (None, None));
    let times = PhaseTimes { measured: Some(Duration::ZERO..Duration::from_secs(1)), ..PhaseTimes::default() };
    let level = LevelOutcome { users: 1, times, connected_max: 1 };
    let outcome = Outcome {
        levels: vec![level; 2],
        end: RunEnd::Complete,
        ended_at: Duration::ZERO,
        recording: Recording::default(),
        log: (),
    };
    let driver = DriverFigures { lateness: parts.to_vec(), ..DriverFigures::default() };
    let driver = DriverFigures { level_shares: vec![Some(0.1), Some(0.2)], ..driver };
    let figures = RunFigures::of_outcome(&outcome, driver);
    assert_eq!((figures.levels[0].lateness, figures.levels[0].processor_share), (None, Some(0.1)));
    assert_eq!((figures.levels[0].users, figures.levels[1].processor_share), (Some(1), Some(0.2)));
    assert_eq!(figures.end_users, Some(1));
    let worst = figures.levels[1].lateness.expect("two parts were late");
    assert_eq!((worst.part, worst.p99.as_millis()), (Some(2), 20));
}

#[test]
fn warnings_do_not_change_the_state() {
    let check = |change: fn(&mut RunFigures), rule: &str| {
        let mut changed = figures();
        change(&mut changed);
        let verdict = judge(&changed);
        let found: Vec<&str> = verdict.warnings.iter().map(|warning| warning.rule).collect();
        assert_eq!((verdict.state, found), (State::Valid, vec![rule]));
    };
    check(|figures| figures.driver.server_calls = Some(10_101), "calls");
    check(|figures| figures.driver.server_calls = Some(9_899), "calls");
    check(|figures| figures.levels[1].skipped = 101, "skipped");
    check(|figures| figures.levels[1].due = 0, "no-steps");
    check(|figures| figures.driver.clock_difference = Some(Duration::from_micros(5_001)), "clocks");
    check(|figures| figures.driver.has_swapped = true, "swap");
    check(|figures| figures.driver.load_before = Some(0.51), "load");
}

/// A part that has joined has no report, and its exit code follows from the end alone.
#[test]
fn ends_have_states() {
    use RunEnd::{BrokenOff, Complete, NotSteady, ServerEnded, SteadyLost};
    let ends = [Complete, NotSteady, SteadyLost, ServerEnded, BrokenOff];
    let codes = ends.map(|end| State::of_end(end).exit_code());
    assert_eq!(codes, [0, 3, 3, 4, 130]);
    assert!(ends.is_sorted(), "from the best to the worst");
}

/// The codes are those of the table in docs/notesbench.md.
#[test]
fn states_have_names_and_exit_codes() {
    let check = |state: State, name: &str, exit_code: u8| {
        assert_eq!((state.name(), state.exit_code()), (name, exit_code));
    };
    check(State::Valid, "valid", 0);
    check(State::Overloaded, "overloaded", 0);
    check(State::NotValid, "not valid", 3);
    check(State::NotSteady, "not steady", 3);
    check(State::Failed, "failed", 4);
    check(State::BrokenOff, "broken off", 130);
}
