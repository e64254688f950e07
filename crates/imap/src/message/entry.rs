//! Interfaces through which rendering and matching access a message.
//!
//! [`EntryData`] is the data that a folder keeps of each message, which is sufficient for most questions.
//! [`MessageSource`] is an opened message: its bytes ([`MimeSource`]) and its ids. The session implements both on top
//! of the `mail` crate.

use base::Timestamp;
use mail::mailbox::HeadText;
use mail::mime::MimeSource;

use crate::codec::command::SystemFlags;

/// The data that a folder keeps of a message.
pub trait EntryData {
    /// Returns the UID.
    fn uid(&self) -> u32;
    /// Returns the system flags.
    fn flags(&self) -> SystemFlags;
    /// Returns `true` if the keyword is set. Case is ignored.
    fn has_keyword(&self, keyword: &str) -> bool;
    /// Returns `true` if the message is recent in this session.
    fn is_recent(&self) -> bool;
    /// Returns `true` if the message has changed at a mod-sequence of the client or later.
    fn is_changed_since(&self, mod_sequence: u64) -> bool;
    /// Returns the size in bytes.
    fn size(&self) -> u64;
    /// Returns the internal date.
    fn received(&self) -> Timestamp;
    /// Returns the time at which the message was saved to the folder, or `None` if it is unknown.
    fn saved(&self) -> Option<Timestamp>;
    /// Returns `true` if the message is known not to contain the text with this number in the part that the search
    /// names ([`super::SearchPlan::sought_texts`]).
    fn is_known_not_to_contain(&self, number: usize) -> bool;
}

/// An opened message.
pub trait MessageSource: MimeSource {
    /// Returns the EMAILID (RFC 8474).
    fn email_id(&self) -> Result<String, Self::Error>;
    /// Returns the THREADID, or `None` if the message has none.
    fn thread_id(&self) -> Result<Option<String>, Self::Error>;
    /// Returns a text that [`MessageSource::cache_head_text`] has cached, or `None` if none is cached.
    fn head_text(&self, _: HeadText) -> Option<&[u8]> {
        None
    }
    /// Caches a text for the next request.
    fn cache_head_text(&self, _: HeadText, _: &[u8]) {}
}
