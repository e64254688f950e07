//! One mail transaction: from MAIL to the end of the message data.
//!
//! After the end of the data and before the question whether the message is accepted, the checks that need the whole
//! message take place: size, line ends, hops. On submission, the message is also completed as RFC 6409 §8 permits.

use std::sync::Arc;

use base::Timestamp;

use crate::codec::data::{ReceivedData, normalize_line_ends};
use crate::codec::line::BareLineEndPolicy;
use crate::codec::parameters::MailParameters;
use crate::envelope::{Envelope, Protocol, Recipient, Sender};
use crate::error::{Refusal, Status};
use crate::header::hop_count;
use crate::listener_rules::Role;
use crate::session::Session;
use crate::submission::{CompletionContext, complete_message};

/// A transaction in progress.
pub(crate) struct Transaction {
    pub sender: Arc<Sender>,
    pub parameters: MailParameters,
    pub recipients: Vec<Recipient>,
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
    pub refused: Option<Refusal>,
}

impl Transaction {
    pub(crate) fn new(sender: Arc<Sender>, parameters: MailParameters) -> Self {
        Self {
            sender,
            parameters,
            recipients: Vec::new(),
            chunks: None,
            chunks_failed: false,
            id: String::new(),
            received: Timestamp::default(),
        }
    }

    /// Checks the message data. Returns the envelope, the message and the length of its trace field.
    pub(crate) fn complete(
        self,
        session: &Session,
        content: ReceivedData,
    ) -> Result<(Box<Envelope>, Vec<u8>, usize), Refusal> {
        if content.is_oversize() {
            return Err(Refusal::new(552, Status(5, 3, 4), "Message exceeds the size limit"));
        }
        let bare = content.has_bare_line_end();
        let (mut message, trace_bytes) = content.finish();
        let rules = &session.rules;
        if bare && rules.line_endings == BareLineEndPolicy::Reject {
            return Err(Refusal::new(550, Status(5, 6, 0), "Bare CR or LF in the message; lines must end with CRLF"));
        }
        if bare {
            let (trace, text) = message.split_at_checked(trace_bytes).unwrap_or_default();
            message = [trace, &normalize_line_ends(text)].concat();
        }
        if hop_count(message.get(trace_bytes..).unwrap_or_default()) > rules.hops_max {
            return Err(Refusal::new(554, Status(5, 4, 6), "Too many hops, this message loops"));
        }
        if rules.role == Role::Submission || session.login.is_some() {
            let mending = CompletionContext {
                hostname: &rules.hostname,
                id: &self.id,
                reverse_path: &self.sender.reverse_path,
                now: self.received,
            };
            message = complete_message(message, trace_bytes, &mending)?;
        }
        Ok((Box::new(self.into_envelope(session)), message, trace_bytes))
    }

    fn into_envelope(self, session: &Session) -> Envelope {
        let (helo, protocol) = session.helo.clone().unwrap_or_else(|| (String::new(), Protocol::Smtp));
        Envelope {
            id: self.id,
            sender: Arc::unwrap_or_clone(self.sender),
            recipients: self.recipients,
            envelope_id: self.parameters.envelope_id,
            ret: self.parameters.ret,
            body: self.parameters.body.unwrap_or_default(),
            smtputf8: self.parameters.smtputf8,
            helo,
            protocol,
            received: self.received,
        }
    }
}
