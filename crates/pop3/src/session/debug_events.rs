//! Debug events about a session for the log: its replies.
//!
//! They have the target `pop3` and are written only if `log.filter` enables them (`pop3=debug`). An event names the
//! connection, the verb of the command, the status of the reply, and whether the client has logged in. It never
//! contains anything else of what the client sent or received: no arguments, challenges or responses of a login,
//! texts of replies, or messages.

use super::{Session, State};

impl Session {
    /// Reports the reply to the current command.
    pub(crate) fn log_reply(&self, reply: &str) {
        self.log(self.verb, reply);
    }

    /// Reports a reply that answers no command: the greeting, or the end of the session.
    pub(crate) fn log_reply_without_command(&self, reply: &str) {
        self.log("", reply);
    }

    /// Returns `true` after login.
    pub(crate) fn is_logged_in(&self) -> bool {
        matches!(self.state, State::Transaction(_))
    }

    fn log(&self, verb: &'static str, reply: &str) {
        tracing::debug!(
            target: "pop3",
            connection = self.peer.connection,
            peer = %self.peer,
            verb,
            status = status(reply),
            logged_in = self.is_logged_in(),
            "replied"
        );
    }
}

/// Returns the status of a reply. `+` is a challenge of a login.
fn status(reply: &str) -> &'static str {
    match reply.split([' ', '\r']).next() {
        Some("+OK") => "+OK",
        Some("-ERR") => "-ERR",
        _ => "+",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_the_first_word() {
        let check = |reply: &str, expected: &str| assert_eq!(status(reply), expected, "{reply:?}");
        check("+OK 1 messages (33 octets)\r\n", "+OK");
        check("-ERR [AUTH] wrong login or password\r\n", "-ERR");
        check("+ VXNlcm5hbWU6\r\n", "+");
        check("+ \r\n", "+");
    }
}
