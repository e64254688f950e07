//! Property tests of plans: exact rates, times within their iteration, and uniform draws.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::classes::ClassMap;
use super::recipients::RecipientRange;
use super::stream::{Draw, Stream};
use super::{Plan, sizes};
use crate::workload::class::Members;
use crate::workload::fraction::Fraction;
use crate::workload::profile::SizeProfile;
use crate::workload::rates::Rates;
use crate::workload::verb::Verb;
use crate::workload::{Workload, check, shipped};

/// The upper 0.1 % points of the chi-square distribution by degrees of freedom.
const CHI_SQUARE_MAX: &[(usize, f64)] = &[(5, 20.515), (7, 24.322), (23, 49.728), (99, 148.23)];

fn workload(text: &str) -> Arc<Workload> {
    Arc::new(check::check(text, &[]).unwrap_or_else(|findings| panic!("{findings:#?}\n{text}")))
}

fn shipped(name: &str) -> Arc<Workload> {
    workload(&shipped::load(name).expect("shipped"))
}

/// Checks that counts follow expected ones. The test has a fixed seed, so it fails always or never.
fn check_chi_square(counts: &[u64], expected: impl Fn(usize) -> f64) {
    let square = |(index, count): (usize, &u64)| (*count as f64 - expected(index)).powi(2) / expected(index);
    let sum: f64 = counts.iter().enumerate().map(square).sum();
    let freedom = counts.len() - 1;
    let max = CHI_SQUARE_MAX.iter().find(|(known, _)| *known == freedom).expect("a known number of values").1;
    assert!(sum < max, "{sum} of at most {max}: {counts:?}");
}

/// Returns the least common multiple of `every` of a class.
fn cycle(steps: &[crate::workload::class::Step]) -> u64 {
    steps.iter().fold(1, |cycle, step| {
        let multiple = (1..=step.every).find(|factor| (cycle * factor).is_multiple_of(step.every));
        cycle * multiple.expect("the product is a multiple")
    })
}

#[test]
fn a_whole_cycle_has_the_promised_actions() {
    for (name, _) in shipped::FILES {
        let workload = shipped(name);
        let plan = Plan::new(Arc::clone(&workload), 3, 10.min(workload.users)).expect("recipients");
        for user in 1..=plan.users() {
            let class = plan.class_of(user).expect("a user of the plan");
            let cycle = cycle(&class.steps);
            let first = 2 * cycle; // any whole cycle has the same actions
            let first = if workload.iterations > 0 { 0 } else { first };
            let last = first + cycle;
            let mut counts: BTreeMap<Verb, u64> = BTreeMap::new();
            let timetable = plan.timetable(user, 0).expect("a user of the plan");
            for planned in timetable.skip_while(|planned| planned.iteration < first) {
                if planned.iteration >= last {
                    break;
                }
                *counts.entry(planned.step.verb).or_default() += 1;
            }
            let mut promised = Rates::of_iteration(&workload, class).by_verb;
            // Attachments that are met depend on the documents.
            promised.remove(&Verb::ReadAttachment);
            let promised = promised.into_iter().map(|(verb, actions)| (verb, actions.times(Fraction::from(cycle))));
            let counted = counts.into_iter().map(|(verb, count)| (verb, Fraction::from(count)));
            assert_eq!(counted.collect::<BTreeMap<_, _>>(), promised.collect(), "{name}, user {user}");
        }
    }
}

#[test]
fn steps_are_within_their_iteration_and_in_order() {
    for name in ["n8mail", "entmail", "maxsessions", "clustermail"] {
        let workload = shipped(name);
        let plan = Plan::new(Arc::clone(&workload), 9, 40).expect("recipients");
        for user in 1..=40 {
            let class = plan.class_of(user).expect("a user of the plan");
            let iteration_us = class.rhythm.iteration_us.expect("a timetable");
            let start_us = Stream::new(9, Draw::Start, [user, 0, 0]).below(iteration_us) + (user - 1) * 1_000;
            let mut previous_us = 0;
            for planned in plan.timetable(user, 1_000).expect("a user").take_while(|planned| planned.iteration < 20) {
                let due_us = planned.intended_us.expect("a timetable");
                let place_us = start_us + planned.iteration * iteration_us;
                assert!((place_us..=place_us + iteration_us).contains(&due_us), "{name}, user {user}: {planned:?}");
                assert!(previous_us <= due_us, "{name}, user {user}: {planned:?}");
                let pauses = planned.step.pause;
                let is_first = previous_us < place_us;
                assert!(is_first || (pauses.min_us..=pauses.max_us).contains(&(due_us - previous_us)));
                previous_us = due_us;
            }
        }
    }
}

#[test]
fn only_iterations_of_the_workload_are_played() {
    let idle = shipped("idle");
    let plan = Plan::new(Arc::clone(&idle), 1, 5).expect("recipients");
    let steps: Vec<_> = plan.timetable(3, 2_000_000).expect("a user").collect();
    assert_eq!(steps.iter().map(|planned| planned.step.verb).collect::<Vec<_>>(), [Verb::OpenDatabase, Verb::Wait]);
    assert_eq!(steps[0].intended_us, Some(4_000_000), "a single iteration begins at once");
    let filling = shipped("n8mailinit");
    let plan = Plan::new(Arc::clone(&filling), 1, 5).expect("recipients");
    let steps = plan.timetable(5, 1_000_000).expect("a user");
    assert_eq!((steps.clone().count(), steps.filter(|planned| planned.intended_us.is_some()).count()), (3_000, 0));
    assert!(plan.timetable(6, 0).is_none() && plan.timetable(0, 0).is_none());
}

#[test]
fn times_beyond_64_bits_do_not_wrap() {
    let head = "format = 1\nname = \"Long\"\ntitle = \"Long\"\niteration = \"168 h\"\niterations = 1_000_000\n";
    let workload = workload(&format!("{head}step = [{{ verb = \"poll\", every = 1_000, phase = 999 }}]"));
    let plan = Plan::new(Arc::clone(&workload), 1, 1_000_000).expect("recipients");
    let last = plan.timetable(1_000_000, u64::MAX / 4).expect("a user").last().expect("steps");
    assert_eq!((last.iteration, last.intended_us), (999_999, Some(u64::MAX)));
}

#[test]
fn phases_of_every_are_uniform_over_users() {
    let head = "format = 1\nname = \"Phases\"\ntitle = \"Phases\"\niteration = \"1 min\"\n";
    let steps = "{ verb = \"poll\", every = 24 }, { verb = \"send\", every = 8, group = \"a\" }, { verb = \"lookup\", \
                 every = 8, group = \"a\" }, { verb = \"read\", every = 8, phase = 5 }";
    let workload = workload(&format!("{head}step = [{steps}]"));
    let plan = Plan::new(Arc::clone(&workload), 1, 24_000).expect("recipients");
    let mut polls = vec![0; 24];
    let mut sends = vec![0; 8];
    let mut pairs = 0;
    for user in 1..=24_000 {
        let first = |verb| {
            let mut timetable = plan.timetable(user, 0).expect("a user");
            timetable.find(|planned| planned.step.verb == verb).expect("a step").iteration
        };
        polls[first(Verb::Poll) as usize] += 1;
        sends[first(Verb::Send) as usize] += 1;
        pairs += u64::from(first(Verb::Poll) % 8 == first(Verb::Send));
        assert_eq!(first(Verb::Lookup), first(Verb::Send), "a group has one phase");
        assert_eq!(first(Verb::Read), 5);
    }
    check_chi_square(&polls, |_| 1_000.0);
    check_chi_square(&sends, |_| 3_000.0);
    assert!((2_800..=3_200).contains(&pairs), "phases of different steps are independent: {pairs}");
}

#[test]
fn starts_are_spread_over_an_iteration() {
    let workload = shipped("n8mail");
    let plan = Plan::new(Arc::clone(&workload), 1, 100_000).expect("recipients");
    let mut counts = vec![0; 100];
    for user in 1..=100_000 {
        let first = plan.timetable(user, 0).expect("a user").next().expect("a step");
        // Jitter and the pause of the first step move the beginning by 48 s on average, for all users alike.
        let due_us = first.intended_us.expect("a timetable") - jitter_and_pause(user);
        counts[(due_us * 100 / 900_000_000) as usize] += 1;
    }
    check_chi_square(&counts, |_| 1_000.0);
}

/// Returns the jitter and the first pause of a user of N8Mail in the run with the seed 1.
fn jitter_and_pause(user: u64) -> u64 {
    let jitter_us = Stream::new(1, Draw::Jitter, [user, 0, 0]).below(90_000_001);
    let pause_us = 5_000_000 + Stream::new(1, Draw::Pause, [user, 0, 0]).below(10_000_001);
    jitter_us + pause_us
}

#[test]
fn sizes_follow_the_profile() {
    let profile = SizeProfile::server_load();
    let mut counts = vec![0; profile.rows.len()];
    let mut bytes = 0;
    for number in 0..100_000 {
        let row = sizes::draw(&profile, &mut Stream::new(1, Draw::Size, [number, 0, 0]));
        counts[profile.rows.iter().position(|known| known == row).expect("a row of the profile")] += 1;
        bytes += row.body_bytes + row.attachment_bytes;
    }
    check_chi_square(&counts, |index| f64::from(profile.rows[index].share.millionths()) / 10.0);
    // The standard deviation of a size is some 700,000 bytes, that of the mean 2,220.
    let mean = bytes as f64 / 100_000.0;
    assert!((mean - 97_305.0).abs() < 3.0 * 2_220.0, "{mean}");
}

#[test]
fn recipients_are_uniform_without_the_sender() {
    let range = RecipientRange::new([1, 101], 101).expect("a range");
    let mut counts = vec![0; 100];
    for number in 0..10_000 {
        let drawn = range.draw(&mut Stream::new(1, Draw::Recipients, [number, 0, 0]), 10, 51);
        for user in drawn {
            counts[(if user > 51 { user - 2 } else { user - 1 }) as usize] += 1;
        }
    }
    check_chi_square(&counts, |_| 1_000.0);
}

#[test]
fn recipients_of_small_ranges() {
    let draw = |range, users, count, sender| {
        let range = RecipientRange::new(range, users)?;
        Some(range.draw(&mut Stream::new(1, Draw::Recipients, [0, 0, 0]), count, sender))
    };
    assert_eq!(draw([1, 3], 3, 3, 2), Some(vec![1, 3]), "all others");
    assert_eq!(draw([1, 1_000], 3, 1_000, 9), Some(vec![1, 2, 3]), "users of the run");
    assert_eq!(draw([1, 1], 1, 3, 1), Some(vec![1]), "oneself, if there is nobody else");
    assert_eq!(draw([5, 9], 4, 1, 1), None);
    assert_eq!(draw([0, 9], 4, 1, 1), None);
}

#[test]
fn classes_have_exactly_their_shares() {
    let entmail = shipped("entmail");
    let map = ClassMap::new(&entmail, 6_000);
    let locals = (1..=6_000).filter(|user| map.class_of(*user) == Some(1)).count();
    assert_eq!((map.users(), locals), (6_000, 1_200));
    assert_eq!((map.class_of(0), map.class_of(6_001)), (None, None));
    let first: Vec<_> = (1..=10).filter_map(|user| map.class_of(user)).collect();
    assert_eq!(first, [0, 0, 1, 0, 0, 0, 0, 1, 0, 0], "spread evenly");
}

proptest! {
    #[test]
    fn recipients_are_different_users_of_the_range(
        first in 1u64..50,
        length in 1u64..50,
        count in 1u64..60,
        sender in 1u64..120,
        key: u64,
    ) {
        let range = RecipientRange::new([first, first + length - 1], 200).expect("a range");
        let drawn = range.draw(&mut Stream::new(4, Draw::Recipients, [key, 0, 0]), count, sender);
        let others = (first..first + length).filter(|user| *user != sender).count() as u64;
        prop_assert!(drawn.is_sorted_by(|one, other| one < other));
        if others == 0 {
            prop_assert_eq!(drawn, vec![sender]);
        } else {
            prop_assert_eq!(drawn.len() as u64, count.min(others));
            prop_assert!(drawn.iter().all(|user| (first..first + length).contains(user) && *user != sender));
        }
    }

    /// Checks that no class is ever a user above its share, and that shares are exact where they are whole numbers.
    #[test]
    fn classes_are_at_most_one_user_above_their_shares(
        tenths in prop::collection::vec(0u32..4, 1..5),
        fixed in 0u64..4,
    ) {
        let sum: u32 = tenths.iter().sum();
        prop_assume!(sum <= 10);
        let class = |name: usize, keys: String| {
            format!("[[class]]\nname = \"c{name}\"\n{keys}\nstep = [{{ verb = \"poll\" }}]\n")
        };
        let shares = tenths.iter().enumerate().map(|(index, tenths)| class(index, format!("share = 0.{tenths}")));
        let rest = [class(8, String::new()), class(9, format!("users = {fixed}"))];
        let head = "format = 1\nname = \"Classes\"\ntitle = \"Classes\"\niteration = \"1 min\"\n";
        let workload = workload(&(head.to_owned() + &shares.chain(rest).collect::<String>()));
        let map = ClassMap::new(&workload, 100);
        prop_assert_eq!(map.users(), 100 + fixed);
        let mut counts = vec![0u64; workload.classes.len()];
        for user in 1..=100 {
            counts[map.class_of(user).expect("a user")] += 1;
            for (class, count) in workload.classes.iter().zip(&counts) {
                let Members::Share(share) = class.members else { continue };
                let due = user * u64::from(share.millionths());
                prop_assert!(count * 1_000_000 < due + 1_000_000, "{:?}", counts);
                prop_assert!(user % 10 > 0 || count * 1_000_000 == due, "{:?} of {user}", counts);
            }
        }
        prop_assert!((101..=100 + fixed).all(|user| map.class_of(user) == Some(workload.classes.len() - 1)));
    }

    /// Checks that a step of a timetable does not depend on the number of users or on other steps.
    #[test]
    fn draws_depend_on_their_key_alone(user in 1u64..50, seed: u64, users in 50u64..200) {
        let workload = shipped("n8mail");
        let times = |users| {
            let plan = Plan::new(Arc::clone(&workload), seed, users).expect("recipients");
            let timetable = plan.timetable(user, 0).expect("a user");
            timetable.take(100).map(|planned| planned.intended_us).collect::<Vec<_>>()
        };
        prop_assert_eq!(times(50), times(users));
    }
}
