//! Mail for mailboxes of other servers of the domain: `DepositMail` with the certificate of this server.
//!
//! One transfer carries a message for all recipients of a server. It takes the envelope and the trace fields along, and
//! adds one of its own at the other server, so a message that goes in a circle ends like one that came over SMTP.
//!
//! A connection is kept for the next messages to the same server. If it turns out to be lost, the transfer is repeated
//! once over a new one.

use std::sync::Arc;
use std::time::Duration;

use base::Name;
use base::sync::Mutex;
use client::{Code, v1};
use mail::router::{DeliveryJob, Notify, QueuedRecipient, ReturnContent, TransferOutcome};

use super::Replication;
use super::source::RemoteServer;

/// Time for which a connection is kept for the next message, as for connections over SMTP.
const IDLE_TIME_MAX: Duration = Duration::from_secs(20);

/// Maximum number of connections that are kept for one server, as many as jobs of one destination run by default.
const KEPT_PER_SERVER_MAX: usize = 5;

/// Maximum number of connections that are kept for all servers together.
const KEPT_MAX: usize = 50;

/// Connections to other servers that are kept for the next message. Each is used by one message at a time.
pub(super) struct MailConnections<C> {
    /// The connections that are not in use, with the measured time of their last use, the latest last.
    idle: Mutex<Vec<IdleConnection<C>>>,
}

struct IdleConnection<C> {
    server: Name,
    connection: C,
    used_at: Duration,
}

impl<C> Default for MailConnections<C> {
    fn default() -> Self {
        Self { idle: Mutex::default() }
    }
}

impl<C> MailConnections<C> {
    /// Takes the connection to a server that was used last.
    fn take(&self, server: &Name, now: Duration) -> Option<C> {
        self.close_idle(now);
        let mut idle = self.idle.lock();
        let found = idle.iter().rposition(|kept| kept.server == *server)?;
        Some(idle.remove(found).connection)
    }

    /// Keeps a connection. Closes those that were not used for the longest time if there are too many.
    fn keep(&self, server: &Name, connection: C, now: Duration) {
        let mut idle = self.idle.lock();
        idle.push(IdleConnection { server: server.clone(), connection, used_at: now });
        if idle.iter().filter(|kept| kept.server == *server).count() > KEPT_PER_SERVER_MAX
            && let Some(oldest) = idle.iter().position(|kept| kept.server == *server)
        {
            idle.remove(oldest);
        }
        let excess = idle.len().saturating_sub(KEPT_MAX);
        idle.drain(..excess);
    }

    /// Closes the connections that were not used for [`IDLE_TIME_MAX`].
    fn close_idle(&self, now: Duration) {
        self.idle.lock().retain(|kept| now.saturating_sub(kept.used_at) <= IDLE_TIME_MAX);
    }
}

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
        let envelope = envelope_of(job, &message);
        // The connection blocks, which no thread of the network may.
        let forwarded = tokio::task::spawn_blocking(move || replication.forward(&name, envelope, &message)).await;
        let outcome =
            forwarded.unwrap_or_else(|error| TransferOutcome::Temporary { reply: format!("451 4.3.0 {error}") });
        vec![outcome; job.recipients.len()]
    }

    /// Closes the connections for mail that are not used any more.
    pub(crate) fn close_idle_mail(&self) {
        self.mail.close_idle(self.instance.clock.monotonic());
    }

    /// Closes all connections for mail that are not in use.
    pub(crate) fn close_mail(&self) {
        self.mail.idle.lock().clear();
    }

    /// Sends a message over a kept connection, or else over a new one. The request has an identifier, so the other
    /// server accepts it once for each recipient, also if a connection is lost after it was sent. If that server ends
    /// then, it forgets the identifier, and delivers the message twice.
    fn forward(&self, name: &Name, envelope: v1::ForwardedEnvelope, message: &[u8]) -> TransferOutcome {
        match self.instance.directory.deny_list_of_server(name) {
            Ok(None) => {}
            Ok(Some(list)) => {
                let text = format!("the deny list {} excludes {}", list.abbreviated(), name.abbreviated());
                return TransferOutcome::Temporary { reply: format!("451 4.7.1 {text}") };
            }
            Err(error) => return TransferOutcome::Temporary { reply: format!("451 4.3.0 {error}") },
        }
        let label = name.abbreviated();
        let kept = self.mail.take(name, self.instance.clock.monotonic());
        if let Some(server) = kept.filter(|server| !server.client.is_closed()) {
            match self.forward_over(server, name, (envelope.clone(), message)) {
                // It was made with a certificate that has been replaced since, or this server was excluded.
                Err(status) if is_lost(&status) || status.code() == Code::PermissionDenied => {
                    tracing::debug!(target: "mail", server = label, %status, "a connection for mail cannot be used");
                }
                outcome => return outcome.unwrap_or_else(|status| failure(&status, &label)),
            }
        }
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
        let outcome = self.forward_over(server, name, (envelope, message));
        outcome.unwrap_or_else(|status| failure(&status, &label))
    }

    /// Sends a message over a connection, which is kept afterwards if the other server has accepted the message, or
    /// has refused it with a reason.
    fn forward_over(
        &self,
        server: RemoteServer,
        name: &Name,
        (envelope, message): (v1::ForwardedEnvelope, &[u8]),
    ) -> Result<TransferOutcome, client::Status> {
        let sent = server.forward_mail(envelope, message);
        let is_usable =
            |status: &client::Status| !client::reason(status).is_empty() && status.code() != Code::PermissionDenied;
        if sent.as_ref().err().is_none_or(is_usable) {
            self.mail.keep(name, server, self.instance.clock.monotonic());
        }
        let label = name.abbreviated();
        let id = sent?;
        Ok(TransferOutcome::Delivered { reply: format!("250 2.0.0 accepted as {id} ({label})"), reports: true })
    }
}

/// Returns `true` if a failure is that of the connection. What the other server refuses has a reason, and a failure of
/// the library without one, such as an unknown call, would be the same over another connection.
fn is_lost(status: &client::Status) -> bool {
    // The library makes `Internal` of errors of HTTP/2.
    let is_of_transport = [Code::Unavailable, Code::Cancelled, Code::Unknown, Code::Internal].contains(&status.code());
    is_of_transport && client::reason(status).is_empty()
}

/// Returns the outcome of a failed transfer. What another attempt cannot change is permanent.
fn failure(status: &client::Status, label: &str) -> TransferOutcome {
    let text = status.message();
    match status.code() {
        _ if is_lost(status) => {
            TransferOutcome::Temporary { reply: format!("451 4.4.2 the connection failed: {text} ({label})") }
        }
        Code::InvalidArgument => TransferOutcome::Permanent { reply: format!("554 5.6.0 {text} ({label})") },
        // The message has too many recipients or is too large for that server.
        Code::ResourceExhausted if client::reason(status) == "limit" => {
            TransferOutcome::Permanent { reply: format!("552 5.3.4 {text} ({label})") }
        }
        _ => TransferOutcome::Temporary { reply: format!("451 4.3.0 {text} ({label})") },
    }
}

fn envelope_of(job: &DeliveryJob, message: &[u8]) -> v1::ForwardedEnvelope {
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
        length_bytes: message.len() as u64,
        request_id: request_id(job, message),
    }
}

/// Returns the identifier of a message, which is the same when it is repeated, also for fewer recipients.
fn request_id(job: &DeliveryJob, message: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    add(job.envelope.id.as_bytes());
    add(job.envelope.reverse_path.as_bytes());
    add(message);
    hasher.finalize().to_hex().to_string()
}

fn notify_bits(notify: Notify) -> u32 {
    u32::from(notify.success) | u32::from(notify.failure) << 1 | u32::from(notify.delay) << 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(number: usize) -> Name {
        Name::new(&format!("CN=spoke{number}/O=Acme"))
    }

    const fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn connections_are_kept_for_twenty_seconds_and_used_by_one_message() {
        let kept = MailConnections::default();
        kept.keep(&server(1), "older", seconds(0));
        kept.keep(&server(1), "newer", seconds(10));
        kept.keep(&server(2), "of another", seconds(10));
        assert_eq!(kept.take(&server(1), seconds(15)), Some("newer"));
        assert_eq!(kept.take(&server(1), seconds(20)), Some("older"));
        assert_eq!(kept.take(&server(1), seconds(20)), None, "both are in use");
        assert_eq!(kept.take(&server(2), seconds(31)), None, "it was idle for too long");
        assert!(kept.idle.lock().is_empty(), "and is closed");
    }

    #[test]
    fn failures_are_sorted_by_who_caused_them() {
        let check = |code, reason: &str, is_lost_connection: bool, expected: &str| {
            let status = client::Status::new(code, "the text");
            let status = if reason.is_empty() { status } else { with_reason(code, reason) };
            assert_eq!(is_lost(&status), is_lost_connection, "{status:?}");
            let reply = match failure(&status, "hub/Acme") {
                TransferOutcome::Temporary { reply } | TransferOutcome::Permanent { reply } => reply,
                other => panic!("{status:?} is a failure, not {other:?}"),
            };
            assert!(reply.starts_with(expected) && reply.contains("the text (hub/Acme)"), "{reply}");
        };
        check(Code::Unavailable, "", true, "451 4.4.2 the connection failed: ");
        check(Code::Cancelled, "", true, "451 4.4.2");
        check(Code::Unknown, "", true, "451 4.4.2");
        check(Code::Internal, "", true, "451 4.4.2");
        check(Code::Internal, "internal", false, "451 4.3.0");
        check(Code::Unavailable, "busy", false, "451 4.3.0");
        check(Code::Unimplemented, "", false, "451 4.3.0");
        check(Code::DeadlineExceeded, "", false, "451 4.3.0");
        check(Code::ResourceExhausted, "", false, "451 4.3.0");
        check(Code::ResourceExhausted, "limit", false, "552 5.3.4");
        check(Code::InvalidArgument, "", false, "554 5.6.0");
    }

    /// Returns a status with a reason, as the other server makes it.
    fn with_reason(code: Code, reason: &str) -> client::Status {
        let detail = v1::ErrorDetail { reason: reason.to_owned(), ..v1::ErrorDetail::default() };
        proto::details::status(code, "the text", &detail)
    }

    #[test]
    fn few_connections_are_kept() {
        let kept = MailConnections::default();
        (0..KEPT_PER_SERVER_MAX + 1).for_each(|number| kept.keep(&server(0), number, seconds(0)));
        let mut found: Vec<usize> = std::iter::from_fn(|| kept.take(&server(0), seconds(0))).collect();
        found.sort_unstable();
        assert_eq!(found, (1..=KEPT_PER_SERVER_MAX).collect::<Vec<_>>(), "the oldest is closed");
        (0..KEPT_MAX + 10).for_each(|number| kept.keep(&server(number), number, seconds(0)));
        assert_eq!(kept.idle.lock().len(), KEPT_MAX);
        assert_eq!(kept.take(&server(0), seconds(0)), None);
    }
}
