//! The table of all configuration keys: name, kind, default, range and meaning.
//!
//! The table generates three things: the structs that the rest of the program reads ([`Config`] and one struct for each
//! section), the list [`KEYS`] for `doublet config` and the documentation, and the second stage ([`Config::check`]),
//! which turns the given texts into values. Because all three come from one table, a key cannot be present in one and
//! missing in another.

use std::path::PathBuf;

use super::load::unknown_key_error;
use super::problem::Problem;
use super::raw::{RawConfig, RawValue, ValueSource};
use super::setting::{
    AuthenticationPolicy, AutoCount, AutoSize, BlobCodec, DamagedLog, Favor, IndexSchedule, ListenAddresses,
    ListenPath, LocalSenderPolicy, LogFormat, LogLevel, NetworkList, OptionalHost, OptionalPath, SenderPolicy, Setting,
    SyncMode, TableCodec,
};
use super::units::{ByteSize, ConfigDuration};

/// The description of a key, without its value.
#[derive(Debug, Clone, Copy)]
pub struct ConfigKey {
    /// The section and the key name, separated by a dot.
    pub name: &'static str,
    /// The kind of value that the key takes.
    pub kind: &'static str,
    /// The default value, in the form that it has in the file.
    pub default: &'static str,
    /// The smallest and the largest value; empty if the key has no bounds.
    pub range: &'static [&'static str],
    /// The key's meaning, as the documentation prints it; one element for each source line.
    pub description: &'static [&'static str],
}

/// A section: its name and its subject.
#[derive(Debug, Clone, Copy)]
pub struct ConfigSection {
    /// The name, as it stands in brackets in the file.
    pub name: &'static str,
    /// The subject that the section's keys share; one element for each source line.
    pub meaning: &'static [&'static str],
}

/// A key's effective value, as `doublet config show` prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveValue {
    /// The dotted name.
    pub name: &'static str,
    /// The value, in the form that it has in the file.
    pub value: String,
    /// The origin of the value.
    pub source: ValueSource,
}

macro_rules! configuration {
    ($(
        $(#[doc = $about:literal])+
        $section:ident: $Section:ident {
            $( $(#[doc = $meaning:literal])+ $key:ident: $Type:ty = $default:literal $(in [$low:literal, $high:literal])?; )+
        }
    )+) => {
        /// The checked configuration.
        #[derive(Debug, Clone)]
        pub struct Config {
            $( $(#[doc = $about])+ pub $section: $Section, )+
            /// The origin of every key that was set. Keys that are missing here have their default.
            pub sources: Vec<(&'static str, ValueSource)>,
            /// Warnings: old names of renamed keys that were used.
            pub warnings: Vec<Problem>,
        }

        $(
            $(#[doc = $about])+
            #[derive(Debug, Clone)]
            pub struct $Section {
                $( $(#[doc = $meaning])+ pub $key: $Type, )+
            }
        )+

        /// All sections, in the order of the documentation.
        pub const SECTIONS: &[ConfigSection] = &[
            $( ConfigSection { name: stringify!($section), meaning: &[$($about),+] }, )+
        ];

        /// All keys, in the order of the documentation.
        pub const KEYS: &[ConfigKey] = &[
            $( $( ConfigKey {
                name: concat!(stringify!($section), ".", stringify!($key)),
                kind: <$Type as Setting>::KIND,
                default: $default,
                range: &[$($low, $high)?],
                description: &[$($meaning),+],
            }, )+ )+
        ];

        impl Config {
            /// Converts the given texts to values and returns all problems found. A key with a wrong value gets its
            /// default, so that the rest can be checked.
            pub fn check(raw: &RawConfig) -> (Self, Vec<Problem>) {
                let mut checker = Checker { raw, problems: unknown_keys(raw), sources: Vec::new() };
                $(
                    let $section = $Section {
                        $( $key: checker.read_value::<$Type>(concat!(stringify!($section), ".", stringify!($key))), )+
                    };
                )+
                (Self { $($section,)+ sources: checker.sources, warnings: Vec::new() }, checker.problems)
            }

            /// Returns every key with its effective value.
            #[must_use]
            pub fn effective(&self) -> Vec<EffectiveValue> {
                let values = [
                    $( $( (concat!(stringify!($section), ".", stringify!($key)), self.$section.$key.show()), )+ )+
                ];
                let given = |name| self.sources.iter().find(|(key, _)| *key == name).map(|(_, source)| *source);
                let effective = |(name, value)| {
                    EffectiveValue { name, value, source: given(name).unwrap_or(ValueSource::Default) }
                };
                values.into_iter().map(effective).collect()
            }
        }
    };
}

configuration! {
    /// General settings of the server.
    server: ServerKeys {
        /// The fully qualified host name with which the server identifies itself to other hosts. `auto` uses the host
        /// name of the machine.
        name: String = "auto";
        /// The mail domain of addresses without a domain, such as a bare `postmaster`. `auto` uses the first domain of
        /// the directory.
        domain: String = "auto";
        /// The organization (`O=`) in the names of people and servers created on this server.
        organization: String = "Doublet";
        /// The name servers to query, as `address` or `address:port`, separated by commas. Empty: those of the
        /// machine's settings.
        name_servers: String = "";
        /// The folder that holds all of the server's data. `--data` on the command line overrides it.
        data: PathBuf = "/var/lib/doublet";
        /// Memory for connections, caches, buffers and messages in transit, all together. Sizes that other keys set are
        /// taken from it, and the rest is divided among those that are `auto` (`docs/operating.md`). `auto` is half of
        /// the memory of the machine or of its control group, but not more than all parts need at their full size.
        memory: AutoSize = "auto" in ["384MiB", "16TiB"];
        /// Number of worker threads that run the transactions of all protocols. `auto` is twice the number of
        /// processors, at least 4. An account uses at most half of them while others wait, and never all.
        pool_tasks: AutoCount = "auto" in ["1", "1024"];
        /// Maximum number of transactions of one account, or of one address before its login, that wait for a worker.
        /// Beyond that, they are refused.
        pool_queue: u64 = "4096" in ["16", "1000000"];
        /// Number of threads that serve sockets. `auto` is half the number of processors, rounded up.
        network_threads: AutoCount = "auto" in ["1", "256"];
        /// Time that connections have to finish their current work when the server shuts down.
        shutdown_time: ConfigDuration = "20s" in ["0s", "1h"];
    }
    /// The server's log, written to standard error.
    log: LogKeys {
        /// The format of log lines.
        format: LogFormat = "human";
        /// The lowest severity that is logged.
        level: LogLevel = "info";
        /// Different levels for parts of the program, such as `imap=debug,wire=debug`.
        filter: String = "";
    }
    /// Addresses on which the server listens. Port 0 takes any free port; `listeners.json` in the data folder names the
    /// ports in use.
    listen: ListenKeys {
        /// Mail from other servers (SMTP, STARTTLS).
        smtp: ListenAddresses = "*:25";
        /// Mail from users (SMTP, STARTTLS).
        submission: ListenAddresses = "*:587";
        /// Mail from users (SMTP, TLS from the first byte).
        submission_tls: ListenAddresses = "*:465";
        /// IMAP (STARTTLS).
        imap: ListenAddresses = "*:143";
        /// IMAP (TLS from the first byte).
        imap_tls: ListenAddresses = "*:993";
        /// POP3 (STLS).
        pop3: ListenAddresses = "*:110";
        /// POP3 (TLS from the first byte).
        pop3_tls: ListenAddresses = "*:995";
        /// The native protocol (gRPC, TLS from the first byte).
        native: ListenAddresses = "*:1352";
        /// CouchDB's replication protocol (HTTP, TLS from the first byte), for the databases that are open to it
        /// (`doublet db set PATH --couchdb on`). CouchDB itself uses port 6984.
        couchdb: ListenAddresses = "off";
        /// Web mail and JMAP without encryption. Only clients on this machine are served; all others are redirected to
        /// `listen.https`.
        http: ListenAddresses = "*:80";
        /// Web mail and JMAP (HTTP, TLS from the first byte).
        https: ListenAddresses = "*:443";
        /// LMTP over a local socket, for another mail server on this machine. A relative path is resolved in the data
        /// folder, which only the server's own user can enter; for the mail server of another user, choose a path
        /// outside of it, such as /run/doublet/lmtp.sock. Every process that can reach the socket's folder can deliver
        /// mail.
        lmtp: ListenPath = "off";
        /// Health and statistics over HTTP. There is no authentication: keep it on loopback.
        admin: ListenAddresses = "127.0.0.1:8080";
    }
    /// TLS. If no certificate is configured, the server creates a self-signed one.
    tls: TlsKeys {
        /// The certificate, followed by the intermediate certificates up to its root, in one PEM file. Empty:
        /// `tls/certificate.pem` in the data folder.
        certificate: OptionalPath = "";
        /// The certificate's private key in PEM form. Empty: `tls/key.pem` in the data folder.
        key: OptionalPath = "";
        /// The certificate authorities of other servers, in one PEM file. A peer that presents a certificate signed by
        /// one of them over the native protocol is authenticated as the server that the certificate names, which may be
        /// any except this server. List only authorities that issue certificates for your servers alone. Empty: no peer
        /// is authenticated by certificate.
        peers: OptionalPath = "";
    }
    /// The store that holds all databases.
    store: StoreKeys {
        /// The folder of the transaction log, ideally on a separate device. Empty: in the data folder.
        log_folder: OptionalPath = "";
        /// Maximum size of the log before the store writes a checkpoint. With `auto`, `favor` decides: 1 GiB, 256 MiB
        /// or 64 MiB.
        log_size_max: AutoSize = "auto" in ["16MiB", "1TiB"];
        /// The point at which a change counts as durable. All values other than `group` are for comparisons.
        sync: SyncMode = "group";
        /// The store's priority: throughput (`runtime`) or a fast start after a crash (`restart`).
        favor: Favor = "standard";
        /// Memory for the cache of recently read blocks of the store. `auto` is a share of `server.memory`: 256 MiB
        /// unless memory is scarce, or more if `server.memory` is set to more than all parts need.
        cache: AutoSize = "auto" in ["8MiB", "1TiB"];
        /// Memory for changes that are in the log but not yet in a table. `auto` is a share of `server.memory`: 192 MiB
        /// unless memory is scarce.
        write_buffer: AutoSize = "auto" in ["12MiB", "64GiB"];
        /// Compression of documents and designs (the tables `summary` and `body`), as they are written and rewritten.
        /// Data that is there stays readable; `doublet db compact` rewrites it. `auto`: LZ4, and Zstandard for data
        /// that has not changed for some time.
        document_compression: TableCodec = "auto";
        /// Compression of the indexes of views and folders (the tables `view`, `tree` and `viewback`), likewise.
        index_compression: TableCodec = "auto";
        /// Number of bytes that a scan of the store reads ahead. `auto`: nothing at first, and up to 256 KiB while a
        /// scan continues.
        read_ahead: AutoSize = "auto" in ["8KiB", "16MiB"];
        /// Maximum number of the store's table files that stay open. Lowered at the start if the system allows too few
        /// open files and sockets.
        open_files: u64 = "512" in ["64", "100000"];
        /// Number of open databases above which those that are not in use are closed (NSF_DbCache_MaxEntries). The
        /// others that are not in use are closed every `tasks.idle_databases`.
        open_databases: u64 = "10000" in ["1", "1000000"];
        /// The reaction to a log that is missing, or so damaged that acknowledged changes are lost: `refuse` to start,
        /// or start without the lost changes (`drop-tail`) if there is no backup to restore.
        damaged_log: DamagedLog = "refuse";
        /// Free disk space below which changes are refused, so that the store can still run compactions.
        disk_reserve: ByteSize = "256MiB" in ["0B", "1TiB"];
    }
    /// Attachments and other large parts, each stored only once.
    blobs: BlobKeys {
        /// Size from which a part is stored separately from its message.
        threshold: ByteSize = "4KiB" in ["256B", "1GiB"];
        /// Stores parts of new messages decoded (from base64 or quoted-printable) where the message can be restored
        /// byte for byte, so that an attachment is the same content in all messages. `false`: as they were sent.
        decode: bool = "true";
        /// Encrypts new content at rest. Encryption cannot be switched off again: the store then opens only with its
        /// key.
        encryption: bool = "false";
        /// The file of the encryption key. The server creates it when encryption is switched on, but never if encrypted
        /// content exists already. Empty: `keys/blobs.key` in the data folder. Without this file, encrypted content is
        /// lost.
        key_file: OptionalPath = "";
        /// Time that content is kept after its last reference has been removed.
        grace: ConfigDuration = "1w" in ["0s", "52w"];
        /// The codec with which new content is compressed. Content that is there stays readable. `lz4` cannot be
        /// combined with `encryption`.
        codec: BlobCodec = "zstd";
        /// Compression level (Zstandard) of content for which compression pays.
        compression: u64 = "1" in ["1", "19"];
        /// Memory for content that was written or partly read recently, uncompressed. `auto` is a share of
        /// `server.memory`: 32 MiB unless memory is scarce.
        cache: AutoSize = "auto" in ["0B", "64GiB"];
    }
    /// Limits for one peer and for all peers together.
    limits: LimitKeys {
        /// Maximum number of connections of all protocols together. `auto` is 20,000, or fewer if `server.memory` is
        /// scarce. Lowered at the start if the system allows too few open files and sockets.
        connections: AutoCount = "auto" in ["1", "1000000"];
        /// Maximum number of connections from one address (IPv6: one /64). Connections from the server's own machine do
        /// not count.
        connections_per_address: u64 = "100" in ["1", "1000000"];
        /// Maximum size of a message that the server accepts.
        message_size: ByteSize = "64MiB" in ["64KiB", "256MiB"];
        /// Memory for messages that are being received and for calls of the native protocol, of all peers together. If
        /// it is used up, further ones are refused with a temporary error. An account gets at most a quarter of it and
        /// an address (IPv6: one /64) a sixteenth, but each enough for one message of the maximum size. At least twice
        /// `message_size`. `auto` is a share of `server.memory`: 512 MiB unless memory is scarce.
        message_memory: AutoSize = "auto" in ["16MiB", "1TiB"];
        /// Maximum number of recipients of one message.
        recipients: u64 = "1000" in ["100", "100000"];
    }
    /// Accounts and their passwords.
    directory: DirectoryKeys {
        /// Memory for the cache of looked-up names. `auto` is a share of `server.memory`: 16 MiB unless memory is
        /// scarce.
        name_cache: AutoSize = "auto" in ["64KiB", "16GiB"];
        /// Memory used to compute one password hash (argon2id). Up to four hashes are computed at the same time.
        password_memory: ByteSize = "19MiB" in ["8KiB", "256MiB"];
        /// Number of passes used to compute one password hash (argon2id).
        password_rounds: u64 = "2" in ["1", "8"];
        /// Offers SCRAM-SHA-256 and creates its keys for new passwords. Without it, clients log in with PLAIN and
        /// LOGIN.
        scram: bool = "true";
        /// Minimum length of a new password, in characters.
        password_length: u64 = "8" in ["1", "128"];
        /// Number of failed logins of one account before a delay is imposed. After that, the delay doubles with each
        /// failure.
        login_failures: u64 = "10" in ["1", "1000000"];
        /// Number of failed logins from one address (IPv6: one /64) before a delay is imposed. It is four times as
        /// large for a /56 and sixteen times for a /48.
        login_failures_per_address: u64 = "50" in ["1", "1000000"];
        /// Maximum delay imposed on an account or address.
        login_wait: ConfigDuration = "15min" in ["1s", "1d"];
    }
    /// SMTP and LMTP.
    smtp: SmtpKeys {
        /// Delay before the greeting is sent to a client that is not authenticated. A client that sends data before the
        /// greeting is refused.
        greet_delay: ConfigDuration = "0s" in ["0s", "30s"];
        /// The use of SPF, DKIM and DMARC for incoming mail. With `enforce`, a message that cannot be checked now is
        /// deferred with a temporary error.
        authentication: AuthenticationPolicy = "record";
        /// The acceptance of mail from other servers whose envelope sender or `From` is in a local domain. `verified`:
        /// only if SPF or a DKIM signature of that domain passes. `any`: always.
        local_senders: LocalSenderPolicy = "verified";
        /// Servers that may send with local senders and authors without SPF or a signature, such as a backup mail
        /// exchanger or a printer, as `address` or `address/bits`.
        trusted_relays: NetworkList = "";
        /// Mailing lists on other servers that have local members, as the envelope sender of their mail or its domain,
        /// separated by commas. Their mail may have local authors if SPF of the envelope sender passes.
        trusted_lists: String = "";
        /// Maximum idle time of a connection.
        idle_timeout: ConfigDuration = "5min" in ["5s", "1h"];
        /// Number of failed commands after which a connection is closed.
        errors: u64 = "20" in ["1", "1000"];
        /// Maximum number of messages over one connection.
        messages_per_connection: u64 = "1000" in ["1", "1000000"];
    }
    /// Mail from users, who log in to send it.
    submission: SubmissionKeys {
        /// The sender addresses that users may use in the envelope and in the `From` field: their `own`, or `any`.
        sender: SenderPolicy = "own";
    }
    /// The router: delivery and the queue.
    router: RouterKeys {
        /// Number of mail.box databases that share the queue.
        mailboxes: u64 = "2" in ["1", "16"];
        /// Number of queued messages at which new mail is temporarily refused.
        queue: u64 = "100000" in ["10", "10000000"];
        /// Delay after the first failed attempt to reach another server. It doubles with each further attempt.
        retry_first: ConfigDuration = "5min" in ["1s", "1d"];
        /// Maximum delay between two attempts.
        retry_max: ConfigDuration = "4h" in ["1s", "1w"];
        /// Time after which delivery is given up and the sender receives a non-delivery report.
        expiry: ConfigDuration = "5d" in ["1min", "30d"];
        /// Time after which the sender is notified that delivery is delayed; 0 disables the notification.
        delay_warning: ConfigDuration = "4h" in ["0s", "30d"];
        /// Maximum number of delivery reports that one sender receives within an hour. Further failures stay in the
        /// queue as dead mail, and other reports are dropped.
        reports_per_sender: u64 = "100" in ["1", "1000000"];
        /// Maximum number of reports of successful delivery among them.
        success_reports_per_sender: u64 = "20" in ["0", "1000000"];
        /// The server to which all mail for other servers is sent, as `host`, `host:port` or `[address]:port`. Empty:
        /// mail goes directly to its destination.
        smart_host: OptionalHost = "";
        /// The user name for the smart host. Empty: no login.
        smart_host_user: String = "";
        /// The file with the password for the smart host.
        smart_host_password_file: OptionalPath = "";
        /// Requires TLS and a valid certificate for mail to the smart host. A smart host on this machine is exempt.
        smart_host_verify: bool = "true";
        /// Private and reserved networks to which mail is sent, as `address` or `address/bits`. Mail to other addresses
        /// that are not public, such as `[127.0.0.1]`, is refused. The smart host is exempt.
        special_networks: NetworkList = "";
        /// The trusted root certificates for verifying the smart host, in one PEM file.
        roots: PathBuf = "/etc/ssl/certs/ca-certificates.crt";
        /// Maximum number of simultaneous outgoing connections. Slow destinations get half of them together. Lowered at
        /// the start if the system allows too few open files and sockets.
        connections: u64 = "50" in ["1", "10000"];
        /// Maximum number of simultaneous outgoing connections to one destination (a domain, or the smart host).
        connections_per_destination: u64 = "5" in ["1", "1000"];
        /// The port of other servers.
        port: u64 = "25" in ["1", "65535"];
        /// Sends mail for other servers. If `false`, such mail stays in the queue until outbound delivery is switched
        /// on.
        outbound: bool = "true";
    }
    /// IMAP.
    imap: ImapKeys {
        /// Maximum idle time of a connection after login. IDLE counts as idle time unless the client renews it.
        idle_timeout: ConfigDuration = "30min" in ["1min", "1d"];
        /// Maximum time until a client has logged in.
        login_timeout: ConfigDuration = "3min" in ["5s", "1h"];
        /// Number of consecutive commands that are unknown, malformed or not allowed in the current state, after which
        /// a connection is closed.
        errors: u64 = "20" in ["1", "1000"];
        /// Number of failed logins after which a connection is closed.
        login_failures: u64 = "3" in ["1", "1000"];
        /// Offers COMPRESS=DEFLATE.
        compression: bool = "true";
        /// The number of this server among those that share the UIDs of replicated mail files, so that clients that
        /// change the server keep what they have loaded. Each server needs another one, for ever. 0: mailboxes have
        /// UIDs of their own on this server. Applies to mailboxes that are created from then on.
        uid_rank: u64 = "0" in ["0", "8"];
    }
    /// POP3.
    pop3: Pop3Keys {
        /// Maximum idle time of a connection.
        idle_timeout: ConfigDuration = "10min" in ["10s", "1d"];
    }
    /// Full-text search.
    full_text: FullTextKeys {
        /// Updates the indexes automatically. `doublet db index` updates them in any case.
        update: bool = "true";
        /// The update schedule for the indexes of mail files created from now on. `off`: new mail files have no index,
        /// and searches read the messages.
        new_mail_files: IndexSchedule = "immediate";
        /// The hour of the day (UTC) in which daily indexes are updated, unless the database specifies another one.
        daily_hour: u64 = "3" in ["0", "23"];
        /// Lets IMAP use the indexes of mail files to skip messages that cannot match a search. Messages indexed while
        /// this was off are always read, until `doublet db index PATH --rebuild`.
        imap_search: bool = "true";
        /// Delay between a change and the update of its database's index (FTUpdate_Idle_Time).
        delay: ConfigDuration = "5s" in ["0s", "1h"];
        /// Pause after the update of one database's index (Update_Idle_Time).
        idle_time: ConfigDuration = "0s" in ["0s", "1h"];
        /// Number of indexing threads.
        threads: u64 = "1" in ["1", "8"];
        /// Memory used by each indexing thread. Four times as much text, but at most 256 MiB, waits for the threads.
        /// `auto` is a share of `server.memory`: 64 MiB unless memory is scarce.
        memory: AutoSize = "auto" in ["16MiB", "4GiB"];
        /// Indexes the text of PDFs. A separate process with resource limits extracts it.
        pdf: bool = "true";
    }
    /// The native protocol.
    native: NativeKeys {
        /// Maximum idle time of a session.
        idle_timeout: ConfigDuration = "30min" in ["1min", "1w"];
        /// Maximum lifetime of a session.
        session_time: ConfigDuration = "1d" in ["1min", "30d"];
        /// Maximum number of sessions of one account. One more ends the session that was idle longest.
        sessions_per_account: u64 = "100" in ["1", "100000"];
        /// Maximum number of sessions of all accounts together.
        sessions: u64 = "100000" in ["10", "10000000"];
        /// Maximum duration of one call. Clients may ask for less.
        call_timeout: ConfigDuration = "1min" in ["1s", "1h"];
        /// The users who may create databases over this protocol: addresses, names, groups and wildcards such as
        /// `*/Acme`, separated by commas. The creator becomes Manager of the new database. Empty: database creation is
        /// disabled.
        database_creators: String = "";
        /// Compresses replies (gzip) for clients that accept it.
        compression: bool = "true";
    }
    /// Web mail and JMAP.
    http: HttpKeys {
        /// Keeps connections open between requests. Off only for comparisons.
        persistent_connections: bool = "true";
        /// Maximum number of requests of a connection. Then the client has to connect again.
        requests_per_connection: u64 = "10000" in ["1", "1000000000"];
        /// Maximum number of concurrent requests of a connection over HTTP/2.
        streams_per_connection: u64 = "100" in ["1", "1000"];
        /// Time without a request after which a connection ends.
        idle_timeout: ConfigDuration = "3min" in ["1s", "1d"];
        /// Time in which a client must send the header of a request.
        header_timeout: ConfigDuration = "30s" in ["1s", "10min"];
        /// Compresses answers (zstd, brotli or gzip) for clients that accept it.
        compression: bool = "true";
        /// Time without a request after which a login in a browser ends.
        session_idle_timeout: ConfigDuration = "12h" in ["1min", "365d"];
        /// Time after which a login in a browser ends.
        session_time: ConfigDuration = "2w" in ["1min", "365d"];
        /// Preferences that are the same for all people and that nobody changes: `name=value`, separated by commas,
        /// such as `undoSeconds=10, timeZone=Europe/Zurich`. The names and values are those in `docs/jmap.md`.
        locked_preferences: String = "";
        /// Number of profile documents (preferences, identities, out of office replies) of all mail files that are kept
        /// in memory (iNotes_WA_ProfileCacheSize).
        profile_cache: u64 = "6000" in ["0", "1000000"];
        /// The origins of web pages that may use JMAP, such as `https://app.acme.test`, separated by commas. Browsers
        /// refuse pages of all others (CORS).
        origins: String = "";
        /// Maximum number of concurrent requests of one account to the web mail.
        requests_per_account: u64 = "20" in ["1", "1000"];
        /// Maximum number of concurrent requests with files of one account to the web mail.
        uploads_per_account: u64 = "3" in ["1", "100"];
    }
    /// JMAP.
    jmap: JmapKeys {
        /// Maximum number of concurrent requests of one account (`maxConcurrentRequests`), also over one connection of
        /// WebSocket.
        requests_per_account: u64 = "8" in ["1", "1000"];
        /// Maximum number of concurrent uploads of one account (`maxConcurrentUpload`).
        uploads_per_account: u64 = "4" in ["1", "200"];
        /// The hosts to which notifications for clients (push subscriptions) are sent, separated by commas:
        /// `push.example.net`, `*.example.net`, `push.example.net:8443`, or `*` for all names. Empty: to none.
        push_hosts: String = "";
        /// Private and reserved networks to which notifications are sent, as `address` or `address/bits`. Without
        /// encryption they are sent to these addresses only. The hosts must be named by `push_hosts`, too.
        push_networks: NetworkList = "";
    }
    /// CouchDB's replication protocol.
    couchdb: CouchdbKeys {
        /// The origins of web pages that may use the server, such as `https://app.acme.test`, separated by commas.
        /// Browsers refuse pages of all others (CORS).
        origins: String = "";
    }
    /// Views, and the task that keeps their indexes up to date.
    views: ViewKeys {
        /// Delay between a change in a database and the update of its views; further changes in that time are covered
        /// by the same update.
        suppression_time: ConfigDuration = "15min" in ["0s", "1d"];
        /// Pause between two databases.
        idle_time: ConfigDuration = "5s" in ["0s", "1h"];
        /// Maximum number of waiting databases. A view of a database that did not fit is updated when it is opened.
        queue: u64 = "20000" in ["16", "10000000"];
        /// The folder for temporary files while a view is rebuilt whose rows do not fit into `rebuild_memory`, ideally
        /// on a fast disk. Empty: in the data folder.
        rebuild_folder: OptionalPath = "";
        /// Memory for sorting the rows of a view that is rebuilt. `auto` is a share of `server.memory`: 64 MiB unless
        /// memory is scarce.
        rebuild_memory: AutoSize = "auto" in ["1MiB", "16GiB"];
        /// Maximum size of the indexes of one user's personal views in a database. In the user's own mail file, they
        /// count towards the quota instead.
        personal_index: ByteSize = "64MiB" in ["64KiB", "1TiB"];
    }
    /// Replication with other servers.
    replication: ReplicationKeys {
        /// Maximum number of connections that this server uses at the same time (Replicators). A database takes over
        /// changes from one server at a time.
        replicators: u64 = "1" in ["1", "32"];
        /// Compresses (gzip) what this server receives from others, for slow lines. It costs processor time on both.
        compression: bool = "false";
        /// Difference between the clocks of two servers above which a replication warns. Nothing is lost by a greater
        /// difference, but times of documents mislead people, and the later of two concurrent changes of a mark may be
        /// the wrong one.
        clock_warning: ConfigDuration = "10min" in ["1s", "1d"];
        /// Number of days for which the documents of log.nsf about replications are kept.
        log_days: u64 = "7" in ["1", "3650"];
    }
    /// Background tasks.
    tasks: TaskKeys {
        /// Pause between two removals of content that is no longer referenced.
        blob_collection: ConfigDuration = "1h" in ["1min", "1w"];
        /// Pause between two purges of deletion stubs that are older than their database's purge interval.
        stub_purge: ConfigDuration = "1d" in ["1min", "30d"];
        /// Pause between two searches for open databases that are not in use. Closing them frees memory.
        idle_databases: ConfigDuration = "10min" in ["1s", "1d"];
    }
}

/// The state of the second stage: the given texts, the problems found and the origins of the values.
struct Checker<'a> {
    raw: &'a RawConfig,
    problems: Vec<Problem>,
    sources: Vec<(&'static str, ValueSource)>,
}

impl Checker<'_> {
    fn read_value<T: Setting>(&mut self, name: &'static str) -> T {
        let key =
            KEYS.iter().find(|key| key.name == name).expect("the macro generates the fields and `KEYS` from one table");
        let given = self.raw.get(name);
        let read = match given {
            Some(RawValue { texts, .. }) => T::read_list(texts),
            None => T::read(key.default),
        };
        let value = read.and_then(|value| check_range(value, key));
        if let Some(RawValue { source, .. }) = given {
            self.sources.push((name, *source));
        }
        value.unwrap_or_else(|text| {
            let line = given.and_then(|raw| raw.source.line());
            self.problems.push(Problem { key: name.to_owned(), line, text });
            T::read(key.default).expect("a test parses every default")
        })
    }
}

fn check_range<T: Setting>(value: T, key: &ConfigKey) -> Result<T, String> {
    let [low, high] = key.range else {
        return Ok(value);
    };
    let bounds = (T::read(low)?.number_range(), T::read(high)?.number_range());
    match (value.number_range(), bounds) {
        (Some((least, most)), (Some((low_value, _)), Some((_, high_value))))
            if least < low_value || most > high_value =>
        {
            Err(format!("{} is out of range; it may be {low} to {high}", value.show()))
        }
        _ => Ok(value),
    }
}

fn unknown_keys(raw: &RawConfig) -> Vec<Problem> {
    let unknown = raw.iter().filter(|(name, _)| KEYS.iter().all(|key| key.name != *name));
    unknown
        .map(|(name, value)| Problem { key: name.clone(), line: value.source.line(), text: unknown_key_error(name) })
        .collect()
}
