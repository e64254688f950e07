//! Filling the mail file of a user with messages, before a run.
//!
//! Messages arrive over LMTP, or over SMTP if the target has no LMTP: POP3 cannot store any. They have no marks,
//! because POP3 knows none. Messages that are there already stay.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Pop3Settings;
use crate::door::StepError;
use crate::door::call::{CallCount, CallError, MALFORMED_CODE, limited};
use crate::population::memos::StoredMemo;

/// The longest time until messages that were delivered are in the inbox.
const ARRIVAL_TIME_MAX: Duration = Duration::from_secs(120);
/// The time between two looks at the inbox. Each of them is a session of its own.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Adds messages to the inbox of a user, in order. Those that are there already stay. Each session and each delivery of
/// a message has a time limit.
///
/// # Errors
///
/// The first call that failed, or if the target has neither LMTP nor SMTP and there is something to fill.
pub async fn fill_mail_file(
    settings: &Pop3Settings,
    user: u64,
    memos: impl Iterator<Item = StoredMemo> + Send,
    time_limit: Duration,
) -> Result<(), StepError> {
    let mut filling = Filling { settings, user, count: CallCount::default(), time_limit };
    filling.fill(memos).await.map_err(|error| error.into_step_error(filling.count))
}

/// The filling of a mail file.
struct Filling<'a> {
    settings: &'a Pop3Settings,
    user: u64,
    count: CallCount,
    time_limit: Duration,
}

impl Filling<'_> {
    async fn fill(&mut self, memos: impl Iterator<Item = StoredMemo> + Send) -> Result<(), CallError> {
        let before = self.messages().await?;
        let mut memos = memos.peekable();
        if memos.peek().is_none() {
            return Ok(());
        }
        let mail = &self.settings.mail;
        let text = "POP3 stores no messages: mail files are filled over LMTP or SMTP, so the target needs an address \
            for one of them, or --documents 0";
        let pool = mail.delivery.as_ref().ok_or_else(|| CallError::kept("not-offered", text))?;
        let address = mail.names.address(self.user);
        let mut expected = before;
        for memo in memos {
            mail.deliver_stored(&mut self.count, pool, (&address, &memo), self.time_limit).await?;
            expected += 1;
        }
        self.wait_for_messages(expected).await
    }

    /// Waits until the inbox has so many messages.
    async fn wait_for_messages(&mut self, expected: u64) -> Result<(), CallError> {
        let deadline = Instant::now() + ARRIVAL_TIME_MAX;
        loop {
            let messages = self.messages().await?;
            if messages >= expected {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let text = format!("of {expected} messages, {messages} are in the inbox two minutes later");
                return Err(CallError::kept("not-delivered", text));
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Returns the number of messages in the inbox, by a session of its own.
    async fn messages(&mut self) -> Result<u64, CallError> {
        let count = &mut self.count;
        let look = async {
            let mut connection = self.settings.log_in(self.user, count).await?;
            let status = connection.call(count, "STAT").await?;
            connection.quit(count).await?;
            let messages = status.split(' ').next().and_then(|messages| messages.parse().ok());
            messages.ok_or_else(|| CallError::lost(MALFORMED_CODE, "STAT: the reply has no number of messages"))
        };
        limited(self.time_limit, look).await
    }
}
