//! View designs: reading, creating, replacing and deleting views.
//!
//! The crate `notes` checks the caller's rights and whether a design is valid.

use base::NoteId;
use notes::view::entries::ViewOrFolder;
use notes::view::note::ViewNote;
use notes::{Access, level};
use proto::v1;
use proto::view_design::{view_from_proto, view_to_proto};

use super::edit::{check_quota, check_version, saved_note};
use super::{CallContext, view};
use crate::convert::expected_from_proto;
use crate::error::{Error, Result};
use crate::service::CallOutcome;

/// Returns the design of a view.
pub(crate) fn get(
    context: &CallContext,
    request: v1::GetViewDesignRequest,
) -> Result<CallOutcome<v1::GetViewDesignReply>> {
    let access = context.access::<level::Reader>(request.database)?;
    let reading = access.read()?;
    let found = view::find(&reading, request.view.as_ref())?;
    let info = found.info().ok_or_else(|| {
        Error::State(format!("the folder {:?} has no columns and therefore no design", found.title()))
    })?;
    let reply = v1::GetViewDesignReply {
        view_id: info.note.0,
        unid: info.unid.0.to_vec(),
        sequence: info.revision.sequence,
        revision_id: info.revision.id.0.to_vec(),
        design: Some(view_to_proto(&info.view)),
    };
    Ok(CallOutcome::when_durable(reply, reading.ticket()))
}

/// Creates a view.
pub(crate) fn create(context: &CallContext, request: v1::CreateViewRequest) -> Result<CallOutcome<v1::SavedNote>> {
    let access = context.access_for_change::<level::Reader>(request.database)?;
    let view = design_from_proto(request.design)?;
    context.write(&access, |writer| {
        let note = writer.view_create(&view)?;
        check_quota(writer)?;
        saved_note(writer, note)
    })
}

/// Replaces the design of a view, or adds columns to a folder.
pub(crate) fn update(context: &CallContext, request: v1::UpdateViewRequest) -> Result<CallOutcome<v1::SavedNote>> {
    let access = context.access_for_change::<level::Reader>(request.database)?;
    let view = design_from_proto(request.design)?;
    let note = design_note(&find(&access, request.view)?);
    let expected = expected_from_proto(request.expected_sequence, &request.expected_revision_id)?;
    context.write(&access, |writer| {
        let stored = writer.header(note)?.ok_or_else(|| notes::Error::not_found("the view"))?;
        writer.view_update(note, expected.unwrap_or(stored.revision().into()), &view)?;
        check_quota(writer)?;
        saved_note(writer, note)
    })
}

/// Deletes a view.
pub(crate) fn delete(
    context: &CallContext,
    request: v1::DeleteViewRequest,
) -> Result<CallOutcome<v1::DeleteViewReply>> {
    let access = context.access_for_change::<level::Reader>(request.database)?;
    let found = find(&access, request.view)?;
    if found.is_folder() {
        return Err(Error::State("this is a folder: delete it with DeleteFolder".to_owned()));
    }
    let note = design_note(&found);
    let expected = expected_from_proto(request.expected_sequence, &request.expected_revision_id)?;
    context.write(&access, |writer| {
        check_version(writer, note, expected)?;
        writer.view_delete(note)?;
        Ok(v1::DeleteViewReply {})
    })
}

fn design_from_proto(design: Option<v1::ViewDesign>) -> Result<ViewNote> {
    let design = design.ok_or_else(|| Error::invalid("no design specified"))?;
    view_from_proto(design).map_err(|error| Error::invalid(error.to_string()))
}

fn find(access: &Access<level::Reader>, key: Option<v1::ViewKey>) -> Result<ViewOrFolder> {
    view::find(&access.read()?, key.as_ref())
}

fn design_note(found: &ViewOrFolder) -> NoteId {
    NoteId(found.id().0)
}
