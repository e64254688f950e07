//! Renewal of the certificate that the certifier of the domain has issued for this server.
//!
//! The server that has the key of the certifier, the first one of the domain, signs its own certificate. Another server
//! makes a new key and asks that server to sign it (`RenewCertificate`), over a connection with its own certificate.
//! That works as long as this one is valid, so it begins [`CERTIFICATE_RENEWAL_TIME`] before its end, and is repeated
//! until it succeeds. The new certificate has the same name. It must be of the certifier that this server knows, so a
//! server that is asked and answers with another one changes nothing.
//!
//! The new certificate and its key replace the old ones in one step, and new connections use them at once. If the new
//! file cannot be loaded at that moment, each further look tries to.
//!
//! The clock of a machine that has just started may be years ahead. A certificate that begins then would be refused by
//! all others once the clock is right. So the server does not renew by itself while the clock is [`CLOCK_LEAD_MAX`]
//! ahead of the last change in the directory, and replaces a certificate that is not valid yet: by the one before it if
//! that is valid, which every server knows.

use std::sync::Arc;
use std::time::Duration;

use admin::servers::{self, server_name};
use admin::{AdminError, AdminResult, Answer};
use base::sync::Mutex;
use base::{Clock, Name, Timestamp};
use directory::IssuedCertificate;
use directory::identity::ServerExclusion;
use instance::Instance;
use instance::certificate::{CertificateDescription, CertificateError, CertificateFiles};
use instance::certifier::{Certifier, ServerFile, SigningRequest};
use instance::limits::CERTIFICATE_RENEWAL_TIME;
use notes::{Access, Identity, level};
use rpc::backend::{CertificateIssuer, ServerCertificate};
use wire::{Shutdown, Tls};

use super::Replication;

/// Pause between two looks at the certificate.
const LOOK_PAUSE: Duration = Duration::from_secs(12 * 3_600);

/// Pause after the first failure of a renewal. It doubles with each further one, up to [`LOOK_PAUSE`].
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// Time by which the clock may be ahead of the last change in the directory. A server that was off for longer is not
/// renewed without a command.
const CLOCK_LEAD_MAX: Duration = Duration::from_secs(400 * 86_400);

/// Number of changes of the directory among which the last one that is still there is looked for.
const CHANGES_READ_MAX: usize = 64;

/// Maximum number of servers that are asked for a certificate if it is not known which one has the certifier.
const SERVERS_ASKED_MAX: usize = 16;

/// Renews the certificate of this server.
pub(crate) struct CertificateRenewal {
    replication: Arc<Replication>,
    tls: Arc<Tls>,
    start: StartTime,
    /// Held while the certificate is renewed.
    running: Mutex<()>,
}

/// What is known of the time at which the server has started. It shows whether the clock is far ahead.
struct StartTime {
    /// The time of the last change in the directory. `None` if there is none.
    last_change: Option<Timestamp>,
    /// The measured time.
    monotonic: Duration,
}

/// Issues certificates for other servers, if this server has the key of the certifier.
pub(crate) struct DomainCertificates {
    instance: Arc<Instance>,
}

/// A server that may call the certifier.
struct AdmittedServer {
    certifier: Certifier,
    /// `true` if the directory states its present certificate.
    is_recorded: bool,
}

/// Checks the certificate regularly until the server drains.
pub(crate) async fn run(renewal: Arc<CertificateRenewal>, shutdown: Shutdown) {
    let mut failures = 0;
    loop {
        let task = Arc::clone(&renewal);
        let outcome = tokio::task::spawn_blocking(move || task.renew_if_due()).await;
        failures = match outcome {
            Ok(Ok(())) => 0,
            Ok(Err(error)) => {
                tracing::warn!(target: "tls", %error, "cannot renew or confirm the certificate; will retry");
                failures + 1
            }
            Err(error) => {
                tracing::error!(target: "tls", %error, "the renewal of the certificate was aborted; will retry");
                failures + 1
            }
        };
        tokio::select! {
            () = shutdown.draining() => return,
            () = tokio::time::sleep(pause_after(failures)) => {}
        }
    }
}

/// Returns the pause after a number of consecutive failures.
fn pause_after(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => LOOK_PAUSE,
        Some(doubled) => FAILURE_PAUSE.saturating_mul(1 << doubled.min(16)).min(LOOK_PAUSE),
    }
}

/// Returns `true` if it is time to renew a certificate. One that is not valid yet or any more cannot identify this
/// server.
fn is_due(certificate: &CertificateDescription, now: Timestamp) -> bool {
    certificate.not_before > now || now.after(CERTIFICATE_RENEWAL_TIME) >= certificate.not_after
}

/// Returns the time of the last change in the directory that is still there.
fn last_change(instance: &Instance) -> notes::Result<Option<Timestamp>> {
    let itself = Arc::new(Identity::local_server(instance.directory.options().server.clone()));
    let reader: Access<level::Reader> = instance.directory.database().authorize(&itself)?;
    let reading = reader.read()?;
    for change in reading.changes_before(None, CHANGES_READ_MAX)?.entries {
        if let Some(header) = reading.header(change.note)? {
            return Ok(Some(header.modified));
        }
    }
    Ok(None)
}

impl StartTime {
    fn read(instance: &Instance) -> Self {
        let last_change = last_change(instance).unwrap_or_else(|error| {
            tracing::warn!(target: "tls", %error, "cannot read the time of the last change in the directory");
            None
        });
        Self { last_change, monotonic: instance.clock.monotonic() }
    }

    /// Fails if the clock is so far ahead that it is probably wrong.
    fn check(&self, clock: &dyn Clock) -> Result<(), AdminError> {
        let Some(last_change) = self.last_change else { return Ok(()) };
        let running = clock.monotonic().saturating_sub(self.monotonic);
        let now = clock.now();
        if now <= last_change.after(running).after(CLOCK_LEAD_MAX) {
            return Ok(());
        }
        Err(AdminError::Refused(format!(
            "the clock says {}, but when the server started the last change in the directory was of {}; if the clock is \
             right, run `doublet server renew`",
            now.to_rfc3339(),
            last_change.to_rfc3339()
        )))
    }
}

impl CertificateRenewal {
    pub(crate) fn new(replication: &Arc<Replication>, tls: &Arc<Tls>) -> Arc<Self> {
        let start = StartTime::read(&replication.instance);
        Arc::new(Self { replication: Arc::clone(replication), tls: Arc::clone(tls), start, running: Mutex::default() })
    }

    /// Executes `doublet server renew`.
    pub(crate) fn execute(&self, from: Option<&str>) -> AdminResult {
        let _turn = self.running.lock();
        if self.files().is_configured() {
            return Err(AdminError::Refused(
                "the configuration names the certificate of this server (`tls.certificate`); replace those files, and \
                 run `doublet tls reload`"
                    .to_owned(),
            ));
        }
        let until = self.renew(from)?.to_rfc3339();
        Ok(Answer::message(format!("This server has a new certificate, valid until {until}. New connections use it.")))
    }

    /// Replaces the certificate if it is due. Certificates that are not of the domain's certifier are left alone.
    fn renew_if_due(&self) -> Result<(), AdminError> {
        let _turn = self.running.lock();
        let files = self.files();
        if files.is_configured() || !self.instance().data.certifier_file().exists() {
            return Ok(());
        }
        // An earlier attempt may have installed a file that could not be loaded.
        if files.reload_if_changed(&self.tls).map_err(AdminError::refused)? {
            tracing::info!(target: "tls", "reloaded the certificate of this server");
        }
        let certificate = files.describe().map_err(AdminError::refused)?;
        let now = self.instance().clock.now();
        if !is_due(&certificate, now) {
            return self.confirm_if_unknown(&certificate.issued());
        }
        if certificate.not_before > now && self.restore_replaced(now)? {
            return Ok(());
        }
        self.start.check(self.instance().clock.as_ref())?;
        self.renew(None)?;
        Ok(())
    }

    /// Restores the certificate that the present one, which is not valid yet, has replaced. Returns `false` if that one
    /// is not valid either.
    fn restore_replaced(&self, now: Timestamp) -> Result<bool, AdminError> {
        let instance = self.instance();
        let replaced = ServerFile::replaced(&instance.data).map_err(AdminError::refused)?;
        let Some(file) = replaced.filter(|file| file.verify(&instance.directory.options().server, now).is_ok()) else {
            return Ok(false);
        };
        file.install(&instance.data).map_err(AdminError::refused)?;
        self.files().reload(&self.tls).map_err(AdminError::refused)?;
        tracing::warn!(target: "tls", "the certificate is not valid yet; the one before it is used again");
        Ok(true)
    }

    /// Replaces the certificate by a new one. Returns the end of its validity.
    fn renew(&self, from: Option<&str>) -> Result<Timestamp, AdminError> {
        let instance = self.instance();
        let itself = &instance.directory.options().server;
        let now = instance.clock.now();
        let file = match Certifier::open(&instance.data).map_err(AdminError::refused)? {
            Some(certifier) => {
                let organization = &instance.config.server.organization;
                let issued = certifier.issue(&instance.hostname, organization, now);
                issued.map_err(AdminError::refused)?
            }
            None => self.ask(from)?,
        };
        file.verify(itself, now).map_err(AdminError::refused)?;
        self.check_newer(&file)?;
        file.install(&instance.data).map_err(AdminError::refused)?;
        let files = self.files();
        files.reload(&self.tls).map_err(AdminError::refused)?;
        // The other servers refuse the certificate of earlier connections.
        self.replication.close_mail();
        let installed = files.describe().map_err(AdminError::refused)?;
        let until = installed.not_after;
        tracing::info!(target: "tls", valid_until = until.to_rfc3339(), "renewed the certificate of this server");
        match &file.partner_name {
            None => record(instance, itself, installed.issued()),
            Some(issuer) => {
                if let Err(error) = self.confirm(&server_name(instance, issuer)) {
                    tracing::warn!(target: "tls", %error, "cannot confirm the new certificate; will retry");
                }
            }
        }
        Ok(until)
    }

    /// Fails if the other servers would refuse a certificate, because a later one is recorded.
    fn check_newer(&self, file: &ServerFile) -> Result<(), AdminError> {
        let directory = &self.instance().directory;
        let Some(new) = file.describe() else { return Ok(()) };
        match directory.partner_exclusion(&directory.options().server, &new.issued())? {
            Some(ServerExclusion::ReplacedCertificate(until)) => Err(AdminError::Refused(format!(
                "the directory states a certificate of this server that is valid until {}, longer than a new one would \
                 be; check the clock of this server",
                until.to_rfc3339()
            ))),
            _ => Ok(()),
        }
    }

    /// Reports to the server that has issued the certificate that it is installed. Until then that server renews the
    /// one before, too, because its answer may have been lost.
    fn confirm(&self, issuer: &Name) -> Result<(), AdminError> {
        self.replication.connect_to(issuer)?.confirm_certificate()
    }

    /// Reports that the present certificate is installed unless the directory states it or a newer one.
    fn confirm_if_unknown(&self, present: &IssuedCertificate) -> Result<(), AdminError> {
        let instance = self.instance();
        let installed = ServerFile::installed(&instance.data).map_err(AdminError::refused)?;
        let itself = &instance.directory.options().server;
        let Some(server) = instance.directory.server(itself)? else { return Ok(()) };
        let is_newer_known = instance.directory.partner_exclusion(itself, present)?.is_some();
        // The directory of an earlier version does not state the issuer.
        let is_known = |recorded: &IssuedCertificate| {
            recorded == present || (recorded.issuer.is_empty() && recorded.until > present.until)
        };
        if is_newer_known || server.certificate.as_ref().is_some_and(is_known) {
            return Ok(());
        }
        match installed.and_then(|file| file.partner_name) {
            Some(issuer) => self.confirm(&server_name(instance, &issuer)),
            None if Certifier::open(&instance.data).map_err(AdminError::refused)?.is_some() => {
                record(instance, itself, present.clone());
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Asks the other servers of the domain, one after the other, until one has signed.
    fn ask(&self, from: Option<&str>) -> Result<ServerFile, AdminError> {
        let instance = self.instance();
        let installed = ServerFile::installed(&instance.data).map_err(AdminError::refused)?;
        if installed.is_none() && !instance.data.certifier_file().exists() {
            return Err(AdminError::Refused(
                "this server has no certificate of a domain; `doublet server register` makes it the first server of \
                 one, and `doublet server join` a further one"
                    .to_owned(),
            ));
        }
        let mut failures = Vec::new();
        for server in self.servers_to_ask(from, installed.as_ref())? {
            match self.ask_server(&server) {
                Ok(file) => {
                    let partner = installed.and_then(|file| file.partner);
                    return Ok(ServerFile { partner, ..file });
                }
                Err(error) => failures.push(format!("{}: {error}", Name::new(&server).abbreviated())),
            }
        }
        if failures.is_empty() {
            failures.push("the directory names no other server; give its name or address (--from)".to_owned());
        }
        let advice = "if the certificate is not valid any more, repeat `doublet server register` on the first server \
                      and `doublet server join` here";
        Err(AdminError::Refused(format!("{}; {advice}", failures.join("; "))))
    }

    /// Returns the given server; or all servers, that first which has issued the present certificate. They are names or
    /// addresses.
    fn servers_to_ask(&self, from: Option<&str>, installed: Option<&ServerFile>) -> Result<Vec<String>, AdminError> {
        let instance = self.instance();
        if let Some(from) = from {
            return Ok(vec![from.to_owned()]);
        }
        let itself = &instance.directory.options().server;
        let issuer = installed.and_then(|file| file.partner_name.as_deref()).map(|name| server_name(instance, name));
        let registered = servers::all(instance)?;
        let others = registered.iter().filter(|server| server.address.is_some()).map(|server| server.name.clone());
        let others = others.filter(|name| name != itself && Some(name) != issuer.as_ref());
        let servers = issuer.clone().into_iter().chain(others).map(|name| name.canonical().to_owned());
        Ok(servers.take(SERVERS_ASKED_MAX).collect())
    }

    /// Asks a server, given by its name or address. The file that it returns states the name of that server.
    fn ask_server(&self, server: &str) -> Result<ServerFile, AdminError> {
        let instance = self.instance();
        let organization = &instance.config.server.organization;
        let request = SigningRequest::create(&instance.hostname, organization).map_err(AdminError::refused)?;
        let server = self.replication.connect_to_partner(server)?;
        let certificate = server.renew_certificate(request.request.clone())?;
        let file = request.complete(&certificate, &instance.data).map_err(AdminError::refused)?;
        file.verify(&instance.directory.options().server, instance.clock.now()).map_err(AdminError::refused)?;
        Ok(ServerFile { partner_name: Some(server.identity.name.common().to_owned()), ..file })
    }

    fn instance(&self) -> &Instance {
        &self.replication.instance
    }

    fn files(&self) -> &CertificateFiles {
        &self.replication.files
    }
}

impl DomainCertificates {
    pub(crate) fn new(instance: &Arc<Instance>) -> Self {
        Self { instance: Arc::clone(instance) }
    }

    /// Opens the certifier, and checks that a server may call it: it is registered, no deny list excludes it, and its
    /// certificate is one of this certifier and the newest that was recorded. So an authority in `tls.peers` cannot get
    /// certificates of the domain, and neither can the owner of an old key, beside the server.
    fn admit(&self, server: &ServerCertificate) -> Result<AdmittedServer, AdminError> {
        let instance = &self.instance;
        let name = &server.name;
        let label = name.abbreviated();
        let Some(registered) = instance.directory.server(name)? else {
            return Err(AdminError::Refused(format!(
                "{label} is not registered in the directory of this server; `doublet server register` registers it"
            )));
        };
        if let Some(exclusion) = instance.directory.server_exclusion(name, &server.issued)? {
            return Err(AdminError::Refused(exclusion.describe(name)));
        }
        let certifier = Certifier::open(&instance.data).map_err(AdminError::refused)?.ok_or_else(|| {
            AdminError::Refused(
                "this server does not have the key of the certifier; ask the first server of the domain \
                 (`doublet server renew --from`)"
                    .to_owned(),
            )
        })?;
        let presented = &server.certificate;
        certifier.check_issued(name, presented, instance.clock.now()).map_err(AdminError::refused)?;
        // The directory of an earlier version does not state the issuer.
        let recorded = registered.certificate.as_ref();
        if let Some(newest) = recorded.filter(|newest| newest.issuer.is_empty() && newest.until > server.issued.until) {
            return Err(AdminError::Refused(ServerExclusion::ReplacedCertificate(newest.until).describe(name)));
        }
        Ok(AdmittedServer { certifier, is_recorded: recorded == Some(&server.issued) })
    }

    fn issue(&self, server: &ServerCertificate, signing_request: &[u8]) -> Result<String, AdminError> {
        let admitted = self.admit(server)?;
        let issued = admitted.certifier.renew(&server.name, signing_request, self.instance.clock.now()).and_then(
            |certificate| {
                let until = CertificateDescription::parse(certificate.as_bytes()).map(|described| described.not_after);
                Ok((certificate, until.ok_or_else(|| CertificateError::Unreadable("the new certificate".into()))?))
            },
        );
        let (certificate, until) = issued.map_err(AdminError::refused)?;
        let label = server.name.abbreviated();
        // It could not be confirmed, because the present one counts as newer.
        if until < server.issued.until {
            let present = server.issued.until.to_rfc3339();
            return Err(AdminError::Refused(format!(
                "the certificate of {label} is valid until {present}, longer than a new one would be; check the clock of \
                 this server"
            )));
        }
        tracing::info!(target: "tls", server = label, valid_until = until.to_rfc3339(), "issued a certificate");
        Ok(certificate)
    }

    fn record_installed(&self, server: &ServerCertificate) -> Result<(), AdminError> {
        let admitted = self.admit(server)?;
        if !admitted.is_recorded {
            self.instance.directory.server_set_certificate(&server.name, server.issued.clone())?;
            let valid_until = server.issued.until.to_rfc3339();
            tracing::info!(target: "tls", server = server.name.abbreviated(), valid_until, "recorded a certificate");
        }
        Ok(())
    }
}

impl CertificateIssuer for DomainCertificates {
    fn renew(&self, server: &ServerCertificate, signing_request: &[u8]) -> Result<String, String> {
        self.issue(server, signing_request).map_err(|error| error.to_string())
    }

    fn confirm(&self, server: &ServerCertificate) -> Result<(), String> {
        self.record_installed(server).map_err(|error| error.to_string())
    }
}

/// Records the certificate of this server in the directory. A failure is logged.
fn record(instance: &Instance, server: &Name, certificate: IssuedCertificate) {
    if let Err(error) = instance.directory.server_set_certificate(server, certificate) {
        let server = server.abbreviated();
        tracing::warn!(target: "tls", server, %error, "cannot record the end of a certificate in the directory");
    }
}

#[cfg(test)]
mod tests {
    use base::sim::SimClock;

    use super::*;

    #[test]
    fn certificate_is_renewed_before_it_begins_and_in_its_last_ninety_days() {
        let day = |number: i64| Timestamp::from_seconds(number * 86_400);
        let certificate = CertificateDescription {
            names: Vec::new(),
            issuer: String::new(),
            not_before: day(0),
            not_after: day(365),
        };
        for (now, expected) in [(-1, true), (0, false), (274, false), (275, true), (364, true), (400, true)] {
            assert_eq!(is_due(&certificate, day(now)), expected, "day {now}");
        }
    }

    #[test]
    fn clock_that_is_years_ahead_renews_nothing() {
        let clock = SimClock::new();
        let days = |number: u64| Duration::from_secs(number * 86_400);
        let start = |last_change| StartTime { last_change, monotonic: clock.monotonic() };
        let now = clock.now();
        for (last_change, expected) in [(now.before(days(400)), true), (now.before(days(401)), false), (now, true)] {
            let checked = start(Some(last_change)).check(&clock);
            assert_eq!(checked.is_ok(), expected, "{checked:?}");
        }
        assert!(start(None).check(&clock).is_ok(), "nothing is known");
        let started = start(Some(now));
        clock.advance(days(4 * 365));
        assert!(started.check(&clock).is_ok(), "the server has run for that time");
    }

    #[test]
    fn failed_renewals_are_repeated_with_growing_pauses() {
        let minutes = |failures| pause_after(failures).as_secs() / 60;
        assert_eq!([1, 2, 3, 10, 11, 1_000].map(minutes), [1, 2, 4, 512, 720, 720]);
        assert_eq!(pause_after(0), LOOK_PAUSE);
    }
}
