//! The settings of the native door.

use std::fmt;
use std::sync::Arc;

use client::ConnectOptions;

use super::connections::Connections;
use crate::door::journal::Journal;
use crate::plan::Plan;
use crate::population::people::UserNames;
use crate::target::system_random::SystemRandom;

/// What the doors of all users share.
pub struct NativeSettings {
    /// The plan, which says where each user works.
    pub plan: Arc<Plan>,
    /// The address of the server and the certificates that are trusted.
    pub options: ConnectOptions,
    /// The addresses of the users.
    pub names: UserNames,
    /// The password of all users.
    pub password: String,
    /// The factor by which messages and documents are made smaller.
    pub size_scale: f64,
    /// The connections of the users.
    pub connections: Connections,
    /// For the logins.
    pub random: SystemRandom,
    /// Has the changes of all users, if it is kept.
    pub journal: Option<Arc<Journal>>,
}

/// Shows no password.
impl fmt::Debug for NativeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeSettings").field("options", &self.options).field("names", &self.names).finish()
    }
}
