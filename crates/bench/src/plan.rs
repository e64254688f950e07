//! The plan of a run: what each user does and when, from the workload, the seed and the number of users alone.
//!
//! Everything here is pure and the same on every machine. The plan decides neither which document is at a fraction of
//! the rows nor when a step really begins: that depends on the server.

mod classes;
pub mod databases;
mod recipients;
pub mod sizes;
pub mod steps;
pub mod stream;
#[cfg(test)]
mod tests;
pub mod timetable;

use std::sync::Arc;

use crate::workload::Workload;
use crate::workload::class::Class;
use classes::ClassMap;
use recipients::RecipientRange;
use stream::{Draw, Stream};
use timetable::{Cursor, Timetable};

/// The plan of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    workload: Arc<Workload>,
    seed: u64,
    classes: ClassMap,
    recipients: RecipientRange,
}

impl Plan {
    /// Creates the plan of a run with `users` users in the classes with shares. Returns `None` if the workload draws
    /// its recipients from users that the run does not have.
    pub fn new(workload: Arc<Workload>, seed: u64, users: u64) -> Option<Self> {
        let classes = ClassMap::new(&workload, users);
        let range = workload.directory.recipients.unwrap_or([1, classes.users()]);
        let recipients = RecipientRange::new(range, classes.users())?;
        Some(Self { workload, seed, classes, recipients })
    }

    /// Returns the workload.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the number of users, those of classes with a fixed number included.
    pub fn users(&self) -> u64 {
        self.classes.users()
    }

    /// Returns the index of the class of a user in the workload, or `None` if there is no such user.
    pub fn class_index_of(&self, user: u64) -> Option<usize> {
        self.classes.class_of(user)
    }

    /// Returns the class of a user, or `None` if there is no such user.
    pub fn class_of(&self, user: u64) -> Option<&Class> {
        self.workload.classes.get(self.classes.class_of(user)?)
    }

    /// Returns the timetable of a user if users connect `interval_us` microseconds after one another, or `None` if
    /// there is no such user.
    pub fn timetable(&self, user: u64, interval_us: u64) -> Option<Timetable<'_>> {
        let connected_us = (user.checked_sub(1)?).saturating_mul(interval_us);
        let class = self.class_of(user)?;
        Some(Timetable::new(class, self.cursor(user, class, connected_us)))
    }

    /// Returns the place of the first step of a user who connects `connected_us` microseconds after the first one.
    fn cursor(&self, user: u64, class: &Class, connected_us: u64) -> Cursor {
        Cursor::new(self.seed, user, class, self.workload.iterations, connected_us)
    }

    /// Returns the stream of a draw of a planned step. The key is [`PlannedStep::key`](timetable::PlannedStep::key).
    pub fn stream(&self, draw: Draw, key: [u64; 3]) -> Stream {
        Stream::new(self.seed, draw, key)
    }

    /// Draws the recipients of a message.
    pub fn recipients(&self, key: [u64; 3], count: u64, sender: u64) -> Vec<u64> {
        self.recipients.draw(&mut self.stream(Draw::Recipients, key), count, sender)
    }
}
