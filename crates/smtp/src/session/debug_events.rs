//! Debug events about a session for the log: its replies.
//!
//! They have the target `smtp` and are written only if `log.filter` enables them (`smtp=debug`). An event names the
//! connection, the verb of the command, the reply code and the login. It never contains anything else of what the
//! client sent: no arguments and so no addresses, passwords or messages. It does not contain the text of the reply
//! either, because a reply may repeat an address.
//!
//! The replies are read from the output, so that no command can reply without an event.

use tracing::Level;

use super::Session;

impl Session {
    /// Reports the replies in the output after its first `start` bytes. A reply of several lines is one event.
    pub(super) fn log_replies(&self, out: &[u8], start: usize) {
        if !tracing::enabled!(target: "smtp", Level::DEBUG) {
            return;
        }
        for code in reply_codes(out.get(start..).unwrap_or_default()) {
            tracing::debug!(
                target: "smtp",
                connection = self.peer.connection,
                peer = %self.peer,
                verb = self.verb,
                code,
                login = self.login.as_deref(),
                "replied"
            );
        }
    }
}

/// Returns the code of each reply in the output.
fn reply_codes(out: &[u8]) -> impl Iterator<Item = u16> {
    out.split(|byte| *byte == b'\n').filter_map(code_of_last_line)
}

/// Returns the reply code of a line if it is the last line of its reply.
fn code_of_last_line(line: &[u8]) -> Option<u16> {
    let (code, text) = line.split_at_checked(3)?;
    if text.first() != Some(&b' ') {
        return None;
    }
    std::str::from_utf8(code).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_of_several_lines_has_one_code() {
        let check = |out: &str, expected: &[u16]| {
            assert_eq!(reply_codes(out.as_bytes()).collect::<Vec<_>>(), expected, "{out:?}");
        };
        check("", &[]);
        check("250 2.1.0 Ok\r\n", &[250]);
        check("250-mx.example\r\n250-PIPELINING\r\n250 HELP\r\n", &[250]);
        check("535 5.7.8 Authentication failed\r\n421 4.7.0 Too many failures\r\n", &[535, 421]);
        check("334 \r\n", &[334]);
    }
}
