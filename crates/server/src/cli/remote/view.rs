//! `doublet view`: views and folders at a server.

use clap::Subcommand;
use client::{Client, v1};
use serde_json::{Value, json};

use super::database::key;
use super::item::shown;
use super::refused;
use crate::admin::Answer;
use crate::admin::answer::{moment, record};
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
}

/// Items that a folder without columns shows.
const MAIL_ITEMS: [&str; 2] = ["From", "Subject"];

/// Runs a command.
pub(super) async fn run(client: Client, command: ViewCommand) -> Result<Answer, Failure> {
    match command {
        ViewCommand::List { database } => list(client, database).await,
        ViewCommand::Entries { database, view, limit, from, collapsed } => {
            let view = Some(v1::ViewKey { key: Some(v1::view_key::Key::Name(view)) });
            let expansion = v1::Expansion { collapsed, exceptions: Vec::new() };
            let request = v1::ReadEntriesRequest {
                database: Some(key(database)),
                view,
                start_row: from.max(1),
                navigator: v1::Navigator::NextExpanded.into(),
                count: limit,
                mask: Some(v1::ReadMask {
                    position: true,
                    values: true,
                    unread: true,
                    marks: true,
                    ..Default::default()
                }),
                expansion: Some(expansion),
                items: MAIL_ITEMS.map(str::to_owned).to_vec(),
                ..Default::default()
            };
            entries(client, request).await
        }
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
    let open = v1::OpenCollectionRequest { database: request.database.clone(), view: request.view.clone() };
    let opened = client.views().open_collection(open).await.map_err(refused)?.into_inner();
    let reply = client.views().read_entries(request).await.map_err(refused)?.into_inner();
    let columns = opened.view.map(|view| view.columns).unwrap_or_default();
    let titles: Vec<&str> = match columns.as_slice() {
        [] => MAIL_ITEMS.to_vec(),
        columns => columns.iter().map(|column| column.title.as_str()).collect(),
    };
    let rows = reply.entries.iter().map(|entry| row(entry, &titles)).collect();
    let mut answer = Answer::list(rows).and(format!("{} documents.", opened.documents));
    if reply.more {
        answer = answer.and("There are more: --from and --limit show them.");
    }
    Ok(answer)
}

fn row(entry: &v1::Entry, titles: &[&str]) -> Value {
    let levels = entry.position.as_ref().map(|place| place.levels.iter().map(u32::to_string).collect::<Vec<_>>());
    let mut fields = vec![
        ("place", json!(levels.unwrap_or_default().join("."))),
        ("note", if entry.category { Value::Null } else { json!(entry.note_id) }),
        ("category", json!(entry.name)),
        ("unread", json!(entry.unread)),
    ];
    if let Some(marks) = &entry.marks {
        fields.push(("received", moment(Some(base::Timestamp(marks.received_us)))));
    }
    fields.extend(titles.iter().zip(&entry.values).map(|(title, value)| (*title, shown(Some(value)))));
    record(fields)
}
