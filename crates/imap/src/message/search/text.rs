//! The texts of a message in which SEARCH looks.
//!
//! With one key that looks at the body, parts are read and decoded one by one until it is found. With several, the
//! decoded parts are kept, so that none is decoded twice.

use mail::casemap::Needle;
use mail::searched::{find_in_body, find_in_header};

use crate::message::entry::Stored;

/// The texts of one message.
pub(super) struct Texts<'m, M> {
    pub(super) message: &'m M,
    keeps: bool,
    /// The folded texts of the body, once they were decoded to be kept.
    kept: Option<Vec<String>>,
}

impl<'m, M: Stored> Texts<'m, M> {
    /// Looks at a message; `keeps` says whether more than one key may look at its body.
    pub(super) fn new(message: &'m M, keeps: bool) -> Self {
        Self { message, keeps, kept: None }
    }

    /// Tells whether a text is in the header.
    pub(super) fn header_has(&self, needle: &Needle) -> bool {
        find_in_header(self.message.header(), &mut |text| needle.is_in_folded_field(text))
    }

    /// Tells whether a text is in the body.
    pub(super) fn body_has(&mut self, needle: &Needle) -> Result<bool, M::Error> {
        if !self.keeps {
            return find_in_body(self.message, &mut |text| needle.is_in_folded(text));
        }
        if self.kept.is_none() {
            let mut all = Vec::new();
            find_in_body(self.message, &mut |text| {
                all.push(text.to_owned());
                false
            })?;
            self.kept = Some(all);
        }
        Ok(self.kept.iter().flatten().any(|text| needle.is_in_folded(text)))
    }
}
