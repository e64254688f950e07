//! The connections of the users: one for each user, or one for several users, who have a session each.
//!
//! A connection that several users share is opened by the first of them that needs it, and again by the first one that
//! finds it closed. The others wait meanwhile.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use base::sync::Mutex;
use client::{Client, ConnectOptions};

/// Maximum number of users of a connection.
pub const USERS_PER_CONNECTION_MAX: u64 = 1_000;

/// A connection that several users share, or `None` before it is opened.
type SharedClient = Arc<tokio::sync::Mutex<Option<Client>>>;

/// The connections of a run.
#[derive(Debug)]
pub struct Connections {
    users_per_connection: u64,
    /// The local addresses, which are used in turn. Without any, the system chooses.
    sources: Vec<IpAddr>,
    /// The connections that are shared, by number. They are closed when this is dropped.
    shared: Mutex<HashMap<u64, SharedClient>>,
}

impl Connections {
    /// Creates the list, without any connection.
    pub fn new(users_per_connection: u64, sources: &[IpAddr]) -> Self {
        Self { users_per_connection: users_per_connection.max(1), sources: sources.to_vec(), shared: Mutex::default() }
    }

    /// Returns a client for the user, without a session.
    pub(super) async fn open(&self, options: &ConnectOptions, user: u64) -> Result<Client, client::Error> {
        let number = user.saturating_sub(1) / self.users_per_connection;
        let options = ConnectOptions { source: self.source(number), ..options.clone() };
        if self.users_per_connection == 1 {
            return Client::connect(&options).await;
        }
        let shared = Arc::clone(self.shared.lock().entry(number).or_default());
        let mut shared = shared.lock().await;
        let open = match shared.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => Client::connect(&options).await?,
        };
        let client = open.with_another_session();
        *shared = Some(open);
        Ok(client)
    }

    /// Returns the local address of a connection.
    fn source(&self, number: u64) -> Option<IpAddr> {
        let count = self.sources.len() as u64;
        self.sources.get(usize::try_from(number.checked_rem(count)?).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_used_in_turn() {
        let sources = ["127.0.1.1", "127.0.1.2"].map(|address| address.parse().expect("an address"));
        let connections = Connections::new(1, &sources);
        let of = |number| connections.source(number).expect("an address");
        assert_eq!([0, 1, 2].map(of), [sources[0], sources[1], sources[0]]);
        assert_eq!(Connections::new(1, &[]).source(5), None);
    }
}
