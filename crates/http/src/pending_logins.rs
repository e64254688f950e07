//! Logins that wait for a code of the second factor: the password was right, and no session has begun.
//!
//! They are in memory only. After a restart, the person enters the password again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::sync::Mutex;
use base::{Clock, Random, hex};

use crate::limits::{CODE_TRIES_MAX, PENDING_LOGIN_TIME_MAX, PENDING_LOGINS_MAX, PENDING_LOGINS_PER_PERSON_MAX};
use crate::sessions::{SessionId, SessionLogin, Sessions};

/// Number of random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// The logins that wait for a code.
pub struct PendingLogins {
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    by_token: Mutex<HashMap<SessionId, PendingLogin>>,
}

struct PendingLogin {
    login: SessionLogin,
    /// Monotonic time of its beginning.
    begun: Duration,
    /// Number of codes that were tried.
    tries: u32,
}

impl PendingLogins {
    /// Creates an empty list with the clock and the random numbers of the sessions.
    #[must_use]
    pub fn new(sessions: &Sessions) -> Self {
        let (clock, random) = sessions.sources();
        Self { clock, random, by_token: Mutex::default() }
    }

    /// Adds a login. Returns its token. Those beyond the limits that have waited longest are removed.
    pub(crate) fn add(&self, login: SessionLogin) -> String {
        let mut token = [0; TOKEN_BYTES];
        self.random.fill(&mut token);
        let token = hex::lower(&token);
        let now = self.clock.monotonic();
        let mut by_token = self.by_token.lock();
        by_token.retain(|_, pending| pending.is_valid(now));
        let of_person = |pending: &PendingLogin| pending.login.login == login.login;
        let own = by_token.values().filter(|pending| of_person(pending)).count();
        let candidates =
            by_token.iter().filter(|(_, pending)| own < PENDING_LOGINS_PER_PERSON_MAX || of_person(pending));
        let oldest = candidates.min_by_key(|(_, pending)| pending.begun).map(|(id, _)| *id);
        let is_full = own >= PENDING_LOGINS_PER_PERSON_MAX || by_token.len() >= PENDING_LOGINS_MAX;
        if let Some(oldest) = oldest.filter(|_| is_full) {
            by_token.remove(&oldest);
        }
        by_token.insert(SessionId::of_token(&token), PendingLogin { login, begun: now, tries: 0 });
        token
    }

    /// Counts a code that is tried for a login, and returns the login. Returns `None` if it has waited too long or too
    /// many codes were tried.
    pub(crate) fn try_code(&self, token: &str) -> Option<SessionLogin> {
        let now = self.clock.monotonic();
        let mut by_token = self.by_token.lock();
        let pending = by_token.get_mut(&SessionId::of_token(token)).filter(|pending| pending.is_valid(now))?;
        pending.tries += 1;
        Some(pending.login.clone())
    }

    /// Takes a code back that was tried, because it could not be checked.
    pub(crate) fn withdraw_code(&self, token: &str) {
        if let Some(pending) = self.by_token.lock().get_mut(&SessionId::of_token(token)) {
            pending.tries = pending.tries.saturating_sub(1);
        }
    }

    /// Removes a login, because it is complete.
    pub(crate) fn remove(&self, token: &str) {
        self.by_token.lock().remove(&SessionId::of_token(token));
    }
}

impl PendingLogin {
    fn is_valid(&self, now: Duration) -> bool {
        now.saturating_sub(self.begun) < PENDING_LOGIN_TIME_MAX && self.tries < CODE_TRIES_MAX
    }
}

#[cfg(test)]
mod tests {
    use base::sim::{SeededRandom, SimClock};
    use sasl::LoginPassword;

    use super::*;

    fn login(name: &str) -> SessionLogin {
        SessionLogin { login: name.to_owned(), stamp: 1, password: LoginPassword::Account, factor: None }
    }

    fn world() -> (Arc<SimClock>, PendingLogins) {
        let clock = Arc::new(SimClock::default());
        let by_clock: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        let random = Arc::new(SeededRandom::new(3));
        (clock, PendingLogins { clock: by_clock, random, by_token: Mutex::default() })
    }

    #[test]
    fn logins_end_after_some_time_and_some_codes() {
        let (clock, pending) = world();
        let token = pending.add(login("ann"));
        for _ in 0..CODE_TRIES_MAX {
            assert_eq!(pending.try_code(&token), Some(login("ann")));
        }
        assert_eq!(pending.try_code(&token), None);
        // Codes that could not be checked are no tries.
        let token = pending.add(login("ann"));
        for _ in 0..2 * CODE_TRIES_MAX {
            assert_eq!(pending.try_code(&token), Some(login("ann")));
            pending.withdraw_code(&token);
        }
        let token = pending.add(login("ann"));
        clock.advance(PENDING_LOGIN_TIME_MAX);
        assert_eq!(pending.try_code(&token), None);
        let token = pending.add(login("ann"));
        pending.remove(&token);
        assert_eq!(pending.try_code(&token), None);
        assert_eq!(pending.try_code("unknown"), None);
    }

    #[test]
    fn number_of_logins_is_limited() {
        let (clock, pending) = world();
        let of_bob = pending.add(login("bob"));
        let first = pending.add(login("ann"));
        for _ in 0..PENDING_LOGINS_PER_PERSON_MAX {
            clock.advance(Duration::from_millis(1));
            pending.add(login("ann"));
        }
        assert_eq!(pending.try_code(&first), None, "the oldest one of the person was removed");
        assert_eq!(pending.try_code(&of_bob), Some(login("bob")), "others stay");
    }
}
