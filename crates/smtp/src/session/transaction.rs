//! One mail transaction: from MAIL to the end of the message data.
//!
//! After the end of the data and before the question whether the message is accepted, the checks that need the whole
//! message take place: its size, line ends, the size of the header, hops. On submission, the message is also completed
//! as RFC 6409 §8 permits.

use base::Timestamp;
use base::line_ends::normalize_line_ends;
use mail::router::{Envelope, Recipient};
use mail::submission::completion::{CompletionContext, check_header_size, check_hops, complete_message};
use mail::submission::{Origin, ReceivedProtocol, ResolvedAddresses, Submission};

use crate::codec::data::ReceivedData;
use crate::codec::line::BareLineEndPolicy;
use crate::codec::parameters::{BodyType, MailParameters};
use crate::error::{EnhancedStatus, NegativeReply};
use crate::listener_rules::ListenerRole;
use crate::session::Session;

/// A transaction in progress.
pub(crate) struct MailTransaction {
    /// The reverse path, empty for `<>`.
    pub reverse_path: String,
    pub parameters: MailParameters,
    pub recipients: Vec<Recipient>,
    /// The directory's answers about the recipients.
    pub resolved: ResolvedAddresses,
    /// The data received with BDAT so far. While it is set, DATA is refused.
    pub chunks: Option<ReceivedData>,
    /// `true` if a chunk was refused. All further chunks are refused, too.
    pub chunks_failed: bool,
    pub id: String,
    pub received: Timestamp,
}

/// A chunk that is being received.
pub(crate) struct Chunk {
    /// Number of bytes that remain.
    pub remaining: u64,
    /// Size of the whole chunk in bytes, for the reply.
    pub size: u64,
    /// `true` if the chunk ends the message.
    pub ends_message: bool,
    /// The reply to a chunk that is discarded. `None` if the chunk is kept.
    pub refused: Option<NegativeReply>,
}

impl MailTransaction {
    pub(crate) fn new(reverse_path: String, parameters: MailParameters) -> Self {
        Self {
            reverse_path,
            parameters,
            recipients: Vec::new(),
            resolved: ResolvedAddresses::default(),
            chunks: None,
            chunks_failed: false,
            id: String::new(),
            received: Timestamp::default(),
        }
    }

    /// Checks the message data. Returns the message with its envelope, and the length of its trace field.
    pub(crate) fn complete(
        self,
        session: &Session,
        content: ReceivedData,
    ) -> Result<(Box<Submission>, usize), NegativeReply> {
        if content.is_oversize() {
            return Err(NegativeReply::new(552, EnhancedStatus(5, 3, 4), "Message exceeds the size limit"));
        }
        let bare = content.has_bare_line_end();
        let (mut message, trace_bytes) = content.finish();
        let rules = &session.rules;
        if bare && rules.line_endings == BareLineEndPolicy::Reject {
            return Err(NegativeReply::new(
                550,
                EnhancedStatus(5, 6, 0),
                "Bare CR or LF in the message; lines must end with CRLF",
            ));
        }
        if bare {
            let (trace, text) = message.split_at_checked(trace_bytes).unwrap_or_default();
            message = [trace, &normalize_line_ends(text)].concat();
        }
        let text = message.get(trace_bytes..).unwrap_or_default();
        check_header_size(text)?;
        check_hops(text, rules.hops_max)?;
        if rules.role == ListenerRole::Submission || session.login.is_some() {
            let mending = CompletionContext {
                hostname: &rules.hostname,
                id: &self.id,
                reverse_path: &self.reverse_path,
                now: self.received,
            };
            message = complete_message(message, trace_bytes, &mending)?;
        }
        Ok((Box::new(self.into_submission(session, message)), trace_bytes))
    }

    fn into_submission(self, session: &Session, message: Vec<u8>) -> Submission {
        let protocol = session.helo.as_ref().map_or(ReceivedProtocol::Smtp, |(_, protocol)| *protocol);
        let origin = Origin { protocol, peer: session.peer.address, login: session.login.clone() };
        let envelope = Envelope {
            id: self.id,
            reverse_path: self.reverse_path,
            recipients: self.recipients,
            envelope_id: self.parameters.envelope_id,
            return_content: self.parameters.ret.unwrap_or_default(),
            smtputf8: self.parameters.smtputf8,
            eight_bit: self.parameters.body == Some(BodyType::EightBitMime),
        };
        Submission { origin, envelope, resolved: self.resolved, message }
    }
}
