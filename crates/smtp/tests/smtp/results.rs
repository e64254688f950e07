//! Tests of the results recorded for messages from other servers, and of their refusal: SPF, DKIM and DMARC over a zone
//! in memory.

use std::sync::Arc;

use base::sim::SeededRandom;
use dkim::key::{Algorithm, PrivateKey, key_record};
use dkim::sign::Signer;
use smtp::auth::local_claims::LocalClaims;
use smtp::auth::verify::{ClientInfo, DmarcEnforcement, Verifier};
use smtp::dns::Resolver;

use crate::dns::{Zone, silent_resolver};

const MESSAGE: &str = "From: Ann <ann@author.example>\r\nTo: bob@b.example\r\nSubject: hello\r\n\r\ntext\r\n";

fn zone() -> Zone {
    Zone::default()
        .txt("author.example", "v=spf1 ip4:192.0.2.7 -all")
        .txt("_dmarc.author.example", "v=DMARC1; p=reject")
        .txt("tried.example", "v=spf1 -all")
        .txt("_dmarc.tried.example", "v=DMARC1; p=reject; t=y")
        .txt("lax.example", "v=spf1 ?all")
        .txt("_dmarc.lax.example", "v=DMARC1; p=none")
        .txt("_dmarc.half.example", "v=DMARC1; p=reject")
        .txt("_dmarc.garbled.example", "v=DMARC1; p=rejekt; p")
        .host("client.author.example", "192.0.2.7")
}

/// Returns the results of a message in one line, or the refusal.
async fn results(zone: Zone, policy: DmarcEnforcement, client: (&str, &str), message: &str) -> String {
    results_with_resolver(zone.serve().await, policy, client, message).await
}

async fn results_with_resolver(
    resolver: Resolver,
    policy: DmarcEnforcement,
    client: (&str, &str),
    message: &str,
) -> String {
    results_with_claims(resolver, policy, client, message, LocalClaims::default()).await
}

async fn results_with_claims(
    resolver: Resolver,
    policy: DmarcEnforcement,
    (address, from): (&str, &str),
    message: &str,
    claims: LocalClaims,
) -> String {
    let verifier = Arc::new(Verifier::new(resolver, policy));
    let arrival = ClientInfo {
        address: address.parse().expect("an address"),
        helo: "client.author.example".to_owned(),
        reverse_path: from.to_owned(),
        hostname: "mx.b.example".to_owned(),
        claims,
    };
    let trace = "Received: from x\r\n";
    let whole = Arc::new(format!("{trace}{message}").into_bytes());
    match verifier.verify(arrival, whole, trace.len()).await {
        Ok(verified) => verified.field.replace("\r\n\t", " ").trim_end().to_owned(),
        Err(refusal) => refusal.to_string(),
    }
}

#[tokio::test]
async fn spf_and_dmarc_are_recorded() {
    let pass = results(zone(), DmarcEnforcement::Reject, ("192.0.2.7", "ann@author.example"), MESSAGE).await;
    assert_eq!(
        pass,
        "Authentication-Results: mx.b.example; spf=none smtp.helo=client.author.example; spf=pass \
         smtp.mailfrom=ann@author.example; dkim=none; dmarc=pass header.from=author.example policy.dmarc=reject"
    );
    let forged = ("192.0.2.99", "ann@author.example");
    let recorded = results(zone(), DmarcEnforcement::Record, forged, MESSAGE).await;
    assert!(recorded.contains("spf=fail smtp.mailfrom=ann@author.example"), "{recorded}");
    assert!(recorded.ends_with("dmarc=fail header.from=author.example policy.dmarc=reject"), "{recorded}");
    let refused = results(zone(), DmarcEnforcement::Reject, forged, MESSAGE).await;
    assert_eq!(refused, "550 5.7.1 Message fails DMARC, and author.example asks to reject such messages");
}

#[tokio::test]
async fn only_an_enforced_policy_refuses() {
    for domain in ["tried.example", "lax.example", "silent.example", "garbled.example"] {
        let message = MESSAGE.replace("author.example", domain);
        let from = format!("ann@{domain}");
        let results = results(zone(), DmarcEnforcement::Reject, ("192.0.2.99", &from), &message).await;
        assert!(results.starts_with("Authentication-Results:"), "{domain}: {results}");
    }
    let unaligned = results(
        zone(),
        DmarcEnforcement::Reject,
        ("192.0.2.7", "x@author.example"),
        &MESSAGE.replace("author", "other"),
    )
    .await;
    assert!(unaligned.contains("spf=pass") && unaligned.contains("dmarc=none"), "{unaligned}");
}

/// Checks messages whose lookups fail (SERVFAIL): it is unknown whether the author's domain asks to reject them.
#[tokio::test]
async fn failed_lookups_defer_messages_under_an_enforced_policy() {
    let check = async |from: &str, (author, more): (&str, &str), enforced: &str, dmarc: &str| {
        let message = format!("{more}{}", MESSAGE.replace("author.example", author));
        let client = ("192.0.2.99", from);
        let found = results(zone(), DmarcEnforcement::Reject, client, &message).await;
        assert!(found.starts_with(enforced), "{from} {author}: {found}");
        let recorded = results(zone(), DmarcEnforcement::Record, client, &message).await;
        assert!(recorded.contains(&format!("; dmarc={dmarc} ")), "{from} {author}: {recorded}");
    };
    let later = |domain: &str| format!("451 4.7.0 Cannot look up the DMARC policy of {domain} now, try again later");
    let fails = |domain: &str| format!("550 5.7.1 Message fails DMARC, and {domain} asks");
    let taken = "Authentication-Results:";
    // The policy itself cannot be looked up. This includes a subdomain whose organization has a policy.
    check("x@silent.example", ("broken.example", ""), &later("broken.example"), "temperror").await;
    check("x@silent.example", ("broken.half.example", ""), &later("broken.half.example"), "temperror").await;
    // SPF of an aligned domain might have passed. SPF of another domain could not have helped.
    check("x@broken.half.example", ("half.example", ""), &later("half.example"), "temperror").await;
    check("x@broken.silent.example", ("half.example", ""), &fails("half.example"), "fail").await;
    check("x@broken.lax.example", ("lax.example", ""), taken, "temperror").await;
    // A signature whose key cannot be looked up might have passed, too.
    let signed = |domain: &str| {
        format!(
            "DKIM-Signature: v=1; a=rsa-sha256; d={domain}; s=broken; c=relaxed/relaxed; h=from;\r\n \
             bh=eDCyaw7m810RhFf0TmGWGkTYiT/1GwL4/PCOGIr3ew4=; b=AAAA\r\n"
        )
    };
    check("x@silent.example", ("half.example", &signed("half.example")), &later("half.example"), "temperror").await;
    check("x@silent.example", ("half.example", &signed("lax.example")), &fails("half.example"), "fail").await;
    check("x@silent.example", ("tried.example", &signed("tried.example")), taken, "temperror").await;
    // One domain that asks for rejection is enough, regardless of the name servers of the others.
    let both = MESSAGE.replace("ann@author.example", "ann@broken.example, ann@author.example");
    let found = results(zone(), DmarcEnforcement::Reject, ("192.0.2.99", "x@silent.example"), &both).await;
    assert!(found.starts_with(&fails("author.example")), "{found}");
}

#[tokio::test(start_paused = true)]
async fn silent_name_server_defers_the_message() {
    let client = ("192.0.2.99", "x@silent.example");
    let (resolver, _port) = silent_resolver().await;
    let started = tokio::time::Instant::now();
    let refused = results_with_resolver(resolver.clone(), DmarcEnforcement::Reject, client, MESSAGE).await;
    assert_eq!(refused, "451 4.7.0 The origin of the message cannot be checked now, try again later");
    assert_eq!(started.elapsed(), smtp::limits::VERIFY_TIME_MAX);
    let recorded = results_with_resolver(resolver.clone(), DmarcEnforcement::Record, client, MESSAGE).await;
    let reason = "temperror reason=\"the check did not finish\"";
    let expected = format!("Authentication-Results: mx.b.example; spf={reason}; dkim={reason}; dmarc={reason}");
    assert_eq!(recorded, expected);
    let illegible =
        results_with_resolver(resolver.clone(), DmarcEnforcement::Reject, client, "Subject: x\r\n\r\n").await;
    assert!(illegible.starts_with("550 5.6.0"), "{illegible}");
    let claims = LocalClaims { authors: vec!["author.example".to_owned()], ..LocalClaims::default() };
    let claimed = results_with_claims(resolver, DmarcEnforcement::Record, client, MESSAGE, claims).await;
    assert_eq!(claimed, "451 4.7.0 Cannot verify now that author.example permits this message, try again later");
}

// The clock of this test is stopped: it advances when all tasks wait for replies.
#[tokio::test(start_paused = true)]
async fn checks_beyond_their_number_make_no_lookups() {
    let (resolver, name_server) = silent_resolver().await;
    let verifier = Arc::new(Verifier::new(resolver, DmarcEnforcement::Record).with_checks_max(1));
    let verify = |name: &str| {
        let arrival = ClientInfo {
            address: "192.0.2.99".parse().expect("an address"),
            helo: format!("{name}.example"),
            reverse_path: String::new(),
            hostname: "mx.b.example".to_owned(),
            claims: LocalClaims::default(),
        };
        let verifier = Arc::clone(&verifier);
        async move { verifier.verify(arrival, Arc::new(MESSAGE.as_bytes().to_vec()), 0).await }
    };
    let both = async { tokio::join!(verify("first"), verify("second")) };
    assert!(tokio::time::timeout(smtp::limits::VERIFY_TIME_MAX / 2, both).await.is_err(), "the name server is silent");
    let mut requests = Vec::new();
    let mut request = [0; 512];
    while let Ok(length) = name_server.try_recv(&mut request) {
        requests.extend_from_slice(&request[..length]);
    }
    let is_requested = |name: &[u8]| requests.windows(name.len()).any(|part| part == name);
    assert_ne!(is_requested(b"first"), is_requested(b"second"), "one message is checked, and the other waits");
}

#[tokio::test]
async fn own_signatures_verify_unless_the_message_is_altered() {
    let random = SeededRandom::new(3);
    let rsa = PrivateKey::generate(Algorithm::Rsa, &random).expect("a key");
    let ed25519 = PrivateKey::generate(Algorithm::Ed25519, &random).expect("a key");
    let signer = Signer::new("author.example", [("r1", &rsa), ("e1", &ed25519)]).expect("a signer");
    let signature = signer.sign(MESSAGE.as_bytes()).expect("signed");
    assert_eq!(signature.matches("DKIM-Signature:").count(), 2);
    let mut zone = zone();
    for (selector, key) in [("r1", &rsa), ("e1", &ed25519)] {
        let record = key_record("author.example", selector, key);
        zone = zone.txt(&record.name, &record.text);
    }
    let elsewhere = ("192.0.2.99", "list@list.example");
    let signed = format!("{signature}{MESSAGE}");
    let good = results(zone.clone(), DmarcEnforcement::Reject, elsewhere, &signed).await;
    assert_eq!(good.matches("dkim=pass header.d=author.example header.s=").count(), 2, "{good}");
    assert!(good.ends_with("dmarc=pass header.from=author.example policy.dmarc=reject"), "{good}");
    let altered = signed.replace("text\r\n", "other\r\n");
    let bad = results(zone.clone(), DmarcEnforcement::Record, elsewhere, &altered).await;
    assert!(bad.contains("reason=\"body hash did not verify\"") && bad.contains("dmarc=fail"), "{bad}");
    let second_author = signed.replacen("From:", "From: evil@evil.example\r\nFrom:", 1);
    let bad = results(zone, DmarcEnforcement::Record, elsewhere, &second_author).await;
    assert!(!bad.contains("dkim=pass"), "{bad}");
}

/// Checks that signatures are not evaluated if they do not cover the message as it is shown. A line that replaces the
/// blank line of a signed message ends the header for the library and not for this program.
#[tokio::test]
async fn a_signature_does_not_cover_fields_after_a_stray_line() {
    let key = PrivateKey::generate(Algorithm::Ed25519, &SeededRandom::new(3)).expect("a key");
    let signer = Signer::new("author.example", [("e1", &key)]).expect("a signer");
    let record = key_record("author.example", "e1", &key);
    let zone = zone().txt(&record.name, &record.text);
    let elsewhere = ("192.0.2.99", "list@list.example");
    for text in ["Subject: other\r\n\r\ntext\r\n", "text\r\n"] {
        let message = MESSAGE.replace("text\r\n", text);
        let signed = format!("{}{message}", signer.sign(message.as_bytes()).expect("signed"));
        let good = results(zone.clone(), DmarcEnforcement::Record, elsewhere, &signed).await;
        assert!(good.contains("; dkim=pass ") && good.contains("; dmarc=pass "), "{good}");
        let altered = signed.replacen("\r\n\r\n", "\r\nstray\r\n", 1);
        let bad = results(zone.clone(), DmarcEnforcement::Record, elsewhere, &altered).await;
        assert!(bad.contains("; dkim=permerror ") && bad.contains("; dmarc=fail "), "{bad}");
    }
}

/// Checks that DMARC does not pass for one author of a message that has another one for other programs.
#[tokio::test]
async fn dmarc_does_not_pass_without_a_single_author() {
    let client = ("192.0.2.7", "ann@author.example");
    let good = results(zone(), DmarcEnforcement::Record, client, MESSAGE).await;
    assert!(good.contains("; dmarc=pass "), "{good}");
    for from in [
        "From: ann@author.example\r\nFrom: x@bank.example\r\n",
        "From: ann@author.example\r\nstray\r\nFrom: x@bank.example\r\n",
        "F r o m: ann@author.example\r\nX: y\r\nstray\r\nFrom: x@bank.example\r\n",
        "From : ann@author.example\r\nF r o m: x@bank.example\r\n",
    ] {
        let message = format!("{from}Subject: x\r\n\r\ntext\r\n");
        let found = results(zone(), DmarcEnforcement::Record, client, &message).await;
        assert!(found.ends_with("; dmarc=none reason=\"The message has several From fields\""), "{from:?}: {found}");
    }
}

#[tokio::test]
async fn malformed_messages_are_recorded_without_refusal() {
    for message in [
        "",
        "\r\n",
        "no header",
        "DKIM-Signature: v=1; a=rsa-sha256; d=; s=; b=; bh=; h=\r\n\r\n",
        "DKIM-Signature: v=1; a=rsa-sha256; d=author.example; s=none; c=relaxed/relaxed; h=from; bh=AAAA; b=AAAA\r\nFrom: a@b\r\n\r\n",
        "ARC-Seal: i=1; a=x\r\nARC-Message-Signature: i=1\r\nARC-Authentication-Results: i=1; x\r\nFrom: a@b\r\n\r\n",
    ] {
        let results = results(zone(), DmarcEnforcement::Record, ("192.0.2.7", ""), message).await;
        assert!(results.starts_with("Authentication-Results: mx.b.example; spf="), "{message:?}: {results}");
    }
}

/// Tries to hide that the message claims to be from `author.example`, which asks to reject messages that it did not
/// send.
#[tokio::test]
async fn an_author_cannot_be_hidden_from_dmarc() {
    let check = async |from: &str, expected: &str| {
        let message = format!("{from}Subject: x\r\n\r\ntext\r\n");
        let client = ("192.0.2.99", "x@silent.example");
        let found = results(zone(), DmarcEnforcement::Reject, client, &message).await;
        assert!(found.starts_with(expected), "{from:?}: {found}");
        let recorded = results(zone(), DmarcEnforcement::Record, client, &message).await;
        assert!(recorded.starts_with("Authentication-Results: mx.b.example; spf="), "{from:?}: {recorded}");
    };
    let fails = "550 5.7.1 Message fails DMARC, and author.example asks to reject such messages";
    check("From: ann@author.example\r\n", fails).await;
    check("From: a@silent.example, ann@author.example\r\n", fails).await;
    check("From: ann@author.example, a@silent.example\r\n", fails).await;
    check("From: a@silent.example,\r\n b@lax.example, Ann <ann@AUTHOR.example>\r\n", fails).await;
    check("From: team: a@silent.example, ann@author.example;\r\n", fails).await;
    let several = "550 5.6.0 The message has several From fields";
    check("From: a@silent.example\r\nFrom: ann@author.example\r\n", several).await;
    check("From: ann@author.example\r\nFrom: a@silent.example\r\n", several).await;
    check("FROM : a@silent.example\r\nfrom: ann@author.example\r\n", several).await;
    // Some programs see the second field, and others do not.
    check("From: a@silent.example\r\nstray\r\nFrom: ann@author.example\r\n", several).await;
    check("From: a@silent.example\r\nF r o m: ann@author.example\r\n", several).await;
    check("F r o m: a@silent.example\r\nX: y\r\nstray\r\nFrom: ann@author.example\r\n", several).await;
    let none = "550 5.6.0 The message has no From field";
    check("", none).await;
    check("Sender: ann@author.example\r\n", none).await;
    let illegible = "550 5.6.0 The From field of the message is invalid";
    check("X: y\r\nstray\r\nFrom: ann@author.example\r\n", illegible).await;
    for from in [
        "ann@author.example\0",
        "ann@author.example\u{7}",
        "ann",
        "",
        "<>",
        "undisclosed:;",
        "a@b..example",
        "@author.example",
        "a@[192.0.2.1",
    ] {
        check(&format!("From: {from}\r\n"), illegible).await;
    }
    let many: Vec<String> = (0..9).map(|number| format!("a@d{number}.example")).collect();
    check(&format!("From: {}\r\n", many.join(", ")), "550 5.6.0 The message has too many authors").await;
    check("From: a@silent.example, b@lax.example\r\n", "Authentication-Results:").await;
    check("From: jörg@müller.example\r\n", "Authentication-Results:").await;
}
