//! The local domains that a message from outside claims to be from, in its reverse path and in `From`.
//!
//! Nobody but this server and its users sends with its domains, except for servers that the domains themselves permit
//! by SPF or DKIM. `verify` requires one of the two for each claim, whatever the DMARC policy of the domain is.
//!
//! The claims are read leniently: a `From` field of which a mail program shows a local address must not evade the check
//! by its form. All `From` fields count, those after stray lines and those with blanks in their name as well.

use mail::mime::address::{Mailbox, mailboxes};
use mail::mime::message_header::top_fields;

use crate::backend::RecipientLookup;
use crate::codec::path::split_address;
use crate::dns::ascii_domain;
use crate::error::{EnhancedStatus, NegativeReply};
use crate::limits::CLAIMED_DOMAINS_MAX;
use crate::listener_rules::ListenerRules;

/// The local domains that a message claims to be from and that must be verified.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LocalClaims {
    /// The domain of the reverse path, if it is local.
    pub sender: Option<String>,
    /// The local domains of the authors.
    pub authors: Vec<String>,
    /// `true` if the reverse path is that of a trusted mailing list, whose mail may have local authors.
    pub is_from_list: bool,
}

impl LocalClaims {
    /// Finds the claims of a message. Fails if it names too many domains, or if the directory cannot be read.
    pub fn find(
        reverse_path: &str,
        message: &[u8],
        rules: &ListenerRules,
        directory: &dyn RecipientLookup,
    ) -> Result<Self, NegativeReply> {
        let mut authors = Vec::new();
        for domain in author_domains(message)? {
            if directory.is_local_domain(&domain)? {
                authors.push(domain);
            }
        }
        let sender = comparable_domain(split_address(reverse_path).1);
        let is_local = !sender.is_empty() && directory.is_local_domain(&sender)?;
        let is_from_list = is_trusted_list(&rules.trusted_lists, reverse_path);
        Ok(Self { sender: Some(sender).filter(|_| is_local), authors, is_from_list })
    }

    /// Returns the domains of all claims.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.sender.iter().chain(&self.authors).map(String::as_str)
    }

    /// Returns the refusal of a message for whose claims there can be no evidence, or `None` if it has no claims.
    #[must_use]
    pub fn refusal_without_evidence(&self) -> Option<NegativeReply> {
        self.domains().next().map(forged)
    }
}

/// Returns the refusal of a message that claims to be from a local domain without evidence.
pub(crate) fn forged(domain: &str) -> NegativeReply {
    let text = format!("{domain} is a domain of this server: log in to send from it");
    NegativeReply::new(550, EnhancedStatus(5, 7, 26), text)
}

/// Returns the refusal of a message that claims to be from a local domain, if evidence cannot be looked up now.
pub(crate) fn undetermined(domain: &str) -> NegativeReply {
    let text = format!("Cannot verify now that {domain} permits this message, try again later");
    NegativeReply::new(451, EnhancedStatus(4, 7, 0), text)
}

/// Returns `true` if a program may take a field with this name for `From`. Some ignore white space within names.
pub(crate) fn is_author_name(name: &[u8]) -> bool {
    let letters = name.iter().filter(|byte| !byte.is_ascii_whitespace());
    letters.map(u8::to_ascii_lowercase).eq(*b"from")
}

/// Returns the distinct domains of all authors of a message.
fn author_domains(message: &[u8]) -> Result<Vec<String>, NegativeReply> {
    let mut domains = Vec::new();
    for (_, field) in top_fields(message).filter(|(_, field)| is_author_name(field.name)) {
        for domain in mailboxes(field.value).map(|author| claimed_domain(&author)) {
            if domain.is_empty() || domains.contains(&domain) {
                continue;
            }
            if domains.len() >= CLAIMED_DOMAINS_MAX {
                let text = "The message has authors in too many domains";
                return Err(NegativeReply::new(550, EnhancedStatus(5, 6, 0), text));
            }
            domains.push(domain);
        }
    }
    Ok(domains)
}

/// Returns `true` if one of the lists has this reverse path or its domain.
fn is_trusted_list(lists: &[String], reverse_path: &str) -> bool {
    let (local, domain) = split_address(reverse_path);
    let domain = comparable_domain(domain);
    lists.iter().any(|list| {
        let (list_local, list_domain) = list.rsplit_once('@').unwrap_or(("", list.as_str()));
        let is_any_local = list_local.is_empty();
        !domain.is_empty()
            && comparable_domain(list_domain) == domain
            && (is_any_local || list_local.eq_ignore_ascii_case(local))
    })
}

/// Returns the domain that a program may show for an author.
fn claimed_domain(author: &Mailbox) -> String {
    let local = String::from_utf8_lossy(&author.local);
    let domain = String::from_utf8_lossy(&author.domain);
    // A quoted address, as in `<"ann@acme.test">`, is a local part without a domain.
    comparable_domain(if domain.is_empty() { split_address(&local).1 } else { &domain })
}

/// Returns the form of a domain that is looked up: in ASCII, in lower case, without a final dot, and without characters
/// that a program may omit.
fn comparable_domain(domain: &str) -> String {
    let shown: String = domain.chars().filter(|c| !c.is_control() && !c.is_whitespace()).collect();
    let ascii = ascii_domain(&shown).unwrap_or_default().to_ascii_lowercase();
    ascii.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use mail::submission::ResolvedAddress;

    use super::*;

    /// A directory with the local domain `acme.test`.
    struct Acme;

    impl RecipientLookup for Acme {
        fn resolve(&self, _: &str) -> Result<ResolvedAddress, NegativeReply> {
            Err(NegativeReply::temporary())
        }

        fn is_local_domain(&self, domain: &str) -> Result<bool, NegativeReply> {
            if domain == "later.test" { Err(NegativeReply::temporary()) } else { Ok(domain == "acme.test") }
        }
    }

    fn find(reverse_path: &str, header: &str) -> Result<LocalClaims, NegativeReply> {
        let message = format!("Received: x\r\n{header}\r\nFrom: text@acme.test\r\n");
        let rules = ListenerRules {
            trusted_lists: vec!["bounces@list.test".to_owned(), "lists.test".to_owned()],
            ..ListenerRules::reception("mx.acme.test", "acme.test")
        };
        LocalClaims::find(reverse_path, message.as_bytes(), &rules, &Acme)
    }

    fn check(from: &str, is_claim: bool) {
        let claims = find("x@far.test", &format!("From: {from}\r\n")).expect("the directory can be read");
        assert_eq!(claims.authors.len(), usize::from(is_claim), "{from:?}");
        assert_eq!(claims.sender, None);
    }

    #[test]
    fn local_authors_are_found_in_every_form() {
        for from in [
            "ann@acme.test",
            "Ann <ann@ACME.Test>",
            "x@far.test, ann@acme.test",
            "team: x@far.test, Ann <ann@acme.test>;",
            "ann@acme.test.",
            "ann@acme(comment).test",
            "ann@acme\u{3002}test",
            "ann@acme.test\0",
            "<ann@acme.\r\n test>",
            "\"ann@acme.test\"",
            "<\"ann@acme.test\">",
            "ann@acme.test, ann@acme.test",
        ] {
            check(from, true);
        }
        for from in
            ["x@far.test", "x@sub.acme.test", "x@acme.test.far.test", "acme.test", "\"ann@acme.test\" <x@far.test>", ""]
        {
            check(from, false);
        }
    }

    #[test]
    fn every_author_field_counts() {
        let authors = |header: &str| find("", header).map(|claims| claims.authors);
        let acme = Ok(vec!["acme.test".to_owned()]);
        assert_eq!(authors("From: x@far.test\r\nFrom: ann@acme.test\r\n"), acme);
        assert_eq!(authors("From: x@far.test\r\nstray\r\nFROM : ann@acme.test\r\n"), acme);
        assert_eq!(authors("Sender: ann@acme.test\r\nReply-To: ann@acme.test\r\n"), Ok(Vec::new()));
        let many: Vec<String> = (0..=CLAIMED_DOMAINS_MAX).map(|number| format!("From: a@d{number}.test\r\n")).collect();
        assert_eq!(authors(&many.concat()).map_err(|refusal| refusal.code), Err(550));
        assert_eq!(authors("From: a@later.test\r\n"), Err(NegativeReply::temporary()));
    }

    #[test]
    fn sender_and_list_follow_from_the_reverse_path() {
        let check = |reverse_path: &str, sender: Option<&str>, is_from_list: bool| {
            let claims = find(reverse_path, "From: x@far.test\r\n").expect("the directory can be read");
            assert_eq!((claims.sender.as_deref(), claims.is_from_list), (sender, is_from_list), "{reverse_path}");
        };
        check("ann@acme.test", Some("acme.test"), false);
        check("ann@Acme.TEST", Some("acme.test"), false);
        check("", None, false);
        check("x@far.test", None, false);
        check("bounces@list.test", None, true);
        check("Bounces@List.test", None, true);
        check("other@list.test", None, false);
        check("bounces+ann=acme.test@lists.test", None, true);
        check("x@sub.lists.test", None, false);
    }

    #[test]
    fn claims_without_evidence_are_refused() {
        let claims = find("ann@acme.test", "").expect("the directory can be read");
        let refusal = claims.refusal_without_evidence().expect("the sender is local");
        assert_eq!(refusal.to_string(), "550 5.7.26 acme.test is a domain of this server: log in to send from it");
        assert_eq!(LocalClaims::default().refusal_without_evidence(), None);
    }
}
