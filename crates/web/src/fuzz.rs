//! Entry points for fuzzing: any bytes as what browsers and senders choose.
//!
//! Each panics only if an invariant is violated. Forms and addresses come from browsers, HTML and messages from
//! senders.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use base::Timestamp;
use futures_util::FutureExt as _;
use http::login::{PLAIN_COOKIE, cookie};
use mail::casemap::Needle;
use mail::mime::header::fields;
use mail::mime::{InMemoryMessage, parse};

use crate::form::{Form, FormBeginning};
use crate::form_token::FormSecret;
use crate::message_content;
use crate::notice::{Notice, parse_uids, uid_text};
use crate::outgoing::{self, Outgoing, OutgoingFile, Purpose};
use crate::page::compose::{Composer, parse_original};
use crate::page::message::{TextPiece, pieces};
use crate::sanitizer::{self, sanitize};
use crate::shown_text;
use crate::style_attribute;

/// Maximum number of bytes of the texts that are examined.
const BYTES_MAX: usize = 64 << 10;

/// The fields that a message of the composer can have.
const WRITTEN_FIELDS: [&str; 15] = [
    "from",
    "to",
    "cc",
    "bcc",
    "subject",
    "date",
    "message-id",
    "in-reply-to",
    "references",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
    "content-disposition",
    "x-doublet-original",
    "content-id",
];

/// Reads bytes as a form in each encoding, and writes the message of a form of the composer. The first line is the
/// media type.
///
/// # Panics
///
/// Panics if a field of the form becomes a field of the message that the composer does not write.
pub fn form(data: &[u8]) {
    let line_end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (kind, body) = data.split_at(line_end);
    let body = body.strip_prefix(b"\n").unwrap_or(body);
    // The body is there at once, so nothing waits.
    let kind = String::from_utf8_lossy(kind);
    let beginning = FormBeginning::parse(&kind, body[..body.len() / 2].to_vec(), false).now_or_never();
    assert!(beginning.is_some(), "the beginning of a form is read at once");
    let parsed = Form::parse(&kind, body.to_vec()).now_or_never();
    let Some(Ok(mut form)) = parsed else { return };
    let _ = (form.number("uid"), form.all("keep").count(), parse_original(form.text("original")));
    if let Some(uids) = parse_uids(form.text("uids")) {
        assert_eq!(parse_uids(&uid_text(&uids)), Some(uids).filter(|uids| !uids.is_empty()), "UIDs read back");
    }
    if let Ok(composer) = Composer::read(&form) {
        write_message(composer, &mut form);
    }
}

fn write_message(composer: Composer, form: &mut Form) {
    let file = |file: crate::form::UploadedFile| OutgoingFile {
        name: outgoing::file_name(&file.name),
        media_type: file.media_type,
        content: file.content,
    };
    let outgoing = Outgoing {
        from_address: "ann@acme.test".to_owned(),
        to: composer.to,
        cc: composer.cc,
        bcc: composer.bcc,
        subject: composer.subject,
        body: composer.body,
        in_reply_to: composer.in_reply_to,
        references: composer.references,
        original: composer.original,
        form: composer.form,
        files: form.take_files().into_iter().map(file).collect(),
        ..Outgoing::default()
    };
    for purpose in [Purpose::Draft, Purpose::Sending] {
        let Ok(written) = outgoing.write(purpose, "mx.acme.test", Timestamp(0)) else { continue };
        for field in fields(&written) {
            let name = String::from_utf8_lossy(field.name).to_ascii_lowercase();
            assert!(WRITTEN_FIELDS.contains(&name.as_str()), "the composer writes no field {name}");
            assert!(purpose == Purpose::Draft || name != "bcc", "recipients do not see Bcc");
        }
        let structure = parse(&written);
        let parts = structure.parts().iter().filter(|part| part.content.file_name().is_some()).count();
        assert!(parts >= outgoing.files.len(), "each file is a part with a name");
    }
}

/// Reads bytes as the address and the cookies of a request, one a line.
///
/// # Panics
///
/// Panics if a token or a notice is accepted that nobody has made.
pub fn request(data: &[u8]) {
    let secret = FormSecret::of_session("the token of a session");
    let mut headers = HeaderMap::new();
    let mut lines = data.split(|byte| *byte == b'\n');
    let address = lines.next().unwrap_or_default();
    for line in lines {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(header::COOKIE, value);
        }
    }
    if let Some(value) = cookie(&headers, PLAIN_COOKIE) {
        assert!(!value.contains(';'), "a cookie ends at its separator");
        assert!(!secret.is_token(value), "nobody knows the token");
    }
    let Some(query) = Uri::try_from(address).ok().and_then(|address| address.query().map(str::to_owned)) else {
        return;
    };
    let Ok(query) = Form::parse_urlencoded(query.as_bytes()) else { return };
    let notice = Notice::read(query.text("done"), query.text("sig"), &secret);
    assert!(notice.is_none(), "nobody can sign a notice");
    let own = Notice::text(query.text("done")).address("/lite/", &secret);
    let own = Form::parse_urlencoded(own.split_once('?').map_or("", |(_, query)| query).as_bytes());
    let shown = own.ok().and_then(|own| Notice::read(own.text("done"), own.text("sig"), &secret));
    assert_eq!(shown.map(|shown| shown.text).as_deref(), Some(query.text("done")), "a notice reads back");
    words(query.text("q"));
}

/// Prepares the words of a search.
fn words(text: &str) {
    for word in text.split_whitespace() {
        assert!(Needle::new(word).is_in_field(word), "{word:?} is in itself");
    }
}

/// Reads bytes as HTML for the sanitizer, and as a style for its filter.
///
/// # Panics
///
/// Panics if the result is no fixed point, or has elements that are not permitted.
pub fn html(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    check_html(&text, &HashMap::from([("a@x".to_owned(), "data:image/png;base64,iVBORw==".to_owned())]));
    let style = style_attribute::filter(&text);
    assert_eq!(style_attribute::filter(&style), style, "a filtered style stays");
}

fn check_html(html: &str, images: &HashMap<String, String>) {
    let images = Arc::new(images.clone());
    let clean = sanitize(html, &images);
    assert_eq!(sanitize(&clean, &images), clean, "sanitized HTML stays");
    for piece in clean.split('<').skip(1) {
        let name = piece.trim_start_matches('/').split([' ', '>']).next().unwrap_or_default();
        assert!(sanitizer::is_permitted(name), "the element {name} stays in {clean}");
    }
}

/// Shows bytes as a message.
///
/// # Panics
///
/// Panics if characters that deceive stay, or if HTML is not sanitized.
pub fn message(data: &[u8]) {
    let structure = parse(data);
    let message = InMemoryMessage::new(data, &structure);
    let Ok(text) = message_content::text_of(&message, BYTES_MAX);
    assert_eq!(shown_text::of_body(&text.text), text.text, "a shown text stays");
    let piece = |piece: TextPiece| match piece {
        TextPiece::Plain(text) | TextPiece::Link(text) => text,
    };
    let linked: String = pieces(&text.text).into_iter().map(piece).collect();
    assert_eq!(linked, text.text, "links are pieces of the text");
    for attachment in message_content::attachments(&structure) {
        let is_shown = |text: &str| shown_text::on_one_line(text) == text;
        assert!(is_shown(&attachment.name) && !attachment.name.contains(['/', '\\']), "{:?}", attachment.name);
        assert!(is_shown(&attachment.media_type), "{:?}", attachment.media_type);
    }
    for name in ["From", "To", "Reply-To"] {
        let _ = (message_content::addresses(data, name), message_content::short_name(data, name));
    }
    let id = outgoing::message_id_of(data);
    assert!(outgoing::line(&format!("{id} {}", outgoing::references_of(data)), "identifiers").is_ok());
    let Ok(images) = message_content::inline_images(&message);
    let Ok(parts) = message_content::html_of(&message, BYTES_MAX);
    parts.iter().for_each(|html| check_html(html, &images));
}
