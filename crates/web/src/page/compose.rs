//! The composer: a new message, an answer, a forwarded message, or a draft.
//!
//! A draft is a message in the folder with drafts. Its `Message-ID` has the identifier of the form, so a draft that is
//! opened again is the same form. Attachments that were uploaded before are those of the draft; the form names the ones
//! that stay.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use base::{Random, Uid, hex};
use mail::mailbox::{MailSnapshot, Message, SpecialUse};
use mail::mime::{MimeSource as _, address, header};
use mail::preferences::SignaturePlacement;

use crate::answer;
use crate::backend::{Account, AddressEntry};
use crate::error::{Error, Result};
use crate::form::Form;
use crate::layout::Layout;
use crate::limits::{LINE_BYTES_MAX, QUOTED_BYTES_MAX, TEXT_BYTES_MAX};
use crate::mail_folders;
use crate::message_content::{self, Attachment};
use crate::outgoing::{self, ORIGINAL_FIELD};
use crate::page::list::shown_subject;
use crate::page::message::{find, open};
use crate::personal_settings::PersonalSettings;
use crate::visit::Visit;
use crate::{personal_settings, shown_text};

/// Number of random bytes of the identifier of a form.
const FORM_BYTES: usize = 16;

/// The content of the composer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Composer {
    pub(crate) to: String,
    pub(crate) cc: String,
    pub(crate) bcc: String,
    pub(crate) subject: String,
    pub(crate) body: String,
    pub(crate) in_reply_to: String,
    pub(crate) references: String,
    pub(crate) original: String,
    /// `true` if the message that is answered or forwarded is attached.
    pub(crate) attaches_original: bool,
    pub(crate) form: String,
    /// The UID of the draft.
    pub(crate) draft: Option<u32>,
    /// The attachments of the draft.
    pub(crate) attachments: Vec<Attachment>,
}

#[derive(Template)]
#[template(path = "compose.html")]
struct ComposePage {
    layout: Layout,
    composer: Composer,
    failure: Option<String>,
    suggestions: Vec<Suggestion>,
}

/// Entries of the directory for a name that was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suggestion {
    pub(crate) name: String,
    pub(crate) entries: Vec<AddressEntry>,
}

/// The way in which a message refers to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// It answers its sender.
    Reply,
    /// It answers its sender and the other recipients.
    ReplyAll,
    /// It forwards it.
    Forward,
}

/// Shows the composer.
pub(crate) async fn show(visit: Visit) -> Result<Response> {
    let settings = visit.settings().await?;
    let query = &visit.query;
    let references = [("reply", Reference::Reply), ("all", Reference::ReplyAll), ("forward", Reference::Forward)];
    let reference = references.into_iter().find(|(name, _)| query.has(name));
    let composer = match (query.number("draft"), reference) {
        (Some(draft), _) => open_draft(&visit, draft).await?,
        (None, Some((name, reference))) => {
            let original = parse_original(query.text(name)).ok_or(Error::NotFound("the message"))?;
            answer_to(&visit, settings, (original, reference)).await?
        }
        (None, None) => {
            let line = |name: &str| outgoing::line(query.text(name), "the address");
            let composer = Composer { to: line("to")?, subject: line("subject")?, ..new_composer(&visit) };
            let signature = signature(&visit, settings).await?;
            let body = with_signature(String::new(), &signature, settings.signature_placement());
            Composer { body, ..composer }
        }
    };
    page(&visit, composer, None, Vec::new()).await
}

/// Answers with the composer.
pub(crate) async fn page(
    visit: &Visit,
    composer: Composer,
    failure: Option<String>,
    suggestions: Vec<Suggestion>,
) -> Result<Response> {
    let layout = visit.layout("Write a message").await?;
    let status = if failure.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Ok(answer::page(status, &ComposePage { layout, composer, failure, suggestions }))
}

fn new_composer(visit: &Visit) -> Composer {
    Composer { form: new_form(visit.service.services.random.as_ref()), ..Composer::default() }
}

/// Returns the identifier of a new form.
pub(crate) fn new_form(random: &dyn Random) -> String {
    let mut bytes = [0; FORM_BYTES];
    random.fill(&mut bytes);
    hex::lower(&bytes)
}

/// Returns `true` for the identifier of a form.
pub(crate) fn is_form(text: &str) -> bool {
    text.len() == 2 * FORM_BYTES && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the folder and the UID of a message that a composer refers to, such as `5.17`.
pub(crate) fn parse_original(text: &str) -> Option<(u32, u32)> {
    let (folder, uid) = text.split_once('.')?;
    Some((folder.parse().ok()?, uid.parse().ok()?))
}

impl Composer {
    /// Reads the form of the composer. Lines that cannot become fields of a header are refused.
    pub(crate) fn read(form: &Form) -> Result<Self> {
        let line = |name: &str, what: &str| outgoing::line(form.text(name), what);
        if !is_form(form.text("form")) {
            return Err(Error::Invalid("the form is damaged".to_owned()));
        }
        Ok(Self {
            to: line("to", "the field To")?,
            cc: line("cc", "the field Cc")?,
            bcc: line("bcc", "the field Bcc")?,
            subject: line("subject", "the subject")?,
            body: form.text("body").to_owned(),
            in_reply_to: line("in_reply_to", "a hidden field")?,
            references: line("references", "a hidden field")?,
            original: line("original", "a hidden field")?,
            attaches_original: form.has("attach_original"),
            form: form.text("form").to_owned(),
            draft: form.number("draft"),
            attachments: Vec::new(),
        })
    }
}

async fn open_draft(visit: &Visit, draft: u32) -> Result<Composer> {
    let new = new_composer(visit);
    let hostname = visit.service.options.hostname.clone();
    let opened = visit.run("draft", move |file| {
        let snapshot = file.snapshot()?;
        let composer = read_draft(&snapshot, draft, &hostname)?;
        Ok((composer, snapshot.ticket()))
    });
    let opened = opened.await?;
    let form = if opened.form.is_empty() { new.form } else { opened.form.clone() };
    Ok(Composer { form, ..opened })
}

/// Reads a draft. Its form is empty if another program has written it.
pub(crate) fn read_draft(snapshot: &MailSnapshot<'_>, draft: u32, hostname: &str) -> Result<Composer> {
    let missing = Error::NotFound("the draft");
    let folder = mail_folders::special(snapshot, SpecialUse::Drafts)?.ok_or(missing.clone())?;
    let entry = snapshot.entry(folder.id, Uid(draft))?.ok_or(missing)?;
    let message = open(snapshot, &entry)?;
    let header = message.header();
    let line = |text: String| shown_text::on_one_line(&text).trim().to_owned();
    let recipients = |name: &str| {
        let typed = message_content::field(header, name);
        let all = outgoing::mailboxes(&typed);
        let is_typed = all.is_empty() || !all.iter().all(outgoing::is_address);
        line(if is_typed { typed } else { message_content::addresses(header, name) })
    };
    let id = message_content::field(header, "Message-ID");
    let form = id.trim_matches(['<', '>']).strip_suffix(&format!("@{hostname}")).filter(|form| is_form(form));
    Ok(Composer {
        to: recipients("To"),
        cc: recipients("Cc"),
        bcc: recipients("Bcc"),
        subject: line(message_content::field(header, "Subject")),
        body: message_content::text_of(&message, TEXT_BYTES_MAX)?.text,
        in_reply_to: line(message_content::field(header, "In-Reply-To")),
        references: line(message_content::field(header, "References")),
        original: line(message_content::field(header, ORIGINAL_FIELD)),
        attaches_original: false,
        form: form.unwrap_or_default().to_owned(),
        draft: Some(draft),
        attachments: message_content::attachments(message.structure()),
    })
}

async fn answer_to(
    visit: &Visit,
    settings: &PersonalSettings,
    ((folder, uid), reference): ((u32, u32), Reference),
) -> Result<Composer> {
    let new = new_composer(visit);
    let caller = visit.caller.clone();
    let look_up = visit.service.run(&visit.caller, "account", move |backend| Ok(backend.account(&caller)?));
    let account = look_up.await?;
    let read = visit.run("answer", move |file| {
        let snapshot = file.snapshot()?;
        let (_, entry) = find(&snapshot, folder, uid)?;
        let message = open(&snapshot, &entry)?;
        let composer = refer_to(&message, reference, &account)?;
        let kind = if reference == Reference::Forward { "f" } else { "r" };
        Ok((Composer { original: format!("{kind}.{folder}.{uid}"), ..composer }, snapshot.ticket()))
    });
    let read = read.await?;
    let body = with_signature(read.body, &signature(visit, settings).await?, settings.signature_placement());
    Ok(Composer { form: new.form, body, ..read })
}

/// Returns the text signature of the default identity. It is empty for somebody who has none.
async fn signature(visit: &Visit, settings: &PersonalSettings) -> Result<String> {
    if settings.signature_placement() == SignaturePlacement::None {
        return Ok(String::new());
    }
    let caller = visit.caller.clone();
    let preferences = settings.preferences.clone();
    let read = visit.service.run(&visit.caller, "signature", move |backend| {
        let account = backend.account(&caller)?;
        let file = backend.open(&caller)?;
        let snapshot = file.snapshot()?;
        let identity = personal_settings::identity(&snapshot, file.database(), (&account, &preferences))?;
        let signature = identity.map(|identity| identity.settings.text_signature).unwrap_or_default();
        Ok((signature, snapshot.ticket()))
    });
    let (signature, ticket) = match read.await {
        // The composer is shown; sending says what is wrong.
        Err(Error::MailFile(_)) => return Ok(String::new()),
        read => read?,
    };
    visit.service.services.databases.store().durable(ticket).await?;
    Ok(signature)
}

/// Puts a signature into the body of a new message, or into one that begins with two empty lines and quotes another
/// message. The line `-- ` precedes a signature that ends the message (RFC 3676 §4.3), because programs cut what
/// follows it.
fn with_signature(body: String, signature: &str, placement: SignaturePlacement) -> String {
    let signature = shown_text::of_body(signature);
    let signature = signature.trim_matches('\n');
    if signature.is_empty() || placement == SignaturePlacement::None {
        return body;
    }
    if !body.is_empty() && placement == SignaturePlacement::AboveQuote {
        return format!("\n\n{signature}{body}");
    }
    let delimiter = if signature.starts_with("-- \n") { "" } else { "-- \n" };
    if body.is_empty() {
        return format!("\n\n{delimiter}{signature}\n");
    }
    format!("{}\n\n{delimiter}{signature}\n", body.trim_end_matches('\n'))
}

/// Returns the beginning of a message that answers or forwards another one.
fn refer_to(message: &Message<'_>, reference: Reference, account: &Account) -> Result<Composer> {
    let header = message.header();
    let subject = shown_subject(header, 400);
    let text = message_content::text_of(message, QUOTED_BYTES_MAX)?;
    let author = message_content::addresses(header, "From");
    let date = message_content::field(header, "Date");
    if reference == Reference::Forward {
        let fields = ["From", "To", "Cc"].map(|name| (name, message_content::addresses(header, name)));
        let fields = fields.iter().filter(|(_, value)| !value.is_empty());
        let fields: String = fields.map(|(name, value)| format!("{name}: {value}\n")).collect();
        let structure = message.structure();
        return Ok(Composer {
            subject: prefixed("Fwd:", &subject),
            body: shown_text::of_body(&format!(
                "\n\n---------- Forwarded message ----------\n{fields}Date: {date}\nSubject: {subject}\n\n{}",
                text.text
            )),
            attaches_original: text.is_cut
                || message_content::has_html(structure)
                || !message_content::attachments(structure).is_empty(),
            ..Composer::default()
        });
    }
    let quoted: String = text.text.trim_end().lines().map(quoted_line).collect();
    let (to, cc) = recipients(header, reference, account);
    Ok(Composer {
        to,
        cc,
        subject: prefixed("Re:", &subject),
        body: shown_text::of_body(&format!("\n\nOn {date}, {author} wrote:\n{quoted}")),
        in_reply_to: outgoing::message_id_of(header),
        references: outgoing::references_of(header),
        ..Composer::default()
    })
}

fn quoted_line(line: &str) -> String {
    if line.starts_with('>') { format!(">{line}\n") } else { format!("> {line}\n") }
}

fn prefixed(prefix: &str, subject: &str) -> String {
    let has_prefix = subject.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    if has_prefix { subject.to_owned() } else { format!("{prefix} {subject}") }
}

/// Returns the recipients of an answer. The person is among them only if nobody else is.
fn recipients(header: &[u8], reference: Reference, account: &Account) -> (String, String) {
    let mailboxes = |name: &str| {
        let fields = header::fields(header).filter(move |field| field.is(name));
        fields.flat_map(|field| address::mailboxes(field.value)).collect::<Vec<_>>()
    };
    let is_own = |mailbox: &address::Mailbox| {
        account.addresses.iter().any(|address| address.eq_ignore_ascii_case(&mailbox.address()))
    };
    let mut authors = mailboxes("Reply-To");
    if authors.is_empty() {
        authors = mailboxes("From");
    }
    let others = [mailboxes("To"), mailboxes("Cc")];
    // An answer to an own message goes to its recipients.
    let mut to = if authors.iter().all(is_own) && !others[0].is_empty() { others[0].clone() } else { authors };
    let mut cc = Vec::new();
    if reference == Reference::ReplyAll {
        cc = others.concat();
        cc.retain(|mailbox| !is_own(mailbox));
        let is_known = |mailbox: &address::Mailbox| to.iter().any(|known| known.address() == mailbox.address());
        cc.retain(|mailbox| !is_known(mailbox));
        if to.len() > 1 {
            to.retain(|mailbox| !is_own(mailbox));
        }
    }
    let line = |mailboxes: Vec<address::Mailbox>| {
        let mut text = String::new();
        for mailbox in mailboxes.iter().filter(|mailbox| outgoing::is_address(mailbox)) {
            let next = shown_text::on_one_line(&message_content::mailbox_text(mailbox));
            if text.len() + next.len() + 2 > LINE_BYTES_MAX {
                break;
            }
            text.push_str(if text.is_empty() { "" } else { ", " });
            text.push_str(&next);
        }
        text
    };
    (line(to), line(cc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_go_to_the_others() {
        let account = Account { name: "Ann".to_owned(), addresses: vec!["ann@acme.test".to_owned()] };
        let check = |header: &str, reference: Reference, expected: (&str, &str)| {
            let found = recipients(format!("{header}\r\n\r\n").as_bytes(), reference, &account);
            assert_eq!((found.0.as_str(), found.1.as_str()), expected, "{header}");
        };
        let message = "From: Bob <bob@b.test>\r\nTo: ANN@acme.test, c@c.test\r\nCc: d@d.test, bob@b.test";
        check(message, Reference::Reply, ("Bob <bob@b.test>", ""));
        check(message, Reference::ReplyAll, ("Bob <bob@b.test>", "c@c.test, d@d.test"));
        check("From: b@b.test\r\nReply-To: list@l.test", Reference::Reply, ("list@l.test", ""));
        check("From: ann@acme.test\r\nTo: c@c.test", Reference::Reply, ("c@c.test", ""));
    }

    #[test]
    fn signatures_have_their_place() {
        use SignaturePlacement::{AboveQuote, BelowQuote, None};
        let check = |body: &str, signature: &str, placement, expected: &str| {
            assert_eq!(with_signature(body.to_owned(), signature, placement), expected, "{body:?} {placement:?}");
        };
        let quote = "\n\nOn Monday, Bob wrote:\n> x\n";
        check("", "Ann\r\n", AboveQuote, "\n\n-- \nAnn\n");
        check("", "-- \nAnn", BelowQuote, "\n\n-- \nAnn\n");
        check(quote, "Ann", AboveQuote, "\n\nAnn\n\nOn Monday, Bob wrote:\n> x\n");
        check(quote, "Ann", BelowQuote, "\n\nOn Monday, Bob wrote:\n> x\n\n-- \nAnn\n");
        check(quote, "Ann", None, quote);
        check(quote, "\n", AboveQuote, quote);
    }

    #[test]
    fn subjects_get_one_prefix() {
        assert_eq!(prefixed("Re:", "RE: plan"), "RE: plan");
        assert_eq!(prefixed("Re:", "ü"), "Re: ü");
    }
}
