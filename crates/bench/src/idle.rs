//! Idle connections: logs many in, lets them idle, and holds them until a line comes on standard input.
//!
//! Every connection is another user's, as it would be. When all idle, one JSON line says so; the caller then measures the
//! server's memory.

use std::io::BufRead;

use crate::arguments::{Arguments, Outcome};
use crate::client::Client;
use crate::figures::Stopwatch;

/// Connects, idles, waits.
pub fn run(arguments: &Arguments) -> Outcome<()> {
    let address = arguments.text("address")?;
    let password = arguments.text("password")?;
    let connections: usize = arguments.or("connections", 5_000)?;
    let watch = Stopwatch::start();
    let mut clients = Vec::with_capacity(connections);
    for user in 1..=connections {
        let mut client = Client::connect(address).map_err(|error| format!("connection {user}: {error}"))?;
        client.login(user, password)?;
        client.command("SELECT INBOX")?;
        client.idle()?;
        clients.push(client);
    }
    println!("{{\"connections\": {connections}, \"seconds\": {:.3}}}", watch.elapsed().as_secs_f64());
    std::io::stdin().lock().read_line(&mut String::new())?;
    drop(clients);
    Ok(())
}
