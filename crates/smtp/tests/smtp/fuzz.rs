//! Runs the fuzz entry points for a short time, with input generated from a seed: pieces of dialogues, spliced and
//! damaged.
//!
//! The environment variable `FUZZ_ROUNDS` extends the run. A failure reports its seed and input.

use std::panic::{AssertUnwindSafe, catch_unwind};

use base::Random;
use base::sim::SeededRandom;

const PIECES: &[&[u8]] = &[
    b"EHLO c.example\r\n",
    b"LHLO x\r\n",
    b"HELO [1.2.3.4]\r\n",
    b"MAIL FROM:<a@c.example>",
    b" SIZE=12",
    b" BODY=8BITMIME",
    b" SMTPUTF8",
    b" RET=FULL ENVID=a+2Bb",
    b"\r\n",
    b"RCPT TO:<alice@b.example>",
    b"RCPT TO:<\"a b\"@[IPv6:::1]>",
    b" NOTIFY=SUCCESS ORCPT=rfc822;x",
    b"DATA\r\n",
    b"\r\n.\r\n",
    b"\n.\n",
    b"\r",
    b"\n",
    b".",
    b"BDAT 10\r\n",
    b"BDAT 3 LAST\r\n",
    b"BDAT 0 LAST\r\n",
    b"RSET\r\n",
    b"NOOP\r\n",
    b"AUTH PLAIN AGFsaWNlAHNlY3JldA==\r\n",
    b"AUTH LOGIN\r\n",
    b"YWxpY2U=\r\n",
    b"AUTH SCRAM-SHA-256 Zmlyc3Q=\r\n",
    b"*\r\n",
    b"STARTTLS\r\n",
    b"VRFY u\r\n",
    b"EXPN staff\r\n",
    b"HELP\r\n",
    b"QUIT\r\n",
    b"Subject: x\r\n",
    b"Received: y\r\n",
    b"From: a@b\r\n",
    b"Bcc: c\r\n",
    b" folded\r\n",
    b"\xff\xfe",
    b"\0",
    b"250-a\r\n",
    b"250 2.1.0 ok\r\n",
    b"550 5.1.1 no\r\n",
    b"<@a,@b:c@d>",
    b"Authentication-Results: (x) h.example; y\r\n",
    b"Authentication-Results: \"h\\.example\"; y\r\n",
    b"stray\r\n",
    b"--x: y\r\n",
];

fn input(random: &SeededRandom) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(24) {
        bytes.extend_from_slice(PIECES[random.below(PIECES.len() as u64) as usize]);
    }
    for _ in 0..random.below(4) {
        if !bytes.is_empty() {
            let index = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[index] = random.next_u64() as u8,
                1 => drop(bytes.remove(index)),
                _ => bytes.insert(index, random.next_u64() as u8),
            }
        }
    }
    bytes
}

fn check(name: &str, target: fn(&[u8])) {
    let rounds = std::env::var("FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4_000);
    for seed in 0..rounds {
        let input = input(&SeededRandom::new(seed));
        let outcome = catch_unwind(AssertUnwindSafe(|| target(&input)));
        assert!(outcome.is_ok(), "{name} fails with seed {seed}: {}", input.escape_ascii());
    }
}

#[test]
fn arguments_do_not_panic() {
    check("arguments", smtp::fuzz::arguments);
}

#[test]
fn data_does_not_panic() {
    check("data", smtp::fuzz::data);
}

#[test]
fn messages_do_not_panic() {
    check("message", smtp::fuzz::message);
}

#[test]
fn replies_do_not_panic() {
    check("reply", smtp::fuzz::reply);
}

#[test]
fn sessions_do_not_panic() {
    check("session", smtp::fuzz::session);
}
