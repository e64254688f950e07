//! The form of the notice after sending: it withdraws a message that is held, and opens it as a draft.
//!
//! The copy in the folder with sent messages has the identifier of the message in the queue as its UNID. The
//! transaction that takes the message out of the queue also replaces the copy by a draft, which is a new form of the
//! composer. So the message is sent, or it is a draft, whenever the server is killed. A repetition of the form finds
//! the draft. The deletion stub of the copy stays, by which the composer recognizes the form that was withdrawn.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use base::{NoteId, Unid, hex};
use mail::mailbox::{Flags, MailFile, MailSnapshot, NewMessage, SpecialUse};
use mail::profile::text_of;
use mail::router::{DRAFT_FIELDS_ITEM, RecordChange, SubmissionRecord, WithdrawnCopy};
use notes::Marks;
use store::Ticket;

use crate::answer;
use crate::backend::WebBackend;
use crate::error::{Error, Result};
use crate::mail_folders;
use crate::notice::Notice;
use crate::outgoing::draft_of_sent;
use crate::page::send::find_form;
use crate::visit::Visit;

/// The result of the form.
enum Outcome {
    /// The message is a draft with this UID.
    Draft(u32),
    /// The message was sent before.
    TooLate,
}

/// Executes the form.
pub(crate) async fn submit(visit: Visit, body: Body) -> Result<Response> {
    let form = visit.form(body).await?;
    let unid: Unid = form.text("id").parse().map_err(|_| Error::NotFound("the message"))?;
    let caller = visit.caller.clone();
    let hostname = visit.service.options.hostname.clone();
    let forms = Arc::clone(&visit.service.sent_forms);
    let undo = visit.service.run(&visit.caller, "undo", move |backend| {
        let file = backend.open(&caller)?;
        let withdrawn = withdraw(backend, &file, unid, &hostname)?;
        if matches!(withdrawn.0, Outcome::Draft(_)) {
            let id = unid.to_string();
            forms.forget(caller.login(), |sent| sent.held.as_ref().is_some_and(|(held, _)| *held == id));
        }
        Ok(withdrawn)
    });
    let (outcome, ticket) = undo.await?;
    visit.service.services.databases.store().durable(ticket).await?;
    let (text, address) = match outcome {
        Outcome::Draft(uid) => ("The message was not sent. It is a draft again.", format!("/lite/compose?draft={uid}")),
        Outcome::TooLate => ("It is too late: the message was sent.", "/lite/folders".to_owned()),
    };
    Ok(answer::redirect(&Notice::text(text).address(&address, &visit.secret)))
}

/// Replaces a message that is held by its draft. Runs on a worker.
fn withdraw(backend: &dyn WebBackend, file: &MailFile, unid: Unid, hostname: &str) -> Result<(Outcome, Ticket)> {
    let form = hex::lower(&unid.0);
    let (drafts, _) = mail_folders::special_or_create(file, SpecialUse::Drafts, "Drafts")?;
    let copy = held_copy(&file.snapshot()?, unid)?;
    if let Some(HeldMessage { note, raw, draft_fields }) = &copy {
        let raw = draft_of_sent(raw, draft_fields, &form, hostname);
        let flags = Flags::from_system_flags(Marks::DRAFT.union(Marks::SEEN));
        let draft = Arc::new(file.prepare(&NewMessage { raw, flags, received: None })?);
        let change = RecordChange::Withdrawn(WithdrawnCopy { copy: *note, drafts, draft });
        backend.withdraw(&unid.to_string(), SubmissionRecord { mail_file: file.database().path(), change })?;
    }
    let snapshot = file.snapshot()?;
    let outcome = match find_form(&snapshot, drafts, (&form, hostname))? {
        Some(uid) => Outcome::Draft(uid.0),
        None if copy.is_some() => Outcome::TooLate,
        None => return Err(Error::NotFound("the message")),
    };
    Ok((outcome, snapshot.ticket()))
}

/// The copy of a message that is or was held.
struct HeldMessage {
    note: NoteId,
    raw: Vec<u8>,
    draft_fields: String,
}

fn held_copy(snapshot: &MailSnapshot<'_>, unid: Unid) -> Result<Option<HeldMessage>> {
    let reading = snapshot.reading();
    let Some(note) = reading.find(unid)? else { return Ok(None) };
    let Some(message) = snapshot.message(note)? else { return Ok(None) };
    let Some(stored) = reading.note(note)? else { return Ok(None) };
    // Other notes are not withdrawn, whatever their UNID.
    let Some(draft_fields) = text_of(&stored.items, DRAFT_FIELDS_ITEM) else { return Ok(None) };
    Ok(Some(HeldMessage { note, raw: message.raw()?, draft_fields: draft_fields.to_owned() }))
}
