//! `doublet note profile`: profile documents on a server.

use admin::Answer;
use clap::{Args, Subcommand};
use client::v1::item_selection::Extent;
use client::{Client, v1};

use super::call_error;
use super::database::key;
use super::note::{NoteEdit, item_selection, note_answer, saved_note};
use super::revision::ExpectedRevision;
use crate::CommandError;

/// Profile document commands.
#[derive(Debug, Clone, Subcommand)]
pub enum ProfileCommand {
    /// Shows a profile document with its items.
    Get {
        #[command(flatten)]
        selector: ProfileSelector,
        /// Item to show. May be given several times. Default: all.
        #[arg(long = "item", value_name = "NAME")]
        items: Vec<String>,
    },
    /// Changes items of a profile document, which is created if it does not exist. Other items are not changed.
    Set {
        #[command(flatten)]
        selector: ProfileSelector,
        #[command(flatten)]
        edit: NoteEdit,
    },
    /// Deletes a profile document.
    Delete {
        #[command(flatten)]
        selector: ProfileSelector,
    },
}

/// Selects a profile document.
#[derive(Debug, Clone, Args)]
pub struct ProfileSelector {
    /// Path of the database in the catalog.
    database: String,
    /// Name of the profile document.
    profile: String,
    /// Uses the caller's own profile document. Default: the shared one.
    #[arg(long, conflicts_with = "of")]
    own: bool,
    /// Uses the profile document of this user: a short name, full name or mail address.
    #[arg(long, value_name = "NAME")]
    of: Option<String>,
}

impl ProfileSelector {
    /// Returns the database, the name and the user of the profile document.
    async fn key(self, client: &Client) -> Result<(Option<v1::DatabaseKey>, String, String), CommandError> {
        let user = match (self.own, self.of) {
            (true, _) => {
                let session = client.sessions().get_session(v1::GetSessionRequest {}).await.map_err(call_error)?;
                session.into_inner().name
            }
            (false, of) => of.unwrap_or_default(),
        };
        Ok((Some(key(self.database)), self.profile, user))
    }
}

/// Runs a command.
pub(super) async fn run(client: &Client, command: ProfileCommand) -> Result<Answer, CommandError> {
    match command {
        ProfileCommand::Get { selector, items } => {
            let (database, profile, user) = selector.key(client).await?;
            let extent = if items.is_empty() { Extent::All } else { Extent::Header };
            let items = Some(item_selection(extent, items));
            let request = v1::OpenProfileRequest { database, profile, user, items };
            Ok(note_answer(&client.notes().open_profile(request).await.map_err(call_error)?.into_inner()))
        }
        ProfileCommand::Set { selector, edit } => {
            let items = edit.items()?;
            let NoteEdit { remove, expect, .. } = edit;
            let (database, profile, user) = selector.key(client).await?;
            let request = v1::UpdateProfileRequest {
                database,
                profile,
                user,
                items,
                remove,
                expected_sequence: ExpectedRevision::sequence(&expect),
                expected_revision_id: ExpectedRevision::id(&expect),
            };
            saved_note(client.notes().update_profile(request).await)
        }
        ProfileCommand::Delete { selector } => {
            let (database, profile, user) = selector.key(client).await?;
            let request = v1::DeleteProfileRequest { database, profile, user };
            match client.notes().delete_profile(request).await.map_err(call_error)?.into_inner().deleted {
                true => Ok(Answer::message("The profile document was deleted.")),
                false => Err(CommandError("there is no such profile document".to_owned())),
            }
        }
    }
}
