//! The entry point of the fuzzer for stored nodes.
//!
//! For any bytes, decoding returns a node or a reason for the failure. A decoded node can be searched, changed, taken
//! apart and written again without a panic. The fuzz target and its corpus live outside of this crate. A property test
//! runs the same entry point for a short time.

use crate::node::{Child, Node};
use crate::root::Root;
use crate::weight::{Totals, TotalsChange, Weight};

/// Decodes the bytes as a root record and as a node, and applies the operations of readers and writers to the result.
pub fn decode(bytes: &[u8]) {
    if let Ok(root) = Root::decode(bytes) {
        assert_eq!(Root::decode(&root.encode()), Ok(root.clone()), "a decoded root record can be encoded again");
        exercise(root.node, root.sums, bytes);
    }
    if let Some((first, rest)) = bytes.split_first() {
        let sums = usize::from(*first) % 9;
        if let Ok(node) = Node::decode(rest.to_vec(), sums) {
            exercise(node, sums, bytes);
        }
    }
}

fn exercise(mut node: Node, sums: usize, key: &[u8]) {
    let _ = node.child_index(key);
    let _ = node.totals_before(node.len());
    assert!(node.lies_within(&[], None) || node.fence(1) == Some(Vec::new()));
    let Ok(children) = node.children(&[]) else { return };
    assert_eq!(children.len(), node.len());
    for child in &children {
        let position = node.child_index(&child.fence);
        assert_eq!(children[position].fence, child.fence, "the position of a fence is that of its child");
    }
    let position = node.child_index(key);
    assert!(children[position].fence.as_slice() <= key, "a key lies at or after its child's fence");
    assert!(
        children.get(position + 1).is_none_or(|next| key < next.fence.as_slice()),
        "a key lies before the next child's fence"
    );
    let sum = |upto: usize| children[..upto].iter().try_fold(Totals::ZERO, |sum, child| sum.checked_add(&child.totals));
    assert_eq!(node.totals_before(node.len()).ok(), sum(node.len()), "the column totals are the sum of the children");
    assert_eq!(
        Node::encode(node.level(), sums, &children).children(&[]),
        Ok(children.clone()),
        "a decoded root record can be encoded again"
    );
    change_first(&mut node, sums, &children[0]);
}

fn change_first(node: &mut Node, sums: usize, first: &Child) {
    let change = TotalsChange { count: 1, sums: Weight::new(&[-300, 1 << 40, -1, 1, 2, 3, 4, 5][..sums]) };
    let expected = Totals { count: 1, sums: change.sums }.checked_add(&first.totals);
    if node.add(0, &change).is_ok() {
        assert_eq!(Some(node.totals(0)), expected, "a change in place adds to the totals");
    }
}
