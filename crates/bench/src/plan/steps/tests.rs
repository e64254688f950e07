//! Tests of the steps that the engine plays: the promised counts, the same actions for the same seed, attachments.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::workload::fraction::Fraction;
use crate::workload::rates::Rates;
use crate::workload::{check, shipped};

type Planned = PlannedStep<PlanAction>;

fn plan(name: &str, seed: u64, users: u64) -> Arc<Plan> {
    let workload = check::check(&shipped::load(name).expect("shipped"), &[]).expect("a shipped workload is valid");
    Arc::new(Plan::new(Arc::new(workload), seed, users).expect("recipients"))
}

fn steps(plan: &Arc<Plan>, user: u64, left_out: &[Verb]) -> PlanSteps {
    let offered = Offered::new(Verb::all().filter(|verb| !left_out.contains(verb)));
    PlanSteps::new(plan, &Arc::new(offered), user, 0).expect("a user")
}

/// Returns the actions of the first iteration of user 1 of 20 whose steps are these. There is a size profile `p`, whose
/// messages have an attachment.
pub(crate) fn actions_of(steps: &str) -> Vec<PlanAction> {
    let text = format!(
        "format = 1\nname = \"Steps\"\ntitle = \"Steps\"\niteration = \"1 h\"\n\
         profile = {{ p = {{ rows = [{{ body = 10, attachment = 10, share = 1.0 }}] }} }}\nstep = [{steps}]\n"
    );
    let workload = check::check(&text, &[]).unwrap_or_else(|findings| panic!("{findings:#?}\n{text}"));
    let plan = Arc::new(Plan::new(Arc::new(workload), 1, 20).expect("recipients"));
    iterations(self::steps(&plan, 1, &[]), 0, 1).into_iter().map(|step| step.action).collect()
}

/// Returns the steps of the iterations from `first` to the one before `end`.
fn iterations(mut steps: PlanSteps, first: u64, end: u64) -> Vec<Planned> {
    let all = std::iter::from_fn(|| steps.next_step());
    all.skip_while(|step| step.iteration < first).take_while(|step| step.iteration < end).collect()
}

/// Returns all draws of a step.
fn draws(step: &Planned) -> (Vec<u64>, DocumentFraction, Vec<u64>, [u64; 3]) {
    let action = &step.action;
    (action.recipients(3), action.document_fraction(), action.names(3), action.key())
}

#[test]
fn numbers_of_verbs_are_those_of_their_words() {
    let words = verb_words();
    for verb in Verb::all() {
        assert_eq!(words[usize::from(verb_index(verb).0)], verb.word());
    }
    assert_eq!(words.len(), 26);
}

#[test]
fn attachments_are_read_as_often_as_their_share() {
    let plan = plan("n8mail", 1, 20);
    let mut steps = steps(&plan, 3, &[]);
    let reads = std::iter::from_fn(|| steps.next_step()).filter(|step| step.action.verb() == Verb::Read);
    let reads: Vec<Planned> = reads.take(4_000).collect();
    let read: usize = reads.iter().map(|step| steps.attachment_steps(step, 1).len()).sum();
    // A quarter of 4,000, with a standard deviation of 27.
    assert!((900..=1_100).contains(&read), "{read}");
    let several = reads.iter().map(|step| steps.attachment_steps(step, 30)).find(|read| read.len() > 1);
    let several = several.expect("one of many reads");
    assert!(several.iter().all(|step| step.action.verb() == Verb::ReadAttachment && step.transactions == 1));
    assert!(several.is_sorted_by_key(|step| step.action.attachment()));
    let mut without = super::tests::steps(&plan, 3, &[Verb::ReadAttachment]);
    assert_eq!(without.attachment_steps(&reads[0], 1_000).len(), 0);
}

#[test]
fn reads_without_pauses_are_simultaneous() {
    let plan = plan("n8mail", 1, 5);
    let steps = iterations(steps(&plan, 2, &[]), 0, 1);
    let reads: Vec<_> = steps.iter().filter(|step| step.action.verb() == Verb::Read).collect();
    let simultaneous: Vec<bool> = reads.iter().map(|step| step.action.is_simultaneous()).collect();
    assert_eq!(simultaneous, [false, true, true, true, true]);
    assert_eq!(reads[1].intended, reads[4].intended);
    assert_eq!(reads[1].action.at_repetition(3).document_fraction(), reads[4].action.document_fraction());
}

#[test]
fn a_class_without_offered_verbs_has_no_steps() {
    let plan = plan("n8mail", 1, 5);
    let none = Offered::new([]);
    assert!(PlanSteps::new(&plan, &Arc::new(none), 1, 0).expect("a user").next_step().is_none());
    assert!(PlanSteps::new(&plan, &Arc::new(Offered::new([])), 6, 0).is_none());
}

#[test]
fn fractions_are_within_the_rows() {
    let fraction = DocumentFraction(u32::MAX);
    assert_eq!((fraction.index_of(0), fraction.index_of(1), fraction.index_of(50)), (None, Some(0), Some(49)));
    assert_eq!(DocumentFraction(1 << 31).index_of(50), Some(25));
}

#[test]
fn transactions_are_those_of_the_workload() {
    let plan = plan("r6mail", 1, 10);
    let sum: u32 = iterations(steps(&plan, 4, &[]), 0, 6).iter().map(|step| step.transactions).sum();
    assert_eq!(sum, 120, "in 90 minutes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Checks that a cycle of a user has the promised actions, but none that the door leaves out.
    #[test]
    fn a_cycle_has_the_promised_actions(seed: u64, user in 1u64..30, cycles in 0u64..3) {
        for (name, cycle) in [("n8mail", 8), ("r6mail", 6)] {
            let plan = plan(name, seed, 30);
            let left_out = [Verb::Invite, Verb::Accept];
            let mut counts: BTreeMap<Verb, Fraction> = BTreeMap::new();
            for step in iterations(steps(&plan, user, &left_out), cycles * cycle, (cycles + 1) * cycle) {
                let count = counts.entry(step.action.verb()).or_insert(Fraction::ZERO);
                *count = count.plus(Fraction::from(1));
            }
            let workload = plan.workload();
            let mut promised = Rates::of_iteration(workload, &workload.classes[0]).by_verb;
            promised.retain(|verb, _| !left_out.contains(verb) && *verb != Verb::ReadAttachment);
            promised.values_mut().for_each(|actions| *actions = actions.times(Fraction::from(cycle)));
            prop_assert_eq!(counts, promised);
        }
    }

    /// Checks that the same seed has the same actions, whatever is left out.
    #[test]
    fn actions_follow_from_the_seed(seed: u64, user in 1u64..30) {
        let plan_of = |seed| plan("n8mail", seed, 30);
        let all = |left_out: &[Verb], seed| {
            let steps = iterations(steps(&plan_of(seed), user, left_out), 0, 8);
            let kept = steps.into_iter().filter(|step| step.action.verb() != Verb::Poll);
            kept.map(|step| (step.verb, step.intended, draws(&step))).collect::<Vec<_>>()
        };
        prop_assert_eq!(all(&[], seed), all(&[Verb::Poll], seed));
        prop_assert_ne!(all(&[], seed), all(&[], seed.wrapping_add(1)));
    }
}
