//! `doublet serve`: runs the server.

use std::sync::Arc;

use instance::Instance;

use super::{CommandError, GlobalOptions, Server};
use crate::log;

/// Runs the server until it is stopped.
pub fn run(server: &Server, global: &GlobalOptions) -> Result<(), CommandError> {
    let config = Arc::new(config::load(&global.origin()).map_err(CommandError::of)?);
    log::start(&config.log).map_err(CommandError)?;
    log::configuration_warnings(&config);
    let instance = Instance::open(config).map_err(CommandError::of)?;
    (server.run)(instance, &mut |_| {}).map_err(CommandError)
}
