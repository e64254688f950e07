//! `doublet folder`: folders on a server, and the notes in them.

use admin::answer::record;
use admin::{Answer, format_count};
use clap::{Args, Subcommand};
use client::{Client, v1};
use serde_json::{Value, json};

use super::database::key;
use super::view::{create_error, lookup_error, view_key};
use super::{call_error, note};
use crate::CommandError;

/// Folder commands.
#[derive(Debug, Clone, Subcommand)]
pub enum FolderCommand {
    /// Lists folders.
    List {
        /// Path of the database, for example mail/ann.nsf.
        database: String,
        /// Lists only personal folders.
        #[arg(long)]
        personal: bool,
    },
    /// Creates a folder.
    Create {
        /// Path of the database in the catalog.
        database: String,
        /// Name of the folder. Levels are separated by /, for example Plans/Old.
        name: String,
        /// Creates a personal folder, which only its owner sees.
        #[arg(long)]
        personal: bool,
    },
    /// Renames a folder.
    Rename {
        #[command(flatten)]
        selector: FolderSelector,
        /// New name of the folder.
        name: String,
    },
    /// Deletes a folder, which must be empty.
    Delete {
        #[command(flatten)]
        selector: FolderSelector,
    },
    /// Adds notes to a folder. They are not removed from other folders.
    Add {
        #[command(flatten)]
        selector: FolderSelector,
        #[command(flatten)]
        notes: NoteSelector,
    },
    /// Removes notes from a folder. The notes are not deleted.
    Remove {
        #[command(flatten)]
        selector: FolderSelector,
        #[command(flatten)]
        notes: NoteSelector,
    },
}

/// Selects a folder.
#[derive(Debug, Clone, Args)]
pub struct FolderSelector {
    /// Path of the database in the catalog.
    database: String,
    /// Name of the folder.
    folder: String,
}

impl FolderSelector {
    fn keys(&self) -> (Option<v1::DatabaseKey>, Option<v1::ViewKey>) {
        (Some(key(self.database.clone())), Some(view_key(self.folder.clone())))
    }

    fn missing_error(&self, status: client::Status) -> CommandError {
        lookup_error(status, &self.folder, &format!("doublet folder list {}", self.database))
    }
}

/// Selects notes.
#[derive(Debug, Clone, Args)]
pub struct NoteSelector {
    /// Note numbers, or UNIDs of 32 hexadecimal digits. At most 1,000.
    #[arg(required = true, value_name = "NOTE")]
    notes: Vec<String>,
}

impl NoteSelector {
    pub(super) fn keys(&self) -> Result<Vec<v1::NoteKey>, CommandError> {
        self.notes.iter().map(|text| note::parse_note_key(text)).collect()
    }
}

/// Runs a command.
pub(super) async fn run(client: Client, command: FolderCommand) -> Result<Answer, CommandError> {
    match command {
        FolderCommand::List { database, personal } => list(&client, database, personal).await,
        FolderCommand::Create { database, name, personal } => {
            let request = v1::CreateFolderRequest { database: Some(key(database.clone())), name, personal };
            let made = client.views().create_folder(request).await;
            Ok(folder_answer(&made.map_err(|status| create_error(status, &database, personal))?.into_inner()))
        }
        FolderCommand::Rename { selector, name } => {
            let (database, folder) = selector.keys();
            let renamed = client.views().rename_folder(v1::RenameFolderRequest { database, folder, name }).await;
            Ok(folder_answer(&renamed.map_err(|status| selector.missing_error(status))?.into_inner()))
        }
        FolderCommand::Delete { selector } => delete(&client, selector).await,
        FolderCommand::Add { selector, notes } => {
            let (database, into) = selector.keys();
            let moved = v1::MoveNotesRequest { database, notes: notes.keys()?, into, out_of: None };
            move_notes(&client, &selector, moved, "in").await
        }
        FolderCommand::Remove { selector, notes } => {
            let (database, out_of) = selector.keys();
            let moved = v1::MoveNotesRequest { database, notes: notes.keys()?, into: None, out_of };
            move_notes(&client, &selector, moved, "not in").await
        }
    }
}

async fn list(client: &Client, database: String, personal: bool) -> Result<Answer, CommandError> {
    let kind = v1::list_views_request::Kind::Folders.into();
    let request = v1::ListViewsRequest { database: Some(key(database.clone())), kind };
    let reply = client.views().list_views(request).await.map_err(call_error)?.into_inner();
    let meant = reply.views.iter().filter(|folder| !personal || is_personal(folder));
    let rows = meant.map(|folder| {
        let mut fields = folder_fields(folder);
        fields.push(("columns", folder.columns.iter().map(|column| json!(column.title)).collect()));
        record(fields)
    });
    Ok(Answer::list(rows.collect())
        .with_message(format!("`doublet view entries {database} FOLDER` shows the notes in a folder.")))
}

/// Returns `true` if a folder is personal. The server lists only the caller's own personal folders.
fn is_personal(folder: &v1::View) -> bool {
    folder.flags.contains('V')
}

fn folder_answer(folder: &v1::View) -> Answer {
    Answer::record(folder_fields(folder))
}

fn folder_fields(folder: &v1::View) -> Vec<(&'static str, Value)> {
    vec![("folder", json!(folder.view_id)), ("name", json!(folder.name)), ("personal", json!(is_personal(folder)))]
}

async fn delete(client: &Client, selector: FolderSelector) -> Result<Answer, CommandError> {
    let (database, folder) = selector.keys();
    match client.views().delete_folder(v1::DeleteFolderRequest { database, folder }).await {
        Ok(_) => Ok(Answer::message("The folder was deleted.")),
        Err(status) if client::reason(&status) == "state" => Err(CommandError(format!(
            "{}; `doublet folder remove {} '{}' NOTE` removes notes from it",
            status.message(),
            selector.database,
            selector.folder
        ))),
        Err(status) => Err(selector.missing_error(status)),
    }
}

async fn move_notes(
    client: &Client,
    selector: &FolderSelector,
    request: v1::MoveNotesRequest,
    now: &str,
) -> Result<Answer, CommandError> {
    let requested = request.notes.len();
    let outcome = client.views().move_notes(request).await;
    let moved = outcome.map_err(|status| selector.missing_error(status))?.into_inner().moved;
    let missing = requested.saturating_sub(moved as usize);
    let failure = (missing > 0).then(|| {
        let list = format!("`doublet note list {}`", selector.database);
        let missing = format_count(missing, "note is", "notes are");
        format!("{missing} missing or not readable; {list} lists the existing notes")
    });
    let moved = format_count(moved, "note is", "notes are");
    Ok(Answer { failure, ..Answer::message(format!("{moved} {now} {} now.", selector.folder)) })
}
