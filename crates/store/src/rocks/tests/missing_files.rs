//! Tests of stores that lack a file of a table, or whose file has another size.

use super::*;

/// Creates a store with a table that has more files than the engine reads when it opens the store. Returns them.
fn with_many_files(folder: &Path, table: Table) -> Vec<PathBuf> {
    let options = StoreOptions { file_bytes: 64 << 10, ..small() };
    let rocks = RocksEngine::open(folder, &options).expect("a new store");
    let mut batch = Batch::new();
    for number in 0..KEYS {
        batch.put(table, &number.to_be_bytes(), &noise(&number.to_be_bytes(), 100));
    }
    rocks.write(&batch).expect("written");
    rocks.compact(table, &KeyRange::all()).expect("compacted");
    drop(rocks);
    // The engine rewrites its list of files, so that all later starts read the same files.
    drop(RocksEngine::open(folder, &quiet()).expect("opened"));
    let mut many = files(folder, ".sst");
    many.retain(|file| fs::metadata(file).is_ok_and(|data| data.len() > 10_000));
    assert!(many.len() > 20, "{}", many.len());
    many
}

/// Removes a file without which the engine opens the store, which is one that it does not read then. Returns the file.
fn remove_unread(folder: &Path, many: &[PathBuf]) -> PathBuf {
    let is_unread = |file: &&PathBuf| {
        let sound = fs::read(file).expect("read");
        fs::remove_file(file).expect("removed");
        let is_opened = RocksEngine::open(folder, &quiet()).is_ok();
        if !is_opened {
            fs::write(file, sound).expect("written");
        }
        is_opened
    };
    many.iter().find(is_unread).expect("the engine reads few files when it opens the store").clone()
}

fn manifest_of(folder: &Path) -> PathBuf {
    let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("MANIFEST");
    files(folder, "").into_iter().find(is_manifest).expect("a file")
}

fn quiet() -> StoreOptions {
    StoreOptions { quiet: true, ..small() }
}

#[test]
fn store_with_a_missing_file_is_refused() {
    let folder = folder();
    {
        let rocks = open(folder.path()).expect("a new store");
        put(&rocks, Table::Meta, b"a", b"1");
        rocks.flush().expect("flushed");
    }
    let sorted = files(folder.path(), ".sst").pop().expect("a file");
    fs::remove_file(sorted).expect("removed");
    check_refused(folder.path(), &small(), &[" is missing; bring it back", "`doublet fixup`"]);
    fs::remove_file(manifest_of(folder.path())).expect("removed");
    check_refused(folder.path(), &small(), &["restore a backup into a new folder"]);
}

#[test]
fn any_of_many_files_must_be_there() {
    let folder = folder();
    let many = with_many_files(folder.path(), Table::Meta);
    for file in &many {
        let sound = fs::read(file).expect("read");
        fs::remove_file(file).expect("removed");
        let missing = format!("{}: this file of table meta is missing; bring it back", file.display());
        let advice = "or restore a backup; if there is none, stop the server and run `doublet fixup`";
        check_refused(folder.path(), &small(), &[&missing, advice]);
        fs::write(file, &sound[1..]).expect("written");
        let shorter = format!("has {} bytes instead of {}; bring", sound.len() - 1, sound.len());
        check_refused(folder.path(), &small(), &[&file.to_string_lossy(), &shorter]);
        fs::write(file, sound).expect("written");
    }
    assert!(open(folder.path()).is_ok(), "all files are back");
}

#[test]
fn manifest_without_its_end_is_suspected_before_a_repair() {
    let folder = folder();
    let rocks = open(folder.path()).expect("a new store");
    put(&rocks, Table::Meta, b"a", b"1");
    rocks.flush().expect("flushed");
    let listed = manifest::live_files(folder.path()).expect("sound");
    let sorted = listed.iter().find(|file| file.table == Table::Meta.name()).expect("it was flushed");
    let sorted = folder.path().join(&sorted.name);
    let manifest = manifest_of(folder.path());
    let length = fs::metadata(&manifest).expect("a file").len();
    put(&rocks, Table::Meta, b"a", b"2");
    rocks.compact(Table::Meta, &KeyRange::all()).expect("compacted");
    drop(rocks);
    assert!(!sorted.exists(), "the compaction has replaced it");
    let younger = files(folder.path(), ".sst").pop().expect("a file");
    let whole = fs::read(&manifest).expect("read");
    fs::OpenOptions::new().write(true).open(&manifest).and_then(|file| file.set_len(length)).expect("cut");
    let missing = format!("{}: this file of table meta is missing, and the list of files", sorted.display());
    let name = younger.file_name().expect("a name").to_string_lossy();
    check_refused(
        folder.path(),
        &small(),
        &[&missing, &format!("does not contain {name}, so"), "lack its end: restore a backup; if there is none, copy"],
    );
    fs::write(&manifest, whole).expect("written");
    let rocks = open(folder.path()).expect("nothing was lost");
    assert_eq!(rocks.get(Table::Meta, b"a").expect("sound"), Some(b"2".to_vec()));
}

#[test]
fn manifest_that_cannot_be_parsed_refuses_nothing() {
    let folder = folder();
    let many = with_many_files(folder.path(), Table::Meta);
    fs::remove_file(&many[0]).expect("removed");
    assert!(manifest::check_files(folder.path(), &[]).is_err());
    let manifest = manifest_of(folder.path());
    let sound = fs::read(&manifest).expect("read");
    for garbled in [[&sound[..], &[0; 20]].concat(), b"no manifest".to_vec()] {
        fs::write(&manifest, garbled).expect("written");
        assert_eq!(manifest::live_files(folder.path()), None);
        assert!(manifest::check_files(folder.path(), &[]).is_ok());
    }
}

#[test]
fn files_that_go_while_the_store_is_open_are_findings() {
    let folder = folder();
    let many = with_many_files(folder.path(), Table::Meta);
    let rocks = open(folder.path()).expect("opened");
    many.iter().for_each(|file| fs::remove_file(file).expect("removed"));
    let damage = rocks.verify(&mut |_| {}).expect("the check goes on");
    // The engine still has some of the files open.
    assert!(!damage.is_empty());
    for error in damage {
        assert!(matches!(error, Error::Damaged { table: Table::Meta, .. }), "{error}");
        assert!(error.to_string().contains(".sst is missing ("), "{error}");
    }
    drop(rocks);
    check_refused(
        folder.path(),
        &quiet(),
        &["of table meta is missing or damaged", "restore a backup into a new folder"],
    );
}

#[test]
fn missing_table_file_is_removed_by_a_repair() {
    let folder = folder();
    let many = with_many_files(folder.path(), Table::Meta);
    remove_unread(folder.path(), &many);
    assert_eq!(salvage_all(folder.path(), Table::Meta, &quiet()), 1);
    let rocks = open(folder.path()).expect("the file is not expected any more");
    assert_eq!(rocks.verify(&mut |_| {}).expect("it runs").len(), 0);
    let found = all_values(&rocks).into_iter().filter(|value| matches!(value, Ok(Some(_)))).count();
    assert!(found > KEYS as usize * 9 / 10 && found < KEYS as usize, "{found}");
}

#[test]
fn missing_value_file_is_accepted_after_a_repair() {
    let folder = folder();
    drop(with_separate_values(folder.path(), 40));
    let file = files(folder.path(), ".blob").remove(2);
    let sound = fs::read(&file).expect("read");
    fs::remove_file(&file).expect("removed");
    check_refused(folder.path(), &small(), &["this file of table blob is missing; bring it back", "`doublet fixup`"]);
    let rocks = RocksEngine::open(folder.path(), &quiet()).expect("a repair opens it");
    let damage = rocks.verify(&mut |_| {}).expect("it runs");
    assert!(!damage.is_empty() && damage.iter().all(|error| error.to_string().contains(".blob is missing (")));
    drop(rocks);
    let rocks = open(folder.path()).expect("the loss is known");
    let values = (0..40_u32).filter(|number| rocks.get(Table::Blob, &number.to_be_bytes()).is_ok()).count();
    assert_eq!(values, 30, "the other files are intact");
    drop(rocks);
    fs::write(&file, sound).expect("brought back");
    drop(RocksEngine::open(folder.path(), &quiet()).expect("opened"));
    assert!(!folder.path().join("known-missing").exists());
    assert_eq!(open(folder.path()).expect("opened").verify(&mut |_| {}).expect("it runs").len(), 0);
}

#[test]
fn missing_sorted_file_of_attachments_is_accepted_after_a_repair() {
    let folder = folder();
    let many = with_many_files(folder.path(), Table::Blob);
    let removed = remove_unread(folder.path(), &many);
    let name = removed.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(fs::read_to_string(folder.path().join("known-missing")).expect("written"), name);
    assert!(open(folder.path()).is_ok(), "the loss is known");
    fs::remove_file(folder.path().join("known-missing")).expect("removed");
    check_refused(folder.path(), &small(), &[&name, "this file of table blob is missing"]);
}
