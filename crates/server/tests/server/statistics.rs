//! Tests of statistics: they follow what happens, and their text can be parsed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Random;
use base::memory::{MemoryOwner, MemoryShares};
use base::sim::{SeededRandom, SimClock};
use mail::submission::{Origin, ReceivedProtocol as MailProtocol};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use sample::{PASSWORD, Sample};
use sasl::{Credentials, LoginOrigin, LoginProtocol, PasswordRequest};
use server::admin_http::StatusSource;
use server::counters::MailCounters;
use server::listeners::{ListenerCounters, ListenerProtocol};
use server::logins::{Logins, pool_options};
use server::metrics::{MetricWriter, encode, registry};
use server::session_registry::{RegisteredLogin, SessionRegistry};
use server::statistics::ServerStatistics;
use server::view_updater::ViewUpdater;
use wire::{JobLabel, JobOwner, Peer, PoolOptions, Shutdown, WorkerPool};

use crate::fixture::limited;

/// Creates the statistics of a server without listeners.
fn statistics(instance: &Arc<instance::Instance>) -> ServerStatistics {
    let options = PoolOptions { workers: 3, ..PoolOptions::default() };
    let sessions: Arc<SessionRegistry> = Arc::default();
    ServerStatistics {
        instance: Arc::clone(instance),
        pool: WorkerPool::new(&options, Arc::new(SimClock::new())).expect("threads can be started"),
        login_pool: WorkerPool::new(&pool_options(2), Arc::new(SimClock::new())).expect("threads can be started"),
        connections: limited(9),
        memory: MemoryShares::unlimited(),
        traffic: BTreeMap::from([(ListenerProtocol::Imap, Arc::new(ListenerCounters::default()))]),
        logins: Logins::new(instance, Arc::clone(&sessions), admin::sessions::open(instance).expect("they open")),
        sessions,
        mail_counters: Arc::default(),
        replication_counters: Arc::default(),
        native: Arc::default(),
        updater: Arc::new(ViewUpdater::new(instance)),
        http: Vec::new(),
        shutdown: Shutdown::new(),
        listeners: Vec::new(),
    }
}

/// Returns the samples of a text: their names with labels, and their values.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.rsplit_once(' ').expect("a sample has a value"));
    pairs.map(|(name, value)| (name, value.parse().expect("the value is a number"))).collect()
}

#[test]
fn statistics_follow_connections_logins_and_jobs() {
    let sample = Sample::new();
    let instance = Arc::new(sample.instance);
    let statistics = Arc::new(statistics(&instance));
    let registry = registry(Arc::clone(&statistics));
    let scrape = || encode(&registry).expect("writing to a string cannot fail");
    let text = scrape();
    let before = samples(&text);
    assert_eq!(before["doublet_connections"], 0.0);
    assert_eq!(before["doublet_pool_workers{pool=\"worker\"}"], 3.0);
    assert_eq!(before["doublet_pool_workers{pool=\"login\"}"], 2.0);
    let permit = statistics.connections.admit(&Peer::local()).expect("within the limit");
    let _message = statistics.memory.share_of(&MemoryOwner::Local).acquire(500).expect("there is no limit");
    statistics.traffic[&ListenerProtocol::Imap].accepted.fetch_add(7, Ordering::Relaxed);
    statistics.traffic[&ListenerProtocol::Imap].refused.fetch_add(2, Ordering::Relaxed);
    for password in [PASSWORD, "guess"] {
        let request = PasswordRequest::new(b"ann", password.as_bytes()).expect("well formed");
        let _ = statistics.logins.check_password(&LoginOrigin::local(LoginProtocol::Pop3), &request);
    }
    let session = statistics.sessions.register();
    let ann = instance.directory.person("ann").expect("a sound store").expect("the user exists");
    assert!(statistics.sessions.register_login(session.number(), &RegisteredLogin::new(&ann), &instance.directory));
    statistics.mail_counters.by_protocol[2].accepted.add(1);
    statistics.mail_counters.by_protocol[2].accepted_bytes.add(1_234);
    let text = scrape();
    let after = samples(&text);
    for (name, expected) in [
        ("doublet_connections", 1.0),
        ("doublet_message_memory_bytes", 500.0),
        ("doublet_connections_accepted_total{listener=\"imap\"}", 7.0),
        ("doublet_connections_refused_total{listener=\"imap\"}", 2.0),
        ("doublet_logins_total{protocol=\"pop3\",outcome=\"ok\"}", 1.0),
        ("doublet_logins_total{protocol=\"pop3\",outcome=\"failed\"}", 1.0),
        ("doublet_logins_total{protocol=\"imap\",outcome=\"ok\"}", 0.0),
        ("doublet_sessions_logged_in", 1.0),
        ("doublet_mail_accepted_total{via=\"lmtp\"}", 1.0),
        ("doublet_mail_accepted_bytes_total{via=\"lmtp\"}", 1_234.0),
        ("doublet_mail_accepted_total{via=\"smtp\"}", 0.0),
    ] {
        assert_eq!(after[name], expected, "{name}");
    }
    assert!(before.keys().all(|name| after.contains_key(name)), "no sample disappears");
    drop((permit, session));
    let text = scrape();
    assert_eq!((samples(&text)["doublet_connections"], samples(&text)["doublet_sessions_logged_in"]), (0.0, 0.0));
}

#[tokio::test]
async fn jobs_are_counted_by_pool() {
    let sample = Sample::new();
    let statistics = Arc::new(statistics(&Arc::new(sample.instance)));
    let label = JobLabel::new(JobOwner::stranger([192, 0, 2, 1].into()), "imap", "LOGIN");
    statistics.login_pool.run(label, || ()).await.expect("the queue has space");
    statistics.login_pool.close();
    let text = encode(&registry(Arc::clone(&statistics))).expect("writing to a string cannot fail");
    let samples = samples(&text);
    assert_eq!(samples["doublet_pool_completed_total{pool=\"login\"}"], 1.0);
    assert_eq!(samples["doublet_pool_completed_total{pool=\"worker\"}"], 0.0);
    let labels = "pool=\"login\",protocol=\"imap\",command=\"LOGIN\",class=\"stranger\"";
    assert_eq!(samples[format!("doublet_pool_jobs_total{{{labels}}}").as_str()], 1.0);
}

#[test]
fn a_draining_server_is_not_ready() {
    let sample = Sample::new();
    let statistics = statistics(&Arc::new(sample.instance));
    assert_eq!(statistics.ready(), Ok(()));
    statistics.shutdown.drain();
    assert_eq!(statistics.ready(), Err("the server is shutting down".to_owned()));
}

#[test]
fn mail_is_counted_by_its_protocol() {
    let counters = MailCounters::default();
    let cases = [
        (MailProtocol::Smtp, None, 0),
        (MailProtocol::Esmtp, None, 0),
        (MailProtocol::Esmtp, Some("CN=ann/O=acme.test"), 1),
        (MailProtocol::Lmtp, None, 2),
        (MailProtocol::Lmtp, Some("CN=ann/O=acme.test"), 2),
    ];
    for (protocol, login, expected) in cases {
        let origin = Origin { protocol, peer: None, login: login.map(str::to_owned) };
        assert!(std::ptr::eq(counters.for_origin(&origin), &counters.by_protocol[expected]), "{protocol:?} {login:?}");
    }
}

/// Reads the value of a label as Prometheus does: `\\`, `\"` and `\n` are escapes.
fn unescape(text: &str) -> String {
    let mut chars = text.chars();
    let mut value = String::new();
    while let Some(c) = chars.next() {
        assert!(c != '"' && c != '\n', "a value has no bare quotation mark or line break: {text:?}");
        value.push(match c {
            '\\' => match chars.next().expect("an escape has two characters") {
                'n' => '\n',
                escaped => escaped,
            },
            plain => plain,
        });
    }
    value
}

/// Writes the families that a test needs.
#[derive(Debug)]
struct Families {
    label: String,
}

impl Collector for Families {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = MetricWriter::new(encoder);
        out.gauges("test", "A test.", [([("one", "1"), ("any", self.label.as_str())], 2)])?;
        out.counters("empty", "Nothing yet.", Vec::<([(&str, &str); 1], u64)>::new())?;
        out.gauge("large_bytes", "A large number.", u64::MAX)
    }
}

#[test]
fn label_values_round_trip() {
    let random = SeededRandom::new(3);
    let characters = ['a', '"', '\\', '\n', '}', ',', ' ', 'é', '='];
    for _ in 0..500 {
        let label: String =
            (0..random.below(8)).map(|_| characters[random.below(characters.len() as u64) as usize]).collect();
        let text = encode(&registry(Families { label: label.clone() })).expect("writing to a string cannot fail");
        let lines: Vec<&str> = text.lines().take(3).collect();
        let [help, kind, sample] = lines[..] else { panic!("{text:?}") };
        assert_eq!((help, kind), ("# HELP doublet_test A test.", "# TYPE doublet_test gauge"));
        let escaped = sample.strip_prefix("doublet_test{one=\"1\",any=\"").and_then(|rest| rest.strip_suffix("\"} 2"));
        assert_eq!(unescape(escaped.expect("two labels")), label);
    }
}

#[test]
fn family_without_samples_has_only_help_and_type() {
    let text = encode(&registry(Families { label: String::new() })).expect("writing to a string cannot fail");
    let expected = "# HELP doublet_empty Nothing yet.\n# TYPE doublet_empty counter\n\
                    # HELP doublet_large_bytes A large number.\n# TYPE doublet_large_bytes gauge\n\
                    doublet_large_bytes 18446744073709551615\n# EOF\n";
    assert!(text.ends_with(expected), "{text}");
}
