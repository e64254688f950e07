//! The users of a run, as the engine creates them.

use std::sync::Arc;
use std::time::Duration;

use crate::door::{Door, Offered};
use crate::engine::run::{NewUser, UserSource};
use crate::plan::Plan;
use crate::plan::steps::{PlanAction, PlanSteps};
use crate::record::histograms::ClassIndex;

/// Creates the users of a plan, each with the door that a function makes for its number.
pub struct PlanUsers<F> {
    plan: Arc<Plan>,
    offered: Arc<Offered>,
    interval_us: u64,
    /// The users of each level.
    levels: Vec<u64>,
    door: F,
}

impl<F> PlanUsers<F> {
    /// Creates the source of the users of some levels, who connect `interval_us` microseconds after one another.
    pub fn new(plan: &Arc<Plan>, offered: &Arc<Offered>, interval_us: u64, levels: &[u64], door: F) -> Self {
        let plan = Arc::clone(plan);
        let offered = Arc::clone(offered);
        Self { plan, offered, interval_us, levels: levels.to_vec(), door }
    }
}

impl<D, F> UserSource for PlanUsers<F>
where
    D: Door<Action = PlanAction>,
    F: FnMut(u64) -> D,
{
    type Door = D;
    type Steps = PlanSteps;

    /// Creates a user.
    ///
    /// # Panics
    ///
    /// If the plan has no such user: its users are at least those of the last level.
    fn user(&mut self, number: u64) -> NewUser<D, PlanSteps> {
        let before = self.levels.iter().copied().filter(|users| *users < number).max().unwrap_or(0);
        let connects_us = (number - before - 1).saturating_mul(self.interval_us);
        let steps = PlanSteps::new(&self.plan, &self.offered, number, connects_us);
        let class = self.plan.class_index_of(number).and_then(|class| u16::try_from(class).ok());
        NewUser {
            class: ClassIndex(class.expect("the plan has the user, and at most 16 classes")),
            connects: Duration::from_micros(connects_us),
            door: (self.door)(number),
            steps: steps.expect("the plan has the user"),
        }
    }
}
