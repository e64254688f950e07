//! The agenda: which queued message is to be tried when, and where to. Kept in memory beside the queue's states.
//!
//! *Work* is one message for one [`Destination`]. Work that nobody does waits in the lane of its destination, in the order of its times; work that is
//! taken stands in no lane until it is given back, so it is never given out twice. The lanes to other servers are sorted by their
//! first work, and one whose places are all taken is not among them. So a destination that is slow, or has ten thousand messages,
//! hides nobody else's: the next work is found without a look at what cannot be done. Mailboxes here have a lane of their own, which no other
//! server can fill.
//!
//! Who owns an agenda holds the lock around it; here is nothing but order.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use base::Timestamp;

use crate::router::entry::QueueKey;

/// Where a job goes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Destination {
    /// Mailboxes of this server.
    Here,
    /// The mail exchangers of a domain, which is in lower case.
    Domain(String),
    /// The host through which everything goes that is not for here.
    SmartHost,
}

/// When each destination of a message is to be tried.
pub(crate) type Times = BTreeMap<Destination, Timestamp>;

/// What is to be done when.
pub(crate) struct Agenda {
    lanes: HashMap<Destination, Lane>,
    /// The first work of every lane to another server that has a free place.
    first: BTreeSet<(Timestamp, Destination)>,
    planned: HashMap<QueueKey, Times>,
    taken: HashSet<(QueueKey, Destination)>,
    per_destination_max: usize,
}

/// The work for one destination.
#[derive(Default)]
struct Lane {
    waiting: BTreeSet<(Timestamp, QueueKey)>,
    /// How much of it is taken.
    busy: usize,
    /// Under which time the lane stands in [`Agenda::first`].
    shown: Option<Timestamp>,
}

impl Agenda {
    pub(crate) fn new(per_destination_max: usize) -> Self {
        Self {
            lanes: HashMap::new(),
            first: BTreeSet::new(),
            planned: HashMap::new(),
            taken: HashSet::new(),
            per_destination_max: per_destination_max.max(1),
        }
    }

    /// Sets when a message is to be tried; without times, never. What is taken of it stays taken.
    pub(crate) fn plan(&mut self, key: QueueKey, times: Times) {
        for (destination, time) in self.planned.remove(&key).unwrap_or_default() {
            if let Some(lane) = self.lanes.get_mut(&destination) {
                lane.waiting.remove(&(time, key));
            }
            self.refresh(&destination);
        }
        for (destination, time) in &times {
            if !self.taken.contains(&(key, destination.clone())) {
                self.lanes.entry(destination.clone()).or_default().waiting.insert((*time, key));
                self.refresh(destination);
            }
        }
        if !times.is_empty() {
            self.planned.insert(key, times);
        }
    }

    /// Takes the work for mailboxes here that has been due longest.
    pub(crate) fn take_here(&mut self, now: Timestamp) -> Option<(QueueKey, Destination)> {
        self.take(Destination::Here, now)
    }

    /// Takes the work for other servers that has been due longest, of those that have a free place.
    pub(crate) fn take_elsewhere(&mut self, now: Timestamp) -> Option<(QueueKey, Destination)> {
        let destination = self.first.first()?.1.clone();
        self.take(destination, now)
    }

    /// Puts work back that was taken. It waits until its time, and until `not_before`.
    pub(crate) fn give_back(&mut self, key: QueueKey, destination: &Destination, not_before: Timestamp) {
        if !self.taken.remove(&(key, destination.clone())) {
            return;
        }
        let lane = self.lanes.entry(destination.clone()).or_default();
        lane.busy = lane.busy.saturating_sub(1);
        if let Some(time) = self.planned.get_mut(&key).and_then(|times| times.get_mut(destination)) {
            *time = (*time).max(not_before);
            lane.waiting.insert((*time, key));
        }
        self.refresh(destination);
    }

    /// Gives how many messages are to be tried, and how much work is taken.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.planned.len(), self.taken.len())
    }

    fn take(&mut self, destination: Destination, now: Timestamp) -> Option<(QueueKey, Destination)> {
        let lane = self.lanes.get_mut(&destination)?;
        let (time, key) = *lane.waiting.first()?;
        if time > now {
            return None;
        }
        lane.waiting.pop_first();
        lane.busy += 1;
        self.taken.insert((key, destination.clone()));
        self.refresh(&destination);
        Some((key, destination))
    }

    /// Puts a lane where it belongs after it has changed, and forgets it when it is empty.
    fn refresh(&mut self, destination: &Destination) {
        let Some(lane) = self.lanes.get_mut(destination) else { return };
        let is_open = *destination != Destination::Here && lane.busy < self.per_destination_max;
        let show = lane.waiting.first().map(|(time, _)| *time).filter(|_| is_open);
        if lane.shown != show {
            if let Some(time) = lane.shown {
                self.first.remove(&(time, destination.clone()));
            }
            if let Some(time) = show {
                self.first.insert((time, destination.clone()));
            }
            lane.shown = show;
        }
        if lane.waiting.is_empty() && lane.busy == 0 {
            self.lanes.remove(destination);
        }
    }
}

#[cfg(test)]
mod tests {
    use base::NoteId;
    use proptest::prelude::*;

    use super::*;

    fn key(note: u32) -> QueueKey {
        QueueKey { mailbox: 1, note: NoteId(note) }
    }

    fn domain(name: &str) -> Destination {
        Destination::Domain(name.to_owned())
    }

    fn times(of: &[(Destination, i64)]) -> Times {
        of.iter().map(|(destination, time)| (destination.clone(), Timestamp(*time))).collect()
    }

    #[test]
    fn a_full_destination_hides_nobody() {
        let mut agenda = Agenda::new(2);
        (0..20_000).for_each(|note| agenda.plan(key(note), times(&[(domain("slow.test"), 1)])));
        agenda.plan(key(20_000), times(&[(domain("quick.test"), 5), (Destination::Here, 6)]));
        let now = Timestamp(9);
        let taken: Vec<_> = std::iter::from_fn(|| agenda.take_elsewhere(now)).collect();
        assert_eq!(
            taken,
            [(key(0), domain("slow.test")), (key(1), domain("slow.test")), (key(20_000), domain("quick.test"))]
        );
        assert_eq!(agenda.take_here(now), Some((key(20_000), Destination::Here)));
        agenda.give_back(key(1), &domain("slow.test"), Timestamp(0));
        assert_eq!(agenda.take_elsewhere(now), Some((key(1), domain("slow.test"))));
    }

    #[test]
    fn what_is_given_back_waits_for_its_time() {
        let mut agenda = Agenda::new(1);
        agenda.plan(key(1), times(&[(Destination::SmartHost, 3)]));
        assert_eq!(agenda.take_elsewhere(Timestamp(2)), None);
        assert_eq!(agenda.take_elsewhere(Timestamp(3)), Some((key(1), Destination::SmartHost)));
        agenda.plan(key(1), times(&[(Destination::SmartHost, 4)]));
        assert_eq!(agenda.take_elsewhere(Timestamp(9)), None, "it is taken");
        agenda.give_back(key(1), &Destination::SmartHost, Timestamp(7));
        assert_eq!(agenda.take_elsewhere(Timestamp(6)), None);
        agenda.plan(key(1), times(&[(Destination::SmartHost, 5)]));
        assert!(agenda.take_elsewhere(Timestamp(6)).is_some(), "a new plan ends the pause");
        agenda.plan(key(1), Times::new());
        agenda.give_back(key(1), &Destination::SmartHost, Timestamp(0));
        assert_eq!((agenda.counts(), agenda.lanes.len(), agenda.first.len()), ((0, 0), 0, 0), "nothing is left");
    }

    proptest! {
        #[test]
        fn whatever_happens_the_order_holds(steps in proptest::collection::vec((0..4u8, 0..6u32, 0..3usize, 0..9i64), 0..200)) {
            let places = [domain("a.test"), domain("b.test"), Destination::Here];
            let mut agenda = Agenda::new(2);
            for (deed, note, place, time) in steps {
                match deed {
                    0 => agenda.plan(key(note), times(&[(places[place].clone(), time), (domain("b.test"), time / 2)])),
                    1 => agenda.plan(key(note), Times::new()),
                    2 => drop(agenda.take_elsewhere(Timestamp(time)).or_else(|| agenda.take_here(Timestamp(time)))),
                    _ => agenda.give_back(key(note), &places[place], Timestamp(time)),
                }
                for place in &places {
                    let lane = agenda.lanes.get(place);
                    let busy = agenda.taken.iter().filter(|(_, taken)| taken == place).count();
                    prop_assert_eq!(lane.map_or(0, |lane| lane.busy), busy);
                    let waits = |(key, times): (&QueueKey, &Times)| {
                        let time = times.get(place)?;
                        (!agenda.taken.contains(&(*key, place.clone()))).then_some((*time, *key))
                    };
                    let waiting: BTreeSet<_> = agenda.planned.iter().filter_map(waits).collect();
                    prop_assert_eq!(lane.map(|lane| &lane.waiting).cloned().unwrap_or_default(), waiting);
                }
                for lane in agenda.lanes.values().filter(|lane| lane.busy >= 2) {
                    prop_assert!(lane.shown.is_none());
                }
            }
        }
    }
}
