//! Verifies the origin of messages from other servers by SPF, DKIM, DMARC and ARC, with `mail-auth`.
//!
//! The result is a field for the message. It is a refusal if the message fails DMARC, the domain of the author asks for
//! rejection (`p=reject`), and the configured policy follows it. No other result about a foreign domain leads to a
//! refusal here, because SPF and DKIM alone break too often in transit (RFC 7489 §10.1).
//!
//! A message that claims to be from a local domain ([`LocalClaims`]) is refused under every policy, unless SPF or a
//! DKIM signature of an aligned domain passes. A signature counts only if it covers `From` and there is one such field.
//! If such evidence cannot be looked up now, the message is deferred.
//!
//! DMARC is about the domain of the author. Under [`DmarcEnforcement::Reject`] a message must therefore have one:
//! exactly one `From` field, in which every address can be parsed (RFC 7489 §6.6.1). Otherwise a sender could evade the
//! check by writing the field twice, or with a NUL. If the field names several domains, each of them is checked, and
//! one that asks for rejection is enough.
//!
//! `mail-auth` has its own reader of headers, which ends a header at a line without a colon. The authors are those that
//! it sees and those that this program sees, and both must see the same one. Otherwise DMARC has the result `none`.
//! Signatures are not evaluated if it sees another end of the header or lacks a field: they would then not cover the
//! message that is shown.
//!
//! The checks run in their own task under one time limit. Each lookup takes file descriptors, so only a number of
//! messages are checked at the same time; the others wait within their time limit. If the checks take too long, or if
//! the library fails on the message, nothing is known. This is recorded as `temperror`, and under
//! [`DmarcEnforcement::Reject`] the sender is asked to retry (451). The same happens in two other cases: if the policy
//! of the author's domain cannot be looked up, or if that domain rejects and evidence for the message (SPF or DKIM of
//! an aligned domain) cannot be looked up. Until that is known, a policy can be neither applied nor ignored (RFC 7489
//! §6.6.2, §6.6.3; RFC 6376 §6.3). A published record that cannot be parsed is the responsibility of its domain and
//! asks for nothing.
//!
//! `mail-auth` treats SERVFAIL and REFUSED like a missing record. Records that it reports as missing are therefore
//! looked up again, except for those that an SPF record includes: their result stays `permerror`.
//!
//! The organizational domain of an author (for relaxed alignment) comes from the Public Suffix List (`psl`).

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use base::line_ends::without_line_end;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mail::mime::header::HeaderField;
use mail::mime::message_header::top_fields;
use mail::mime::structure::header_end;
use mail_auth::dmarc::Policy as DmarcPolicy;
use mail_auth::dmarc::verify::DmarcParameters;
use mail_auth::spf::verify::SpfParameters;
use mail_auth::{
    ArcOutput, AuthenticatedMessage, DkimOutput, DkimResult, DmarcOutput, DmarcResult, Error as AuthError, SpfOutput,
    SpfResult,
};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::auth::local_claims::{LocalClaims, forged, is_author_name, undetermined};
use crate::auth::results::{MethodResult, write};
use crate::codec::path::{is_domain, split_address};
use crate::dns::{LookupError, Resolver, ascii_domain, is_negative};
use crate::error::{EnhancedStatus, NegativeReply};
use crate::limits::{AUTHOR_DOMAINS_MAX, CHECKS_MAX, SIGNATURES_MAX, VERIFY_TIME_MAX};

/// The use of the results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DmarcEnforcement {
    /// Results are recorded and no message is refused.
    Record,
    /// A message that fails DMARC is refused if the author's domain asks for it. A message without a readable author is
    /// refused, too. If a result is not available now, the message is deferred.
    Reject,
}

/// The circumstances in which a message arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientInfo {
    /// The IP address of the client.
    pub address: IpAddr,
    /// The name from HELO or EHLO.
    pub helo: String,
    /// The reverse path, empty for `<>`.
    pub reverse_path: String,
    /// The name of this server.
    pub hostname: String,
    /// The local domains that the message claims to be from and that must be verified.
    pub claims: LocalClaims,
}

/// A message that was verified and not refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifiedMessage {
    /// The field with the results.
    pub field: String,
    /// `true` if SPF of the reverse path passes, or that of the name from EHLO for `<>`.
    pub spf_passed: bool,
}

/// Verifies messages. It is shared by all connections of a listener.
pub struct Verifier {
    resolver: Resolver,
    policy: DmarcEnforcement,
    /// Permits for the messages that are checked at the same time.
    permits: Semaphore,
}

impl Verifier {
    /// Creates a verifier.
    #[must_use]
    pub fn new(resolver: Resolver, policy: DmarcEnforcement) -> Self {
        Self { resolver, policy, permits: Semaphore::new(CHECKS_MAX) }
    }

    /// Sets the maximum number of messages that are checked at the same time.
    #[must_use]
    pub fn with_checks_max(self, count: usize) -> Self {
        Self { permits: Semaphore::new(count.clamp(1, Semaphore::MAX_PERMITS)), ..self }
    }

    /// Verifies a message. Returns its results, or a refusal.
    ///
    /// The first `trace_bytes` bytes of the message, its trace field, are skipped.
    pub async fn verify(
        self: &Arc<Self>,
        arrival: ClientInfo,
        message: Arc<Vec<u8>>,
        trace_bytes: usize,
    ) -> Result<VerifiedMessage, NegativeReply> {
        let hostname = arrival.hostname.clone();
        let claimed = arrival.claims.domains().next().map(str::to_owned);
        let verifier = Arc::clone(self);
        let checks = async move {
            // Acquiring fails only if the semaphore is closed, which never happens here.
            let _permit = verifier.permits.acquire().await;
            verifier.check(&arrival, message.as_slice(), trace_bytes).await
        };
        let outcome = run_with_timeout(checks).await;
        let outcome = outcome.unwrap_or_else(|| VerificationResult::incomplete(claimed.as_deref()));
        let by_dmarc = outcome.refusal.filter(|_| self.policy == DmarcEnforcement::Reject);
        match (by_dmarc, outcome.claim_refusal) {
            // A permanent refusal of one check makes a retry pointless, even if the other one asks for it.
            (Some(refusal), Some(other)) if refusal.is_permanent() && !other.is_permanent() => Err(refusal),
            (_, Some(refusal)) | (Some(refusal), None) => Err(refusal),
            (None, None) => {
                Ok(VerifiedMessage { field: write(&hostname, &outcome.results), spf_passed: outcome.spf_passed })
            }
        }
    }

    async fn check(&self, arrival: &ClientInfo, message: &[u8], trace_bytes: usize) -> VerificationResult {
        // The library hashes the body here.
        let (parsed, fields) = wire::run_long(message.len(), || {
            let parsed = AuthenticatedMessage::parse(message.get(trace_bytes..).unwrap_or_default());
            (parsed, sender_fields(message, trace_bytes))
        });
        let authors = author_domains(&fields, parsed.as_ref());
        if let (Err(reason), DmarcEnforcement::Reject) = (&authors, self.policy) {
            // No reply from a name server can change this result, so no lookups are made.
            let refusal = NegativeReply::new(550, EnhancedStatus(5, 6, 0), *reason);
            return VerificationResult { refusal: Some(refusal), ..VerificationResult::default() };
        }
        let (helo, mail_from, mail_from_domain) = self.check_spf(arrival).await;
        let mut results = vec![spf_result(&helo).with_property("smtp.helo", &arrival.helo)];
        let spf = if arrival.reverse_path.is_empty() {
            helo
        } else {
            results.push(spf_result(&mail_from).with_property("smtp.mailfrom", &arrival.reverse_path));
            mail_from
        };
        let spf_passed = spf.result() == SpfResult::Pass;
        let without_dkim = Evidence { spf: &spf, spf_domain: &mail_from_domain, dkim: &[] };
        let Some(mut parsed) = parsed else {
            let claim_refusal = without_dkim.claim_refusal(&arrival.claims);
            return VerificationResult { results, claim_refusal, spf_passed, refusal: None };
        };
        parsed.dkim_headers.truncate(SIGNATURES_MAX);
        let body_start = header_end(message).saturating_sub(trace_bytes);
        let is_header_clear = parsed.body_offset() == body_start && sees_fields(&parsed, &fields);
        let dkim = self.check_signatures(&parsed, is_header_clear, &mut results).await;
        let evidence = Evidence { dkim: &dkim, ..without_dkim };
        let has_one_author_field = author_field(&parsed, &fields).is_ok();
        let of_claims = if has_one_author_field { &evidence } else { &without_dkim };
        let claim_refusal = of_claims.claim_refusal(&arrival.claims);
        let mut says = DmarcVerdict::Nothing;
        let domains = authors.unwrap_or_else(|reason| {
            results.push(MethodResult::new("dmarc", "none").with_reason(Some(reason)));
            Vec::new()
        });
        for author in single_author_lists(domains) {
            let (result, of_author) = self.check_dmarc(author, &evidence).await;
            results.push(result);
            says = says.stricter(of_author);
        }
        VerificationResult { results, refusal: says.refusal(), claim_refusal, spf_passed }
    }

    /// Checks the DKIM signatures and the ARC chain of a message, and adds their results. They are evaluated only if
    /// the library sees the header as this program does. Returns the outputs of the signatures.
    async fn check_signatures<'a>(
        &self,
        parsed: &'a AuthenticatedMessage<'a>,
        is_header_clear: bool,
        results: &mut Vec<MethodResult>,
    ) -> Vec<DkimOutput<'a>> {
        let authenticator = self.resolver.authenticator();
        let dkim: Vec<DkimOutput<'_>> = if is_header_clear {
            authenticator.verify_dkim(parsed).await
        } else {
            parsed.dkim_headers.iter().map(|_| DkimOutput::perm_err(AuthError::ParseError)).collect()
        };
        match dkim.as_slice() {
            [] => results.push(MethodResult::new("dkim", "none")),
            outputs => results.extend(outputs.iter().map(dkim_result)),
        }
        if !parsed.ams_headers.is_empty() {
            let arc = if is_header_clear {
                authenticator.verify_arc(parsed).await
            } else {
                ArcOutput::default().with_result(DkimResult::PermError(AuthError::ParseError))
            };
            results.push(MethodResult::new("arc", dkim_word(arc.result())).with_reason(dkim_reason(arc.result())));
        }
        dkim
    }

    /// Checks DMARC for authors of one domain.
    async fn check_dmarc(&self, authors: Vec<String>, evidence: &Evidence<'_>) -> (MethodResult, DmarcVerdict) {
        let of_author = AuthenticatedMessage { from: authors, ..AuthenticatedMessage::default() };
        let parameters = DmarcParameters::new(&of_author, evidence.dkim, evidence.spf_domain, evidence.spf)
            .with_domain_suffix_fn(organizational_domain);
        let output = self.resolver.authenticator().verify_dmarc(parameters).await;
        let unknown = if self.is_policy_unknown(output.domain()).await {
            MissingInformation::Policy
        } else if evidence.is_incomplete_for(output.domain()) {
            MissingInformation::Evidence
        } else {
            MissingInformation::Nothing
        };
        dmarc_result(&output, unknown)
    }

    /// Returns `true` if a failed lookup leaves open whether a domain has a DMARC record.
    ///
    /// The names are those that the library looks up, until the first with a record. The resolver still has their
    /// replies in its cache.
    async fn is_policy_unknown(&self, domain: &str) -> bool {
        let labels: Vec<&str> = domain.split('.').collect();
        let mut left = if is_domain(domain) && labels.len() > 1 { labels.len() } else { 0 };
        while left > 0 {
            let name = labels.get(labels.len() - left..).unwrap_or_default().join(".");
            match self.resolver.texts(&format!("_dmarc.{name}")).await {
                Ok(texts) if texts.iter().any(|text| text.starts_with("v=DMARC1")) => return false,
                Err(LookupError::Temporary(_)) => return true,
                Ok(_) | Err(_) => left = if left > 5 { 4 } else { left - 1 },
            }
        }
        false
    }

    /// Changes `none` to `temperror` if the name servers did not confirm that the record is missing.
    async fn none_to_temperror(&self, domain: &str, output: SpfOutput) -> SpfOutput {
        let is_hidden = output.result() == SpfResult::None
            && is_domain(domain)
            && matches!(self.resolver.texts(domain).await, Err(LookupError::Temporary(_)));
        if is_hidden { output.with_result(SpfResult::TempError) } else { output }
    }

    /// Checks SPF of the EHLO name and of the reverse path. Returns both results, and the domain of the latter.
    async fn check_spf(&self, arrival: &ClientInfo) -> (SpfOutput, SpfOutput, String) {
        let authenticator = self.resolver.authenticator();
        let helo = ascii_domain(&arrival.helo).filter(|name| is_domain(name)).unwrap_or_default();
        let (local, domain) = split_address(&arrival.reverse_path);
        let domain = ascii_domain(domain).unwrap_or_default().to_lowercase();
        let parameters = SpfParameters::verify_ehlo(arrival.address, &helo, &arrival.hostname);
        let of_helo = self.none_to_temperror(&helo, authenticator.verify_spf(parameters).await).await;
        if domain.is_empty() {
            return (of_helo, SpfOutput::new(String::new()), helo.to_lowercase());
        }
        let sender = format!("{local}@{domain}");
        let parameters = SpfParameters::verify_mail_from(arrival.address, &helo, &arrival.hostname, &sender);
        let of_sender = self.none_to_temperror(&domain, authenticator.verify_spf(parameters).await).await;
        (of_helo, of_sender, domain)
    }
}

/// The result of the checks.
#[derive(Default)]
struct VerificationResult {
    results: Vec<MethodResult>,
    /// The refusal if the author's domain asks for rejection of the message, which failed DMARC, if there is no
    /// readable author, or if this cannot be determined now.
    refusal: Option<NegativeReply>,
    /// The refusal if the message claims to be from a local domain without evidence, or if the evidence cannot be
    /// looked up now. It does not depend on the policy.
    claim_refusal: Option<NegativeReply>,
    spf_passed: bool,
}

impl VerificationResult {
    /// Returns the outcome of checks that did not complete, for a message that claims to be from this local domain.
    fn incomplete(claimed: Option<&str>) -> Self {
        let unknown = |method| MethodResult::new(method, "temperror").with_reason(Some("the check did not finish"));
        let text = "The origin of the message cannot be checked now, try again later";
        Self {
            results: ["spf", "dkim", "dmarc"].map(unknown).to_vec(),
            refusal: Some(NegativeReply::new(451, EnhancedStatus(4, 7, 0), text)),
            claim_refusal: claimed.map(undetermined),
            spf_passed: false,
        }
    }
}

/// Runs checks in their own task. Returns `None` if they take too long or panic.
async fn run_with_timeout(
    checks: impl Future<Output = VerificationResult> + Send + 'static,
) -> Option<VerificationResult> {
    match tokio::spawn(timeout(VERIFY_TIME_MAX, checks)).await {
        Ok(Ok(outcome)) => Some(outcome),
        Ok(Err(_)) => {
            tracing::warn!(target: "smtp", limit = ?VERIFY_TIME_MAX, "the checks of an incoming message took too long");
            None
        }
        Err(error) => {
            tracing::error!(target: "smtp", %error, "the checks of an incoming message failed");
            None
        }
    }
}

/// Evidence in favor of a message.
#[derive(Clone, Copy)]
struct Evidence<'a> {
    spf: &'a SpfOutput,
    /// The domain checked by `spf`.
    spf_domain: &'a str,
    dkim: &'a [DkimOutput<'a>],
}

impl Evidence<'_> {
    /// Returns the refusal of a message for which there is no evidence that the local domains permit it.
    ///
    /// A permanent refusal takes precedence over one that asks for a retry.
    fn claim_refusal(&self, claims: &LocalClaims) -> Option<NegativeReply> {
        let refusal = |domain: &str| {
            if self.is_incomplete_for(domain) { undetermined(domain) } else { forged(domain) }
        };
        let is_forged = |domain: &&String| !self.verifies(domain);
        let of_sender = claims.sender.iter().filter(is_forged).map(|domain| refusal(domain));
        let of_authors = claims.authors.iter().filter(is_forged).filter_map(|domain| match self.spf.result() {
            SpfResult::Pass if claims.is_from_list => None,
            SpfResult::TempError if claims.is_from_list => Some(undetermined(domain)),
            _ => Some(refusal(domain)),
        });
        let mut refusals: Vec<NegativeReply> = of_sender.chain(of_authors).collect();
        refusals.sort_by_key(|refusal| !refusal.is_permanent());
        refusals.into_iter().next()
    }

    /// Returns `true` if SPF or a signature of an aligned domain passes.
    fn verifies(&self, domain: &str) -> bool {
        let is_signed = |output: &DkimOutput<'_>| {
            let covers_author = |signed: &[String]| signed.iter().any(|name| name.eq_ignore_ascii_case("from"));
            let is_from_domain =
                output.signature().is_some_and(|of| are_aligned(&of.d, domain) && covers_author(&of.h));
            *output.result() == DkimResult::Pass && is_from_domain
        };
        (self.spf.result() == SpfResult::Pass && are_aligned(self.spf_domain, domain))
            || self.dkim.iter().any(is_signed)
    }

    /// Returns `true` if evidence in favor of this author's domain could not be looked up.
    fn is_incomplete_for(&self, author: &str) -> bool {
        let is_hidden = |output: &DkimOutput<'_>| {
            dkim_word(output.result()) == "temperror" && output.signature().is_some_and(|of| are_aligned(&of.d, author))
        };
        (self.spf.result() == SpfResult::TempError && are_aligned(self.spf_domain, author))
            || self.dkim.iter().any(is_hidden)
    }
}

/// Returns `true` if two domains belong to the same organization.
fn are_aligned(one: &str, two: &str) -> bool {
    organizational_domain(&one.to_lowercase()) == organizational_domain(&two.to_lowercase())
}

/// The information about a message that name servers did not provide.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingInformation {
    Nothing,
    /// It is unknown whether the author's domain has a policy.
    Policy,
    /// It is unknown whether an aligned domain authenticates the message.
    Evidence,
}

/// The verdict of DMARC on a message, for one author or for all of them.
#[derive(PartialEq, Eq, Debug)]
enum DmarcVerdict {
    Nothing,
    /// This domain may ask for rejection of the message, which cannot be determined now.
    Undetermined(String),
    /// This domain asks for rejection of the message.
    Reject(String),
}

impl DmarcVerdict {
    /// Combines the verdicts of two authors' domains. The stricter one takes precedence; of equal ones, the first.
    fn stricter(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Nothing, _) | (Self::Undetermined(_), Self::Reject(_)) => other,
            _ => self,
        }
    }

    fn refusal(self) -> Option<NegativeReply> {
        match self {
            Self::Nothing => None,
            Self::Undetermined(domain) => {
                let text = format!("Cannot look up the DMARC policy of {domain} now, try again later");
                Some(NegativeReply::new(451, EnhancedStatus(4, 7, 0), text))
            }
            Self::Reject(domain) => {
                let text = format!("Message fails DMARC, and {domain} asks to reject such messages");
                Some(NegativeReply::new(550, EnhancedStatus(5, 7, 1), text))
            }
        }
    }
}

/// Returns the fields of a message that its sender wrote: those after the trace field of this server.
fn sender_fields(message: &[u8], trace_bytes: usize) -> Vec<HeaderField<'_>> {
    let fields = top_fields(message).filter(|(range, _)| range.start >= trace_bytes);
    fields.map(|(_, field)| field).collect()
}

/// Returns `true` if the library sees these fields in a message. It may see others between them.
fn sees_fields(parsed: &AuthenticatedMessage<'_>, fields: &[HeaderField<'_>]) -> bool {
    let mut seen = parsed.headers.iter().map(|(name, value)| (name.trim_ascii_end(), without_line_end(value)));
    fields.iter().all(|field| seen.any(|other| other == (field.name, field.value)))
}

/// Returns the value of the only `From` field, or the reason why this program and the library do not both see it.
fn author_field<'a>(parsed: &AuthenticatedMessage<'_>, fields: &[HeaderField<'a>]) -> Result<&'a [u8], &'static str> {
    let here: Vec<&[u8]> = fields.iter().filter(|field| field.is("From")).map(|field| field.value).collect();
    let seen = parsed.headers.iter().filter(|(name, _)| is_author_name(name));
    let there: Vec<&[u8]> = seen.map(|(_, value)| without_line_end(value)).collect();
    match (here.as_slice(), there.as_slice()) {
        ([], _) => Err("The message has no From field"),
        ([_], []) => Err("The From field of the message is invalid"),
        ([value], [other]) if value == other => Ok(*value),
        _ => Err("The message has several From fields"),
    }
}

/// Returns the distinct domains of a message's authors, or the reason why they cannot be determined.
fn author_domains(
    fields: &[HeaderField<'_>],
    parsed: Option<&AuthenticatedMessage<'_>>,
) -> Result<Vec<String>, &'static str> {
    let parsed = parsed.ok_or("The message has no From field")?;
    let value = author_field(parsed, fields)?;
    let is_foreign = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\r' | b'\n' | b'\t');
    if value.iter().any(is_foreign) || parsed.from.is_empty() {
        return Err("The From field of the message is invalid");
    }
    let mut domains = Vec::new();
    for address in &parsed.from {
        let (local, domain) = split_address(address);
        let domain = ascii_domain(domain).unwrap_or_default().to_lowercase();
        if local.is_empty() || !is_domain(&domain) {
            return Err("The From field of the message is invalid");
        }
        if !domains.contains(&domain) {
            domains.push(domain);
        }
    }
    if domains.len() > AUTHOR_DOMAINS_MAX {
        return Err("The message has too many authors");
    }
    Ok(domains)
}

/// Returns for each domain the author list of a message whose only author is in that domain.
fn single_author_lists(domains: Vec<String>) -> Vec<Vec<String>> {
    domains.into_iter().map(|domain| vec![format!("author@{domain}")]).collect()
}

fn organizational_domain(name: &str) -> &str {
    psl::domain_str(name).unwrap_or(name)
}

fn spf_result(output: &SpfOutput) -> MethodResult {
    let word = match output.result() {
        SpfResult::Pass => "pass",
        SpfResult::Fail => "fail",
        SpfResult::SoftFail => "softfail",
        SpfResult::Neutral => "neutral",
        SpfResult::TempError => "temperror",
        SpfResult::PermError => "permerror",
        SpfResult::None => "none",
    };
    MethodResult::new("spf", word)
}

fn dkim_result(output: &DkimOutput<'_>) -> MethodResult {
    let result = MethodResult::new("dkim", dkim_word(output.result())).with_reason(dkim_reason(output.result()));
    let Some(signature) = output.signature() else { return result };
    let shown = STANDARD.encode(signature.b.get(..6).unwrap_or_default());
    result
        .with_property("header.d", &signature.d)
        .with_property("header.s", &signature.s)
        .with_property("header.b", &shown)
}

fn dkim_word(result: &DkimResult) -> &'static str {
    match result {
        DkimResult::Pass => "pass",
        DkimResult::Fail(_) => "fail",
        DkimResult::Neutral(_) => "neutral",
        DkimResult::PermError(AuthError::DnsRecordNotFound(code)) if !is_negative(*code) => "temperror",
        DkimResult::PermError(_) => "permerror",
        DkimResult::TempError(_) => "temperror",
        DkimResult::None => "none",
    }
}

fn dkim_reason(result: &DkimResult) -> Option<&'static str> {
    match result {
        DkimResult::Fail(error)
        | DkimResult::Neutral(error)
        | DkimResult::PermError(error)
        | DkimResult::TempError(error) => Some(reason(error)),
        DkimResult::Pass | DkimResult::None => None,
    }
}

/// Returns the result of DMARC and the verdict that follows from it.
fn dmarc_result(output: &DmarcOutput, unknown: MissingInformation) -> (MethodResult, DmarcVerdict) {
    let outcomes = [output.spf_result(), output.dkim_result()];
    let record = output.dmarc_record();
    let is = |wanted: fn(&DmarcResult) -> bool| outcomes.iter().any(|outcome| wanted(outcome));
    let word = if is(|outcome| *outcome == DmarcResult::Pass) {
        "pass"
    } else if unknown == MissingInformation::Policy
        || is(|outcome| matches!(outcome, DmarcResult::TempError(_)))
        || (unknown == MissingInformation::Evidence && record.is_some())
    {
        "temperror"
    } else if is(|outcome| matches!(outcome, DmarcResult::PermError(_))) {
        "permerror"
    } else if record.is_some() {
        "fail"
    } else {
        "none"
    };
    let policy = match output.policy() {
        DmarcPolicy::Reject => "reject",
        DmarcPolicy::Quarantine => "quarantine",
        DmarcPolicy::None => "none",
        DmarcPolicy::Unspecified => "unspecified",
    };
    let mut result = MethodResult::new("dmarc", word).with_property("header.from", output.domain());
    // A record in test mode (`t=y`, `pct=0`) asks for nothing (RFC 7489 §6.3).
    let tried_out = record.is_some_and(|record| record.t || record.pct == 0);
    if record.is_some() {
        result = result.with_property("policy.dmarc", policy);
    }
    if !is_domain(output.domain()) {
        return (result, DmarcVerdict::Nothing);
    }
    let rejects = record.is_some() && policy == "reject" && !tried_out;
    let may_reject = rejects || record.is_none() || unknown == MissingInformation::Policy;
    let says = match word {
        "fail" if rejects => DmarcVerdict::Reject(output.domain().to_owned()),
        "temperror" if may_reject => DmarcVerdict::Undetermined(output.domain().to_owned()),
        _ => DmarcVerdict::Nothing,
    };
    (result, says)
}

fn reason(error: &AuthError) -> &'static str {
    match error {
        AuthError::ParseError | AuthError::InvalidRecordType => "unusable record or field",
        AuthError::MissingParameters => "a tag is missing",
        AuthError::NoHeadersFound => "no fields found",
        AuthError::CryptoError(_) | AuthError::FailedVerification => "signature did not verify",
        AuthError::Io(_) | AuthError::Base64 => "malformed",
        AuthError::UnsupportedVersion
        | AuthError::UnsupportedAlgorithm
        | AuthError::UnsupportedCanonicalization
        | AuthError::UnsupportedKeyType => "not supported",
        AuthError::FailedBodyHashMatch => "body hash did not verify",
        AuthError::FailedAuidMatch => "identity does not match the domain",
        AuthError::RevokedPublicKey => "key revoked",
        AuthError::IncompatibleAlgorithms => "key and signature are incompatible",
        AuthError::SignatureExpired => "signature expired",
        AuthError::SignatureLength => "signature covers only part of the body",
        AuthError::DnsError(_) => "name resolution failed",
        AuthError::DnsRecordNotFound(code) if !is_negative(*code) => "name resolution failed",
        AuthError::DnsRecordNotFound(_) => "no key",
        AuthError::ArcChainTooLong
        | AuthError::ArcInvalidInstance(_)
        | AuthError::ArcInvalidCV
        | AuthError::ArcHasHeaderTag
        | AuthError::ArcBrokenChain => "broken chain",
        AuthError::NotAligned => "not aligned",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn hanging_or_panicking_checks_have_no_outcome() {
        let started = tokio::time::Instant::now();
        assert!(run_with_timeout(std::future::pending()).await.is_none());
        assert_eq!(started.elapsed(), VERIFY_TIME_MAX);
        assert!(run_with_timeout(async { panic!("a fault of the library") }).await.is_none());
        assert_eq!(started.elapsed(), VERIFY_TIME_MAX, "a panic ends the check immediately");
        assert!(run_with_timeout(async { VerificationResult::default() }).await.is_some());
    }

    #[test]
    fn unfinished_checks_are_a_temporary_failure() {
        let outcome = VerificationResult::incomplete(None);
        assert_eq!(outcome.claim_refusal, None);
        assert!(outcome.results.iter().all(|result| result.result == "temperror"));
        let refusal = outcome.refusal.expect("the message is deferred");
        assert_eq!(refusal.to_string(), "451 4.7.0 The origin of the message cannot be checked now, try again later");
        let refusal = VerificationResult::incomplete(Some("b.example")).claim_refusal.expect("the claim is unknown");
        let text = "451 4.7.0 Cannot verify now that b.example permits this message, try again later";
        assert_eq!(refusal.to_string(), text);
    }

    #[test]
    fn strictest_verdict_of_several_authors_counts() {
        let perhaps = || DmarcVerdict::Undetermined("a.test".to_owned());
        let reject = || DmarcVerdict::Reject("b.test".to_owned());
        assert_eq!(DmarcVerdict::Nothing.stricter(perhaps()), perhaps());
        assert_eq!(perhaps().stricter(DmarcVerdict::Nothing), perhaps());
        assert_eq!(perhaps().stricter(reject()), reject());
        assert_eq!(reject().stricter(perhaps()), reject());
        assert_eq!(DmarcVerdict::Nothing.stricter(DmarcVerdict::Nothing).refusal(), None);
    }
}
