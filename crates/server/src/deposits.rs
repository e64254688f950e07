//! Mail that comes through the native protocol: the rules of submission in that protocol's words.

use std::sync::Arc;

use rpc::backend::{Deposit, DepositError, Deposited, Depositor};

use crate::core::Core;
use crate::logins::Logins;
use crate::reception::Reception;

/// Takes messages from users.
pub struct Deposits {
    message_bytes_max: u64,
    recipients_max: usize,
}

impl Deposits {
    /// Makes it.
    #[must_use]
    pub fn new(core: &Core, _: &Arc<Logins>, _: &Arc<Reception>) -> Arc<Self> {
        let limits = &core.config.limits;
        let recipients_max = usize::try_from(limits.recipients).unwrap_or(usize::MAX);
        Arc::new(Self { message_bytes_max: limits.message_size.0, recipients_max })
    }
}

impl Depositor for Deposits {
    fn deposit(&self, _: Deposit) -> Result<Deposited, DepositError> {
        Err(DepositError::Unavailable("not built yet".to_owned()))
    }

    fn message_bytes_max(&self) -> u64 {
        self.message_bytes_max
    }

    fn recipients_max(&self) -> usize {
        self.recipients_max
    }
}
