//! `doublet view design`, `create`, `change` and `delete`: view designs on a server, in the text form used by
//! templates.

use std::io::Read;
use std::path::Path;

use admin::Answer;
use base::hex;
use client::{Client, v1};
use design::view_text::ViewText;
use instance::data_folder::read_limited;
use proto::view_design::{view_from_proto, view_to_proto};
use serde_json::json;

use super::database::key;
use super::note::saved_answer;
use super::revision::{ExpectedRevision, revision_text};
use super::view::{create_error, lookup_error, view_key};
use crate::CommandError;
use crate::limits::VIEW_FILE_BYTES_MAX;

/// Shows the design of a view.
pub(super) async fn show(client: &Client, database: String, view: String) -> Result<Answer, CommandError> {
    let request =
        v1::GetViewDesignRequest { database: Some(key(database.clone())), view: Some(view_key(view.clone())) };
    let reply = client.views().get_view_design(request).await;
    let found = reply.map_err(|status| view_error(status, &database, &view))?.into_inner();
    let design = view_from_proto(found.design.unwrap_or_default()).map_err(CommandError::new)?;
    let words = ViewText::from_view_note(&design);
    let number = found.view_id;
    let revision = revision_text(found.sequence, &found.revision_id);
    let head = format!("# View {number} of {database}, revision {revision} (--expect {revision}).");
    let answer = Answer::record(vec![
        ("view", json!(found.view_id)),
        ("unid", json!(hex::upper(&found.unid))),
        ("sequence", json!(found.sequence)),
        ("revision", json!(revision)),
        ("design", words.to_json()),
    ]);
    Ok(Answer { text: Some(format!("{head}\n{}", words.to_toml())), ..answer })
}

/// Creates a view from a file.
pub(super) async fn create(
    client: &Client,
    database: String,
    file: &Path,
    personal: bool,
) -> Result<Answer, CommandError> {
    let mut design = read(file)?;
    design.personal |= personal;
    let title = design.title.clone();
    let personal = design.personal;
    let request = v1::CreateViewRequest { database: Some(key(database.clone())), design: Some(design) };
    let made = client.views().create_view(request).await;
    let made = made.map_err(|status| create_error(status, &database, personal))?.into_inner();
    Ok(saved_answer("view", &made)
        .with_message(format!("The view was created; `doublet view entries {database} '{title}'` shows its entries.")))
}

/// Replaces the design of a view with the one in a file.
pub(super) async fn change(
    client: &Client,
    database: String,
    view: String,
    file: &Path,
    expect: Option<ExpectedRevision>,
) -> Result<Answer, CommandError> {
    let key = Some(key(database.clone()));
    let design = Some(read(file)?);
    let request = v1::UpdateViewRequest {
        database: key,
        view: Some(view_key(view.clone())),
        design,
        expected_sequence: ExpectedRevision::sequence(&expect),
        expected_revision_id: ExpectedRevision::id(&expect),
    };
    let outcome = client.views().update_view(request).await;
    Ok(saved_answer("view", &outcome.map_err(|status| view_error(status, &database, &view))?.into_inner()))
}

/// Deletes a view.
pub(super) async fn delete(
    client: &Client,
    database: String,
    view: String,
    expect: Option<ExpectedRevision>,
) -> Result<Answer, CommandError> {
    let key = Some(key(database.clone()));
    let request = v1::DeleteViewRequest {
        database: key,
        view: Some(view_key(view.clone())),
        expected_sequence: ExpectedRevision::sequence(&expect),
        expected_revision_id: ExpectedRevision::id(&expect),
    };
    match client.views().delete_view(request).await {
        Ok(_) => Ok(Answer::message("The view was deleted; its documents were kept.")),
        Err(status) if client::reason(&status) == "state" => {
            Err(CommandError(format!("{view} is a folder; `doublet folder delete {database} '{view}'` deletes it")))
        }
        Err(status) => Err(view_error(status, &database, &view)),
    }
}

/// Reads a file with the design of one view; `-` is standard input.
fn read(file: &Path) -> Result<v1::ViewDesign, CommandError> {
    let bytes = if file.as_os_str() == "-" {
        let mut input = Vec::new();
        let mut limited = std::io::stdin().lock().take(VIEW_FILE_BYTES_MAX.saturating_add(1));
        limited.read_to_end(&mut input).map_err(|error| CommandError(format!("cannot read the view: {error}")))?;
        if input.len() as u64 > VIEW_FILE_BYTES_MAX {
            return Err(CommandError(format!("a view has at most {VIEW_FILE_BYTES_MAX} bytes")));
        }
        input
    } else {
        read_limited(file, VIEW_FILE_BYTES_MAX).map_err(CommandError::new)?
    };
    let wrong = |error: &dyn std::fmt::Display| {
        CommandError(format!(
            "{}: {error}; `doublet view design` prints a view in this format, and docs/templates.md describes all keywords",
            file.display()
        ))
    };
    let text = String::from_utf8(bytes).map_err(|error| wrong(&error))?;
    let view = ViewText::read(&text).and_then(|view| view.to_view_note()).map_err(|error| wrong(&error))?;
    Ok(view_to_proto(&view))
}

/// Converts an error of a view command into a command error with advice: for an unknown view, for a conflict with a
/// change made by another user, and for a personal view that would become shared.
fn view_error(status: client::Status, database: &str, view: &str) -> CommandError {
    match client::reason(&status).as_str() {
        "conflict" => CommandError(format!("{}; `doublet view design` shows the current design", status.message())),
        "author" => {
            CommandError(format!("{}; a personal view stays personal with `personal = true`", status.message()))
        }
        _ => lookup_error(status, view, &format!("doublet view list {database}")),
    }
}
