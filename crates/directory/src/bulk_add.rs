//! Adding many people at once, with one transaction and one disk sync for all of them.
//!
//! Each person is handled separately: a person that cannot be added is reported in the result and does not prevent the
//! others from being added. Passwords are hashed on all processors before the transaction begins, because hashing takes
//! by far the most time. Mail files are created at the first delivery or the first login.

use std::num::NonZero;
use std::sync::Arc;

use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::limits::USERS_AT_ONCE_MAX;
use crate::password::DerivedSecrets;
use crate::person::Person;
use crate::person_edit::NewUser;

impl Directory {
    /// Adds at most [`USERS_AT_ONCE_MAX`] people and returns the outcome for each of them. All added people are durable
    /// on return.
    ///
    /// Returns [`Error::Limit`] if there are more people, and [`Error::Notes`] if the store fails.
    pub fn users_add(&self, new: &[NewUser]) -> Result<Vec<Result<Arc<Person>>>> {
        if new.len() > USERS_AT_ONCE_MAX {
            return Err(Error::Limit { quantity: "people added at once", max: USERS_AT_ONCE_MAX });
        }
        let secrets = self.secrets_of_all(new);
        let mut edit = self.edit()?;
        let mut added = Vec::with_capacity(new.len());
        for (new, secrets) in new.iter().zip(secrets) {
            added.push(match secrets.and_then(|secrets| self.user_save(&mut edit, new, secrets)) {
                // The error comes from the store and does not concern this person.
                Err(error @ Error::Notes(notes::Error::Store(_))) => return Err(error),
                outcome => outcome,
            });
        }
        self.commit_durable(edit)?;
        Ok(added)
    }

    fn secrets_of_all(&self, new: &[NewUser]) -> Vec<Result<Option<DerivedSecrets>>> {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let part = new.len().div_ceil(threads).max(1);
        let mut secrets = Vec::with_capacity(new.len());
        std::thread::scope(|scope| {
            let hash = |part: &'_ [NewUser]| part.iter().map(|new| self.secrets_of(new)).collect::<Vec<_>>();
            let running: Vec<_> = new.chunks(part).map(|part| scope.spawn(move || hash(part))).collect();
            for thread in running {
                secrets.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
        });
        secrets
    }
}
