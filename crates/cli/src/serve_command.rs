//! `doublet serve`: runs the server.

use std::sync::Arc;

use instance::Instance;

use super::{CommandError, GlobalOptions, ServerFunctions};
use crate::log;

/// Runs the server until it is stopped.
pub fn run(server: &ServerFunctions, global: &GlobalOptions) -> Result<(), CommandError> {
    let mut config = config::load(&global.sources()).map_err(CommandError::new)?;
    log::start(&config.log).map_err(CommandError)?;
    log::configuration_warnings(&config);
    (server.prepare)(&mut config).map_err(CommandError)?;
    let instance = Instance::open(Arc::new(config)).map_err(CommandError::new)?;
    (server.run)(instance, &mut |_| {}).map_err(CommandError)
}
