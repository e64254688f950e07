//! Tests of the documents that queries find.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::{Interrupted, Pacer, Timestamp};
use notes::{AclLevel, Item, ItemValue};
use search::{HitOrder, PageRequest, Query, QueryBounds};

use crate::fixture::Fixture;

#[test]
fn words_phrases_and_operators_find_documents() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    let other = world.database("other.nsf", &[]);
    let a = world.document(&database, "The quick brown fox", "<p>jumps over the lazy dog</p>").0;
    let b = world.document(&database, "A brown quick bear", "<p>eats <b>honey</b>, Müller says</p>").0;
    let c = world.document(&database, "Nothing", "quick reply: 東京に行く").0;
    world.document(&other, "The quick brown fox", "of another database");
    world.index(&database);
    world.index(&other);
    let check = |query: &str, expected: &[u32]| assert_eq!(world.hits(&database, query), expected, "{query}");
    check("quick", &[a, b, c]);
    check("QUICK brown", &[a, b]);
    check("\"quick brown\"", &[a]);
    check("\"brown quick\"", &[b]);
    check("fox OR honey", &[a, b]);
    check("quick NOT brown", &[c]);
    check("-brown", &[c]);
    check("*", &[a, b, c]);
    check("muller", &[b]);
    check("subject:quick", &[a, b]);
    check("body:quick", &[c]);
    check("FIELD Body CONTAINS dog", &[a]);
    check("[Subject]=\"brown fox\"", &[a]);
    check("fox dog", &[a]);
    check("\"fox jumps\"", &[]);
    check("東京", &[c]);
    check("京東", &[]);
    check("\"quick fox\"~1", &[a]);
    check("\"fox quick\"~1", &[a]);
    check("fox NEAR/0 quick", &[]);
    check("bear NEAR quick", &[b]);
    check("subject:(quick NEAR/1 fox)", &[a]);
    check("qu*", &[a, b, c]);
    check("*ney", &[b]);
    check("h?ney l?zy | *ox", &[a]);
    check("subject:b*r", &[b]);
    check("of another", &[]);
    check("ano*", &[]);
}

#[test]
fn internal_items_are_found_under_their_names() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    let note = world.create(&database, vec![Item::text("$MessageID", "<one@two>"), Item::text("$file", "plan.txt")]).0;
    world.index(&database);
    for (query, is_found) in [("one", false), ("$MessageID:one", true), ("plan", true), ("attachment:plan", true)] {
        assert_eq!(world.hits(&database, query), if is_found { vec![note] } else { vec![] }, "{query}");
    }
}

#[test]
fn numbers_and_times_are_compared() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    let item = |amount: f64, due: i64| {
        vec![
            Item::summary("Amount", ItemValue::Number(amount)),
            Item::summary("Due", ItemValue::Time(Timestamp::from_seconds(due))),
        ]
    };
    let a = world.create(&database, item(-1.5, 0)).0;
    let b = world.create(&database, item(0.0, 86_399)).0;
    let c = world.create(&database, item(-0.0, 86_400)).0;
    let d = world.create(&database, vec![Item::summary("Amount", ItemValue::NumberList(vec![7.0, 1000.0]))]).0;
    world.index(&database);
    let check = |query: &str, expected: &[u32]| assert_eq!(world.hits(&database, query), expected, "{query}");
    check("[Amount]<0", &[a]);
    check("[Amount]=0", &[b, c]);
    check("amount>=0", &[b, c, d]);
    check("FIELD Amount > 7", &[d]);
    check("FIELD amount > 1000", &[]);
    check("7", &[d]);
    check("[Due]=1970-01-01", &[a, b]);
    check("[Due]>1970-01-01", &[c]);
    check("[Due]<=1970-01-01T00:00", &[a]);
    check("[Other]>0", &[]);
    check("date>=2026-01-01", &[a, b, c, d]);
    check("date<2026-01-01T00:00:02", &[a, b]);
    check("size>100000", &[]);
    check("modified>=2026-01-01T00:00:03", &[d]);
    check("NOT date<2026-01-01T00:00:02", &[c, d]);
}

#[test]
fn hits_are_sorted_and_paged() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    let notes: Vec<u32> = (0..10).map(|number| world.document(&database, &"word ".repeat(number + 1), "").0).collect();
    world.document(&database, "other", "");
    world.index(&database);
    let page = |sort, offset, limit| {
        let found = world.find_page(&database, "Ann/Acme", "word", PageRequest { sort, offset, limit });
        assert_eq!((found.total, found.is_exact, found.is_current), (10, true, true));
        found.hits.iter().map(|hit| hit.note.0).collect::<Vec<_>>()
    };
    assert_eq!(page(HitOrder::Oldest, 0, 3), notes[..3]);
    assert_eq!(page(HitOrder::Oldest, 8, 3), notes[8..]);
    assert_eq!(page(HitOrder::Newest, 0, 2), [notes[9], notes[8]]);
    assert_eq!(page(HitOrder::Newest, 20, 2), [0_u32; 0]);
    assert_eq!(page(HitOrder::Relevance, 0, 1), [notes[9]]);
    let best = world.find_page(&database, "Ann/Acme", "word", PageRequest::default());
    assert_eq!(best.hits[0].relevance, 100);
    assert!(best.hits.iter().all(|hit| hit.relevance > 0 && hit.date > Timestamp(-1)));
}

#[test]
fn expensive_queries_are_refused() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    let words: String = (0..5_000).map(|number| format!("w{number} ")).collect();
    world.document(&database, "", &words);
    world.index(&database);
    let access = database.authorize::<notes::level::Reader>(&crate::fixture::identity("Ann/Acme")).expect("a reader");
    let run_query = |query: &str, late: bool| {
        let query = search::Query::parse(query).expect("a query");
        world.search.query(&access, &query, PageRequest::default(), &|| late)
    };
    let error = run_query("w*", false).expect_err("too many words").to_string();
    assert!(error.contains("w* matches too many words"), "{error}");
    assert!(run_query("w12*", false).is_ok());
    for number in 0..2_000 {
        world.document(&database, "many", &format!("{number}"));
    }
    world.index(&database);
    assert!(matches!(run_query("many", true), Err(search::Error::TooLong)));
    assert_eq!(run_query("many", false).expect("in time").total, 2_000);
}

/// A pacer that ends the work at a given call.
struct CallLimit {
    calls_max: usize,
    calls: AtomicUsize,
}

impl Pacer for CallLimit {
    fn spend(&self, _: u64) -> Result<(), Interrupted> {
        if self.calls.fetch_add(1, Ordering::SeqCst) < self.calls_max { Ok(()) } else { Err(Interrupted) }
    }
}

#[test]
fn interrupted_query_has_no_result() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[("Bob/Acme", AclLevel::Reader)]);
    for number in 0..60 {
        let mut items = vec![
            Item::text("Subject", format!("word w{number}")),
            Item::summary("Amount", ItemValue::Number(f64::from(number))),
        ];
        items.extend((number % 2 == 1).then(|| Item::readers("Readers", vec!["Ann/Acme".into()])));
        world.create(&database, items);
    }
    world.index(&database);
    let access = database.authorize::<notes::level::Reader>(&crate::fixture::identity("Bob/Acme")).expect("a reader");
    let query = Query::parse("word w* [Amount]>=10").expect("a query");
    for sort in [HitOrder::Relevance, HitOrder::Newest] {
        let page = PageRequest { sort, offset: 0, limit: 100 };
        let whole = world.search.query(&access, &query, page, &|| false).expect("an answer");
        assert_eq!((whole.total, whole.hits.len()), (25, 25));
        for calls_max in 0.. {
            let pacer = Arc::new(CallLimit { calls_max, calls: AtomicUsize::new(0) });
            let bounds = QueryBounds { is_too_long: &|| false, pacer };
            match world.search.query_within(&access, &query, page, &bounds) {
                Ok(found) => {
                    assert_eq!(found, whole);
                    assert!(calls_max > 60, "the words and the restricted hits count: {calls_max} calls");
                    break;
                }
                Err(search::Error::Notes(notes::Error::Interrupted(_))) => {}
                Err(error) => panic!("{error} after {calls_max} calls"),
            }
        }
    }
}
