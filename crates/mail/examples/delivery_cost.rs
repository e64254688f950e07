//! Measures the processor time of a delivery.
//!
//! Several threads accept messages of 10 KB and put them into mailboxes, without any protocol around them. Each
//! delivery is durable at the end.
//!
//! `cargo run --release -p mail --example delivery_cost -- [messages] [threads] [users]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::random::Random;
use base::time::{Clock, Timestamp};
use mail::mailbox::{MailOptions, MailStore};
use mail::router::{AddressResolver, DeliveryTarget, Envelope, LocalMailbox, Recipient, Router, RouterOptions};
use notes::Databases;
use store::{Store, StoreOptions};

struct AcceptAllAddresses;

impl AddressResolver for AcceptAllAddresses {
    fn targets(&self, address: &str) -> mail::Result<Vec<DeliveryTarget>> {
        let name = address.split('@').next().unwrap_or_default();
        let owner = base::Name::new(address);
        let mail_file = format!("mail/{name}.nsf");
        Ok(vec![DeliveryTarget::Local(LocalMailbox {
            mail_file,
            title: name.into(),
            owner,
            quota_bytes: None,
            other_server: None,
        })])
    }
}

/// The clock of the machine. An example may read it.
struct RealClock(Instant);

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(1_767_225_600).after(self.0.elapsed())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

fn argument(place: usize, otherwise: usize) -> usize {
    std::env::args().nth(place).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Returns the processor time of this process, user and system, in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks: f64 = [11, 12].iter().filter_map(|field| fields.get(*field)?.parse::<f64>().ok()).sum();
    ticks / 100.0
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn main() {
    let messages = argument(1, 20_000);
    let threads = argument(2, 32);
    let users = argument(3, 5_000);
    let folder = std::env::temp_dir().join(format!("delivery-cost-{}", std::process::id()));
    let store = Arc::new(Store::open(&folder, &StoreOptions::default()).expect("the store opens"));
    let random: Arc<dyn Random> = Arc::new(base::sim::SeededRandom::new(1));
    let databases = Databases::open(store, Arc::new(RealClock(Instant::now())), random);
    let mail = MailStore::new(databases, MailOptions::default());
    let router =
        Router::open(mail.clone(), Arc::new(AcceptAllAddresses), RouterOptions::default()).expect("the queue opens");
    for user in 0..users {
        let name = base::Name::new(&format!("user{user}@acme.test"));
        mail.create_if_missing(&format!("mail/user{user}.nsf"), "A user", &name, None).expect("a mail file is made");
    }
    let line = format!("{}\r\n", "All work and no play makes Jack a dull boy. ".repeat(2));
    let start = (Instant::now(), cpu_seconds());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let router = &router;
            let mail = &mail;
            let line = &line;
            scope.spawn(move || {
                for number in (thread..messages).step_by(threads) {
                    let raw = format!(
                        "From: a@acme.test\r\nTo: b@acme.test\r\nSubject: {number}\r\nMessage-ID: <{number}@acme.test>\r\n\r\n{number}\r\n{}",
                        line.repeat(10_240 / line.len())
                    );
                    let envelope = Envelope {
                        id: format!("{number}"),
                        reverse_path: "a@acme.test".into(),
                        recipients: vec![Recipient::new(&format!("user{}@acme.test", number % users))],
                        ..Envelope::default()
                    };
                    let accepted = router.accept(&envelope, raw.as_bytes()).expect("it is taken");
                    mail.databases().store().durable(accepted.ticket).wait().expect("it is durable");
                }
            });
        }
    });
    let wall = start.0.elapsed().as_secs_f64();
    let cpu = cpu_seconds() - start.1;
    let count = messages as f64;
    println!("{messages} messages, {threads} threads, {users} users");
    println!("{:.0} messages/s, {:.0} us of processor time a message", count / wall, cpu / count * 1e6);
    let (writes, syncs) = mail.databases().store().committer().counts();
    println!("{writes} writes, {syncs} syncs");
    drop(router);
    let _ = std::fs::remove_dir_all(folder);
}
