//! `doublet view`: views and folders on a server.

use std::path::PathBuf;

use admin::Answer;
use admin::answer::record;
use clap::Subcommand;
use client::{Client, v1};
use serde_json::json;

use super::database::key;
use super::entries::{self, EntryRange, SearchKeys, ViewOptions};
use super::revision::ExpectedRevision;
use super::{CommandOutput, call_error, design};
use crate::CommandError;

/// View commands.
#[derive(Debug, Clone, Subcommand)]
pub enum ViewCommand {
    /// Lists views and folders.
    List {
        /// Path of the database, for example mail/ann.nsf.
        database: String,
    },
    /// Shows the entries of a view or folder.
    Entries {
        #[command(flatten)]
        reading: ViewOptions,
        #[command(flatten)]
        part: EntryRange,
    },
    /// Finds entries by the values of the sorted columns, from left to right.
    Find {
        #[command(flatten)]
        reading: ViewOptions,
        #[command(flatten)]
        wanted: SearchKeys,
    },
    /// Shows the design of a view, in the file format of `change` and `create`.
    Design {
        /// Path of the database in the catalog.
        database: String,
        /// Name of the view.
        view: String,
    },
    /// Creates a view from a file.
    #[command(after_help = FILE_HELP)]
    Create {
        /// Path of the database in the catalog.
        database: String,
        /// File with the view, - for standard input.
        #[arg(value_name = "FILE|-")]
        file: PathBuf,
        /// Creates a personal view, which only its owner sees.
        #[arg(long)]
        personal: bool,
    },
    /// Replaces the whole design of a view with the one in a file, or sets the columns of a folder.
    #[command(after_help = FILE_HELP)]
    Change {
        /// Path of the database in the catalog.
        database: String,
        /// Current name of the view.
        view: String,
        /// File with the view, - for standard input.
        #[arg(value_name = "FILE|-")]
        file: PathBuf,
        /// Fails if the design was saved since it had this revision, as `doublet view design` shows it.
        #[arg(long, value_name = "REVISION")]
        expect: Option<ExpectedRevision>,
    },
    /// Deletes a view. Its documents are not deleted.
    Delete {
        /// Path of the database in the catalog.
        database: String,
        /// Name of the view.
        view: String,
        /// Fails if the design was saved since it had this revision, as `doublet view design` shows it.
        #[arg(long, value_name = "REVISION")]
        expect: Option<ExpectedRevision>,
    },
}

/// Description of the view file format for the help.
const FILE_HELP: &str = "\
A file has one view, in the template format (docs/templates.md):

  [[view]]
  title = \"By Due Date\"
  selection = 'SELECT Form = \"Task\"'
  columns = [
      { title = \"Due\", sort = \"ascending\" },
      { title = \"Subject\" },
      { title = \"Days left\", item = \"$Left\", formula = \"(Due - @Today) / 86400\" },
  ]

`doublet view design` prints an existing view.";

impl ViewCommand {
    /// Returns `true` if the command reads standard input.
    pub(super) fn reads_input(&self) -> bool {
        matches!(self, Self::Create { file, .. } | Self::Change { file, .. } if file.as_os_str() == "-")
    }
}

/// Runs a command.
pub(super) async fn run(client: Client, command: ViewCommand) -> Result<CommandOutput, CommandError> {
    match command {
        ViewCommand::List { database } => list(client, database).await,
        ViewCommand::Entries { reading, part } => return entries::entries(client, reading, part).await,
        ViewCommand::Find { reading, wanted } => return entries::find(client, reading, wanted).await,
        ViewCommand::Design { database, view } => design::show(&client, database, view).await,
        ViewCommand::Create { database, file, personal } => design::create(&client, database, &file, personal).await,
        ViewCommand::Change { database, view, file, expect } => {
            design::change(&client, database, view, &file, expect).await
        }
        ViewCommand::Delete { database, view, expect } => design::delete(&client, database, view, expect).await,
    }
    .map(CommandOutput::from)
}

/// Creates a view key from the name of a view or folder.
pub(super) fn view_key(view: String) -> v1::ViewKey {
    v1::ViewKey { key: Some(v1::view_key::Key::Name(view)) }
}

/// Converts the error of creating a view or folder into a command error. If access is denied, it names the command
/// that grants it.
pub(super) fn create_error(status: client::Status, database: &str, personal: bool) -> CommandError {
    if client::reason(&status) != "access" {
        return call_error(status);
    }
    let flag = if personal { "create-personal-folders" } else { "create-folders" };
    CommandError(format!(
        "{}; a manager can grant this right: `doublet db acl {database} set NAME --level LEVEL --flag {flag}`",
        status.message()
    ))
}

/// Converts the status of a failed call into a command error. If no view or folder has the given name, the error names
/// the command that lists them.
pub(super) fn lookup_error(status: client::Status, name: &str, lists: &str) -> CommandError {
    let is_missing = client::reason(&status) == "not-found" && status.message().contains(&format!("{name:?}"));
    if is_missing {
        CommandError(format!("{}; `{lists}` lists the existing ones", status.message()))
    } else {
        call_error(status)
    }
}

async fn list(client: Client, database: String) -> Result<Answer, CommandError> {
    let request = v1::ListViewsRequest { database: Some(key(database)), kind: 0 };
    let reply = client.views().list_views(request).await.map_err(call_error)?.into_inner();
    let rows = reply.views.iter().map(|view| {
        record(vec![
            ("view", json!(view.view_id)),
            ("name", json!(view.name)),
            ("folder", json!(view.folder)),
            ("columns", view.columns.iter().map(|column| json!(column.title)).collect()),
        ])
    });
    Ok(Answer::list(rows.collect()))
}
