//! Checks the tree of a collection against its entries, and rebuilds it from them.
//!
//! The entries are authoritative: everything in the tree except the state can be computed from them. [`check`] reads a
//! whole collection and reports each place where it breaks an invariant of the module. [`rebuild`] writes a new tree.
//! Both report entries whose value the weigher cannot read, and [`rebuild`] removes those from the collection: they
//! cannot be weighed, and the layer above adds them again from their notes, which still exist.
//!
//! Damage is an inconsistency, never a panic. Only a failing engine is an error. The recursion descends one level per
//! step and the number of levels is bounded. A node that is reached twice is not entered again.

use std::collections::BTreeSet;
use std::fmt;

use store::{Batch, Direction, Error, KeyRange, Result, Table, TableReader};

use crate::builder::CollectionBuilder;
use crate::change_buffer::{self, ChangeBuffer};
use crate::id::{CollectionId, PREFIX_BYTES};
use crate::limits::{INCONSISTENCIES_MAX, KEY_BYTES_MAX, NodeSizes};
use crate::node::Node;
use crate::reader::{stored_range, strip_prefix};
use crate::root::{ROOT, Root};
use crate::weight::{EntryWeigher, Totals};

/// A violation of a collection's invariants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Inconsistency {
    /// The collection has entries but no tree.
    TreeMissing,
    /// The collection has a different number of sums than its owner expects.
    SumCountDiffers { found: usize, expected: usize },
    /// A node cannot be read.
    NodeUnreadable { number: u32, reason: String },
    /// A node to which its parent points does not exist.
    NodeMissing { number: u32 },
    /// Two parents point to the same node.
    NodeShared { number: u32 },
    /// No parent points to a node.
    NodeOrphaned { number: u32 },
    /// A fence lies outside of the key range of its node.
    FenceMisplaced { number: u32, child: usize },
    /// The totals that a node stores for a child (`stored`) differ from those of the child itself (`computed`).
    TotalsDiffer { number: u32, child: usize, stored: Totals, computed: Totals },
    /// An entry cannot be read.
    EntryUnreadable { key: Vec<u8> },
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TreeMissing => write!(f, "it has entries but no tree"),
            Self::SumCountDiffers { found, expected } => write!(f, "it has {found} sums instead of {expected}"),
            Self::NodeUnreadable { number, reason } => write!(f, "node {number} cannot be read: {reason}"),
            Self::NodeMissing { number } => write!(f, "node {number} is missing"),
            Self::NodeShared { number } => write!(f, "node {number} has two parents"),
            Self::NodeOrphaned { number } => write!(f, "node {number} has no parent"),
            Self::FenceMisplaced { number, child } => write!(f, "node {number}: fence {child} is misplaced"),
            Self::TotalsDiffer { number, child, stored: says, computed: has } => {
                write!(f, "node {number}: child {child} should have {} entries and has {}, ", says.count, has.count)?;
                write!(f, "or their sums differ")
            }
            Self::EntryUnreadable { key } => write!(f, "the entry {} cannot be read", base::hex::lower(key)),
        }
    }
}

/// Checks a collection against its invariants. Returns at most [`INCONSISTENCIES_MAX`] inconsistencies. An empty list
/// means that the collection is sound.
pub fn check(reader: &dyn TableReader, id: CollectionId, weigher: &dyn EntryWeigher) -> Result<Vec<Inconsistency>> {
    let mut walk = Walk {
        reader,
        id,
        weigher,
        next_number: 0,
        recents: ChangeBuffer::default(),
        seen: BTreeSet::from([ROOT]),
        inconsistencies: Vec::new(),
    };
    match Root::load(reader, id) {
        Ok(Some(root)) if root.sums != weigher.sums() => {
            walk.report(Inconsistency::SumCountDiffers { found: root.sums, expected: weigher.sums() });
        }
        Ok(Some(root)) => {
            walk.next_number = root.next_number;
            walk.recents = root.recents;
            walk.check_node(ROOT, &root.node, &Bounds { low: Vec::new(), high: None })?;
            walk.report_orphans()?;
        }
        Ok(None) => {
            if reader.scan(Table::View, &stored_range(id, &[], None), Direction::Forward)?.next()?.is_some() {
                walk.report(Inconsistency::TreeMissing);
            }
            walk.report_orphans()?;
        }
        Err(Error::Damaged { reason, .. }) => walk.report(Inconsistency::NodeUnreadable { number: ROOT, reason }),
        Err(error) => return Err(error),
    }
    Ok(walk.inconsistencies)
}

/// The range of keys that may lie below a node.
struct Bounds {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

struct Walk<'r> {
    reader: &'r dyn TableReader,
    id: CollectionId,
    weigher: &'r dyn EntryWeigher,
    /// The next unused node number. Every existing node has a smaller one.
    next_number: u32,
    recents: ChangeBuffer,
    seen: BTreeSet<u32>,
    inconsistencies: Vec<Inconsistency>,
}

impl Walk<'_> {
    fn report(&mut self, inconsistency: Inconsistency) {
        if self.inconsistencies.len() < INCONSISTENCIES_MAX {
            self.inconsistencies.push(inconsistency);
        }
    }

    /// Checks everything below a node.
    fn check_node(&mut self, number: u32, node: &Node, bounds: &Bounds) -> Result<()> {
        let children = match node.children(&bounds.low) {
            Ok(children) => children,
            Err(reason) => {
                self.report(Inconsistency::NodeUnreadable { number, reason: reason.into() });
                return Ok(());
            }
        };
        for (index, child) in children.iter().enumerate() {
            let next = children.get(index + 1).map(|next| next.fence.clone());
            let high = next.or_else(|| bounds.high.clone());
            let ascends = high.as_ref().is_none_or(|high| child.fence < *high);
            if child.fence < bounds.low || !ascends {
                self.report(Inconsistency::FenceMisplaced { number, child: index });
                continue;
            }
            let below = Bounds { low: child.fence.clone(), high };
            let (says, has) = if node.level() == 0 {
                (self.with_buffered_changes(child.totals, &below), Some(self.block_totals(&below)?))
            } else {
                (child.totals, self.check_child(child.node_number, node.level() - 1, &below)?)
            };
            match has {
                Some(has) if has != says => {
                    self.report(Inconsistency::TotalsDiffer { number, child: index, stored: says, computed: has });
                }
                Some(_) if child.totals.count == 0 && !(number == ROOT && children.len() == 1) => {
                    self.report(Inconsistency::NodeUnreadable { number, reason: "it has an empty child".into() });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the changes that the root buffers for a block to the block's stored totals.
    fn with_buffered_changes(&self, stored: Totals, block: &Bounds) -> Totals {
        let change = change_buffer::sum(self.recents.within(&block.low, block.high.as_deref()));
        // An overflow is reported as a difference.
        change.ok().and_then(|change| stored.changed(&change)).unwrap_or(Totals { count: u64::MAX, ..stored })
    }

    /// Checks a node below the root. Returns its totals, or `None` if it cannot be read.
    fn check_child(&mut self, number: u32, level: u8, bounds: &Bounds) -> Result<Option<Totals>> {
        if !self.seen.insert(number) {
            self.report(Inconsistency::NodeShared { number });
            return Ok(None);
        }
        if number >= self.next_number {
            self.report(Inconsistency::NodeUnreadable { number, reason: "its number was never allocated".into() });
        }
        let bytes = match self.reader.get(Table::Tree, &self.id.node_key(number)) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                self.report(Inconsistency::NodeMissing { number });
                return Ok(None);
            }
            Err(Error::Damaged { reason, .. }) => {
                self.report(Inconsistency::NodeUnreadable { number, reason });
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let node = Node::decode(bytes, self.weigher.sums()).and_then(|node| {
            if node.level() == level { Ok(node) } else { Err("it is not one level below its parent") }
        });
        let totals = node.and_then(|node| Ok((node.totals_before(node.len())?, node)));
        match totals {
            Ok((totals, node)) => {
                self.check_node(number, &node, bounds)?;
                Ok(Some(totals))
            }
            Err(reason) => {
                self.report(Inconsistency::NodeUnreadable { number, reason: reason.into() });
                Ok(None)
            }
        }
    }

    /// Returns the totals of the entries in a block.
    fn block_totals(&mut self, bounds: &Bounds) -> Result<Totals> {
        let range = stored_range(self.id, &bounds.low, bounds.high.as_deref());
        let mut cursor = self.reader.scan(Table::View, &range, Direction::Forward)?;
        let mut totals = Totals::ZERO;
        loop {
            let (key, value) = match cursor.next() {
                Ok(Some((key, value))) => (strip_prefix(key), value),
                Ok(None) => break,
                Err(Error::Damaged { key, .. }) => {
                    let key = key.get(PREFIX_BYTES..).unwrap_or_default().to_vec();
                    self.report(Inconsistency::EntryUnreadable { key });
                    break;
                }
                Err(error) => return Err(error),
            };
            let one = self.weigher.weigh(key, value).map(Totals::one);
            match one.and_then(|one| totals.checked_add(&one)) {
                Some(sum) => totals = sum,
                None => self.report(Inconsistency::EntryUnreadable { key: key.to_vec() }),
            }
        }
        Ok(totals)
    }

    /// Reports nodes that the walk did not reach.
    fn report_orphans(&mut self) -> Result<()> {
        let mut cursor = self.reader.scan(Table::Tree, &KeyRange::prefix(&self.id.prefix()), Direction::Forward)?;
        while let Some((key, _)) = cursor.next()? {
            let number = <[u8; 4]>::try_from(strip_prefix(key)).map_or(u32::MAX, u32::from_be_bytes);
            if !self.seen.contains(&number) {
                self.report(Inconsistency::NodeOrphaned { number });
            }
        }
        Ok(())
    }
}

/// Result of [`rebuild`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rebuilt {
    /// The new totals of the collection.
    pub totals: Totals,
    /// The keys of entries that were removed because they cannot be read.
    pub removed: Vec<Vec<u8>>,
    /// `true` if the stored state could not be read and was replaced by the given one.
    pub state_lost: bool,
}

/// Rebuilds the tree from the entries. `state` is used if the root record cannot be read.
///
/// Fails if the engine cannot read some of the entries and cannot name them. The caller then removes the collection
/// ([`CollectionId::remove_all`]) and adds the entries again from their notes.
pub fn rebuild(
    reader: &dyn TableReader,
    id: CollectionId,
    weigher: &dyn EntryWeigher,
    state: &[u8],
    batch: &mut Batch,
) -> Result<Rebuilt> {
    let stored = match Root::load(reader, id) {
        Ok(root) => root.map(|root| root.state),
        Err(Error::Damaged { .. }) => None,
        Err(error) => return Err(error),
    };
    let mut builder = CollectionBuilder::start(id, weigher.sums(), NodeSizes::default(), batch);
    let mut removed = Vec::new();
    let mut start = Vec::new();
    let entries = EntryScan { reader, weigher, id };
    while let Some(key) = entries.add_to(&mut builder, batch, &start)? {
        batch.delete(Table::View, &id.entry_key(&key));
        start.clone_from(&key);
        start.push(0);
        removed.push(key);
    }
    let totals = builder.finish(batch, stored.as_deref().unwrap_or(state))?;
    Ok(Rebuilt { totals, removed, state_lost: stored.is_none() })
}

/// The stored entries of a collection, from which a tree is rebuilt.
struct EntryScan<'r> {
    reader: &'r dyn TableReader,
    weigher: &'r dyn EntryWeigher,
    id: CollectionId,
}

impl EntryScan<'_> {
    /// Adds entries to the builder, from `start` on. Stops at an entry that cannot be read and returns its key.
    fn add_to(&self, builder: &mut CollectionBuilder, batch: &mut Batch, start: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut cursor = self.reader.scan(Table::View, &stored_range(self.id, start, None), Direction::Forward)?;
        loop {
            let (key, value) = match cursor.next() {
                Ok(Some((key, value))) => (strip_prefix(key), value),
                Ok(None) => return Ok(None),
                Err(error) => return damaged_key(error, self.id, start),
            };
            match self.weigher.weigh(key, value) {
                Some(weight) if key.len() <= KEY_BYTES_MAX => builder.add(batch, key, weight)?,
                _ => return Ok(Some(key.to_vec())),
            }
        }
    }
}

/// Returns the key of the entry at which a scan failed. Returns the error itself if the engine could name no key after
/// the start of the scan.
fn damaged_key(error: Error, id: CollectionId, start: &[u8]) -> Result<Option<Vec<u8>>> {
    if let Error::Damaged { key, .. } = &error
        && let Some(key) = key.strip_prefix(&id.prefix())
        && key > start
    {
        return Ok(Some(key.to_vec()));
    }
    Err(error)
}
