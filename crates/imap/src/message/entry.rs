//! What rendering and matching ask about a message besides its bytes.
//!
//! [`Entry`] is what a folder keeps of each message, so that most questions need no more than that. [`Stored`] is
//! a message that was opened: its bytes ([`Source`]) and its names. The session implements both over the mail room.

use base::Timestamp;
use mail::mime::Source;

use crate::codec::ast::SystemFlags;

/// What a folder keeps of a message.
pub trait Entry {
    /// Gives the UID.
    fn uid(&self) -> u32;
    /// Gives the system flags.
    fn flags(&self) -> SystemFlags;
    /// Tells whether a keyword is set; case does not count.
    fn has_keyword(&self, keyword: &str) -> bool;
    /// Tells whether the message is recent in this session.
    fn is_recent(&self) -> bool;
    /// Gives the mod-sequence.
    fn mod_sequence(&self) -> u64;
    /// Gives the size in bytes.
    fn size(&self) -> u64;
    /// Gives the internal date.
    fn received(&self) -> Timestamp;
    /// Gives the moment when the message came into the folder, if that is known.
    fn saved(&self) -> Option<Timestamp>;
    /// Tells whether it is known that the message has not the text of this number in the place that goes with it ([`super::Plan::sought`]).
    fn lacks(&self, number: usize) -> bool;
}

/// A message that was opened.
pub trait Stored: Source {
    /// Gives the EMAILID (RFC 8474).
    fn email_id(&self) -> Result<String, Self::Error>;
    /// Gives the THREADID, if there is one.
    fn thread_id(&self) -> Result<Option<String>, Self::Error>;
}
