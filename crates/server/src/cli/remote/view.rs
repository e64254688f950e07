//! `doublet view`: views and folders at a server.

use std::path::PathBuf;

use clap::Subcommand;
use client::{Client, v1};
use serde_json::json;

use super::database::key;
use super::entries::{self, Part, Reading, Wanted};
use super::{Told, design, refused};
use crate::admin::Answer;
use crate::admin::answer::record;
use crate::cli::Failure;

/// What to do with views.
#[derive(Debug, Clone, Subcommand)]
pub enum ViewCommand {
    /// Lists views and folders.
    List {
        /// The database, as in mail/ann.nsf.
        database: String,
    },
    /// Shows the entries of a view or folder.
    Entries {
        #[command(flatten)]
        reading: Reading,
        #[command(flatten)]
        part: Part,
    },
    /// Finds entries by the values of the sorted columns, from left to right.
    Find {
        #[command(flatten)]
        reading: Reading,
        #[command(flatten)]
        wanted: Wanted,
    },
    /// Shows how a view is made, as a file that `change` and `create` take.
    Design {
        /// The database.
        database: String,
        /// The view's name.
        view: String,
    },
    /// Makes a view of a file.
    #[command(after_help = FILE_HELP)]
    Create {
        /// The database.
        database: String,
        /// The file, - for standard input.
        #[arg(value_name = "FILE|-")]
        file: PathBuf,
        /// Makes it one's own: nobody else sees it.
        #[arg(long)]
        personal: bool,
    },
    /// Replaces the whole design of a view by that of a file, or gives columns to a folder.
    #[command(after_help = FILE_HELP)]
    Change {
        /// The database.
        database: String,
        /// The view's name, as it is so far.
        view: String,
        /// The file, - for standard input.
        #[arg(value_name = "FILE|-")]
        file: PathBuf,
        /// Fails when the design was saved since it had this sequence number.
        #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
        expect: u32,
    },
    /// Deletes a view. Its documents stay.
    Delete {
        /// The database.
        database: String,
        /// The view's name.
        view: String,
        /// Fails when the design was saved since it had this sequence number.
        #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
        expect: u32,
    },
}

/// What a file with a view looks like.
const FILE_HELP: &str = "\
A file has one view, in the words of a template (docs/templates.md):

  [[view]]
  title = \"By Due Date\"
  selection = 'SELECT Form = \"Task\"'
  columns = [
      { title = \"Due\", sort = \"ascending\" },
      { title = \"Subject\" },
      { title = \"Days left\", item = \"$Left\", formula = \"(Due - @Today) / 86400\" },
  ]

`doublet view design` prints one that is there.";

impl ViewCommand {
    /// Tells whether the command reads standard input.
    pub(super) fn reads_input(&self) -> bool {
        matches!(self, Self::Create { file, .. } | Self::Change { file, .. } if file.as_os_str() == "-")
    }
}

/// Runs a command.
pub(super) async fn run(client: Client, command: ViewCommand) -> Result<Told, Failure> {
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
    .map(Told::from)
}

/// Names a view or folder.
pub(super) fn named(view: String) -> v1::ViewKey {
    v1::ViewKey { key: Some(v1::view_key::Key::Name(view)) }
}

/// Turns the refusal to make a view or folder into words, with what would permit it.
pub(super) fn refused_new(status: client::Status, database: &str, personal: bool) -> Failure {
    if client::reason(&status) != "access" {
        return refused(status);
    }
    let flag = if personal { "create-personal-folders" } else { "create-folders" };
    Failure(format!(
        "{}; a manager permits it: `doublet db acl {database} set NAME --level LEVEL --flag {flag}`",
        status.message()
    ))
}

/// Turns a failed call into words; where nothing has the name that was said, tells which command lists those there are.
pub(super) fn refused_name(status: client::Status, name: &str, lists: &str) -> Failure {
    let is_missing = client::reason(&status) == "not-found" && status.message().contains(&format!("{name:?}"));
    if is_missing { Failure(format!("{}; `{lists}` lists those there are", status.message())) } else { refused(status) }
}

async fn list(client: Client, database: String) -> Result<Answer, Failure> {
    let request = v1::ListViewsRequest { database: Some(key(database)), kind: 0 };
    let reply = client.views().list_views(request).await.map_err(refused)?.into_inner();
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
