//! NAMESPACE (RFC 2342): one personal namespace without a prefix.

use crate::codec::Writer;
use crate::error::Result;
use crate::session::{Next, Reply};

/// Lists the namespaces.
pub fn namespace(out: &mut Writer) -> Result<Next> {
    out.untagged_line("NAMESPACE ((\"\" \"/\")) NIL NIL");
    Ok(Reply::completed().into())
}
