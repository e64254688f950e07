//! Rates: the actions, messages and transactions that a workload promises of each user, exactly.

use std::collections::BTreeMap;

use serde::Serialize;

use super::action::{Action, PullMethod, Recipients, Sender};
use super::class::{Class, Members, Step};
use super::fraction::Fraction;
use super::units::HOUR_US;
use super::verb::{COPY_TRANSACTIONS, Verb};
use super::{Session, Workload};

/// What a user does in an iteration, or in an hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rates {
    /// Actions by verb.
    pub by_verb: BTreeMap<Verb, Fraction>,
    /// Messages that the user sends: memos and replies, not invitations.
    pub sent: Fraction,
    /// Recipients of these messages. This is what a user receives on average, because recipients are drawn from all
    /// users. Messages to oneself count here, and not among those sent.
    pub received: Fraction,
    /// Transactions.
    pub transactions: Fraction,
}

impl Rates {
    /// Returns the rates of an iteration of a class.
    pub fn of_iteration(workload: &Workload, class: &Class) -> Self {
        let mut rates = Self::none();
        if workload.session == Session::Iteration {
            rates.add(Verb::LogIn, Fraction::from(1), Verb::LogIn.transactions());
        }
        for step in &class.steps {
            rates.add_step(workload, class, step);
        }
        rates
    }

    /// Returns the rates of an hour, or `None` if the class is unpaced.
    pub fn of_hour(workload: &Workload, class: &Class) -> Option<Self> {
        let iterations = Fraction::new(HOUR_US.into(), class.rhythm.iteration_us?.into());
        Some(Self::of_iteration(workload, class).times(iterations))
    }

    /// Returns the mean rates of an hour over all users, or `None` if the workload is unpaced.
    pub fn of_all(workload: &Workload) -> Option<Self> {
        let fixed = |class: &Class| match class.members {
            Members::Users(users) => users,
            Members::Share(_) => 0,
        };
        let users = workload.users + workload.classes.iter().map(fixed).sum::<u64>();
        let mut all = Self::none();
        for class in &workload.classes {
            let part = match class.members {
                Members::Share(share) => share.fraction().times(Fraction::new(workload.users.into(), users.into())),
                Members::Users(fixed) => Fraction::new(fixed.into(), users.into()),
            };
            all.merge(Self::of_hour(workload, class)?.times(part));
        }
        Some(all)
    }

    fn none() -> Self {
        let zero = Fraction::ZERO;
        Self { by_verb: BTreeMap::new(), sent: zero, received: zero, transactions: zero }
    }

    fn add(&mut self, verb: Verb, actions: Fraction, transactions: u64) {
        let count = self.by_verb.entry(verb).or_insert(Fraction::ZERO);
        *count = count.plus(actions);
        self.transactions = self.transactions.plus(actions.times(Fraction::from(transactions)));
    }

    fn add_step(&mut self, workload: &Workload, class: &Class, step: &Step) {
        let actions = Fraction::new(step.count.into(), step.every.into());
        self.add(step.verb, actions, step_transactions(workload, class, step));
        match step.action {
            Action::Send { recipients, from, .. } => self.add_message(actions, recipients, from),
            Action::Answer { .. } if step.verb == Verb::Reply => {
                self.add_message(actions, Recipients::Drawn(1), Sender::Oneself);
            }
            Action::Read { attachments, .. } if attachments.millionths() > 0 && class.database.is_none() => {
                let met = workload.profiles[&workload.mailbox.profile].with_attachment();
                let read = actions.times(met).times(attachments.fraction());
                self.add(Verb::ReadAttachment, read, Verb::ReadAttachment.transactions());
            }
            _ => {}
        }
    }

    fn add_message(&mut self, messages: Fraction, recipients: Recipients, from: Sender) {
        let count = match recipients {
            Recipients::Drawn(count) => count,
            Recipients::Oneself => 1,
        };
        self.received = self.received.plus(messages.times(Fraction::from(count)));
        if from == Sender::Oneself && recipients != Recipients::Oneself {
            self.sent = self.sent.plus(messages);
        }
    }

    fn merge(&mut self, other: Self) {
        for (verb, actions) in other.by_verb {
            let count = self.by_verb.entry(verb).or_insert(Fraction::ZERO);
            *count = count.plus(actions);
        }
        self.sent = self.sent.plus(other.sent);
        self.received = self.received.plus(other.received);
        self.transactions = self.transactions.plus(other.transactions);
    }

    fn times(self, factor: Fraction) -> Self {
        Self {
            by_verb: self.by_verb.into_iter().map(|(verb, actions)| (verb, actions.times(factor))).collect(),
            sent: self.sent.times(factor),
            received: self.received.times(factor),
            transactions: self.transactions.times(factor),
        }
    }
}

/// Returns the transactions of a step.
pub fn step_transactions(workload: &Workload, class: &Class, step: &Step) -> u64 {
    match &step.action {
        Action::Send { copy: true, .. } | Action::Answer { copy: true, .. } => {
            step.verb.transactions() + COPY_TRANSACTIONS
        }
        Action::Pull { method: PullMethod::Call } => pulled_documents(workload, class),
        _ => step.verb.transactions(),
    }
}

/// Returns the documents that a pull with a call for each requests.
fn pulled_documents(workload: &Workload, class: &Class) -> u64 {
    let mailbox = workload.mailbox.documents + workload.mailbox.archive;
    workload.database_of(class).map_or(mailbox, |database| database.documents)
}
