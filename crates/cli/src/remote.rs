//! Commands that connect to a local or remote server over the native protocol: databases, notes, views, folders,
//! search.
//!
//! With `--server` the commands connect to that server. Otherwise they connect to the server that runs on the data
//! folder; its address is in `listeners.json`, and its own certificate is trusted. They run as the user named by
//! `--user`, with that user's rights. With `--local` they work on local replicas, without a connection.

use std::future::Future;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use admin::Answer;
use admin::request::SearchRequest;
use admin::servers::with_port;
use clap::Subcommand;
use client::v1::CreateDatabaseRequest;
use client::{Client, Code, ConnectOptions, Trust};
use config::Config;
use instance::certificate::CertificateFiles;
use instance::data_folder::{DataFolder, read_limited};
use instance::limits::FILE_BYTES_MAX;
use instance::server_name;
use instance::system::SystemRandom;
use serde_json::Value;

use super::terminal::{format_as_json, format_for_people};
use super::{CommandError, ExitStatus, GlobalOptions, ServerFunctions, print, secret_input};
use crate::log;
use crate::remote_options::RemoteOptions;

mod database;
mod design;
mod entries;
mod folder;
mod item;
mod media_type;
mod note;
mod note_list;
mod profile;
mod revision;
mod search;
mod view;

pub use folder::FolderCommand;
pub use note::NoteCommand;
pub use view::ViewCommand;

/// Commands that always connect to a server.
#[derive(Debug, Clone, Subcommand)]
pub enum RemoteCommand {
    /// Lists, shows, creates, changes and deletes notes and their attachments.
    #[command(subcommand)]
    Note(NoteCommand),
    /// Lists views and folders, shows their entries, and creates, changes and deletes views.
    #[command(subcommand)]
    View(ViewCommand),
    /// Lists, creates, renames and deletes folders, and adds and removes notes.
    #[command(subcommand)]
    Folder(FolderCommand),
}

/// Description of the time limit of a call in messages.
const CALL_TIME: &str = "the server's time limit for a call (native.call_timeout, by default one minute)";

/// Prompt for the password.
const PASSWORD_LABEL: &str = "Password";

/// Output of a command.
struct CommandOutput {
    answer: Answer,
    /// The data shown to people, if it differs from the data of the answer.
    people: Option<Value>,
    /// Description of what the answer lacks because the index of a view is behind.
    late: Option<String>,
}

impl From<Answer> for CommandOutput {
    fn from(answer: Answer) -> Self {
        Self { answer, people: None, late: None }
    }
}

/// Runs a command and prints its answer.
pub fn run(
    server: &ServerFunctions,
    global: &GlobalOptions,
    command: RemoteCommand,
) -> Result<ExitStatus, CommandError> {
    match command {
        RemoteCommand::Note(command) => run_command(server, global, |client| note::run(client, command)),
        RemoteCommand::View(command) if command.reads_input() && global.remote.reads_input() => Err(CommandError(
            "password and view cannot both come from standard input: name a file for one of them".to_owned(),
        )),
        RemoteCommand::View(command) => run_command(server, global, |client| view::run(client, command)),
        RemoteCommand::Folder(command) => run_command(server, global, |client| folder::run(client, command)),
    }
}

/// Lists the databases that the caller has access to.
pub fn list_databases(server: &ServerFunctions, global: &GlobalOptions) -> Result<ExitStatus, CommandError> {
    run_command(server, global, database::list)
}

/// Runs a full-text query on a database.
pub fn search(
    server: &ServerFunctions,
    global: &GlobalOptions,
    request: SearchRequest,
) -> Result<ExitStatus, CommandError> {
    run_command(server, global, |client| search::search(client, request))
}

/// Creates a database with the caller as its manager.
pub fn create_database(
    server: &ServerFunctions,
    global: &GlobalOptions,
    path: String,
    title: Option<String>,
    template: Option<String>,
) -> Result<ExitStatus, CommandError> {
    let title = title.unwrap_or_default();
    let template = template.unwrap_or_default();
    run_command(server, global, |client| database::create(client, CreateDatabaseRequest { path, title, template }))
}

/// Opens a database and shows its properties.
pub fn open_database(server: &ServerFunctions, global: &GlobalOptions, path: &str) -> Result<ExitStatus, CommandError> {
    let path = path.to_owned();
    run_command(server, global, |client| database::open(client, path))
}

/// Connects, logs in, runs a command and prints its result.
fn run_command<F, T>(
    server: &ServerFunctions,
    global: &GlobalOptions,
    work: impl FnOnce(Client) -> F,
) -> Result<ExitStatus, CommandError>
where
    F: Future<Output = Result<T, CommandError>>,
    T: Into<CommandOutput>,
{
    if let Some(folder) = &global.remote.local {
        return run_locally(server, global, folder, work);
    }
    let user = global.remote.user()?;
    let config = global.load()?;
    let options = connect_options(global, &config)?;
    let password = read_password(&global.remote)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::new)?;
    let output = runtime.block_on(async {
        let client = Client::connect(&options).await.map_err(|error| connect_error(error, &global.remote))?;
        client.log_in(&user, &password, &SystemRandom).await.map_err(CommandError::new)?;
        let output = work(client.clone()).await;
        // Without a logout the session would end later, by its timeout.
        let _ = client.logout().await;
        output
    })?;
    print_output(output.into(), global.json)
}

/// Runs a command on local replicas and prints its result.
fn run_locally<F, T>(
    server: &ServerFunctions,
    global: &GlobalOptions,
    folder: &Path,
    work: impl FnOnce(Client) -> F,
) -> Result<ExitStatus, CommandError>
where
    F: Future<Output = Result<T, CommandError>>,
    T: Into<CommandOutput>,
{
    if let Some(option) = global.remote.given_options().find(|option| *option != "--local") {
        return Err(CommandError(format!("{option} cannot be used with --local: this command needs no connection")));
    }
    let config = global.load_local(folder)?;
    log::start_quiet(&config.log).map_err(CommandError)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::new)?;
    let output = runtime.block_on(async {
        let mut service = (server.open_local)(config).map_err(CommandError)?;
        let connected = service.connect().await;
        let output = match connected {
            Ok(client) => work(client).await,
            Err(reason) => Err(CommandError(reason)),
        };
        service.end().await;
        output
    })?;
    print_output(output.into(), global.json)
}

/// Prints the output of a command.
fn print_output(output: CommandOutput, is_json: bool) -> Result<ExitStatus, CommandError> {
    let CommandOutput { mut answer, people, late } = output;
    if is_json {
        print(&format_as_json(&answer));
    } else {
        answer.data = people.unwrap_or(answer.data);
        print(&format_for_people(&answer));
    }
    if let Some(failure) = answer.failure {
        return Err(CommandError(failure));
    }
    let Some(late) = late else { return Ok(ExitStatus::Done) };
    eprintln!("doublet: {late}");
    Ok(ExitStatus::Stale)
}

fn connect_options(global: &GlobalOptions, config: &Config) -> Result<ConnectOptions, CommandError> {
    Ok(ConnectOptions { compression: global.remote.compress, ..address_and_trust(global, config)? })
}

fn address_and_trust(global: &GlobalOptions, config: &Config) -> Result<ConnectOptions, CommandError> {
    let read = |path: &PathBuf| read_limited(path, FILE_BYTES_MAX).map_err(CommandError::new);
    let data = DataFolder::new(&config.server.data);
    let Some(server) = &global.remote.server else {
        let files = CertificateFiles::from_config(config, &data, &server_name(config));
        let trust = match &global.remote.certificate {
            Some(path) => read(path)?,
            None => read(&files.chain_file().to_owned())?,
        };
        return Ok(ConnectOptions::new(&local_address(&data)?, Trust::pinned(&trust).map_err(CommandError::new)?));
    };
    options_for(global, config, server)
}

/// Returns the options for a connection to a server: its own certificate or the roots are trusted.
pub fn options_for(global: &GlobalOptions, config: &Config, server: &str) -> Result<ConnectOptions, CommandError> {
    let read = |path: &PathBuf| read_limited(path, FILE_BYTES_MAX).map_err(CommandError::new);
    let trust = match &global.remote.certificate {
        Some(path) => Trust::pinned(&read(path)?),
        None => Trust::roots(&read(&config.router.roots)?),
    };
    let trust = trust.map_err(CommandError::new)?;
    let address = with_port(server).map_err(CommandError::new)?;
    Ok(ConnectOptions { compression: global.remote.compress, ..ConnectOptions::new(&address, trust) })
}

/// Returns the address of the server that runs on the data folder.
fn local_address(data: &DataFolder) -> Result<String, CommandError> {
    let none = || {
        CommandError(format!(
            "no server with a native listener runs on {}; start one with `doublet serve`, or specify another server with --server",
            data.path().display()
        ))
    };
    let listeners = read_limited(&data.listeners_file(), FILE_BYTES_MAX).map_err(|_| none())?;
    let listeners: serde_json::Value = serde_json::from_slice(&listeners).map_err(|_| none())?;
    let address = listeners["native"][0].as_str().ok_or_else(none)?;
    Ok(address.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:"))
}

/// Reads the password from a file, the environment or the terminal.
pub fn read_password(remote: &RemoteOptions) -> Result<String, CommandError> {
    let password = match (&remote.password_file, std::env::var("DOUBLET_PASSWORD")) {
        (Some(path), _) => secret_input::read(path, PASSWORD_LABEL)?,
        (None, Ok(password)) => password,
        (None, Err(_)) if std::io::stdin().is_terminal() => secret_input::prompt(PASSWORD_LABEL)?,
        (None, Err(_)) => {
            let reason = "no password; specify a file with --password-file, or set DOUBLET_PASSWORD";
            return Err(CommandError(reason.to_owned()));
        }
    };
    if password.is_empty() { Err(CommandError("the password is empty".to_owned())) } else { Ok(password) }
}

/// Converts a connection error into a command error, with advice if the server's certificate is not signed by a trusted
/// root.
fn connect_error(error: client::Error, remote: &RemoteOptions) -> CommandError {
    match error {
        client::Error::Tls { .. } if remote.certificate.is_none() && remote.server.is_some() => CommandError(format!(
            "{error}; if the server's certificate is not signed by a trusted authority, give a copy of it (tls/certificate.pem in the server's data folder) with --certificate"
        )),
        error => CommandError::new(error),
    }
}

/// Converts the status of a failed call into a command error.
fn call_error(status: client::Status) -> CommandError {
    let message = status.message();
    CommandError(match (client::reason(&status).as_str(), status.code()) {
        ("", Code::DeadlineExceeded) => {
            format!(
                "the call took longer than {CALL_TIME}; request less data, or try again when the server is less busy"
            )
        }
        ("", Code::Unavailable | Code::Cancelled) => format!("the connection to the server was lost: {message}"),
        ("", code) => format!("the call failed: {message} ({code:?})"),
        _ => message.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_failures_have_readable_messages() {
        let check = |code, expected: &str| {
            let text = call_error(client::Status::new(code, "what the library says")).to_string();
            assert!(text.contains(expected) && !text.contains("code: '"), "{text}");
        };
        check(Code::DeadlineExceeded, "longer than the server's time limit for a call");
        check(Code::Unavailable, "the connection to the server was lost: what the library says");
        check(Code::Internal, "what the library says (Internal)");
    }

    #[test]
    fn default_port_is_added() {
        let check = |server: &str, expected: &str| assert_eq!(with_port(server).ok().as_deref(), Some(expected));
        check("hub.acme.example", "hub.acme.example:1352");
        check("hub.acme.example:1", "hub.acme.example:1");
        check("192.0.2.1", "192.0.2.1:1352");
        check("2001:db8::1", "[2001:db8::1]:1352");
        check("[2001:db8::1]", "[2001:db8::1]:1352");
        check("[2001:db8::1]:99", "[2001:db8::1]:99");
    }
}
