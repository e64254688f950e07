//! What a fixup tells of what it found, mended and left.

use store::Table;

use super::*;

/// Makes findings of `place: what`, unmended.
fn findings(rows: &[(Kind, &str, &str)]) -> Findings {
    let mut findings = Findings::default();
    rows.iter().for_each(|(kind, place, what)| findings.add(place, *kind, (*what).to_owned(), false));
    findings
}

fn left(findings: &Findings) -> Vec<&str> {
    findings.left().map(|row| row.what.as_str()).collect()
}

fn block(key: &[u8]) -> store::Error {
    store::Error::Damaged { table: Table::Summary, key: key.to_vec(), why: "checksum".to_owned() }
}

#[test]
fn a_block_that_stays_is_told_wherever_it_is_met() {
    let told = block(b"where the first reading met it").to_string();
    let mut found = findings(&[(Kind::Block, STORE, &told), (Kind::Lost, "a.nsf", "note 7")]);
    found.settle_blocks(&[block(b"elsewhere")]);
    assert_eq!(left(&found), ["note 7", &block(b"elsewhere").to_string()]);
    let failure = found.answer(false).expect_err("not everything is mended").to_string();
    assert!(failure.starts_with("3 findings, 2 of them not mended:\n  a.nsf: note 7\n  store: damaged"), "{failure}");
    let mut found = findings(&[(Kind::Block, STORE, &told)]);
    found.settle_blocks(&[block(b"where the first reading met it")]);
    assert_eq!(left(&found), [&told]);
    found.settle_blocks(&[]);
    assert!(found.answer(false).expect("mended").says[0].contains("1 findings, all of them mended"));
}

#[test]
fn a_repair_that_failed_has_mended_nothing() {
    let derived =
        [(Kind::Derived, "a.nsf", "order"), (Kind::Derived, "a.nsf", "folder"), (Kind::Derived, "b.nsf", "order")];
    let mut found = findings(&derived);
    found.settle_databases(findings(&[(Kind::Failed, "a.nsf", "no space left")]));
    assert_eq!(left(&found), ["order", "folder", "no space left"]);
    assert!(found.rows.iter().filter(|row| row.place == "b.nsf").all(|row| row.mended));
    let mut found = findings(&derived);
    found.settle_databases(findings(&[(Kind::Lost, "a.nsf", "note 7")]));
    assert_eq!(left(&found), ["note 7"]);
}
