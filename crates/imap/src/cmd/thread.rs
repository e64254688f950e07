//! Thread.

use crate::codec::Writer;
use crate::codec::ast::ThreadCommand;
use crate::error::{Error, Result};
use crate::session::{Next, Session};

/// Not there yet.
pub fn thread(_session: &mut Session, _command: ThreadCommand, _out: &mut Writer) -> Result<Next> {
    Err(Error::No("[CANNOT] not there yet"))
}
