//! Tests of response, service and lateness.

use super::*;

/// Answers 5 ms after a request, but not before the end of a standstill that has begun.
fn standing_still(begin: Duration, end: Duration) -> impl Fn(&Request) -> Answer + Send + Sync + 'static {
    move |request| {
        let stands_still = request.at >= begin && request.at < end;
        let from = if stands_still { end } else { request.at };
        Answer::after(request, from - request.at + millis(5))
    }
}

/// Returns response and service of the steps that are due in an interval, from the definition: one user, one step after
/// the other.
fn expected_times(
    user: u64,
    due_in: &std::ops::Range<Duration>,
    served: impl Fn(Duration) -> Duration,
) -> Vec<(Duration, Duration)> {
    let mut free = Duration::ZERO;
    let mut times = Vec::new();
    for number in 0..=due_in.end.as_secs() {
        let due = millis(10) + later_by(user) + seconds(number);
        let start = due.max(free);
        free = served(start);
        if due_in.contains(&due) {
            times.push((free - due, free - start));
        }
    }
    times
}

/// The test of coordinated omission: a server that stands still for 10 s is seen by all steps that were due meanwhile.
#[tokio::test(start_paused = true)]
async fn a_standstill_is_in_the_response_of_every_step_that_was_due_meanwhile() {
    let begin = seconds(130) + millis(10);
    let end = seconds(140) + millis(10);
    let played = Scenario::default().play(standing_still(begin, end)).await;
    let measured = played.measured();
    assert!(measured.start < begin && end < measured.end, "{measured:?}");

    let served = |start| if start >= begin && start < end { end + millis(5) } else { start + millis(5) };
    let expected: Vec<_> = (1..=10).flat_map(|user| expected_times(user, &measured, served)).collect();
    let response = played.times(READ, Kind::Response);
    let service = played.times(READ, Kind::Service);
    assert_eq!((response.count(), service.count()), (expected.len() as u64, expected.len() as u64));
    for limit in [millis(6), millis(100), seconds(1), seconds(4), seconds(9)] {
        let above = |times: &TimeHistogram| times.counts().count_between(limit.as_micros() as u64, u64::MAX);
        let slower = expected.iter().filter(|(response, _)| *response >= limit).count() as u64;
        assert_eq!(above(&response), slower, "responses of at least {limit:?}");
        // Each user has one step that had begun. The service of those after it is 5 ms.
        assert_eq!(above(&service), 10, "services of at least {limit:?}");
    }
    assert_near(response.max_us(), seconds(10) + millis(5));
    // Ten steps of each user were due in the ten seconds, and each of them waited.
    assert_eq!(response.counts().count_between(900_000, u64::MAX), 100);
    assert_near(service.percentile_us(50.0), millis(5));
    assert_eq!(played.lateness().max_us(), Some(0), "the server's standstill is not the driver's lateness");
}

/// With closed timing the same standstill is in one response of each user, which is why it is not the default.
#[tokio::test(start_paused = true)]
async fn closed_timing_omits_the_steps_that_were_due_meanwhile() {
    let scenario = Scenario { pace: Pace::Closed, ..Scenario::default() };
    let played = scenario.play(standing_still(seconds(130), seconds(140))).await;
    let response = played.times(READ, Kind::Response);
    assert_eq!(response.counts().count_between(100_000, u64::MAX), 10);
    assert_eq!(response, played.times(READ, Kind::Service), "response and service are the same");
    // A step each 1.005 s, and ten seconds less.
    assert!((1_060..1_110).contains(&response.count()), "{} steps", response.count());
}

/// Each hundred steps of a user take 1 to 100 ms, in an order that is not that of the times.
#[tokio::test(start_paused = true)]
async fn known_response_times_give_known_percentiles() {
    let scenario = Scenario { levels: vec![4], gap: millis(100), ..Scenario::default() };
    let server = |request: &Request| match request.wanted {
        Wanted::Step(number) => Answer::after(request, millis(number * 37 % 100 + 1)),
        _ => Answer::after(request, millis(1)),
    };
    let played = scenario.play(server).await;
    for kind in [Kind::Response, Kind::Service] {
        let times = played.times(READ, kind);
        assert_eq!(times.count(), 4 * 1_200);
        let percentiles = [(1.0, 1), (50.0, 50), (95.0, 95), (99.0, 99), (100.0, 100)];
        percentiles.iter().for_each(|(percentile, ms)| assert_near(times.percentile_us(*percentile), millis(*ms)));
        assert!(times.mean_us().is_some_and(|mean| (mean - 50_500.0).abs() < 50.0), "{:?}", times.mean_us());
    }
}

#[tokio::test(start_paused = true)]
async fn steps_that_wait_for_the_server_are_not_late() {
    let server = |request: &Request| Answer::after(request, millis(1_500));
    let scenario = Scenario { cool_down: seconds(600), ..Scenario::default() };
    let played = scenario.play(server).await;
    let response = played.times(READ, Kind::Response);
    assert!(response.max_us().is_some_and(|longest| longest > 60_000_000), "{:?}", response.max_us());
    assert_near(played.times(READ, Kind::Service).max_us(), millis(1_500));
    assert!(played.lateness().is_empty(), "no user was idle");
    let counts = played.counts(READ, MEASURED);
    assert_eq!((counts.due, counts.not_begun, counts.failed), (1_200, 0, 0));
    assert!(counts.ended < counts.due / 2, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn attachments_are_due_when_the_message_has_been_read() {
    let server = |request: &Request| {
        let reply = Reply::Performed { calls: 1, attachments: 2, reopened: 0 };
        match request.wanted {
            Wanted::Step(_) => Answer::after(request, millis(20)).with(reply),
            _ => Answer::after(request, millis(100)),
        }
    };
    let played = Scenario::default().play(server).await;
    assert_near(played.times(READ, Kind::Response).max_us(), millis(20));
    let response = played.times(READ_ATTACHMENT, Kind::Response);
    assert_eq!(response.count(), 2 * 1_200);
    // The second one waits for the first.
    assert_near(response.percentile_us(50.0), millis(100));
    assert_near(response.percentile_us(51.0), millis(200));
    assert_near(played.times(READ_ATTACHMENT, Kind::Service).max_us(), millis(100));
}

#[tokio::test(start_paused = true)]
async fn failed_steps_have_a_histogram_of_their_own() {
    let server = |request: &Request| match request.wanted {
        Wanted::Step(number) if number % 50 == 0 => Answer::after(request, millis(1)).refused(Session::Kept),
        _ => Answer::after(request, millis(20)),
    };
    let played = Scenario { measure: seconds(600), ..Scenario::default() }.play(server).await;
    assert_near(played.times(READ, Kind::Response).percentile_us(0.0), millis(20));
    let failed = played.times(READ, Kind::Failed);
    assert_eq!((failed.count(), played.counts(READ, MEASURED).failed), (120, 120));
    assert_near(failed.max_us(), millis(1));
    assert_eq!(played.times(READ, Kind::Service).count(), 6_000 - 120);
}

#[tokio::test(start_paused = true)]
async fn steps_without_a_call_count_as_transactions_and_have_no_times() {
    let server = |request: &Request| match request.wanted {
        Wanted::Step(number) if number % 2 == 0 => {
            Answer::after(request, Duration::ZERO).with(Reply::Performed { calls: 0, attachments: 0, reopened: 0 })
        }
        Wanted::Step(number) if number % 10 == 1 => {
            Answer::after(request, Duration::ZERO).with(Reply::Skipped { calls: 2, reopened: 1 })
        }
        _ => Answer::after(request, millis(20)).with(Reply::Performed { calls: 3, attachments: 0, reopened: 1 }),
    };
    let played = Scenario::default().play(server).await;
    let expected = VerbCounts {
        due: 1_200,
        ended: 1_200,
        skipped: 120,
        completed: 1_080,
        transactions: 1_080,
        transactions_without_call: 600,
        calls: 3 * 480 + 2 * 120,
        reopened: 480 + 120,
        ..VerbCounts::default()
    };
    assert_eq!(played.counts(READ, MEASURED), expected);
    assert_eq!(played.times(READ, Kind::Response).count(), 480);
}

/// The step that gets no answer fails after its time limit. The user logs in again after a second, and the steps that
/// were due meanwhile follow.
#[tokio::test(start_paused = true)]
async fn a_step_without_an_answer_fails_at_its_time_limit() {
    let server = |request: &Request| match request.wanted {
        Wanted::Step(100) if request.user == 1 => Answer::never(),
        _ => Answer::after(request, millis(1)),
    };
    let played = Scenario { measure: seconds(240), ..Scenario::default() }.play(server).await;
    assert_eq!(played.measured(), seconds(80)..seconds(320));
    assert_eq!(played.errors(), [("timeout".to_owned(), 1)]);
    assert_near(played.times(READ, Kind::Failed).max_us(), seconds(60));
    assert_eq!(played.counts(LOG_IN, MEASURED).completed, 1);
    // The step after it was due 1 s later. It begins after the login, 61 s later, which takes 1 ms.
    assert_near(played.times(READ, Kind::Response).max_us(), seconds(60) + millis(2));
    let counts = played.counts(READ, MEASURED);
    assert_eq!((counts.due, counts.failed, counts.completed), (2_400, 1, 2_399));
    assert_eq!((counts.calls, counts.reopened), (2_399 + 3, 1), "the calls of the step until it was dropped");
}

#[tokio::test(start_paused = true)]
async fn speedup_divides_the_plan_and_not_the_answers() {
    let scenario = Scenario { speedup: 10.0, ..Scenario::default() };
    let played = scenario.play(|request: &Request| Answer::after(request, millis(40))).await;
    // The first iteration ends at 1 s, the minute of connected users becomes 6 s, and a sample has 1 s.
    assert_eq!(played.measured(), seconds(8)..seconds(20));
    assert_eq!(played.counts(READ, MEASURED).due, 1_200);
    assert_near(played.times(READ, Kind::Response).max_us(), millis(40));
    // Steps are due on whole milliseconds, also when they are divided.
    assert_eq!(played.lateness().max_us(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn unpaced_users_begin_a_step_when_the_previous_one_has_ended() {
    let scenario = Scenario { pace: Pace::Unpaced, levels: vec![2], ..Scenario::default() };
    let played = scenario.play(|request: &Request| Answer::after(request, millis(40))).await;
    let counts = played.counts(READ, MEASURED);
    assert_eq!((counts.completed, counts.due), (2 * 3_000, 2 * 3_000));
    assert!(played.lateness().is_empty(), "no step has an intended time");
    assert_near(played.times(READ, Kind::Response).max_us(), millis(40));
    assert_eq!(played.times(READ, Kind::Response), played.times(READ, Kind::Service));
}
