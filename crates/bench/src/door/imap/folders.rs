//! The mailboxes of a user: listed, selected, found by the name of a workload, and created.

use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet::Alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

use super::StepContext;
use super::connection::{Command, Selected};
use super::memory::{KnownMailbox, Row};
use super::response::{Response, Value};
use crate::door::call::CallError;

/// The name of the inbox.
pub(super) const INBOX: &str = "INBOX";
/// The name of the folder with sent messages.
pub(super) const SENT: &str = "Sent";

/// Maximum number of mailboxes that a user remembers.
const MAILBOXES_MAX: usize = 100;
/// Maximum length of the name of a mailbox.
const NAME_BYTES_MAX: usize = 1_000;

impl StepContext<'_> {
    /// Returns the inbox.
    pub(super) fn inbox(&self) -> Arc<str> {
        Arc::from(INBOX)
    }

    /// Selects a mailbox, if it is not the one that is selected.
    pub(super) async fn ensure_selected(&mut self, mailbox: &Arc<str>) -> Result<(), CallError> {
        if self.connection.selected.as_ref().is_some_and(|selected| selected.name == *mailbox) {
            return Ok(());
        }
        self.select(mailbox).await
    }

    /// Selects a mailbox.
    pub(super) async fn select(&mut self, mailbox: &Arc<str>) -> Result<(), CallError> {
        self.connection.selected = Some(Selected { name: Arc::clone(mailbox), exists: 0, uid_validity: 0 });
        let selected = self.connection.call(self.count, Command::new("SELECT").string(mailbox)).await;
        if selected.is_err() {
            self.connection.selected = None;
        }
        selected.map(|_| ())
    }

    /// Selects the mailbox of a message. Returns `false` if its UID is not valid any more.
    pub(super) async fn select_row(&mut self, row: &Row) -> Result<bool, CallError> {
        self.ensure_selected(&row.mailbox).await?;
        let is_valid = self.connection.selected.as_ref().is_some_and(|now| now.uid_validity == row.uid_validity);
        if !is_valid {
            self.memory.forget(row);
        }
        Ok(is_valid)
    }

    /// Returns the number of messages of the mailbox that is selected. The server is asked if it has none.
    pub(super) async fn messages(&mut self) -> Result<u32, CallError> {
        if self.exists() == 0 {
            self.connection.call(self.count, Command::new("NOOP")).await?;
        }
        Ok(self.exists())
    }

    fn exists(&self) -> u32 {
        self.connection.selected.as_ref().map_or(0, |selected| selected.exists)
    }

    /// Lists the mailboxes of the user.
    pub(super) async fn list_mailboxes(&mut self) -> Result<(), CallError> {
        let mut mailboxes = Vec::new();
        let each = |response| {
            if let Response::Data { name, values } = response
                && name == "LIST"
                && mailboxes.len() < MAILBOXES_MAX
            {
                mailboxes.extend(known_mailbox(&values));
            }
        };
        self.connection.call_with(self.count, Command::new("LIST").words("\"\" \"*\""), each).await?;
        self.memory.mailboxes = Some(mailboxes);
        Ok(())
    }

    /// Returns the mailbox that a workload means, and creates it if there is none.
    pub(super) async fn mailbox(&mut self, name: &str) -> Result<Arc<str>, CallError> {
        if is_inbox(name) {
            return Ok(self.inbox());
        }
        if self.memory.mailboxes.is_none() {
            self.list_mailboxes().await?;
        }
        let wanted = encode_name(name);
        let known = self.memory.mailboxes.iter().flatten().find(|known| known.is_named(&wanted));
        if let Some(known) = known {
            return Ok(Arc::clone(&known.name));
        }
        self.create_mailbox(&wanted).await
    }

    async fn create_mailbox(&mut self, wanted: &str) -> Result<Arc<str>, CallError> {
        let prefix = self.personal_prefix().await?;
        let name: Arc<str> = format!("{prefix}{wanted}").into();
        let created = self.connection.call(self.count, Command::new("CREATE").string(&name)).await;
        match created {
            Err(error) if error.code != "no-alreadyexists" => return Err(error),
            _ => {}
        }
        let known = KnownMailbox { name: Arc::clone(&name), delimiter: None, is_sent: wanted == SENT };
        self.memory.mailboxes.get_or_insert_default().push(known);
        Ok(name)
    }

    /// Returns what the names of the user's own mailboxes begin with.
    async fn personal_prefix(&mut self) -> Result<String, CallError> {
        let has_namespaces = self.connection.capabilities.as_ref().is_some_and(|offered| offered.has("NAMESPACE"));
        let mut prefix = String::new();
        if has_namespaces {
            let each = |response| {
                if let Response::Data { name, values } = response
                    && name == "NAMESPACE"
                {
                    let personal = values.first().and_then(Value::list).and_then(|all| all.first());
                    let first = personal.and_then(Value::list).and_then(|parts| parts.first()).and_then(Value::text);
                    prefix = first.map(|text| text.into_owned()).unwrap_or_default();
                }
            };
            self.connection.call_with(self.count, Command::new("NAMESPACE"), each).await?;
        }
        prefix.truncate(prefix.floor_char_boundary(NAME_BYTES_MAX));
        Ok(prefix)
    }
}

impl KnownMailbox {
    /// Returns `true` if a workload means this mailbox: it has the name, its last level has the name, or it is the one
    /// with sent messages.
    fn is_named(&self, wanted: &str) -> bool {
        let last = self.delimiter.and_then(|delimiter| self.name.rsplit(delimiter).next());
        *self.name == *wanted || last == Some(wanted) || self.is_sent && wanted == SENT
    }
}

/// Returns the mailbox of a `LIST` response, if it can be selected.
fn known_mailbox(values: &[Value]) -> Option<KnownMailbox> {
    let [attributes, delimiter, name, ..] = values else { return None };
    let has = |wanted: &str| {
        let texts = attributes.list().into_iter().flatten().filter_map(Value::text);
        texts.into_iter().any(|attribute| attribute.eq_ignore_ascii_case(wanted))
    };
    let name = name.text().filter(|name| name.len() <= NAME_BYTES_MAX)?;
    let delimiter = delimiter.text().and_then(|text| text.chars().next());
    let is_selectable = !has("\\Noselect") && !has("\\NonExistent");
    is_selectable.then(|| KnownMailbox { name: name.as_ref().into(), delimiter, is_sent: has("\\Sent") })
}

fn is_inbox(name: &str) -> bool {
    name.eq_ignore_ascii_case(INBOX) || name == "($Inbox)"
}

/// Encodes the name of a mailbox as IMAP4rev1 writes it: other characters than those of ASCII as UTF-16 in base 64
/// between `&` and `-` (RFC 3501, section 5.1.3).
fn encode_name(name: &str) -> String {
    let alphabet = Alphabet::new("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,");
    let base64 = GeneralPurpose::new(&alphabet.expect("it has 64 characters"), NO_PAD);
    let mut encoded = String::with_capacity(name.len());
    let mut others = String::new();
    let flush = |others: &mut String, encoded: &mut String| {
        if !others.is_empty() {
            let bytes: Vec<u8> = others.encode_utf16().flat_map(u16::to_be_bytes).collect();
            encoded.push('&');
            base64.encode_string(bytes, encoded);
            encoded.push('-');
            others.clear();
        }
    };
    for character in name.chars() {
        if character == ' ' || character.is_ascii_graphic() {
            flush(&mut others, &mut encoded);
            encoded.push(character);
            if character == '&' {
                encoded.push('-');
            }
        } else {
            others.push(character);
        }
    }
    flush(&mut others, &mut encoded);
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        let check = |name, expected| assert_eq!(encode_name(name), expected);
        check("Archive", "Archive");
        check("R & D", "R &- D");
        check("Entw\u{fc}rfe", "Entw&APw-rfe");
        check("\u{53f0}\u{5317}", "&U,BTFw-");
        check("\u{1f600}", "&2D3eAA-");
        check("a\r\nb", "a&AA0ACg-b");
    }

    #[test]
    fn mailboxes_are_found_by_name_level_or_use() {
        let known = |name: &str, delimiter, is_sent| KnownMailbox { name: name.into(), delimiter, is_sent };
        assert!(known("Archive", Some('/'), false).is_named("Archive"));
        assert!(known("INBOX.Archive", Some('.'), false).is_named("Archive"));
        assert!(!known("INBOX.Archive", Some('/'), false).is_named("Archive"));
        assert!(known("Gesendet", None, true).is_named("Sent"));
        assert!(!known("Gesendet", None, false).is_named("Sent"));
    }
}
