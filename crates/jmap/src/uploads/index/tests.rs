//! Tests of the bounds: the oldest uploads of a login go, then the oldest of all, and no others.

use super::*;

const MIB: u64 = 1 << 20;

fn owner(login: &str, account: &str) -> UploadOwner {
    UploadOwner { login: login.to_owned(), account: account.to_owned() }
}

fn record(owner: &UploadOwner, id: &str, size: u64) -> UploadRecord {
    UploadRecord {
        owner: owner.clone(),
        id: id.to_owned(),
        media_type: "text/plain".to_owned(),
        size,
        at: Timestamp(0),
        note: NoteId(1),
        blob: BlobId([1; 32]),
        is_content_new: true,
        ticket: Ticket::NONE,
    }
}

/// Adds an upload as the store of uploads does, and returns the names of those that go.
fn add(index: &mut UploadIndex, owner: &UploadOwner, id: &str, size: u64) -> Vec<String> {
    let displaced = index.displaced(owner, id, size);
    index.remove(&displaced);
    index.insert(record(owner, id, size));
    displaced.into_iter().map(|record| record.id).collect()
}

#[test]
fn the_oldest_uploads_of_a_login_give_way_over_all_accounts() {
    let mut index = UploadIndex::default();
    let own = owner("ann", "A1");
    let shared = owner("ann", "A2");
    let other = owner("bob", "A1");
    assert_eq!(add(&mut index, &other, "b", 50 * MIB), Vec::<String>::new());
    for id in ["1", "2", "3"] {
        assert_eq!(add(&mut index, &own, id, 50 * MIB), Vec::<String>::new());
    }
    assert_eq!(add(&mut index, &shared, "4", 100 * MIB), Vec::<String>::new());
    assert_eq!(add(&mut index, &shared, "5", 1), ["1"]);
    assert_eq!(add(&mut index, &own, "2", 50 * MIB), Vec::<String>::new(), "it replaces itself");
    assert_eq!(add(&mut index, &own, "6", 100 * MIB), ["3", "4"], "the second one has come again");
    assert!(index.find(&other, "b").is_some(), "uploads of others stay");
    assert!(index.find(&own, "5").is_none(), "it is another account");
    assert_eq!(index.bytes, 200 * MIB + 1);
}

#[test]
fn a_login_has_a_maximum_number_of_uploads() {
    let mut index = UploadIndex::default();
    let own = owner("ann", "A1");
    for number in 0..UPLOADS_PER_LOGIN_MAX {
        assert_eq!(add(&mut index, &own, &number.to_string(), 0), Vec::<String>::new());
    }
    assert_eq!(add(&mut index, &own, "0", 0), Vec::<String>::new(), "it replaces itself");
    assert_eq!(add(&mut index, &own, "x", 0), ["1"]);
    assert_eq!(index.records.len(), UPLOADS_PER_LOGIN_MAX);
}

#[test]
fn the_oldest_uploads_of_all_give_way() {
    let mut index = UploadIndex::default();
    for number in 0..UPLOADS_BYTES_MAX / (200 * MIB) {
        let login = owner(&format!("user{number}"), "A");
        assert_eq!(add(&mut index, &login, "u", 200 * MIB), Vec::<String>::new());
    }
    assert_eq!(add(&mut index, &owner("ann", "A"), "x", 50 * MIB), ["u"]);
    assert!(index.find(&owner("user0", "A"), "u").is_none());
    assert!(index.find(&owner("user1", "A"), "u").is_some());
    assert!(index.bytes <= UPLOADS_BYTES_MAX);
}

#[test]
fn all_logins_have_a_maximum_number_of_uploads() {
    let mut index = UploadIndex::default();
    for number in 0..UPLOADS_STORED_MAX {
        index.insert(record(&owner(&format!("user{}", number / 500), "A"), &number.to_string(), 1));
    }
    assert_eq!(add(&mut index, &owner("ann", "A"), "x", 1), ["0"]);
    assert_eq!(index.records.len(), UPLOADS_STORED_MAX);
}

#[test]
fn uploads_expire_in_the_order_of_their_arrival() {
    let mut index = UploadIndex::default();
    let own = owner("ann", "A1");
    for (id, seconds) in [("1", 0), ("2", 10), ("3", 20)] {
        index.insert(UploadRecord { at: Timestamp(seconds * 1_000_000), ..record(&own, id, 1) });
    }
    let expired = |seconds: i64, count_max| {
        let now = Timestamp(seconds * 1_000_000).after(UPLOAD_LIFETIME);
        index.expired(now, count_max).into_iter().map(|record| record.id).collect::<Vec<_>>()
    };
    assert_eq!(expired(-1, 9), Vec::<String>::new());
    assert_eq!(expired(10, 9), ["1", "2"]);
    assert_eq!(expired(10, 1), ["1"]);
}

#[test]
fn uploads_expire_in_the_order_of_their_times_if_the_clock_was_set_back() {
    let mut index = UploadIndex::default();
    let own = owner("ann", "A1");
    for (id, seconds) in [("1", 20), ("2", 10)] {
        index.insert(UploadRecord { at: Timestamp(seconds * 1_000_000), ..record(&own, id, 1) });
    }
    let expired = index.expired(Timestamp(10 * 1_000_000).after(UPLOAD_LIFETIME), 9);
    assert_eq!(expired.iter().map(|record| &*record.id).collect::<Vec<_>>(), ["2"]);
    index.remove(&expired);
    assert_eq!(index.expired(Timestamp(20 * 1_000_000).after(UPLOAD_LIFETIME), 9).len(), 1);
}

#[test]
fn a_content_is_new_while_one_of_its_uploads_has_brought_it() {
    let mut index = UploadIndex::default();
    let blob = BlobId([1; 32]);
    let old = UploadRecord { is_content_new: false, ..record(&owner("eve", "A1"), "1", 1) };
    index.insert(old);
    assert!(!index.has_new_content(&blob));
    let new: Vec<UploadRecord> = ["ann", "bob"].map(|login| record(&owner(login, "A1"), "1", 1)).into();
    new.iter().for_each(|record| index.insert(record.clone()));
    index.insert(new[0].clone());
    index.remove(&new[..1]);
    assert!(index.has_new_content(&blob), "that of bob");
    index.remove(&new[1..]);
    assert!(!index.has_new_content(&blob));
    assert_eq!((index.records.len(), index.times.len()), (1, 1));
}
