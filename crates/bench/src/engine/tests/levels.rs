//! Tests of levels, sessions, and of runs that end before their time.

use super::*;
use crate::engine::run::RunEnd;
use crate::record::log::LogReader;

fn quick(request: &Request) -> Answer {
    Answer::after(request, millis(10))
}

#[tokio::test(start_paused = true)]
async fn users_of_a_further_level_join_those_before() {
    let scenario = Scenario { levels: vec![5, 12], ..Scenario::default() };
    let played = scenario.play(quick).await;
    let levels = &played.0.levels;
    assert_eq!(levels.iter().map(|level| (level.users, level.connected_max)).collect::<Vec<_>>(), [(5, 5), (12, 12)]);
    assert_eq!(levels[0].times.measured, Some(seconds(80)..seconds(200)));
    // The second level begins with the end of the first one, and has its own ramp-up and minute.
    assert_eq!(levels[1].times.measured, Some(seconds(280)..seconds(400)));
    assert_eq!(levels[1].times.end, Some(seconds(400)));
    assert_eq!(played.counts(READ, Phase::Measured(1)).due, 5 * 120);
    assert_eq!(played.counts(READ, Phase::Measured(2)).due, 12 * 120);
    let log: Vec<_> = LogReader::new(played.0.log.as_slice()).collect::<Result<_, _>>().expect("the log is whole");
    let level_samples = |level| log.iter().filter(|logged| logged.tag.phase == Phase::Measured(level)).count();
    assert_eq!((level_samples(1), level_samples(2)), (3 * 12, 3 * 12), "response, service and lateness");
}

#[tokio::test(start_paused = true)]
async fn users_of_a_workload_may_log_in_in_each_iteration() {
    let scenario = Scenario { session: SessionRule::Iteration, ..Scenario::default() };
    let played = scenario.play(quick).await;
    assert_eq!(played.0.end, RunEnd::Complete, "users that are logged out on plan are connected");
    let log_ins = played.counts(LOG_IN, MEASURED);
    assert_eq!((log_ins.completed, log_ins.transactions), (10 * 12, 10 * 12));
    assert_eq!(log_ins.calls, 10 * 12 * (1 + 3), "with the calls of the logouts");
    assert_near(played.times(LOG_IN, Kind::Response).max_us(), millis(10));
    // The first step of an iteration is due with the login and waits for it.
    assert_near(played.times(READ, Kind::Response).max_us(), millis(20));
    assert_near(played.times(READ, Kind::Response).percentile_us(90.0), millis(10));
}

/// The login of the first user lasts from 5 ms before a border to 5 ms after it.
#[tokio::test(start_paused = true)]
async fn users_that_log_in_on_plan_are_connected() {
    let scenario = Scenario { session: SessionRule::Iteration, first: millis(9_995), ..Scenario::default() };
    let played = scenario.play(quick).await;
    assert_eq!((played.0.end, played.measured()), (RunEnd::Complete, seconds(90)..seconds(210)));
}

#[tokio::test(start_paused = true)]
async fn logins_of_other_workloads_are_no_transactions() {
    let played = Scenario::default().play(quick).await;
    let log_ins = played.counts(LOG_IN, Phase::Other);
    assert_eq!((log_ins.completed, log_ins.transactions, log_ins.calls), (10, 0, 10));
}

#[tokio::test(start_paused = true)]
async fn users_stay_connected_after_their_last_step() {
    let played = Scenario { steps: 10, ..Scenario::default() }.play(quick).await;
    assert_eq!((played.0.end, played.0.levels[0].connected_max), (RunEnd::Complete, 10));
    assert_eq!(played.counts(READ, Phase::Other).completed, 100);
    let idle = Scenario { steps: 0, ..Scenario::default() }.play(quick).await;
    assert_eq!((idle.0.end, idle.measured()), (RunEnd::Complete, seconds(80)..seconds(200)));
}

#[tokio::test(start_paused = true)]
async fn steps_due_in_the_measured_interval_may_end_in_the_cool_down() {
    let server =
        |request: &Request| Answer::after(request, if request.at > seconds(195) { seconds(8) } else { millis(1) });
    let played = Scenario::default().play(server).await;
    assert_eq!(played.measured().end, seconds(200));
    let counts = played.counts(READ, MEASURED);
    // Each user has five steps that are due after 195 s. One after the other, they take 40 s.
    assert_eq!((counts.due, counts.not_begun, counts.failed), (1_200, 0, 0));
    assert_eq!(counts.ended, 1_200 - 10 * 5);
    assert_eq!(played.0.ended_at, seconds(235) + millis(100));
    assert_eq!(played.times(READ, Kind::Response).count(), 1_200);
}

#[tokio::test(start_paused = true)]
async fn steps_that_do_not_begin_count_with_the_time_that_they_waited() {
    let server = |request: &Request| if request.at < seconds(195) { quick(request) } else { Answer::never() };
    let played = Scenario { cool_down: seconds(20), ..Scenario::default() }.play(server).await;
    assert_eq!(played.0.ended_at, seconds(220));
    let counts = played.counts(READ, MEASURED);
    assert_eq!((counts.due, counts.not_begun, counts.failed), (1_200, 10 * 4, 10));
    assert_eq!(played.errors(), [("unfinished".to_owned(), 10)]);
    let response = played.times(READ, Kind::Response);
    assert_eq!(response.count(), 1_200 - 10);
    assert_eq!(response.counts().count_between(1_000_000, u64::MAX), 40);
    assert_near(response.max_us(), seconds(24));
}

/// When the first step ends that has begun after 149 s, and the next one requests the stop.
const STOPPED: Duration = millis(152_010);

/// Plays a run of which a stop is requested in its measured interval.
async fn stopped(request: StopRequest) -> Played {
    let (sender, stop) = watch::channel(StopRequest::None);
    let server = move |wanted: &Request| {
        if wanted.at >= seconds(150) {
            sender.send_replace(request);
        }
        Answer::after(wanted, if wanted.at >= seconds(149) { seconds(3) } else { millis(1) })
    };
    Scenario::default().try_play(server, stop).await.expect("memory can be written")
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_reports_what_was_measured() {
    let played = stopped(StopRequest::CoolDown).await;
    assert_eq!((played.0.end, played.0.levels[0].times.end), (RunEnd::BrokenOff, Some(STOPPED)));
    let counts = played.counts(READ, MEASURED);
    assert_eq!((counts.due, counts.completed, counts.not_begun), (720, 720, 0));

    let aborted = stopped(StopRequest::AtOnce).await;
    assert_eq!((aborted.0.end, aborted.0.ended_at), (RunEnd::BrokenOff, STOPPED));
    assert!(aborted.counts(READ, MEASURED).completed < counts.completed);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_makes_the_run_stop() {
    let played = Scenario { server_end: Some(seconds(125)), ..Scenario::default() }.play(quick).await;
    assert_eq!((played.0.end, played.0.levels[0].times.end), (RunEnd::ServerEnded, Some(seconds(130))));
    assert_eq!(played.counts(READ, MEASURED).due, 50 * 10);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_user_is_an_error_of_the_run() {
    let server = |request: &Request| match request.wanted {
        Wanted::Step(20) => panic!("a door has an error"),
        _ => quick(request),
    };
    let (_sender, stop) = watch::channel(StopRequest::None);
    let error = Scenario::default().try_play(server, stop).await.err();
    assert!(matches!(&error, Some(RunError::User(error)) if error.is_panic()), "{error:?}");
}
