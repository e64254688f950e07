//! The steps of a user as the engine plays them: what the timetable has, without the verbs that the door leaves out.
//!
//! An action owns its plan, so tasks can hold it. It has no drawn values: it draws them when a door wants them, from
//! the streams of its step. So a step that waits in the engine is small, and no draw depends on the order of others.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::stream::{Draw, Stream};
use super::timetable::{Cursor, PlannedStep as TimetableStep, key_of};
use super::{Plan, sizes};
use crate::door::Offered;
use crate::engine::steps::{PlannedStep, StepSource};
use crate::population::content::{Answered, Content, ContentRequest, ContentSize, Purpose};
use crate::population::people::UserNames;
use crate::record::histograms::VerbIndex;
use crate::workload::Workload;
use crate::workload::action::{Action, Recipients, Size};
use crate::workload::class::{Class, Step};
use crate::workload::profile::SizeRow;
use crate::workload::rates::step_transactions;
use crate::workload::units::Share;
use crate::workload::verb::Verb;

/// Returns the number under which a verb is counted.
pub fn verb_index(verb: Verb) -> VerbIndex {
    VerbIndex(verb as u16)
}

/// Returns the words of all verbs by their numbers.
pub fn verb_words() -> Vec<String> {
    Verb::all().map(|verb| verb.word().to_owned()).collect()
}

/// A place among the rows that a user has, drawn as 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentFraction(u32);

impl DocumentFraction {
    /// Creates the fraction of so many parts of 2³².
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the index at this fraction of so many rows, or `None` if there are none.
    pub fn index_of(self, rows: usize) -> Option<usize> {
        let index = (u128::from(self.0) * rows as u128) >> 32;
        (rows > 0).then_some(index as usize)
    }
}

/// What a door needs to perform a step.
#[derive(Debug, Clone)]
pub struct PlanAction {
    plan: Arc<Plan>,
    user: u64,
    class_index: usize,
    step_index: usize,
    iteration: u64,
    repetition: u64,
    /// The number of the attachment among those that were met, or `None` for the step itself.
    attachment: Option<u32>,
}

impl PlanAction {
    /// Returns the verb.
    pub fn verb(&self) -> Verb {
        if self.attachment.is_some() { Verb::ReadAttachment } else { self.step().verb }
    }

    /// Returns the workload.
    pub fn workload(&self) -> &Workload {
        self.plan.workload()
    }

    /// Returns the keys of the step. Those of an attachment that was met are those of the read that has met it.
    pub fn keys(&self) -> &Action {
        &self.step().action
    }

    /// Returns the number of the attachment that is read, among those of the message that was read last.
    pub fn attachment(&self) -> Option<u32> {
        self.attachment
    }

    /// Returns the user.
    pub fn user(&self) -> u64 {
        self.user
    }

    /// Returns the repetition in the iteration, from 0.
    pub fn repetition(&self) -> u64 {
        self.repetition
    }

    /// Returns the repetitions of the step in the iteration.
    pub fn repetitions(&self) -> u64 {
        self.step().count
    }

    /// Returns `true` if all repetitions of the step in an iteration have the same intended time.
    pub fn is_simultaneous(&self) -> bool {
        let has_times = self.class().rhythm.iteration_us.is_some();
        has_times && self.step().count > 1 && self.step().pause.max_us == 0
    }

    /// Returns the same step in another repetition.
    pub fn at_repetition(&self, repetition: u64) -> Self {
        Self { repetition, ..self.clone() }
    }

    /// Returns the key of the draws of this step.
    pub fn key(&self) -> [u64; 3] {
        key_of(self.user, self.iteration, self.step(), self.repetition)
    }

    /// Returns the stream of a draw.
    pub fn stream(&self, draw: Draw) -> Stream {
        self.plan.stream(draw, self.key())
    }

    /// Draws where in the rows of the user the document is.
    pub fn document_fraction(&self) -> DocumentFraction {
        DocumentFraction(self.stream(Draw::Document).below(1 << 32) as u32)
    }

    /// Draws the users who receive a message.
    pub fn recipients(&self, count: u64) -> Vec<u64> {
        self.plan.recipients(self.key(), count, self.user)
    }

    /// Returns the users who receive a message of a step.
    pub fn recipients_of(&self, recipients: Recipients) -> Vec<u64> {
        match recipients {
            Recipients::Drawn(count) => self.recipients(count),
            Recipients::Oneself => vec![self.user],
        }
    }

    /// Returns the user who receives an answer to a message from an address. If it is not that of a user of the run,
    /// the answer goes to a user who is drawn, so no mail leaves the run.
    pub fn recipients_of_answer(&self, names: &UserNames, from: Option<&str>) -> Vec<u64> {
        let sender = from.and_then(|from| names.number_of(from, self.plan.users()));
        sender.map_or_else(|| self.recipients(1), |sender| vec![sender])
    }

    /// Draws the sender of a message to so many recipients: after them, from all users. The only recipient of a message
    /// to oneself is not drawn, and its sender is another user of the range of recipients.
    pub fn sender(&self, recipients: Recipients) -> u64 {
        match recipients {
            Recipients::Oneself => self.recipients(1)[0],
            Recipients::Drawn(count) => {
                let mut stream = self.stream(Draw::Recipients);
                for _ in 0..count {
                    stream.below(self.plan.users());
                }
                1 + stream.below(self.plan.users())
            }
        }
    }

    /// Draws the numbers of the persons whose names are looked up. A person may occur several times.
    pub fn names(&self, count: u64) -> Vec<u64> {
        let people = self.workload().directory.people.unwrap_or(self.plan.users());
        let [first, last] = self.workload().directory.lookups.unwrap_or([1, people]);
        let mut stream = self.stream(Draw::Names);
        (0..count).map(|_| first + stream.below(last.max(first) - first + 1)).collect()
    }

    /// Draws the size of a message or document.
    pub fn size(&self, size: &Size) -> SizeRow {
        match size {
            Size::Bytes(bytes) => SizeRow { body_bytes: *bytes, attachment_bytes: 0, share: Share::ALL },
            Size::Profile(name) => {
                let profile = &self.workload().profiles[name];
                *sizes::draw(profile, &mut self.stream(Draw::Size))
            }
        }
    }

    /// Generates what the user writes: a message or document of a size, which is made smaller by the factor `scale`.
    pub fn content(&self, purpose: Purpose, size: &Size, scale: f64, answered: Option<Answered>) -> Content {
        let kinds = match size {
            Size::Profile(name) => self.workload().profiles[name].kinds.as_slice(),
            Size::Bytes(_) => &[],
        };
        let request = ContentRequest {
            seed: self.plan.seed(),
            author: self.user,
            reader: None,
            purpose,
            size: ContentSize::scaled(&self.size(size), scale),
            kinds,
            answered,
        };
        Content::generate(&mut self.stream(Draw::Content).into_numbers(), &request)
    }

    fn class(&self) -> &Class {
        &self.plan.workload().classes[self.class_index]
    }

    fn step(&self) -> &Step {
        &self.class().steps[self.step_index]
    }
}

/// The steps of a user.
#[derive(Debug, Clone)]
pub struct PlanSteps {
    plan: Arc<Plan>,
    offered: Arc<Offered>,
    user: u64,
    class_index: usize,
    /// `None` if the door offers none of the verbs of the class: then there are no steps.
    cursor: Option<Cursor>,
}

impl PlanSteps {
    /// Creates the steps of a user who connects `connected_us` microseconds after the first user of its level. Returns
    /// `None` if there is no such user.
    pub fn new(plan: &Arc<Plan>, offered: &Arc<Offered>, user: u64, connected_us: u64) -> Option<Self> {
        let class_index = plan.class_index_of(user)?;
        let class = plan.class_of(user)?;
        let has_steps = class.steps.iter().any(|step| offered.has(step.verb));
        let cursor = has_steps.then(|| plan.cursor(user, class, connected_us));
        Some(Self { plan: Arc::clone(plan), offered: Arc::clone(offered), user, class_index, cursor })
    }

    fn planned(&self, step: &TimetableStep<'_>) -> PlannedStep<PlanAction> {
        let workload = self.plan.workload();
        let transactions = step_transactions(workload, &workload.classes[self.class_index], step.step);
        let action = PlanAction {
            plan: Arc::clone(&self.plan),
            user: self.user,
            class_index: self.class_index,
            step_index: step.step_index,
            iteration: step.iteration,
            repetition: step.repetition,
            attachment: None,
        };
        PlannedStep {
            intended: Duration::from_micros(step.intended_us.unwrap_or(0)),
            iteration: step.iteration,
            verb: verb_index(step.step.verb),
            transactions: u32::try_from(transactions).unwrap_or(u32::MAX),
            action,
        }
    }
}

impl StepSource for PlanSteps {
    type Action = PlanAction;

    fn next_step(&mut self) -> Option<PlannedStep<PlanAction>> {
        let plan = Arc::clone(&self.plan);
        let class = &plan.workload().classes[self.class_index];
        loop {
            let step = self.cursor.as_mut()?.next_step(class)?;
            if self.offered.has(step.step.verb) {
                return Some(self.planned(&step));
            }
        }
    }

    fn attachment_steps(&mut self, step: &PlannedStep<PlanAction>, attachments: u32) -> Vec<PlannedStep<PlanAction>> {
        let Action::Read { attachments: share, .. } = step.action.keys() else { return Vec::new() };
        let mut stream = step.action.stream(Draw::Attachment);
        let mut is_read = |_: &u32| stream.below(Share::ALL.millionths().into()) < share.millionths().into();
        let read: Vec<u32> = (0..attachments).filter(|number| is_read(number)).collect();
        let planned = |number| PlannedStep {
            verb: verb_index(Verb::ReadAttachment),
            transactions: Verb::ReadAttachment.transactions() as u32,
            action: PlanAction { attachment: Some(number), ..step.action.clone() },
            ..step.clone()
        };
        read.into_iter().filter(|_| self.offered.has(Verb::ReadAttachment)).map(planned).collect()
    }
}
