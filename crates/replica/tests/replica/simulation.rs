//! Servers that are changed, cut off, crashed and restored from backups while they pull from each other. Some lose
//! their disks, and months pass, after which deletions are purged. When the faults end, all replicas become equal,
//! every acknowledged edit is in a document, and no document is back whose deletion has arrived.
//!
//! Everything runs on one thread from one seed: the number of servers and what can happen to them ([`Plan`]), the
//! edits, the order in which messages arrive, their loss and repetition, the clocks. A failure names its seed.

mod designers;
mod mail_clients;
mod network;
mod plan;
mod server;
mod wrong_exchange;

use std::collections::{BTreeMap, BTreeSet};

use base::Unid;
use notes::fixup;

use network::Network;
use plan::{Deletions, Plan, Purges};
use server::{DOCUMENTS, Server, unid_of};
use wrong_exchange::WrongExchange;

fn run(seed: u64, deletions: Deletions) -> Network {
    run_with(None, seed, Plan::of_seed(seed, deletions))
}

/// Runs the history of a seed that showed an error when all histories had three servers.
fn run_of_three_servers(seed: u64, deletions: Deletions) -> Network {
    run_with(None, seed, Plan::of_three_servers(seed, deletions))
}

fn run_with(wrong: Option<WrongExchange>, seed: u64, plan: Plan) -> Network {
    let mut network = Network::with_wrong(wrong, seed, plan);
    for _ in 0..150 {
        network.step();
    }
    network.settle();
    let away = (plan.purges == Purges::WhileAway).then(|| plan.servers - 1);
    for server in &network.servers {
        server.check_all_are_shown();
        let report = fixup::check(&server.database).expect("a sound store");
        assert_eq!(report.findings, [], "seed {seed}");
        if away == Some(server.number) {
            check_contents(&network, server);
        } else {
            check_equal(&network, server);
        }
    }
    network.check_all_deletions();
    check_nothing_is_lost(&network);
    network
}

/// Checks that a replica is equal to the first one.
fn check_equal(network: &Network, server: &Server) {
    let seed = network.clients.seed;
    let first = &network.servers[0];
    let expected = first.state(&network.purged);
    let found = server.state(&network.purged);
    let differing = expected.keys().chain(found.keys()).find(|unid| expected.get(*unid) != found.get(*unid));
    let number = server.number;
    if let Some(unid) = differing {
        panic!("seed {seed}: {unid} is {:?} and, on server {number}, {:?}", expected.get(unid), found.get(unid));
    }
    // The marks of a document are purged with its deletion, and an edit may bring it back that was made elsewhere.
    let readers = |server: &Server| -> BTreeMap<Unid, Vec<&'static str>> {
        server.readers().into_iter().filter(|(unid, _)| !network.purged.contains(unid)).collect()
    };
    assert_eq!(readers(server), readers(first), "seed {seed}: the readers on server {number}");
    assert_eq!(server.view_rows(), first.view_rows(), "seed {seed}: the views on server {number}");
}

/// Checks that a server which was away has the notes that the others have, as far as nobody has purged their deletion.
/// Which marks and folders were taken away may be purged, too.
fn check_contents(network: &Network, server: &Server) {
    let contents = |server: &Server| -> BTreeMap<Unid, String> {
        let notes = server.notes().into_iter().filter(|note| !network.purged.contains(&note.unid));
        notes.map(|note| (note.unid, format!("{} {:?} {:?}", note.revision, note.parent, note.items))).collect()
    };
    assert_eq!(contents(server), contents(&network.servers[0]), "seed {}: the server was away", network.clients.seed);
}

/// Checks that every acknowledged edit is in a document, can be restored, or was deleted by a user who saw it.
fn check_nothing_is_lost(network: &Network) {
    let found: BTreeSet<u64> = network.servers.iter().flat_map(Server::values).collect();
    let deleted = network.servers.iter().flat_map(|server| &server.deleted).chain(&network.expired);
    let deleted: BTreeSet<u64> = deleted.copied().collect();
    for server in &network.servers {
        let is_lost = |value: &&u64| !found.contains(value) && !deleted.contains(value);
        let lost: Vec<_> = server.acknowledged.iter().filter(is_lost).collect();
        let seed = network.clients.seed;
        assert!(lost.is_empty(), "seed {seed}: the edits {lost:?} of server {} are lost", server.number);
    }
}

/// Returns the number of seeds: more if `DOUBLET_SOAK` is set.
fn seeds() -> u64 {
    if std::env::var_os("DOUBLET_SOAK").is_some() { 10_000 } else { 150 }
}

#[test]
fn replicas_become_equal_and_lose_no_edit() {
    let mut conflicts = 0;
    let mut merged = 0;
    let old = [1_765].map(|seed| run_of_three_servers(seed, Deletions::None));
    for network in (0..seeds()).map(|seed| run(seed, Deletions::None)).chain(old) {
        conflicts += network.statistics.iter().map(|statistics| statistics.conflicts).sum::<u64>();
        merged += network.statistics.iter().map(|statistics| statistics.merged).sum::<u64>();
    }
    assert!(conflicts > 10 && merged > 10, "the seeds have {conflicts} conflicts and {merged} merges");
}

#[test]
fn replicas_with_deletions_become_equal() {
    let rules = [Deletions::GiveWay, Deletions::Count, Deletions::Changing];
    for (seed, rule) in (0..seeds()).flat_map(|seed| rules.map(|rule| (seed, rule))) {
        run(seed, rule);
    }
    // In these, a document came back whose deletion was purged: it had changed after the last pull from the server that
    // brought it, and two servers had deleted different versions of it.
    for (seed, rule) in [4_436, 2_802].into_iter().flat_map(|seed| rules.map(|rule| (seed, rule))) {
        run(seed, rule);
    }
    // In these, a server is set back while another one pulls from it: a note that had changed later must not be passed
    // by.
    for (seed, rule) in [1_054, 3_973].into_iter().flat_map(|seed| rules.map(|rule| (seed, rule))) {
        run_of_three_servers(seed, rule);
    }
}

#[test]
fn a_seed_repeats_its_history() {
    for seed in 0..5 {
        let first = run(seed, Deletions::Count);
        let again = run(seed, Deletions::Count);
        assert_eq!(first.trace, again.trace);
        assert_eq!(first.servers[1].state(&first.purged), again.servers[1].state(&again.purged));
    }
}

#[test]
fn a_pull_asks_only_for_what_changed() {
    let mut network = Network::new(1, Plan::of_three_servers(1, Deletions::None));
    for value in 0..200 {
        network.next_value = value;
        network.servers[0].edit(unid_of(value % DOCUMENTS, 0), value);
    }
    network.settle();
    let listed =
        |network: &Network| network.statistics.iter().map(|pull| (pull.listed, pull.received)).collect::<Vec<_>>();
    network.statistics.clear();
    network.settle();
    assert!(listed(&network).iter().all(|pull| *pull == (0, 0)), "{:?}", listed(&network));
    network.servers[0].edit(unid_of(1, 0), 1_000);
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
        WrongExchange::NoAccessControlLists,
        WrongExchange::NoViews,
        WrongExchange::EditsReplaceDeletions,
        WrongExchange::HeldBackAreTaken,
        WrongExchange::MarksMakeNew,
        WrongExchange::PurgedAreForgotten,
    ] {
        let is_found = |seed: &u64| {
            let all = [Deletions::None, Deletions::GiveWay, Deletions::Count];
            let runs = |deletions| {
                let plan = Plan::of_seed(*seed, deletions);
                std::panic::catch_unwind(|| drop(run_with(Some(wrong), *seed, plan))).is_err()
            };
            all.into_iter().any(runs)
        };
        let found = (0..WRONG_SEEDS_MAX).find(is_found);
        println!("{wrong:?}: seed {found:?}");
        assert!(found.is_some(), "{wrong:?} is not found");
    }
}
