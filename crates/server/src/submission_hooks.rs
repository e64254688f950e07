//! The services around the submission of mail: DKIM signatures, the log, the counters, and the wake-up of the transfer
//! agent.
//!
//! `mail::submission` decides what is accepted; this module connects it with the parts of the server that it does not
//! know. A message is signed before it is accepted, so that the queue holds exactly the bytes that will be sent.

use std::error::Error;
use std::sync::Arc;

use config::setting::SenderPolicy;
use instance::Instance;
use instance::signing::Signing;
use mail::router::{AcceptOutcome, Envelope};
use mail::submission::{Origin, Refusal, SubmissionHooks, SubmissionOptions, SubmissionService};
use tokio::sync::Notify;

use crate::configured_networks::networks;
use crate::counters::MailCounters;

/// Signs, logs and counts submitted messages.
struct ServerSubmissionHooks {
    signing: Arc<Signing>,
    counters: Arc<MailCounters>,
    /// Notified when a message is added to the queue.
    queued: Arc<Notify>,
}

/// Creates the service that accepts messages and counts them in `counters`. `queued` is notified whenever a message is
/// added to the queue.
#[must_use]
pub fn submission_service(
    instance: &Instance,
    counters: &Arc<MailCounters>,
    queued: &Arc<Notify>,
) -> Arc<SubmissionService> {
    let limits = &instance.config.limits;
    let hooks = ServerSubmissionHooks {
        signing: Arc::clone(&instance.signing),
        counters: Arc::clone(counters),
        queued: Arc::clone(queued),
    };
    let options = SubmissionOptions {
        hostname: instance.hostname.clone(),
        senders: match instance.config.submission.sender {
            SenderPolicy::Own => mail::submission::SenderPolicy::Own,
            SenderPolicy::Any => mail::submission::SenderPolicy::Any,
        },
        message_bytes_max: limits.message_size.0,
        recipients_max: usize::try_from(limits.recipients).unwrap_or(usize::MAX),
        special_networks: networks(&instance.config.router.special_networks),
    };
    let directory = Arc::clone(&instance.directory);
    SubmissionService::new(
        directory,
        Arc::clone(&instance.mail),
        Arc::clone(&instance.router),
        Arc::new(hooks),
        options,
    )
}

impl SubmissionHooks for ServerSubmissionHooks {
    fn sign(&self, message: Vec<u8>) -> Vec<u8> {
        self.signing.sign(message)
    }

    fn record_accepted(&self, origin: &Origin, envelope: &Envelope, size_bytes: usize, outcome: AcceptOutcome) {
        let AcceptOutcome { delivered, queued, .. } = outcome;
        let peer = origin.peer.map_or_else(|| "local".to_owned(), |peer| peer.to_string());
        tracing::info!(
            target: "mail",
            id = envelope.id,
            from = envelope.reverse_path,
            %peer,
            size = size_bytes,
            delivered,
            queued,
            "accepted"
        );
        let counters = self.counters.for_origin(origin);
        counters.accepted.add(1);
        counters.accepted_bytes.add(size_bytes as u64);
        self.counters.delivered.add(delivered as u64);
        self.counters.queued.add(queued as u64);
        if queued > 0 {
            self.queued.notify_one();
        }
    }

    fn record_refused(&self, origin: &Origin, _refusal: &Refusal) {
        self.counters.for_origin(origin).refused.add(1);
    }

    fn report_failure(&self, operation: &'static str, error: &(dyn Error + 'static)) {
        tracing::error!(target: "mail", error, "cannot {operation}");
    }
}

#[cfg(test)]
mod tests {
    use mail::router::Recipient;
    use mail::submission::{ReceivedProtocol, ResolvedAddresses, Submission};

    use sample::Sample;

    use super::*;

    fn submission(to: &str, login: Option<&str>, from: &str) -> Submission {
        Submission {
            origin: Origin { protocol: ReceivedProtocol::Esmtp, peer: None, login: login.map(str::to_owned) },
            envelope: Envelope { id: "id-1".to_owned(), recipients: vec![Recipient::new(to)], ..Envelope::default() },
            resolved: ResolvedAddresses::default(),
            message: format!("From: {from}\r\n\r\n").into_bytes(),
        }
    }

    #[tokio::test]
    async fn messages_are_counted_and_wake_the_agent() {
        let sample = Sample::new();
        let queued = Arc::new(Notify::new());
        let counters = Arc::default();
        let service = submission_service(&sample.instance, &counters, &queued);
        let ann = Some("CN=ann/O=acme.test");
        let accepted = service.accept(submission("team@acme.test", ann, "ann@acme.test")).expect("a valid message");
        accepted.durable.await.expect("the disk is sound");
        queued.notified().await;
        service.accept(submission("ann@acme.test", None, "x@far.test")).expect("a valid message");
        let refused = service.accept(submission("ann@acme.test", ann, "bob@acme.test"));
        assert!(matches!(refused, Err(Refusal::Author(_))));
        let [smtp, submission, _] = &counters.by_protocol;
        assert_eq!((smtp.accepted.get(), submission.accepted.get(), submission.refused.get()), (1, 1, 1));
        assert_eq!((counters.delivered.get(), counters.queued.get()), (3, 1));
    }

    #[test]
    fn sender_any_permits_every_address() {
        let sample = Sample::with(&["submission.sender=any"]);
        let service = submission_service(&sample.instance, &Arc::default(), &Arc::new(Notify::new()));
        assert_eq!(service.check_sender("CN=ann/O=acme.test", "bob@acme.test"), Ok(()));
    }

    #[test]
    fn configured_networks_may_receive_mail() {
        let sample = Sample::with(&["router.special_networks=10.0.0.0/8"]);
        let service = submission_service(&sample.instance, &Arc::default(), &Arc::new(Notify::new()));
        assert!(service.resolve("x@[10.1.2.3]").is_ok());
        assert_eq!(service.resolve("x@[127.0.0.1]").err(), Some(Refusal::Destination));
    }
}
