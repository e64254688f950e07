//! The texts of a message that SEARCH examines.
//!
//! If only one key examines the body, the parts are read and decoded one by one until the text is found. If several
//! keys do, the decoded parts are kept, so that no part is decoded twice.

use mail::casemap::Needle;
use mail::search_texts::{find_in_body, find_in_header};

use crate::message::entry::MessageSource;

/// The texts of one message.
pub(super) struct SearchTexts<'m, M> {
    pub(super) message: &'m M,
    keeps: bool,
    /// The folded texts of the body, once they have been decoded. Used only if they are kept.
    kept: Option<Vec<String>>,
}

impl<'m, M: MessageSource> SearchTexts<'m, M> {
    /// Creates the texts of a message. `keeps` is `true` if more than one key may examine its body.
    pub(super) fn new(message: &'m M, keeps: bool) -> Self {
        Self { message, keeps, kept: None }
    }

    /// Returns `true` if the header contains the text.
    pub(super) fn header_contains(&self, needle: &Needle) -> bool {
        find_in_header(self.message.header(), &mut |text| needle.is_in_folded_field(text))
    }

    /// Returns `true` if the body contains the text.
    pub(super) fn body_contains(&mut self, needle: &Needle) -> Result<bool, M::Error> {
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
