//! NOOP, CHECK (RFC 3501 §6.4.1) and IDLE (RFC 2177): nothing but hearing of what other sessions do.

use crate::codec::Writer;
use crate::error::Result;
use crate::session::{Next, Reply, Session};

/// Does nothing; what changed is told before the tagged line.
pub fn noop() -> Result<Next> {
    Ok(Reply::completed().into())
}

/// Does nothing: everything that was acknowledged is durable already.
pub fn check(session: &mut Session) -> Result<Next> {
    session.selected()?;
    Ok(Reply::completed().into())
}

/// Waits for changes until the client says DONE.
pub fn idle(out: &mut Writer) -> Result<Next> {
    out.continuation("idling");
    Ok(Next::Idle)
}
