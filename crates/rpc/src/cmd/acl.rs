//! Reading and replacing ACLs.

use notes::acl::ACL_NOTE_ID;
use notes::{AclLevel, DatabaseSnapshot, level};
use proto::v1;

use super::CallContext;
use super::edit::check_expected;
use crate::convert::{acl_from_proto, acl_to_proto};
use crate::error::{Error, Result};
use crate::service::CallOutcome;

/// Returns the ACL.
pub(crate) fn get(context: &CallContext, request: v1::GetAclRequest) -> Result<CallOutcome<v1::Acl>> {
    let access = context.access::<level::Reader>(request.database)?;
    let reading = access.read()?;
    // The ACL in memory may be newer than the snapshot. In that case it is read together with the sequence number from
    // its own transaction.
    let reply = acl_to_proto(&reading.acl(), sequence(&reading)?);
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
    context.write(&access, |writer| {
        let found = writer.note(ACL_NOTE_ID)?.map(|note| note.header);
        if let Some(found) = &found {
            check_expected(request.expected_sequence, found.sequence, found.unid)?;
        }
        let reply = acl_to_proto(&acl, found.map_or(0, |found| found.sequence).saturating_add(1));
        writer.acl_set(acl)?;
        Ok(reply)
    })
}

fn sequence(reading: &DatabaseSnapshot<'_>) -> Result<u32> {
    Ok(reading.header(ACL_NOTE_ID)?.map_or(0, |header| header.sequence))
}
