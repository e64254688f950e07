//! Tests of the phases, which are given counts at borders, and of the speed-up.

use super::*;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

const USERS: u64 = 100;

fn stated() -> StatedLengths {
    StatedLengths {
        interval: seconds(1),
        iteration: seconds(900),
        settle: Duration::ZERO,
        measure: seconds(3_600),
        sample: seconds(10),
        steady_limit: None,
    }
}

fn lengths(stated: &StatedLengths) -> PhaseLengths {
    PhaseLengths::at_speed(stated, Speedup::new(1.0).expect("a speed-up")).expect("a measured interval")
}

/// Returns the border of a number, at which all is as the steady state wants it.
fn steady_border(number: u64) -> Border {
    let at = seconds(10 * number);
    Border { at, connected: USERS, iterated: USERS, sessions: SessionCount::Known(USERS) }
}

/// Passes borders to a level that begins at 0 until something is decided. Returns the number of this border.
fn decide(stated: &StatedLengths, border: impl Fn(u64) -> Border) -> (u64, Decision, Phases) {
    let mut phases = Phases::new(lengths(stated), Duration::ZERO, USERS, USERS);
    for number in 1.. {
        let decision = phases.border(&border(number));
        if decision != Decision::Continue {
            return (number, decision, phases);
        }
    }
    unreachable!("a level is decided within its limit of time")
}

#[test]
fn the_number_of_samples_is_a_multiple_of_twelve() {
    let check = |measure: Duration, speedup: f64, sample: Duration, count: u32| {
        let speedup = Speedup::new(speedup).expect("a speed-up");
        let lengths = PhaseLengths::at_speed(&StatedLengths { measure, ..stated() }, speedup).expect("long enough");
        assert_eq!((lengths.sample(), lengths.measure()), (sample, sample * count), "{measure:?}");
    };
    check(seconds(3_600), 1.0, seconds(10), 360);
    check(seconds(21_600), 1.0, seconds(10), 2_160);
    check(seconds(3_600), 7.0, millis(8_572), 60);
    check(seconds(60), 1.0, seconds(5), 12);
    check(seconds(3_600), 900.0, millis(334), 12);
    check(millis(1_200), 1.0, millis(100), 12);
    let short = StatedLengths { measure: millis(1_199), ..stated() };
    assert_eq!(PhaseLengths::at_speed(&short, Speedup::new(1.0).expect("a speed-up")), None);
}

#[test]
fn speedups_are_positive_numbers() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9, 1e9] {
        assert_eq!(Speedup::new(bad), None, "{bad}");
    }
    let third = Speedup::new(3.0).expect("a speed-up");
    assert_eq!(third.divide(seconds(1)), Duration::from_micros(333_333));
    assert_eq!(Speedup::new(0.5).expect("a speed-up").divide(millis(3)), millis(6));
}

#[test]
fn steady_state_ends_a_minute_in_which_all_users_are_connected() {
    let (number, decision, phases) = decide(&stated(), steady_border);
    // From the first border to the seventh it is a minute. The measured interval begins a sample later.
    assert_eq!((number, decision), (7, Decision::Measure(seconds(80)..seconds(3_680))));
    let times = phases.times();
    assert_eq!((times.ramp_up_end, times.steady, times.end), (Some(seconds(10)), Some(seconds(70)), None));

    let check = |change: fn(u64, &mut Border), expected: u64| {
        let border = |number| {
            let mut border = steady_border(number);
            change(number, &mut border);
            border
        };
        assert_eq!(decide(&stated(), border).0, expected);
    };
    check(|number, border| border.iterated -= u64::from(number < 9), 15);
    check(|number, border| border.connected -= u64::from(number == 4), 11);
    check(|number, border| border.sessions = SessionCount::Known(USERS - u64::from(number == 6)), 13);
    check(|_, border| border.sessions = SessionCount::Known(2 * USERS), 7);
    check(|_, border| border.sessions = SessionCount::Unsupported, 7);
    let unanswered = |number, border: &mut Border| {
        if number == 5 {
            border.sessions = SessionCount::Unanswered;
        }
    };
    check(unanswered, 12);
}

#[test]
fn settling_ends_at_a_border() {
    let check = |settle: Duration, expected: Duration| {
        let (_, decision, _) = decide(&StatedLengths { settle, ..stated() }, steady_border);
        assert_eq!(decision, Decision::Measure(expected..expected + seconds(3_600)), "{settle:?}");
    };
    check(seconds(5), seconds(80));
    check(seconds(10), seconds(80));
    check(seconds(11), seconds(90));
    check(seconds(7_200), seconds(7_270));
}

#[test]
fn the_minute_has_at_least_three_samples() {
    let stated = StatedLengths { sample: seconds(60), ..stated() };
    let border = |number| Border { at: seconds(60 * number), ..steady_border(number) };
    assert_eq!(decide(&stated, border).0, 4);
}

#[test]
fn a_level_that_is_not_steady_within_its_limit_ends() {
    let disconnected = |number| Border { connected: USERS - 1, ..steady_border(number) };
    let (number, decision, phases) = decide(&stated(), disconnected);
    // 1 s × 100 users, 3 iterations and 10 min.
    assert_eq!((number, decision), (340, Decision::NotSteady));
    assert_eq!((phases.times().steady, phases.times().end), (None, Some(seconds(3_400))));
    let limited = StatedLengths { steady_limit: Some(seconds(95)), ..stated() };
    assert_eq!(decide(&limited, disconnected).0, 10);
}

/// Returns how a measured interval of an hour ends, in which users are disconnected at some of its borders.
fn measured_end(disconnected: u64) -> Decision {
    let mut phases = Phases::new(lengths(&stated()), Duration::ZERO, USERS, USERS);
    for number in 1.. {
        let is_disconnected = (20..20 + disconnected).contains(&number) || number == 8;
        let connected = USERS - u64::from(is_disconnected);
        match phases.border(&Border { connected, ..steady_border(number) }) {
            Decision::Continue | Decision::Measure(_) => {}
            decision => {
                assert_eq!((number, phases.times().end), (368, Some(seconds(3_680))));
                return decision;
            }
        }
    }
    unreachable!("the measured interval ends")
}

/// The interval has 360 borders. The border at which it begins is none of them.
#[test]
fn steady_state_is_lost_above_one_percent_of_the_borders() {
    assert_eq!(measured_end(0), Decision::Complete);
    assert_eq!(measured_end(3), Decision::Complete);
    assert_eq!(measured_end(4), Decision::Lost);
}

#[test]
fn phases_have_names_at_every_time() {
    let begun = Phases::new(lengths(&stated()), Duration::ZERO, USERS, USERS);
    assert_eq!(begun.phase_at(seconds(10)), PhaseName::RampUp);
    let mut iterated = begun.clone();
    iterated.border(&steady_border(1));
    assert_eq!(iterated.phase_at(seconds(10)), PhaseName::BeforeSteadyState);
    let (_, _, mut steady) = decide(&stated(), steady_border);
    let phases = [70, 79, 80, 3_679, 3_680].map(|at| steady.phase_at(seconds(at)));
    let [settling, measured, cool_down] = [PhaseName::Settling, PhaseName::Measured, PhaseName::CoolDown];
    assert_eq!(phases, [settling, settling, measured, measured, cool_down]);
    steady.end(seconds(90));
    assert_eq!(steady.phase_at(seconds(90)), PhaseName::CoolDown);
}
