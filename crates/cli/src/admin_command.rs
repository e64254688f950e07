//! Administration commands: executed in this process if no server runs on the data folder, otherwise through the
//! server's control socket.
//!
//! The lock of the data folder decides which of the two applies. The commands do the same either way, except for a few
//! that need a running server or a stopped one (`doublet tls`, `doublet blobs --rebuild`, deleting the directory or the
//! queue). These fail with an explanation.

use std::sync::Arc;

use admin::control::client;
use admin::request::{
    BackupRequest, DbRequest, DesignRequest, DomainRequest, FixupRequest, GroupRequest, PasswordOptions, SecretText,
    ServerRequest, UserRequest,
};
use admin::{self, Answer, ProgressCallback, Request};
use config::Config;
use instance::data_folder::{DataError, DataFolder, DataLock};
use instance::{Instance, StoreServices};

use super::terminal::{ProgressDisplay, format_as_json, format_for_people};
use super::{CommandError, GlobalOptions, export_command, print, secret_input};

/// Executes a request and prints its answer.
pub fn run(global: &GlobalOptions, mut request: Request) -> Result<(), CommandError> {
    if let Request::User(UserRequest::Add { batch: Some(file), .. }) = &request {
        return super::batch::run(global, file);
    }
    read_secrets(&mut request)?;
    make_paths_absolute(&mut request)?;
    let config = Arc::new(global.load()?);
    let mut display = ProgressDisplay::new();
    let mut report = |progress| display.show(&progress);
    let answer = match request {
        Request::Db(DbRequest::Export(export)) if export_command::is_stdout(&export) => {
            return export_command::run(&config, export, &mut report);
        }
        Request::Fixup(request) => fixup(&config, request, &mut report)?,
        request => AdminTarget::open(&config, may_create_data(&request))?.execute(request, &mut report)?,
    };
    drop(display);
    print(&if global.json { format_as_json(&answer) } else { format_for_people(&answer) });
    answer.failure.map_or(Ok(()), |failure| Err(CommandError(failure)))
}

/// Target of administration requests: the process that has the data folder open.
pub(super) enum AdminTarget {
    /// This process.
    Local(Box<Instance>),
    /// A running server, reached through its control socket.
    Server(DataFolder),
}

impl AdminTarget {
    /// Opens the data folder, unless a server uses it. `may_begin` allows creating a new data folder.
    pub(super) fn open(config: &Arc<Config>, may_begin: bool) -> Result<Self, CommandError> {
        match lock_data_folder(config, may_begin)? {
            (data, Some(lock)) => {
                let instance = Instance::open_locked(Arc::clone(config), data, lock).map_err(CommandError::new)?;
                Ok(Self::Local(Box::new(instance)))
            }
            (data, None) => Ok(Self::Server(data)),
        }
    }

    /// Executes a request and returns its answer.
    pub(super) fn execute(&self, request: Request, report: &mut ProgressCallback<'_>) -> Result<Answer, CommandError> {
        match self {
            Self::Local(instance) => admin::execute(instance, request, report).map_err(CommandError::new),
            Self::Server(data) => {
                reject_stdin_requests(&request)?;
                client::call(&data.control_socket(), request, report).map_err(CommandError)
            }
        }
    }
}

/// Executes a fixup: through the running server, or else in this process. In this process only the store is opened,
/// because everything above it may be damaged.
fn fixup(
    config: &Arc<Config>,
    request: FixupRequest,
    report: &mut ProgressCallback<'_>,
) -> Result<Answer, CommandError> {
    match lock_data_folder(config, false)? {
        (data, Some(lock)) => {
            let services = StoreServices::open_for_fixup(Arc::clone(config), data, lock).map_err(CommandError::new)?;
            admin::fixup::execute_offline(services, &request, report).map_err(CommandError::new)
        }
        (data, None) => client::call(&data.control_socket(), Request::Fixup(request), report).map_err(CommandError),
    }
}

/// Locks the data folder for this process, unless a server uses it. The lock is `None` if a server runs. `may_begin`
/// allows creating a new data folder.
fn lock_data_folder(config: &Config, may_begin: bool) -> Result<(DataFolder, Option<DataLock>), CommandError> {
    let data = DataFolder::new(&config.server.data);
    if !data.store_folder().exists() && !may_begin {
        return Err(CommandError(format!(
            "there is no data in {}; check --data. `doublet serve` or `doublet domain add` creates a new data folder",
            data.path().display()
        )));
    }
    match data.lock() {
        Ok(lock) => {
            crate::log::start_quiet(&config.log).map_err(CommandError)?;
            Ok((data, Some(lock)))
        }
        Err(DataError::InUse { .. }) => Ok((data, None)),
        Err(error) => Err(CommandError(format!(
            "{error}\nCheck that --data is the folder of the server and that you have permission to open it."
        ))),
    }
}

/// Returns `true` if a request may create a new data folder. Other requests expect an existing one.
fn may_create_data(request: &Request) -> bool {
    match request {
        Request::Domain(request) => matches!(request, DomainRequest::Add { .. }),
        Request::User(request) => matches!(request, UserRequest::Add { .. }),
        Request::Group(request) => matches!(request, GroupRequest::Add { .. }),
        Request::Db(request) => matches!(request, DbRequest::Create { .. }),
        _ => false,
    }
}

/// Reads the password or passphrase if the request asks for it.
fn read_secrets(request: &mut Request) -> Result<(), CommandError> {
    let argument = match request {
        Request::User(UserRequest::Add { password, .. }) => password,
        Request::User(UserRequest::Set(change)) => &mut change.password,
        Request::Backup(BackupRequest { passphrase_file: Some(file), passphrase, .. }) => {
            *passphrase = Some(SecretText(secret_input::read_new(file, "Passphrase")?));
            return Ok(());
        }
        _ => return Ok(()),
    };
    if argument.password_stdin {
        let password = secret_input::first_line()?;
        if password.is_empty() {
            return Err(CommandError("no password on standard input: write it as the first line".to_owned()));
        }
        *argument = PasswordOptions { password_stdin: true, password: Some(SecretText(password)) };
    }
    Ok(())
}

/// Rejects requests that read standard input, because a server cannot read the input of this command.
fn reject_stdin_requests(request: &Request) -> Result<(), CommandError> {
    match request {
        Request::Db(DbRequest::Import(import)) if import.file == std::path::Path::new("-") => Err(CommandError(
            "a server is running on this data folder and cannot read the standard input of this command: write the table to a file and import that"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Resolves paths against the working directory of the command, because the server may run in another one.
fn make_paths_absolute(request: &mut Request) -> Result<(), CommandError> {
    let paths: Vec<&mut std::path::PathBuf> = match request {
        Request::Backup(request) => vec![&mut request.folder],
        Request::Import(import) => import.files.iter_mut().collect(),
        Request::Export(export) => vec![&mut export.to],
        Request::Design(DesignRequest::Add { file }) => vec![file],
        Request::Server(ServerRequest::Register { output, .. }) => vec![output],
        Request::Db(DbRequest::Import(import)) if import.file != std::path::Path::new("-") => vec![&mut import.file],
        Request::Db(DbRequest::Export(export)) if !export_command::is_stdout(export) => vec![&mut export.file],
        _ => Vec::new(),
    };
    for path in paths {
        *path = std::path::absolute(&*path).map_err(|error| CommandError(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}
