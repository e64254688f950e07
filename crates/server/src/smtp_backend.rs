//! The backend of SMTP and LMTP: checks recipients and accepts messages, based on the directory and the router.
//!
//! The router accepts a message in one batch; the reply waits until that batch is durable. Outgoing mail of local
//! domains is signed before it is accepted, so that the queue holds exactly the bytes that will be sent.

use std::sync::Arc;

use directory::{Directory, Resolution};
use mail::mailbox::MailStore;
use mail::router::{self, Router};
use smtp::backend::{Accepted, Acceptor, DurableFuture, RecipientReply, Recipients};
use smtp::envelope::{Body, Envelope, Protocol, Recipient, ReturnContent, Sender};
use smtp::{Refusal, Status};
use tokio::sync::Notify;

use crate::config::setting::SenderPolicy;
use crate::core::Core;
use crate::counts::MailCounts;
use crate::signing::Signing;

/// Checks recipients and accepts messages for SMTP and LMTP.
pub struct SmtpBackend {
    directory: Arc<Directory>,
    mail: Arc<MailStore>,
    router: Arc<Router>,
    signing: Arc<Signing>,
    /// The sender addresses that users may use.
    senders: SenderPolicy,
    counts: Arc<MailCounts>,
    /// Notified when a message is added to the queue.
    queued: Arc<Notify>,
}

impl SmtpBackend {
    /// Creates the service. `queued` is notified whenever a message is added to the queue.
    #[must_use]
    pub fn new(core: &Core, queued: &Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            directory: Arc::clone(&core.directory),
            mail: Arc::clone(&core.mail),
            router: Arc::clone(&core.router),
            signing: Arc::clone(&core.signing),
            senders: core.config.submission.sender,
            counts: Arc::clone(&core.mail_counts),
            queued: Arc::clone(queued),
        })
    }

    /// Returns `true` if an authenticated user sends the message and at least one recipient is remote, directly or
    /// through a group.
    fn must_sign(&self, envelope: &Envelope) -> bool {
        let is_ours = envelope.sender.login.is_some() && envelope.protocol != Protocol::Lmtp;
        let leaves = |recipient: &Recipient| match self.directory.resolve(&recipient.address) {
            Ok(Resolution::Local(recipients)) => !recipients.remote.is_empty(),
            Ok(Resolution::Remote(_)) => true,
            _ => false,
        };
        is_ours && envelope.recipients.iter().any(leaves)
    }

    /// Refuses a user's message if a `From` address is not the user's own, and every message of a user who may no
    /// longer log in. The second check is needed because a session ends some time after its account is disabled, and
    /// because the reverse path may be empty.
    fn check_user(&self, envelope: &Envelope, message: &[u8]) -> Result<(), Refusal> {
        let Some(login) = &envelope.sender.login else { return Ok(()) };
        let failed = |error: directory::Error| {
            tracing::error!(target: "smtp", %error, "cannot look up a sender");
            Refusal::temporary()
        };
        let person = self.directory.person(login).map_err(failed)?.filter(|person| !person.disabled);
        let Some(person) = person else { return Err(account_closed()) };
        if self.directory.deny_list_of(&person).map_err(failed)?.is_some() {
            return Err(account_closed());
        }
        if self.senders == SenderPolicy::Any {
            return Ok(());
        }
        for author in authors(message) {
            if !self.directory.owns_address(&person, &author).map_err(failed)? {
                let text = format!(
                    "{} is not one of your addresses; From may contain only your own addresses",
                    printable(&author)
                );
                return Err(Refusal::new(550, Status(5, 7, 1), text));
            }
        }
        Ok(())
    }

    fn take(&self, envelope: Envelope, message: Vec<u8>) -> Result<Accepted, Refusal> {
        self.check_user(&envelope, &message)?;
        let message = if self.must_sign(&envelope) { self.signing.sign(message) } else { message };
        let ours = router_envelope(&envelope);
        let taken = self.router.accept(&ours, &message).map_err(|error| refusal(&error))?;
        tracing::info!(
            target: "mail",
            id = envelope.id,
            from = envelope.sender.reverse_path,
            peer = %envelope.sender.peer,
            size = message.len(),
            delivered = taken.delivered,
            queued = taken.queued,
            "accepted"
        );
        let counts = self.counts.of(&envelope);
        counts.accepted.add(1);
        counts.accepted_bytes.add(message.len());
        self.counts.delivered.add(taken.delivered);
        self.counts.queued.add(taken.queued);
        if taken.queued > 0 {
            self.queued.notify_one();
        }
        let durable = self.mail.notes().store().durable(taken.ticket);
        let durable: DurableFuture = Box::pin(async move { durable.await.map_err(|error| refusal(&error.into())) });
        Ok(Accepted { id: envelope.id, durable, refused: Vec::new() })
    }

    fn is_full(&self, mail_file: &str) -> bool {
        let quota = self.mail.open_as_server(mail_file).and_then(|file| file.quota());
        quota.is_ok_and(|quota| quota.limit_bytes.is_some_and(|limit| quota.used_bytes >= limit))
    }
}

impl Recipients for SmtpBackend {
    fn check(&self, _sender: &Sender, address: &str) -> RecipientReply {
        let refused = |code, status, text: String| RecipientReply::Refused(Refusal::new(code, status, text));
        match self.directory.resolve(address) {
            Ok(Resolution::Local(recipients)) => match recipients.people.as_slice() {
                [person]
                    if recipients.remote.is_empty()
                        && person.quota_bytes.is_some()
                        && self.is_full(&person.mail_file) =>
                {
                    RecipientReply::OverQuota
                }
                _ => RecipientReply::Local,
            },
            Ok(Resolution::Remote(_)) => RecipientReply::Remote,
            Ok(Resolution::Unknown) => RecipientReply::Unknown,
            Ok(Resolution::Disabled) => RecipientReply::Disabled,
            Ok(Resolution::Invalid(why)) => refused(553, Status(5, 1, 3), why.to_string()),
            Ok(Resolution::NoRecipients) => refused(550, Status(5, 2, 4), "This address has no recipients".to_owned()),
            Ok(Resolution::NotForMail { why }) => refused(550, Status(5, 2, 4), why),
            Err(error) => {
                tracing::error!(target: "smtp", address, %error, "cannot look up a recipient");
                RecipientReply::Unavailable
            }
        }
    }

    fn check_now(&self, _sender: &Sender, address: &str) -> Option<RecipientReply> {
        match self.directory.resolve_cached(address)? {
            // For a mailbox with a quota, only a lookup in the mail file shows whether it is full, so the answer is not
            // known here.
            Resolution::Local(recipients) if recipients.people.iter().all(|person| person.quota_bytes.is_none()) => {
                Some(RecipientReply::Local)
            }
            Resolution::Remote(_) => Some(RecipientReply::Remote),
            Resolution::Disabled => Some(RecipientReply::Disabled),
            _ => None,
        }
    }

    fn expand(&self, _sender: &Sender, list: &str) -> Option<Vec<String>> {
        // Deny lists and groups for access control only are not mailing lists, and their members are not disclosed.
        let group = self.directory.group(list).ok()??;
        group.kind.takes_mail().then(|| group.members.clone())
    }
}

impl Acceptor for SmtpBackend {
    fn accept(&self, envelope: Envelope, message: Vec<u8>) -> Result<Accepted, Refusal> {
        let counts = self.counts.of(&envelope);
        self.take(envelope, message).inspect_err(|_| counts.refused.add(1))
    }

    fn check_capacity(&self, size_bytes: u64) -> Result<(), Refusal> {
        let store = self.mail.notes().store();
        let fits = store.committer().poisoned().is_none() && store.engine().check_space(size_bytes).is_ok();
        if fits && self.router.has_capacity() { Ok(()) } else { Err(Refusal::insufficient_storage()) }
    }
}

fn account_closed() -> Refusal {
    Refusal::new(550, Status(5, 7, 1), "Your account was disabled or removed")
}

/// Returns the addresses of the `From` fields.
fn authors(message: &[u8]) -> Vec<String> {
    let mut authors = Vec::new();
    for field in smtp::header::fields(message).filter(|field| field.is("From")) {
        authors.extend(mail::mime::address::mailboxes(field.value).map(|author| author.address()));
    }
    authors
}

/// Returns the printable ASCII characters of a text from a message, at most 100, for use in a reply.
fn printable(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic()).take(100).collect()
}

fn router_envelope(envelope: &Envelope) -> router::Envelope {
    let recipients = envelope.recipients.iter().map(|recipient| router::Recipient {
        address: recipient.address.clone(),
        notify: recipient.notify.map(|notify| router::Notify {
            success: notify.success,
            failure: notify.failure,
            delay: notify.delay,
        }),
        original: recipient.original.as_ref().map(|original| format!("{};{}", original.kind, original.address)),
    });
    router::Envelope {
        id: envelope.id.clone(),
        reverse_path: envelope.sender.reverse_path.clone(),
        recipients: recipients.collect(),
        envelope_id: envelope.envelope_id.clone(),
        return_content: match envelope.ret {
            None => router::ReturnContent::Unspecified,
            Some(ReturnContent::Full) => router::ReturnContent::Full,
            Some(ReturnContent::Headers) => router::ReturnContent::Headers,
        },
        smtputf8: envelope.smtputf8,
        eight_bit: envelope.body == Body::EightBitMime,
    }
}

/// Converts an error to an SMTP refusal and logs the actual error.
fn refusal(error: &mail::Error) -> Refusal {
    tracing::error!(target: "smtp", %error, "cannot accept a message");
    match error {
        mail::Error::TooLarge { .. } => Refusal::new(552, Status(5, 3, 4), "The message is too large"),
        mail::Error::OverQuota { .. } => Refusal::new(452, Status(4, 2, 2), "Mailbox full"),
        mail::Error::Notes(notes::Error::Store(store::Error::Full(_))) => Refusal::insufficient_storage(),
        _ => Refusal::temporary(),
    }
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use smtp::envelope::{OriginalRecipient, RecipientLocation};
    use wire::Peer;

    use super::*;
    use crate::sample::Sample;

    fn sender(login: Option<&str>) -> Sender {
        let login = login.map(str::to_owned);
        Sender { peer: Peer::local(), login, reverse_path: "ann@acme.test".to_owned() }
    }

    fn envelope(to: &[&str], login: Option<&str>) -> Envelope {
        let recipient = |address: &&str| Recipient {
            address: (*address).to_owned(),
            location: RecipientLocation::Local,
            notify: None,
            original: Some(OriginalRecipient { kind: "rfc822".to_owned(), address: "x@y.test".to_owned() }),
        };
        Envelope {
            id: "id-1".to_owned(),
            sender: sender(login),
            recipients: to.iter().map(recipient).collect(),
            envelope_id: Some("env".to_owned()),
            ret: Some(ReturnContent::Full),
            body: Body::EightBitMime,
            smtputf8: false,
            helo: "client.test".to_owned(),
            protocol: Protocol::Esmtp,
            received: Timestamp::from_seconds(0),
        }
    }

    fn reception(sample: &Sample) -> Arc<SmtpBackend> {
        SmtpBackend::new(&sample.core, &Arc::new(Notify::new()))
    }

    #[test]
    fn recipients_are_told_apart() {
        let sample = Sample::new();
        let reception = reception(&sample);
        let check = |address: &str, code: Option<u16>| {
            let reply = reception.check(&sender(None), address);
            assert_eq!(reply.clone().refusal().map(|refusal| refusal.code), code, "{address}: {reply:?}");
            reply
        };
        assert_eq!(check("ann@acme.test", None), RecipientReply::Local);
        assert_eq!(check("team@acme.test", None), RecipientReply::Local);
        assert_eq!(check("dora@elsewhere.test", None), RecipientReply::Remote);
        assert_eq!(check("nobody@acme.test", Some(550)), RecipientReply::Unknown);
        assert_eq!(check("eve@acme.test", Some(550)), RecipientReply::Disabled);
        check("no address", Some(553));
        assert_eq!(reception.expand(&sender(None), "team@acme.test").map(|members| members.len()), Some(3));
        assert_eq!(reception.expand(&sender(None), "ann@acme.test"), None);
        let members = vec!["ann@acme.test".to_owned()];
        let gone = directory::NewGroup {
            name: "gone".to_owned(),
            kind: directory::GroupKind::DenyList,
            members,
            ..Default::default()
        };
        sample.core.directory.group_add(&gone).expect("it is free");
        assert_eq!(reception.expand(&sender(None), "gone"), None, "a deny list is no mailing list");
    }

    #[test]
    fn a_full_mailbox_is_told_before_the_message_comes() {
        let sample = Sample::new();
        let reception = reception(&sample);
        assert_eq!(reception.check(&sender(None), "bob@acme.test"), RecipientReply::Local);
        let large = format!("Subject: large\r\n\r\n{}\r\n", "0123456789\r\n".repeat(80_000));
        let file = sample.core.mail.open_as_server("mail/bob.nsf").expect("the mail file exists");
        let inbox = file.view().expect("a view").folder("INBOX").expect("a look").expect("an inbox").id;
        let message = mail::mailbox::NewMessage { raw: large.into_bytes(), flags: Default::default(), received: None };
        file.append(inbox, &[message]).expect("there is room for one");
        let bob = sample.core.directory.person("bob@acme.test").expect("a look").expect("he is there");
        crate::admin::people::set_quota(&sample.core, &bob, Some(1_000)).expect("it can be lowered");
        assert_eq!(reception.check(&sender(None), "bob@acme.test"), RecipientReply::OverQuota);
    }

    #[test]
    fn a_message_that_the_disk_cannot_hold_is_refused_before_it_comes() {
        let sample = Sample::new();
        let reception = reception(&sample);
        reception.check_capacity(0).expect("there is room for something");
        reception.check_capacity(1_000).expect("there is room for a little");
        assert_eq!(reception.check_capacity(1 << 60).expect_err("no disk is so large").code, 452);
    }

    #[test]
    fn what_is_known_needs_no_look() {
        let sample = Sample::new();
        let reception = reception(&sample);
        let known = |address: &str| reception.check_now(&sender(None), address);
        for address in ["ann@acme.test", "bob@acme.test", "eve@acme.test", "x@far.test", "team@acme.test"] {
            let checked = reception.check(&sender(None), address);
            let expected = (!address.starts_with("bob") && !address.starts_with("team")).then_some(checked);
            assert_eq!(known(address), expected, "{address}");
        }
    }

    #[test]
    fn users_send_in_their_own_names() {
        let sample = Sample::new();
        let check = |reception: &SmtpBackend, login: Option<&str>, from: &str, code: Option<u16>| {
            let letter = format!("{from}Subject: x\r\n\r\nFrom: bob@acme.test\r\n");
            let outcome = reception.accept(envelope(&["ann@acme.test"], login), letter.into_bytes());
            assert_eq!(outcome.err().map(|refusal| refusal.code), code, "{login:?} {from:?}");
        };
        let own = reception(&sample);
        let ann = Some("CN=ann/O=acme.test");
        check(&own, ann, "From: Ann <ann@acme.test>\r\n", None);
        check(&own, ann, "From: \"bob@acme.test\" <ANN+lists@Acme.Test> (bob@acme.test)\r\n", None);
        check(&own, ann, "From: ann@acme.test <bob@acme.test>\r\n", Some(550));
        check(&own, ann, "From: ann@acme.test,\r\n bob@acme.test\r\n", Some(550));
        check(&own, ann, "From: someone@far.test\r\n", Some(550));
        check(&own, Some("CN=gone/O=acme.test"), "From: ann@acme.test\r\n", Some(550));
        check(&own, None, "From: bob@acme.test\r\n", None);
        check(&own, Some("CN=eve/O=acme.test"), "From: eve@acme.test\r\n", Some(550));
        let refused = own.accept(envelope(&["ann@acme.test"], ann), b"From: bob@acme.test\r\n\r\n".to_vec());
        let refusal = refused.err().expect("it is not hers");
        assert_eq!(
            (refusal.status, refusal.text.contains("bob@acme.test is not one of your addresses")),
            (Status(5, 7, 1), true)
        );
        let [smtp, submission, _] = &sample.core.mail_counts.by_protocol;
        assert_eq!((smtp.accepted.get(), submission.accepted.get(), submission.refused.get()), (1, 2, 6));
        assert_eq!(sample.core.mail_counts.delivered.get(), 3);
        let sample = Sample::with(&["submission.sender=any"]);
        check(&reception(&sample), ann, "From: someone@far.test\r\n", None);
        check(&reception(&sample), Some("CN=eve/O=acme.test"), "From: someone@far.test\r\n", Some(550));
    }

    #[tokio::test]
    async fn a_message_is_accepted_durably_for_everybody() {
        let sample = Sample::new();
        let queued = Arc::new(Notify::new());
        let reception = SmtpBackend::new(&sample.core, &queued);
        reception.check_capacity(1_000).expect("there is room");
        let accepted = reception.accept(envelope(&["team@acme.test"], None), b"Subject: x\r\n\r\n".to_vec());
        let accepted = accepted.expect("it is taken");
        accepted.durable.await.expect("the disk is sound");
        queued.notified().await;
        let (_, entry) = sample.core.router.list().pop().expect("one waits for elsewhere");
        assert_eq!(entry.recipients[0].recipient.address, "dora@elsewhere.test");
        assert_eq!(entry.recipients[0].recipient.original.as_deref(), Some("rfc822;x@y.test"));
        assert_eq!((entry.envelope.envelope_id.as_deref(), entry.envelope.eight_bit), (Some("env"), true));
        assert_eq!(entry.envelope.return_content, router::ReturnContent::Full);
    }

    #[test]
    fn only_what_our_users_send_away_is_signed() {
        let sample = Sample::new();
        let reception = reception(&sample);
        let check =
            |to: &[&str], login, signed| assert_eq!(reception.must_sign(&envelope(to, login)), signed, "{to:?}");
        check(&["dora@elsewhere.test"], Some("ann"), true);
        check(&["ann@acme.test", "team@acme.test"], Some("ann"), true);
        check(&["ann@acme.test", "bob@acme.test"], Some("ann"), false);
        check(&["dora@elsewhere.test"], None, false);
    }

    #[test]
    fn failures_are_temporary_unless_the_message_is_at_fault() {
        let full = store::Error::Full("disk".to_owned());
        let check = |error: &mail::Error, code| assert_eq!(refusal(error).code, code);
        check(&mail::Error::TooLarge { size_bytes: 2, max_bytes: 1 }, 552);
        check(&mail::Error::OverQuota { used_bytes: 2, limit_bytes: 1 }, 452);
        check(&full.into(), 452);
        check(&mail::Error::Damaged("note"), 451);
    }
}
