//! The access matrix of SMTP: the expected reply to every verb from every kind of caller. The table is `matrix.txt`.
//!
//! The sessions are those of a running server, with its rules, directory, logins and router, over connections in
//! memory. A row contains the lines that a caller sends, one after the other, whatever the replies to the earlier lines
//! are; the code and status of the last reply count. The test requires a column for every caller, a row for every verb
//! that HELP lists and for an unknown one, and a row for every kind of sender and recipient. For every row, the number
//! of accepted messages must match the reply.
//!
//! In the lines, `$own` and `$alias` are addresses of the caller, or external addresses if the caller does not log in.
//! `AUTH PLAIN` is followed by the kind of credentials: `right`, `wrong`, or `for-another`, which has the right
//! password and asks to act for another user. `BDAT` is followed by the header fields of the chunk. The line after
//! `DATA` contains the header fields of the text, which is sent only after a 354 reply.

use std::collections::BTreeSet;

use admin::people;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use directory::{GroupChange, GroupKind, NewGroup, NewUser, PersonChange};
use instance::certificate::CertificateFiles;
use sample::{PASSWORD, Sample};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use wire::Shutdown;

use super::*;

const TABLE: &str = include_str!("matrix.txt");

/// The senders in MAIL FROM. Each has a row.
const SENDERS: [&str; 9] = [
    "$own",
    "$alias",
    "ann+detail@acme.test",
    "team@acme.test",
    "bob@acme.test",
    "nobody@acme.test",
    "someone@far.test",
    "",
    "no-domain",
];

/// The recipients in RCPT TO. Each has a row.
const RECIPIENTS: [&str; 20] = [
    "bob@acme.test",
    "bob.alias@acme.test",
    "team@acme.test",
    "moved@acme.test",
    "denied@acme.test",
    "disabled@acme.test",
    "full@acme.test",
    "nobody@acme.test",
    "crew@acme.test",
    "leavers@acme.test",
    "empty@acme.test",
    "postmaster",
    "bob",
    "dora@elsewhere.test",
    "root@[8.8.8.8]",
    "root@[192.0.2.1]",
    "@acme.test:dora@elsewhere.test",
    "dora%elsewhere.test@acme.test",
    "elsewhere.test!dora@acme.test",
    "\"dora@elsewhere.test\"@acme.test",
];

/// The callers; the columns of the table have the same names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Caller {
    /// Another server, on port 25.
    Stranger,
    /// A program on this machine, on port 25.
    Local,
    /// An upstream mail server, over LMTP.
    Upstream,
    /// An unauthenticated client on port 587 without TLS.
    Clear,
    /// An unauthenticated client on port 587 with TLS.
    Tls,
    /// A user who has logged in.
    User,
    /// A user who has logged in, on a server where users may send with any address.
    Any,
    /// A user whose account is disabled, after an attempt to log in.
    Disabled,
    /// A user on a deny list, after an attempt to log in.
    Denied,
    /// A user whose account was disabled after the login.
    Gone,
    /// A user who was added to a deny list after the login.
    Barred,
}

impl Caller {
    const ALL: [Self; 11] = [
        Self::Stranger,
        Self::Local,
        Self::Upstream,
        Self::Clear,
        Self::Tls,
        Self::User,
        Self::Any,
        Self::Disabled,
        Self::Denied,
        Self::Gone,
        Self::Barred,
    ];

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Returns the account with which the caller logs in.
    fn account(self) -> &'static str {
        match self {
            Self::Stranger | Self::Local | Self::Upstream | Self::Clear | Self::Tls | Self::User | Self::Any => "ann",
            Self::Disabled => "disabled",
            Self::Denied => "denied",
            Self::Gone => "gone",
            Self::Barred => "barred",
        }
    }

    fn logs_in(self) -> bool {
        matches!(self, Self::User | Self::Any | Self::Disabled | Self::Denied | Self::Gone | Self::Barred)
    }

    fn address(self, alias: &str) -> String {
        let (name, domain) = if self.logs_in() { (self.account(), "acme.test") } else { ("dora", "elsewhere.test") };
        format!("{name}{alias}@{domain}")
    }

    fn peer(self) -> Peer {
        let network = Peer::network("192.0.2.7:1025".parse().expect("an address"));
        match self {
            Self::Local | Self::Upstream => Peer::local(),
            Self::Stranger | Self::Clear => network,
            _ => network.encrypted(),
        }
    }
}

/// A server with all users and groups of the table.
struct TestServer {
    server: Arc<Server>,
    services: ProtocolServices,
    _folder: tempfile::TempDir,
}

impl TestServer {
    fn new(senders: &str) -> Self {
        let senders = format!("submission.sender={senders}");
        // Many rows fail to log in, so the delays after failed logins are switched off.
        let patient = ["directory.login_failures=1000000", "directory.login_failures_per_address=1000000"];
        let Sample { instance, folder } = Sample::with(&[patient[0], patient[1], "smtp.authentication=off", &senders]);
        for name in ["disabled", "denied", "gone", "barred", "full", "moved"] {
            let new = NewUser::new(&format!("{name}@acme.test"));
            let password = Some(PASSWORD.as_bytes().to_vec());
            people::add(&instance, &NewUser { password, ..new }).expect("the address is free");
        }
        for name in ["ann", "bob", "disabled", "denied", "gone", "barred"] {
            let addresses_add = vec![format!("{name}.alias@acme.test")];
            let change = PersonChange { addresses_add, ..PersonChange::default() };
            instance.directory.user_set(&format!("{name}@acme.test"), &change).expect("the user exists");
        }
        let postmaster = Some(Some("ann@acme.test".to_owned()));
        let change = directory::DomainChange { postmaster, ..directory::DomainChange::default() };
        instance.directory.domain_set("acme.test", &change).expect("the domain exists");
        let moved = PersonChange { forward: Some(Some("dora@elsewhere.test".to_owned())), ..PersonChange::default() };
        instance.directory.user_set("moved@acme.test", &moved).expect("the user exists");
        let groups = [
            ("crew", GroupKind::AclOnly, "ann@acme.test"),
            ("leavers", GroupKind::DenyList, "denied@acme.test"),
            ("empty", GroupKind::MultiPurpose, ""),
        ];
        for (name, kind, member) in groups {
            let members = Some(member.to_owned()).filter(|member| !member.is_empty()).into_iter().collect();
            let addresses = vec![format!("{name}@acme.test")];
            instance
                .directory
                .group_add(&NewGroup { kind, members, addresses, ..NewGroup::default() })
                .expect("the address is free");
        }
        let files = CertificateFiles::from_config(&instance.config, &instance.data, &instance.hostname);
        let tls = Arc::new(files.load().expect("a missing certificate is created"));
        let server = Server::new(Arc::new(instance), (tls, files), Shutdown::new(), None);
        let server = server.expect("the server can be set up");
        let services = ProtocolServices::new(&server, &server.logins, &[]).expect("the protocols can be set up");
        let world = Self { server, services, _folder: folder };
        world.set_disabled("disabled", true);
        world.fill("full");
        world
    }

    fn set_disabled(&self, name: &str, disabled: bool) {
        let change = PersonChange { disabled: Some(disabled), ..PersonChange::default() };
        self.server.instance.directory.user_set(&format!("{name}@acme.test"), &change).expect("the user exists");
    }

    fn deny(&self, name: &str, denied: bool) {
        let member = vec![format!("{name}@acme.test")];
        let mut change = GroupChange::default();
        *(if denied { &mut change.members_add } else { &mut change.members_remove }) = member;
        self.server.instance.directory.group_set("leavers@acme.test", &change).expect("the group exists");
    }

    fn fill(&self, name: &str) {
        let instance = &self.server.instance;
        let file = instance.mail.open_as_server(&format!("mail/{name}.nsf")).expect("the mail file exists");
        let inbox = file.snapshot().expect("a snapshot").folder("INBOX").expect("a lookup").expect("an inbox").id;
        let raw = "Subject: large\r\n\r\n0123456789\r\n".repeat(1_000).into_bytes();
        let message = mail::mailbox::NewMessage { raw, flags: Default::default(), received: None };
        file.append(inbox, &[message]).expect("the mail file has no quota yet");
        let change = PersonChange { quota_bytes: Some(Some(1_000)), ..PersonChange::default() };
        let person = instance.directory.user_set(&format!("{name}@acme.test"), &change).expect("the user exists");
        people::set_quota(instance, &person, Some(1_000)).expect("a quota may be below the current size");
    }

    /// Returns the number of accepted messages.
    fn taken(&self) -> u64 {
        self.server.mail_counters.by_protocol.iter().map(|counters| counters.accepted.get()).sum()
    }

    /// Starts a session and brings it to the caller's initial state.
    async fn session(&self, caller: Caller) -> ClientSession {
        let service = match caller {
            Caller::Stranger | Caller::Local => &self.services.reception,
            Caller::Upstream => &self.services.lmtp,
            _ => &self.services.submission,
        };
        let (stream, theirs) = Stream::duplex(1 << 16);
        let mut served = JoinSet::new();
        served.spawn(smtp::connection::serve(
            theirs,
            caller.peer(),
            Arc::clone(service),
            SessionTermination::default(),
        ));
        let mut talk = ClientSession { stream, received_bytes: Vec::new(), caller, _served: served };
        assert_eq!(talk.reply().await, "220");
        let hello = if caller == Caller::Upstream { "LHLO c.test" } else { "EHLO c.test" };
        assert_eq!(talk.ask(hello).await, "250");
        if caller.logs_in() {
            let is_let_in = !matches!(caller, Caller::Disabled | Caller::Denied);
            let expected = if is_let_in { "235 2.7.0" } else { "535 5.7.13" };
            assert_eq!(talk.ask("AUTH PLAIN right").await, expected, "{caller:?}");
        }
        talk
    }

    /// Sends the lines of a row and returns the reply to the last one.
    async fn play(&self, caller: Caller, lines: &str) -> String {
        let mut talk = self.session(caller).await;
        match caller {
            Caller::Gone => self.set_disabled("gone", true),
            Caller::Barred => self.deny("barred", true),
            _ => {}
        }
        let mut reply = String::new();
        for line in lines.split(" / ") {
            reply = if line.ends_with('.') && reply != "354" { continue } else { talk.ask(line).await };
        }
        match caller {
            Caller::Gone => self.set_disabled("gone", false),
            Caller::Barred => self.deny("barred", false),
            _ => {}
        }
        reply
    }
}

/// The client side of a session.
struct ClientSession {
    stream: Stream,
    received_bytes: Vec<u8>,
    caller: Caller,
    /// The task of the server side; it ends when this value is dropped.
    _served: JoinSet<smtp::Result<()>>,
}

impl ClientSession {
    async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.received_bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received_bytes.drain(..=end).collect();
                return String::from_utf8(line).expect("replies are text").trim_end().to_owned();
            }
            let received = self.stream.receive(&mut self.received_bytes).await.expect("a connection in memory");
            assert_ne!(received, 0, "the server keeps the connection of {:?} open", self.caller);
        }
    }

    /// Returns the code and the status of the next reply.
    async fn reply(&mut self) -> String {
        loop {
            let line = self.line().await;
            if line.as_bytes().get(3) != Some(&b'-') {
                let is_status = |word: &&str| word.split('.').filter(|part| part.parse::<u16>().is_ok()).count() == 3;
                let mut words = line.split(' ');
                let code = words.next().expect("a reply begins with its code").to_owned();
                return words.next().filter(is_status).map_or(code.clone(), |status| format!("{code} {status}"));
            }
        }
    }

    async fn ask(&mut self, line: &str) -> String {
        let line = line.replace("$own", &self.caller.address("")).replace("$alias", &self.caller.address(".alias"));
        let account = self.caller.account();
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let line = match words.as_slice() {
            ["AUTH", "PLAIN", credentials] => {
                let (acts_for, password) = match *credentials {
                    "right" => ("", PASSWORD),
                    "wrong" => ("", "sesame"),
                    "for-another" => ("bob", PASSWORD),
                    other => panic!("unknown password name {other}"),
                };
                format!("AUTH PLAIN {}\r\n", STANDARD.encode(format!("{acts_for}\0{account}@acme.test\0{password}")))
            }
            ["BDAT", ..] => {
                let chunk = text_of(line.trim_start_matches("BDAT "));
                format!("BDAT {} LAST\r\n{chunk}", chunk.len())
            }
            _ if line.ends_with('.') => format!("{}.\r\n", text_of(line.trim_end_matches('.'))),
            _ => format!("{line}\r\n"),
        };
        self.stream.write_all(line.as_bytes()).await.expect("a connection in memory");
        self.reply().await
    }
}

/// Returns a message with the given header fields, which are separated by `, `.
fn text_of(fields: &str) -> String {
    format!("{}\r\nSubject: x\r\n\r\nHello.\r\n", fields.replace(", ", "\r\n"))
}

/// Returns the rows: the lines to send, and the expected reply for each caller.
fn rows() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| {
        let mut cells = line.split('|').map(str::trim);
        (cells.next().expect("a line has a first cell"), cells.collect::<Vec<_>>())
    });
    let (_, header) = lines.next().expect("the table has a header");
    assert_eq!(header, Caller::ALL.map(Caller::name), "each caller has a column");
    lines.collect()
}

#[tokio::test]
async fn every_verb_replies_as_the_table_requires() {
    let own = TestServer::new("own");
    let any = TestServer::new("any");
    let mut wrong = Vec::new();
    for (lines, replies) in rows() {
        assert_eq!(replies.len(), Caller::ALL.len(), "{lines}");
        for (caller, expected) in Caller::ALL.into_iter().zip(replies) {
            let world = if caller == Caller::Any { &any } else { &own };
            let before = world.taken();
            let reply = world.play(caller, lines).await;
            if reply != expected {
                wrong.push(format!("{}: {lines}: {reply} instead of {expected}", caller.name()));
            }
            let is_message = lines.contains("/ BDAT") || lines.ends_with('.');
            let taken = u64::from(is_message && reply.starts_with("250"));
            assert_eq!(world.taken() - before, taken, "{caller:?}: {lines}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Checks that the ACL of a mail file, which limits its owner, does not affect delivery or sending: the server performs
/// both.
#[tokio::test]
async fn delivery_and_submission_ignore_the_acl_of_the_mail_file() {
    let world = TestServer::new("own");
    let itself = Arc::new(notes::Identity::local_server(""));
    let files = ["mail/ann.nsf", "mail/bob.nsf"]
        .map(|path| world.server.instance.mail.open_as_server(path).expect("the mail file exists"));
    let count = |file: &mail::mailbox::MailFile| {
        let snapshot = file.snapshot().expect("a snapshot");
        let inbox = snapshot.folder("INBOX").expect("a lookup").expect("an inbox");
        snapshot.status(inbox.id).expect("a lookup").messages
    };
    for (sent, level) in (1..).zip(notes::AclLevel::ALL) {
        for file in &files {
            let access: notes::Access<notes::level::Depositor> =
                file.database().authorize(&itself).expect("the server has access");
            let mut acl = notes::Acl::open_to_all(level);
            acl.max_internet_access = level;
            let accesses = [&access];
            let mut transaction = world.server.instance.databases.transaction(&accesses).expect("the store works");
            transaction.writer(0).acl_set(acl).expect("the server has access");
            transaction.commit().expect("the store works");
        }
        let taken = "250 2.0.0";
        let to_ann = "MAIL FROM:<$own> / RCPT TO:<ann@acme.test> / BDAT From: $own";
        assert_eq!(world.play(Caller::Stranger, to_ann).await, taken, "{level}");
        let to_bob = "MAIL FROM:<$own> / RCPT TO:<bob@acme.test> / BDAT From: $own";
        assert_eq!(world.play(Caller::User, to_bob).await, taken, "{level}");
        assert_eq!(files.each_ref().map(count), [sent, sent], "{level}");
    }
}

#[tokio::test]
async fn every_verb_sender_and_recipient_has_a_row() {
    let world = TestServer::new("own");
    let mut verbs: BTreeSet<String> = BTreeSet::from(["WHAT".to_owned()]);
    for caller in [Caller::Stranger, Caller::Upstream, Caller::Tls] {
        let mut talk = world.session(caller).await;
        talk.stream.write_all(b"HELP\r\n").await.expect("a connection in memory");
        assert_eq!(talk.line().await, "214-2.0.0 Commands:");
        verbs.extend(talk.line().await.split(' ').skip(2).map(str::to_owned));
    }
    let rows = rows();
    let lines: Vec<&str> =
        rows.iter().map(|(lines, _)| lines.rsplit(" / ").next().expect("a split has at least one part")).collect();
    let verb = |line: &&str| line.split(' ').next().filter(|_| !line.ends_with('.')).map(str::to_owned);
    assert_eq!(lines.iter().filter_map(verb).collect::<BTreeSet<_>>(), verbs);
    for line in SENDERS
        .iter()
        .map(|it| format!("MAIL FROM:<{it}>"))
        .chain(RECIPIENTS.iter().map(|it| format!("RCPT TO:<{it}>")))
    {
        assert!(lines.contains(&line.as_str()), "{line} has no row");
    }
}
