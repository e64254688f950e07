//! The memory of calls: the bytes of all requests and replies in transit, counted against the budget of the server.
//!
//! [`base::memory`] has the budget, which calls share with the messages of the other protocols. An account has one
//! share of it, however many sessions and connections it has; a call without a session uses the share of its network.
//! If the budget or the share is used up, the call fails and others continue.
//!
//! [`crate::request_body`] accounts for requests, [`crate::response_body`] for replies.

use std::sync::{Arc, OnceLock};

use base::memory::{Exhausted, MemoryPermit};

use crate::error::Error;

const FULL: &str = "the server has no memory left for this call, try again later";
const SHARE_FULL: &str =
    "the calls of this account use all the memory that one account may use; wait until some of them have finished";

impl From<Exhausted> for Error {
    fn from(exhausted: Exhausted) -> Self {
        Self::Exhausted(match exhausted {
            Exhausted::Total => FULL,
            Exhausted::Share => SHARE_FULL,
        })
    }
}

/// The memory of a call's request. It is held until the last clone of the handle is dropped, that is, until all code
/// that serves the call has finished.
#[derive(Clone, Default)]
pub struct RequestMemory(Arc<OnceLock<MemoryPermit>>);

impl RequestMemory {
    /// Sets the memory of the call's only message.
    pub fn set(&self, memory: MemoryPermit) {
        let outcome = self.0.set(memory);
        debug_assert!(outcome.is_ok(), "a call has one message");
    }
}

#[cfg(test)]
mod tests {
    use base::memory::MemoryBudget;

    use super::*;

    #[test]
    fn request_memory_is_released_with_its_last_clone() {
        let budget = MemoryBudget::new(100);
        let memory = RequestMemory::default();
        let job = memory.clone();
        memory.set(budget.acquire(60).expect("within the limit"));
        drop(memory);
        assert_eq!(budget.available_bytes(), 40);
        drop(job);
        assert_eq!(budget.available_bytes(), 100);
    }

    #[test]
    fn refusal_tells_whose_memory_is_used_up() {
        let budget = MemoryBudget::new(100);
        let share = budget.share(60);
        let text =
            |budget: &MemoryBudget, bytes| budget.acquire(bytes).err().map(|error| Error::from(error).to_string());
        assert_eq!(text(&budget, 101).as_deref(), Some(FULL));
        assert_eq!(text(&share, 61).as_deref(), Some(SHARE_FULL));
    }
}
