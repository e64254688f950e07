//! Remembers which passwords were verified lately, so that a client that logs in every minute does not cost an
//! argon2 hash every minute.
//!
//! What is kept is a [`Proof`]: a keyed hash of login, password, the network address and the stored hash that the password was
//! checked against. The key is drawn when the program starts and never leaves it; passwords are not kept. Because the stored
//! hash is part of it, a changed password is another proof: nothing has to be invalidated and nothing can be forgotten to be.
//! Because the address is part of it, a stranger cannot try guesses against the memory while an account is locked for him.
//!
//! Logins with the same proof at the same time wait for one verdict ([`Verified::judge`]): fifty connections that a client
//! opens at once cost one hash, and count as one attempt.
//!
//! Bounded in number and in time; time counts from the verification, not from the last use.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Clock, Random};
use quick_cache::sync::Cache;

use crate::limits::{VERIFIED_ENTRIES_MAX, VERIFIED_TTL};
use crate::throttle::Network;

/// How much is remembered and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Most proofs that are remembered; zero switches the memory off.
    pub entries_max: usize,
    /// The time for which a proof is remembered.
    pub ttl: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { entries_max: VERIFIED_ENTRIES_MAX, ttl: VERIFIED_TTL }
    }
}

/// Stands for one login name, password, network and stored hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Proof([u8; 32]);

/// The passwords that were verified lately. Shared by all sessions.
pub struct Verified<V> {
    key: [u8; 32],
    options: Options,
    clock: Arc<dyn Clock>,
    /// Proof to the monotonic time of its verification.
    proofs: Cache<Proof, Duration>,
    /// The verifications under way, each with the one who waits for it.
    under_way: Mutex<HashMap<Proof, Arc<Verdict<V>>>>,
}

/// A verification under way; `None` until it ended, and again when it ended in a panic.
struct Verdict<V> {
    state: Mutex<State<V>>,
    ended: Condvar,
}

enum State<V> {
    Pending,
    Ended(V),
    /// The thread that verified is gone without a verdict.
    Abandoned,
}

impl<V: Clone> Verified<V> {
    /// Starts with nothing remembered and a key of its own.
    #[must_use]
    pub fn new(options: Options, clock: Arc<dyn Clock>, random: &dyn Random) -> Self {
        let mut key = [0; 32];
        random.fill(&mut key);
        let proofs = Cache::new(options.entries_max);
        Self { key, options, clock, proofs, under_way: Mutex::new(HashMap::new()) }
    }

    /// Gives the proof of a login; `stored` is the hash that the password is checked against.
    #[must_use]
    pub fn proof(&self, login: &str, password: &[u8], network: Network, stored: &str) -> Proof {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in [login.as_bytes(), password, &network.octets(), stored.as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Proof(*hasher.finalize().as_bytes())
    }

    /// Tells whether this was verified lately.
    #[must_use]
    pub fn contains(&self, proof: &Proof) -> bool {
        let now = self.clock.monotonic();
        let verified = self.proofs.get(proof);
        let fresh = verified.is_some_and(|at| now.saturating_sub(at) < self.options.ttl);
        if verified.is_some() && !fresh {
            self.proofs.remove(proof);
        }
        fresh
    }

    /// Remembers that this was verified.
    pub fn remember(&self, proof: Proof) {
        if self.options.entries_max > 0 {
            self.proofs.insert(proof, self.clock.monotonic());
        }
    }

    /// Runs `verify`, or waits for the verdict of whoever runs it for the same proof already.
    pub fn judge(&self, proof: Proof, verify: impl FnOnce() -> V) -> V {
        let (verdict, leads) = self.join(proof);
        if !leads {
            // A verdict that never came, because its thread panicked, is no verdict: this thread finds its own.
            return verdict.wait().unwrap_or_else(verify);
        }
        let lead = Lead { verified: self, proof, verdict };
        let outcome = verify();
        lead.verdict.end(State::Ended(outcome.clone()));
        outcome
    }

    /// Tells how many proofs are remembered.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.proofs.len()
    }

    fn join(&self, proof: Proof) -> (Arc<Verdict<V>>, bool) {
        let mut under_way = self.under_way();
        if let Some(verdict) = under_way.get(&proof) {
            return (Arc::clone(verdict), false);
        }
        let verdict = Arc::new(Verdict { state: Mutex::new(State::Pending), ended: Condvar::new() });
        under_way.insert(proof, Arc::clone(&verdict));
        (verdict, true)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Proof, Arc<Verdict<V>>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: Clone> Verdict<V> {
    fn wait(&self) -> Option<V> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*state {
                State::Pending => state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
                State::Ended(outcome) => return Some(outcome.clone()),
                State::Abandoned => return None,
            }
        }
    }
}

impl<V> Verdict<V> {
    /// Ends the wait, unless it has ended.
    fn end(&self, outcome: State<V>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Pending) {
            *state = outcome;
            self.ended.notify_all();
        }
    }
}

/// Takes the verification off the list when it ends, also by a panic, so that nobody waits for ever.
struct Lead<'a, V> {
    verified: &'a Verified<V>,
    proof: Proof,
    verdict: Arc<Verdict<V>>,
}

impl<V> Drop for Lead<'_, V> {
    fn drop(&mut self) {
        self.verified.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.proof);
        self.verdict.end(State::Abandoned);
    }
}

#[cfg(test)]
mod tests;
