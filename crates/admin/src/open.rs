//! Opening a database for administration.

use instance::Instance;
use notes::{Access, level};

use crate::AdminError;
use crate::people::open_as_manager;

pub(crate) fn open(instance: &Instance, path: &str) -> Result<Access<level::Manager>, AdminError> {
    match open_as_manager(instance, path) {
        Err(AdminError::Notes(notes::Error::NotFound { .. })) => Err(AdminError::no_such("db", path)),
        other => other,
    }
}
