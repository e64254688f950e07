//! `UTF8` (RFC 6856 §2): states that the client understands UTF-8 in headers.
//!
//! Messages are sent byte for byte in any case, so the session stores nothing.

use crate::codec::Command;
use crate::session::{Session, Step, ok};

pub(super) fn run(_session: &mut Session, _command: &Command) -> Step {
    Step::Reply(ok("UTF-8 mode enabled"))
}
