//! `doublet bench`: replaces this process with the load generator, the program `doublet-bench`.
//!
//! The load generator shares nothing with the server (docs/notesbench.md), so it is a program of its own. It is looked
//! for beside this program and then in the folders of `PATH`.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::error::CommandError;

/// The file name of the load generator.
const PROGRAM: &str = "doublet-bench";

/// The words after `bench`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct BenchCommand {
    /// Command of the load generator and its options, which are passed on as they are.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    pub(crate) words: Vec<OsString>,
}

/// Replaces this process with the load generator. Returns only if this failed.
pub fn run(command: &BenchCommand) -> Result<(), CommandError> {
    let own = std::env::current_exe().ok();
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let candidates = candidates(own.as_deref(), std::env::split_paths(&folders));
    Err(start_first(&candidates, &command.words))
}

/// Returns the files that may be the load generator: beside this program, then in other folders.
fn candidates(own: Option<&Path>, folders: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let beside = own.and_then(Path::parent).map(Path::to_owned);
    // An empty folder of PATH would be the current one.
    let folders = beside.into_iter().chain(folders).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(PROGRAM)).collect()
}

/// Replaces this process with the first candidate that exists. Returns the error if there is none or if it cannot be
/// started.
fn start_first(candidates: &[PathBuf], words: &[OsString]) -> CommandError {
    for candidate in candidates {
        let error = Command::new(candidate).args(words).exec();
        if error.kind() != io::ErrorKind::NotFound {
            return CommandError(format!("{}: {error}", candidate.display()));
        }
    }
    CommandError(format!(
        "{PROGRAM} is neither beside this program nor in PATH; `cargo build --release --bin {PROGRAM}` builds it \
         (docs/notesbench.md)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_the_program_comes_first() {
        let folders = ["/usr/bin", "", "bin"].map(PathBuf::from);
        let found = candidates(Some(Path::new("/opt/doublet")), folders.into_iter());
        assert_eq!(found, ["/opt/doublet-bench", "/usr/bin/doublet-bench"].map(PathBuf::from));
    }

    #[test]
    fn missing_and_broken_programs_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(PROGRAM);
        let refusal = || start_first(std::slice::from_ref(&path), &[]).0;
        assert!(refusal().contains("cargo build --release --bin doublet-bench"), "{}", refusal());
        std::fs::write(&path, "").expect("the file can be written");
        assert!(refusal().ends_with("doublet-bench: Permission denied (os error 13)"), "{}", refusal());
    }
}
