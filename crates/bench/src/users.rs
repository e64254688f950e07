//! The users of the works that have no workload file: their names, their logins over IMAP, and their tasks.

use std::future::Future;

use bench::door::imap::plain_client::ImapClient;
use bench::door::line_connection::Place;
use client::Traffic;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::arguments::{Arguments, Error, Result};

/// Returns the address of a user.
pub fn address(user: usize) -> String {
    format!("{user}bench@bench.test")
}

/// The IMAP server of a work, and the password of all users.
#[derive(Debug, Clone)]
pub struct ImapServer {
    place: Place,
    password: String,
}

impl ImapServer {
    /// Takes the server from `--address` and `--password`.
    pub fn from_arguments(arguments: &Arguments) -> Result<Self> {
        Ok(Self::new(arguments.text("address")?, arguments.text("password")?))
    }

    /// Creates the server of a host and port.
    pub fn new(address: &str, password: &str) -> Self {
        Self { place: Place::unencrypted(address, &Traffic::default()), password: password.to_owned() }
    }

    /// Connects as nobody.
    pub async fn connect(&self) -> Result<ImapClient> {
        Ok(ImapClient::connect(&self.place).await?)
    }

    /// Connects, and logs in a user.
    pub async fn log_in(&self, user: usize) -> Result<ImapClient> {
        let mut client = self.connect().await?;
        client.log_in(&address(user), &self.password).await?;
        Ok(client)
    }
}

/// Returns a runtime for the tasks of many users, with a thread for each core.
pub fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

/// Returns a runtime for one user. It has no other threads, so that no response is passed from one to another.
pub fn single_runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Runs the same work for users 1 to `count` concurrently, each in a task. Returns their results in the order of the
/// users. The first error ends the work of all.
pub async fn run_users<T, F>(count: usize, work: impl Fn(usize) -> F) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for user in 1..=count {
        let work = work(user);
        tasks.spawn(async move { Ok::<_, Error>((user, work.await?)) });
    }
    let mut results = Vec::with_capacity(count);
    while let Some(ended) = tasks.join_next().await {
        results.push(ended??);
    }
    results.sort_by_key(|(user, _)| *user);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn results_are_in_the_order_of_the_users() {
        let ends = Arc::new([0, 0, 0, 1].map(Semaphore::new));
        let work = |user: usize| {
            let ends = Arc::clone(&ends);
            async move {
                // The last user ends first.
                let _permit = ends[user].acquire().await?;
                ends[user - 1].add_permits(1);
                Ok(address(user))
            }
        };
        let results = run_users(3, work).await.expect("no errors");
        assert_eq!(results, ["1bench@bench.test", "2bench@bench.test", "3bench@bench.test"]);
    }

    #[tokio::test]
    async fn an_error_ends_the_work_of_all() {
        let work = |user: usize| async move {
            if user == 2 {
                return Err("the server is full".into());
            }
            std::future::pending::<()>().await;
            Ok(())
        };
        let error = run_users(3, work).await.expect_err("one user fails");
        assert_eq!(error.to_string(), "the server is full");
    }
}
