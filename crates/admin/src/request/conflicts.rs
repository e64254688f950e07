//! `doublet db conflicts`: its command line.

use clap::Subcommand;
use serde::{Deserialize, Serialize};

/// Requests about conflict documents.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum ConflictsRequest {
    /// Lists conflict documents, with the document that each has lost against and the items in which they differ.
    List {
        /// Maximum number of documents listed.
        #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
        first: u32,
    },
    /// Deletes conflict documents. The documents that they have lost against are not changed.
    Remove {
        /// Universal ids of the conflict documents, as in the list.
        #[arg(value_name = "UNID", required = true)]
        conflicts: Vec<String>,
    },
}
