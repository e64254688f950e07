//! Tests of submission over a directory, mail files and a router in memory.

use std::sync::{Arc, Mutex};

use base::networks::Network;
use base::sim::{SeededRandom, SimClock};
use base::{Clock, Name, Random, Uid};
use directory::{Directory, GroupKind, NewGroup, NewUser, PersonChange};
use notes::{Access, Databases, Identity, level};
use store::Store;
use store::memory::MemoryEngine;

use super::*;
use crate::disposition_notification::NOTIFIED_KEYWORD;
use crate::limits::{GROUP_TARGETS_PER_HOUR_MAX, KEPT_TARGETS_MAX};
use crate::mailbox::{Flags, MailOptions, NewMessage};
use crate::mime::message_header::HeaderFault;
use crate::router::{AddressResolver as _, Notify, RouterOptions};

const ANN: &str = "CN=ann/O=acme.test";

/// Hooks that sign with a field and record the outcomes.
#[derive(Default)]
struct Records {
    accepted: Mutex<Vec<AcceptOutcome>>,
    refused: Mutex<Vec<Refusal>>,
    failed: Mutex<Vec<String>>,
}

impl SubmissionHooks for Records {
    fn sign(&self, message: Vec<u8>) -> Vec<u8> {
        [b"Signed: yes\r\n", message.as_slice()].concat()
    }

    fn record_accepted(&self, _origin: &Origin, _envelope: &Envelope, _size_bytes: usize, outcome: AcceptOutcome) {
        self.accepted.lock().expect("no test panics while it holds this").push(outcome);
    }

    fn record_refused(&self, _origin: &Origin, refusal: &Refusal) {
        self.refused.lock().expect("no test panics while it holds this").push(refusal.clone());
    }

    fn report_failure(&self, operation: &'static str, _error: &(dyn std::error::Error + 'static)) {
        self.failed.lock().expect("no test panics while it holds this").push(operation.to_owned());
    }
}

struct World {
    engine: Arc<MemoryEngine>,
    directory: Arc<Directory>,
    mail: Arc<MailStore>,
    router: Arc<Router>,
    records: Arc<Records>,
    service: Arc<SubmissionService>,
}

impl World {
    /// Creates the domain `acme.test` with ann, bob (quota of 1 MiB), eve (disabled) and moved (forwards to dora), the
    /// group team (ann, bob, dora) and the deny list leavers.
    fn new() -> Self {
        Self::with(SenderPolicy::Own)
    }

    fn with(senders: SenderPolicy) -> Self {
        let engine = Arc::new(MemoryEngine::new(1));
        let store = Store::with_engine(engine.clone(), &store::StoreOptions::default()).expect("the engine is sound");
        let clock: Arc<dyn Clock> = Arc::new(SimClock::new());
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(1));
        let databases = Databases::open(Arc::new(store), Arc::clone(&clock), random);
        let directory =
            Directory::open(&databases, directory::DirectoryOptions::new("hub/Acme"), &clock).expect("a new store");
        let directory = Arc::new(directory);
        add_people(&directory).expect("the directory is empty");
        let mail = MailStore::new(databases, MailOptions::default());
        let resolver = Arc::new(DirectoryResolver::new(Arc::clone(&directory)));
        let router = Router::open(Arc::clone(&mail), resolver, RouterOptions::default()).expect("a new store");
        let records = Arc::new(Records::default());
        let options = SubmissionOptions {
            hostname: "mx.acme.test".to_owned(),
            senders,
            message_bytes_max: 100_000,
            recipients_max: 3,
            special_networks: Networks::from_iter([Network::v4([10, 1, 0, 0], 16)]),
        };
        let hooks = Arc::clone(&records) as Arc<dyn SubmissionHooks>;
        let service = SubmissionService::new(directory.clone(), mail.clone(), router.clone(), hooks, options);
        Self { engine, directory, mail, router, records, service }
    }

    fn disable(&self, address: &str) {
        let change = PersonChange { disabled: Some(true), ..PersonChange::default() };
        self.directory.user_set(address, &change).expect("the user exists");
    }

    /// Returns the messages in a user's inbox.
    fn inbox(&self, name: &str) -> Vec<String> {
        let Ok(file) = self.mail.open_as_server(&format!("mail/{name}.nsf")) else { return Vec::new() };
        let snapshot = file.snapshot().expect("the mail file can be read");
        let inbox = snapshot.folder("INBOX").expect("the mail file can be read").expect("there is an inbox").id;
        let mut found = Vec::new();
        snapshot
            .entries(inbox, base::Uid(1)..=base::Uid(u32::MAX), &mut |entry| {
                let message = snapshot.message(entry.note)?.expect("an entry has its message");
                found.push(String::from_utf8_lossy(&message.raw()?).into_owned());
                Ok(std::ops::ControlFlow::Continue(()))
            })
            .expect("the mail file can be read");
        found
    }

    /// Returns the last outcome: mailboxes and queued recipients.
    fn outcome(&self) -> (usize, usize) {
        let accepted = self.records.accepted.lock().expect("no test panics while it holds this");
        accepted.last().map(|outcome| (outcome.delivered, outcome.queued)).expect("a message was accepted")
    }
}

fn add_people(directory: &Directory) -> directory::Result<()> {
    directory.domain_add("acme.test", &[])?;
    directory.user_add(&NewUser::new("ann@acme.test"))?;
    directory.user_add(&NewUser { quota_bytes: Some(1 << 20), ..NewUser::new("bob@acme.test") })?;
    directory.user_add(&NewUser::new("eve@acme.test"))?;
    directory.user_add(&NewUser::new("denied@acme.test"))?;
    let forward = Some("dora@elsewhere.test".to_owned());
    directory.user_add(&NewUser { forward, ..NewUser::new("moved@acme.test") })?;
    directory.user_set("eve@acme.test", &PersonChange { disabled: Some(true), ..PersonChange::default() })?;
    let group = |address: &str, kind, members: &[&str]| NewGroup {
        addresses: vec![address.to_owned()],
        kind,
        members: members.iter().map(|member| (*member).to_owned()).collect(),
        ..NewGroup::default()
    };
    let team = ["ann@acme.test", "bob@acme.test", "dora@elsewhere.test"];
    directory.group_add(&group("team@acme.test", GroupKind::MultiPurpose, &team))?;
    directory.group_add(&group("empty@acme.test", GroupKind::MultiPurpose, &[]))?;
    directory.group_add(&group("leavers@acme.test", GroupKind::DenyList, &["denied@acme.test"]))?;
    Ok(())
}

fn submission(to: &[&str], login: Option<&str>, message: &str) -> Submission {
    let peer = Some("192.0.2.7:4000".parse().expect("an address"));
    Submission {
        origin: Origin { protocol: ReceivedProtocol::Esmtp, peer, login: login.map(str::to_owned) },
        envelope: Envelope {
            id: "id-1".to_owned(),
            reverse_path: "ann@acme.test".to_owned(),
            recipients: to.iter().map(|address| Recipient::new(address)).collect(),
            ..Envelope::default()
        },
        resolved: ResolvedAddresses::default(),
        message: message.as_bytes().to_vec(),
    }
}

fn request(to: &[&str], message: &str) -> SubmissionRequest {
    SubmissionRequest {
        login: ANN.to_owned(),
        peer: Some("192.0.2.7:4000".parse().expect("an address")),
        sender: String::new(),
        recipients: to.iter().map(|address| (*address).to_owned()).collect(),
        message: message.as_bytes().to_vec(),
        request_id: String::new(),
    }
}

#[test]
fn addresses_resolve_to_targets_or_refusals() {
    let world = World::new();
    let check = |address: &str, expected: Result<(bool, usize), u16>| {
        let resolved = world.service.resolve(address);
        let found = resolved.map(|resolved| (resolved.is_local(), resolved.targets().len()));
        assert_eq!(found.map_err(|refusal| refusal.codes().0), expected, "{address}");
    };
    check("ann@acme.test", Ok((true, 1)));
    check("ANN+lists@Acme.Test", Ok((true, 1)));
    check("team@acme.test", Ok((true, 3)));
    check("moved@acme.test", Ok((true, 1)));
    check("dora@elsewhere.test", Ok((false, 1)));
    check("nobody@acme.test", Err(550));
    check("eve@acme.test", Err(550));
    check("empty@acme.test", Err(550));
    check("leavers@acme.test", Err(550));
    check("no address", Err(553));
    check("x@[8.8.8.8]", Ok((false, 1)));
    check("x@[10.1.2.3]", Ok((false, 1)));
    for special in ["x@[127.0.0.1]", "x@[10.2.0.0]", "x@[IPv6:::1]", "\"x@y\"@[ipv6:fd00::1]"] {
        assert_eq!(world.service.resolve(special).err(), Some(Refusal::Destination), "{special}");
    }
    assert_eq!(Refusal::Destination.codes(), (550, (5, 1, 2)));
    assert_eq!(world.service.list_members("team@acme.test").map(|members| members.len()), Some(3));
    assert_eq!(world.service.list_members("ann@acme.test"), None);
    assert_eq!(world.service.list_members("leavers@acme.test"), None, "a deny list is no mailing list");
}

#[test]
fn a_cached_answer_equals_the_full_one() {
    let world = World::new();
    let remote = ["x@far.test", "x@[8.8.8.8]", "x@[127.0.0.1]"];
    for address in ["ann@acme.test", "bob@acme.test", "eve@acme.test", "team@acme.test", "x"].into_iter().chain(remote)
    {
        let full = world.service.resolve(address).map(|resolved| resolved.targets().to_vec());
        let cached = world.service.resolve_cached(address);
        let needs_read = address.starts_with("bob") || address.starts_with("team");
        assert_eq!(cached.is_none(), needs_read, "{address}");
        if let Some(cached) = cached {
            assert_eq!(cached.map(|resolved| resolved.targets().to_vec()), full, "{address}");
        }
    }
}

#[test]
fn the_router_reports_the_reason_of_the_directory() {
    let world = World::new();
    let resolver = DirectoryResolver::new(Arc::clone(&world.directory));
    let check = |address: &str, expected: &str| {
        let targets = resolver.targets(address).expect("the directory can be read");
        assert_eq!(targets, [DeliveryTarget::Undeliverable(format!("{expected}: {address}"))]);
    };
    check("nobody@acme.test", "550 5.1.1 User unknown");
    check("eve@acme.test", "550 5.2.1 Mailbox disabled");
    check("empty@acme.test", "550 5.2.4 This address has no recipients");
    let bob = resolver.targets("bob@acme.test").expect("the directory can be read");
    let [DeliveryTarget::Local(mailbox)] = bob.as_slice() else { panic!("{bob:?}") };
    assert_eq!((mailbox.mail_file.as_str(), mailbox.quota_bytes), ("mail/bob.nsf", Some(1 << 20)));
}

#[test]
fn a_full_mailbox_is_refused_before_the_message_arrives() {
    let world = World::new();
    let owner = base::Name::new("CN=bob/O=acme.test");
    world.mail.create("mail/bob.nsf", "bob", &owner, None).expect("it does not exist");
    let file = world.mail.open_as_server("mail/bob.nsf").expect("it exists");
    let inbox = file.snapshot().expect("it can be read").folder("INBOX").expect("it can be read").expect("an inbox").id;
    let raw = "Subject: large\r\n\r\n0123456789\r\n".repeat(100).into_bytes();
    let large = NewMessage { raw, flags: Default::default(), received: None };
    file.append(inbox, &[large]).expect("there is no quota");
    assert!(world.service.resolve("bob@acme.test").is_ok());
    let manager: Access<level::Manager> =
        file.database().authorize(&Arc::new(Identity::local_server(""))).expect("the server is a manager");
    let options = notes::DatabaseOptions { quota_bytes: Some(1_000), ..file.database().record().options };
    world.mail.databases().database_options_set(&manager, "bob", options).expect("it can be lowered");
    assert_eq!(world.service.resolve("bob@acme.test").err(), Some(Refusal::MailboxFull));
}

#[test]
fn a_recipient_is_looked_up_once() {
    let world = World::new();
    let mut submission = submission(&["ann@acme.test", "team@acme.test"], None, "Subject: x\r\n\r\n");
    for recipient in &submission.envelope.recipients {
        submission.resolved.push(world.service.resolve(&recipient.address).expect("the address exists"));
    }
    submission.envelope.reverse_path.clear();
    let before = world.directory.cache_statistics().lookups;
    world.service.accept(submission).expect("a valid message");
    assert_eq!(world.outcome(), (2, 1));
    assert_eq!(world.directory.cache_statistics().lookups, before, "the resolved addresses are reused");
}

#[test]
fn an_outdated_answer_is_not_used() {
    let world = World::new();
    let mut submission = submission(&["bob@acme.test"], None, "Subject: x\r\n\r\n");
    submission.resolved.push(world.service.resolve("bob@acme.test").expect("the address exists"));
    world.disable("bob@acme.test");
    world.service.accept(submission).expect("a valid message");
    assert_eq!((world.outcome(), world.inbox("bob").len()), ((0, 0), 0));
    assert!(world.inbox("ann")[0].contains("550 5.2.1 Mailbox disabled: bob@acme.test"), "the sender gets a report");
}

#[test]
fn answers_beyond_the_limit_are_dropped_and_looked_up_again() {
    let world = World::new();
    let mut resolved = ResolvedAddresses::default();
    let many = (0..KEPT_TARGETS_MAX).map(|number| DeliveryTarget::Remote(format!("{number}@far.test"))).collect();
    resolved.push(ResolvedAddress::local(many, world.directory.generation()));
    resolved.push(world.service.resolve("ann@acme.test").expect("the address exists"));
    assert_eq!((resolved.get(0).is_some(), resolved.get(1).is_some()), (true, false));
    let submission =
        Submission { resolved, ..submission(&["x@far.test", "ann@acme.test"], None, "Subject: x\r\n\r\n") };
    world.service.accept(submission).expect("a valid message");
    assert_eq!(world.outcome(), (1, KEPT_TARGETS_MAX));
}

#[test]
fn members_of_groups_are_limited_for_each_message() {
    let world = World::new();
    let group = |name: &str, count: usize| {
        let members = (0..count).map(|number| format!("{number}@far.test")).collect();
        let addresses = vec![format!("{name}@acme.test")];
        world.directory.group_add(&NewGroup { addresses, members, ..NewGroup::default() }).expect("it is new");
    };
    group("half", GROUP_TARGETS_PER_MESSAGE_MAX / 2 + 1);
    group("crowd", GROUP_TARGETS_PER_MESSAGE_MAX + 1);
    let text = "From: ann@acme.test\r\n\r\n";
    let refusal = |to: &[&str]| world.service.submit(request(to, text)).err().map(|refused| refused.refusal.codes());
    assert_eq!(refusal(&["crowd@acme.test"]), Some((550, (5, 2, 4))), "no retry helps");
    assert_eq!(refusal(&["half@acme.test", "HALF@acme.test"]), Some((452, (4, 5, 3))));
    assert_eq!(refusal(&["half@acme.test", "ann@acme.test"]), None);
    let listed = world.service.list_members("half@acme.test").map(|members| members.len());
    assert_eq!(listed, Some(LISTED_MEMBERS_MAX));
}

#[test]
fn members_of_groups_are_limited_for_each_hour() {
    let world = World::new();
    let ann = Some(ANN);
    let letter = "From: ann@acme.test\r\n\r\n";
    let origin = submission(&[], ann, letter).origin;
    let almost_all = GROUP_TARGETS_PER_HOUR_MAX as usize - 5;
    assert!(world.service.group_limit.admit(&origin, almost_all, world.mail.databases().clock().monotonic()));
    let send = |to: &[&str]| world.service.accept(submission(to, ann, letter)).err();
    assert_eq!(send(&["team@acme.test"]), None);
    assert_eq!(send(&["team@acme.test"]), Some(Refusal::GroupRate));
    assert_eq!(Refusal::GroupRate.codes(), (452, (4, 7, 1)));
    assert_eq!(send(&["ann@acme.test", "bob@acme.test", "dora@elsewhere.test"]), None, "they are no members of groups");
    assert_eq!((world.inbox("ann").len(), world.inbox("bob").len()), (2, 2));
}

#[test]
fn users_may_send_only_with_their_own_addresses() {
    let world = World::new();
    let check = |login: &str, reverse_path: &str, code: Option<u16>| {
        let checked = world.service.check_sender(login, reverse_path);
        assert_eq!(checked.err().map(|refusal| refusal.codes().0), code, "{login} {reverse_path}");
    };
    check(ANN, "ann@acme.test", None);
    check(ANN, "ann+lists@acme.test", None);
    check(ANN, "", None);
    check(ANN, "bob@acme.test", Some(553));
    check(ANN, "ann@elsewhere.test", Some(553));
    check("eve", "eve@acme.test", Some(553));
    check("denied", "denied@acme.test", Some(553));
    check("nobody", "nobody@acme.test", Some(553));
    let any = World::with(SenderPolicy::Any);
    assert_eq!(any.service.check_sender("ann", "bob@acme.test"), Ok(()));
    assert!(any.service.check_sender("eve", "eve@acme.test").is_err());
}

#[test]
fn author_must_be_the_authenticated_user() {
    let check = |world: &World, login: Option<&str>, from: &str, code: Option<u16>| {
        let letter = format!("{from}Subject: x\r\n\r\nFrom: bob@acme.test\r\n");
        let refusal = world.service.accept(submission(&["ann@acme.test"], login, &letter)).err();
        assert_eq!(refusal.as_ref().map(|refusal| refusal.codes().0), code, "{login:?} {from:?}");
        let mut refused = world.records.refused.lock().expect("no test panics while it holds this");
        assert_eq!(refused.pop(), refusal, "a refusal is recorded");
    };
    let own = World::new();
    let ann = Some(ANN);
    check(&own, ann, "From: Ann <ann@acme.test>\r\n", None);
    check(&own, ann, "From: \"bob@acme.test\" <ANN+lists@Acme.Test> (bob@acme.test)\r\n", None);
    check(&own, ann, "From: ann@acme.test <bob@acme.test>\r\n", Some(550));
    check(&own, ann, "From: ann@acme.test,\r\n bob@acme.test\r\n", Some(550));
    check(&own, ann, "From: someone@far.test\r\n", Some(550));
    check(&own, ann, "From: ann@acme.test\r\nstray\r\nFrom: bob@acme.test\r\n", Some(550));
    check(&own, Some("CN=gone/O=acme.test"), "From: ann@acme.test\r\n", Some(550));
    check(&own, Some("CN=eve/O=acme.test"), "From: eve@acme.test\r\n", Some(550));
    check(&own, Some("CN=denied/O=acme.test"), "From: denied@acme.test\r\n", Some(550));
    check(&own, None, "From: bob@acme.test\r\n", None);
    assert_eq!(own.inbox("ann").len(), 3);
    let any = World::with(SenderPolicy::Any);
    check(&any, ann, "From: someone@far.test\r\n", None);
    check(&any, Some("CN=eve/O=acme.test"), "From: someone@far.test\r\n", Some(550));
}

#[test]
fn outgoing_mail_of_users_is_signed() {
    let check = |to: &[&str], login: Option<&str>, protocol, is_signed: bool| {
        let world = World::new();
        let mut submission = submission(to, login, "From: ann@acme.test\r\n\r\n");
        submission.origin.protocol = protocol;
        world.service.accept(submission).expect("a valid message");
        let content = match world.router.list().pop() {
            Some((key, _)) => world.router.content(key).expect("the queue can be read"),
            None => world.inbox("ann").remove(0).into_bytes(),
        };
        assert_eq!(String::from_utf8_lossy(&content).contains("Signed: yes"), is_signed, "{to:?} {login:?}");
    };
    let ann = Some(ANN);
    check(&["dora@elsewhere.test"], ann, ReceivedProtocol::Esmtp, true);
    check(&["ann@acme.test", "team@acme.test"], ann, ReceivedProtocol::Native, true);
    check(&["moved@acme.test"], ann, ReceivedProtocol::Esmtp, true);
    check(&["ann@acme.test", "bob@acme.test"], ann, ReceivedProtocol::Esmtp, false);
    check(&["dora@elsewhere.test"], ann, ReceivedProtocol::Lmtp, false);
    check(&["dora@elsewhere.test"], None, ReceivedProtocol::Esmtp, false);
}

#[test]
fn submitted_request_is_completed_and_delivered() {
    let world = World::new();
    let forged = "Authentication-Results: mx.acme.test; dkim=pass\n";
    let text = format!("{forged}To: bob@acme.test\nBcc: ann@acme.test\nSubject: x\n\ntext\n");
    let accepted = world.service.submit(request(&["bob@acme.test", " bob@acme.test ", "ann@acme.test"], &text));
    let accepted = accepted.expect("a valid request");
    assert_eq!(world.outcome(), (2, 0), "each recipient once");
    let expected = format!(
        "Return-Path: <ann@acme.test>\r\n\
         Received: from [192.0.2.7] ([192.0.2.7])\r\n\tby mx.acme.test with DOUBLET id {id};\r\n\t{date}\r\n\
         Date: {date}\r\nMessage-ID: <{id}@mx.acme.test>\r\nFrom: <ann@acme.test>\r\n\
         To: bob@acme.test\r\nSubject: x\r\n\r\ntext\r\n",
        id = accepted.id,
        date = SimClock::new().now().to_rfc5322(),
    );
    assert_eq!(world.inbox("bob"), [expected]);
}

#[test]
fn a_request_is_refused_with_the_recipient_and_the_reason() {
    let world = World::new();
    let check = |request: SubmissionRequest, recipient: Option<&str>, expected: &Refusal| {
        let refused = world.service.submit(request).err().expect("it is refused");
        assert_eq!((refused.recipient.as_deref(), &refused.refusal), (recipient, expected));
    };
    let text = "From: ann@acme.test\r\n\r\n";
    check(request(&["ann@acme.test", "nobody@acme.test"], text), Some("nobody@acme.test"), &Refusal::UnknownRecipient);
    check(request(&[], text), None, &Refusal::RecipientCount("The message has no recipients"));
    check(request(&["a@b.test"; 4], text), None, &Refusal::RecipientCount("Too many recipients"));
    check(request(&["ann@acme.test"], &"x".repeat(100_001)), None, &Refusal::TooLarge);
    check(request(&["ann@acme.test"], &"Received: x\r\n".repeat(51)), None, &Refusal::Loop);
    let malformed = Refusal::Malformed("The From field of the message has no address");
    check(request(&["ann@acme.test"], "From: nobody\r\n\r\n"), None, &malformed);
    let stray = Refusal::Malformed(HeaderFault::StrayLine.reason());
    check(request(&["ann@acme.test"], "From: ann@acme.test\nstray\nBcc: x@far.test\n\n"), None, &stray);
    let other = SubmissionRequest { sender: "bob@acme.test".to_owned(), ..request(&["ann@acme.test"], text) };
    check(other, None, &Refusal::Sender("bob@acme.test is not one of your addresses".to_owned()));
    let author = Refusal::Author("bob@acme.test".to_owned());
    check(request(&["ann@acme.test"], "From: bob@acme.test\r\n\r\n"), None, &author);
    world.disable("ann@acme.test");
    check(request(&["bob@acme.test"], text), None, &Refusal::AccountClosed);
    assert!(world.inbox("ann").is_empty() && world.router.list().is_empty(), "nothing of a refused message is kept");
}

#[test]
fn a_repeated_request_is_delivered_once() {
    let world = World::new();
    let submit = |request_id: &str, text: &str| {
        let request = SubmissionRequest { request_id: request_id.to_owned(), ..request(&["ann@acme.test"], text) };
        world.service.submit(request).map(|accepted| accepted.id).map_err(|refused| refused.refusal)
    };
    let text = "From: ann@acme.test\r\nSubject: x\r\n\r\n";
    let first = submit("r1", text).expect("a valid request");
    assert_eq!(submit("r1", text).as_ref(), Ok(&first));
    assert_eq!(world.inbox("ann").len(), 1);
    assert!(matches!(submit("r1", "From: ann@acme.test\r\n\r\n"), Err(Refusal::Malformed(_))));
    assert!(matches!(submit("r2", "From: nobody\r\n\r\n"), Err(Refusal::Malformed(_))));
    let corrected = submit("r2", text).expect("a refused request leaves nothing");
    assert!(corrected != first && world.inbox("ann").len() == 2);
    submit("", text).expect("a valid request");
    submit("", text).expect("a valid request");
    assert_eq!(world.inbox("ann").len(), 4, "requests without an identifier are separate");
}

#[test]
fn full_disk_is_detected_before_the_message_arrives() {
    let world = World::new();
    assert_eq!(world.service.check_capacity(0), Ok(()));
    world.engine.faults().set_capacity(0);
    assert_eq!(world.service.check_capacity(1_000), Err(Refusal::InsufficientStorage));
    let refused = world.service.submit(request(&["ann@acme.test"], "\r\n")).err().expect("it is refused");
    assert_eq!(refused.refusal, Refusal::InsufficientStorage);
}

#[test]
fn the_copy_replaces_the_draft_if_the_message_is_accepted() {
    let world = World::new();
    world.mail.create_if_missing("mail/ann.nsf", "ann", &Name::new(ANN), None).expect("a sound store");
    let file = world.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
    let folder = |name: &str| {
        let found = file.snapshot().and_then(|snapshot| snapshot.folder(name)).expect("a sound store");
        found.unwrap_or_else(|| panic!("no mailbox {name}")).id
    };
    let sent = folder("Sent");
    let drafts = folder("Drafts");
    let text = "From: ann@acme.test\r\nSubject: x\r\n\r\n";
    let new = |text: &str| NewMessage { raw: text.as_bytes().to_vec(), flags: Flags::none(), received: None };
    let draft = file.append(drafts, &[new("Subject: draft\r\n\r\n")]).expect("a sound store").1[0];
    let counts = || {
        let snapshot = file.snapshot().expect("a sound store");
        [sent, drafts].map(|folder| snapshot.status(folder).expect("a sound store").messages)
    };
    let submit = |to: &str, draft: Uid| {
        let message = Arc::new(file.prepare(&new(text)).expect("it is small"));
        let copy = SentCopy { mailbox: sent, draft: Some((drafts, draft)), message, held: None };
        let copy = SubmittedCopy { mail_file: "mail/ann.nsf".to_owned(), copy, release_at: None };
        let request = SubmissionRequest { request_id: "form".to_owned(), ..request(&[to], text) };
        world.service.submit_with_copy(request, copy).is_ok()
    };
    assert!(!submit("nobody@acme.test", draft));
    assert_eq!(counts(), [0, 1], "a refused message has no copy");
    assert!(submit("bob@acme.test", draft));
    assert_eq!((counts(), world.inbox("bob").len()), ([1, 0], 1));
    assert!(submit("bob@acme.test", draft), "the repetition is accepted");
    assert_eq!((counts(), world.inbox("bob").len()), ([1, 0], 1), "and changes nothing");
}

#[test]
fn a_notification_has_no_return_path_and_marks_its_message_once() {
    let world = World::new();
    world.mail.create_if_missing("mail/ann.nsf", "ann", &Name::new(ANN), None).expect("a sound store");
    let file = world.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
    let inbox = file.snapshot().and_then(|snapshot| snapshot.folder("INBOX")).expect("a sound store");
    let inbox = inbox.expect("there is an inbox").id;
    let flags: Flags = ["\\Seen", "\\Deleted", "$Forwarded"].into_iter().collect();
    let message = NewMessage { raw: b"Subject: asks\r\n\r\n".to_vec(), flags, received: None };
    let uid = file.append(inbox, &[message]).expect("a sound store").1[0];
    let entry = || {
        let entry = file.snapshot().and_then(|snapshot| snapshot.entry(inbox, uid));
        entry.expect("a sound store").expect("the message exists")
    };
    let keywords = || file.snapshot().expect("a sound store").flags(&entry()).keywords;
    let notify = |to: &[&str], text: &str| {
        let about = NotifiedMessage { mail_file: "mail/ann.nsf".to_owned(), note: entry().note };
        world.service.submit_notification(request(to, text), about).map(|_| ()).map_err(|refused| refused.refusal)
    };
    let text = "From: ann@acme.test\r\nSubject: displayed\r\n\r\n";
    assert_eq!(notify(&["nobody@acme.test"], text), Err(Refusal::UnknownRecipient));
    assert_eq!(
        notify(&["bob@acme.test"], "From: bob@acme.test\r\n\r\n"),
        Err(Refusal::Author("bob@acme.test".to_owned()))
    );
    assert_eq!(keywords(), ["$Forwarded"], "a refused notification leaves nothing");
    let marks = entry().marks;
    assert_eq!(notify(&["bob@acme.test", "x@far.test"], text), Ok(()));
    assert_eq!((keywords(), entry().marks), (vec!["$Forwarded".to_owned(), NOTIFIED_KEYWORD.to_owned()], marks));
    let received = world.inbox("bob");
    assert!(received.len() == 1 && received[0].starts_with("Return-Path: <>\r\n"), "{received:?}");
    let queue = world.router.list();
    let [(_, queued)] = queue.as_slice() else { panic!("{queue:?}") };
    assert_eq!(queued.envelope.reverse_path, "");
    assert_eq!(queued.recipients[0].recipient.notify, Some(Notify::NEVER));
    assert_eq!(notify(&["bob@acme.test"], text), Err(Refusal::AlreadyNotified));
    assert_eq!((world.inbox("bob").len(), world.router.list().len()), (1, 1));
    assert!(world.records.failed.lock().expect("no test panics while it holds this").is_empty());
    let about = NotifiedMessage { mail_file: "mail/ann.nsf".to_owned(), note: base::NoteId(1 << 20) };
    let gone = world.service.submit_notification(request(&["bob@acme.test"], text), about);
    assert_eq!(gone.map(|_| ()).map_err(|refused| refused.refusal), Err(Refusal::NotifiedMessageGone));
    assert!(world.records.failed.lock().expect("no test panics while it holds this").is_empty());
    assert_eq!(world.inbox("bob").len(), 1);
}
