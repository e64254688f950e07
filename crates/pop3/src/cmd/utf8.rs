//! `UTF8` (RFC 6856 §2): the client understands UTF-8 in headers.
//! Messages go out byte for byte either way, so there is nothing to remember.

use crate::codec::Command;
use crate::session::{Session, Step, ok};

pub(super) fn run(_session: &mut Session, _command: &Command) -> Step {
    Step::Reply(ok("UTF-8 it is"))
}
