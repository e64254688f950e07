//! Idle connections: logs many in, some at a time, lets them idle, and holds them until a line comes on standard input.
//!
//! Every connection is another user's, as it would be. When all idle, one JSON line says so; the caller then measures the
//! server's memory.

use std::io::BufRead;
use std::thread;

use crate::arguments::{Arguments, Outcome};
use crate::client::Client;
use crate::figures::Stopwatch;

/// How many log in at the same time.
const HANDS: usize = 8;

/// Connects, idles, waits.
pub fn run(arguments: &Arguments) -> Outcome<()> {
    let address = arguments.text("address")?;
    let password = arguments.text("password")?;
    let connections: usize = arguments.or("connections", 5_000)?;
    let watch = Stopwatch::start();
    let clients = thread::scope(|scope| {
        let users = |hand| (1..=connections).skip(hand).step_by(HANDS);
        let hands: Vec<_> =
            (0..HANDS).map(|hand| scope.spawn(move || idle_all(address, password, users(hand)))).collect();
        hands.into_iter().map(|hand| hand.join().map_err(|_| "a client panicked")?).collect::<Outcome<Vec<_>>>()
    })?;
    println!("{{\"connections\": {connections}, \"seconds\": {:.3}}}", watch.elapsed().as_secs_f64());
    std::io::stdin().lock().read_line(&mut String::new())?;
    drop(clients);
    Ok(())
}

fn idle_all(address: &str, password: &str, users: impl Iterator<Item = usize>) -> Outcome<Vec<Client>> {
    let one = |user| -> Outcome<Client> {
        let mut client = Client::connect(address)?;
        client.login(user, password)?;
        client.command("SELECT INBOX")?;
        client.idle()?;
        Ok(client)
    };
    users.map(|user| one(user).map_err(|error| format!("connection {user}: {error}").into())).collect()
}
