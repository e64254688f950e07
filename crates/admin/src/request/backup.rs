//! The request of `doublet backup`.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::SecretText;

/// A request for a backup.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct BackupRequest {
    /// Folder for backups; created if missing. It may hold any number of backups and cannot be in the data folder.
    pub folder: PathBuf,
    /// Removes all but the newest COUNT backups afterwards, with the data that only they needed. Default: all are kept.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: Option<u32>,
    /// File with a passphrase in its first line, - for standard input. Keys and certificates (keys/ and tls/ in the
    /// data folder) are put into the backup, encrypted with it.
    #[arg(long, value_name = "FILE|-")]
    #[serde(skip)]
    pub passphrase_file: Option<PathBuf>,
    /// The passphrase.
    #[arg(skip)]
    #[serde(default)]
    pub passphrase: Option<SecretText>,
    /// Leaves keys and certificates out, although attachments are encrypted and cannot be read without their key.
    #[arg(long, conflicts_with = "passphrase_file")]
    #[serde(default)]
    pub without_keys: bool,
}
