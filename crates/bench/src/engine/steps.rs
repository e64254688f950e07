//! The steps of a user, as the engine needs them. The plan computes them.

use std::time::Duration;

use crate::record::histograms::VerbIndex;

/// A step of a user's timetable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStep<A> {
    /// When the step is due, at speed 1, from the moment at which the first user of the level connects.
    pub intended: Duration,
    /// The iteration, from 0.
    pub iteration: u64,
    /// The verb, under which the step is counted.
    pub verb: VerbIndex,
    /// The weight of the verb.
    pub transactions: u32,
    /// What the door needs to perform the step.
    pub action: A,
}

/// The steps of one user in the order of their intended times, computed on demand.
pub trait StepSource: Send + 'static {
    /// What the door needs to perform a step.
    type Action: Send + Sync;

    /// Returns the next step, or `None` after the last one.
    fn next_step(&mut self) -> Option<PlannedStep<Self::Action>>;

    /// Returns the steps that read some of the attachments which a step has met. They are due when that step has ended.
    fn attachment_steps(
        &mut self,
        step: &PlannedStep<Self::Action>,
        attachments: u32,
    ) -> Vec<PlannedStep<Self::Action>>;
}
