//! Servers that are changed, cut off, crashed and restored from backups while they pull from each other. When the
//! faults end, all replicas become equal, and every acknowledged edit is in a document.
//!
//! Everything runs on one thread from one seed: the edits, the order in which messages arrive, their loss and
//! repetition, the clocks. A failure names its seed.

mod mail_clients;
mod network;
mod server;
mod wrong_exchange;

use std::collections::BTreeSet;

use notes::fixup;

use network::{Deletions, Network};
use server::{DOCUMENTS, Server};
use wrong_exchange::WrongExchange;

fn run(seed: u64, deletions: Deletions) -> Network {
    run_with(None, seed, deletions)
}

fn run_with(wrong: Option<WrongExchange>, seed: u64, deletions: Deletions) -> Network {
    let mut network = Network::with_wrong(wrong, seed, deletions);
    for _ in 0..150 {
        network.step();
    }
    network.settle();
    let expected = network.servers[0].state();
    for server in &network.servers {
        server.check_all_are_shown();
        let report = fixup::check(&server.database).expect("a sound store");
        assert_eq!(report.findings, [], "seed {seed}");
        let found = server.state();
        let differing = expected.keys().chain(found.keys()).find(|unid| expected.get(*unid) != found.get(*unid));
        if let Some(unid) = differing {
            let first = expected.get(unid);
            panic!("seed {seed}: {unid} is {first:?} and, on server {}, {:?}", server.number, found.get(unid));
        }
        let number = server.number;
        assert_eq!(server.readers(), network.servers[0].readers(), "seed {seed}: the readers on server {number}");
    }
    let found: BTreeSet<u64> = network.servers.iter().flat_map(Server::values).collect();
    let deleted: BTreeSet<u64> = network.servers.iter().flat_map(|server| server.deleted.iter().copied()).collect();
    for server in &network.servers {
        let lost: Vec<_> =
            server.acknowledged.iter().filter(|value| !found.contains(value) && !deleted.contains(value)).collect();
        assert!(lost.is_empty(), "seed {seed}: the edits {lost:?} of server {} are lost", server.number);
    }
    network
}

/// Returns the number of seeds: more if `DOUBLET_SOAK` is set.
fn seeds() -> u64 {
    if std::env::var_os("DOUBLET_SOAK").is_some() { 10_000 } else { 150 }
}

#[test]
fn replicas_become_equal_and_lose_no_edit() {
    let mut conflicts = 0;
    let mut merged = 0;
    for seed in (0..seeds()).chain([1_765]) {
        let network = run(seed, Deletions::None);
        conflicts += network.statistics.iter().map(|statistics| statistics.conflicts).sum::<u64>();
        merged += network.statistics.iter().map(|statistics| statistics.merged).sum::<u64>();
    }
    assert!(conflicts > 10 && merged > 10, "the seeds have {conflicts} conflicts and {merged} merges");
}

#[test]
fn replicas_with_deletions_become_equal() {
    // In the last two, a server is set back while another one pulls from it: a note that had changed later must not be
    // passed by.
    for seed in (0..seeds()).chain([1_054, 3_973]) {
        run(seed, Deletions::GiveWay);
        run(seed, Deletions::Count);
        run(seed, Deletions::Changing);
    }
}

#[test]
fn a_seed_repeats_its_history() {
    for seed in 0..5 {
        let first = run(seed, Deletions::Count);
        let again = run(seed, Deletions::Count);
        assert_eq!(first.trace, again.trace);
        assert_eq!(first.servers[1].state(), again.servers[1].state());
    }
}

#[test]
fn a_pull_asks_only_for_what_changed() {
    let mut network = Network::new(1, Deletions::None);
    for value in 0..200 {
        network.next_value = value;
        network.servers[0].edit(value % DOCUMENTS, value);
    }
    network.settle();
    let listed =
        |network: &Network| network.statistics.iter().map(|pull| (pull.listed, pull.received)).collect::<Vec<_>>();
    network.statistics.clear();
    network.settle();
    assert!(listed(&network).iter().all(|pull| *pull == (0, 0)), "{:?}", listed(&network));
    network.servers[0].edit(1, 1_000);
    network.statistics.clear();
    network.settle();
    let received: u64 = network.statistics.iter().map(|pull| pull.received).sum();
    assert_eq!(received, 2, "each of the other servers gets the document once: {:?}", listed(&network));
}

/// Maximum number of seeds within which a wrong exchange must be found.
const WRONG_SEEDS_MAX: u64 = 1_000;

#[test]
fn wrong_exchanges_are_found() {
    for wrong in [
        WrongExchange::NoInstances,
        WrongExchange::PlaceOutlivesRestores,
        WrongExchange::PositionBeforeNotes,
        WrongExchange::TimesOfArrival,
        WrongExchange::OnlySetValues,
        WrongExchange::NoStateOfKnownNotes,
        WrongExchange::NoFoldersBesideDocuments,
        WrongExchange::NoUids,
        WrongExchange::NoUidValidity,
        WrongExchange::SameRanks,
        WrongExchange::ClockOfBackup,
        WrongExchange::NoSettings,
        WrongExchange::MarksAtArrival,
        WrongExchange::MarksByNoteId,
        WrongExchange::OnlyReadMarks,
    ] {
        let is_found = |seed: &u64| {
            let all = [Deletions::None, Deletions::GiveWay, Deletions::Count];
            let runs = |deletions| std::panic::catch_unwind(|| drop(run_with(Some(wrong), *seed, deletions))).is_err();
            all.into_iter().any(runs)
        };
        let found = (0..WRONG_SEEDS_MAX).find(is_found);
        println!("{wrong:?}: seed {found:?}");
        assert!(found.is_some(), "{wrong:?} is not found");
    }
}
