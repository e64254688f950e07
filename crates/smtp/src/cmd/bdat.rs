//! BDAT (RFC 3030): a chunk of the message with the stated size follows.
//!
//! The chunk is read even if the command is refused, provided that its size can be parsed, because the client has
//! already sent it. After a refused chunk, all further chunks are refused until RSET or MAIL. As with DATA, at least
//! one recipient is required. The memory for a chunk is taken before it arrives.

use crate::cmd::CommandContext;
use crate::codec::reply;
use crate::error::{EnhancedStatus, NegativeReply};
use crate::limits::OVERSIZE_BYTES_MAX;
use crate::session::{Chunk, NextAction, Phase, Session};

pub(crate) fn run(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    let Some((size, last)) = parse(call.arguments) else {
        // The end of the chunk is unknown. If the session continued, the content would be read as commands.
        reply::write(call.out, 501, EnhancedStatus(5, 5, 4), "Syntax: BDAT size [LAST]; closing connection");
        return NextAction::Close;
    };
    if size > session.message_bytes_max().saturating_add(OVERSIZE_BYTES_MAX) {
        return session.close_oversize(call.out);
    }
    let refused = find_refusal(session).or_else(|| reserve(session, size).err());
    session.begin_body(Phase::Chunk(Chunk { remaining: size, size, ends_message: last, refused }));
    if size == 0 { end_chunk(session, call.out) } else { NextAction::Continue }
}

/// Takes the memory for a chunk, and begins the content with the first one.
fn reserve(session: &mut Session, size: u64) -> Result<(), NegativeReply> {
    let begins = session.transaction.as_ref().is_some_and(|transaction| transaction.chunks.is_none());
    if begins {
        let content = session.open_content()?;
        if let Some(transaction) = &mut session.transaction {
            transaction.chunks = Some(content);
        }
    }
    if is_too_large(session, size) {
        return Err(NegativeReply::new(552, EnhancedStatus(5, 3, 4), "Message exceeds the size limit"));
    }
    if let Some(content) = session.transaction.as_mut().and_then(|transaction| transaction.chunks.as_mut()) {
        content.announce(size)?;
    }
    Ok(())
}

/// Reads the available part of the chunk.
pub(crate) fn take_chunk(session: &mut Session, input: &[u8], out: &mut Vec<u8>) -> (usize, NextAction) {
    let Phase::Chunk(chunk) = &mut session.phase else { return (0, NextAction::Close) };
    let taken = usize::try_from(chunk.remaining).unwrap_or(usize::MAX).min(input.len());
    chunk.remaining = chunk.remaining.saturating_sub(taken as u64);
    let ended = chunk.remaining == 0;
    if chunk.refused.is_none()
        && let Some(content) = session.transaction.as_mut().and_then(|transaction| transaction.chunks.as_mut())
    {
        content.append(input.get(..taken).unwrap_or_default());
    }
    (taken, if ended { end_chunk(session, out) } else { NextAction::Read })
}

fn end_chunk(session: &mut Session, out: &mut Vec<u8>) -> NextAction {
    let phase = std::mem::replace(&mut session.phase, Phase::Command);
    let Phase::Chunk(chunk) = phase else { return NextAction::Close };
    if let Some(refusal) = chunk.refused {
        if let Some(transaction) = &mut session.transaction {
            transaction.chunks_failed = true;
            transaction.chunks = None;
        }
        if chunk.ends_message {
            session.transaction = None;
        }
        return session.refuse_with(out, &refusal);
    }
    if chunk.ends_message {
        let content = session.transaction.as_mut().and_then(|transaction| transaction.chunks.take());
        return content.map_or(NextAction::Close, |content| session.submit(content, out));
    }
    reply::write(out, 250, EnhancedStatus(2, 0, 0), &format!("Ok: {} octets", chunk.size));
    NextAction::Continue
}

fn parse(arguments: &str) -> Option<(u64, bool)> {
    let (size, last) = arguments.split_once(' ').unwrap_or((arguments, ""));
    let is_number = !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit());
    let size = size.parse().ok().filter(|_| is_number)?;
    match last.trim() {
        "" => Some((size, false)),
        last if last.eq_ignore_ascii_case("LAST") => Some((size, true)),
        _ => None,
    }
}

fn find_refusal(session: &Session) -> Option<NegativeReply> {
    let wrong_order = |text: &'static str| Some(NegativeReply::new(503, EnhancedStatus(5, 5, 1), text));
    match &session.transaction {
        None => wrong_order("Send MAIL first"),
        Some(transaction) if transaction.chunks_failed => wrong_order("An earlier chunk was refused"),
        Some(transaction) if transaction.recipients.is_empty() => wrong_order("There are no valid recipients"),
        Some(_) => None,
    }
}

fn is_too_large(session: &Session, size: u64) -> bool {
    let chunks = session.transaction.as_ref().and_then(|transaction| transaction.chunks.as_ref());
    let received = chunks.map_or(0, crate::codec::data::ReceivedData::received);
    received.saturating_add(size) > session.message_bytes_max()
}
