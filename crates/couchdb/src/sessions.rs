//! Cookie sessions: logins that a client makes once and then refers to by a random token.
//!
//! Only digests of the tokens are kept, in memory: a restart ends all sessions, and clients log in again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::sync::Mutex;
use base::{Clock, Random, hex};

use crate::limits::{SESSION_AGE_MAX, SESSION_IDLE_MAX, SESSIONS_MAX};

/// Number of random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// The sessions.
pub struct Sessions {
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    by_digest: Mutex<HashMap<[u8; 32], Session>>,
}

struct Session {
    login: String,
    stamp: u64,
    begun: Duration,
    used: Duration,
}

/// The login of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLogin {
    /// The login.
    pub login: String,
    /// The state of the password when the session began.
    pub stamp: u64,
}

impl Sessions {
    /// Creates an empty set of sessions.
    pub fn new(clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Self { clock, random, by_digest: Mutex::default() }
    }

    /// Begins a session and returns its token.
    pub fn begin(&self, login: SessionLogin) -> String {
        let mut token = [0; TOKEN_BYTES];
        self.random.fill(&mut token);
        let token = hex::lower(&token);
        let now = self.clock.monotonic();
        let mut sessions = self.by_digest.lock();
        if sessions.len() >= SESSIONS_MAX {
            sessions.retain(|_, session| session.is_valid(now));
        }
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used).map(|(digest, _)| *digest);
            oldest.map(|digest| sessions.remove(&digest));
        }
        let SessionLogin { login, stamp } = login;
        sessions.insert(digest(&token), Session { login, stamp, begun: now, used: now });
        token
    }

    /// Returns the login of the session with a token, and counts the use.
    pub fn find(&self, token: &str) -> Option<SessionLogin> {
        let now = self.clock.monotonic();
        let mut sessions = self.by_digest.lock();
        let session = sessions.get_mut(&digest(token))?;
        if !session.is_valid(now) {
            sessions.remove(&digest(token));
            return None;
        }
        session.used = now;
        Some(SessionLogin { login: session.login.clone(), stamp: session.stamp })
    }

    /// Ends the session with a token.
    pub fn end(&self, token: &str) {
        self.by_digest.lock().remove(&digest(token));
    }
}

impl Session {
    fn is_valid(&self, now: Duration) -> bool {
        now.saturating_sub(self.used) < SESSION_IDLE_MAX && now.saturating_sub(self.begun) < SESSION_AGE_MAX
    }
}

/// Returns the digest of a token. A lookup by it takes no time that depends on the token's digits.
fn digest(token: &str) -> [u8; 32] {
    *blake3::hash(token.as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use base::sim::{SeededRandom, SimClock};

    use super::*;

    #[test]
    fn sessions_end_by_logout_idleness_and_age() {
        let clock = Arc::new(SimClock::new());
        let sessions = Sessions::new(clock.clone(), Arc::new(SeededRandom::new(1)));
        let login = SessionLogin { login: "Ann/Acme".to_owned(), stamp: 7 };
        let first = sessions.begin(login.clone());
        let second = sessions.begin(login.clone());
        assert_ne!(first, second);
        assert_eq!(sessions.find(&first), Some(login.clone()));
        assert_eq!(sessions.find("0000"), None);
        sessions.end(&first);
        assert_eq!(sessions.find(&first), None);
        clock.advance(SESSION_IDLE_MAX);
        assert_eq!(sessions.find(&second), None, "nobody has used it");
        let third = sessions.begin(login.clone());
        let steps = SESSION_AGE_MAX.as_secs() / SESSION_IDLE_MAX.as_secs() * 2;
        for _ in 0..steps {
            assert_eq!(sessions.find(&third), Some(login.clone()));
            clock.advance(SESSION_IDLE_MAX / 2);
        }
        assert_eq!(sessions.find(&third), None, "it is too old");
    }
}
