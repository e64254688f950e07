//! The servers of a run, and which of them is that of a user.
//!
//! User *k* of *N* servers has server (*k* - 1) mod *N* + 1. So the users of each level are divided evenly, and a mail
//! file and its copies are on one server if the number of masters is a multiple of *N*.

use std::ops::{Deref, DerefMut};

/// Maximum number of servers of a run.
pub const SERVERS_MAX: u64 = 8;

/// Returns the number of servers of what was stored without it.
pub fn one_server() -> u64 {
    1
}

/// Which server of a run one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerShare {
    /// Its number, from 1.
    number: u64,
    /// The servers of the run.
    servers: u64,
}

impl ServerShare {
    /// The only server of a run.
    pub const ALONE: Self = Self { number: 1, servers: 1 };

    /// Returns the shares of all servers of a run, in order.
    pub fn all(servers: u64) -> impl Iterator<Item = Self> {
        (1..=servers).map(move |number| Self { number, servers })
    }

    /// Returns the number of the server, from 1.
    pub fn number(self) -> u64 {
        self.number
    }

    /// Returns `true` if the run has no other server.
    pub fn is_alone(self) -> bool {
        self.servers == 1
    }

    /// Returns those of some users who are on the server.
    pub fn users(self, users: u64) -> impl Iterator<Item = u64> {
        let distance = usize::try_from(self.servers).unwrap_or(usize::MAX);
        (self.number..=users).step_by(distance)
    }
}

/// What each server of a run has, in the order of the servers. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByServer<T>(Vec<T>);

impl<T> ByServer<T> {
    /// Returns what the only server has.
    pub fn one(only: T) -> Self {
        Self(vec![only])
    }

    /// Returns what each server has, or `None` if there is no server.
    pub fn of_all(all: Vec<T>) -> Option<Self> {
        (!all.is_empty()).then_some(Self(all))
    }

    /// Returns what the server of a user has.
    pub fn of_user(&self, user: u64) -> &T {
        let servers = self.0.len() as u64;
        &self.0[(user.saturating_sub(1) % servers) as usize]
    }

    /// Returns what the first server has.
    pub fn of_first(&self) -> &T {
        &self.0[0]
    }

    /// Returns something else of each server, or the first error.
    ///
    /// # Errors
    ///
    /// Those of the function.
    pub fn try_map<U, E>(&self, map: impl FnMut(&T) -> Result<U, E>) -> Result<ByServer<U>, E> {
        self.0.iter().map(map).collect::<Result<_, E>>().map(ByServer)
    }
}

impl<T> Deref for ByServer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for ByServer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T> IntoIterator for ByServer<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The users whom a server adds are those who are sent to it.
    #[test]
    fn each_user_has_one_server() {
        for servers in 1..=SERVERS_MAX {
            let by_server = ByServer::of_all(ServerShare::all(servers).collect()).expect("there are some");
            for user in 1..=20 {
                let having = by_server.iter().filter(|share| share.users(20).any(|own| own == user));
                assert_eq!(having.collect::<Vec<_>>(), [by_server.of_user(user)], "user {user} of {servers} servers");
            }
        }
        assert_eq!(
            ServerShare::all(2).map(|share| share.users(5).collect()).collect::<Vec<Vec<_>>>(),
            [vec![1, 3, 5], vec![2, 4]]
        );
        assert_eq!(ServerShare::all(1).collect::<Vec<_>>(), [ServerShare::ALONE]);
        assert_eq!(ByServer::<u8>::of_all(Vec::new()), None);
    }
}
