//! Reading of passwords and passphrases: from a file, from standard input or from a prompt, never from arguments.
//!
//! A secret is the first line of its source. A terminal does not show it. `/dev/fd/N` names an inherited descriptor.

use std::io::{BufRead, IsTerminal, Read};
use std::path::Path;

use instance::data_folder::read_limited;

use super::CommandError;
use crate::limits::PASSWORD_LINE_BYTES_MAX;

/// Reads a secret from a file. `-` is standard input; on a terminal it prompts with `label`.
pub fn read(path: &Path, label: &str) -> Result<String, CommandError> {
    if path.as_os_str() != "-" {
        let bytes = read_limited(path, PASSWORD_LINE_BYTES_MAX).map_err(CommandError::new)?;
        let text = String::from_utf8(bytes).map_err(|_| CommandError(format!("{}: not UTF-8", path.display())))?;
        return Ok(text.lines().next().unwrap_or_default().to_owned());
    }
    if std::io::stdin().is_terminal() { prompt(label) } else { first_line() }
}

/// Reads a new secret like [`read`]. A prompt asks for it twice, because a typing error could not be noticed later.
pub fn read_new(path: &Path, label: &str) -> Result<String, CommandError> {
    let secret = read(path, label)?;
    let is_typed = path.as_os_str() == "-" && std::io::stdin().is_terminal();
    if is_typed && prompt("Once more")? != secret {
        return Err(CommandError("the two inputs differ; run the command again".to_owned()));
    }
    Ok(secret)
}

/// Reads the first line of standard input.
pub fn first_line() -> Result<String, CommandError> {
    let mut line = String::new();
    let mut input = std::io::BufReader::new(std::io::stdin().lock().take(PASSWORD_LINE_BYTES_MAX));
    input.read_line(&mut line).map_err(|error| CommandError(format!("cannot read standard input: {error}")))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Prompts on the terminal, without echo. Standard input must be a terminal.
pub fn prompt(label: &str) -> Result<String, CommandError> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let input = std::io::stdin();
    eprint!("{label}: ");
    let shown = tcgetattr(&input).map_err(CommandError::new)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&input, OptionalActions::Flush, &hidden).map_err(CommandError::new)?;
    let line = first_line();
    let _ = tcsetattr(&input, OptionalActions::Flush, &shown);
    eprintln!();
    line
}
