//! Tests of whole runs and their states.

use super::*;
use crate::engine::run::RunEnd;
use crate::report::verdict::{DriverFigures, ProcessorShare, RunFigures, State, Verdict, judge};

fn verdict(played: &Played) -> Verdict {
    let driver = DriverFigures { processor_share: ProcessorShare::Known(0.0), ..DriverFigures::default() };
    judge(&RunFigures::of_outcome(&played.0, driver))
}

fn check(played: &Played, state: State, rules: &[&str]) {
    let verdict = verdict(played);
    let found: Vec<&str> = verdict.reasons.iter().map(|reason| reason.rule).collect();
    assert_eq!((verdict.state, found.as_slice()), (state, rules));
}

fn quick(request: &Request) -> Answer {
    Answer::after(request, millis(10))
}

#[tokio::test(start_paused = true)]
async fn a_run_that_keeps_all_rules_is_valid() {
    let played = Scenario::default().play(quick).await;
    check(&played, State::Valid, &[]);
    assert_eq!(verdict(&played).warnings, []);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_keep_up_is_overloaded() {
    let scenario = Scenario { cool_down: seconds(600), ..Scenario::default() };
    let played = scenario.play(|request: &Request| Answer::after(request, millis(1_100))).await;
    check(&played, State::Overloaded, &["ended"]);
}

/// Each second the clock moves by 400 ms while no task runs, as if the driver had no processor. Steps that are due
/// meanwhile begin late.
#[tokio::test(start_paused = true)]
async fn a_slow_driver_is_not_valid() {
    let start = Instant::now();
    let throttle = async {
        for second in 1..10_000 {
            sleep_until(start + seconds(second) - millis(350)).await;
            tokio::time::advance(millis(400)).await;
        }
    };
    let played = tokio::select! {
        played = Scenario::default().play(|request: &Request| Answer::after(request, millis(1))) => played,
        () = throttle => unreachable!("the run ends earlier"),
    };
    check(&played, State::NotValid, &["lateness"]);
    assert!(played.lateness().max_us().is_some_and(|lateness| lateness >= 40_000), "{:?}", played.lateness().max_us());
}

#[tokio::test(start_paused = true)]
async fn a_run_without_steady_state_has_no_measured_interval() {
    let server = |request: &Request| match request.wanted {
        Wanted::LogIn if request.user == 3 => quick(request).refused(Session::Lost),
        _ => quick(request),
    };
    let scenario = Scenario { steady_limit: Some(seconds(200)), ..Scenario::default() };
    let played = scenario.play(server).await;
    check(&played, State::NotSteady, &["steady"]);
    assert_eq!(played.0.levels[0].times.measured, None);
    assert_eq!((played.0.levels[0].connected_max, played.0.ended_at), (9, seconds(260)));
    assert!(played.times(READ, Kind::Response).is_empty() && played.counts(READ, MEASURED).due == 0);
    // A login fails after 10 ms, and the next one is due a second later.
    let failed = played.counts(LOG_IN, Phase::Other).failed;
    assert!((255..260).contains(&failed), "{failed} logins");
}

/// Ends the session of a user for a step, and refuses its logins for so long.
fn dropping(user: u64, step: u64, refused: Duration) -> impl Fn(&Request) -> Answer + Send + Sync + 'static {
    let drop_at = seconds(step);
    move |request| {
        let is_dropped = request.user == user && request.at >= drop_at && request.at < drop_at + refused;
        if is_dropped { quick(request).refused(Session::Lost) } else { quick(request) }
    }
}

#[tokio::test(start_paused = true)]
async fn steady_state_is_lost_if_users_are_disconnected_at_one_percent_of_the_borders() {
    let hour = || Scenario { measure: seconds(3_600), ..Scenario::default() };
    let played = hour().play(dropping(2, 1_001, seconds(34))).await;
    check(&played, State::Valid, &[]);
    let played = hour().play(dropping(2, 1_001, seconds(44))).await;
    check(&played, State::NotSteady, &["steady-lost"]);
    assert_eq!(played.0.end, RunEnd::SteadyLost);
}

#[tokio::test(start_paused = true)]
async fn more_than_one_percent_of_failed_steps_fail_a_run() {
    let failing = |every: u64| {
        move |request: &Request| match request.wanted {
            Wanted::Step(number) if number % every == 0 => quick(request).refused(Session::Kept),
            _ => quick(request),
        }
    };
    let played = Scenario::default().play(failing(120)).await;
    check(&played, State::Valid, &[]);
    assert_eq!(played.errors(), [("busy".to_owned(), 20)]);
    let played = Scenario::default().play(failing(60)).await;
    check(&played, State::Failed, &["errors"]);
}

#[tokio::test(start_paused = true)]
async fn skipped_steps_are_a_warning() {
    let server = |request: &Request| match request.wanted {
        Wanted::Step(number) if number % 40 == 0 => quick(request).with(Reply::Skipped { calls: 1, reopened: 0 }),
        _ => quick(request),
    };
    let played = Scenario::default().play(server).await;
    check(&played, State::Valid, &[]);
    assert_eq!(verdict(&played).warnings.iter().map(|warning| warning.rule).collect::<Vec<_>>(), ["skipped"]);
}
