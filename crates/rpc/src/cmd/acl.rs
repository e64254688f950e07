//! Reading and replacing ACLs.

use notes::acl::ACL_NOTE_ID;
use notes::{AclLevel, DatabaseSnapshot, level};
use proto::v1;
use revision::Revision;

use super::CallContext;
use super::edit::check_expected;
use crate::convert::{acl_from_proto, acl_to_proto, expected_from_proto};
use crate::error::{Error, Result};
use crate::service::CallOutcome;

/// Returns the ACL.
pub(crate) fn get(context: &CallContext, request: v1::GetAclRequest) -> Result<CallOutcome<v1::Acl>> {
    let access = context.access::<level::Reader>(request.database)?;
    let reading = access.read()?;
    // The ACL in memory may be newer than the snapshot. In that case it is read together with the revision from
    // its own transaction.
    let reply = acl_to_proto(&reading.acl(), revision(&reading)?);
    Ok(CallOutcome::when_durable(reply, reading.ticket()))
}

/// Replaces the ACL.
pub(crate) fn set(context: &CallContext, request: v1::SetAclRequest) -> Result<CallOutcome<v1::Acl>> {
    let access = context.access_for_change::<level::Manager>(request.database)?;
    let before = {
        let reader = access.downgrade::<level::Reader>();
        reader.read()?.acl()
    };
    let acl = acl_from_proto(request.acl.unwrap_or_default(), &before)?;
    if !acl.entries.iter().any(|entry| entry.level == AclLevel::Manager) {
        return Err(Error::invalid("at least one entry must have Manager access"));
    }
    let expected = expected_from_proto(request.expected_sequence, &request.expected_revision_id)?;
    context.write(&access, |writer| {
        if let Some(found) = writer.header(ACL_NOTE_ID)? {
            check_expected(expected, &found)?;
        }
        writer.acl_set(acl.clone())?;
        Ok(acl_to_proto(&acl, writer.header(ACL_NOTE_ID)?.map(|header| header.revision())))
    })
}

fn revision(reading: &DatabaseSnapshot<'_>) -> Result<Option<Revision>> {
    Ok(reading.header(ACL_NOTE_ID)?.map(|header| header.revision()))
}
