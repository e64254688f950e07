//! Tests of the router over the in-memory engine: delivery, queueing, retries, reports, and the operator's commands.

use std::future::Future as _;
use std::sync::Arc;
use std::time::Duration;

use base::sim::{SeededRandom, SimClock};
use base::{Clock, Name, NoteId, Uid, UidSet, Unid, ViewId};
use mail::limits::QUEUE_STUBS_MAX;
use mail::mailbox::{FlagChange, Flags, MailFile, MailOptions, MailStore, NewMessage};
use mail::router::{
    AddressResolver, ArrivingMessage, DRAFT_FIELDS_ITEM, DeliveryTarget, Destination, Envelope, HeldCopy, LocalMailbox,
    Notify, Recipient, RecipientState, RecordChange, ReportRates, Router, RouterOptions, SentCopy, SubmissionRecord,
    TransferOutcome, WithdrawnCopy,
};
use notes::{
    Access, Acl, AclLevel, DatabaseKind, DatabaseRecord, Databases, Identity, Item, ItemValue, NewDatabase, NewNote,
    level,
};
use store::memory::MemoryEngine;
use store::{Batch, Store, StoreOptions, SyncMode, Table};

/// The addresses of acme.test after all users have moved to another server.
struct Moved;

impl AddressResolver for Moved {
    fn targets(&self, address: &str) -> mail::Result<Vec<DeliveryTarget>> {
        let targets = Acme.targets(address)?.into_iter().map(|target| match target {
            DeliveryTarget::Local(mailbox) => {
                DeliveryTarget::Local(LocalMailbox { other_server: Some("CN=other/O=Acme".to_owned()), ..mailbox })
            }
            target => target,
        });
        Ok(targets.collect())
    }
}

/// The addresses of acme.test. All users are local, except that `team` is a group and `gone` does not exist.
struct Acme;

impl AddressResolver for Acme {
    fn targets(&self, address: &str) -> mail::Result<Vec<DeliveryTarget>> {
        let Some(local) = address.strip_suffix("@acme.test") else {
            return Ok(vec![DeliveryTarget::Remote(address.into())]);
        };
        Ok(match local {
            "team" => vec![person("ann"), person("bob"), DeliveryTarget::Remote("carl@away.test".into())],
            "gone" => vec![DeliveryTarget::Undeliverable("550 5.1.1 no such user".into())],
            name => vec![person(name)],
        })
    }
}

fn person(name: &str) -> DeliveryTarget {
    DeliveryTarget::Local(LocalMailbox {
        mail_file: format!("mail/{name}.nsf"),
        title: name.to_owned(),
        owner: Name::new(&format!("{name}@acme.test")),
        quota_bytes: (name == "tiny").then_some(1_060),
        other_server: (name == "roamer").then(|| "CN=other/O=Acme".to_owned()),
    })
}

struct World {
    clock: Arc<SimClock>,
    mail: Arc<MailStore>,
    router: Arc<Router>,
    memory: Arc<MemoryEngine>,
}

fn world_over(memory: Arc<MemoryEngine>, clock: Arc<SimClock>) -> World {
    build(memory, clock, SyncMode::Each, RouterOptions::default())
}

fn world_with(options: RouterOptions) -> World {
    build(Arc::new(MemoryEngine::new(3)), Arc::new(SimClock::new()), SyncMode::Each, options)
}

fn world_syncing(sync: SyncMode) -> World {
    build(Arc::new(MemoryEngine::new(3)), Arc::new(SimClock::new()), sync, RouterOptions::default())
}

fn build(memory: Arc<MemoryEngine>, clock: Arc<SimClock>, sync: SyncMode, router: RouterOptions) -> World {
    let options = StoreOptions { sync, ..StoreOptions::default() };
    let engine: Arc<dyn store::Engine> = memory.clone();
    let store = Arc::new(Store::with_engine(engine, &options).expect("a store in memory opens"));
    let databases = Databases::open(store, clock.clone(), Arc::new(SeededRandom::new(7)));
    let mail = MailStore::new(databases, MailOptions::default());
    let router = Router::open(mail.clone(), Arc::new(Acme), router).expect("the queue opens");
    World { clock, mail, router, memory }
}

fn world() -> World {
    world_over(Arc::new(MemoryEngine::new(3)), Arc::new(SimClock::new()))
}

const MESSAGE: &[u8] = b"From: bob@acme.test\r\nSubject: hello\r\n\r\nA text.\r\n";

fn envelope(from: &str, to: &[&str]) -> Envelope {
    let recipients = to.iter().map(|address| Recipient::new(address)).collect();
    Envelope { id: "T1".into(), reverse_path: from.into(), recipients, ..Envelope::default() }
}

impl World {
    fn send(&self, from: &str, to: &[&str]) -> mail::router::AcceptOutcome {
        self.router.accept(&envelope(from, to), MESSAGE).expect("the message is accepted")
    }

    /// Returns the messages in a user's inbox.
    fn inbox(&self, name: &str) -> Vec<String> {
        let Ok(file) = self.mail.open_as_server(&format!("mail/{name}.nsf")) else { return Vec::new() };
        let snapshot = file.snapshot().unwrap();
        let inbox = snapshot.folder("INBOX").unwrap().expect("there is an inbox").id;
        let mut found = Vec::new();
        snapshot
            .entries(inbox, Uid(1)..=Uid(u32::MAX), &mut |entry| {
                let message = snapshot.message(entry.note)?.expect("an entry has its message");
                found.push(String::from_utf8_lossy(&message.raw()?).into_owned());
                Ok(std::ops::ControlFlow::Continue(()))
            })
            .unwrap();
        found
    }

    fn finish_all(&self, outcome: &TransferOutcome) -> usize {
        let jobs = self.router.take_due_jobs(100);
        for job in &jobs {
            let outcomes = vec![outcome.clone(); job.recipients.len()];
            self.router.finish(job, &outcomes).unwrap();
        }
        jobs.len()
    }
}

fn temporary() -> TransferOutcome {
    TransferOutcome::Temporary { reply: "450 4.2.0 later".into() }
}

#[test]
fn local_recipients_receive_the_message_on_accept() {
    let world = world();
    let accepted = world.send("bob@acme.test", &["ann@acme.test", "ANN@acme.test", "carla@acme.test"]);
    assert_eq!((accepted.delivered, accepted.queued), (2, 0), "one copy for each mailbox");
    let expected = format!("Return-Path: <bob@acme.test>\r\n{}", String::from_utf8_lossy(MESSAGE));
    assert_eq!(world.inbox("ann"), std::slice::from_ref(&expected));
    assert_eq!(world.inbox("carla"), [expected]);
}

#[test]
fn groups_are_expanded_and_each_recipient_gets_one_copy() {
    let world = world();
    let accepted = world.send("bob@acme.test", &["team@acme.test", "ann@acme.test"]);
    assert_eq!((accepted.delivered, accepted.queued), (2, 1));
    assert_eq!((world.inbox("ann").len(), world.inbox("bob").len()), (1, 1));
    let jobs = world.router.take_due_jobs(10);
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].destination, Destination::Domain("away.test".into()));
    assert_eq!(world.router.content(jobs[0].key).unwrap(), MESSAGE);
}

#[test]
fn queue_keeps_a_bounded_number_of_stubs() {
    let world = world_with(RouterOptions { mailboxes: 1, ..RouterOptions::default() });
    world.send("bob@acme.test", &["waits@late.test"]);
    assert_eq!(world.finish_all(&temporary()), 1);
    let delivered = TransferOutcome::Delivered { reply: "250 2.0.0 taken".into(), reports: false };
    for _ in 0..1_200 {
        world.clock.advance(Duration::from_millis(1));
        world.send("bob@acme.test", &["x@one.test"]);
        assert_eq!(world.finish_all(&delivered), 1);
    }
    let queue = world.mail.databases().database_open("mail.box").unwrap();
    let itself: Access<level::Reader> = queue.authorize(&Arc::new(Identity::local_server(""))).unwrap();
    let reading = itself.read().unwrap();
    assert_eq!(reading.counters().notes, 3, "the ACL, the message that waits, and its state");
    let stubs = reading.counters().stubs;
    assert!(stubs < 2 * QUEUE_STUBS_MAX, "two for each of 1,200 messages without a purge: {stubs}");
    let mut headers = 0;
    let count = &mut |_| {
        headers += 1;
        Ok(true)
    };
    reading.for_each_note(NoteId(0), count).unwrap();
    assert!(headers <= stubs + 3, "the stubs, the two notes and the ACL: {headers}");
    let again = world_over(Arc::clone(&world.memory), Arc::clone(&world.clock));
    assert_eq!(again.router.list().len(), 1);
}

#[test]
fn another_database_at_the_path_of_a_queue_is_refused() {
    let world = world_with(RouterOptions { mailboxes: 1, ..RouterOptions::default() });
    let databases = world.mail.databases();
    let acl = Acl::open_to_all(AclLevel::Reader);
    databases.database_create(&NewDatabase::new("x.nsf", "Plans", DatabaseKind::Standard, acl)).unwrap();
    let record = databases.database_open("x.nsf").unwrap().record().as_ref().clone();
    databases.close_idle();
    // The catalog as it may be from a time when the path was not reserved.
    let mut batch = Batch::new();
    batch.delete(Table::Catalog, b"px.nsf");
    batch.put(Table::Catalog, b"pmail2.box", &DatabaseRecord { path: "mail2.box".into(), ..record }.encode());
    databases.store().commit(&batch).unwrap();
    let open = |mailboxes| {
        let options = RouterOptions { mailboxes, ..RouterOptions::default() };
        Router::open(Arc::clone(&world.mail), Arc::new(Acme), options).map(drop).map_err(|error| error.to_string())
    };
    let refused = open(2).expect_err("it is no queue");
    assert_eq!(
        refused,
        "database mail2.box: it is a standard database, but its path belongs to the mail queue; rename it: \
         `doublet db rename mail2.box NEW-PATH --set router.mailboxes=1`"
    );
    assert_eq!(open(1), Ok(()), "the command finds the other queues");
    let database = databases.database_open("mail2.box").unwrap();
    let access: Access<level::Manager> = database.authorize(&Arc::new(Identity::local_server(""))).unwrap();
    databases.database_rename(&access, "plans.nsf").unwrap();
    assert_eq!(open(2), Ok(()));
}

#[test]
fn a_delivered_message_leaves_the_queue() {
    let world = world();
    world.send("bob@acme.test", &["x@one.test", "y@one.test", "z@two.test"]);
    assert_eq!(world.finish_all(&TransferOutcome::Delivered { reply: "250 ok".into(), reports: false }), 2);
    assert_eq!(world.router.counts().messages, 0);
    assert!(world.inbox("bob").is_empty(), "no report of success was requested");
}

#[test]
fn mail_for_a_mailbox_of_another_server_goes_there_in_one_transfer() {
    let world = world();
    world.send("bob@acme.test", &["roamer@acme.test"]);
    assert!(world.mail.open_as_server("mail/roamer.nsf").is_err(), "no mail file was created");
    assert!(world.router.take_local_jobs(10).is_empty());
    let jobs = world.router.take_remote_jobs(10);
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].destination, Destination::Server("CN=other/O=Acme".to_owned()));
    assert_eq!(jobs[0].recipients[0].mail_file.as_deref(), Some("mail/roamer.nsf"));
    let outcome = TransferOutcome::Temporary { reply: "451 4.4.1 it is down".into() };
    world.router.finish(&jobs[0], &[outcome]).expect("a sound store");
    assert!(world.router.take_remote_jobs(10).is_empty(), "it waits");
    assert_eq!(world.router.list()[0].1.recipients[0].server.as_deref(), Some("CN=other/O=Acme"));
}

#[test]
fn message_has_one_active_job_per_domain() {
    let world = world();
    world.send("bob@acme.test", &["x@one.test"]);
    let jobs = world.router.take_due_jobs(10);
    assert!(world.router.take_due_jobs(10).is_empty());
    world.router.abandon(&jobs[0]);
    assert_eq!(world.router.take_due_jobs(10).len(), 1);
}

#[test]
fn temporary_failure_is_retried_then_warned_then_reported() {
    let world = world();
    world.send("bob@acme.test", &["x@one.test"]);
    let mut attempts = 0;
    for _ in 0..6 * 24 * 12 {
        attempts += world.finish_all(&temporary());
        world.clock.advance(Duration::from_secs(300));
    }
    assert_eq!(world.router.counts().messages, 0);
    let reports = world.inbox("bob");
    assert_eq!(reports.len(), 2, "one warning, one failure");
    assert!(reports[0].contains("Action: delayed") && reports[0].contains("450 4.2.0 later"));
    assert!(reports[1].contains("Action: failed") && reports[1].contains("gave up"));
    assert!((30..60).contains(&attempts), "{attempts} attempts in five days");
}

#[test]
fn permanent_failure_is_reported_immediately() {
    let world = world();
    world.send("bob@acme.test", &["x@one.test"]);
    world.finish_all(&TransferOutcome::Permanent { reply: "550 5.1.1 unknown".into() });
    assert_eq!(world.router.counts().messages, 0);
    assert!(world.inbox("bob")[0].contains("Status: 5.1.1"));
}

#[test]
fn unknown_recipients_are_reported() {
    let world = world();
    world.send("bob@acme.test", &["gone@acme.test", "ann@acme.test"]);
    assert_eq!(world.inbox("ann").len(), 1);
    assert!(world.inbox("bob")[0].contains("Final-Recipient: rfc822; gone@acme.test"));
}

#[test]
fn failed_message_without_sender_becomes_dead_mail() {
    let world = world();
    world.send("", &["x@one.test"]);
    world.finish_all(&TransferOutcome::Permanent { reply: "550 no".into() });
    let listed = world.router.list();
    assert_eq!(listed[0].1.recipients[0].state, RecipientState::Dead);
    assert!(world.router.take_due_jobs(10).is_empty());
    world.router.release(listed[0].0).unwrap();
    assert_eq!(world.finish_all(&TransferOutcome::Delivered { reply: String::new(), reports: false }), 1);
    assert_eq!(world.router.counts().messages, 0);
}

#[test]
fn success_reports_are_sent_on_request() {
    let world = world();
    let mut envelope = envelope("bob@acme.test", &["ann@acme.test", "x@one.test"]);
    for recipient in &mut envelope.recipients {
        recipient.notify = Some(Notify { success: true, failure: true, delay: false });
    }
    world.router.accept(&envelope, MESSAGE).unwrap();
    world.finish_all(&TransferOutcome::Delivered { reply: "250 ok".into(), reports: false });
    let reports = world.inbox("bob");
    assert!(reports[0].contains("Action: delivered") && reports[1].contains("Action: relayed"));
}

/// Returns an envelope whose recipients request reports of success.
fn envelope_with_success_reports(to: &[&str]) -> Envelope {
    let mut envelope = envelope("bob@acme.test", to);
    for recipient in &mut envelope.recipients {
        recipient.notify = Some(Notify { success: true, failure: true, delay: false });
    }
    envelope
}

/// Returns the addresses and actions of all reports in a user's inbox.
fn reports_in_inbox(world: &World, name: &str) -> Vec<(String, String)> {
    let inbox = world.inbox(name);
    let fields = |field: &str| -> Vec<String> {
        let lines = inbox.iter().flat_map(|report| report.lines());
        lines.filter_map(|line| line.strip_prefix(field)).map(str::to_owned).collect()
    };
    fields("Final-Recipient: rfc822; ").into_iter().zip(fields("Action: ")).collect()
}

fn pair(address: &str, action: &str) -> (String, String) {
    (address.to_owned(), action.to_owned())
}

#[test]
fn success_is_reported_after_the_actual_delivery() {
    let world = world();
    let long = [MESSAGE, &[b'x'; 500]].concat();
    world.router.accept(&envelope("bob@acme.test", &["tiny@acme.test"]), &long).unwrap();
    let accepted =
        world.router.accept(&envelope_with_success_reports(&["tiny@acme.test", "ann@acme.test"]), &long).unwrap();
    assert_eq!((accepted.delivered, accepted.queued), (1, 1));
    assert_eq!(
        reports_in_inbox(&world, "bob"),
        [pair("ann@acme.test", "delivered")],
        "the message does not fit into tiny yet"
    );
    let file = world.mail.open_as_server("mail/tiny.nsf").unwrap();
    let inbox = file.snapshot().unwrap().folder("INBOX").unwrap().expect("there is an inbox").id;
    let all = UidSet::from(1..=u32::MAX);
    file.store(inbox, &all, &FlagChange::Add(Flags::from_system_flags(notes::Marks::DELETED)), None).unwrap();
    file.expunge(inbox, None).unwrap();
    world.clock.advance(Duration::from_secs(400));
    for job in world.router.take_due_jobs(10) {
        world.router.deliver_local(&job).unwrap();
    }
    assert_eq!(world.inbox("tiny").len(), 1);
    assert_eq!(
        reports_in_inbox(&world, "bob"),
        [pair("ann@acme.test", "delivered"), pair("tiny@acme.test", "delivered")]
    );
}

#[test]
fn group_expansion_is_reported_once() {
    let world = world();
    world.router.accept(&envelope_with_success_reports(&["team@acme.test", "ann@acme.test"]), MESSAGE).unwrap();
    world.finish_all(&TransferOutcome::Delivered { reply: "250 ok".into(), reports: false });
    assert_eq!(world.inbox("ann").len(), 1);
    let mut found = reports_in_inbox(&world, "bob");
    found.sort();
    assert_eq!(found, [pair("ann@acme.test", "delivered"), pair("team@acme.test", "expanded")]);
}

#[test]
fn remote_mail_does_not_block_local_mail() {
    let world = world();
    let long = [MESSAGE, &[b'x'; 2_000]].concat();
    for number in 0..60 {
        world.send("bob@acme.test", &[&format!("x@domain{number}.test")]);
    }
    world.router.accept(&envelope("bob@acme.test", &["tiny@acme.test"]), &long).unwrap();
    world.clock.advance(Duration::from_secs(400));
    assert_eq!(world.router.take_remote_jobs(50).len(), 50, "all remote slots are taken");
    let local = world.router.take_local_jobs(4);
    assert_eq!((local.len(), &local[0].destination), (1, &Destination::Local));
    assert_eq!(world.router.take_due_jobs(50).len(), 10);
}

/// Jobs for servers that hang until the attempt is given up, in the time of the test.
struct HangingJobs {
    since: u64,
    jobs: Vec<mail::router::DeliveryJob>,
}

impl World {
    /// Starts the due jobs for other servers, up to the number of free slots. Returns the jobs for servers that answer.
    fn begin(&self, hanging: &mut Vec<HangingJobs>, second: u64) -> Vec<mail::router::DeliveryJob> {
        let busy: usize = hanging.iter().map(|begun| begun.jobs.len()).sum();
        let is_dead = |job: &mail::router::DeliveryJob| matches!(&job.destination, Destination::Domain(name) if name.starts_with("dead"));
        let (dead, alive) = self.router.take_remote_jobs(50 - busy).into_iter().partition(is_dead);
        hanging.push(HangingJobs { since: second, jobs: dead });
        alive
    }
}

/// Returns the time at which a message for `alive…` was sent.
fn sent_at(job: &mail::router::DeliveryJob) -> u64 {
    let Destination::Domain(name) = &job.destination else { return 0 };
    name.chars().filter(char::is_ascii_digit).collect::<String>().parse().expect("a second")
}

#[test]
fn hanging_servers_do_not_delay_other_domains() {
    let world = world();
    for number in 0..200 {
        world.send("bob@acme.test", &[&format!("x@dead{number}.test")]);
    }
    let mut hanging: Vec<HangingJobs> = Vec::new();
    let mut longest = 0;
    let mut delivered = 0;
    let mut dead_busy_max = 0;
    for second in 0..7_200_u64 {
        if second % 100 == 50 {
            world.send("bob@acme.test", &[&format!("x@alive{second}.test")]);
        }
        for begun in &mut hanging {
            begun.jobs.retain(|job| {
                let is_over = second - begun.since >= job.connect_time_max.map_or(600, |limit| limit.as_secs());
                if is_over {
                    world.router.finish(job, &[temporary()]).unwrap();
                }
                !is_over
            });
        }
        for job in world.begin(&mut hanging, second) {
            let outcome = TransferOutcome::Delivered { reply: "250 ok".into(), reports: false };
            world.router.finish(&job, &[outcome]).unwrap();
            delivered += 1;
            let waited = second - sent_at(&job);
            assert!(second < 600 || waited == 0, "at {second}: {waited} seconds, although the slow servers are known");
            longest = longest.max(waited);
        }
        if second > 600 {
            dead_busy_max = dead_busy_max.max(hanging.iter().map(|begun| begun.jobs.len()).sum());
        }
        world.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(dead_busy_max, 25, "known slow servers use their half of the slots");
    assert_eq!(longest, 310, "the first attempts at 200 hanging servers delay it");
    assert_eq!(delivered, 72);
    assert!(
        hanging.iter().flat_map(|begun| &begun.jobs).all(|job| job.connect_time_max.is_none()),
        "known slow servers have no shorter limit"
    );
}

#[test]
fn a_smart_host_is_one_destination() {
    let world = world_with(RouterOptions { smart_host: true, ..RouterOptions::default() });
    for number in 0..8 {
        world.send("bob@acme.test", &[&format!("x@a{number}.test"), &format!("x@b{number}.test")]);
    }
    let jobs = world.router.take_due_jobs(50);
    assert_eq!(jobs.len(), 5, "the maximum number of jobs for one destination");
    assert!(jobs.iter().all(|job| job.destination == Destination::SmartHost && job.recipients.len() == 2));
}

#[test]
fn job_recipients_are_limited_to_one_transaction() {
    let world = world();
    let to: Vec<String> = (0..250).map(|number| format!("user{number}@one.test")).collect();
    world.send("bob@acme.test", &to.iter().map(String::as_str).collect::<Vec<_>>());
    let mut counts = Vec::new();
    while let Some(job) = world.router.take_due_jobs(10).pop() {
        assert!(world.router.take_due_jobs(10).is_empty(), "the others wait until it is done");
        counts.push(job.recipients.len());
        let sent = TransferOutcome::Delivered { reply: "250 ok".into(), reports: false };
        world.router.finish(&job, &vec![sent; job.recipients.len()]).unwrap();
    }
    assert_eq!((counts, world.router.counts().messages), (vec![100, 100, 50], 0));
}

#[test]
fn job_waits_until_its_message_is_durable() {
    let world = world_syncing(SyncMode::Group);
    world.send("bob@acme.test", &["x@one.test"]);
    let jobs = world.router.take_due_jobs(1);
    world.router.durable(&jobs[0]).wait().expect("the disk is sound");
    world.router.abandon(&jobs[0]);
    world.memory.faults().hold_syncs();
    world.send("bob@acme.test", &["y@two.test"]);
    let job = world
        .router
        .take_due_jobs(2)
        .into_iter()
        .find(|job| job.recipients[0].recipient.address == "y@two.test")
        .unwrap();
    let mut durable = std::pin::pin!(world.router.durable(&job));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(durable.as_mut().poll(&mut context).is_pending(), "nothing may be sent yet");
    world.memory.faults().fail_next_sync();
    world.memory.faults().release_syncs();
    world.router.durable(&job).wait().expect_err("the message was not accepted");
}

#[test]
fn message_for_a_full_mailbox_waits_in_the_queue() {
    let world = world();
    let long = [MESSAGE, &[b'x'; 2_000]].concat();
    let accepted = world.router.accept(&envelope("bob@acme.test", &["tiny@acme.test"]), &long).unwrap();
    assert_eq!((accepted.delivered, accepted.queued), (0, 1));
    assert_eq!(world.router.list()[0].1.recipients[0].last_reply, "452 4.2.2 mailbox full");
    assert_eq!((world.inbox("tiny").len(), world.router.counts().messages), (0, 1));
    world.clock.advance(Duration::from_secs(400));
    let jobs = world.router.take_due_jobs(10);
    world.router.deliver_local(&jobs[0]).unwrap();
    assert_eq!((world.inbox("tiny").len(), world.router.counts().messages), (0, 1));
}

#[test]
fn operator_can_hold_release_and_remove_a_message() {
    let world = world();
    world.send("bob@acme.test", &["x@one.test"]);
    let key = world.router.list()[0].0;
    world.router.hold(key).unwrap();
    assert!(world.router.take_due_jobs(10).is_empty());
    world.router.release(key).unwrap();
    assert_eq!(world.router.take_due_jobs(10).len(), 1);
    world.router.remove(key).unwrap();
    assert_eq!(world.router.counts().messages, 0);
    assert!(world.router.retry(key).is_err());
}

#[test]
fn attempts_of_a_clock_that_was_ahead_are_not_waited_for() {
    let first = world();
    first.clock.advance(Duration::from_secs(2 * 86_400));
    first.send("bob@acme.test", &["friend@example.test"]);
    assert_eq!(first.finish_all(&temporary()), 1);
    first.clock.step_back(Duration::from_secs(2 * 86_400));
    let World { clock, memory, .. } = first;
    let second = world_over(memory, clock);
    assert!(second.router.take_due_jobs(100).is_empty(), "a failure is followed by a pause");
    second.clock.advance(RouterOptions::default().schedule.retry_max);
    assert_eq!(second.router.take_due_jobs(100).len(), 1);
}

#[test]
fn the_queue_survives_a_crash() {
    let world = world();
    world.send("bob@acme.test", &["x@one.test", "ann@acme.test"]);
    world.send("bob@acme.test", &["y@two.test"]);
    world.finish_all(&temporary());
    let again = world_over(Arc::new(world.memory.crash_losing_all()), world.clock.clone());
    assert_eq!(again.router.list(), world.router.list());
    assert_eq!(again.inbox("ann").len(), 1);
    again.clock.advance(Duration::from_secs(301));
    assert_eq!(again.finish_all(&TransferOutcome::Delivered { reply: "250 ok".into(), reports: true }), 2);
}

#[test]
fn failures_beyond_the_reports_of_a_sender_become_dead_mail() {
    let report_rates = ReportRates { all: 3, success: 3 };
    let world = world_with(RouterOptions { report_rates, ..RouterOptions::default() });
    for _ in 0..3 {
        world.send("bob@acme.test", &["gone@acme.test"]);
    }
    assert_eq!((world.inbox("bob").len(), world.router.list().len()), (3, 0));
    assert_eq!(world.send("bob@acme.test", &["gone@acme.test"]).queued, 1);
    let (key, entry) = world.router.list().pop().expect("the failure is in the queue");
    assert_eq!((entry.recipients[0].state, world.inbox("bob").len()), (RecipientState::Dead, 3));
    assert_eq!(world.router.suppressed_reports(), 1);
    world.router.remove(key).expect("the operator removes it");
    // A refusal of another server is treated alike.
    world.send("bob@acme.test", &["x@far.test"]);
    assert_eq!(world.finish_all(&TransferOutcome::Permanent { reply: "550 5.1.1 no".into() }), 1);
    let (_, entry) = world.router.list().pop().expect("the failure is in the queue");
    assert_eq!((entry.recipients[0].state, world.inbox("bob").len()), (RecipientState::Dead, 3));
    world.send("eve@acme.test", &["gone@acme.test"]);
    assert_eq!(world.inbox("eve").len(), 1, "other senders are not affected");
    world.clock.advance(Duration::from_mins(20));
    world.send("bob@acme.test", &["gone@acme.test"]);
    assert_eq!(world.inbox("bob").len(), 4, "a third of the reports is forgotten");
}

#[test]
fn other_reports_beyond_the_limit_are_dropped() {
    let report_rates = ReportRates { all: 3, success: 1 };
    let world = world_with(RouterOptions { report_rates, ..RouterOptions::default() });
    let mut envelope = envelope("bob@acme.test", &["ann@acme.test"]);
    envelope.recipients[0].notify = Some(Notify { success: true, failure: true, delay: true });
    for _ in 0..3 {
        world.router.accept(&envelope, MESSAGE).expect("the message is accepted");
    }
    assert_eq!((world.inbox("ann").len(), world.inbox("bob").len(), world.router.list().len()), (3, 1, 0));
    assert_eq!(world.router.suppressed_reports(), 2);
    world.send("bob@acme.test", &["gone@acme.test"]);
    assert_eq!(world.inbox("bob").len(), 2, "failures are still reported");
}

/// Entries of version 1 name no server, like those of a person who has moved since.
#[test]
fn queued_message_for_a_mailbox_that_is_elsewhere_goes_there() {
    let world = world();
    let long = [MESSAGE, &[b'x'; 2_000]].concat();
    let accepted = world.router.accept(&envelope("bob@acme.test", &["tiny@acme.test"]), &long).unwrap();
    assert_eq!((accepted.delivered, accepted.queued), (0, 1));
    let queued = world.router.list()[0].1.recipients[0].clone();
    assert_eq!((queued.mail_file.as_deref(), queued.server), (Some("mail/tiny.nsf"), None));
    if let Ok(database) = world.mail.databases().database_open("mail/tiny.nsf") {
        let itself = Arc::new(Identity::local_server(""));
        world.mail.databases().database_delete(&database.authorize(&itself).unwrap()).unwrap();
    }
    let router = Router::open(Arc::clone(&world.mail), Arc::new(Moved), RouterOptions::default()).unwrap();
    world.clock.advance(Duration::from_secs(400));
    let jobs = router.take_local_jobs(10);
    assert_eq!(jobs.len(), 1);
    router.deliver_local(&jobs[0]).unwrap();
    assert!(world.mail.open_as_server("mail/tiny.nsf").is_err(), "no mail file was created");
    let jobs = router.take_remote_jobs(10);
    assert_eq!(jobs.len(), 1, "it is forwarded at once");
    assert_eq!(jobs[0].destination, Destination::Server("CN=other/O=Acme".to_owned()));
    assert!(router.take_local_jobs(10).is_empty());
    let delivered = TransferOutcome::Delivered { reply: "250 ok".into(), reports: true };
    router.finish(&jobs[0], &[delivered]).unwrap();
    assert_eq!(router.counts().messages, 0);
}

#[test]
fn message_that_another_server_sends_back_waits_longer_each_time() {
    let world = world();
    let router = Router::open(Arc::clone(&world.mail), Arc::new(Moved), RouterOptions::default()).unwrap();
    let here = "Received: from hub.acme.test ([192.0.2.7])\r\n\tby localhost with DOUBLET id 7-1;\r\n\tnow\r\n";
    let there = "Received: from localhost ([192.0.2.8])\r\n\tby hub.acme.test with DOUBLET id 8-1;\r\n\tnow\r\n";
    let trace = |visits: usize| [here, there].repeat(visits).concat();
    for (visits, expected_minutes) in [(0, 0), (1, 0), (2, 5), (3, 10), (8, 240), (24, 240)] {
        let message = [trace(visits).as_bytes(), MESSAGE].concat();
        router.accept(&envelope("bob@acme.test", &["ann@acme.test"]), &message).unwrap();
        let (key, entry) = router.list().pop().expect("there is no mailbox here");
        let queued = &entry.recipients[0];
        assert_eq!(queued.server.as_deref(), Some("CN=other/O=Acme"));
        let minutes = (queued.next_attempt.seconds() - world.clock.now().seconds()) / 60;
        assert_eq!(minutes, expected_minutes, "{visits} visits");
        assert_eq!(queued.last_reply.starts_with("451 4.4.6 the message came back"), expected_minutes > 0);
        let jobs = router.take_remote_jobs(10);
        assert_eq!(jobs.len(), usize::from(expected_minutes == 0), "{visits} visits");
        jobs.iter().for_each(|job| router.abandon(job));
        router.remove(key).expect("it is in the queue");
    }
}

/// Creates the mail file of the sender, and returns the record of a submission.
fn record_of(world: &World, state: &str) -> SubmissionRecord {
    let owner = Name::new("bob@acme.test");
    world.mail.create_if_missing("mail/bob.nsf", "bob", &owner, None).expect("the mail file of the sender");
    let note = NewNote::document(vec![Item::text("Form", "EmailSubmission"), Item::text("State", state)]);
    SubmissionRecord { mail_file: "mail/bob.nsf".to_owned(), change: RecordChange::New(note) }
}

/// Returns the states of the submissions in the mail file of the sender, with their notes.
fn recorded(world: &World) -> Vec<(NoteId, String)> {
    let file = world.mail.open_as_server("mail/bob.nsf").expect("the mail file of the sender");
    let reader: Access<level::Reader> =
        file.database().authorize(&Arc::new(Identity::local_server(""))).expect("the server reads");
    let reading = reader.read().expect("a snapshot");
    let mut found = Vec::new();
    let collected = reading.for_each_note(NoteId(0), &mut |header| {
        let items = reading.summary(header.note)?.unwrap_or_default().items;
        if let Some(ItemValue::Text(state)) = notes::item::find_item(&items, "State").map(|item| &item.value) {
            found.push((header.note, state.clone()));
        }
        Ok(true)
    });
    collected.expect("the notes can be read");
    found
}

/// Sends a message that is held for an hour, to a local and a remote recipient.
fn send_held(world: &World) {
    let envelope = envelope("bob@acme.test", &["ann@acme.test", "x@away.test"]);
    let targets: Vec<Arc<[DeliveryTarget]>> =
        envelope.recipients.iter().map(|of| Acme.targets(&of.address).expect("targets").into()).collect();
    let release_at = Some(world.clock.now().after(Duration::from_secs(3_600)));
    let record = Some(record_of(world, "pending"));
    let arriving = ArrivingMessage { envelope: &envelope, targets: &targets, raw: MESSAGE, release_at, record };
    let accepted = world.router.accept_resolved(arriving).expect("it is accepted");
    assert_eq!((accepted.delivered, accepted.queued), (0, 2));
}

fn withdraw(world: &World) -> bool {
    let (note, _) = recorded(world)[0];
    let change = RecordChange::Items(note, vec![Item::text("State", "canceled")]);
    let record = SubmissionRecord { mail_file: "mail/bob.nsf".to_owned(), change };
    world.router.withdraw("T1", record).expect("the store accepts it").is_some()
}

#[test]
fn held_message_is_withdrawn_or_sent() {
    let hour = Duration::from_secs(3_600);
    let world = world();
    send_held(&world);
    assert!(world.router.take_due_jobs(100).is_empty() && world.inbox("ann").is_empty());
    let withdrawn = world_over(Arc::new(world.memory.crash_losing_all()), world.clock.clone());
    assert!(withdrawn.router.take_due_jobs(100).is_empty());
    assert!(withdraw(&withdrawn) && !withdraw(&withdrawn), "only once");
    assert_eq!(recorded(&withdrawn)[0].1, "canceled");
    withdrawn.clock.advance(hour);
    assert!(withdrawn.router.take_due_jobs(100).is_empty() && withdrawn.router.list().is_empty());
    // The other world has not seen that. Its time is the same.
    let jobs = world.router.take_due_jobs(100);
    assert_eq!(jobs.len(), 2, "one for the mailbox, and one for the other server");
    assert!(!withdraw(&world));
    assert_eq!(recorded(&world)[0].1, "pending", "the document does not change when it is too late");
    world.router.deliver_local(&jobs[0]).expect("it is delivered");
    world.router.finish(&jobs[1], &[temporary()]).expect("it is written");
    assert_eq!(world.inbox("ann").len(), 1);
    let queued = world.router.message_with_id("T1").expect("one recipient waits");
    assert_eq!((queued.release_at, queued.recipients.len()), (None, 1));
    assert!(!withdraw(&world));
}

#[test]
fn message_that_is_being_sent_is_not_withdrawn_by_a_clock_that_goes_back() {
    let world = world();
    send_held(&world);
    world.clock.advance(Duration::from_secs(3_600));
    let jobs = world.router.take_due_jobs(100);
    assert_eq!(jobs.len(), 2);
    world.clock.step_back(Duration::from_secs(1_800));
    assert!(!withdraw(&world));
    jobs.iter().for_each(|job| world.router.abandon(job));
    assert!(withdraw(&world), "it was not sent after all");
}

#[test]
fn operator_sends_a_held_message_at_once() {
    let world = world();
    send_held(&world);
    let (key, _) = world.router.list()[0];
    world.router.retry(key).expect("it is queued");
    assert!(!withdraw(&world));
    assert_eq!(world.router.take_due_jobs(100).len(), 2);
}

const COPY: Unid = Unid([7; 16]);

fn folder(file: &MailFile, name: &str) -> ViewId {
    let found = file.snapshot().and_then(|snapshot| snapshot.folder(name)).expect("a sound store");
    found.unwrap_or_else(|| panic!("no mailbox {name}")).id
}

/// Returns the numbers of messages in the folders with sent messages and with drafts.
fn sent_and_drafts(world: &World) -> [u32; 2] {
    let file = world.mail.open_as_server("mail/bob.nsf").expect("the mail file of the sender");
    let snapshot = file.snapshot().expect("a snapshot");
    ["Sent", "Drafts"].map(|name| snapshot.status(folder(&file, name)).expect("a sound store").messages)
}

fn prepared(file: &MailFile, text: &str) -> Arc<mail::mailbox::ReadyMessage> {
    let message = NewMessage { raw: text.as_bytes().to_vec(), flags: Flags::none(), received: None };
    Arc::new(file.prepare(&message).expect("it is small"))
}

/// Sends a message that is held for a minute, with a copy that replaces the draft.
fn send_held_with_copy(world: &World) {
    world.mail.create_if_missing("mail/bob.nsf", "bob", &Name::new("bob@acme.test"), None).expect("a mail file");
    let file = world.mail.open_as_server("mail/bob.nsf").expect("the mail file of the sender");
    let [mailbox, drafts] = ["Sent", "Drafts"].map(|name| folder(&file, name));
    let draft = NewMessage { raw: b"Subject: draft\r\n\r\n".to_vec(), flags: Flags::none(), received: None };
    let draft = file.append(drafts, &[draft]).expect("a sound store").1[0];
    let held = HeldCopy { unid: COPY, draft_fields: "Bcc: eve@acme.test\r\n".to_owned() };
    let copy = SentCopy {
        mailbox,
        draft: Some((drafts, draft)),
        message: prepared(&file, "Subject: x\r\n\r\n"),
        held: Some(held),
    };
    let mut envelope = envelope("bob@acme.test", &["ann@acme.test"]);
    envelope.id = COPY.to_string();
    let targets: Vec<Arc<[DeliveryTarget]>> = vec![Acme.targets("ann@acme.test").expect("targets").into()];
    let release_at = Some(world.clock.now().after(Duration::from_secs(60)));
    let record = SubmissionRecord { mail_file: "mail/bob.nsf".to_owned(), change: RecordChange::SentCopy(copy) };
    let record = Some(record);
    let arriving = ArrivingMessage { envelope: &envelope, targets: &targets, raw: MESSAGE, release_at, record };
    world.router.accept_resolved(arriving).expect("it is accepted");
}

/// Withdraws the message, and makes its copy a draft.
fn withdraw_with_copy(world: &World) -> bool {
    let file = world.mail.open_as_server("mail/bob.nsf").expect("the mail file of the sender");
    let copy = file.snapshot().and_then(|snapshot| Ok(snapshot.reading().find(COPY)?)).expect("a snapshot");
    let draft = prepared(&file, "Subject: x\r\nBcc: eve@acme.test\r\n\r\n");
    let change = WithdrawnCopy { copy: copy.unwrap_or(NoteId(u32::MAX)), drafts: folder(&file, "Drafts"), draft };
    let record = SubmissionRecord { mail_file: "mail/bob.nsf".to_owned(), change: RecordChange::Withdrawn(change) };
    world.router.withdraw(&COPY.to_string(), record).expect("the store accepts it").is_some()
}

#[test]
fn copy_of_a_held_message_is_a_draft_again_or_the_message_is_sent() {
    let minute = Duration::from_secs(60);
    let world = world();
    send_held_with_copy(&world);
    assert_eq!(sent_and_drafts(&world), [1, 0]);
    let file = world.mail.open_as_server("mail/bob.nsf").expect("the mail file of the sender");
    let snapshot = file.snapshot().expect("a snapshot");
    let note = snapshot.reading().find(COPY).expect("a sound store").expect("the copy is found by its UNID");
    let items = snapshot.reading().note(note).expect("a sound store").expect("it exists").items;
    let fields = notes::item::find_item(&items, DRAFT_FIELDS_ITEM).and_then(|item| item.value.text());
    assert_eq!(fields, Some("Bcc: eve@acme.test\r\n"));

    // A server that was killed before the withdrawal was durable, and one that was killed after it.
    let late = world_over(Arc::new(world.memory.crash_losing_all()), world.clock.clone());
    assert!(withdraw_with_copy(&world) && !withdraw_with_copy(&world), "only once");
    assert_eq!(sent_and_drafts(&world), [0, 1]);
    let withdrawn = world_over(Arc::new(world.memory.crash_losing_all()), world.clock.clone());
    assert_eq!(sent_and_drafts(&withdrawn), [0, 1]);
    world.clock.advance(minute);
    assert!(withdrawn.router.take_due_jobs(100).is_empty() && withdrawn.inbox("ann").is_empty());

    assert!(!withdraw_with_copy(&late), "the time is over");
    for job in late.router.take_due_jobs(100) {
        late.router.deliver_local(&job).expect("it is delivered");
    }
    assert_eq!((late.inbox("ann").len(), sent_and_drafts(&late)), (1, [1, 0]));
}

#[test]
fn withdrawal_does_not_need_the_copy() {
    let world = world();
    send_held_with_copy(&world);
    let file = world.mail.open_as_server("mail/bob.nsf").expect("the mail file of the sender");
    file.delete(folder(&file, "Sent"), &UidSet::from(1..=u32::MAX)).expect("a sound store");
    assert!(withdraw_with_copy(&world));
    assert_eq!((sent_and_drafts(&world), world.router.list().len()), ([0, 1], 0));
}
