//! The class of each user.
//!
//! Classes are assigned by number, not drawn: user *u* joins the class whose share is furthest behind, and the first of
//! them in the file if there are several. So no class has more than one user above its share, and each has exactly its
//! share whenever that is a whole number for all classes. Users of classes with a fixed number follow after the others.

use crate::workload::Workload;
use crate::workload::class::{Class, Members};
use crate::workload::units::Share;

/// The classes of all users, one byte for each.
#[derive(Debug, Clone)]
pub struct ClassMap {
    classes: Vec<u8>,
}

impl ClassMap {
    /// Assigns `users` users to the classes with shares, and adds those of the classes with a fixed number.
    pub fn new(workload: &Workload, users: u64) -> Self {
        let mut behind: Vec<i64> = vec![0; workload.classes.len()];
        let mut classes = Vec::new();
        for _ in 0..users {
            let mut first = None;
            for (index, class) in workload.classes.iter().enumerate() {
                behind[index] += share_of(class);
                if share_of(class) > 0 && first.is_none_or(|first: usize| behind[index] > behind[first]) {
                    first = Some(index);
                }
            }
            let first = first.expect("the check of a workload refuses one without a class that has a share");
            behind[first] -= i64::from(Share::ALL.millionths());
            classes.push(first as u8);
        }
        for (index, class) in workload.classes.iter().enumerate() {
            if let Members::Users(fixed) = class.members {
                classes.extend((0..fixed).map(|_| index as u8));
            }
        }
        Self { classes }
    }

    /// Returns the number of users.
    pub fn users(&self) -> u64 {
        self.classes.len() as u64
    }

    /// Returns the index of the class of a user, from 1, or `None` if there is no such user.
    pub fn class_of(&self, user: u64) -> Option<usize> {
        let index = usize::try_from(user.checked_sub(1)?).ok()?;
        self.classes.get(index).map(|class| usize::from(*class))
    }
}

fn share_of(class: &Class) -> i64 {
    match class.members {
        Members::Share(share) => share.millionths().into(),
        Members::Users(_) => 0,
    }
}
