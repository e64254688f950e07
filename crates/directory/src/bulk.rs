//! Adding many people at once: one transaction for all of them, and one sync of the disk.
//!
//! Each person stands for itself: one that cannot be added is reported in its place and does not keep the others out. Passwords
//! are hashed on all processors before the transaction begins, because that takes by far the most time. The mail files are made when the
//! first mail comes or the first login.

use std::num::NonZero;
use std::sync::Arc;

use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::limits::USERS_AT_ONCE_MAX;
use crate::password::Secrets;
use crate::people::NewUser;
use crate::person::Person;

impl Directory {
    /// Adds people, at most [`USERS_AT_ONCE_MAX`]; tells of each what became of it. All that were added are durable on return.
    pub fn users_add(&self, new: &[NewUser]) -> Result<Vec<Result<Arc<Person>>>> {
        if new.len() > USERS_AT_ONCE_MAX {
            return Err(Error::Limit { what: "people added at once", max: USERS_AT_ONCE_MAX });
        }
        let secrets = self.secrets_of_all(new);
        let mut edit = self.edit()?;
        let mut added = Vec::with_capacity(new.len());
        for (new, secrets) in new.iter().zip(secrets) {
            added.push(match secrets.and_then(|secrets| self.user_save(&mut edit, new, secrets)) {
                // The store is at fault, not this person.
                Err(error @ Error::Notes(notes::Error::Store(_))) => return Err(error),
                outcome => outcome,
            });
        }
        self.finish(edit)?;
        Ok(added)
    }

    fn secrets_of_all(&self, new: &[NewUser]) -> Vec<Result<Option<Secrets>>> {
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
