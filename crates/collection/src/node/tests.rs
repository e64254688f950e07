//! Tests of nodes against their decoded children, and against bytes that are not valid nodes.

use super::*;
use crate::fuzz;
use crate::root::Root;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

fn child(fence: &[u8], below: u32, count: u64, sums: &[i64]) -> Child {
    Child { fence: fence.to_vec(), node_number: below, totals: Totals { count, sums: Weight::new(sums) } }
}

fn some_count() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..300, 0u64..100_000, Just(u64::from(u32::MAX)), Just(1 << 40)]
}

fn some_sum() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0i64), -200i64..200, -40_000i64..40_000, any::<i32>().prop_map(i64::from), -1i64 << 50..1 << 50]
}

/// Generates children with three sums. The first fence is empty.
fn some_children(level: u8) -> impl Strategy<Value = Vec<Child>> {
    let fences = prop_oneof![
        btree_set(vec(any::<u8>(), 1..4), 0..40),
        btree_set((0u32..1_000).prop_map(|number| number.to_be_bytes().to_vec()), 0..40),
        btree_set(vec(any::<u8>(), 0..3).prop_map(|tail| [&[9; 50], tail.as_slice()].concat()), 0..40),
    ];
    fences.prop_flat_map(move |fences| {
        let count = fences.len() + 1;
        let values = vec((1u32..=u32::MAX, some_count(), vec(some_sum(), 3)), count);
        values.prop_map(move |values| {
            let fences = std::iter::once(Vec::new()).chain(fences.iter().cloned());
            let pairs = fences.zip(values);
            pairs
                .map(|(fence, (below, count, sums))| child(&fence, below * u32::from(level > 0), count, &sums))
                .collect()
        })
    })
}

fn check_totals(node: &Node, children: &[Child]) {
    let mut sum = Totals::ZERO;
    for (index, child) in children.iter().enumerate() {
        assert_eq!(node.totals_before(index), Ok(sum));
        assert_eq!(node.count_before(index), Ok(sum.count));
        assert_eq!((node.totals(index), node.below(index)), (child.totals, child.node_number));
        sum = sum.checked_add(&child.totals).expect("the test's numbers are small enough");
    }
    assert_eq!(node.totals_before(children.len()), Ok(sum));
}

proptest! {
    #[test]
    fn encoded_node_keeps_its_children(children in some_children(2), probes in vec(vec(any::<u8>(), 0..6), 5)) {
        let node = Node::encode(2, 3, &children);
        prop_assert_eq!(Node::size_bytes(2, 3, &children), node.bytes().len());
        let read = Node::decode(node.bytes().to_vec(), 3);
        prop_assert_eq!(read.as_ref(), Ok(&node));
        prop_assert_eq!(node.children(&[]), Ok(children.clone()));
        check_totals(&node, &children);
        for key in children.iter().map(|child| &child.fence).chain(&probes) {
            let expected = children.iter().rposition(|child| child.fence <= *key).expect("the first fence is empty");
            prop_assert_eq!(node.child_index(key), expected);
        }
    }

    #[test]
    fn changes_in_place_add_to_the_totals(
        mut children in some_children(0),
        changes in vec((any::<usize>(), 0i64..1_000, vec(some_sum(), 3)), 1..30),
    ) {
        let mut node = Node::encode(0, 3, &children);
        for (position, count, sums) in changes {
            let index = position % children.len();
            let change = TotalsChange { count, sums: Weight::new(&sums) };
            prop_assert_eq!(node.add(index, &change), Ok(()));
            children[index].totals = children[index].totals.changed(&change).expect("small enough");
            prop_assert_eq!(node.children(&[]), Ok(children.clone()));
        }
        prop_assert_eq!(Node::decode(node.bytes().to_vec(), 3), Ok(node));
    }

    #[test]
    fn invalid_bytes_do_not_panic(
        children in some_children(1),
        sums in 0u8..9,
        noise in vec(any::<u8>(), 0..80),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        fuzz::decode(&noise);
        let node = Node::encode(1, 3, &children);
        let root = Root { node: node.clone(), ..Root::empty(3) };
        for mut bytes in [[&[sums], node.bytes()].concat(), root.encode()] {
            for (index, value) in &flips {
                let offset = index.index(bytes.len());
                bytes[offset] ^= value;
            }
            fuzz::decode(&bytes);
            fuzz::decode(&bytes[..cut.index(bytes.len())]);
        }
    }
}

#[test]
fn columns_are_as_narrow_as_their_values() {
    let check = |children: &[Child], expected: usize| {
        assert_eq!(Node::encode(0, 2, children).bytes().len() - HEAD_BYTES - COLUMNS_FIXED - 2, expected);
    };
    check(&[child(b"", 0, 0, &[])], 0);
    check(&[child(b"", 0, 255, &[127, -128])], 3);
    check(&[child(b"", 0, 256, &[128, -129])], 6);
    // Two fences: a prefix of two bytes and two suffixes of one byte; three counts of one byte.
    check(&[child(b"", 0, 1, &[]), child(b"abc", 0, 1, &[]), child(b"abd", 0, 1, &[])], 2 + 2 + 3);
    // The shorter fence is the prefix. Each suffix end takes one byte.
    check(&[child(b"", 0, 1, &[]), child(b"ab", 0, 1, &[]), child(b"abd", 0, 1, &[])], 2 + 2 + 1 + 3);
}

#[test]
fn a_node_of_a_newer_format_is_refused() {
    let mut bytes = Node::encode(0, 0, &[child(b"", 0, 1, &[])]).bytes().to_vec();
    bytes[0] = VERSION + 1;
    assert_eq!(Node::decode(bytes, 0), Err("it was written by a newer program"));
    assert_eq!(Node::decode(Vec::new(), 0), Err("its version is missing"));
}

#[test]
fn out_of_range_numbers_are_refused() {
    let mut node = Node::encode(0, 1, &[child(b"", 0, 1, &[i64::MAX]), child(b"k", 0, u64::MAX, &[1])]);
    assert_eq!(node.add(0, &TotalsChange { count: -2, sums: Weight::ZERO }), Err("a count would be negative"));
    assert_eq!(node.add(0, &TotalsChange { count: 0, sums: Weight::new(&[1]) }), Err("a sum overflows"));
    assert_eq!(node.count_before(2), Err("its counts overflow"));
    assert_eq!(node.sum_before(0, 2), Err("its sums overflow"));
}
