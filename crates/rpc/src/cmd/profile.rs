//! Profile documents: opening, changing and deleting them by profile name and, for personal profiles, user name.

use base::Name;
use notes::profile::profile_unid;
use notes::{Grant, NoteClass, level};
use proto::v1;

use super::edit::{ItemChanges, check_expected, check_quota, saved_note};
use super::note::{ENVELOPE_BYTES, ItemSelection, read_selected};
use super::{CallContext, header_of};
use crate::convert::{NoteKey, expected_from_proto};
use crate::error::Result;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::service::CallOutcome;

/// Opens a profile document.
pub(crate) fn open(context: &CallContext, request: v1::OpenProfileRequest) -> Result<CallOutcome<v1::Note>> {
    let access = context.access::<level::Reader>(request.database)?;
    let user = owner(context, &*access.grant()?, &request.user)?;
    let wanted = ItemSelection::read(request.items)?;
    let reading = access.read()?;
    let header = header_of(&reading, NoteKey::Unid(profile_unid(&request.profile, user.as_ref())))?;
    let header = header.filter(|header| header.class == NoteClass::PROFILE && !header.is_stub());
    let header = header.ok_or_else(|| notes::Error::not_found(format!("the profile {:?}", request.profile)))?;
    Ok(CallOutcome::when_durable(
        read_selected(&reading, &header, &wanted, MESSAGE_BYTES_MAX - ENVELOPE_BYTES)?,
        reading.ticket(),
    ))
}

/// Changes items of a profile document, or creates it.
pub(crate) fn update(context: &CallContext, request: v1::UpdateProfileRequest) -> Result<CallOutcome<v1::SavedNote>> {
    let access = context.access_for_change::<level::Author>(request.database)?;
    let edit = ItemChanges::new(request.items, request.remove, false)?;
    let profile = request.profile;
    let user = owner(context, &*access.grant()?, &request.user)?;
    let expected = expected_from_proto(request.expected_sequence, &request.expected_revision_id)?;
    context.write(&access, |writer| {
        let (mut items, mut blobs) = match (writer.profile(&profile, user.as_ref())?, expected) {
            (Some(note), expected) => {
                check_expected(expected, &note.header)?;
                (note.items, note.blobs)
            }
            (None, None) => (Vec::new(), Vec::new()),
            (None, Some(expected)) => {
                let unid = profile_unid(&profile, user.as_ref());
                return Err(notes::Error::Conflict { unid, expected: expected.sequence, found: 0 }.into());
            }
        };
        edit.apply(&mut items, &mut blobs)?;
        let note = writer.profile_set(&profile, user.as_ref(), &items, &blobs)?;
        check_quota(writer)?;
        saved_note(writer, note)
    })
}

/// Deletes a profile document.
pub(crate) fn delete(
    context: &CallContext,
    request: v1::DeleteProfileRequest,
) -> Result<CallOutcome<v1::DeleteNoteReply>> {
    let access = context.access_for_change::<level::Author>(request.database)?;
    let user = owner(context, &*access.grant()?, &request.user)?;
    let lower = access.downgrade::<level::Depositor>();
    let accesses = [&lower];
    let mut transaction = context.services.databases.transaction(&accesses)?;
    let mut writer = transaction.writer(0);
    if !writer.profile_delete(&request.profile, user.as_ref())? {
        let ticket = writer.last_ticket();
        return Ok(CallOutcome::when_durable(v1::DeleteNoteReply::default(), ticket));
    }
    let reply = v1::DeleteNoteReply { deleted: true, modseq: writer.modseq().0, soft: false };
    Ok(CallOutcome::when_durable(reply, transaction.commit()?))
}

/// Returns the user of a personal profile, in the spelling from which its UNID is derived. Returns `None` for the
/// shared profile.
fn owner(context: &CallContext, grant: &Grant, user: &str) -> Result<Option<Name>> {
    if user.is_empty() {
        return Ok(None);
    }
    let person = context.services.directory.person(user)?;
    let name = person.map_or_else(|| Name::new(user), |person| person.name.clone());
    Ok(Some(if grant.is_own(&name) { grant.name().cloned().unwrap_or(name) } else { name }))
}
