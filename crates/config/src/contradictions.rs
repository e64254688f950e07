//! Checks configuration values that are valid alone but contradict each other.
//!
//! The check covers values that do not fit together, and values whose form only the subsystem that uses them can judge,
//! such as host names and the log filter. It touches neither files nor the network: `doublet config check` and the
//! start of the server check everything that depends on the machine. A problem is not reported if one of its keys is
//! already known to be wrong, because the report would then be about the default value.

use super::Problem;
use super::keys::{Config, ListenKeys};
use super::limits::CONNECTION_BYTES;
use super::log_filter::filter;
use super::setting::{AutoCount, AutoSize, BindAddress, BlobCodec, ListenAddresses, is_host_name};
use super::units::ByteSize;

/// Returns the contradictions in `config`, except those about keys that are in `known` already.
pub(super) fn check(config: &Config, known: &[Problem]) -> Vec<Problem> {
    let mut found = Contradictions { config, known, problems: Vec::new() };
    let tls = &config.tls;
    let router = &config.router;
    if tls.certificate.0.is_some() != tls.key.0.is_some() {
        let key = if tls.key.0.is_some() { "tls.key" } else { "tls.certificate" };
        found.add(&[key], "certificate and key belong together: set both or neither");
    }
    let message_memory_min = config.limits.message_size.0.saturating_mul(2);
    if config.limits.message_memory.0.is_some_and(|size| size.0 < message_memory_min) {
        let keys = ["limits.message_memory", "limits.message_size"];
        found.add(&keys, "must be at least twice limits.message_size");
    }
    if router.retry_first > router.retry_max {
        found.add(&["router.retry_first", "router.retry_max"], "may not be longer than router.retry_max");
    }
    if !router.smart_host_user.is_empty() && router.smart_host_password_file.0.is_none() {
        found.add(&["router.smart_host_user"], "set smart_host_password_file as well");
    }
    for (key, name) in [("server.name", &config.server.name), ("server.domain", &config.server.domain)] {
        if !name.is_empty() && name != "auto" && !is_host_name(name) {
            found.add(&[key], &format!("{name:?} is not a valid host or domain name; write mail.example.org, or auto"));
        }
    }
    if config.blobs.encryption && config.blobs.codec == BlobCodec::Lz4 {
        let text = "the store cannot compress encrypted content with lz4; use zstd or none";
        found.add(&["blobs.codec", "blobs.encryption"], text);
    }
    if let Err(text) = filter(&config.log) {
        found.add(&["log.filter"], &text);
    }
    check_memory(config, &mut found);
    check_listeners(&config.listen, &mut found);
    found.problems
}

/// Checks that the parts of the memory that are set fit into `server.memory`, if that is set too.
fn check_memory(config: &Config, found: &mut Contradictions<'_>) {
    let Some(ceiling) = config.server.memory.0 else { return };
    let parts = memory_parts(config);
    let sum = parts.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    if sum <= ceiling.0 {
        return;
    }
    let keys: Vec<&'static str> = std::iter::once("server.memory").chain(parts.iter().map(|(key, _)| *key)).collect();
    let shown: Vec<String> = parts.iter().map(|(key, bytes)| format!("{key} ({})", ByteSize(*bytes))).collect();
    let text = format!("{ceiling} is less than {}, the sum of {}", ByteSize(sum), shown.join(", "));
    found.add(&keys, &text);
}

/// Returns the keys that set a part of the memory, with the number of bytes of the part.
fn memory_parts(config: &Config) -> Vec<(&'static str, u64)> {
    let connections = match config.limits.connections {
        AutoCount::Auto => None,
        AutoCount::Set(count) => Some(count.saturating_mul(CONNECTION_BYTES)),
    };
    let bytes = |size: AutoSize| size.0.map(|size| size.0);
    let indexing = bytes(config.full_text.memory).map(|bytes| bytes.saturating_mul(config.full_text.threads));
    let parts = [
        ("limits.connections", connections),
        ("limits.message_memory", bytes(config.limits.message_memory)),
        ("store.cache", bytes(config.store.cache)),
        ("store.write_buffer", bytes(config.store.write_buffer)),
        ("blobs.cache", bytes(config.blobs.cache)),
        ("directory.name_cache", bytes(config.directory.name_cache)),
        ("full_text.memory", indexing),
        ("views.rebuild_memory", bytes(config.views.rebuild_memory)),
    ];
    parts.into_iter().filter_map(|(key, bytes)| Some((key, bytes?))).collect()
}

fn check_listeners(keys: &ListenKeys, found: &mut Contradictions<'_>) {
    let all: [(&'static str, &ListenAddresses); 12] = [
        ("listen.smtp", &keys.smtp),
        ("listen.submission", &keys.submission),
        ("listen.submission_tls", &keys.submission_tls),
        ("listen.imap", &keys.imap),
        ("listen.imap_tls", &keys.imap_tls),
        ("listen.pop3", &keys.pop3),
        ("listen.pop3_tls", &keys.pop3_tls),
        ("listen.native", &keys.native),
        ("listen.couchdb", &keys.couchdb),
        ("listen.http", &keys.http),
        ("listen.https", &keys.https),
        ("listen.admin", &keys.admin),
    ];
    let binds: Vec<(&'static str, BindAddress)> =
        all.iter().flat_map(|(name, listen)| listen.0.iter().map(|bind| (*name, *bind))).collect();
    for (index, (name, bind)) in binds.iter().enumerate() {
        let before = binds.get(..index).unwrap_or_default();
        if let Some((other, _)) = before.iter().find(|(_, other)| other.conflicts_with(*bind)) {
            let address = ListenAddresses(vec![*bind]);
            let text = format!("{} is already used by {other}", super::setting::Setting::show(&address));
            found.add(&[name, other], &text);
        }
    }
}

struct Contradictions<'a> {
    config: &'a Config,
    known: &'a [Problem],
    problems: Vec<Problem>,
}

impl Contradictions<'_> {
    /// Adds a problem with the first of the keys, unless one of the keys is already known to be wrong.
    fn add(&mut self, keys: &[&'static str], text: &str) {
        let Some(first) = keys.first() else { return };
        if self.known.iter().any(|problem| keys.contains(&problem.key.as_str())) {
            return;
        }
        let source = self.config.sources.iter().find(|(key, _)| key == first).map(|(_, source)| *source);
        let line = source.and_then(super::ValueSource::line);
        self.problems.push(Problem { key: (*first).to_owned(), line, text: text.to_owned() });
    }
}
