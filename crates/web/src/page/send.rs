//! The forms of the composer: saving a draft, looking up names, and sending.
//!
//! Sending is one job: it resolves the recipients, writes the message, submits it, and marks the answered message. The
//! transaction that accepts the message also replaces the draft by the copy in the folder with sent messages, so both
//! happen or none, whenever the server is killed. The copy has the same bytes that were submitted. The job runs to its
//! end also if the browser has gone. If the person wants some time to undo sending, the message waits in the queue for
//! that time ([`crate::page::undo`]).
//!
//! A form is sent once. The forms that were sent are in memory ([`crate::completed_forms`]). After a restart, the mail
//! file shows what became of a form: the `Message-ID` of the copy in the folder with sent messages is made from its
//! identifier, and so is the UNID of a copy that can be withdrawn ([`outgoing::copy_unid`]). The deletion stub of that
//! copy outlives the withdrawal.
//!
//! What the person has typed is not lost: a form that cannot be sent comes back with its content and the reason, and
//! files that came with it are saved with a draft.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use base::{Timestamp, Uid, UidSet, Unid, ViewId};
use mail::mailbox::{FlagChange, Flags, MailFile, MailSnapshot, NewMessage, SpecialUse};
use mail::mime::{MimeSource as _, PartKind, header, transfer_encoding};
use mail::router::{HeldCopy, SentCopy};
use mail::submission::{AcceptedSubmission, RefusedRequest, SubmissionRequest, SubmittedCopy};
use notes::Marks;
use store::Ticket;

use crate::answer;
use crate::backend::{Account, WebBackend};
use crate::completed_forms::{FormState, RunningForm, SentForm};
use crate::error::{Error, Result, sentence};
use crate::form::{Form, UploadedFile};
use crate::limits::{ADDRESSES_SHOWN, ATTACHMENTS_MAX, COMPOSER_EXTRA_BYTES, FORM_BYTES_MAX, SENT_SEARCHED};
use crate::mail_folders;
use crate::message_content::{file_name, media_type};
use crate::notice::{HeldMessage, Notice};
use crate::outgoing::{self, Outgoing, OutgoingFile, Purpose};
use crate::page::compose::{self, Composer, Suggestion, new_form, parse_original, read_draft};
use crate::page::message::{find, open};
use crate::personal_settings::PersonalSettings;
use crate::service::{Service, ServiceOptions};
use crate::visit::{TokenState, Visit};

/// What is needed to write the message of a form.
struct Work {
    composer: Composer,
    /// The parts of the draft that stay.
    kept: Vec<usize>,
    uploads: Vec<UploadedFile>,
    options: ServiceOptions,
    now: Timestamp,
    /// The UNID that the copy has if sending can be undone.
    copy: Unid,
    /// The time for which the message is held, if sending can be undone.
    hold: Option<Duration>,
}

/// Executes a form of the composer.
pub(crate) async fn submit(visit: Visit, body: Body) -> Result<Response> {
    let _permit = visit.service.uploads.begin(visit.caller.login()).ok_or(Error::TooManyRequests)?;
    // Later, nothing may fail that would lose what was typed.
    let settings = visit.settings().await?;
    let bytes_max = submitted_bytes_max(&visit.service);
    let (mut form, token) = visit.form_within(body, bytes_max).await?;
    let work = Work::read(&visit, settings, &mut form)?;
    if token == TokenState::Stale {
        return show_stale(&visit, work).await;
    }
    match form.text("do") {
        "send" => send(&visit, work).await,
        "save" => {
            let typed = work.composer.clone();
            let draft = match save(&visit, work).await {
                Ok((draft, _)) => draft,
                Err(error @ (Error::OverQuota | Error::Invalid(_) | Error::TooLarge(_))) => {
                    let failure = format!("{} The draft was not saved.", sentence(&error.to_string()));
                    return compose::page(&visit, typed, Some(failure), Vec::new()).await;
                }
                Err(error) => return Err(error),
            };
            let notice = Notice::text("The draft was saved.");
            let address = format!("/lite/compose?draft={draft}");
            Ok(answer::redirect(&notice.address(&address, &visit.secret)))
        }
        "look" => look_up(&visit, work).await,
        _ => Err(Error::Invalid("the form has no button that is known".to_owned())),
    }
}

/// Returns the maximum number of bytes of a form of the composer.
pub(crate) fn submitted_bytes_max(service: &Service) -> usize {
    service.options.message_bytes_max + FORM_BYTES_MAX + COMPOSER_EXTRA_BYTES
}

/// Returns the parts of the draft that stay.
pub(crate) fn kept_parts(form: &Form) -> Result<Vec<usize>> {
    let kept = form.all("keep").map(|part| part.parse().ok()).collect::<Option<_>>();
    kept.ok_or_else(|| Error::Invalid("the form is damaged".to_owned()))
}

/// Shows a form of another session again, and changes nothing. The other session may have been that of another person,
/// so the draft is that of the form only if it has the same identifier.
async fn show_stale(visit: &Visit, work: Work) -> Result<Response> {
    let Work { composer, kept, uploads, options, .. } = work;
    let mut failure =
        "You have logged in again since this page was made. Check the message and press the button again.".to_owned();
    let mut draft = None;
    if let Some(uid) = composer.draft {
        let read = visit.run("draft", move |file| {
            let snapshot = file.snapshot()?;
            Ok((read_draft(&snapshot, uid, &options.hostname)?, snapshot.ticket()))
        });
        draft = match read.await {
            Err(Error::NotFound(_)) => None,
            read => Some(read?).filter(|draft| draft.form == composer.form),
        };
    }
    let (draft, mut attachments) = draft.map(|found| (found.draft, found.attachments)).unwrap_or_default();
    attachments.retain(|file| kept.contains(&file.part));
    if !uploads.is_empty() || attachments.len() < kept.len() {
        failure.push_str(" Files must be chosen again.");
    }
    compose::page(visit, Composer { draft, attachments, ..composer }, Some(failure), Vec::new()).await
}

impl Work {
    fn read(visit: &Visit, settings: &PersonalSettings, form: &mut Form) -> Result<Self> {
        let composer = Composer::read(form)?;
        let kept = kept_parts(form)?;
        let uploads = form.take_files();
        if kept.len() + uploads.len() > ATTACHMENTS_MAX {
            return Err(Error::Invalid(format!("a message can have at most {ATTACHMENTS_MAX} attachments")));
        }
        let services = &visit.service.services;
        let seconds = settings.preferences.undo_seconds.filter(|seconds| *seconds > 0);
        let hold = seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let copy = outgoing::copy_unid(visit.caller.login(), &composer.form);
        let options = visit.service.options.clone();
        Ok(Self { composer, kept, uploads, options, now: services.clock.now(), copy, hold })
    }

    /// Returns a digest of what was typed and attached.
    fn digest(&self) -> blake3::Hash {
        let Composer { to, cc, bcc, subject, body, .. } = &self.composer;
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        [to, cc, bcc, subject, body].into_iter().for_each(|text| add(text.as_bytes()));
        self.kept.iter().for_each(|part| add(&part.to_le_bytes()));
        for file in &self.uploads {
            add(file.name.as_bytes());
            add(&file.content);
        }
        hasher.finalize()
    }

    /// Returns the message without its sender and its attachments.
    fn outgoing(&self) -> Outgoing {
        let composer = &self.composer;
        Outgoing {
            to: composer.to.clone(),
            cc: composer.cc.clone(),
            bcc: composer.bcc.clone(),
            subject: composer.subject.clone(),
            body: composer.body.clone(),
            in_reply_to: composer.in_reply_to.clone(),
            references: composer.references.clone(),
            original: composer.original.clone(),
            form: composer.form.clone(),
            ..Outgoing::default()
        }
    }

    /// Writes the message.
    fn write(&self, snapshot: &MailSnapshot<'_>, account: &Account, purpose: Purpose) -> Result<Vec<u8>> {
        let outgoing = Outgoing {
            from_name: account.name.clone(),
            from_address: account.addresses.first().cloned().unwrap_or_default(),
            files: self.files(snapshot)?,
            ..self.outgoing()
        };
        let written = outgoing.write(purpose, &self.options.hostname, self.now)?;
        if written.len() > self.options.message_bytes_max {
            let limit = crate::shown_text::size(self.options.message_bytes_max as u64);
            return Err(Error::Invalid(format!("the message with its attachments is larger than {limit}")));
        }
        Ok(written)
    }

    /// Returns the attachments: those of the draft that stay, new ones, and the answered or forwarded message.
    fn files(&self, snapshot: &MailSnapshot<'_>) -> Result<Vec<OutgoingFile>> {
        let mut files = self.kept_files(snapshot)?;
        files.extend(self.uploads.iter().map(|upload| OutgoingFile {
            name: outgoing::file_name(&upload.name),
            media_type: upload.media_type.clone(),
            content: upload.content.clone(),
        }));
        if self.composer.attaches_original
            && let Some((_, (folder, uid))) = original(&self.composer)
        {
            let gone = |_| {
                Error::Invalid("the message to attach is no longer in its folder, so it cannot be attached".to_owned())
            };
            let (_, entry) = find(snapshot, folder, uid).map_err(gone)?;
            let content = open(snapshot, &entry)?.raw()?;
            files.push(OutgoingFile {
                name: "original.eml".to_owned(),
                media_type: "message/rfc822".to_owned(),
                content,
            });
        }
        Ok(files)
    }

    fn kept_files(&self, snapshot: &MailSnapshot<'_>) -> Result<Vec<OutgoingFile>> {
        if self.kept.is_empty() {
            return Ok(Vec::new());
        }
        let gone = || {
            let text = "the draft was changed or sent in another window, so its attachments are not here; open the draft again";
            Error::Invalid(text.to_owned())
        };
        let folder = mail_folders::special(snapshot, SpecialUse::Drafts)?.ok_or_else(gone)?;
        let uid = Uid(self.composer.draft.ok_or_else(gone)?);
        let entry = snapshot.entry(folder.id, uid)?.ok_or_else(gone)?;
        let message = open(snapshot, &entry)?;
        let files = self.kept.iter().map(|index| {
            let part = message.structure().parts().get(*index).filter(|_| *index > 0).ok_or_else(gone)?;
            let body = message.range(part.body.clone())?;
            let content = match part.kind {
                PartKind::Leaf => {
                    let decoded = transfer_encoding::decode(&part.content.encoding, &body, body.len());
                    decoded.ok_or_else(gone)?.into_owned()
                }
                PartKind::Message => body.into_owned(),
                PartKind::Multipart => return Err(gone()),
            };
            Ok(OutgoingFile { name: outgoing::file_name(&file_name(part)), media_type: media_type(part), content })
        });
        files.collect()
    }
}

/// Returns the message that a composer refers to, and whether it forwards it.
fn original(composer: &Composer) -> Option<(bool, (u32, u32))> {
    let (kind, rest) = composer.original.split_once('.')?;
    Some((kind == "f", parse_original(rest)?))
}

/// Saves a draft in place of the one before. Returns its UID, and the composer with it.
async fn save(visit: &Visit, work: Work) -> Result<(u32, Composer)> {
    let caller = visit.caller.clone();
    let saved = visit.service.run(&visit.caller, "save", move |backend| {
        let account = backend.account(&caller)?;
        let file = backend.open(&caller)?;
        let (drafts, _) = mail_folders::special_or_create(&file, SpecialUse::Drafts, "Drafts")?;
        let snapshot = file.snapshot()?;
        let raw = work.write(&snapshot, &account, Purpose::Draft)?;
        let flags = Flags::from_system_flags(Marks::DRAFT.union(Marks::SEEN));
        let old =
            work.composer.draft.map(Uid).filter(|uid| snapshot.entry(drafts, *uid).is_ok_and(|entry| entry.is_some()));
        let (draft, ticket) = put(&file, (drafts, old), drafts, NewMessage { raw, flags, received: None })?;
        let composer = read_draft(&file.snapshot()?, draft.0, &work.options.hostname)?;
        let composer = Composer { form: work.composer.form, ..composer };
        Ok((draft.0, composer, ticket))
    });
    let (draft, composer, ticket) = saved.await?;
    visit.service.services.databases.store().durable(ticket).await?;
    Ok((draft, composer))
}

/// Puts a message into a folder, in place of a draft if there is one.
fn put(
    file: &MailFile,
    (drafts, draft): (ViewId, Option<Uid>),
    target: ViewId,
    message: NewMessage,
) -> Result<(Uid, Ticket)> {
    if let Some(draft) = draft {
        match file.replace(drafts, draft, target, &message) {
            Ok((_, uid, ticket)) => return Ok((uid, ticket)),
            // It was removed in the meantime.
            Err(mail::Error::Notes(notes::Error::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let (_, uids, ticket) = file.append(target, &[message])?;
    Ok((uids.first().copied().unwrap_or_default(), ticket))
}

/// Shows the composer again, with a reason. Files that came with the form are saved with a draft.
async fn show_again(visit: &Visit, work: Work, failure: Option<String>, found: Vec<Suggestion>) -> Result<Response> {
    if work.uploads.is_empty() && work.kept.is_empty() {
        return compose::page(visit, work.composer, failure, found).await;
    }
    let typed = work.composer.clone();
    match save(visit, work).await {
        Ok((draft, saved)) => {
            let composer = Composer { draft: Some(draft), attachments: saved.attachments, ..typed };
            compose::page(visit, Composer { attaches_original: false, ..composer }, failure, found).await
        }
        Err(error) => {
            let reason = sentence(&error.to_string());
            let failure = format!("{} {reason} The attachments were not kept.", failure.unwrap_or_default());
            compose::page(visit, typed, Some(failure), found).await
        }
    }
}

/// Replaces names by addresses, and shows what the directory knows about the others.
async fn look_up(visit: &Visit, mut work: Work) -> Result<Response> {
    let caller = visit.caller.clone();
    let mut lines = [work.composer.to.clone(), work.composer.cc.clone(), work.composer.bcc.clone()];
    let looked_up = visit.service.run(&visit.caller, "addresses", move |backend| {
        let mut suggestions = Vec::new();
        for line in &mut lines {
            let unknown = resolve_line(backend, &caller, line)?;
            for name in unknown {
                let entries = backend.find_addresses(&caller, &name, ADDRESSES_SHOWN)?;
                suggestions.push(Suggestion { name, entries });
            }
        }
        Ok((lines, suggestions))
    });
    let ([to, cc, bcc], suggestions) = looked_up.await?;
    work.composer = Composer { to, cc, bcc, ..work.composer };
    show_again(visit, work, None, suggestions).await
}

/// Replaces the names in a line by addresses. Returns those that the directory does not know.
fn resolve_line(backend: &dyn WebBackend, caller: &http::Caller, line: &mut String) -> Result<Vec<String>> {
    let mailboxes = outgoing::mailboxes(line);
    if mailboxes.iter().all(outgoing::is_address) {
        return Ok(Vec::new());
    }
    let mut unknown = Vec::new();
    let mut texts = Vec::new();
    for mailbox in &mailboxes {
        let text = crate::message_content::mailbox_text(mailbox);
        let typed = if outgoing::is_address(mailbox) { None } else { Some(text.trim().to_owned()) };
        match typed {
            None => texts.push(text),
            Some(name) => match backend.address_of(caller, &name)? {
                Some(address) => texts.push(address),
                None => {
                    texts.push(name.clone());
                    unknown.push(name);
                }
            },
        }
    }
    *line = texts.join(", ");
    Ok(unknown)
}

/// Why a message was not sent.
enum NotSent {
    /// The person can correct it.
    Reason(String),
    /// The form was sent before. The answer waits for the ticket.
    Already(Ticket),
    /// The form was sent, and then its copy was deleted, by the withdrawal or by the person. The answer waits for the
    /// ticket.
    Withdrawn(Ticket),
}

/// The result of sending.
struct Sent {
    accepted: AcceptedSubmission,
    copy: KeptCopy,
}

/// The copy of a message in the folder with sent messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptCopy {
    /// The mail file has no room for it.
    None,
    /// It exists.
    Kept,
    /// It exists, and the message can be withdrawn with it.
    Held,
}

async fn send(visit: &Visit, mut work: Work) -> Result<Response> {
    let content = work.digest();
    let sending = loop {
        match visit.service.sent_forms.begin(visit.caller.login(), &work.composer.form, content) {
            FormState::New(sending) => break sending,
            FormState::Running(running) => drop(running.lock().await),
            FormState::Completed(sent) => return already_sent(visit, sent).await,
            // A browser that repeats a form does not change it, so a person means another message.
            FormState::Changed => return ask_again(visit, work, "Another message was sent from this form.").await,
        }
    };
    let caller = visit.caller.clone();
    let peer = visit.context.peer.address;
    let ran = visit.service.run(&visit.caller, "send", move |backend| {
        let sent = send_in_job(backend, (&caller, peer), &mut work, sending);
        Ok((sent, work))
    });
    let (sent, work) = ran.await?;
    let sent = match sent {
        Ok(Ok(sent)) => sent,
        Ok(Err(NotSent::Already(ticket))) => {
            return already_sent(visit, SentForm { ticket, held: None }).await;
        }
        Ok(Err(NotSent::Withdrawn(ticket))) => {
            visit.service.services.databases.store().durable(ticket).await?;
            let reason = "The message of this form was withdrawn, or was sent and its copy deleted.";
            return ask_again(visit, work, reason).await;
        }
        Ok(Err(NotSent::Reason(reason))) => return show_again(visit, work, Some(reason), Vec::new()).await,
        Err(Error::Invalid(reason)) => {
            let reason = format!("{} Nothing was sent.", sentence(&reason));
            let work = Work { kept: Vec::new(), ..work };
            return show_again(visit, work, Some(reason), Vec::new()).await;
        }
        Err(error) => return Err(error),
    };
    sent.accepted.durable.await.map_err(|_| Error::Unavailable)?;
    let notice = match (sent.copy, work.hold) {
        (KeptCopy::Held, Some(time)) => {
            let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
            Notice::Held(HeldMessage { id: sent.accepted.id, seconds })
        }
        (KeptCopy::None, _) => Notice::text(
            "The message was sent, but your mail file has no room for a copy. Delete messages and empty the trash.",
        ),
        _ => Notice::text("The message was sent."),
    };
    Ok(answer::redirect(&notice.address("/lite/folders", &visit.secret)))
}

/// Shows a form that was used up with its content, as a new one.
async fn ask_again(visit: &Visit, mut work: Work, reason: &str) -> Result<Response> {
    work.composer.form = new_form(visit.service.services.random.as_ref());
    let failure = format!("{reason} This one was not sent. Check it, and send it again.");
    show_again(visit, work, Some(failure), Vec::new()).await
}

/// Answers that a form was sent before, when that is durable. The browser that shows this answer may not have shown the
/// first one, so a message that is held can be withdrawn from here, too.
async fn already_sent(visit: &Visit, sent: SentForm) -> Result<Response> {
    visit.service.services.databases.store().durable(sent.ticket).await?;
    let now = visit.service.services.clock.now();
    let notice = match sent.held.filter(|(_, release_at)| *release_at > now) {
        Some((id, release_at)) => {
            let seconds = u32::try_from(release_at.since(now).as_secs()).unwrap_or(u32::MAX);
            Notice::Held(HeldMessage { id, seconds: seconds.max(1) })
        }
        None => Notice::text("This message was sent before. It was not sent again."),
    };
    Ok(answer::redirect(&notice.address("/lite/folders", &visit.secret)))
}

/// Sends a message. Runs on a worker.
fn send_in_job(
    backend: &dyn WebBackend,
    (caller, peer): (&http::Caller, Option<std::net::SocketAddr>),
    work: &mut Work,
    sending: RunningForm<SentForm>,
) -> Result<std::result::Result<Sent, NotSent>> {
    let account = backend.account(caller)?;
    let file = backend.open(caller)?;
    let snapshot = file.snapshot()?;
    match stored_form(&snapshot, work)? {
        StoredForm::None => {}
        StoredForm::Sent => {
            sending.complete(SentForm { ticket: snapshot.ticket(), held: None });
            return Ok(Err(NotSent::Already(snapshot.ticket())));
        }
        StoredForm::Withdrawn => return Ok(Err(NotSent::Withdrawn(snapshot.ticket()))),
    }
    let recipients = match recipients(backend, caller, work)? {
        Ok(recipients) => recipients,
        Err(reason) => return Ok(Err(NotSent::Reason(reason))),
    };
    let message = work.write(&snapshot, &account, Purpose::Sending)?;
    drop(snapshot);
    let request = SubmissionRequest {
        login: caller.login().to_owned(),
        peer,
        sender: account.addresses.first().cloned().unwrap_or_default(),
        recipients,
        message: message.clone(),
        request_id: work.composer.form.clone(),
    };
    let copy = sent_copy(&file, work, message)?;
    let release_at = copy.as_ref().and_then(|copy| copy.release_at);
    let kept = match &copy {
        None => KeptCopy::None,
        Some(copy) if copy.release_at.is_some() => KeptCopy::Held,
        Some(_) => KeptCopy::Kept,
    };
    let accepted = match backend.submit(request, copy) {
        Ok(accepted) => accepted,
        Err(refused) => return Ok(Err(NotSent::Reason(refusal(&refused)))),
    };
    let held = release_at.map(|release_at| (accepted.id.clone(), release_at));
    sending.complete(SentForm { ticket: accepted.ticket, held });
    mark_original(&file, work);
    Ok(Ok(Sent { accepted, copy: kept }))
}

fn refusal(refused: &RefusedRequest) -> String {
    let reason = sentence(&refused.refusal.to_string());
    match &refused.recipient {
        Some(recipient) => format!("{}: {reason} Nothing was sent.", crate::shown_text::on_one_line(recipient)),
        None => format!("{reason} Nothing was sent."),
    }
}

/// What the mail file has of a form that was sent before a restart, or was withdrawn.
enum StoredForm {
    /// Nothing.
    None,
    /// The copy of its message.
    Sent,
    /// The deletion stub of a copy that could be withdrawn.
    Withdrawn,
}

fn stored_form(snapshot: &MailSnapshot<'_>, work: &Work) -> Result<StoredForm> {
    let reading = snapshot.reading();
    if let Some(note) = reading.find(work.copy)? {
        let is_copy = reading.header(note)?.is_some_and(|header| !header.is_stub());
        return Ok(if is_copy { StoredForm::Sent } else { StoredForm::Withdrawn });
    }
    let Some(folder) = mail_folders::special(snapshot, SpecialUse::Sent)? else { return Ok(StoredForm::None) };
    let found = find_form(snapshot, folder.id, (&work.composer.form, &work.options.hostname))?;
    Ok(if found.is_some() { StoredForm::Sent } else { StoredForm::None })
}

/// Returns the message of a form, if it is among the newest ones of a folder.
pub(crate) fn find_form(
    snapshot: &MailSnapshot<'_>,
    folder: ViewId,
    (form, hostname): (&str, &str),
) -> Result<Option<Uid>> {
    let id = format!("<{}>", Outgoing::message_id(form, hostname));
    let count = snapshot.status(folder)?.messages;
    let Some(first) = snapshot.uid_at(folder, count.saturating_sub(SENT_SEARCHED))? else { return Ok(None) };
    let mut found = None;
    snapshot.entries(folder, first..=Uid(u32::MAX), &mut |entry| {
        if let Some(message) = snapshot.message_of(&entry)? {
            let known = header::first(message.header(), "Message-ID").unwrap_or_default();
            found = Some(entry.uid).filter(|_| known.trim_ascii() == id.as_bytes());
        }
        Ok(if found.is_some() { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

/// Returns the addresses of all recipients, each once, or why there are none.
fn recipients(
    backend: &dyn WebBackend,
    caller: &http::Caller,
    work: &mut Work,
) -> Result<std::result::Result<Vec<String>, String>> {
    let composer = &mut work.composer;
    let mut unknown = Vec::new();
    for line in [&mut composer.to, &mut composer.cc, &mut composer.bcc] {
        unknown.extend(resolve_line(backend, caller, line)?);
    }
    if !unknown.is_empty() {
        let names = crate::shown_text::shortened(&crate::shown_text::on_one_line(&unknown.join(", ")), 300);
        return Ok(Err(format!("Nobody is known as {names}. Correct the name or look it up. Nothing was sent.")));
    }
    let mut found: Vec<String> = Vec::new();
    for mailbox in [&composer.to, &composer.cc, &composer.bcc].iter().flat_map(|line| outgoing::mailboxes(line)) {
        let address = mailbox.address();
        if !found.contains(&address) {
            found.push(address);
        }
    }
    if found.is_empty() {
        return Ok(Err("The message has no recipients. Nothing was sent.".to_owned()));
    }
    if found.len() > work.options.recipients_max {
        let limit = work.options.recipients_max;
        return Ok(Err(format!("A message can have at most {limit} recipients. Nothing was sent.")));
    }
    Ok(Ok(found))
}

/// Returns the copy for the folder with sent messages, which replaces the draft. Returns `None` if the mail file has no
/// room for it.
fn sent_copy(file: &MailFile, work: &Work, raw: Vec<u8>) -> Result<Option<SubmittedCopy>> {
    let quota = file.quota()?;
    if quota.limit_bytes.is_some_and(|limit| quota.used_bytes.saturating_add(raw.len() as u64) > limit) {
        return Ok(None);
    }
    let (mailbox, _) = mail_folders::special_or_create(file, SpecialUse::Sent, "Sent")?;
    let (drafts, _) = mail_folders::special_or_create(file, SpecialUse::Drafts, "Drafts")?;
    let message = NewMessage { raw, flags: Flags::from_system_flags(Marks::SEEN), received: None };
    let draft = work.composer.draft.map(|draft| (drafts, Uid(draft)));
    let held = match work.hold {
        None => None,
        Some(_) => {
            let draft_fields = work.outgoing().draft_fields(&work.options.hostname, work.now)?;
            Some(HeldCopy { unid: work.copy, draft_fields })
        }
    };
    let copy = SentCopy { mailbox, draft, message: Arc::new(file.prepare(&message)?), held };
    let release_at = work.hold.map(|time| work.now.after(time));
    Ok(Some(SubmittedCopy { mail_file: file.database().path(), copy, release_at }))
}

/// Marks the answered or forwarded message. The message was sent whether its original can be marked or not.
fn mark_original(file: &MailFile, work: &Work) {
    let Some((is_forwarded, (folder, uid))) = original(&work.composer) else { return };
    let mark = if is_forwarded { "$Forwarded" } else { "\\Answered" };
    let change = FlagChange::Add([mark].into_iter().collect());
    if let Err(error) = file.store(ViewId(folder), &UidSet::from(uid..=uid), &change, None) {
        tracing::debug!(target: "web", %error, "an answered message was not marked");
    }
}
