//! The renewal of the certificates of servers.
//!
//! The name of the caller is that of its present certificate, which the handshake has verified. Calls of servers on a
//! deny list are refused before they come here.

use proto::v1;

use super::replication::calling_server;
use super::{CallContext, check_count};
use crate::error::{Error, Result};
use crate::limits::SIGNING_REQUEST_BYTES_MAX;
use crate::service::CallOutcome;

/// Issues a new certificate for the server that calls, or records that it has installed the one with which it calls.
pub(crate) fn renew(
    context: &CallContext,
    request: v1::RenewCertificateRequest,
) -> Result<CallOutcome<v1::RenewCertificateReply>> {
    calling_server(context)?;
    check_count(request.signing_request.len(), "bytes of a signing request", SIGNING_REQUEST_BYTES_MAX)?;
    let session = context.caller.session()?;
    let server = session.certificate.as_ref().ok_or(Error::NoSession)?;
    let certificates = &context.services.certificates;
    let issued = if request.installed {
        certificates.confirm(server).map(|()| String::new())
    } else {
        certificates.renew(server, &request.signing_request)
    };
    let reply = issued.map(|certificate| v1::RenewCertificateReply { certificate });
    reply.map(CallOutcome::immediate).map_err(Error::State)
}
