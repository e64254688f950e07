//! Tests of backup and restore: a backup contains everything that was durable, unchanged files are not copied again,
//! and damage is reported before it is restored.

use std::fs;

use base::{DbNumber, NoteId, hex};
use proptest::prelude::*;

use super::manifest::ManifestError;
use super::*;
use crate::batch::Batch;
use crate::blob::{BlobId, BlobOwner};
use crate::engine::tests::{scan_all, small};
use crate::engine::{Direction, KeyRange, Table, TableReader};
use crate::memory::MemoryEngine;
use crate::rocks::StoreOptions;

/// A folder with a store, its backups and the stores restored from them.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn store(&self) -> Store {
        Store::open(&self.path("store"), &small()).expect("a store")
    }

    fn backup(&self, store: &Store) -> Backup {
        backup(store, &self.path("backup"), &[], &mut |_| {}).expect("backed up")
    }

    fn restore(&self, number: Option<u32>, name: &str) -> Result<Store> {
        let folder = self.path(name);
        let destination = RestoreDestination { folder: &folder, wal_folder: None };
        restore(&self.path("backup"), number, destination, &mut |_| {})?;
        Store::open(&folder, &small())
    }

    fn objects(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("backup").join(OBJECTS)).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

/// Writes note `number` with an attachment and waits until it is durable.
fn fill(store: &Store, number: u32) -> BlobId {
    let writer = store.blobs().writer();
    let mut batch = Batch::new();
    let mut content = vec![0; 20_000];
    blake3::Hasher::new().update(&number.to_be_bytes()).finalize_xof().fill(&mut content);
    let owner = BlobOwner { database: DbNumber(1), note: NoteId(number) };
    let id = writer.put(&mut batch, owner, &content).expect("put");
    batch.put(Table::Summary, &number.to_be_bytes(), &content[..500]);
    let ticket = store.commit(&batch).expect("written");
    drop(writer);
    store.durable(ticket).wait().expect("durable");
    id
}

fn fill_all(store: &Store, mut numbers: std::ops::RangeInclusive<u32>) {
    assert!(numbers.all(|number| fill(store, number) != BlobId([0; 32])));
}

fn all(reader: &dyn TableReader) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    Table::ALL.iter().map(|table| scan_all(reader, *table, &KeyRange::all(), Direction::Forward)).collect()
}

#[test]
fn restored_store_has_the_same_content() {
    let world = World::new();
    let store = world.store();
    let ids: Vec<_> = (1..=50).map(|number| fill(&store, number)).collect();
    let mut steps = Vec::new();
    let done = backup(&store, &world.path("backup"), &[], &mut |step| steps.push(step)).expect("backed up");
    assert_eq!((done.number, done.copied_bytes), (1, done.bytes));
    let last = steps.last().expect("progress is reported");
    assert_eq!((last.files, last.bytes), (last.files_total, last.bytes_total));
    assert_eq!((last.files, last.bytes), (done.files, done.bytes));
    assert_eq!(verify(&world.path("backup"), None, &mut |_| {}).expect("sound").bytes, done.bytes);
    let restored = world.restore(None, "restored").expect("restored");
    assert_eq!(all(&restored), all(&store));
    for id in ids {
        assert_eq!(restored.blobs().read(&restored, &id).expect("there").len(), 20_000);
    }
    fill(&restored, 51);
    assert!(!world.path("store").join(crate::rocks::CHECKPOINT_FOLDER).exists());
}

#[test]
fn unchanged_files_are_not_copied_again() {
    let world = World::new();
    let store = world.store();
    fill_all(&store, 1..=200);
    let first = world.backup(&store);
    fill_all(&store, 201..=205);
    let second = world.backup(&store);
    assert!(first.bytes > 4_000_000 && second.bytes > first.bytes);
    assert!(second.copied_bytes < first.bytes / 4, "{} of {}", second.copied_bytes, second.bytes);
    let numbers: Vec<_> = list(&world.path("backup")).expect("listed").iter().map(|each| each.number).collect();
    assert_eq!(numbers, [1, 2]);
    let count = |number, name| {
        let store = world.restore(Some(number), name).expect("restored");
        scan_all(&store, Table::Summary, &KeyRange::all(), Direction::Forward).len()
    };
    assert_eq!((count(1, "one"), count(2, "two")), (200, 205));
}

#[test]
fn a_restored_store_is_backed_up_into_the_same_target() {
    let world = World::new();
    let store = world.store();
    fill_all(&store, 1..=20);
    world.backup(&store);
    fill_all(&store, 21..=40);
    let restored = world.restore(None, "restored").expect("restored");
    fill_all(&restored, 61..=70);
    world.backup(&store);
    world.backup(&restored);
    let contents = |number, name| all(&world.restore(Some(number), name).expect("restored"));
    assert_eq!(contents(2, "two"), all(&store));
    assert_eq!(contents(3, "three"), all(&restored), "equal file names of another history are not mixed up");
}

#[test]
fn backup_during_writes_contains_all_durable_data() {
    let world = World::new();
    let store = world.store();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let durable = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1.. {
                fill(&store, number);
                durable.store(number, std::sync::atomic::Ordering::SeqCst);
                if stop.load(std::sync::atomic::Ordering::SeqCst) {
                    break;
                }
            }
        });
        for round in 1..=3 {
            let least = durable.load(std::sync::atomic::Ordering::SeqCst) as usize;
            world.backup(&store);
            let restored = world.restore(Some(round), &format!("restored-{round}")).expect("restored");
            let found = scan_all(&restored, Table::Summary, &KeyRange::all(), Direction::Forward);
            assert!(found.len() >= least, "{} of {least}", found.len());
            for (index, (key, _)) in found.iter().enumerate() {
                assert_eq!(*key, (index as u32 + 1).to_be_bytes(), "no hole");
            }
            assert_eq!(restored.blobs().report(&restored).expect("sound").count, found.len() as u64);
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
    });
}

#[test]
fn log_is_restored_into_the_wal_folder() {
    let world = World::new();
    let apart = StoreOptions { wal_folder: Some(world.path("store-log")), ..small() };
    let store = Store::open(&world.path("store"), &apart).expect("a store");
    fill(&store, 1);
    world.backup(&store);
    let folder = world.path("restored");
    let wal_folder = world.path("log");
    let destination = RestoreDestination { folder: &folder, wal_folder: Some(&wal_folder) };
    restore(&world.path("backup"), None, destination, &mut |_| {}).expect("restored");
    let options = StoreOptions { wal_folder: Some(wal_folder), ..small() };
    let restored = Store::open(&folder, &options).expect("opened");
    assert_eq!(all(&restored), all(&store));
}

fn check_refused<T>(outcome: Result<T>, expected: &str) {
    let Err(error) = outcome else { panic!("refused: {expected}") };
    assert!(matches!(error, Error::Unusable { .. }), "{error}");
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn damaged_object_fails_verification_and_restore() {
    let world = World::new();
    let store = world.store();
    fill_all(&store, 1..=20);
    world.backup(&store);
    let object = world.objects().into_iter().max_by_key(|path| fs::metadata(path).map_or(0, |data| data.len()));
    let object = object.expect("an object");
    let sound = fs::read(&object).expect("read");
    let target = world.path("backup");
    let mut broken = sound.clone();
    broken[100] ^= 1;
    for wrong in [&broken[..], &sound[..50]] {
        fs::write(&object, wrong).expect("written");
        check_refused(verify(&target, None, &mut |_| {}), "use another backup");
        let name = format!("restored-{}", wrong.len());
        check_refused(world.restore(None, &name).map(drop), "use another backup");
        assert!(!world.path(&name).exists(), "no folder that looks like a store");
    }
    fs::write(&object, &sound).expect("written");
    assert!(verify(&target, None, &mut |_| {}).is_ok());
    fs::remove_file(&object).expect("removed");
    assert!(verify(&target, None, &mut |_| {}).is_err());
    assert_eq!(world.backup(&store).number, 2, "a missing object is copied again");
    assert!(verify(&target, None, &mut |_| {}).is_ok());
}

#[test]
fn interrupted_restore_leaves_no_usable_store() {
    let world = World::new();
    let store = world.store();
    fill_all(&store, 1..=20);
    world.backup(&store);
    // Simulates a restore that stopped before `CURRENT` was moved into place.
    drop(world.restore(None, "restored").expect("restored"));
    let folder = world.path("restored");
    let gathered = folder.join(crate::rocks::RESTORING_FOLDER);
    fs::create_dir(&gathered).expect("made");
    fs::rename(folder.join("CURRENT"), gathered.join("CURRENT")).expect("moved back");
    for _ in 0..2 {
        check_refused(Store::open(&folder, &small()).map(drop), "a restore into it was interrupted");
        check_refused(world.restore(None, "restored").map(drop), "restore into a new folder");
    }
    // Simulates a restore that stopped earlier, before any file was moved.
    let folder = world.path("earlier");
    fs::create_dir_all(folder.join(crate::rocks::RESTORING_FOLDER)).expect("made");
    fs::write(folder.join(crate::rocks::RESTORING_FOLDER).join("CURRENT"), b"half").expect("written");
    check_refused(Store::open(&folder, &small()).map(drop), "a restore into it was interrupted");
    assert_eq!(all(&world.restore(None, "earlier").expect("restored again")), all(&store));
}

#[test]
fn backup_target_inside_the_store_is_refused() {
    let world = World::new();
    let store = world.store();
    std::os::unix::fs::symlink(world.path("store"), world.path("link")).expect("linked");
    for name in ["store", "store/backup", "store/deep/backup", "link/backup", "store/../store/x"] {
        check_refused(backup(&store, &world.path(name), &[], &mut |_| {}), "name a folder elsewhere");
        assert!(!world.path("store/backup").exists() && !world.path("store/objects").exists());
    }
    assert!(!lies_within(&world.path("store-2"), &world.path("store")));
}

#[test]
fn errors_name_the_next_step() {
    let world = World::new();
    check_refused(list(&world.path("nothing")), "name the folder that `doublet backup` wrote to");
    let store = world.store();
    fill(&store, 1);
    world.backup(&store);
    let target = world.path("backup");
    check_refused(verify(&target, Some(7), &mut |_| {}), "it does not contain backup 7, only 1");
    let destination = RestoreDestination { folder: &world.path("store"), wal_folder: None };
    check_refused(restore(&target, None, destination, &mut |_| {}), "restore into a new folder");
    let manifest = target.join(BACKUPS).join("000001");
    fs::write(&manifest, b"doubletb\x01").expect("written");
    check_refused(verify(&target, None, &mut |_| {}), "use another backup");
    fs::remove_file(&manifest).expect("removed");
    check_refused(verify(&target, None, &mut |_| {}), "run `doublet backup` again");
}

#[test]
fn concurrent_backups_into_one_target_are_refused() {
    let world = World::new();
    let store = world.store();
    world.backup(&store);
    let target = world.path("backup");
    let lock = files::lock(&target).expect("no other backup runs");
    check_refused(backup(&store, &target, &[], &mut |_| {}), "another backup into it is running");
    check_refused(prune(&target, 1), "another backup into it is running");
    assert!(verify(&target, None, &mut |_| {}).is_ok(), "reads are still allowed");
    drop(lock);
    assert_eq!(world.backup(&store).number, 2);
}

#[test]
fn pruning_removes_old_backups_and_unreferenced_objects() {
    let world = World::new();
    let store = world.store();
    for round in 0..4_u32 {
        fill_all(&store, round * 100 + 1..=round * 100 + 20);
        if round == 2 {
            store.engine().compact(Table::Blob, &KeyRange::all()).expect("compacted");
        }
        world.backup(&store);
    }
    let target = world.path("backup");
    fs::write(target.join(OBJECTS).join("copy.tmp"), [0; 1_000]).expect("what a crash leaves");
    let before = world.objects().len();
    assert!(prune(&target, 2).expect("pruned") > 1_000);
    assert!(world.objects().len() < before);
    let numbers: Vec<_> = list(&target).expect("listed").iter().map(|each| each.number).collect();
    assert_eq!(numbers, [3, 4]);
    for number in numbers {
        verify(&target, Some(number), &mut |_| {}).expect("sound");
    }
    prune(&target, 0).expect("pruned");
    assert_eq!(list(&target).expect("listed").len(), 1, "the last one stays");
    assert_eq!(world.backup(&store).number, 5);
}

#[test]
fn memory_engine_is_backed_up() {
    let world = World::new();
    let store =
        Store::with_engine(std::sync::Arc::new(MemoryEngine::new(1)), &StoreOptions::default()).expect("a store");
    fill(&store, 1);
    world.backup(&store);
    let folder = world.path("restored");
    let destination = RestoreDestination { folder: &folder, wal_folder: None };
    restore(&world.path("backup"), None, destination, &mut |_| {}).expect("restored");
    assert_eq!(all(&MemoryEngine::open(&folder, 2).expect("opened")), all(&store));
}

#[test]
fn data_files_are_included_in_a_backup() {
    let world = World::new();
    let options = StoreOptions {
        blobs: crate::BlobOptions { encryption_key: Some([7; 32]), ..crate::BlobOptions::default() },
        ..small()
    };
    let store = Store::open(&world.path("store"), &options).expect("a store");
    let file = |name: &str, content: &[u8]| DataFile { name: name.into(), content: content.to_vec() };
    let first = vec![file("templates/a.toml", b"one"), file(KEY_FILES, b"sealed")];
    let second = vec![file("templates/a.toml", b"two")];
    let target = world.path("backup");
    let done = backup(&store, &target, &first, &mut |_| {}).expect("backed up");
    assert!(done.encrypted && done.has_keys);
    assert!(!backup(&store, &target, &second, &mut |_| {}).expect("backed up").has_keys);
    let found = data_files(&target, Some(1)).expect("read");
    assert_eq!((found.number, &found.files), (1, &first));
    assert_eq!(found.key_fingerprint, Some(crate::blob::BlobCipher::new(&[7; 32]).fingerprint()));
    assert_eq!(data_files(&target, None).expect("read").files, second);
    prune(&target, 1).expect("pruned");
    assert_eq!(data_files(&target, None).expect("read").files, second, "pruning keeps what is needed");
    let object = target.join(OBJECTS).join(hex::lower(blake3::hash(b"two").as_bytes()));
    fs::write(&object, b"owt").expect("written");
    check_refused(data_files(&target, None), "use another backup");
    check_refused(verify(&target, None, &mut |_| {}), "use another backup");
    let many = vec![file("templates/a.toml", b""); DATA_FILES_MAX + 1];
    check_refused(backup(&store, &target, &many, &mut |_| {}), "at most 1000 files");
    let large = file("tls/key.pem", &vec![0; DATA_FILE_BYTES_MAX as usize + 1]);
    check_refused(backup(&store, &target, &[large], &mut |_| {}), "remove files");
}

fn entry() -> impl Strategy<Value = ManifestEntry> {
    ("[a-z0-9.-]{1,20}", any::<u64>(), any::<i64>(), any::<[u8; 32]>())
        .prop_filter("a plain name", |(name, ..)| name != "." && name != "..")
        .prop_map(|(name, length, modified_ns, hash)| ManifestEntry { name, length, modified_ns, hash })
}

proptest! {
    #[test]
    fn manifest_round_trips(
        files in prop::collection::vec(entry(), 0..20),
        data_files in prop::collection::vec(entry(), 0..3),
        key_fingerprint: Option<[u8; 32]>,
        offset: prop::sample::Index,
        bit in 0_u8..8,
    ) {
        let manifest = Manifest { files, data_files, key_fingerprint, encryption_unknown: false };
        let bytes = manifest.encode();
        prop_assert_eq!(decode_manifest(&bytes), Ok(manifest));
        let mut broken = bytes.clone();
        broken[offset.index(bytes.len())] ^= 1 << bit;
        prop_assert!(decode_manifest(&broken).is_err());
        prop_assert!(decode_manifest(&bytes[..offset.index(bytes.len())]).is_err());
    }

    #[test]
    fn manifest_decoder_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = decode_manifest(&bytes);
        for version in [1, 2] {
            let _ = decode_manifest(&framed(version, &bytes));
        }
    }
}

/// Returns a manifest with valid magic number, version and hash around the given content.
fn framed(version: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = [b"doubletb", &[version][..], content].concat();
    let hash = *blake3::hash(&bytes).as_bytes();
    bytes.extend_from_slice(&hash);
    bytes
}

#[test]
fn manifest_of_version_1_has_no_data_files() {
    let bytes = Manifest::default().encode();
    assert_eq!(bytes[8..12], [2, 0, 0, 0], "no files, none beside the store, no fingerprint");
    let old = Manifest { encryption_unknown: true, ..Manifest::default() };
    assert_eq!(decode_manifest(&framed(1, &[0])), Ok(old));
    assert_eq!(decode_manifest(&framed(1, &[0, 0, 0])), Err(ManifestError::Damaged));
    assert_eq!(decode_manifest(&framed(3, &[0, 0, 0])), Err(ManifestError::Unknown));
}

#[test]
fn backup_of_version_1_does_not_say_whether_attachments_are_encrypted() {
    let world = World::new();
    let store = Store::open(&world.path("store"), &small()).expect("a store");
    world.backup(&store);
    let target = world.path("backup");
    assert!(!data_files(&target, None).expect("read").encryption_unknown);
    let path = target.join(BACKUPS).join("000001");
    let bytes = fs::read(&path).expect("read");
    // The content of version 1 ends before the two bytes of an empty list and an empty fingerprint, and the hash.
    fs::write(&path, framed(1, &bytes[9..bytes.len() - 34])).expect("written");
    let found = data_files(&target, None).expect("read");
    assert_eq!((found.key_fingerprint, found.encryption_unknown), (None, true));
    verify(&target, None, &mut |_| {}).expect("sound");
}

#[test]
fn manifest_with_a_path_outside_its_folder_is_refused() {
    let check = |name: &str, is_file: bool, is_data_file: bool| {
        let entry = ManifestEntry { name: name.into(), length: 0, modified_ns: 0, hash: [0; 32] };
        let of_store = Manifest { files: vec![entry.clone()], ..Manifest::default() };
        assert_eq!(decode_manifest(&of_store.encode()).is_ok(), is_file, "{name}");
        let beside = Manifest { data_files: vec![entry], ..Manifest::default() };
        assert_eq!(decode_manifest(&beside.encode()).is_ok(), is_data_file, "{name}");
    };
    check("a", true, true);
    check("a/b", false, true);
    for name in ["..", ".", "/etc/passwd", "a\\b", "a\0b", "", "a/../b", "a//b", "a/"] {
        check(name, false, false);
    }
}
