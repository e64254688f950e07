//! One mail transaction: from MAIL to the end of the message data.
//!
//! After the end of the data and before the question whether the message is accepted, the checks that need the whole
//! message take place: its size, line ends, the size of the header, hops. On submission, the message is also completed
//! as RFC 6409 §8 permits.
//!
//! A transaction takes memory from the share of its sender: for the announced size from MAIL on, for each recipient,
//! and for data beyond the announcement as it arrives. The memory is held until the message is accepted or refused, and
//! returned if the transaction ends before.

use base::Timestamp;
use base::line_ends::normalize_line_ends;
use base::memory::{Exhausted, MemoryBudget, MemoryPermit, MeteredBuffer};
use mail::router::{Envelope, Recipient};
use mail::submission::completion::{CompletionContext, check_header_size, check_hops, complete_message};
use mail::submission::{Origin, ResolvedAddress, ResolvedAddresses, Submission};

use crate::codec::data::{CollectedData, ReceivedData};
use crate::codec::line::BareLineEndPolicy;
use crate::codec::parameters::{BodyType, MailParameters};
use crate::error::{EnhancedStatus, NegativeReply};
use crate::limits::{RECIPIENT_BYTES_RESERVED, TRACE_BYTES_RESERVED};
use crate::listener_rules::{ListenerRole, ListenerRules};

/// A transaction in progress.
pub(crate) struct MailTransaction {
    /// The reverse path, empty for `<>`.
    pub reverse_path: String,
    pub parameters: MailParameters,
    pub recipients: Vec<Recipient>,
    /// The directory's answers about the recipients.
    pub resolved: ResolvedAddresses,
    /// The buffer for the message data, with the memory for the announced size. `None` after the data has begun.
    pub buffer: Option<MeteredBuffer>,
    /// The memory of the recipients.
    recipients_memory: MemoryPermit,
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

/// A message that was received and checked.
pub(crate) struct CompleteMessage {
    /// The message and its envelope.
    pub submission: Box<Submission>,
    /// Length of the trace field at the beginning of the message.
    pub trace_bytes: usize,
    /// The memory that must be held for as long as the message is.
    pub memory: MemoryPermit,
}

impl MailTransaction {
    /// Creates a transaction. Returns [`Exhausted`] if no memory is left for the announced size of the message.
    pub(crate) fn new(
        reverse_path: String,
        parameters: MailParameters,
        budget: &MemoryBudget,
    ) -> Result<Self, Exhausted> {
        let mut buffer = MeteredBuffer::new(budget);
        let announced = parameters.size.unwrap_or(0);
        if announced > 0 {
            buffer.hold(usize::try_from(announced).unwrap_or(usize::MAX).saturating_add(TRACE_BYTES_RESERVED))?;
        }
        Ok(Self {
            reverse_path,
            parameters,
            recipients: Vec::new(),
            resolved: ResolvedAddresses::default(),
            buffer: Some(buffer),
            recipients_memory: budget.empty_permit(),
            chunks: None,
            chunks_failed: false,
            id: String::new(),
            received: Timestamp::default(),
        })
    }

    /// Adds a recipient. Returns [`Exhausted`] if no memory is left for it.
    pub(crate) fn add_recipient(&mut self, recipient: Recipient, resolved: ResolvedAddress) -> Result<(), Exhausted> {
        let original_bytes = recipient.original.as_ref().map_or(0, String::len);
        self.recipients_memory.grow(recipient.address.len() + original_bytes + RECIPIENT_BYTES_RESERVED)?;
        self.recipients.push(recipient);
        self.resolved.push(resolved);
        Ok(())
    }

    /// Returns `true` if the transaction holds memory for an announced size of which nothing has been received.
    pub(crate) fn holds_announced_size(&self) -> bool {
        self.buffer.is_some() && self.parameters.size.is_some_and(|size| size > 0)
    }

    /// Checks the message data under the rules of the listener. Returns the message with its envelope.
    pub(crate) fn complete(
        self,
        rules: &ListenerRules,
        origin: Origin,
        content: ReceivedData,
    ) -> Result<CompleteMessage, NegativeReply> {
        if content.is_oversize() {
            return Err(NegativeReply::new(552, EnhancedStatus(5, 3, 4), "Message exceeds the size limit"));
        }
        if let Some(exhausted) = content.exhausted() {
            return Err(exhausted.into());
        }
        let bare = content.has_bare_line_end();
        let CollectedData { bytes: mut message, prefix_bytes: trace_bytes, mut memory } = content.finish();
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
        if rules.role == ListenerRole::Submission || origin.login.is_some() {
            let mending = CompletionContext {
                hostname: &rules.hostname,
                id: &self.id,
                reverse_path: &self.reverse_path,
                now: self.received,
            };
            message = complete_message(message, trace_bytes, &mending)?;
        }
        let (submission, recipients_memory) = self.into_submission(origin, message);
        memory.merge(recipients_memory);
        Ok(CompleteMessage { submission: Box::new(submission), trace_bytes, memory })
    }

    fn into_submission(self, origin: Origin, message: Vec<u8>) -> (Submission, MemoryPermit) {
        let envelope = Envelope {
            id: self.id,
            reverse_path: self.reverse_path,
            recipients: self.recipients,
            envelope_id: self.parameters.envelope_id,
            return_content: self.parameters.ret.unwrap_or_default(),
            smtputf8: self.parameters.smtputf8,
            eight_bit: self.parameters.body == Some(BodyType::EightBitMime),
        };
        (Submission { origin, envelope, resolved: self.resolved, message }, self.recipients_memory)
    }
}
