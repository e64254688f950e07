//! Idle connections: logs in many users, several at a time, starts IDLE, and holds the connections until a line arrives
//! on standard input.
//!
//! Every connection belongs to a different user, as in practice. When all connections idle, one JSON line is printed,
//! and the caller then measures the server's memory.

use std::io::BufRead;
use std::thread;

use crate::arguments::{Arguments, Result};
use crate::imap_client::ImapClient;
use crate::measurements::Stopwatch;

/// Number of threads that log in at the same time.
const LOGIN_THREADS: usize = 8;

/// Opens the connections, starts IDLE and waits.
pub fn run(arguments: &Arguments) -> Result<()> {
    let address = arguments.text("address")?;
    let password = arguments.text("password")?;
    let connections: usize = arguments.get_or("connections", 5_000)?;
    let watch = Stopwatch::start();
    let clients = thread::scope(|scope| {
        let users = |thread| (1..=connections).skip(thread).step_by(LOGIN_THREADS);
        let threads: Vec<_> =
            (0..LOGIN_THREADS).map(|thread| scope.spawn(move || idle_all(address, password, users(thread)))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a client thread panicked")?)
            .collect::<Result<Vec<_>>>()
    })?;
    println!("{{\"connections\": {connections}, \"seconds\": {:.3}}}", watch.elapsed().as_secs_f64());
    std::io::stdin().lock().read_line(&mut String::new())?;
    drop(clients);
    Ok(())
}

fn idle_all(address: &str, password: &str, users: impl Iterator<Item = usize>) -> Result<Vec<ImapClient>> {
    let one = |user| -> Result<ImapClient> {
        let mut client = ImapClient::connect(address)?;
        client.login(user, password)?;
        client.command("SELECT INBOX")?;
        client.idle()?;
        Ok(client)
    };
    users.map(|user| one(user).map_err(|error| format!("connection {user}: {error}").into())).collect()
}
