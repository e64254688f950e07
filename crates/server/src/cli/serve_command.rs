//! `doublet serve`: runs the server.

use std::sync::Arc;

use super::{Failure, GlobalOptions};
use crate::{log, serve};

/// Runs the server until it is stopped.
pub fn run(place: &GlobalOptions) -> Result<(), Failure> {
    let config = Arc::new(place.load()?);
    log::start(&config.log).map_err(Failure)?;
    serve::run(config).map_err(Failure::of)
}
