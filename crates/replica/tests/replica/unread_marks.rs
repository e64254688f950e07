//! Exchanges of the unread marks of users: marks that come before their notes, options that change, rights, purges.

use std::sync::Arc;
use std::time::Duration;

use base::{Clock as _, Name, NoteId, Unid};
use notes::limits::PENDING_UNREAD_MARKS_MAX;
use notes::unread_replication::UnreadMarks;
use notes::{
    Access, Acl, AclEntry, AclKind, AclLevel, DatabaseOptions, Identity, UnreadReplication, Writer, fixup, level, purge,
};
use replica::{Answer, Pull, PullStatistics, Question, Target};
use revision::Register;

use crate::exchange::{Server, list};

const BOB: &str = "Bob/Acme";

/// Returns an access control list that lets Bob read and servers in with a level.
fn list_with_bob(servers: AclLevel) -> Acl {
    let mut acl = list(servers);
    acl.entries.push(AclEntry::new(BOB, AclLevel::Reader));
    acl.entries.push(AclEntry { kind: AclKind::Person, ..AclEntry::new("Cleo/Acme", AclLevel::Reader) });
    acl
}

fn set_replication(server: &Server, unread_replication: UnreadReplication) {
    let manager: Access<level::Manager> = server.database.authorize(&server.ann()).expect("Ann may");
    let options = DatabaseOptions { unread_replication, ..server.database.record().options };
    server.databases.database_options_set(&manager, "Documents", options).expect("the option is valid");
}

/// Returns two replicas with the same ten documents, which Bob and Cleo may read.
fn two(replication: UnreadReplication) -> (Server, Server) {
    let servers = (Server::new(1), Server::new(2));
    servers.0.write(|writer| writer.acl_set(list_with_bob(AclLevel::Manager)));
    for number in 1..=10 {
        servers.0.create(number);
    }
    // The notes have other ids in the second replica.
    servers.1.create(77);
    for server in [&servers.0, &servers.1] {
        set_replication(server, replication);
    }
    pull(&servers.1, &servers.0);
    pull(&servers.0, &servers.1);
    servers
}

fn as_user<T>(server: &Server, user: &str, change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>) -> T {
    let access: Access<level::Depositor> =
        server.database.authorize(&Arc::new(Identity::person(user))).expect("readers may");
    let accesses = [&access];
    let mut transaction = server.databases.transaction(&accesses).expect("a transaction");
    let outcome = change(&mut transaction.writer(0)).expect("readers may");
    transaction.commit().expect("a sound store");
    outcome
}

fn note(server: &Server, number: u8) -> NoteId {
    server.write(|writer| writer.find(Unid([number; 16]))).expect("it exists")
}

fn read(server: &Server, number: u8) {
    let note = note(server, number);
    as_user(server, BOB, |writer| writer.mark_read(&[note]));
}

fn unread(server: &Server, number: u8) {
    let note = note(server, number);
    as_user(server, BOB, |writer| writer.mark_unread(&[note]));
}

fn has_read(server: &Server, number: u8) -> bool {
    let note = note(server, number);
    let access: Access<level::Reader> = server.database.authorize(&itself(server)).expect("the server may");
    let reading = access.read().expect("a snapshot");
    reading.is_read_by(&Name::new(BOB), note).expect("a sound store")
}

fn itself(server: &Server) -> Arc<Identity> {
    Arc::new(Identity::local_server(server.name.as_str()))
}

fn begin(target: &Server, source: &Server) -> Pull {
    let other = Arc::new(Identity { server: true, ..Identity::person(source.name.as_str()) });
    let made = Target::new(&target.databases, &target.database, &itself(target), &other);
    let offers = source.database.record().options.replicates_unread_marks();
    Pull::begin(made.expect("the list names the servers").with_unread_marks(offers)).expect("a sound store")
}

fn pull(target: &Server, source: &Server) -> PullStatistics {
    let mut pull = begin(target, source);
    while let Some((number, question)) = pull.question() {
        pull.take(number, source.try_answer(target, &question).expect("a sound store")).expect("a sound store");
    }
    for server in [target, source] {
        assert_eq!(fixup::check(&server.database).expect("it runs").findings, []);
    }
    pull.statistics()
}

#[test]
fn marks_replicate_and_the_later_one_counts() {
    let (hub, spoke) = two(UnreadReplication::Everywhere);
    read(&hub, 1);
    assert_eq!(pull(&spoke, &hub).unread_marks, 1);
    assert!(has_read(&spoke, 1) && !has_read(&spoke, 2));
    spoke.clock.advance(Duration::from_secs(60));
    unread(&spoke, 1);
    // What has come back does not travel for ever.
    assert_eq!((pull(&hub, &spoke).unread_marks, pull(&spoke, &hub).unread_marks), (1, 0));
    assert!(!has_read(&hub, 1));
    let before = hub.database.modseq();
    assert_eq!((pull(&hub, &spoke).unread_marks, hub.database.modseq()), (0, before));
}

#[test]
fn a_clock_that_is_behind_does_not_take_a_mark_back() {
    let (hub, spoke) = two(UnreadReplication::Everywhere);
    hub.clock.advance(Duration::from_secs(3_600));
    read(&hub, 1);
    pull(&spoke, &hub);
    // Bob has seen the mark of the fast clock, and changes it.
    unread(&spoke, 1);
    pull(&hub, &spoke);
    pull(&spoke, &hub);
    assert!(!has_read(&hub, 1) && !has_read(&spoke, 1));
}

#[test]
fn databases_that_do_not_say_everywhere_exchange_nothing() {
    for replication in [UnreadReplication::Never, UnreadReplication::Cluster] {
        let (hub, spoke) = two(replication);
        read(&hub, 1);
        assert_eq!(pull(&spoke, &hub).unread_marks, 0);
        // One of both is not enough.
        set_replication(&hub, UnreadReplication::Everywhere);
        read(&hub, 2);
        assert_eq!(pull(&spoke, &hub).unread_marks, 0);
        assert!(!has_read(&spoke, 1) && !has_read(&spoke, 2));
    }
}

#[test]
fn marks_from_before_the_option_are_united() {
    let (hub, spoke) = two(UnreadReplication::Cluster);
    (1..=10).for_each(|number| read(&hub, number));
    unread(&hub, 9);
    read(&spoke, 9);
    [&hub, &spoke].into_iter().for_each(|server| set_replication(server, UnreadReplication::Everywhere));
    unread(&hub, 3);
    assert_eq!(pull(&spoke, &hub).unread_marks, 9, "all but what both have");
    pull(&hub, &spoke);
    for server in [&hub, &spoke] {
        let unread: Vec<u8> = (1..=10).filter(|number| !has_read(server, *number)).collect();
        assert_eq!(unread, [3], "what was marked as unread since then is later");
    }
    // The option is taken away and given back: marks made meanwhile are united, too.
    set_replication(&hub, UnreadReplication::Never);
    read(&hub, 3);
    set_replication(&hub, UnreadReplication::Everywhere);
    pull(&spoke, &hub);
    assert!(!has_read(&spoke, 3), "the spoke has a later mark");
    pull(&hub, &spoke);
    assert!(!has_read(&hub, 3));
}

#[test]
fn servers_below_editor_neither_get_nor_bring_marks() {
    let (hub, spoke) = two(UnreadReplication::Everywhere);
    read(&hub, 1);
    hub.write(|writer| writer.acl_set(list_with_bob(AclLevel::Author)));
    let question = Question::UnreadMarks { after: None, place: None };
    let error = hub.try_answer(&spoke, &question).map(drop).expect_err("an author is refused").to_string();
    assert!(error.contains("reserved for the server"), "{error}");
    hub.write(|writer| writer.acl_set(list_with_bob(AclLevel::Editor)));
    let answer = hub.try_answer(&spoke, &question).expect("an editor may");
    assert!(matches!(answer, Answer::UnreadMarks(page) if page.marks.len() == 1));
    // The spoke does not believe an author.
    spoke.write(|writer| writer.acl_set(list_with_bob(AclLevel::Author)));
    let mut denied = begin(&spoke, &hub);
    while let Some((number, question)) = denied.question() {
        assert!(!matches!(question, Question::UnreadMarks { .. }), "the hub is not asked");
        denied.take(number, hub.try_answer(&spoke, &question).expect("a sound store")).expect("a sound store");
    }
}

#[test]
fn a_mark_waits_for_its_document() {
    let (hub, spoke) = two(UnreadReplication::Everywhere);
    let mut pull_of_spoke = begin(&spoke, &hub);
    while let Some((number, question)) = pull_of_spoke.question() {
        if matches!(question, Question::UnreadMarks { .. }) && hub.write(|w| w.find(Unid([30; 16]))).is_none() {
            // The document is created behind the list of changes.
            hub.create(30);
            read(&hub, 30);
        }
        pull_of_spoke.take(number, hub.try_answer(&spoke, &question).expect("sound")).expect("sound");
    }
    assert!(!spoke.has(30));
    assert_eq!(fixup::check(&spoke.database).expect("it runs").findings, []);
    let pulled = pull(&spoke, &hub);
    assert_eq!((pulled.received, pulled.unread_marks), (1, 0));
    assert!(has_read(&spoke, 30), "the mark has waited");
}

#[test]
fn marks_that_wait_are_limited_and_purged() {
    let (hub, spoke) = two(UnreadReplication::Everywhere);
    let unids = |numbers: std::ops::Range<u32>| {
        let unid = |number: u32| Unid(std::array::from_fn(|place| number.to_be_bytes()[place % 4] ^ place as u8));
        numbers.map(unid).collect::<Vec<_>>()
    };
    let receive = |unids: Vec<Unid>| {
        let register = Register::new(true, spoke.clock.now());
        let marks = [UnreadMarks { user: "cn=bob/o=acme".to_owned(), register, unids }];
        let access: Access<level::Depositor> = spoke.database.authorize(&itself(&spoke)).expect("the server may");
        let accesses = [&access];
        let mut transaction = spoke.databases.transaction(&accesses).expect("a transaction");
        let received = transaction.writer(0).unread_marks_receive(&marks).expect("they are valid");
        transaction.commit().expect("a sound store");
        received
    };
    let first = receive(unids(1_000_000..1_000_000 + PENDING_UNREAD_MARKS_MAX));
    assert_eq!((first.changed, first.dropped), (0, 0));
    assert_eq!(receive(unids(999_990..1_000_000)).dropped, 10, "no more are kept");
    assert_eq!(receive(unids(1_000_000..1_000_010)).dropped, 0, "these are");
    spoke.clock.advance(Duration::from_secs(91 * 86_400));
    purge::purge(&spoke.database).expect("a sound store");
    assert_eq!(fixup::check(&spoke.database).expect("it runs").findings, []);
    assert_eq!(receive(unids(999_990..1_000_000)).dropped, 0, "there is space again");
    pull(&spoke, &hub);
}

#[test]
fn a_replica_that_was_away_for_long_gets_all_marks() {
    let (hub, spoke) = two(UnreadReplication::Everywhere);
    (1..=10).for_each(|number| read(&hub, number));
    unread(&hub, 4);
    hub.clock.advance(Duration::from_secs(91 * 86_400));
    purge::purge(&hub.database).expect("a sound store");
    assert!(has_read(&hub, 1) && !has_read(&hub, 4), "a purge changes no marks");
    unread(&hub, 5);
    let pulled = pull(&spoke, &hub);
    assert_eq!(pulled.unread_marks, 9, "eight are read, and one is unread since");
    assert!(has_read(&spoke, 1) && !has_read(&spoke, 4) && !has_read(&spoke, 5));
}

#[test]
fn marks_of_deleted_documents_come_with_them_when_they_are_restored() {
    let (hub, spoke) = two(UnreadReplication::Everywhere);
    let keep = |server: &Server| {
        let manager: Access<level::Manager> = server.database.authorize(&server.ann()).expect("Ann may");
        let options = DatabaseOptions { keep_deleted_hours: Some(48), ..server.database.record().options };
        server.databases.database_options_set(&manager, "Documents", options).expect("the option is valid");
    };
    keep(&hub);
    keep(&spoke);
    read(&hub, 6);
    let deleted = note(&hub, 6);
    hub.write(|writer| writer.note_delete(deleted));
    pull(&spoke, &hub);
    hub.write(|writer| writer.note_restore(deleted));
    pull(&spoke, &hub);
    assert!(has_read(&hub, 6) && has_read(&spoke, 6));
}

#[test]
fn a_list_in_pages_is_continued_where_it_was_cut_off() {
    let (hub, spoke) = two(UnreadReplication::Cluster);
    for number in 100..=250 {
        hub.create(number);
    }
    (100..=170).for_each(|number| read(&hub, number));
    [&hub, &spoke].into_iter().for_each(|server| set_replication(server, UnreadReplication::Everywhere));
    (171..=250).for_each(|number| read(&hub, number));
    // The first pull is cut off after one page, which has the marks with times.
    let mut cut = begin(&spoke, &hub);
    while let Some((number, question)) = cut.question() {
        let is_list = matches!(question, Question::UnreadMarks { .. });
        cut.take(number, hub.try_answer(&spoke, &question).expect("sound")).expect("sound");
        if is_list {
            break;
        }
    }
    assert!((cut.statistics().unread_marks, cut.question().is_some()) == (80, true));
    assert_eq!(pull(&spoke, &hub).unread_marks, 71, "those without times");
    assert!((100..=250).all(|number| has_read(&spoke, number)));
    assert_eq!(pull(&spoke, &hub).unread_marks, 0);
}

#[test]
fn a_block_that_changed_again_behind_a_page_is_listed_since_the_position() {
    let (hub, spoke) = two(UnreadReplication::Everywhere);
    for number in 100..=120 {
        hub.create(number);
    }
    pull(&spoke, &hub);
    // Bob's block changes before and after that of Cleo, whose marks fill a page.
    read(&hub, 1);
    let notes: Vec<NoteId> = (100..=120).map(|number| note(&hub, number)).collect();
    as_user(&hub, "Cleo/Acme", |writer| writer.mark_read(&notes));
    read(&hub, 2);
    let mut whole = begin(&spoke, &hub);
    let mut pages = 0;
    while let Some((number, question)) = whole.question() {
        pages += usize::from(matches!(question, Question::UnreadMarks { .. }));
        whole.take(number, hub.try_answer(&spoke, &question).expect("sound")).expect("sound");
    }
    assert_eq!((pages, whole.statistics().unread_marks), (2, 23));
    assert!(has_read(&spoke, 1) && has_read(&spoke, 2));
}

#[test]
fn marks_that_are_not_valid_are_refused() {
    let (hub, spoke) = two(UnreadReplication::Everywhere);
    read(&hub, 1);
    let check = |change: &dyn Fn(&mut UnreadMarks), expected: &str| {
        let mut pull = begin(&spoke, &hub);
        let error = loop {
            let (number, question) = pull.question().expect("the marks are refused");
            let mut answer = hub.try_answer(&spoke, &question).expect("sound");
            if let Answer::UnreadMarks(page) = &mut answer {
                page.marks.iter_mut().for_each(change);
            }
            if let Err(error) = pull.take(number, answer) {
                break error.to_string();
            }
        };
        assert!(error.contains(expected), "{error}");
    };
    check(&|marks| marks.user.clear(), "the name of the user");
    check(&|marks| marks.user.push('\0'), "the name of the user");
    check(&|marks| marks.user.make_ascii_uppercase(), "not in lower case");
    check(&|marks| marks.register.time.0 = -1, "its time");
    check(&|marks| marks.register.time.0 = i64::MAX, "its time");
    check(&|marks| marks.unids = vec![Unid([1; 16]); 200_000], "unread marks in an answer");
    assert!(!has_read(&spoke, 1));
}
