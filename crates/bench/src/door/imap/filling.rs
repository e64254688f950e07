//! Filling the mail file of a user with messages, before a run.
//!
//! Messages arrive over LMTP if the target has it. Then the mail file has the same content as in production, and those
//! that are read are marked afterwards. Otherwise they are appended with their marks, several with a command if the
//! server offers MULTIAPPEND. Messages that are there already stay.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::ImapSettings;
use super::connection::{Command, ImapConnection, Selected};
use super::folders::INBOX;
use super::response::StatusResponse;
use super::session;
use crate::door::StepError;
use crate::door::call::{CallCount, CallError, limited};
use crate::door::smtp::Dialect;
use crate::door::smtp::delivery::DeliveryPool;
use crate::population::memos::StoredMemo;

/// Maximum number of messages, and of their bytes, that are appended with a command.
const BATCH_MAX: usize = 20;
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Maximum length of a list of message numbers in a command.
const SET_BYTES_MAX: usize = 4_000;
/// The longest time until messages that were delivered are in the inbox.
const ARRIVAL_TIME_MAX: Duration = Duration::from_secs(120);
/// The time between two looks at the inbox.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Adds messages to the inbox of a user, in order. Those that are there already stay. Each call has a time limit, and
/// so has each delivery of a message.
///
/// # Errors
///
/// The first call that failed.
pub async fn fill_mail_file(
    settings: &ImapSettings,
    user: u64,
    memos: impl Iterator<Item = StoredMemo> + Send,
    time_limit: Duration,
) -> Result<(), StepError> {
    let mut count = CallCount::default();
    let connection = limited(time_limit, session::log_in(settings, user, &mut count)).await;
    let connection = connection.map_err(|error| error.into_step_error(count))?;
    let mut filling = Filling { settings, address: settings.mail.names.address(user), connection, count, time_limit };
    let filled = match settings.mail.delivery.as_ref().filter(|pool| pool.dialect() == Dialect::Lmtp) {
        Some(pool) => filling.deliver_all(pool, memos).await,
        None => filling.append_all(memos).await,
    };
    filled.map_err(|error| error.into_step_error(filling.count))?;
    // The server may close the connection before its last response.
    let _ = filling.call(Command::new("LOGOUT")).await;
    filling.connection.close().await;
    Ok(())
}

/// The filling of a mail file.
struct Filling<'a> {
    settings: &'a ImapSettings,
    address: String,
    connection: ImapConnection,
    count: CallCount,
    time_limit: Duration,
}

impl Filling<'_> {
    /// Delivers messages, and marks those that are read.
    async fn deliver_all(
        &mut self,
        pool: &DeliveryPool,
        memos: impl Iterator<Item = StoredMemo> + Send,
    ) -> Result<(), CallError> {
        let mut memos = memos.peekable();
        if memos.peek().is_none() {
            return Ok(());
        }
        self.select_inbox().await?;
        let before = self.exists();
        let mut last = before;
        let mut read = NumberSets::default();
        for memo in memos {
            let mail = &self.settings.mail;
            mail.deliver_stored(&mut self.count, pool, (&self.address, &memo), self.time_limit).await?;
            last += 1;
            if !memo.is_unread {
                read.add(last);
            }
        }
        self.wait_for_messages(last).await?;
        for set in read.sets {
            let command = Command::new("STORE").words(&format!("{set} +FLAGS.SILENT (\\Seen)"));
            self.call(command).await?;
        }
        Ok(())
    }

    async fn append_all(&mut self, memos: impl Iterator<Item = StoredMemo> + Send) -> Result<(), CallError> {
        let offers_several = self.connection.capabilities.as_ref().is_some_and(|offered| offered.has("MULTIAPPEND"));
        let messages_max = if offers_several { BATCH_MAX } else { 1 };
        let mut batch = Vec::new();
        for memo in memos {
            let message = self.settings.mail.stored_message(&self.address, &memo);
            batch.push((memo.is_unread, message));
            let bytes: usize = batch.iter().map(|(_, message)| message.len()).sum();
            if batch.len() >= messages_max || bytes >= BATCH_BYTES_MAX {
                self.append(std::mem::take(&mut batch)).await?;
            }
        }
        if batch.is_empty() { Ok(()) } else { self.append(batch).await }
    }

    async fn append(&mut self, messages: Vec<(bool, Vec<u8>)>) -> Result<(), CallError> {
        let mut command = Command::new("APPEND").string(INBOX);
        for (is_unread, message) in messages {
            command = command.words(if is_unread { "()" } else { "(\\Seen)" }).literal(message);
        }
        self.call(command).await?;
        Ok(())
    }

    async fn select_inbox(&mut self) -> Result<(), CallError> {
        self.connection.selected = Some(Selected { name: INBOX.into(), exists: 0, uid_validity: 0 });
        self.call(Command::new("SELECT").string(INBOX)).await?;
        Ok(())
    }

    async fn call(&mut self, command: Command) -> Result<StatusResponse, CallError> {
        limited(self.time_limit, self.connection.call(&mut self.count, command)).await
    }

    fn exists(&self) -> u32 {
        self.connection.selected.as_ref().map_or(0, |selected| selected.exists)
    }

    /// Waits until the inbox has so many messages.
    async fn wait_for_messages(&mut self, messages: u32) -> Result<(), CallError> {
        let deadline = Instant::now() + ARRIVAL_TIME_MAX;
        loop {
            self.call(Command::new("NOOP")).await?;
            let exists = self.exists();
            if exists >= messages {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let text = format!("of {messages} messages, {exists} are in the inbox two minutes later");
                return Err(CallError::kept("not-delivered", text));
            }
            sleep(LOOK_INTERVAL).await;
        }
    }
}

/// Ascending numbers of messages, as lists of ranges of limited length.
#[derive(Debug, Default)]
struct NumberSets {
    sets: Vec<String>,
    last: Option<(u32, u32)>,
    /// Where the last range of the last list begins.
    range_at: usize,
}

impl NumberSets {
    fn add(&mut self, number: u32) {
        let range = match self.last {
            Some((first, last)) if last + 1 == number => (first, number),
            _ => {
                self.begin_range();
                (number, number)
            }
        };
        self.last = Some(range);
        let Some(set) = self.sets.last_mut() else { return };
        set.truncate(self.range_at);
        let (first, last) = range;
        set.push_str(&if first == last { first.to_string() } else { format!("{first}:{last}") });
    }

    fn begin_range(&mut self) {
        match self.sets.last_mut().filter(|set| set.len() < SET_BYTES_MAX) {
            Some(set) => set.push(','),
            None => self.sets.push(String::new()),
        }
        self.range_at = self.sets.last().map_or(0, String::len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
        let mut sets = NumberSets::default();
        numbers.into_iter().for_each(|number| sets.add(number));
        sets.sets
    }

    #[test]
    fn numbers_are_joined_to_ranges() {
        assert_eq!(sets([1, 2, 3, 5, 7, 8]), ["1:3,5,7:8"]);
        assert_eq!(sets([9]), ["9"]);
        assert!(sets([]).is_empty());
        assert_eq!(sets(1..=100_000), ["1:100000"]);
    }

    #[test]
    fn long_lists_are_divided() {
        let all = sets((1..10_000).map(|number| number * 2));
        assert!(all.len() > 10 && all.iter().all(|set| set.len() < SET_BYTES_MAX + 20), "{}", all.len());
        let numbers: Vec<u32> =
            all.iter().flat_map(|set| set.split(',')).map(|word| word.parse().expect("a number")).collect();
        assert!(numbers.iter().copied().eq((1..10_000).map(|number| number * 2)));
    }
}
