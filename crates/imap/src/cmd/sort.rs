//! Sort.

use crate::codec::Writer;
use crate::codec::ast::SortCommand;
use crate::error::{Error, Result};
use crate::session::{Next, Session};

/// Not there yet.
pub fn sort(_session: &mut Session, _command: SortCommand, _out: &mut Writer) -> Result<Next> {
    Err(Error::No("[CANNOT] not there yet"))
}
