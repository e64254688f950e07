//! A cache of recently verified passwords, so that a client that logs in every minute does not cost an argon2 hash
//! every minute.
//!
//! The cache holds [`Proof`]s: keyed hashes of login, password, network address and the stored hash that the password
//! was checked against. The key is generated at program start and never leaves the process; passwords are not kept. The
//! stored hash is part of the proof, so a changed password has another proof, and no invalidation is needed. The
//! network address is part of the proof, so an attacker cannot test guesses against the cache while the account is
//! locked for the attacker.
//!
//! Concurrent logins with the same proof share one verdict ([`PasswordCache::verify_shared`]): fifty connections that a
//! client opens at once cost one hash and count as one attempt.
//!
//! The cache is bounded in number and in time. The time counts from the verification, not from the last use.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::sync::{Condvar, Mutex, MutexGuard};
use base::{Clock, Random};
use quick_cache::sync::Cache;

use crate::limits::{VERIFIED_ENTRIES_MAX, VERIFIED_TTL};
use crate::throttle::Network;

/// Capacity and lifetime of the cache.
#[derive(Debug, Clone, Copy)]
pub struct PasswordCacheOptions {
    /// Maximum number of proofs; 0 disables the cache.
    pub entries_max: usize,
    /// Time for which a proof is kept.
    pub ttl: Duration,
}

impl Default for PasswordCacheOptions {
    fn default() -> Self {
        Self { entries_max: VERIFIED_ENTRIES_MAX, ttl: VERIFIED_TTL }
    }
}

/// A keyed hash that identifies one combination of login name, password, network and stored hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Proof([u8; 32]);

/// The cache of recently verified passwords, shared by all sessions.
pub struct PasswordCache<V> {
    key: [u8; 32],
    options: PasswordCacheOptions,
    clock: Arc<dyn Clock>,
    /// Monotonic time of verification by proof.
    proofs: Cache<Proof, Duration>,
    /// Verifications in progress by proof, each with the verdict that other logins wait for.
    in_progress: Mutex<HashMap<Proof, Arc<SharedVerdict<V>>>>,
}

/// The shared verdict of a verification. Waiters get `None` if the verification ended in a panic.
struct SharedVerdict<V> {
    state: Mutex<State<V>>,
    ended: Condvar,
}

enum State<V> {
    Pending,
    Ended(V),
    /// The verifying thread ended without a verdict.
    Abandoned,
}

impl<V: Clone> PasswordCache<V> {
    /// Creates an empty cache with a new key.
    #[must_use]
    pub fn new(options: PasswordCacheOptions, clock: Arc<dyn Clock>, random: &dyn Random) -> Self {
        let mut key = [0; 32];
        random.fill(&mut key);
        let proofs = Cache::new(options.entries_max);
        Self { key, options, clock, proofs, in_progress: Mutex::new(HashMap::new()) }
    }

    /// Returns the proof of a login. `stored` is the hash that the password is checked against.
    #[must_use]
    pub fn proof(&self, login: &str, password: &[u8], network: Network, stored: &str) -> Proof {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in [login.as_bytes(), password, &network.octets(), stored.as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Proof(*hasher.finalize().as_bytes())
    }

    /// Returns `true` if the proof was verified recently.
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

    /// Adds a verified proof.
    pub fn insert(&self, proof: Proof) {
        if self.options.entries_max > 0 {
            self.proofs.insert(proof, self.clock.monotonic());
        }
    }

    /// Runs `verify`, or waits for the verdict if another thread already runs it for the same proof.
    pub fn verify_shared(&self, proof: Proof, verify: impl FnOnce() -> V) -> V {
        let (verdict, leads) = self.join(proof);
        if !leads {
            // If the other thread panicked, there is no verdict, and this thread runs its own verification.
            return verdict.wait().unwrap_or_else(verify);
        }
        let lead = VerificationGuard { verified: self, proof, verdict };
        let outcome = verify();
        lead.verdict.end(State::Ended(outcome.clone()));
        outcome
    }

    /// Returns the number of proofs in the cache.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.proofs.len()
    }

    fn join(&self, proof: Proof) -> (Arc<SharedVerdict<V>>, bool) {
        let mut in_progress = self.lock_in_progress();
        if let Some(verdict) = in_progress.get(&proof) {
            return (Arc::clone(verdict), false);
        }
        let verdict = Arc::new(SharedVerdict { state: Mutex::new(State::Pending), ended: Condvar::new() });
        in_progress.insert(proof, Arc::clone(&verdict));
        (verdict, true)
    }

    fn lock_in_progress(&self) -> MutexGuard<'_, HashMap<Proof, Arc<SharedVerdict<V>>>> {
        self.in_progress.lock()
    }
}

impl<V: Clone> SharedVerdict<V> {
    fn wait(&self) -> Option<V> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Pending => self.ended.wait(&mut state),
                State::Ended(outcome) => return Some(outcome.clone()),
                State::Abandoned => return None,
            }
        }
    }
}

impl<V> SharedVerdict<V> {
    /// Sets the outcome and wakes the waiters. Has no effect if the outcome is already set.
    fn end(&self, outcome: State<V>) {
        let mut state = self.state.lock();
        if matches!(*state, State::Pending) {
            *state = outcome;
            self.ended.notify_all();
        }
    }
}

/// A guard that removes the verification from the list when it ends, even by a panic, so that no waiter blocks forever.
struct VerificationGuard<'a, V> {
    verified: &'a PasswordCache<V>,
    proof: Proof,
    verdict: Arc<SharedVerdict<V>>,
}

impl<V> Drop for VerificationGuard<'_, V> {
    fn drop(&mut self) {
        self.verified.in_progress.lock().remove(&self.proof);
        self.verdict.end(State::Abandoned);
    }
}

#[cfg(test)]
mod tests;
