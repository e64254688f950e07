//! `doublet server join`: makes the server of this data folder a member of the domain of another one.

use admin::request::JoinRequest;

use super::terminal::{ProgressDisplay, format_as_json, format_for_people};
use super::{CommandError, GlobalOptions, ServerFunctions, print};
use crate::log;

/// Runs the command.
pub fn run(server: &ServerFunctions, global: &GlobalOptions, request: &JoinRequest) -> Result<(), CommandError> {
    let config = global.load()?;
    log::start_quiet(&config.log).map_err(CommandError)?;
    let mut display = ProgressDisplay::new();
    let answer = (server.join)(config, request, &mut |progress| display.show(&progress)).map_err(CommandError)?;
    drop(display);
    print(&if global.json { format_as_json(&answer) } else { format_for_people(&answer) });
    Ok(())
}
