//! NAMESPACE (RFC 2342): one personal namespace without a prefix.

use crate::codec::Writer;
use crate::error::Result;
use crate::session::{CommandOutcome, Reply};

/// Lists the namespaces.
pub fn namespace(out: &mut Writer) -> Result<CommandOutcome> {
    out.untagged_line("NAMESPACE ((\"\" \"/\")) NIL NIL");
    Ok(Reply::completed().into())
}
