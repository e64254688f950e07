//! What FETCH writes of a message's contents: the attributes that the folder's entry does not hold.

use mail::mailbox::Message;

use crate::codec::Writer;
use crate::codec::ast::FetchAttribute;
use crate::error::Result;

/// Writes an attribute's name and value.
pub fn write(attribute: &FetchAttribute, message: &Message<'_>, out: &mut Writer) -> Result<()> {
    match attribute {
        FetchAttribute::Rfc822 => {
            out.text("RFC822 ").literal(&message.raw()?);
        }
        FetchAttribute::BodySection { .. } => {
            out.text("BODY[] ").literal(&message.raw()?);
        }
        FetchAttribute::EmailId => {
            out.text("EMAILID (M").text(&message.unid().to_string()).byte(b')');
        }
        FetchAttribute::ThreadId => {
            out.text("THREADID ");
            match message.thread_id()? {
                Some(id) => out.byte(b'(').text(&id).byte(b')'),
                None => out.nil(),
            };
        }
        _ => {
            out.text("BODY NIL");
        }
    }
    Ok(())
}
