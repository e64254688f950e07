//! Idempotency: a request that a client repeats because the reply was lost is not carried out twice.
//!
//! A client gives a request an identifier. For each user and identifier, the result of the request is kept. A
//! repetition gets the same result, and a different request with the same identifier is refused. A refused request
//! leaves nothing, so it can be repeated after a correction.
//!
//! The requests of other servers are kept apart, for each recipient: a repetition may have fewer of them, because one
//! was held or removed in the meantime.
//!
//! At most [`LOGGED_REQUESTS_MAX`] results are kept in each log, in memory; the oldest are dropped. After a restart of
//! the server, a repetition is a new request: a message whose reply was lost with the server is delivered twice.

use std::collections::{HashMap, VecDeque};

use base::sync::{Mutex, MutexGuard};
use store::Ticket;

use crate::limits::{LOGGED_REQUESTS_MAX, REQUEST_ID_BYTES_MAX};
use crate::submission::{ForwardedMessage, Refusal, SubmissionRequest};

/// A digest of all fields of a request.
type Digest = blake3::Hash;

/// The identity of a request.
#[derive(Clone, PartialEq, Eq, Hash)]
struct RequestKey {
    /// The canonical name of a user or of another server.
    sender: String,
    /// The identifier that it gave the request.
    request_id: String,
    /// The mail file of the recipient for whom another server forwards; empty for the requests of users.
    mail_file: String,
}

/// The results of earlier requests.
#[derive(Default)]
pub(crate) struct RequestLog {
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    requests: HashMap<RequestKey, KnownRequest>,
    /// The keys of accepted requests, the oldest first.
    accepted: VecDeque<RequestKey>,
}

struct KnownRequest {
    digest: Digest,
    /// `None` while the request is carried out.
    result: Option<RequestResult>,
}

/// The result of an accepted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestResult {
    /// The server's identifier of the message.
    pub id: String,
    /// The ticket of the transaction.
    pub ticket: Ticket,
}

/// A request with an identifier that is being processed. Dropping this without a result removes it from the log.
pub(crate) struct RunningRequest<'log> {
    log: &'log RequestLog,
    key: RequestKey,
}

/// A request, as far as the log needs it.
pub(crate) struct IdentifiedRequest<'r> {
    /// The canonical name of the user or of the server.
    pub sender: &'r str,
    pub request_id: &'r str,
    /// The mail file of the recipient for whom another server forwards; empty for the requests of users.
    pub mail_file: &'r str,
    pub digest: Digest,
}

/// A request with an identifier, as the log knows it.
pub(crate) enum LoggedRequest<'log> {
    /// The request is new and is to be carried out.
    New(RunningRequest<'log>),
    /// The request was accepted before.
    Accepted(RequestResult),
}

impl RequestLog {
    /// Begins a request with an identifier, or returns the result of the same request.
    pub(crate) fn begin(&self, request: IdentifiedRequest<'_>) -> Result<LoggedRequest<'_>, Refusal> {
        let IdentifiedRequest { sender, request_id, mail_file, digest } = request;
        if request_id.len() > REQUEST_ID_BYTES_MAX {
            return Err(Refusal::Malformed("The identifier of the request is too long"));
        }
        let [sender, request_id, mail_file] = [sender, request_id, mail_file].map(str::to_owned);
        let key = RequestKey { sender, request_id, mail_file };
        let mut state = self.lock();
        match state.requests.get(&key) {
            Some(known) if known.digest != digest => {
                Err(Refusal::Malformed("The identifier of the request belongs to another message; use a new one"))
            }
            Some(KnownRequest { result: Some(result), .. }) => Ok(LoggedRequest::Accepted(result.clone())),
            Some(_) => Err(Refusal::Unavailable("The same request is already being processed")),
            None => {
                state.requests.insert(key.clone(), KnownRequest { digest, result: None });
                Ok(LoggedRequest::New(RunningRequest { log: self, key }))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock()
    }
}

impl RunningRequest<'_> {
    /// Records the result, and drops the oldest one if there are too many.
    pub(crate) fn record_result(&self, result: RequestResult) {
        let mut state = self.log.lock();
        if let Some(known) = state.requests.get_mut(&self.key) {
            known.result = Some(result);
        }
        state.accepted.push_back(self.key.clone());
        if state.accepted.len() > LOGGED_REQUESTS_MAX
            && let Some(oldest) = state.accepted.pop_front()
        {
            state.requests.remove(&oldest);
        }
    }
}

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        let mut state = self.log.lock();
        if state.requests.get(&self.key).is_some_and(|known| known.result.is_none()) {
            state.requests.remove(&self.key);
        }
    }
}

impl<'r> From<&'r SubmissionRequest> for IdentifiedRequest<'r> {
    fn from(request: &'r SubmissionRequest) -> Self {
        let recipients = request.recipients.iter().map(String::as_str);
        let digest = digest(&request.sender, recipients, &request.message);
        Self { sender: &request.login, request_id: &request.request_id, mail_file: "", digest }
    }
}

/// The requests to deliver a forwarded message to each of its recipients.
pub(crate) struct ForwardedRequests<'log> {
    /// Those that are carried out.
    running: Vec<RunningRequest<'log>>,
    /// The result of those that were accepted before, with the latest ticket.
    accepted: Option<RequestResult>,
}

impl RequestLog {
    /// Begins the requests for the recipients of a forwarded message. Removes those from it for whom the same message
    /// was accepted before.
    pub(crate) fn begin_forwarded(&self, forwarded: &mut ForwardedMessage) -> Result<ForwardedRequests<'_>, Refusal> {
        let mut requests = ForwardedRequests { running: Vec::new(), accepted: None };
        // A mail file may be there twice, for two addresses of a person.
        let mut is_new: HashMap<String, bool> = HashMap::new();
        let digest = digest(&forwarded.reverse_path, std::iter::empty(), &forwarded.message);
        let mut kept = Vec::with_capacity(forwarded.recipients.len());
        for (recipient, mail_file) in std::mem::take(&mut forwarded.recipients) {
            let key = mail_file.to_lowercase();
            if !is_new.contains_key(&key) {
                let begun = self.begin(IdentifiedRequest {
                    sender: &forwarded.server,
                    request_id: &forwarded.request_id,
                    mail_file: &key,
                    digest,
                })?;
                is_new.insert(key.clone(), requests.add(begun));
            }
            if is_new.get(&key) == Some(&true) {
                kept.push((recipient, mail_file));
            }
        }
        forwarded.recipients = kept;
        Ok(requests)
    }
}

impl<'log> ForwardedRequests<'log> {
    /// Adds a request. Returns `true` if it is new.
    fn add(&mut self, request: LoggedRequest<'log>) -> bool {
        match request {
            LoggedRequest::New(running) => {
                self.running.push(running);
                true
            }
            LoggedRequest::Accepted(result) => {
                let earlier = self.accepted.take().map_or(Ticket::NONE, |known| known.ticket);
                self.accepted = Some(RequestResult { ticket: result.ticket.max(earlier), ..result });
                false
            }
        }
    }

    /// Returns the result if all requests were accepted before.
    pub(crate) fn known_result(&self) -> Option<RequestResult> {
        self.accepted.clone().filter(|_| self.running.is_empty())
    }

    /// Records the result of the requests that were carried out. Returns that of all of them.
    pub(crate) fn record_result(self, result: RequestResult) -> RequestResult {
        self.running.iter().for_each(|request| request.record_result(result.clone()));
        let earlier = self.accepted.map_or(Ticket::NONE, |known| known.ticket);
        RequestResult { ticket: result.ticket.max(earlier), ..result }
    }
}

fn digest<'r>(sender: &str, recipients: impl Iterator<Item = &'r str>, message: &[u8]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    add(sender.as_bytes());
    recipients.for_each(|recipient| add(recipient.as_bytes()));
    add(message);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::{Recipient, ReturnContent};

    fn request(login: &str, request_id: &str, text: &str) -> SubmissionRequest {
        SubmissionRequest {
            login: login.to_owned(),
            peer: None,
            sender: String::new(),
            recipients: vec!["bob@acme.test".to_owned()],
            message: text.as_bytes().to_vec(),
            request_id: request_id.to_owned(),
        }
    }

    fn carry_out(log: &RequestLog, request: &SubmissionRequest, id: &str) -> Result<String, Refusal> {
        match log.begin(request.into())? {
            LoggedRequest::New(running) => {
                running.record_result(RequestResult { id: id.to_owned(), ticket: Ticket::default() });
                Ok(id.to_owned())
            }
            LoggedRequest::Accepted(result) => Ok(result.id),
        }
    }

    #[test]
    fn a_repeated_request_has_the_same_result() {
        let log = RequestLog::default();
        let check = |login: &str, request_id: &str, text: &str, expected: Result<&str, u16>| {
            let found = carry_out(&log, &request(login, request_id, text), &format!("{login} {text}"));
            let found = found.as_deref().map_err(|refusal| refusal.codes().0);
            assert_eq!(found, expected, "{login} {request_id} {text}");
        };
        check("ann", "1", "a", Ok("ann a"));
        check("ann", "1", "a", Ok("ann a"));
        check("ann", "1", "b", Err(550));
        check("ann", "2", "b", Ok("ann b"));
        check("bob", "1", "c", Ok("bob c"));
        check("ann", &"1".repeat(REQUEST_ID_BYTES_MAX + 1), "a", Err(550));
    }

    #[test]
    fn forwarded_message_is_carried_out_once_for_each_recipient() {
        let log = RequestLog::default();
        let forward = |mail_files: &[&str], text: &str| -> Result<Vec<String>, u16> {
            let recipient = |mail_file: &&str| (Recipient::new("x@acme.test"), (*mail_file).to_owned());
            let mut forwarded = ForwardedMessage {
                server: "CN=hub/O=Acme".to_owned(),
                request_id: "1".to_owned(),
                peer: None,
                reverse_path: String::new(),
                recipients: mail_files.iter().map(recipient).collect(),
                envelope_id: None,
                return_content: ReturnContent::Unspecified,
                smtputf8: false,
                message: text.as_bytes().to_vec(),
            };
            let requests = log.begin_forwarded(&mut forwarded).map_err(|refusal| refusal.codes().0)?;
            if requests.known_result().is_none() {
                requests.record_result(RequestResult { id: "X".to_owned(), ticket: Ticket::default() });
            }
            Ok(forwarded.recipients.into_iter().map(|(_, mail_file)| mail_file).collect())
        };
        let check = |mail_files: &[&str], text: &str, expected: Result<&[&str], u16>| {
            let expected = expected.map(|files| files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>());
            assert_eq!(forward(mail_files, text), expected, "{mail_files:?} {text}");
        };
        check(&["ann", "bob", "Ann"], "a", Ok(&["ann", "bob", "Ann"]));
        check(&["bob"], "a", Ok(&[]));
        check(&["bob", "eve"], "a", Ok(&["eve"]));
        check(&["ann", "bob", "eve"], "a", Ok(&[]));
        check(&["bob"], "b", Err(550));
    }

    #[test]
    fn request_without_a_result_can_be_repeated() {
        let log = RequestLog::default();
        let first = log.begin((&request("ann", "1", "a")).into()).expect("it is new");
        assert!(matches!(log.begin((&request("ann", "1", "a")).into()), Err(Refusal::Unavailable(_))), "it is running");
        drop(first);
        assert_eq!(carry_out(&log, &request("ann", "1", "b"), "second"), Ok("second".to_owned()));
    }

    #[test]
    fn the_oldest_results_are_dropped() {
        let log = RequestLog::default();
        for number in 0..=LOGGED_REQUESTS_MAX {
            let numbered = request("ann", &number.to_string(), "a");
            assert_eq!(carry_out(&log, &numbered, "first"), Ok("first".to_owned()));
        }
        assert_eq!(log.lock().requests.len(), LOGGED_REQUESTS_MAX);
        assert_eq!(carry_out(&log, &request("ann", "1", "a"), "second"), Ok("first".to_owned()));
        assert_eq!(carry_out(&log, &request("ann", "0", "a"), "second"), Ok("second".to_owned()));
    }
}
