//! Every key of the configuration, once: name, kind, default, range and meaning.
//!
//! The table below makes three things: the structs that the rest of the program reads ([`Config`] and one struct a section),
//! the list [`KEYS`] for `doublet config` and for the documentation, and the second stage ([`Config::check`]) that turns
//! what was said into values. A key cannot be in one of them and not in the others.

use std::path::PathBuf;

use super::raw::{Raw, RawValue, Source};
use super::setting::{
    AuthenticationPolicy, AutoCount, AutoSize, DamagedLog, Favor, IndexSchedule, Listen, ListenPath, LogFormat,
    LogLevel, OptionalHost, OptionalPath, SenderPolicy, Setting, SyncMode,
};
use super::units::{ByteSize, Span};
use super::{Problem, suggest};

/// What is known about a key besides its value.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The section and the name with a dot between.
    pub name: &'static str,
    /// What values it takes.
    pub kind: &'static str,
    /// The value when nobody sets it, as it would stand in the file.
    pub default: &'static str,
    /// The smallest and the largest value; empty where there are no bounds.
    pub range: &'static [&'static str],
    /// What it means, in the words of the documentation.
    pub meaning: &'static [&'static str],
}

/// A section: its name and what it is about.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// The name, as it stands in brackets in the file.
    pub name: &'static str,
    /// What its keys have in common.
    pub meaning: &'static [&'static str],
}

/// A key's effective value, as `doublet config show` prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The dotted name.
    pub name: &'static str,
    /// The value in the form that the file takes.
    pub value: String,
    /// Who has set it.
    pub source: Source,
}

macro_rules! configuration {
    ($(
        $(#[doc = $about:literal])+
        $section:ident: $Section:ident {
            $( $(#[doc = $meaning:literal])+ $key:ident: $Type:ty = $default:literal $(in [$low:literal, $high:literal])?; )+
        }
    )+) => {
        /// The configuration, checked.
        #[derive(Debug, Clone)]
        pub struct Config {
            $( $(#[doc = $about])+ pub $section: $Section, )+
            /// Who has set which key; what is missing has its default.
            pub sources: Vec<(&'static str, Source)>,
        }

        $(
            $(#[doc = $about])+
            #[derive(Debug, Clone)]
            pub struct $Section {
                $( $(#[doc = $meaning])+ pub $key: $Type, )+
            }
        )+

        /// All sections in the order of the documentation.
        pub const SECTIONS: &[Section] = &[
            $( Section { name: stringify!($section), meaning: &[$($about),+] }, )+
        ];

        /// All keys in the order of the documentation.
        pub const KEYS: &[Key] = &[
            $( $( Key {
                name: concat!(stringify!($section), ".", stringify!($key)),
                kind: <$Type as Setting>::KIND,
                default: $default,
                range: &[$($low, $high)?],
                meaning: &[$($meaning),+],
            }, )+ )+
        ];

        impl Config {
            /// Turns what was said into values, and tells everything that is wrong with it. What is wrong has its default, so that the
            /// rest can be looked at.
            pub fn check(raw: &Raw) -> (Self, Vec<Problem>) {
                let mut stage = Stage { raw, problems: unknown_keys(raw), sources: Vec::new() };
                $(
                    let $section = $Section {
                        $( $key: stage.value::<$Type>(concat!(stringify!($section), ".", stringify!($key))), )+
                    };
                )+
                (Self { $($section,)+ sources: stage.sources }, stage.problems)
            }

            /// Gives every key with its effective value.
            #[must_use]
            pub fn effective(&self) -> Vec<Effective> {
                let values = [
                    $( $( (concat!(stringify!($section), ".", stringify!($key)), self.$section.$key.show()), )+ )+
                ];
                let source = |name| self.sources.iter().find(|(key, _)| *key == name).map(|(_, source)| *source);
                values
                    .into_iter()
                    .map(|(name, value)| Effective { name, value, source: source(name).unwrap_or(Source::Default) })
                    .collect()
            }
        }
    };
}

configuration! {
    /// The server as a whole.
    server: ServerKeys {
        /// The name by which the server introduces itself to others, fully qualified. `auto` takes the machine's name.
        name: String = "auto";
        /// The mail domain of addresses that name none, such as a bare `postmaster`. `auto` takes the first domain of the directory.
        domain: String = "auto";
        /// The organisation (`O=`) in the names of people and servers that are made here.
        organization: String = "Doublet";
        /// The name servers to ask, as `address` or `address:port`, with commas between them. Empty: those of the machine's settings.
        name_servers: String = "";
        /// The folder of everything that the server keeps. `--data` says it on the command line.
        data: PathBuf = "/var/lib/doublet";
        /// Worker threads that run the transactions of all protocols. `auto` is twice the number of processors, at least 4.
        pool_tasks: AutoCount = "auto" in ["1", "1024"];
        /// Transactions that may wait for a worker before their connections have to wait.
        pool_queue: u64 = "4096" in ["16", "1000000"];
        /// Threads that serve sockets. `auto` is the number of processors.
        network_threads: AutoCount = "auto" in ["1", "256"];
        /// How long connections may finish what they are at when the server ends.
        shutdown_time: Span = "20s" in ["0s", "1h"];
    }
    /// What the server writes about itself, to standard error.
    log: LogKeys {
        /// The form of a line.
        format: LogFormat = "human";
        /// The least important kind of line that is written.
        level: LogLevel = "info";
        /// Exceptions by part of the program, as in `imap=debug,mail::router=trace`.
        filter: String = "";
    }
    /// Where the server listens. Port 0 takes any free port; `listeners.json` in the data folder says which.
    listen: ListenKeys {
        /// Mail from other servers (SMTP, STARTTLS).
        smtp: Listen = "*:25";
        /// Mail from users (SMTP, STARTTLS).
        submission: Listen = "*:587";
        /// Mail from users (SMTP, TLS from the first byte).
        submission_tls: Listen = "*:465";
        /// IMAP (STARTTLS).
        imap: Listen = "*:143";
        /// IMAP (TLS from the first byte).
        imap_tls: Listen = "*:993";
        /// POP3 (STLS).
        pop3: Listen = "*:110";
        /// POP3 (TLS from the first byte).
        pop3_tls: Listen = "*:995";
        /// The native protocol (gRPC, TLS from the first byte).
        native: Listen = "*:1352";
        /// LMTP over a local socket, for another mail server on this machine. A relative path lies in the data folder. Who can reach the socket's folder may deliver.
        lmtp: ListenPath = "off";
        /// Health and statistics over HTTP. There is no authentication: keep it on loopback.
        admin: Listen = "127.0.0.1:8080";
    }
    /// Encryption. Without a certificate of its own the server makes one that nobody has signed.
    tls: TlsKeys {
        /// The certificate and those that lead to its root, in one PEM file. Empty: `tls/certificate.pem` in the data folder.
        certificate: OptionalPath = "";
        /// The certificate's private key in PEM form. Empty: `tls/key.pem` in the data folder.
        key: OptionalPath = "";
        /// The certificates that sign those of other servers, in one PEM file: who shows one over the native protocol calls as the server that it names. Empty: nobody.
        peers: OptionalPath = "";
    }
    /// The store: one for all databases.
    store: StoreKeys {
        /// The folder of the transaction log; best on a device of its own. Empty: in the data folder.
        log_folder: OptionalPath = "";
        /// How large the log may grow before the store writes a checkpoint. `auto` leaves it to `favor`: 1 GiB, 256 MiB or 64 MiB.
        log_size_max: AutoSize = "auto" in ["16MiB", "1TiB"];
        /// When a change counts as done. Anything but `group` is for comparisons.
        sync: SyncMode = "group";
        /// Whether the store favours work (`runtime`) or a fast start after a crash (`restart`).
        favor: Favor = "standard";
        /// Memory for blocks of the store that were read lately.
        cache: ByteSize = "256MiB" in ["8MiB", "1TiB"];
        /// Memory for changes that are in the log but not yet in a table.
        write_buffer: ByteSize = "192MiB" in ["12MiB", "64GiB"];
        /// Files of the store that are held open at most.
        open_files: u64 = "512" in ["64", "100000"];
        /// What to do when the log is missing, or damaged so that acknowledged changes are lost: `refuse` to start, or start without them (`drop-tail`), when there is no backup to go back to.
        damaged_log: DamagedLog = "refuse";
        /// Free space below which changes are refused, so that the store can still tidy up.
        disk_reserve: ByteSize = "256MiB" in ["0B", "1TiB"];
    }
    /// Attachments and other large parts, kept once each.
    blobs: BlobKeys {
        /// The size from which a part is kept apart from its message.
        threshold: ByteSize = "4KiB" in ["256B", "1GiB"];
        /// Whether new content is encrypted at rest. Once switched on it stays on: the store then opens only with its key.
        encryption: bool = "false";
        /// The file of the encryption key. It is made when encryption is switched on, and never when encrypted content is there already. Empty: `keys/blobs.key` in the data folder. Without it encrypted content is lost.
        key_file: OptionalPath = "";
        /// How long content stays after its last user has gone.
        grace: Span = "1w" in ["0s", "52w"];
        /// How hard content is compressed (Zstandard level), where that pays.
        compression: u64 = "1" in ["1", "19"];
    }
    /// What one peer, or all together, may demand.
    limits: LimitKeys {
        /// Connections of all protocols together.
        connections: u64 = "20000" in ["1", "1000000"];
        /// Connections from one address (IPv6: one /64). This machine's own addresses do not count.
        connections_per_address: u64 = "100" in ["1", "1000000"];
        /// The largest message that is taken.
        message_size: ByteSize = "64MiB" in ["64KiB", "256MiB"];
        /// The most recipients of one message.
        recipients: u64 = "1000" in ["100", "100000"];
    }
    /// People and their passwords.
    directory: DirectoryKeys {
        /// Memory for names that were looked up lately.
        name_cache: ByteSize = "16MiB" in ["64KiB", "16GiB"];
        /// Memory that the computation of one password hash takes (argon2id).
        password_memory: ByteSize = "19MiB" in ["8KiB", "4GiB"];
        /// Rounds of the computation of one password hash (argon2id).
        password_rounds: u64 = "2" in ["1", "100"];
        /// Whether SCRAM-SHA-256 is offered, and new passwords get keys for it. Without it clients log in with PLAIN and LOGIN.
        scram: bool = "true";
        /// The shortest password that can be set, in characters.
        password_length: u64 = "8" in ["1", "128"];
        /// Failed logins of one account that cost it no waiting. From then on the wait doubles with each.
        login_failures: u64 = "10" in ["1", "1000000"];
        /// Failed logins from one address (IPv6: one /64) that cost it no waiting.
        login_failures_per_address: u64 = "50" in ["1", "1000000"];
        /// The longest time that an account or address has to wait.
        login_wait: Span = "15min" in ["1s", "1d"];
    }
    /// SMTP and LMTP.
    smtp: SmtpKeys {
        /// How long a stranger waits for the greeting. Who talks before it is refused.
        greet_delay: Span = "0s" in ["0s", "30s"];
        /// What is done with SPF, DKIM and DMARC of incoming mail. With `enforce`, what cannot be checked now is put off.
        authentication: AuthenticationPolicy = "record";
        /// How long a peer may be silent.
        idle_timeout: Span = "5min" in ["5s", "1h"];
        /// Failed commands after which a peer is cut off.
        errors: u64 = "20" in ["1", "1000"];
        /// Messages over one connection.
        messages_per_connection: u64 = "1000" in ["1", "1000000"];
    }
    /// Mail from users, who log in to send it.
    submission: SubmissionKeys {
        /// Whose addresses users may send with, in the envelope and in the `From` field: their `own`, or `any`.
        sender: SenderPolicy = "own";
    }
    /// The router: delivery and the queue.
    router: RouterKeys {
        /// The number of mail.box databases that share the queue.
        mailboxes: u64 = "2" in ["1", "16"];
        /// Queued messages from which mail from others is put off.
        queue: u64 = "100000" in ["10", "10000000"];
        /// The pause after the first failed attempt to reach another server. Each further one is twice as long.
        retry_first: Span = "5min" in ["1s", "1d"];
        /// The longest pause between two attempts.
        retry_max: Span = "4h" in ["1s", "1w"];
        /// How long delivery is tried before the sender gets the message back.
        expiry: Span = "5d" in ["1min", "30d"];
        /// How long delivery fails before the sender is told of the delay; 0 tells nobody.
        delay_warning: Span = "4h" in ["0s", "30d"];
        /// The server that takes all mail for others, as `host`, `host:port` or `[address]:port`. Empty: mail goes directly to its destination.
        smart_host: OptionalHost = "";
        /// The user name for the smart host. Empty: no login.
        smart_host_user: String = "";
        /// The file with the password for the smart host.
        smart_host_password_file: OptionalPath = "";
        /// Whether mail to the smart host may only go encrypted and to a server with a valid certificate. Not asked of one on this machine.
        smart_host_verify: bool = "true";
        /// The certificates that are trusted for that, in one PEM file.
        roots: PathBuf = "/etc/ssl/certs/ca-certificates.crt";
        /// Outgoing connections at a time. Domains whose servers keep us waiting get half of them.
        connections: u64 = "50" in ["1", "10000"];
        /// Outgoing connections to one destination (a domain, or the smart host) at a time.
        connections_per_destination: u64 = "5" in ["1", "1000"];
        /// The port of other servers.
        port: u64 = "25" in ["1", "65535"];
        /// Whether mail for other servers is sent at all, or stays in the queue until it is.
        outbound: bool = "true";
    }
    /// IMAP.
    imap: ImapKeys {
        /// How long a peer that has logged in may be silent. IDLE counts as silence unless the client renews it.
        idle_timeout: Span = "30min" in ["1min", "1d"];
        /// How long a peer may take to log in.
        login_timeout: Span = "3min" in ["5s", "1h"];
        /// Commands in a row that are unknown, malformed or out of place, after which a peer is cut off.
        errors: u64 = "20" in ["1", "1000"];
        /// Failed logins of one connection after which a peer is cut off.
        login_failures: u64 = "3" in ["1", "1000"];
        /// Whether COMPRESS=DEFLATE is offered.
        compression: bool = "true";
    }
    /// POP3.
    pop3: Pop3Keys {
        /// How long a peer may be silent.
        idle_timeout: Span = "10min" in ["10s", "1d"];
    }
    /// Full-text search.
    full_text: FullTextKeys {
        /// Whether the server keeps the indexes up to date by itself. `doublet db index` does it in any case.
        update: bool = "true";
        /// When the index of a mail file that is made from now on is brought up to date. `off`: it has none.
        new_mail_files: IndexSchedule = "off";
        /// The hour of the day (UTC) in which daily indexes are brought up to date, unless the database names another.
        daily_hour: u64 = "3" in ["0", "23"];
        /// Whether the indexes of mail files also tell IMAP which messages need not be read to be searched. Those that were indexed while it was off are read, until `doublet db index PATH --rebuild`.
        imap_search: bool = "true";
        /// How long a change rests before the index of its database is brought up to date (FTUpdate_Idle_Time).
        delay: Span = "5s" in ["0s", "1h"];
        /// How long the server rests after it has brought the index of a database up to date (Update_Idle_Time).
        idle_time: Span = "0s" in ["0s", "1h"];
        /// Threads that index.
        threads: u64 = "1" in ["1", "8"];
        /// Memory that each of them takes while it does.
        memory: ByteSize = "64MiB" in ["16MiB", "4GiB"];
        /// Whether the text of PDFs is read, by a process of its own with limits.
        pdf: bool = "true";
    }
    /// The native protocol.
    native: NativeKeys {
        /// How long a session may be silent.
        idle_timeout: Span = "30min" in ["1min", "1w"];
        /// How long a session lasts at most.
        session_time: Span = "1d" in ["1min", "30d"];
        /// Sessions of one account. One more ends the one that was silent longest.
        sessions_per_account: u64 = "100" in ["1", "100000"];
        /// Sessions of all accounts together.
        sessions: u64 = "100000" in ["10", "10000000"];
        /// The longest time that one call takes. Clients may ask for less.
        call_timeout: Span = "1min" in ["1s", "1h"];
        /// Who may make databases over it: addresses, names, groups and wildcards such as `*/Acme`, separated by commas. They manage what they make. Empty: nobody.
        database_makers: String = "";
        /// Whether replies are compressed (gzip) for clients that take it.
        compression: bool = "true";
    }
    /// Views, and the task that keeps their indexes up to date.
    views: ViewKeys {
        /// How long a database that changed waits until its views are updated; what changes meanwhile is done in one go.
        suppression_time: Span = "15min" in ["0s", "1d"];
        /// The rest between two databases.
        idle_time: Span = "5s" in ["0s", "1h"];
        /// Databases that may wait. What comes when so many wait is updated when somebody opens it.
        queue: u64 = "20000" in ["16", "10000000"];
        /// Where the rows of a view are sorted that is built anew and larger than the memory below, best a fast disk. Empty: in the data folder.
        rebuild_folder: OptionalPath = "";
        /// Memory for sorting.
        rebuild_memory: ByteSize = "64MiB" in ["1MiB", "16GiB"];
    }
    /// Work in the background.
    tasks: TaskKeys {
        /// Pause between searches for content that nobody uses any more.
        blob_collection: Span = "1h" in ["1min", "1w"];
        /// Pause between purges of deletion stubs that are older than their database's purge interval.
        stub_purge: Span = "1d" in ["1min", "30d"];
        /// Pause between looks for open databases that nobody uses; closing them gives memory back.
        idle_databases: Span = "10min" in ["1s", "1d"];
    }
}

/// The second stage at work: what was said, what was found wrong.
struct Stage<'a> {
    raw: &'a Raw,
    problems: Vec<Problem>,
    sources: Vec<(&'static str, Source)>,
}

impl Stage<'_> {
    fn value<T: Setting>(&mut self, name: &'static str) -> T {
        let key = KEYS.iter().find(|key| key.name == name).expect("the macro makes both from one table");
        let given = self.raw.get(name);
        let read = match given {
            Some(RawValue { texts, .. }) => T::read_list(texts),
            None => T::read(key.default),
        };
        let value = read.and_then(|value| in_range(value, key));
        if let Some(RawValue { source, .. }) = given {
            self.sources.push((name, *source));
        }
        value.unwrap_or_else(|text| {
            let line = given.and_then(|raw| raw.source.line());
            self.problems.push(Problem { key: name.to_owned(), line, text });
            T::read(key.default).expect("a test reads every default")
        })
    }
}

fn in_range<T: Setting>(value: T, key: &Key) -> Result<T, String> {
    let [low, high] = key.range else {
        return Ok(value);
    };
    let bounds = (T::read(low)?.extent(), T::read(high)?.extent());
    match (value.extent(), bounds) {
        (Some((least, most)), (Some((low_value, _)), Some((_, high_value))))
            if least < low_value || most > high_value =>
        {
            Err(format!("{} is out of range; it may be {low} to {high}", value.show()))
        }
        _ => Ok(value),
    }
}

fn unknown_keys(raw: &Raw) -> Vec<Problem> {
    let unknown = raw.iter().filter(|(name, _)| KEYS.iter().all(|key| key.name != *name));
    unknown.map(|(name, value)| Problem { key: name.clone(), line: value.source.line(), text: suggest(name) }).collect()
}
