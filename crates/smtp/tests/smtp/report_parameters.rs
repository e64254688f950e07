//! Tests of the parameters of delivery reports (RFC 3461) in messages from outside.

use mail::router::{Notify, ReturnContent};
use mail::submission::Submission;
use smtp::auth::verify::DmarcEnforcement;

use crate::local_senders::{send, verifier};

const MESSAGE: &str = "From: x@far.example\r\nSubject: x\r\n\r\ntext\r\n";

/// The parameters of an accepted message: `NOTIFY`, `ORCPT`, `ENVID` and `RET`.
type Parameters = (Option<Notify>, Option<String>, Option<String>, ReturnContent);

fn parameters_of(submission: Option<Submission>) -> Parameters {
    let mut envelope = submission.expect("the message is accepted").envelope;
    let recipient = envelope.recipients.pop().expect("there is a recipient");
    (recipient.notify, recipient.original, envelope.envelope_id, envelope.return_content)
}

/// Sends a message with all parameters and this `NOTIFY` from a client. Returns the parameters that are left.
async fn accepted(client: &str, notify: &str) -> Parameters {
    let of_rcpt = format!(" NOTIFY={notify} ORCPT=rfc822;y@far.example");
    let parameters = [" RET=FULL ENVID=e1", of_rcpt.as_str()];
    let verifier = verifier(DmarcEnforcement::Record).await;
    let (reply, submission) = send(verifier, |_| {}, (client, "x@far.example"), parameters, MESSAGE).await;
    assert!(reply.starts_with("250"), "{reply}");
    parameters_of(submission)
}

fn all(notify: Notify) -> Parameters {
    (Some(notify), Some("rfc822;y@far.example".to_owned()), Some("e1".to_owned()), ReturnContent::Full)
}

#[tokio::test]
async fn parameters_count_only_if_spf_passes() {
    let success = Notify { success: true, failure: false, delay: false };
    let none = (None, None, None, ReturnContent::Unspecified);
    assert_eq!(accepted("192.0.2.9", "SUCCESS").await, all(success));
    assert_eq!(accepted("127.0.0.1", "SUCCESS").await, all(success), "a client on this machine");
    assert_eq!(accepted("192.0.2.99", "SUCCESS").await, none);
    assert_eq!(accepted("192.0.2.99", "SUCCESS,FAILURE,DELAY").await, none);
}

#[tokio::test]
async fn request_for_no_report_is_always_kept() {
    let never = (Some(Notify::NEVER), None, None, ReturnContent::Unspecified);
    assert_eq!(accepted("192.0.2.99", "NEVER").await, never);
    assert_eq!(accepted("192.0.2.9", "NEVER").await, all(Notify::NEVER));
}

#[tokio::test]
async fn parameters_are_removed_without_a_verifier() {
    let parameters = [" RET=HDRS", " NOTIFY=SUCCESS"];
    let (_, submission) = send(None, |_| {}, ("192.0.2.9", "x@far.example"), parameters, MESSAGE).await;
    assert_eq!(parameters_of(submission), (None, None, None, ReturnContent::Unspecified));
}
