//! Tests of the engine in memory where it differs from a real one: crashes and faults. The guarantees that both engines
//! share are tested in `engine`.

use super::*;

fn put(memory: &MemoryEngine, key: &[u8], value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(Table::Body, key, value);
    memory.write(&batch).expect("written");
}

#[test]
fn crash_keeps_synced_writes() {
    let memory = MemoryEngine::new(3);
    put(&memory, b"a", b"1");
    memory.sync().expect("synced");
    put(&memory, b"a", b"2");
    put(&memory, b"b", b"3");
    let survivor = memory.crash_losing_all();
    assert_eq!(survivor.get(Table::Body, b"a").expect("sound"), Some(b"1".to_vec()));
    assert_eq!(survivor.get(Table::Body, b"b").expect("sound"), None);
    assert_eq!(memory.get(Table::Body, b"a").expect("sound"), Some(b"2".to_vec()), "the old engine keeps its data");
}

#[test]
fn a_crash_keeps_a_prefix_of_any_length() {
    let memory = MemoryEngine::new(4);
    (0..4_u8).for_each(|number| put(&memory, &[number], b"x"));
    let mut seen = [false; 5];
    for _ in 0..200 {
        let survivor = memory.crash();
        let there = |number: &u8| survivor.get(Table::Body, &[*number]).expect("sound").is_some();
        let kept = (0..4).take_while(there).count();
        assert!((kept as u8..4).all(|number| !there(&number)));
        seen[kept] = true;
    }
    assert_eq!(seen, [true; 5]);
}

#[test]
fn key_reappears_if_its_removal_is_lost() {
    let memory = MemoryEngine::new(5);
    put(&memory, b"a", b"1");
    memory.sync().expect("synced");
    let mut batch = Batch::new();
    batch.delete_range(Table::Body, b"a", b"z");
    memory.write(&batch).expect("written");
    assert_eq!(memory.get(Table::Body, b"a").expect("sound"), None);
    assert!(memory.crash_losing_all().get(Table::Body, b"a").expect("sound").is_some());
    memory.sync().expect("synced");
    assert_eq!(memory.crash().get(Table::Body, b"a").expect("sound"), None);
    assert!(memory.read_lock().maps[Table::Body as usize].is_empty(), "invisible versions are dropped");
}

#[test]
fn a_failing_sync_makes_nothing_durable() {
    let memory = MemoryEngine::new(6);
    put(&memory, b"a", b"1");
    memory.faults().fail_next_sync();
    assert!(memory.sync().is_err());
    assert_eq!(memory.sequences(), (1, 0));
    assert!(memory.sync().is_ok());
    assert_eq!(memory.sequences(), (1, 1));
}

#[test]
fn a_flipped_bit_is_found_when_it_is_read() {
    let memory = MemoryEngine::new(7);
    put(&memory, b"a", b"value");
    put(&memory, b"b", b"");
    assert!(memory.damage(Table::Body, b"a"));
    assert!(!memory.damage(Table::Body, b"b") && !memory.damage(Table::Body, b"c"));
    let error = memory.get(Table::Body, b"a").expect_err("damaged");
    assert!(matches!(&error, Error::Damaged { table: Table::Body, key, .. } if key == b"a"), "{error}");
    assert_eq!(memory.verify(&mut |_| {}).expect("it runs").len(), 1);
    let survivor = memory.crash();
    assert!(survivor.get(Table::Body, b"a").is_err() || survivor.sequences().0 == 0, "damage outlasts a crash");
}

#[test]
fn a_falsified_value_passes_the_checksum() {
    let memory = MemoryEngine::new(8);
    put(&memory, b"a", b"value");
    assert!(memory.damage_with_valid_checksum(Table::Body, b"a"));
    let found = memory.get(Table::Body, b"a").expect("the checksum fits");
    assert!(found.is_some_and(|value| value != b"value"));
}

#[test]
fn old_versions_are_dropped_after_their_last_snapshot() {
    let memory = MemoryEngine::new(9);
    let count = |memory: &MemoryEngine| memory.read_lock().maps[Table::Body as usize][&b"a"[..]].len();
    put(&memory, b"a", b"0");
    memory.sync().expect("synced");
    let snapshot = memory.snapshot().expect("a snapshot");
    for number in 1..10_u8 {
        put(&memory, b"a", &[number]);
        memory.sync().expect("synced");
    }
    assert_eq!(snapshot.get(Table::Body, b"a").expect("sound"), Some(b"0".to_vec()));
    drop(snapshot);
    put(&memory, b"a", b"last");
    assert_eq!(count(&memory), 2, "the synced one and the last one");
}

#[test]
fn equal_seeds_fail_the_same_syncs() {
    let run = |seed| {
        let memory = MemoryEngine::new(seed);
        memory.faults().fail_syncs(300);
        (0..50_u8).map(|_| memory.sync().is_ok()).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn checkpoint_can_be_opened() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let memory = MemoryEngine::new(1);
    put(&memory, b"a", b"1");
    memory.checkpoint(&folder.path().join("copy")).expect("copied");
    let copy = MemoryEngine::open(&folder.path().join("copy"), 2).expect("opened");
    assert_eq!(copy.get(Table::Body, b"a").expect("sound"), Some(b"1".to_vec()));
    assert!(memory.checkpoint(&folder.path().join("copy")).is_err(), "the target must not exist");
    assert!(matches!(MemoryEngine::open(folder.path(), 2), Err(Error::Unusable { .. })));
}
