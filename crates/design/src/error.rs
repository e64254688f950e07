//! The error of templates and of the designs that are made from them.

use std::path::{Path, PathBuf};

/// The error returned if a template is not valid or cannot be applied. For the operator.
#[derive(Debug, thiserror::Error)]
pub enum DesignError {
    /// The database refused the change.
    #[error(transparent)]
    Notes(#[from] notes::Error),
    /// The change could not be made durable.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = .path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The template is not valid, or there is none. The text gives the reason and what to do next.
    #[error("{0}")]
    Refused(String),
}

impl DesignError {
    /// Returns a function that converts an I/O error of a file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
