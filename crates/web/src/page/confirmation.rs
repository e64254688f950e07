//! The confirmation that a message was displayed (RFC 8098), which its sender may ask for.
//!
//! A confirmation tells a sender when somebody has looked at a message, so it is sent only by the button of the page of
//! the message, and once. [`crate::confirmation_request`] decides which messages have the button.

use std::net::SocketAddr;

use axum::body::Body;
use axum::response::Response;
use base::Timestamp;
use mail::disposition_notification::{
    Disposition, DispositionKind, NotificationReport, NotificationRequest, is_same_address, typed_address,
};
use mail::mime::MimeSource as _;
use mail::mime::address::mailboxes;
use mail::mime::header;
use mail::submission::{NotifiedMessage, Refusal, RefusedRequest, SubmissionRequest};
use store::Ticket;

use crate::answer;
use crate::backend::{Account, WebBackend};
use crate::confirmation_request::request_of;
use crate::error::{Result, sentence};
use crate::notice::Notice;
use crate::page::message::{find, open};
use crate::visit::Visit;

/// What one confirmation needs besides the message.
struct Sending {
    caller: http::Caller,
    peer: Option<SocketAddr>,
    /// The identifier of the new message.
    message_id: String,
    now: Timestamp,
}

/// Sends the confirmation of a message.
pub(crate) async fn submit(visit: Visit, (folder, uid): (u32, u32), body: Body) -> Result<Response> {
    visit.form(body).await?;
    let mut random = [0; 16];
    visit.service.services.random.fill(&mut random);
    let sending = Sending {
        caller: visit.caller.clone(),
        peer: visit.context.peer.address,
        message_id: format!("{}@{}", base::hex::lower(&random), visit.service.options.hostname),
        now: visit.service.services.clock.now(),
    };
    let ran = visit.service.run(&visit.caller, "confirmation", move |backend| sending.run(backend, (folder, uid)));
    let text = match ran.await? {
        Ok(ticket) => {
            visit.service.services.databases.store().durable(ticket).await?;
            "The confirmation was sent.".to_owned()
        }
        Err(reason) => format!("{reason} Nothing was sent."),
    };
    let page = format!("/lite/folder/{folder}/{uid}");
    Ok(answer::redirect(&Notice::text(text).address(&page, &visit.secret)))
}

impl Sending {
    /// Sends the confirmation. Returns why it was not sent if the person can do nothing about it. Runs on a worker.
    fn run(&self, backend: &dyn WebBackend, (folder, uid): (u32, u32)) -> Result<std::result::Result<Ticket, String>> {
        let account = backend.account(&self.caller)?;
        let file = backend.open(&self.caller)?;
        file.require_editor()?;
        let snapshot = file.snapshot()?;
        let (shown, entry) = find(&snapshot, folder, uid)?;
        let message = open(&snapshot, &entry)?;
        let Some(request) = request_of(&snapshot, (&shown, &entry), message.header()) else {
            return Ok(Err("The message asks for no confirmation, or it was confirmed before.".to_owned()));
        };
        let Some(sender) = recipient_of(message.header(), &account) else {
            return Ok(Err("You have no address to send from.".to_owned()));
        };
        let submission = SubmissionRequest {
            login: self.caller.login().to_owned(),
            peer: self.peer,
            sender: sender.to_owned(),
            message: self.write(&account, sender, &request),
            recipients: request.recipients,
            request_id: String::new(),
        };
        let about = NotifiedMessage { mail_file: file.database().path(), note: entry.note };
        Ok(backend.submit_notification(submission, about).map_err(|refused| refusal(&refused)))
    }

    fn write(&self, account: &Account, sender: &str, request: &NotificationRequest) -> Vec<u8> {
        let kind = DispositionKind::Displayed;
        NotificationReport {
            from_name: &account.name,
            from_address: sender,
            to: &request.recipients,
            subject: &request.default_subject(kind),
            text: &request.default_text(kind, sender),
            disposition: Disposition::DISPLAYED,
            reporting_ua: None,
            final_recipient: &typed_address(sender),
            original_recipient: request.original_recipient.as_deref(),
            original_message_id: request.message_id.as_deref(),
            extension_fields: &[],
            original: None,
            message_id: &self.message_id,
            now: self.now,
        }
        .render()
    }
}

/// Returns the address of the person that the message names, or else the first one.
fn recipient_of<'a>(header: &[u8], account: &'a Account) -> Option<&'a str> {
    let fields = header::fields(header).filter(|field| field.is("To") || field.is("Cc"));
    let named: Vec<String> = fields.flat_map(|field| mailboxes(field.value)).map(|mailbox| mailbox.address()).collect();
    let is_named = |own: &&String| named.iter().any(|address| is_same_address(own, address));
    account.addresses.iter().find(is_named).or(account.addresses.first()).map(String::as_str)
}

fn refusal(refused: &RefusedRequest) -> String {
    match &refused.refusal {
        Refusal::AlreadyNotified => "The message was confirmed before.".to_owned(),
        other => sentence(&other.to_string()),
    }
}
