//! `doublet restore`: restores a backup into a new data folder.
//!
//! The command works without a server and never overwrites existing data: the folder of the store must be empty or
//! missing. Keys, certificates and templates are written before the store, so that an interruption leaves no store
//! without its key.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use admin::answer::record;
use admin::data_files::{KeySources, RestorableFiles};
use admin::maintenance::backup_progress;
use admin::request::SecretText;
use admin::{Answer, format_count};
use clap::Args;
use instance::data_folder::{DataError, DataFolder};
use instance::{Instance, blob_key_path, server_name};
use serde_json::json;
use store::backup::{self, KEY_FILES, RestoreDestination};

use super::terminal::{ProgressDisplay, format_as_json as as_json, format_for_people};
use super::{CommandError, GlobalOptions, print, secret_input};

/// Prompt for the passphrase of the keys in a backup.
const PASSPHRASE_LABEL: &str = "Passphrase";

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
    /// Reads the backup, compares every byte with its hash and decrypts the keys in it; restores nothing.
    #[arg(long)]
    pub verify: bool,
    /// File with the passphrase of the keys in its first line, - for standard input. Default: a prompt, if the backup
    /// contains keys.
    #[arg(long, value_name = "FILE|-")]
    pub passphrase_file: Option<PathBuf>,
    /// Leaves out the keys and certificates of the backup.
    #[arg(long, conflicts_with = "passphrase_file")]
    pub without_keys: bool,
    /// Copy of the key of encrypted attachments (keys/blobs.key), if it is not in the backup.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, command: &RestoreCommand) -> Result<(), CommandError> {
    let answer = if command.list {
        list(command)?
    } else if command.verify {
        verify(command)?
    } else {
        restore(global, command)?
    };
    print(&if global.json { as_json(&answer) } else { format_for_people(&answer) });
    Ok(())
}

fn list(command: &RestoreCommand) -> Result<Answer, CommandError> {
    let backups = backup::list(&command.folder).map_err(CommandError::new)?;
    let row = |backup: &backup::Backup| {
        record(vec![
            ("backup", json!(backup.number)),
            ("files", json!(backup.files)),
            ("size_bytes", json!(backup.bytes)),
            ("encrypted", json!(backup.encrypted)),
            ("has_keys", json!(backup.has_keys)),
        ])
    };
    Ok(Answer::list(backups.iter().map(row).collect()))
}

fn verify(command: &RestoreCommand) -> Result<Answer, CommandError> {
    let data_files = open_data_files(command, None)?;
    let mut display = ProgressDisplay::new();
    let checked = backup::verify(&command.folder, Some(data_files.number), &mut |progress| {
        let _: ControlFlow<()> = display.show(&backup_progress("verifying", progress));
    });
    Ok(verification_answer(&checked.map_err(CommandError::new)?, &data_files))
}

/// Returns the answer about a backup that is intact.
fn verification_answer(checked: &backup::Backup, data_files: &RestorableFiles) -> Answer {
    let files = format_count(checked.files, "file", "files");
    let bytes = format_count(checked.bytes, "byte", "bytes");
    let intact = Answer::message(format!("Backup {} is intact: {files}, {bytes}.", checked.number));
    match (data_files.encrypted, data_files.encryption_unknown) {
        (true, _) => intact.with_message("The key matches its encrypted attachments."),
        (false, true) => intact.with_message(
            "An older program made it, and it does not say whether its attachments are encrypted: if they are, keep a copy of their key (keys/blobs.key), which was not compared.",
        ),
        (false, false) => intact,
    }
}

fn restore(global: &GlobalOptions, command: &RestoreCommand) -> Result<Answer, CommandError> {
    let mut config = global.load()?;
    let data = DataFolder::new(&config.server.data);
    let lock = data.lock().map_err(|error| match error {
        DataError::InUse { .. } => {
            CommandError(format!("{error}; stop the server first, or specify a new folder with --data"))
        }
        error => CommandError::new(error),
    })?;
    let known_key = Some(blob_key_path(&config, &data)).filter(|path| path.exists());
    let data_files = open_data_files(command, known_key)?;
    let log_folder = config.store.log_folder.0.as_ref().map(|folder| data.resolve(folder));
    let store = data.store_folder();
    let destination = RestoreDestination { folder: &store, wal_folder: log_folder.as_deref() };
    backup::check_destination(destination).map_err(CommandError::new)?;
    data_files.write(&config, &data).map_err(CommandError::new)?;
    let mut display = ProgressDisplay::new();
    let restored = backup::restore(&command.folder, Some(data_files.number), destination, &mut |progress| {
        let _: ControlFlow<()> = display.show(&backup_progress("restoring", progress));
    });
    let restored = restored.map_err(CommandError::new)?;
    drop(display);
    // A full-text index of the previous store does not match the restored one.
    if data.full_text_folder().exists() {
        std::fs::remove_dir_all(data.full_text_folder())
            .map_err(|error| CommandError(format!("{}: {error}", data.full_text_folder().display())))?;
    }
    let lacks_encryption = data_files.encrypted && !config.blobs.encryption;
    config.blobs.encryption |= data_files.encrypted;
    let config = Arc::new(config);
    // Opening the store proves that it is usable.
    let instance = Instance::open_locked(Arc::clone(&config), data, lock).map_err(CommandError::new)?;
    let databases = instance.databases.database_list().map_err(CommandError::new)?.len();
    let answer = Answer::record(vec![
        ("backup", json!(restored.number)),
        ("files", json!(restored.files)),
        ("size_bytes", json!(restored.bytes)),
        ("databases", json!(databases)),
        ("data_files", json!(data_files.names())),
        ("encrypted", json!(data_files.encrypted)),
        ("data", json!(config.server.data.display().to_string())),
        ("server", json!(server_name(&config))),
    ])
    .with_message("The store was restored. The configuration file is not part of a backup.");
    Ok(match lacks_encryption {
        true => answer.with_message("Its attachments are encrypted: set blobs.encryption = true in the configuration."),
        false => answer,
    })
}

/// Reads the files of the backup beside the store, and decrypts its keys. Without keys in it, `known_key` is used.
fn open_data_files(command: &RestoreCommand, known_key: Option<PathBuf>) -> Result<RestorableFiles, CommandError> {
    let found = backup::data_files(&command.folder, command.backup).map_err(CommandError::new)?;
    let is_locked = found.files.iter().any(|file| file.name == KEY_FILES) && !command.without_keys;
    let passphrase = match &command.passphrase_file {
        Some(path) if is_locked => Some(secret_input::read(path, PASSPHRASE_LABEL)?),
        None if is_locked && std::io::stdin().is_terminal() => Some(secret_input::prompt(PASSPHRASE_LABEL)?),
        _ => None,
    };
    let key_file = command.key_file.clone().or(known_key.filter(|_| !is_locked));
    let sources = KeySources { passphrase: passphrase.map(SecretText), key_file, without_keys: command.without_keys };
    RestorableFiles::open(found, &sources).map_err(CommandError::new)
}

#[cfg(test)]
mod tests {
    use store::backup::{Backup, DataFiles};

    use super::*;

    #[test]
    fn verification_of_an_old_backup_does_not_vouch_for_its_key() {
        let check = |encryption_unknown: bool, expected: &[&str]| {
            let found = DataFiles { number: 1, files: Vec::new(), key_fingerprint: None, encryption_unknown };
            let data_files = RestorableFiles::open(found, &KeySources::default()).expect("it has no key files");
            let checked = Backup { number: 1, files: 2, bytes: 3, copied_bytes: 0, encrypted: false, has_keys: false };
            let messages = verification_answer(&checked, &data_files).messages;
            let begins = messages.iter().zip(expected).all(|(text, begin)| text.starts_with(begin));
            assert!(messages.len() == expected.len() && begins, "{messages:?}");
        };
        check(false, &["Backup 1 is intact: 2 files, 3 bytes."]);
        check(true, &["Backup 1 is intact: 2 files, 3 bytes.", "An older program made it"]);
    }
}
