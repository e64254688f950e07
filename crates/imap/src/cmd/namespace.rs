//! NAMESPACE (RFC 2342): one personal namespace without a prefix.

use crate::codec::ResponseWriter;
use crate::error::Result;
use crate::session::{CommandOutcome, TaggedReply};

/// Lists the namespaces.
pub fn namespace(out: &mut ResponseWriter) -> Result<CommandOutcome> {
    out.untagged_line("NAMESPACE ((\"\" \"/\")) NIL NIL");
    Ok(TaggedReply::completed().into())
}
