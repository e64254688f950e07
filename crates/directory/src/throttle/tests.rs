//! Tests of throttling, with a simulated clock.

use base::sim::SimClock;

use super::*;

/// A throttle with the clock that its test advances.
struct World {
    clock: Arc<SimClock>,
    throttle: Arc<LoginThrottle>,
}

const HOME: &str = "192.0.2.1";
const ELSEWHERE: &str = "198.51.100.7";

fn world() -> World {
    world_with(ThrottleOptions::default())
}

fn world_with(options: ThrottleOptions) -> World {
    let clock = Arc::new(SimClock::new());
    World { throttle: Arc::new(LoginThrottle::new(options, clock.clone())), clock }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address of these tests")
}

impl World {
    fn fail(&self, account: &str, from: &str) -> Result<(), ThrottleError> {
        self.throttle.begin(account, ip(from)).map(LoginAttempt::report_failure)
    }

    fn succeed(&self, account: &str, from: &str) -> Result<(), ThrottleError> {
        self.throttle.begin(account, ip(from)).map(LoginAttempt::report_success)
    }

    fn fail_times(&self, times: u32, account: &str, from: &str) {
        for _ in 0..times {
            assert_eq!(self.fail(account, from), Ok(()));
        }
    }

    /// Fails repeatedly, waiting when required, until the account or address is locked for at least `seconds`.
    fn lock(&self, account: &str, from: &str, seconds: u64) {
        loop {
            match self.fail(account, from) {
                Err(throttled) if throttled.retry_after >= Duration::from_secs(seconds) => return,
                Err(throttled) => self.clock.advance(throttled.retry_after),
                Ok(()) => {}
            }
        }
    }

    /// Fails once, after waiting as long as required.
    fn fail_patiently(&self, account: &str, from: &str) {
        if let Err(throttled) = self.fail(account, from) {
            self.clock.advance(throttled.retry_after);
            self.fail_times(1, account, from);
        }
    }

    fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

fn retry_after(outcome: Result<(), ThrottleError>) -> u64 {
    outcome.expect_err("should be throttled").retry_after.as_secs()
}

#[test]
fn first_failures_of_an_account_are_not_delayed() {
    let world = world();
    world.fail_times(ACCOUNT_FAILURES_FREE, "ann", HOME);
    assert_eq!(world.throttle.check("ann", ip(HOME)), Ok(()));
}

#[test]
fn delays_double_up_to_the_maximum() {
    let world = world();
    world.fail_times(ACCOUNT_FAILURES_FREE, "ann", HOME);
    for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900] {
        assert_eq!(world.fail("ann", HOME), Ok(()));
        assert_eq!(retry_after(world.fail("ann", HOME)), expected);
        world.advance(expected);
    }
}

#[test]
fn attempt_before_the_delay_ends_is_refused() {
    let world = world();
    world.fail_times(ACCOUNT_FAILURES_FREE, "ann", HOME);
    world.lock("ann", HOME, 4);
    world.advance(3);
    assert_eq!(retry_after(world.fail("ann", HOME)), 1);
    world.advance(1);
    assert_eq!(world.fail("ann", HOME), Ok(()));
}

#[test]
fn lock_of_one_account_does_not_affect_others() {
    let world = world();
    world.lock("ann", ELSEWHERE, 60);
    assert_eq!(world.fail("bob", HOME), Ok(()));
}

#[test]
fn a_success_clears_the_account() {
    let world = world();
    world.fail_times(ACCOUNT_FAILURES_FREE, "ann", HOME);
    assert_eq!(world.succeed("ann", HOME), Ok(()));
    world.fail_times(ACCOUNT_FAILURES_FREE, "ann", HOME);
    assert_eq!(world.throttle.check("ann", ip(HOME)), Ok(()));
}

#[test]
fn a_success_does_not_clear_the_address() {
    let world = world();
    for number in 0..ADDRESS_FAILURES_FREE {
        world.fail_times(1, &format!("victim{number}"), HOME);
        assert_eq!(world.succeed("attacker", HOME), Ok(()));
    }
    world.fail_times(1, "victim", HOME);
    assert_eq!(retry_after(world.fail("another", HOME)), 1);
    assert_eq!(world.fail("another", ELSEWHERE), Ok(()));
}

#[test]
fn a_stranger_does_not_lock_out_the_owner() {
    let world = world();
    assert_eq!(world.succeed("ann", HOME), Ok(()));
    world.lock("ann", ELSEWHERE, 600);
    assert_eq!(world.succeed("ann", HOME), Ok(()));
    assert!(world.throttle.check("ann", ip(ELSEWHERE)).is_err(), "the owner's login gives no new guesses");
}

#[test]
fn a_success_from_a_new_address_clears_the_account() {
    let world = world();
    world.fail_times(ACCOUNT_FAILURES_FREE, "ann", ELSEWHERE);
    assert_eq!(world.succeed("ann", HOME), Ok(()));
    world.fail_times(ACCOUNT_FAILURES_FREE, "ann", ELSEWHERE);
}

#[test]
fn guessing_from_a_familiar_address_is_throttled_too() {
    let world = world();
    assert_eq!(world.succeed("ann", HOME), Ok(()));
    world.fail_times(ACCOUNT_FAILURES_FREE + 1, "ann", HOME);
    assert_eq!(retry_after(world.fail("ann", HOME)), 1);
}

#[test]
fn concurrent_attempts_count_like_sequential_ones() {
    let world = world();
    let under_way: Vec<_> =
        (0..=ACCOUNT_FAILURES_FREE).filter_map(|_| world.throttle.begin("ann", ip(HOME)).ok()).collect();
    assert_eq!(under_way.len() as u32, ACCOUNT_FAILURES_FREE + 1);
    assert_eq!(retry_after(world.fail("ann", HOME)), 1);
    under_way.into_iter().for_each(LoginAttempt::report_failure);
    assert_eq!(retry_after(world.fail("ann", HOME)), 1);
}

#[test]
fn inconclusive_attempt_is_not_counted() {
    let world = world();
    for _ in 0..3 * ADDRESS_FAILURES_FREE {
        world.throttle.begin("ann", ip(HOME)).expect("nothing was counted").report_inconclusive();
    }
    assert_eq!(world.throttle.check("ann", ip(HOME)), Ok(()));
}

#[test]
fn after_a_lock_one_attempt_runs_at_a_time() {
    let world = world();
    world.fail_times(ACCOUNT_FAILURES_FREE + 1, "ann", HOME);
    world.advance(1);
    let attempt = world.throttle.begin("ann", ip(HOME)).expect("the lock is over");
    assert_eq!(retry_after(world.fail("ann", HOME)), 2);
    attempt.report_inconclusive();
    assert_eq!(world.fail("ann", HOME), Ok(()));
}

#[test]
fn successes_from_an_address_do_not_prolong_its_lock() {
    let world = world();
    for number in 0..ADDRESS_FAILURES_FREE + 4 {
        world.fail_patiently(&format!("victim{number}"), HOME);
    }
    let outcome = world.fail("another", HOME);
    world.advance(retry_after(outcome));
    assert_eq!(world.succeed("ann", HOME), Ok(()));
    assert_eq!(world.succeed("bob", HOME), Ok(()));
}

#[test]
fn a_dropped_attempt_counts_as_failed() {
    let world = world();
    for _ in 0..=ACCOUNT_FAILURES_FREE {
        drop(world.throttle.begin("ann", ip(HOME)));
    }
    assert_eq!(retry_after(world.fail("ann", HOME)), 1);
}

#[test]
fn failures_expire_one_after_another() {
    let world = world();
    world.fail_times(ACCOUNT_FAILURES_FREE, "ann", HOME);
    world.advance(2 * ACCOUNT_FORGIVE_AFTER.as_secs() + 1);
    world.fail_times(2, "ann", HOME);
    assert_eq!(world.throttle.check("ann", ip(HOME)), Ok(()));
    world.fail_times(1, "ann", HOME);
    assert_eq!(retry_after(world.fail("ann", HOME)), 1);
    world.advance(1_000 * ACCOUNT_FORGIVE_AFTER.as_secs());
    world.fail_times(ACCOUNT_FAILURES_FREE, "ann", HOME);
}

#[test]
fn an_ipv6_network_counts_as_one() {
    let world = world();
    for number in 0..=ADDRESS_FAILURES_FREE {
        world.fail_times(1, &format!("victim{number}"), &format!("2001:db8:0:1::{number:x}"));
    }
    assert_eq!(retry_after(world.fail("another", "2001:db8:0:1:ffff::1")), 1);
    assert_eq!(world.fail("another", "2001:db8:0:2::1"), Ok(()));
}

/// Fails once for each of several victims, each from the network that `network` returns for its number.
fn fail_from(world: &World, count: u32, network: impl Fn(u32) -> String) {
    for number in 0..count {
        world.fail_times(1, &format!("victim{number}"), &format!("{}::1", network(number)));
    }
}

/// Locks 2001:db8::/48 for a second, with failures from eight of its /56. None of these is locked.
fn lock_prefix_48(world: &World) {
    fail_from(world, 16 * ADDRESS_FAILURES_FREE + 1, |number| {
        format!("2001:db8:0:{:x}{:02x}", 1 + number % 8, number / 8)
    });
}

#[test]
fn new_networks_of_a_customer_give_no_new_guesses() {
    let world = world();
    fail_from(&world, 4 * ADDRESS_FAILURES_FREE + 1, |number| format!("2001:db8:0:{number:x}"));
    assert_eq!(retry_after(world.fail("another", "2001:db8:0:ff::1")), 1, "the /56 is locked");
    assert_eq!(world.fail("another", "2001:db8:0:100::1"), Ok(()), "another /56");
}

#[test]
fn larger_networks_are_locked_later_and_forgiven_sooner() {
    let world = world();
    lock_prefix_48(&world);
    assert_eq!(world.fail("another", "2001:db8:1::1"), Ok(()), "another /48");
    let inside = "2001:db8:0:f000::1";
    assert_eq!(retry_after(world.fail("another", inside)), 1);
    world.advance(1);
    world.fail_times(1, "another", inside);
    assert_eq!(retry_after(world.fail("another", inside)), 2);
    world.advance(2 + 8);
    world.fail_times(1, "another", inside);
    assert_eq!(retry_after(world.fail("another", inside)), 1, "two failures were forgiven, each after 3.75 s");
}

#[test]
fn neighbors_in_a_large_network_do_not_lock_out_its_users() {
    let world = world();
    let ann = "2001:db8:0:f000::1";
    assert_eq!(world.succeed("ann", ann), Ok(()));
    lock_prefix_48(&world);
    assert_eq!(retry_after(world.fail("bob", ann)), 1);
    assert_eq!(world.succeed("ann", ann), Ok(()));
    world.fail_times(ACCOUNT_FAILURES_FREE + 1, "ann", ann);
    assert_eq!(retry_after(world.fail("ann", ann)), 1, "guesses from there are counted");
}

#[test]
fn an_ipv4_address_counts_the_same_when_mapped() {
    assert_eq!(Network::from_address(ip("::ffff:192.0.2.1")), Network::from_address(ip("192.0.2.1")));
    assert_ne!(Network::from_address(ip("::ffff:192.0.2.2")), Network::from_address(ip("192.0.2.1")));
}

#[test]
fn loopback_is_not_counted_but_its_accounts_are() {
    for loopback in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        let world = world();
        for number in 0..3 * ADDRESS_FAILURES_FREE {
            world.fail_times(1, &format!("victim{number}"), loopback);
        }
        world.fail_times(ACCOUNT_FAILURES_FREE + 1, "ann", loopback);
        assert_eq!(retry_after(world.fail("ann", loopback)), 1, "{loopback}");
    }
}

#[test]
fn memory_is_bounded_and_the_oldest_entry_evicted() {
    let world = world_with(ThrottleOptions { entries_max: 100, ..ThrottleOptions::default() });
    world.fail_times(ACCOUNT_FAILURES_FREE, "first", HOME);
    for number in 0..100 {
        world.fail_times(1, &format!("account{number}"), &format!("10.0.0.{number}"));
    }
    assert_eq!(world.throttle.entries(), 200);
    world.fail_times(ACCOUNT_FAILURES_FREE, "first", ELSEWHERE);
    assert_eq!(world.throttle.check("first", ip(ELSEWHERE)), Ok(()), "the count of `first` was forgotten");
}

#[test]
fn used_entry_is_not_evicted() {
    let world = world_with(ThrottleOptions { entries_max: 10, ..ThrottleOptions::default() });
    world.fail_times(ACCOUNT_FAILURES_FREE, "ann", "127.0.0.1");
    for number in 0..30 {
        world.fail_times(1, &format!("account{number}"), "127.0.0.1");
        if number % 5 == 0 {
            let outcome = world.fail("ann", "127.0.0.1");
            world.clock.advance(outcome.err().map_or(Duration::ZERO, |throttled| throttled.retry_after));
            let _ = world.fail("ann", "127.0.0.1");
        }
    }
    assert!(retry_after(world.fail("ann", "127.0.0.1")) >= 1);
}
