//! The texts of a message in which SEARCH looks.
//!
//! With one key that looks at the body, parts are read and decoded one by one until it is found. With several, the
//! decoded parts are kept, so that none is decoded twice.

use mail::mime::structure::Part;
use mail::mime::{Kind, header, text};

use crate::limits::SEARCH_PART_BYTES_MAX;
use crate::message::entry::Stored;
use crate::message::fold::{Needle, fold};

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
        fields_have(self.message.header(), needle)
    }

    /// Tells whether a text is in the body.
    pub(super) fn body_has(&mut self, needle: &Needle) -> Result<bool, M::Error> {
        if !self.keeps {
            return self.find(&mut |text| needle.is_in_folded(text));
        }
        if self.kept.is_none() {
            let mut all = Vec::new();
            self.find(&mut |text| {
                all.push(text.to_owned());
                false
            })?;
            self.kept = Some(all);
        }
        Ok(self.kept.iter().flatten().any(|text| needle.is_in_folded(text)))
    }

    /// Hands the folded texts of the body over until one is the right one.
    fn find(&self, is_right: &mut dyn FnMut(&str) -> bool) -> Result<bool, M::Error> {
        let parts = self.message.structure().parts();
        for (index, part) in parts.iter().enumerate() {
            if index > 0 && self.headers_match(part, &parts[part.parent.unwrap_or(0)], is_right)? {
                return Ok(true);
            }
            if part.is_text() && self.part_matches(index, part, is_right)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Hands over the header of a message within the message, or the name of a part's file.
    fn headers_match(
        &self,
        part: &Part,
        parent: &Part,
        is_right: &mut dyn FnMut(&str) -> bool,
    ) -> Result<bool, M::Error> {
        if parent.kind == Kind::Message {
            let header = self.message.range(part.header.clone())?;
            return Ok(header::fields(&header).any(|field| is_right(&fold(&field_text(&field)))));
        }
        Ok(part.content.file_name().is_some_and(|name| is_right(&fold(&name))))
    }

    fn part_matches(
        &self,
        index: usize,
        part: &Part,
        is_right: &mut dyn FnMut(&str) -> bool,
    ) -> Result<bool, M::Error> {
        let Some(decoded) = text::of_part(self.message, index, SEARCH_PART_BYTES_MAX)? else { return Ok(false) };
        if is_right(&fold(&decoded)) {
            return Ok(true);
        }
        Ok(part.is_media("text", "html") && is_right(&fold(&text::of_html(&decoded))))
    }
}

fn fields_have(header: &[u8], needle: &Needle) -> bool {
    header::fields(header).any(|field| needle.is_in_field(&field_text(&field)))
}

/// Gives a field as people read it: `Name: value`.
fn field_text(field: &header::Field<'_>) -> String {
    let value = header::decoded(field.value);
    if field.name.is_empty() { value } else { format!("{}: {value}", String::from_utf8_lossy(field.name)) }
}
