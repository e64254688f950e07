//! Mail for mailboxes of other servers of the domain: `DepositMail` with the certificate of this server.
//!
//! One transfer carries a message for all recipients of a server. It takes the envelope and the trace fields along, and
//! adds one of its own at the other server, so a message that goes in a circle ends like one that came over SMTP.

use std::sync::Arc;

use base::Name;
use client::{Code, v1};
use mail::router::{DeliveryJob, Notify, QueuedRecipient, ReturnContent, TransferOutcome};

use super::Replication;

impl Replication {
    /// Sends a message to the server that has the mailboxes. Returns the outcome for each recipient.
    pub(crate) async fn forward_mail(
        self: &Arc<Self>,
        server: &str,
        job: &DeliveryJob,
        message: Vec<u8>,
    ) -> Vec<TransferOutcome> {
        let replication = Arc::clone(self);
        let name = Name::new(server);
        let envelope = envelope_of(job, message.len());
        // The connection blocks, which no thread of the network may.
        let forwarded = tokio::task::spawn_blocking(move || replication.forward(&name, envelope, &message)).await;
        let outcome =
            forwarded.unwrap_or_else(|error| TransferOutcome::Temporary { reply: format!("451 4.3.0 {error}") });
        vec![outcome; job.recipients.len()]
    }

    fn forward(&self, name: &Name, envelope: v1::ForwardedEnvelope, message: &[u8]) -> TransferOutcome {
        let label = name.abbreviated();
        let server = match self.connect_to(name) {
            Ok(server) if server.identity.name == *name => server,
            Ok(other) => {
                let found = other.label();
                return TransferOutcome::Temporary {
                    reply: format!("451 4.4.0 the server at the address of {label} is {found}"),
                };
            }
            Err(error) => return TransferOutcome::Temporary { reply: format!("451 4.4.1 {error} ({label})") },
        };
        match server.forward_mail(envelope, message) {
            Ok(id) => {
                TransferOutcome::Delivered { reply: format!("250 2.0.0 accepted as {id} ({label})"), reports: true }
            }
            Err(status) => failure(&status, &label),
        }
    }
}

/// Returns the outcome of a refused transfer. What another attempt cannot change is permanent.
fn failure(status: &client::Status, label: &str) -> TransferOutcome {
    let text = status.message();
    match status.code() {
        Code::InvalidArgument => TransferOutcome::Permanent { reply: format!("554 5.6.0 {text} ({label})") },
        // The message has too many recipients or is too large for that server.
        Code::ResourceExhausted if client::reason(status) == "limit" => {
            TransferOutcome::Permanent { reply: format!("552 5.3.4 {text} ({label})") }
        }
        _ => TransferOutcome::Temporary { reply: format!("451 4.3.0 {text} ({label})") },
    }
}

fn envelope_of(job: &DeliveryJob, length: usize) -> v1::ForwardedEnvelope {
    let recipient = |queued: &QueuedRecipient| v1::ForwardedRecipient {
        address: queued.recipient.address.clone(),
        mail_file: queued.mail_file.clone().unwrap_or_default(),
        notify: queued.recipient.notify.map(notify_bits),
        original: queued.recipient.original.clone().unwrap_or_default(),
    };
    let envelope = &job.envelope;
    v1::ForwardedEnvelope {
        reverse_path: envelope.reverse_path.clone(),
        recipients: job.recipients.iter().map(recipient).collect(),
        envelope_id: envelope.envelope_id.clone().unwrap_or_default(),
        return_content: match envelope.return_content {
            ReturnContent::Unspecified => 0,
            ReturnContent::Full => 1,
            ReturnContent::Headers => 2,
        },
        smtputf8: envelope.smtputf8,
        length_bytes: length as u64,
    }
}

fn notify_bits(notify: Notify) -> u32 {
    u32::from(notify.success) | u32::from(notify.failure) << 1 | u32::from(notify.delay) << 2
}
