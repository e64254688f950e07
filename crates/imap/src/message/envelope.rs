//! ENVELOPE (RFC 9051 §7.5.2): the header fields that message lists show, as the sender wrote them.
//!
//! Encoded words stay encoded, because clients decode them. A missing or empty field is NIL, except that the subject
//! may be empty. If Sender or Reply-To is missing, it takes the value of From. Several address fields of one kind are
//! merged into one; of other fields only the first counts. A mailbox without a domain has an empty host, because NIL
//! would make it the start of a group.

use mail::limits::{ADDRESSES_MAX, FIELD_BYTES_MAX};
use mail::mime::address::{self, Mailbox};
use mail::mime::header::{self, HeaderField};

use crate::codec::ResponseWriter;

/// Appends the envelope of a header.
pub fn write_envelope(header: &[u8], out: &mut ResponseWriter) {
    let envelope = Envelope::from_header(header);
    out.byte(b'(');
    out.nstring(envelope.text(Text::Date).as_deref()).space();
    match envelope.texts[Text::Subject as usize] {
        Some(subject) => out.string(&header::unfold(truncate_field(subject))),
        None => out.nil(),
    };
    let from = &envelope.lists[List::From as usize];
    for list in [List::From, List::Sender, List::ReplyTo, List::To, List::Cc, List::Bcc] {
        let entries = &envelope.lists[list as usize];
        let inherits = entries.is_empty() && matches!(list, List::Sender | List::ReplyTo);
        write_addresses(if inherits { from } else { entries }, out.space());
    }
    out.space().nstring(envelope.text(Text::InReplyTo).as_deref());
    out.space().nstring(envelope.text(Text::MessageId).as_deref()).byte(b')');
}

#[derive(Clone, Copy)]
enum Text {
    Date,
    Subject,
    InReplyTo,
    MessageId,
}

#[derive(Clone, Copy)]
enum List {
    From,
    Sender,
    ReplyTo,
    To,
    Cc,
    Bcc,
}

enum Wanted {
    Text(Text),
    List(List),
}

impl Wanted {
    fn from_name(name: &[u8]) -> Option<Self> {
        let (wanted, full): (_, &[u8]) = match name.len() {
            2 if name[0].eq_ignore_ascii_case(&b't') => (Self::List(List::To), b"to"),
            2 => (Self::List(List::Cc), b"cc"),
            3 => (Self::List(List::Bcc), b"bcc"),
            4 if name[0].eq_ignore_ascii_case(&b'd') => (Self::Text(Text::Date), b"date"),
            4 => (Self::List(List::From), b"from"),
            6 => (Self::List(List::Sender), b"sender"),
            7 => (Self::Text(Text::Subject), b"subject"),
            8 => (Self::List(List::ReplyTo), b"reply-to"),
            10 => (Self::Text(Text::MessageId), b"message-id"),
            11 => (Self::Text(Text::InReplyTo), b"in-reply-to"),
            _ => return None,
        };
        name.eq_ignore_ascii_case(full).then_some(wanted)
    }
}

/// The fields of an envelope.
#[derive(Default)]
struct Envelope<'a> {
    texts: [Option<&'a [u8]>; 4],
    lists: [Vec<address::AddressListEntry>; 6],
}

impl<'a> Envelope<'a> {
    fn from_header(header: &'a [u8]) -> Self {
        let mut envelope = Self::default();
        for field in header::fields(header) {
            envelope.take(&field);
        }
        envelope
    }

    fn take(&mut self, field: &HeaderField<'a>) {
        match Wanted::from_name(field.name) {
            Some(Wanted::Text(text)) => {
                self.texts[text as usize].get_or_insert(field.value);
            }
            Some(Wanted::List(list)) if self.lists[list as usize].len() < ADDRESSES_MAX => {
                self.lists[list as usize].extend(address::parse(field.value));
            }
            _ => {}
        }
    }

    /// Returns a field as one line, or `None` if it is missing or empty.
    fn text(&self, text: Text) -> Option<Vec<u8>> {
        let value = header::unfold(truncate_field(self.texts[text as usize]?));
        (!value.is_empty()).then(|| value.into_owned())
    }
}

fn truncate_field(value: &[u8]) -> &[u8] {
    value.get(..FIELD_BYTES_MAX).unwrap_or(value)
}

fn write_addresses(entries: &[address::AddressListEntry], out: &mut ResponseWriter) {
    if entries.is_empty() {
        out.nil();
        return;
    }
    out.byte(b'(');
    for entry in entries {
        match entry {
            address::AddressListEntry::Mailbox(mailbox) => self::write_mailbox(mailbox, out),
            address::AddressListEntry::GroupStart(name) => {
                out.raw(b"(NIL NIL ").string(name).raw(b" NIL)");
            }
            address::AddressListEntry::GroupEnd => {
                out.raw(b"(NIL NIL NIL NIL)");
            }
        }
    }
    out.byte(b')');
}

fn write_mailbox(mailbox: &Mailbox, out: &mut ResponseWriter) {
    let name = mailbox.name.as_deref().filter(|name| !name.is_empty());
    out.byte(b'(').nstring(name).space().nstring(mailbox.route.as_deref());
    out.space().string(&mailbox.local).space().string(&mailbox.domain).byte(b')');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expected: &str) {
        let mut out = ResponseWriter::new();
        write_envelope(header.as_bytes(), &mut out);
        assert_eq!(String::from_utf8_lossy(&out.take()), expected, "{header}");
    }

    #[test]
    fn rfc_example_is_encoded() {
        check(
            "Date: Wed, 17 Jul 1996 02:23:25 -0700 (PDT)\r\nFrom: Terry Gray <gray@cac.washington.edu>\r\n\
             Subject: IMAP4rev2 WG mtg summary and minutes\r\nTo: imap@cac.washington.edu\r\n\
             cc: minutes@CNRI.Reston.VA.US, John Klensin <KLENSIN@MIT.EDU>\r\n\
             Message-Id: <B27397-0100000@cac.washington.edu>\r\nMIME-Version: 1.0\r\n\r\n",
            "(\"Wed, 17 Jul 1996 02:23:25 -0700 (PDT)\" \"IMAP4rev2 WG mtg summary and minutes\" \
             ((\"Terry Gray\" NIL \"gray\" \"cac.washington.edu\")) ((\"Terry Gray\" NIL \"gray\" \"cac.washington.edu\")) \
             ((\"Terry Gray\" NIL \"gray\" \"cac.washington.edu\")) ((NIL NIL \"imap\" \"cac.washington.edu\")) \
             ((NIL NIL \"minutes\" \"CNRI.Reston.VA.US\")(\"John Klensin\" NIL \"KLENSIN\" \"MIT.EDU\")) NIL NIL \
             \"<B27397-0100000@cac.washington.edu>\")",
        );
    }

    #[test]
    fn missing_fields_are_nil() {
        check("", "(NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL)");
        check("Subject:\nDate: \nTo: ,\nIn-Reply-To:\n", "(NIL \"\" NIL NIL NIL NIL NIL NIL NIL NIL)");
    }

    #[test]
    fn groups_are_enclosed_by_markers_with_nil_host() {
        check(
            "To: A Group: a@b, \"C\" <c@d>;, e\nFrom: Undisclosed:;",
            "(NIL NIL ((NIL NIL \"Undisclosed\" NIL)(NIL NIL NIL NIL)) ((NIL NIL \"Undisclosed\" NIL)(NIL NIL NIL NIL)) \
             ((NIL NIL \"Undisclosed\" NIL)(NIL NIL NIL NIL)) \
             ((NIL NIL \"A Group\" NIL)(NIL NIL \"a\" \"b\")(\"C\" NIL \"c\" \"d\")(NIL NIL NIL NIL)(NIL NIL \"e\" \"\")) NIL NIL NIL NIL)",
        );
    }

    #[test]
    fn texts_are_not_decoded() {
        check(
            "Subject: =?utf-8?q?caf=C3=A9?=\r\n\tand \"more\"\r\nSubject: second\r\nTo: =?utf-8?q?J=C3=B6rg?= <j@x>\nTo: <@r:k@y>\n",
            "(NIL \"=?utf-8?q?caf=C3=A9?=\tand \\\"more\\\"\" NIL NIL NIL \
             ((\"=?utf-8?q?J=C3=B6rg?=\" NIL \"j\" \"x\")(NIL \"@r\" \"k\" \"y\")) NIL NIL NIL NIL)",
        );
        check("Subject: caf\u{e9}\n", "(NIL {5}\r\ncaf\u{e9} NIL NIL NIL NIL NIL NIL NIL NIL)");
    }
}
