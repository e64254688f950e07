//! Tests of the cache of verified passwords: the inputs of a proof, its lifetime, and shared verifications.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use base::sim::{SeededRandom, SimClock};

use super::*;

fn world(options: PasswordCacheOptions) -> (Arc<SimClock>, PasswordCache<bool>) {
    let clock = Arc::new(SimClock::new());
    (clock.clone(), PasswordCache::new(options, clock, &SeededRandom::new(1)))
}

fn network(text: &str) -> Network {
    Network::from_address(text.parse().expect("an address of these tests"))
}

#[test]
fn proof_expires_after_its_lifetime() {
    let (clock, verified) = world(PasswordCacheOptions::default());
    let proof = verified.proof("ann", b"secret", network("192.0.2.1"), "hash");
    assert!(!verified.contains(&proof));
    verified.insert(proof);
    clock.advance(VERIFIED_TTL - Duration::from_secs(1));
    assert!(verified.contains(&proof), "use does not extend its lifetime");
    clock.advance(Duration::from_secs(1));
    assert!(!verified.contains(&proof));
    assert_eq!(verified.entries(), 0);
}

#[test]
fn proof_depends_on_all_inputs() {
    let (_, verified) = world(PasswordCacheOptions::default());
    let home = network("192.0.2.1");
    let proofs = [
        verified.proof("ann", b"secret", home, "hash"),
        verified.proof("bob", b"secret", home, "hash"),
        verified.proof("ann", b"secret2", home, "hash"),
        verified.proof("ann", b"secret", network("192.0.2.2"), "hash"),
        verified.proof("ann", b"secret", home, "another hash"),
        verified.proof("anns", b"ecret", home, "hash"),
    ];
    for (index, proof) in proofs.iter().enumerate() {
        assert!(!proofs[..index].contains(proof), "proof {index}");
    }
}

#[test]
fn proofs_differ_between_processes() {
    let clock = Arc::new(SimClock::new());
    let make =
        |seed| PasswordCache::<bool>::new(PasswordCacheOptions::default(), clock.clone(), &SeededRandom::new(seed));
    let home = network("192.0.2.1");
    assert_ne!(make(1).proof("ann", b"secret", home, "hash"), make(2).proof("ann", b"secret", home, "hash"));
}

#[test]
fn cache_is_bounded_and_can_be_disabled() {
    let (_, verified) = world(PasswordCacheOptions { entries_max: 50, ttl: VERIFIED_TTL });
    for number in 0..1_000 {
        verified.insert(verified.proof(&format!("user{number}"), b"x", network("::1"), "hash"));
    }
    assert!((1..=50).contains(&verified.entries()), "{}", verified.entries());
    let (_, off) = world(PasswordCacheOptions { entries_max: 0, ttl: VERIFIED_TTL });
    let proof = off.proof("ann", b"secret", network("::1"), "hash");
    off.insert(proof);
    assert!(!off.contains(&proof));
}

#[test]
fn concurrent_logins_share_one_verification() {
    let (_, verified) = world(PasswordCacheOptions::default());
    let proof = verified.proof("ann", b"secret", network("::1"), "hash");
    let runs = AtomicU32::new(0);
    let login = || {
        verified.verify_shared(proof, || {
            runs.fetch_add(1, Ordering::SeqCst);
            // The verdict is held by the map, by this thread, and by each of the seven waiting threads.
            while verified.lock_in_progress().get(&proof).map(Arc::strong_count) != Some(9) {
                std::thread::yield_now();
            }
            true
        })
    };
    std::thread::scope(|scope| {
        let logins: Vec<_> = (0..8).map(|_| scope.spawn(login)).collect();
        assert!(logins.into_iter().all(|login| login.join().expect("no panic")));
    });
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(verified.lock_in_progress().is_empty());
}

#[test]
fn joined_login_gets_the_verdict_of_the_first() {
    let (_, verified) = world(PasswordCacheOptions::default());
    let proof = verified.proof("ann", b"secret", network("::1"), "hash");
    let (first, leads) = verified.join(proof);
    assert!(leads);
    let lead = VerificationGuard { verified: &verified, proof, verdict: first };
    let (second, leads) = verified.join(proof);
    assert!(!leads);
    lead.verdict.end(State::Ended(true));
    drop(lead);
    assert_eq!(second.wait(), Some(true));
    assert!(verified.join(proof).1, "the next login leads again");
}

#[test]
fn panic_wakes_waiting_logins() {
    let (_, verified) = world(PasswordCacheOptions::default());
    let proof = verified.proof("ann", b"secret", network("::1"), "hash");
    let (waiting, _) = verified.join(proof);
    verified.lock_in_progress().clear();
    let lead = VerificationGuard { verified: &verified, proof, verdict: waiting.clone() };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let _lead = lead;
        panic!("the verification fails badly");
    }));
    assert!(outcome.is_err());
    assert_eq!(waiting.wait(), None);
    assert!(verified.verify_shared(proof, || true), "the next login verifies on its own");
}
