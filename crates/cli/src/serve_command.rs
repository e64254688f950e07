//! `doublet serve`: runs the server.

use std::sync::Arc;

use instance::Instance;

use super::{Failure, GlobalOptions, Server};
use crate::log;

/// Runs the server until it is stopped.
pub fn run(server: &Server, place: &GlobalOptions) -> Result<(), Failure> {
    let config = Arc::new(config::load(&place.origin()).map_err(Failure::of)?);
    log::start(&config.log).map_err(Failure)?;
    log::configuration_warnings(&config);
    let instance = Instance::open(config).map_err(Failure::of)?;
    (server.run)(instance, &mut |_| {}).map_err(Failure)
}
