//! The large-database workload: many users in shared databases over the native protocol. It is modeled on a study of
//! large databases with Domino.
//!
//! A round is what a Notes client does in a quarter of an hour: update a view and read its first screen, read five
//! documents, add two, change one, delete two. Several users share each database. The view keeps its size, so the cost
//! of a round does not depend on their number. There are no pauses: each user starts the next call when the previous
//! one is answered.
//!
//! `--guests` additional users work in `--guest-file` as long as the others run. Their calls are not counted.
//!
//! With `--changes`, which gives the number of documents, a round is the wait of a user with several open views: a
//! random document is changed, and the first screen of each view is read again.

use client::v1;
use client::{Client, ConnectOptions, Trust};

use crate::arguments::{Arguments, Error, Result};
use crate::measurements::{self, Measurements, Stopwatch};
use crate::users::{self, address};
use bench::random::SplitMix64;

/// Number of rows per screen.
const SCREEN: u32 = 50;

/// Size of the text of a document in bytes.
const BODY_BYTES: usize = 2_000;

/// Settings shared by all users.
#[derive(Debug, Clone)]
struct Plan {
    options: ConnectOptions,
    password: String,
    /// Path of a database, with `{}` as the placeholder for its number.
    files: String,
    databases: usize,
    /// Names of the views. The standard round uses only the first.
    views: Vec<String>,
    rounds: usize,
    /// Number of documents, if the workload consists only of changes.
    changes: Option<usize>,
}

/// Runs all users and prints the times of their calls.
pub fn run(arguments: &Arguments) -> Result<()> {
    let certificate = std::fs::read(arguments.text("certificate")?)?;
    let plan = Plan {
        options: ConnectOptions {
            compression: arguments.get_or("compression", false)?,
            ..ConnectOptions::new(arguments.text("address")?, Trust::pinned(&certificate)?)
        },
        password: arguments.text("password")?.to_owned(),
        files: arguments.get_or("files", "shared{}.nsf".to_owned())?,
        databases: arguments.get_or("databases", 25)?,
        views: arguments.get_or("views", "All Documents".to_owned())?.split('|').map(str::to_owned).collect(),
        rounds: arguments.get_or("rounds", 10)?,
        changes: Some(arguments.get_or("changes", 0)?).filter(|documents| *documents > 0),
    };
    let users: usize = arguments.get_or("users", 250)?;
    let guests: usize = arguments.get_or("guests", 0)?;
    let elsewhere = Plan { files: arguments.get_or("guest-file", plan.files.clone())?, ..plan.clone() };
    let (figures, seconds) = users::runtime()?.block_on(async {
        let mut ready = Vec::with_capacity(guests);
        let uncounted = Measurements::default();
        for guest in users + 1..=users + guests {
            ready.push(User::log_in(&elsewhere, guest, &uncounted).await?);
        }
        run_users(plan, 1..=users, ready).await
    })?;
    Ok(measurements::print(&figures.summary(seconds))?)
}

/// Logs in all users and runs them concurrently, with the guests for as long as they run. Returns the figures and the
/// total duration in seconds.
async fn run_users(
    plan: Plan,
    users: std::ops::RangeInclusive<usize>,
    guests: Vec<User>,
) -> Result<(Measurements, f64)> {
    let mut ready = Vec::new();
    let figures = Measurements::default();
    for user in users {
        ready.push(User::log_in(&plan, user, &figures).await?);
    }
    let watch = Stopwatch::start();
    let mut visiting = tokio::task::JoinSet::new();
    for mut guest in guests {
        visiting.spawn(async move {
            loop {
                if let Err(error) = guest.round().await {
                    return error;
                }
            }
        });
    }
    let mut working = tokio::task::JoinSet::new();
    for mut user in ready {
        let rounds = plan.rounds;
        let changes = plan.changes;
        working.spawn(async move {
            for _ in 0..rounds {
                match changes {
                    Some(documents) => user.change(documents).await?,
                    None => user.round().await?,
                }
            }
            Ok::<(), Error>(())
        });
    }
    while let Some(done) = working.join_next().await {
        done??;
    }
    let seconds = watch.elapsed().as_secs_f64();
    match visiting.try_join_next() {
        Some(stopped) => Err(format!("a guest client stopped: {}", stopped?).into()),
        None => Ok((figures, seconds)),
    }
}

/// One user with a connection.
struct User {
    client: Client,
    database: v1::DatabaseKey,
    views: Vec<v1::ViewKey>,
    numbers: SplitMix64,
    figures: Measurements,
}

impl User {
    async fn log_in(plan: &Plan, number: usize, figures: &Measurements) -> Result<Self> {
        let client = Client::connect(&plan.options).await?;
        client.login(&address(number), &plan.password).await?;
        let path = plan.files.replace("{}", &(1 + number % plan.databases).to_string());
        Ok(Self {
            client,
            database: v1::DatabaseKey { key: Some(v1::database_key::Key::Path(path)) },
            views: plan.views.iter().map(|name| view_key(name)).collect(),
            numbers: SplitMix64::new(number as u64),
            figures: figures.clone(),
        })
    }

    async fn round(&mut self) -> Result<()> {
        let rows = self.screen(0).await?;
        for _ in 0..5 {
            let note = *self.numbers.pick(&rows);
            self.open(note).await?;
        }
        let mine = [self.create().await?, self.create().await?];
        self.update(&mine[0]).await?;
        for note in mine {
            self.delete(note.note_id).await?;
        }
        Ok(())
    }

    /// Changes a random document among `documents`, and reads the first screen of all views.
    async fn change(&mut self, documents: usize) -> Result<()> {
        let row = 1 + self.numbers.below(documents) as u64;
        let note = self.entries(0, row, 1).await?.first().map(|entry| entry.note_id);
        let note_id = note.ok_or("the view has fewer rows than the database has documents")?;
        let watch = Stopwatch::start();
        self.update(&v1::SavedNote { note_id, ..v1::SavedNote::default() }).await?;
        for view in 0..self.views.len() {
            self.screen(view).await?;
        }
        self.figures.add("CHANGE_AND_SCREENS", watch.elapsed());
        Ok(())
    }

    /// Updates a view and reads its first rows. Returns the note numbers in these rows.
    async fn screen(&mut self, view: usize) -> Result<Vec<u32>> {
        let watch = Stopwatch::start();
        let request = v1::OpenCollectionRequest { database: self.database(), view: Some(self.views[view].clone()) };
        self.client.views().open_collection(request).await?;
        self.figures.add("OPEN_COLLECTION", watch.elapsed());
        let watch = Stopwatch::start();
        let entries = self.entries(view, 0, SCREEN).await?;
        self.figures.add("READ_ENTRIES", watch.elapsed());
        let notes: Vec<u32> = entries.iter().map(|entry| entry.note_id).filter(|note| *note > 0).collect();
        if notes.is_empty() { Err("the view contains no documents".into()) } else { Ok(notes) }
    }

    /// Reads rows of a view starting at a row counted from 1; 0 is the beginning.
    async fn entries(&self, view: usize, start_row: u64, count: u32) -> Result<Vec<v1::Entry>> {
        let request = v1::ReadEntriesRequest {
            database: self.database(),
            view: Some(self.views[view].clone()),
            start_row,
            navigator: v1::Navigator::Next.into(),
            count,
            mask: Some(v1::ReadMask { unid: true, position: true, values: true, ..v1::ReadMask::default() }),
            ..v1::ReadEntriesRequest::default()
        };
        Ok(self.client.views().read_entries(request).await?.into_inner().entries)
    }

    /// Reads a document, which another user may have deleted.
    async fn open(&mut self, note: u32) -> Result<()> {
        let watch = Stopwatch::start();
        let items = v1::ItemSelection { extent: v1::item_selection::Extent::All.into(), names: Vec::new() };
        let request = v1::OpenNoteRequest {
            database: self.database(),
            note: key(note),
            items: Some(items),
            ..v1::OpenNoteRequest::default()
        };
        match self.client.notes().open_note(request).await {
            Ok(_) => {}
            Err(status) if status.code() == client::Code::NotFound => {}
            Err(status) => return Err(status.into()),
        }
        self.figures.add("OPEN_NOTE", watch.elapsed());
        Ok(())
    }

    async fn create(&mut self) -> Result<v1::SavedNote> {
        let request = v1::CreateNoteRequest {
            database: self.database(),
            note_class: v1::NoteClass::Document.into(),
            items: self.items(),
            ..v1::CreateNoteRequest::default()
        };
        let watch = Stopwatch::start();
        let saved = self.client.notes().create_note(request).await?.into_inner();
        self.figures.add("ADD_NOTE", watch.elapsed());
        Ok(saved)
    }

    async fn update(&mut self, saved: &v1::SavedNote) -> Result<()> {
        let request = v1::UpdateNoteRequest {
            database: self.database(),
            note: key(saved.note_id),
            expected_sequence: saved.sequence,
            expected_revision_id: Vec::new(),
            items: self.items(),
            ..v1::UpdateNoteRequest::default()
        };
        let watch = Stopwatch::start();
        self.client.notes().update_note(request).await?;
        self.figures.add("UPDATE_NOTE", watch.elapsed());
        Ok(())
    }

    async fn delete(&mut self, note: u32) -> Result<()> {
        let request =
            v1::DeleteNoteRequest { database: self.database(), note: key(note), ..v1::DeleteNoteRequest::default() };
        let watch = Stopwatch::start();
        self.client.notes().delete_note(request).await?;
        self.figures.add("DELETE_NOTE", watch.elapsed());
        Ok(())
    }

    fn database(&self) -> Option<v1::DatabaseKey> {
        Some(self.database.clone())
    }

    fn items(&mut self) -> Vec<v1::Item> {
        let number = self.numbers.below(1_000_000);
        let text = |name: &str, text: String| item(name, v1::value::Kind::Text(text));
        vec![
            text("Form", "Topic".to_owned()),
            text("Subject", format!("Topic number {number} of the load generator")),
            text("Categories", format!("Category {:03}", number % 500)),
            item("Price", v1::value::Kind::Number(number as f64 / 100.0)),
            v1::Item { flags: None, ..item("Body", v1::value::Kind::RichText("x".repeat(BODY_BYTES))) },
        ]
    }
}

fn item(name: &str, kind: v1::value::Kind) -> v1::Item {
    let flags = Some(v1::ItemFlags { summary: true, ..v1::ItemFlags::default() });
    v1::Item { name: name.to_owned(), flags, value: Some(v1::Value { kind: Some(kind) }) }
}

fn view_key(name: &str) -> v1::ViewKey {
    v1::ViewKey { key: Some(v1::view_key::Key::Name(name.to_owned())) }
}

fn key(note: u32) -> Option<v1::NoteKey> {
    Some(v1::NoteKey { key: Some(v1::note_key::Key::NoteId(note)) })
}
