//! DATA (RFC 5321 §4.1.1.4): the message data follows, ended by CRLF.CRLF.

use crate::cmd::CommandContext;
use crate::codec::data::DataReader;
use crate::error::{EnhancedStatus, NegativeReply};
use crate::session::{NextAction, Phase, Session};

pub(crate) fn run(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    if let Some(refusal) = find_refusal(session, call.arguments) {
        return session.refuse_with(call.out, &refusal);
    }
    match session.open_content() {
        Ok(content) => {
            session.begin_body(Phase::Data(DataReader::new(content)));
            call.out.extend_from_slice(b"354 End data with <CR><LF>.<CR><LF>\r\n");
            NextAction::Continue
        }
        Err(refusal) => session.refuse_with(call.out, &refusal),
    }
}

fn find_refusal(session: &Session, arguments: &str) -> Option<NegativeReply> {
    let wrong_order = |text: &'static str| Some(NegativeReply::new(503, EnhancedStatus(5, 5, 1), text));
    let Some(transaction) = &session.transaction else { return wrong_order("Send MAIL first") };
    if !arguments.is_empty() {
        Some(NegativeReply::new(501, EnhancedStatus(5, 5, 4), "DATA takes no arguments"))
    } else if transaction.chunks.is_some() || transaction.chunks_failed {
        wrong_order("DATA cannot follow BDAT")
    } else if transaction.recipients.is_empty() {
        wrong_order("There are no valid recipients")
    } else {
        None
    }
}
