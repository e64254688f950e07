//! `doublet restore`: restores a backup into a new data folder.
//!
//! The command works without a server and never overwrites existing data: the folder of the store must be empty or
//! missing.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use store::backup::{self, RestoreDestination};

use super::terminal::{ProgressDisplay, format_as_json as as_json, format_for_people};
use super::{Failure, GlobalOptions, print};
use crate::admin::answer::record;
use crate::admin::maintenance::backup_progress;
use crate::admin::{Answer, counted};
use crate::core::{Core, server_name};
use crate::data::DataFolder;

/// Options of a restore.
#[derive(Debug, Args)]
pub struct RestoreCommand {
    /// Folder with the backups.
    pub folder: PathBuf,
    /// Number of the backup. Default: the latest one.
    #[arg(long, value_name = "NUMBER")]
    pub backup: Option<u32>,
    /// Lists the backups and restores nothing.
    #[arg(long, conflicts_with = "verify")]
    pub list: bool,
    /// Reads the backup and compares every byte with its hash; restores nothing.
    #[arg(long)]
    pub verify: bool,
}

/// Runs the command.
pub fn run(place: &GlobalOptions, command: &RestoreCommand) -> Result<(), Failure> {
    let answer = if command.list {
        list(command)?
    } else if command.verify {
        verify(command)?
    } else {
        restore(place, command)?
    };
    print(&if place.json { as_json(&answer) } else { format_for_people(&answer) });
    Ok(())
}

fn list(command: &RestoreCommand) -> Result<Answer, Failure> {
    let backups = backup::list(&command.folder).map_err(Failure::of)?;
    let row = |backup: &backup::Backup| {
        record(vec![
            ("backup", json!(backup.number)),
            ("files", json!(backup.files)),
            ("size_bytes", json!(backup.bytes)),
        ])
    };
    Ok(Answer::list(backups.iter().map(row).collect()))
}

fn verify(command: &RestoreCommand) -> Result<Answer, Failure> {
    let mut meter = ProgressDisplay::new();
    let checked = backup::verify(&command.folder, command.backup, &mut |progress| {
        let _: ControlFlow<()> = meter.step(&backup_progress("verifying", progress));
    });
    let checked = checked.map_err(Failure::of)?;
    let files = counted(checked.files, "file", "files");
    let bytes = counted(checked.bytes, "byte", "bytes");
    Ok(Answer::message(format!("Backup {} is intact: {files}, {bytes}.", checked.number)))
}

fn restore(place: &GlobalOptions, command: &RestoreCommand) -> Result<Answer, Failure> {
    let config = Arc::new(place.load()?);
    let data = DataFolder::new(&config.server.data);
    let lock = data
        .lock()
        .map_err(|error| Failure(format!("{error}; stop the server first, or specify a new folder with --data")))?;
    let log_folder = config.store.log_folder.0.as_ref().map(|folder| data.resolve(folder));
    let store = data.store();
    let mut meter = ProgressDisplay::new();
    let destination = RestoreDestination { folder: &store, wal_folder: log_folder.as_deref() };
    let restored = backup::restore(&command.folder, command.backup, destination, &mut |progress| {
        let _: ControlFlow<()> = meter.step(&backup_progress("restoring", progress));
    });
    let restored = restored.map_err(Failure::of)?;
    drop(meter);
    // A full-text index of the previous store does not match the restored one.
    if data.full_text().exists() {
        std::fs::remove_dir_all(data.full_text())
            .map_err(|error| Failure(format!("{}: {error}", data.full_text().display())))?;
    }
    // Opening the store proves that it is usable.
    let core = Core::open_locked(Arc::clone(&config), data, lock).map_err(Failure::of)?;
    let databases = core.notes.database_list().map_err(Failure::of)?.len();
    Ok(Answer::record(vec![
        ("backup", json!(restored.number)),
        ("files", json!(restored.files)),
        ("size_bytes", json!(restored.bytes)),
        ("databases", json!(databases)),
        ("data", json!(config.server.data.display().to_string())),
        ("server", json!(server_name(&config))),
    ])
    .with_message(
        "The store was restored. Keys and certificates are not part of a backup: copy `keys` and `tls` yourself.",
    ))
}
