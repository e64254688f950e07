//! Search.

use crate::codec::Writer;
use crate::codec::ast::SearchCommand;
use crate::error::{Error, Result};
use crate::session::{Next, Session};

/// Not there yet.
pub fn search(_session: &mut Session, _command: SearchCommand, _out: &mut Writer) -> Result<Next> {
    Err(Error::No("[CANNOT] not there yet"))
}
