//! Requests for copies of databases.

use clap::Args;
use serde::{Deserialize, Serialize};

/// Source, destinations and kind of copies of a database.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct CopyRequest {
    /// Path of the database that is copied.
    #[arg(value_name = "SRC")]
    pub source: String,
    /// Paths of the copies. A mail file of a person becomes a copy that belongs to this person. A database that exists
    /// must be empty.
    #[arg(value_name = "DST", required = true)]
    pub destinations: Vec<String>,
    /// Makes replicas: with the same replica id, UNIDs and history of deletions.
    #[arg(long, conflicts_with = "title")]
    #[serde(default)]
    pub replica: bool,
    /// Skips destinations that are copies of the source already.
    #[arg(long)]
    #[serde(default)]
    pub resume: bool,
    /// Title of the copies. Default: that of the source, or the name of the owner of a mail file.
    #[arg(long, value_name = "TEXT")]
    #[serde(default)]
    pub title: Option<String>,
}
