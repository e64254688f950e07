//! Idle connections: logs in many users, several at a time, starts IDLE, and holds the connections until a line arrives
//! on standard input.
//!
//! Every connection belongs to a different user, as in practice. When all connections idle, one JSON line is printed,
//! and the caller then measures the server's memory.

use std::io::BufRead;

use serde::Serialize;

use crate::arguments::{Arguments, Result};
use crate::measurements::{self, Stopwatch};
use crate::users::{self, ImapServer};
use bench::door::imap::plain_client::ImapClient;

/// Number of users who log in at the same time.
const LOGINS_AT_ONCE: usize = 8;

/// What is printed when all connections idle.
#[derive(Serialize)]
struct Output {
    connections: usize,
    seconds: f64,
}

/// Opens the connections, starts IDLE and waits.
pub fn run(arguments: &Arguments) -> Result<()> {
    let server = ImapServer::from_arguments(arguments)?;
    let connections: usize = arguments.get_or("connections", 5_000)?;
    let runtime = users::runtime()?;
    let watch = Stopwatch::start();
    let row = |first: usize| idle_all(server.clone(), (first..=connections).step_by(LOGINS_AT_ONCE));
    let clients = runtime.block_on(users::run_users(LOGINS_AT_ONCE, row))?;
    let seconds = (watch.elapsed().as_secs_f64() * 1_000.0).round() / 1_000.0;
    measurements::print(&Output { connections, seconds })?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    drop(clients);
    Ok(())
}

/// Logs in users one after another, and starts IDLE for each.
async fn idle_all(server: ImapServer, users: impl Iterator<Item = usize>) -> Result<Vec<ImapClient>> {
    let mut clients = Vec::new();
    for user in users {
        let client = idle(&server, user).await.map_err(|error| format!("connection {user}: {error}"))?;
        clients.push(client);
    }
    Ok(clients)
}

async fn idle(server: &ImapServer, user: usize) -> Result<ImapClient> {
    let mut client = server.log_in(user).await?;
    client.command("SELECT INBOX").await?;
    client.idle().await?;
    Ok(client)
}
