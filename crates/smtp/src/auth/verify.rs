//! Checks where a stranger's message comes from: SPF, DKIM, DMARC and ARC, by `mail-auth`.
//!
//! The outcome is a field for the message, and a refusal if the policy says so and the author's domain asks for it
//! (DMARC `p=reject`). Nothing else is refused here: SPF and DKIM alone break too often on the way (RFC 7489 §10.1).
//!
//! What DMARC says is about the author's domain, so under [`Policy::Reject`] a message must have one: exactly one `From` field, in which
//! every address can be read (RFC 7489 §6.6.1). Otherwise whoever wants to pass unchecked would only have to write the field twice, or with a NUL.
//! Where the field names several domains, each of them is asked, and one that asks to reject is enough.
//!
//! The checks run in a task of their own under one time limit. Should they take too long, or the library fail on
//! something that a stranger wrote, the message is taken with `none`: mail is not lost because of a check. The
//! organisational domain of an author (for relaxed alignment) comes from the Public Suffix List (`psl`).

use std::net::IpAddr;
use std::sync::Arc;

use data_encoding::BASE64;
use mail_auth::dmarc::Policy as DmarcPolicy;
use mail_auth::dmarc::verify::DmarcParameters;
use mail_auth::spf::verify::SpfParameters;
use mail_auth::{
    AuthenticatedMessage, DkimOutput, DkimResult, DmarcOutput, DmarcResult, Error as AuthError, SpfOutput, SpfResult,
};
use tokio::time::timeout;

use crate::auth::results::{MethodResult, write};
use crate::codec::path::{is_domain, split_address};
use crate::dns::{Resolver, ascii_domain};
use crate::error::{Refusal, Status};
use crate::header::fields;
use crate::limits::{AUTHOR_DOMAINS_MAX, SIGNATURES_MAX, VERIFY_TIME_MAX};

/// What the results are used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// They are recorded and nothing is refused.
    Record,
    /// A message that fails DMARC is refused if its author's domain asks for that, and so is one without a legible author.
    Reject,
}

/// How a message came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The address of the client.
    pub address: IpAddr,
    /// The name that it gave.
    pub helo: String,
    /// The reverse path; empty for `<>`.
    pub reverse_path: String,
    /// Our name.
    pub hostname: String,
}

/// Checks messages. Shared by all connections of a listener.
pub struct Verifier {
    resolver: Resolver,
    policy: Policy,
}

impl Verifier {
    /// Makes a verifier.
    #[must_use]
    pub fn new(resolver: Resolver, policy: Policy) -> Self {
        Self { resolver, policy }
    }

    /// Checks a message behind its trace field; gives the field with the results, or refuses.
    pub async fn verdict(
        self: &Arc<Self>,
        arrival: Arrival,
        message: Arc<Vec<u8>>,
        trace_bytes: usize,
    ) -> Result<String, Refusal> {
        let hostname = arrival.hostname.clone();
        let verifier = Arc::clone(self);
        let checks = tokio::spawn(async move {
            let text = message.get(trace_bytes..).unwrap_or_default();
            timeout(VERIFY_TIME_MAX, verifier.check(&arrival, text)).await
        });
        let outcome = match checks.await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Outcome::default(),
            Err(error) => {
                tracing::error!(%error, "the checks of an incoming message failed");
                Outcome::default()
            }
        };
        match outcome.refusal {
            Some(refusal) if self.policy == Policy::Reject => Err(refusal),
            _ => Ok(write(&hostname, &outcome.results)),
        }
    }

    async fn check(&self, arrival: &Arrival, text: &[u8]) -> Outcome {
        let parsed = AuthenticatedMessage::parse(text);
        let authors = author_domains(text, parsed.as_ref());
        if let (Err(why), Policy::Reject) = (&authors, self.policy) {
            // Nothing that a stranger's name servers answer, or do not, changes that.
            return Outcome { results: Vec::new(), refusal: Some(Refusal::new(550, Status(5, 6, 0), *why)) };
        }
        let (helo, mail_from, mail_from_domain) = self.check_spf(arrival).await;
        let mut results = vec![spf_result(&helo).with("smtp.helo", &arrival.helo)];
        let spf = if arrival.reverse_path.is_empty() {
            helo
        } else {
            results.push(spf_result(&mail_from).with("smtp.mailfrom", &arrival.reverse_path));
            mail_from
        };
        let Some(mut parsed) = parsed else {
            return Outcome { results, refusal: None };
        };
        parsed.dkim_headers.truncate(SIGNATURES_MAX);
        let authenticator = self.resolver.authenticator();
        let dkim = authenticator.verify_dkim(&parsed).await;
        match dkim.as_slice() {
            [] => results.push(MethodResult::new("dkim", "none")),
            outputs => results.extend(outputs.iter().map(dkim_result)),
        }
        if !parsed.ams_headers.is_empty() {
            let arc = authenticator.verify_arc(&parsed).await;
            results.push(MethodResult::new("arc", dkim_word(arc.result())).because(dkim_reason(arc.result())));
        }
        let mut refused_by = None;
        // Where the field cannot be read, the library gets it as it is, and says «none» or «temperror».
        for author in authors.map_or_else(|_| vec![parsed.from.clone()], one_by_one) {
            let of_author = AuthenticatedMessage { from: author, ..AuthenticatedMessage::default() };
            let parameters = DmarcParameters::new(&of_author, &dkim, &mail_from_domain, &spf)
                .with_domain_suffix_fn(organizational_domain);
            let (result, refused) = dmarc_result(&authenticator.verify_dmarc(parameters).await);
            results.push(result);
            refused_by = refused_by.or(refused);
        }
        let refusal = refused_by.map(|domain| {
            let text = format!("Message fails DMARC, and {domain} asks to reject such messages");
            Refusal::new(550, Status(5, 7, 1), text)
        });
        Outcome { results, refusal }
    }

    /// Checks SPF of the name from EHLO and of the reverse path; gives both, and the domain that the latter is of.
    async fn check_spf(&self, arrival: &Arrival) -> (SpfOutput, SpfOutput, String) {
        let authenticator = self.resolver.authenticator();
        let helo = ascii_domain(&arrival.helo).filter(|name| is_domain(name)).unwrap_or_default();
        let (local, domain) = split_address(&arrival.reverse_path);
        let domain = ascii_domain(domain).unwrap_or_default().to_lowercase();
        let parameters = SpfParameters::verify_ehlo(arrival.address, &helo, &arrival.hostname);
        let of_helo = authenticator.verify_spf(parameters).await;
        if domain.is_empty() {
            return (of_helo, SpfOutput::new(String::new()), helo.to_lowercase());
        }
        let sender = format!("{local}@{domain}");
        let parameters = SpfParameters::verify_mail_from(arrival.address, &helo, &arrival.hostname, &sender);
        let of_sender = authenticator.verify_spf(parameters).await;
        (of_helo, of_sender, domain)
    }
}

/// What the checks gave.
#[derive(Default)]
struct Outcome {
    results: Vec<MethodResult>,
    /// The author's domain asks to reject the message, which failed DMARC; or there is no legible author.
    refusal: Option<Refusal>,
}

/// Gives the domains of a message's authors, each once, or says why they cannot be told.
fn author_domains(text: &[u8], parsed: Option<&AuthenticatedMessage<'_>>) -> Result<Vec<String>, &'static str> {
    let parsed = parsed.ok_or("The message has no From field")?;
    let here: Vec<_> = fields(text).filter(|field| field.is("From")).collect();
    let there = parsed.headers.iter().filter(|(name, _)| name.trim_ascii().eq_ignore_ascii_case(b"From")).count();
    let value = match here.as_slice() {
        [] => return Err("The message has no From field"),
        // Who reads on behind a line that is no field must not find another author there.
        [field] if there == 1 => field.value,
        _ => return Err("The message has several From fields"),
    };
    let is_foreign = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\r' | b'\n' | b'\t');
    if value.iter().any(is_foreign) || parsed.from.is_empty() {
        return Err("The From field of the message cannot be read");
    }
    let mut domains = Vec::new();
    for address in &parsed.from {
        let (local, domain) = split_address(address);
        let domain = ascii_domain(domain).unwrap_or_default().to_lowercase();
        if local.is_empty() || !is_domain(&domain) {
            return Err("The From field of the message cannot be read");
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

/// Gives for each domain the authors of a message that it alone has written.
fn one_by_one(domains: Vec<String>) -> Vec<Vec<String>> {
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
    let result = MethodResult::new("dkim", dkim_word(output.result())).because(dkim_reason(output.result()));
    let Some(signature) = output.signature() else { return result };
    let shown = BASE64.encode(signature.b.get(..6).unwrap_or_default());
    result.with("header.d", &signature.d).with("header.s", &signature.s).with("header.b", &shown)
}

fn dkim_word(result: &DkimResult) -> &'static str {
    match result {
        DkimResult::Pass => "pass",
        DkimResult::Fail(_) => "fail",
        DkimResult::Neutral(_) => "neutral",
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

/// Gives the result of DMARC, and the domain that asks to reject the message.
fn dmarc_result(output: &DmarcOutput) -> (MethodResult, Option<String>) {
    let outcomes = [output.spf_result(), output.dkim_result()];
    let record = output.dmarc_record();
    let is = |wanted: fn(&DmarcResult) -> bool| outcomes.iter().any(|outcome| wanted(outcome));
    let word = if is(|outcome| *outcome == DmarcResult::Pass) {
        "pass"
    } else if is(|outcome| matches!(outcome, DmarcResult::TempError(_))) {
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
    let mut result = MethodResult::new("dmarc", word).with("header.from", output.domain());
    // A record that is being tried out (`t=y`, `pct=0`) asks for nothing (RFC 7489 §6.3).
    let tried_out = record.is_some_and(|record| record.t || record.pct == 0);
    if record.is_some() {
        result = result.with("policy.dmarc", policy);
    }
    let refuses = word == "fail" && policy == "reject" && !tried_out && is_domain(output.domain());
    (result, refuses.then(|| output.domain().to_owned()))
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
        AuthError::IncompatibleAlgorithms => "key and signature do not fit",
        AuthError::SignatureExpired => "signature expired",
        AuthError::SignatureLength => "signature covers a part only",
        AuthError::DnsError(_) => "name resolution failed",
        AuthError::DnsRecordNotFound(_) => "no key",
        AuthError::ArcChainTooLong
        | AuthError::ArcInvalidInstance(_)
        | AuthError::ArcInvalidCV
        | AuthError::ArcHasHeaderTag
        | AuthError::ArcBrokenChain => "broken chain",
        AuthError::NotAligned => "not aligned",
    }
}
