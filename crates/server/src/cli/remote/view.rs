//! `doublet view`: views and folders at a server.

use std::path::PathBuf;

use clap::Subcommand;
use client::{Client, v1};
use serde_json::{Value, json};

use super::database::key;
use super::item::{read_keys, shown};
use super::{design, refused};
use crate::admin::answer::{moment, record};
use crate::admin::{Answer, counted};
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
        /// The database.
        database: String,
        /// The view's name.
        view: String,
        /// The most entries to show.
        #[arg(long, value_name = "COUNT", default_value_t = 50)]
        limit: u32,
        /// The number of the first entry, counted from 1.
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        from: u64,
        /// Shows categories alone.
        #[arg(long)]
        collapsed: bool,
    },
    /// Finds entries by the values of the sorted columns, from left to right.
    Find {
        /// The database.
        database: String,
        /// The view's name.
        view: String,
        /// What the sorted columns have, as in Oslo, number=5 or time=2026-01-31T12:00:00Z.
        #[arg(value_name = "[TYPE=]VALUE", required = true)]
        keys: Vec<String>,
        /// Finds everything from there up to here, both included. Given once for each sorted column.
        #[arg(long, value_name = "[TYPE=]VALUE")]
        to: Vec<String>,
        /// The last value is the beginning of a text.
        #[arg(long, conflicts_with = "to")]
        partial: bool,
        /// The most entries to show.
        #[arg(long, value_name = "COUNT", default_value_t = 50)]
        limit: u32,
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

/// Items that a folder without columns shows.
const MAIL_ITEMS: [&str; 2] = ["From", "Subject"];

/// Runs a command.
pub(super) async fn run(client: Client, command: ViewCommand) -> Result<Answer, Failure> {
    match command {
        ViewCommand::List { database } => list(client, database).await,
        ViewCommand::Entries { database, view, limit, from, collapsed } => {
            let expansion = v1::Expansion { collapsed, exceptions: Vec::new() };
            let request = v1::ReadEntriesRequest {
                start_row: from.max(1),
                count: limit,
                expansion: Some(expansion),
                ..reading(database, view)
            };
            entries(client, request).await
        }
        ViewCommand::Find { database, view, keys, to, partial, limit } => {
            let request = v1::FindByKeyRequest {
                database: Some(key(database.clone())),
                view: Some(named(view.clone())),
                collation: 0,
                keys: read_keys(&keys)?,
                partial,
                to_keys: read_keys(&to)?,
            };
            find(client, request, v1::ReadEntriesRequest { count: limit, ..reading(database, view) }).await
        }
        ViewCommand::Design { database, view } => design::show(&client, database, view).await,
        ViewCommand::Create { database, file, personal } => design::create(&client, database, &file, personal).await,
        ViewCommand::Change { database, view, file, expect } => {
            design::change(&client, database, view, &file, expect).await
        }
        ViewCommand::Delete { database, view, expect } => design::delete(&client, database, view, expect).await,
    }
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

/// Asks for entries as they are shown here.
fn reading(database: String, view: String) -> v1::ReadEntriesRequest {
    v1::ReadEntriesRequest {
        database: Some(key(database)),
        view: Some(named(view)),
        navigator: v1::Navigator::NextExpanded.into(),
        mask: Some(v1::ReadMask { position: true, values: true, unread: true, marks: true, ..Default::default() }),
        items: MAIL_ITEMS.map(str::to_owned).to_vec(),
        ..Default::default()
    }
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

async fn entries(client: Client, request: v1::ReadEntriesRequest) -> Result<Answer, Failure> {
    let opened = open(&client, &request).await?;
    let reply = client.views().read_entries(request).await.map_err(refused)?.into_inner();
    let mut answer = rows(&opened, &reply).and(format!("{}.", counted(opened.documents, "document", "documents")));
    if reply.more {
        answer = answer.and("There are more: --from and --limit show them.");
    }
    Ok(state(answer, &opened))
}

async fn find(
    client: Client,
    request: v1::FindByKeyRequest,
    mut reading: v1::ReadEntriesRequest,
) -> Result<Answer, Failure> {
    let opened = open(&client, &reading).await?;
    let found = client.views().find_by_key(request).await.map_err(refused)?.into_inner();
    let mut reply = v1::ReadEntriesReply::default();
    if found.matches > 0 {
        let limit = reading.count;
        reading.start_key = found.key;
        reading.count = u32::try_from(found.matches).unwrap_or(u32::MAX).min(limit);
        reply = client.views().read_entries(reading).await.map_err(refused)?.into_inner();
    }
    let matches = counted(found.matches, "row", "rows");
    let answer = rows(&opened, &reply).and(format!("{matches}, those of categories among them."));
    Ok(state(answer, &opened))
}

async fn open(client: &Client, request: &v1::ReadEntriesRequest) -> Result<v1::Collection, Failure> {
    let open = v1::OpenCollectionRequest { database: request.database.clone(), view: request.view.clone() };
    Ok(client.views().open_collection(open).await.map_err(refused)?.into_inner())
}

fn rows(opened: &v1::Collection, reply: &v1::ReadEntriesReply) -> Answer {
    let columns = opened.view.as_ref().map_or(&[][..], |view| &view.columns);
    let titles: Vec<&str> = match columns {
        [] => MAIL_ITEMS.to_vec(),
        columns => columns.iter().map(|column| column.title.as_str()).collect(),
    };
    Answer::list(reply.entries.iter().map(|entry| row(entry, &titles)).collect())
}

/// Says where the index does not have everything yet.
fn state(answer: Answer, opened: &v1::Collection) -> Answer {
    match opened.build {
        Some(build) if build.documents > 0 => answer.and(format!(
            "The index is being built: {} of {} documents so far. Try again later.",
            build.done, build.documents
        )),
        Some(_) => answer.and("The index is about to be built. Try again later."),
        None if opened.late => answer.and("The index does not have the last changes yet. Try again later."),
        None => answer,
    }
}

fn row(entry: &v1::Entry, titles: &[&str]) -> Value {
    let levels = entry.position.as_ref().map(|place| place.levels.iter().map(u32::to_string).collect::<Vec<_>>());
    let mut fields = vec![
        ("place", json!(levels.unwrap_or_default().join("."))),
        ("note", if entry.category { Value::Null } else { json!(entry.note_id) }),
        ("category", json!(entry.name)),
        // Only documents are read.
        ("unread", if entry.category { Value::Null } else { json!(entry.unread) }),
    ];
    if let Some(marks) = &entry.marks {
        fields.push(("received", moment(Some(base::Timestamp(marks.received_us)))));
    }
    fields.extend(titles.iter().zip(&entry.values).map(|(title, value)| (*title, shown(Some(value)))));
    record(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_documents_have_unread_marks() {
        let entry = |category| v1::Entry { category, note_id: 7, ..v1::Entry::default() };
        let told = |category| {
            let row = row(&entry(category), &[]);
            (row["note"].clone(), row["unread"].clone())
        };
        assert_eq!(told(true), (Value::Null, Value::Null));
        assert_eq!(told(false), (json!(7), json!(false)));
    }
}
