//! `doublet --local DIR replicate`: replication of local replicas with a server.

use std::path::Path;

use admin::request::ReplicateRequest;

use super::terminal::{ProgressDisplay, format_as_json, format_for_people};
use super::{CommandError, GlobalOptions, ServerFunctions, print, remote};
use crate::log;
use crate::server_functions::LocalReplication;

/// Runs the replication of the local replicas of a folder with a server.
pub fn replicate(
    server: &ServerFunctions,
    global: &GlobalOptions,
    folder: &Path,
    request: ReplicateRequest,
) -> Result<(), CommandError> {
    let config = global.load_local(folder)?;
    log::start_quiet(&config.log).map_err(CommandError)?;
    let user = global.remote.user()?;
    let options = remote::options_for(global, &config, &request.partner)?;
    let password = remote::read_password(&global.remote)?;
    let parameters = LocalReplication { options, user, password, request };
    let mut display = ProgressDisplay::new();
    let outcome = (server.replicate_local)(config, parameters, &mut |progress| display.show(&progress));
    drop(display);
    let answer = outcome.map_err(CommandError)?;
    print(&if global.json { format_as_json(&answer) } else { format_for_people(&answer) });
    match answer.failure {
        Some(failure) => Err(CommandError(failure)),
        None => Ok(()),
    }
}
