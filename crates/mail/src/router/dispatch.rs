//! The dispatcher of the queue: the time and the destination of the next attempt of every queued message. It is kept
//! in memory beside the states of the messages.
//!
//! A piece of *work* is one message for one [`Destination`]. Waiting work is in the queue of its destination, in the
//! order of its times. Work that is taken is in no destination's queue until it is given back, so it is never given out
//! twice. The queues of other servers are sorted by their first work. A destination whose slots are all in use is not
//! in this order. So a destination that is slow or has ten thousand messages does not hide the work of others: the next
//! work is found without examining work that cannot be done. Local mailboxes have a separate queue that no other server
//! can fill.
//!
//! Several slow destinations must not occupy all slots either. A domain is *slow* while an attempt at its work has been
//! running for longer than [`TRANSFER_SLOW_AFTER`]. It is also slow from a failure that took that long until an attempt
//! succeeds or fails quickly. Work for slow domains is given out only while such work holds less than half of all
//! slots. The queues of slow domains are sorted separately, so this requires no search.
//!
//! Invariant: `slow_busy` is the sum of the work that is taken for slow domains. Slow marks are dropped with a domain's
//! last work, so memory is bounded by the queue.
//!
//! The owner of a dispatcher holds the lock around it. This module only maintains the order.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::Timestamp;

use crate::limits::TRANSFER_SLOW_AFTER;
use crate::router::entry::QueueKey;

/// The destination of a job.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Destination {
    /// Mailboxes of this server.
    Local,
    /// The mail exchangers of a domain. The domain is in lower case.
    Domain(String),
    /// The host for all mail that is not local.
    SmartHost,
    /// Another server of the domain, which has the mailboxes.
    Server(String),
}

/// The time of the next attempt for each destination of a message.
pub(crate) type AttemptTimes = BTreeMap<Destination, Timestamp>;

/// The result of an attempt at work that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttemptResult {
    /// The remote server gave a final reply, or the work was for local mailboxes.
    Final,
    /// The work is to be tried again. The value is the time of the failure.
    Failed(Timestamp),
    /// No attempt was made.
    NotAttempted,
}

/// The order in which queued messages are tried.
pub(crate) struct Dispatcher {
    queues: HashMap<Destination, DestinationQueue>,
    /// The time of the first work of every other server that has a free slot and is not slow.
    first: BTreeSet<(Timestamp, Destination)>,
    /// The time of the first work of every slow domain that has a free slot.
    first_slow: BTreeSet<(Timestamp, Destination)>,
    planned: HashMap<QueueKey, AttemptTimes>,
    /// The work that is taken, and the time at which it was taken.
    taken: HashMap<(QueueKey, Destination), Timestamp>,
    /// The taken work for domains that has not made its domain slow yet, the oldest first.
    young: BTreeSet<(Timestamp, QueueKey, Destination)>,
    /// Number of pieces of work that are taken for slow domains.
    slow_busy: usize,
    per_destination_max: usize,
    slow_max: usize,
}

/// The work for one destination.
#[derive(Default)]
struct DestinationQueue {
    waiting: BTreeSet<(Timestamp, QueueKey)>,
    /// Number of pieces of work that are taken.
    busy: usize,
    /// The time under which the destination is listed in [`Dispatcher::first`], or in [`Dispatcher::first_slow`] if it
    /// is slow.
    listed_at: Option<Timestamp>,
    /// `true` if the destination is slow.
    slow: bool,
}

impl Dispatcher {
    /// Creates a dispatcher with the given numbers of slots for one destination and for all other servers together.
    pub(crate) fn new(per_destination_max: usize, elsewhere_max: usize) -> Self {
        Self {
            queues: HashMap::new(),
            first: BTreeSet::new(),
            first_slow: BTreeSet::new(),
            planned: HashMap::new(),
            taken: HashMap::new(),
            young: BTreeSet::new(),
            slow_busy: 0,
            per_destination_max: per_destination_max.max(1),
            slow_max: (elsewhere_max / 2).max(1),
        }
    }

    /// Sets the times of the next attempts of a message. Without times the message is not tried. Work that is taken
    /// stays taken.
    pub(crate) fn set_attempt_times(&mut self, key: QueueKey, times: AttemptTimes) {
        let before = self.planned.remove(&key).unwrap_or_default();
        for (destination, time) in &before {
            if let Some(queue) = self.queues.get_mut(destination) {
                queue.waiting.remove(&(*time, key));
            }
        }
        for (destination, time) in &times {
            if !self.taken.contains_key(&(key, destination.clone())) {
                self.queues.entry(destination.clone()).or_default().waiting.insert((*time, key));
            }
        }
        // The order is updated only now, so that a queue whose only message receives another time is not dropped in
        // between.
        before.keys().chain(times.keys()).for_each(|destination| self.refresh(destination));
        if !times.is_empty() {
            self.planned.insert(key, times);
        }
    }

    /// Takes the work for local mailboxes that has been due longest.
    pub(crate) fn take_local(&mut self, now: Timestamp) -> Option<(QueueKey, Destination)> {
        self.take(Destination::Local, now)
    }

    /// Takes the work for other servers that has been due longest, among the destinations with a free slot. Slow
    /// destinations receive at most half of the slots.
    pub(crate) fn take_remote(&mut self, now: Timestamp) -> Option<(QueueKey, Destination)> {
        self.mark_slow_destinations(now);
        let slow = self.first_slow.first().filter(|_| self.slow_busy < self.slow_max);
        let (_, destination) = self.first.first().into_iter().chain(slow).min()?;
        self.take(destination.clone(), now)
    }

    /// Returns `true` if work of a message is taken.
    pub(crate) fn is_taken(&self, key: QueueKey) -> bool {
        let destinations = self.planned.get(&key).into_iter().flat_map(AttemptTimes::keys);
        destinations.into_iter().any(|destination| self.taken.contains_key(&(key, destination.clone())))
    }

    /// Returns `true` if a destination is known to be slow.
    pub(crate) fn is_slow(&self, destination: &Destination) -> bool {
        self.queues.get(destination).is_some_and(|queue| queue.slow)
    }

    /// Puts taken work back into its queue. It waits until its time, and at least until `not_before`.
    pub(crate) fn release(
        &mut self,
        key: QueueKey,
        destination: &Destination,
        not_before: Timestamp,
        ended: AttemptResult,
    ) {
        let Some(since) = self.taken.remove(&(key, destination.clone())) else { return };
        self.young.remove(&(since, key, destination.clone()));
        match ended {
            AttemptResult::Final => self.mark(destination, false),
            AttemptResult::Failed(at) => {
                self.mark(destination, can_be_slow(destination) && at >= since.after(TRANSFER_SLOW_AFTER))
            }
            AttemptResult::NotAttempted => {}
        }
        let queue = self.queues.entry(destination.clone()).or_default();
        queue.busy = queue.busy.saturating_sub(1);
        self.slow_busy = self.slow_busy.saturating_sub(usize::from(queue.slow));
        if let Some(time) = self.planned.get_mut(&key).and_then(|times| times.get_mut(destination)) {
            *time = (*time).max(not_before);
            queue.waiting.insert((*time, key));
        }
        self.refresh(destination);
    }

    /// Returns the number of messages that are to be tried and the number of pieces of work that are taken.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.planned.len(), self.taken.len())
    }

    fn take(&mut self, destination: Destination, now: Timestamp) -> Option<(QueueKey, Destination)> {
        let queue = self.queues.get_mut(&destination)?;
        let (time, key) = *queue.waiting.first()?;
        if time > now {
            return None;
        }
        queue.waiting.pop_first();
        queue.busy += 1;
        self.slow_busy += usize::from(queue.slow);
        self.taken.insert((key, destination.clone()), now);
        if can_be_slow(&destination) {
            self.young.insert((now, key, destination.clone()));
        }
        self.refresh(&destination);
        Some((key, destination))
    }

    /// Marks the destinations whose work has been running for too long as slow.
    fn mark_slow_destinations(&mut self, now: Timestamp) {
        while self.young.first().is_some_and(|(since, _, _)| since.after(TRANSFER_SLOW_AFTER) <= now) {
            let Some((_, _, destination)) = self.young.pop_first() else { break };
            self.mark(&destination, true);
        }
    }

    /// Marks a destination as slow or not slow.
    fn mark(&mut self, destination: &Destination, slow: bool) {
        let Some(queue) = self.queues.get_mut(destination).filter(|queue| queue.slow != slow) else { return };
        if let Some(time) = queue.listed_at.take() {
            let order = if queue.slow { &mut self.first_slow } else { &mut self.first };
            order.remove(&(time, destination.clone()));
        }
        queue.slow = slow;
        self.slow_busy = if slow { self.slow_busy + queue.busy } else { self.slow_busy.saturating_sub(queue.busy) };
        self.refresh(destination);
    }

    /// Lists a destination in its current order after a change. Removes its queue if it is empty.
    fn refresh(&mut self, destination: &Destination) {
        let Some(queue) = self.queues.get_mut(destination) else { return };
        let is_open = *destination != Destination::Local && queue.busy < self.per_destination_max;
        let show = queue.waiting.first().map(|(time, _)| *time).filter(|_| is_open);
        if queue.listed_at != show {
            let order = if queue.slow { &mut self.first_slow } else { &mut self.first };
            if let Some(time) = queue.listed_at {
                order.remove(&(time, destination.clone()));
            }
            if let Some(time) = show {
                order.insert((time, destination.clone()));
            }
            queue.listed_at = show;
        }
        if queue.waiting.is_empty() && queue.busy == 0 {
            self.queues.remove(destination);
        }
    }
}

/// Returns `true` if a destination can be slow. Domains and servers can. With a smart host, all mail for domains goes
/// there, so it delays no other one.
fn can_be_slow(destination: &Destination) -> bool {
    matches!(destination, Destination::Domain(_) | Destination::Server(_))
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

    fn times(of: &[(Destination, i64)]) -> AttemptTimes {
        of.iter().map(|(destination, time)| (destination.clone(), Timestamp(*time))).collect()
    }

    #[test]
    fn full_destination_does_not_block_others() {
        let mut dispatcher = Dispatcher::new(2, 8);
        (0..20_000).for_each(|note| dispatcher.set_attempt_times(key(note), times(&[(domain("slow.test"), 1)])));
        dispatcher.set_attempt_times(key(20_000), times(&[(domain("quick.test"), 5), (Destination::Local, 6)]));
        let now = Timestamp(9);
        let taken: Vec<_> = std::iter::from_fn(|| dispatcher.take_remote(now)).collect();
        assert_eq!(
            taken,
            [(key(0), domain("slow.test")), (key(1), domain("slow.test")), (key(20_000), domain("quick.test"))]
        );
        assert_eq!(dispatcher.take_local(now), Some((key(20_000), Destination::Local)));
        dispatcher.release(key(1), &domain("slow.test"), Timestamp(0), AttemptResult::Final);
        assert_eq!(dispatcher.take_remote(now), Some((key(1), domain("slow.test"))));
    }

    #[test]
    fn released_job_waits_for_its_next_attempt() {
        let mut dispatcher = Dispatcher::new(1, 8);
        dispatcher.set_attempt_times(key(1), times(&[(Destination::SmartHost, 3)]));
        assert_eq!(dispatcher.take_remote(Timestamp(2)), None);
        assert_eq!(dispatcher.take_remote(Timestamp(3)), Some((key(1), Destination::SmartHost)));
        dispatcher.set_attempt_times(key(1), times(&[(Destination::SmartHost, 4)]));
        assert_eq!(dispatcher.take_remote(Timestamp(9)), None, "the job is taken");
        dispatcher.release(key(1), &Destination::SmartHost, Timestamp(7), AttemptResult::Failed(Timestamp(6)));
        assert_eq!(dispatcher.take_remote(Timestamp(6)), None);
        dispatcher.set_attempt_times(key(1), times(&[(Destination::SmartHost, 5)]));
        assert!(dispatcher.take_remote(Timestamp(6)).is_some(), "a new plan ends the pause");
        dispatcher.set_attempt_times(key(1), AttemptTimes::new());
        dispatcher.release(key(1), &Destination::SmartHost, Timestamp(0), AttemptResult::NotAttempted);
        assert_eq!(
            (dispatcher.counts(), dispatcher.queues.len(), dispatcher.first.len()),
            ((0, 0), 0, 0),
            "nothing is left"
        );
    }

    /// Returns the time at that many seconds.
    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    /// Plans messages for `slow0.test`, `slow1.test`, … and takes as many as there are slots.
    fn with_slow(count: u32, slots: usize) -> (Dispatcher, Vec<(QueueKey, Destination)>) {
        let mut dispatcher = Dispatcher::new(5, slots);
        (0..count).for_each(|note| {
            dispatcher.set_attempt_times(key(note), [(domain(&format!("slow{note}.test")), at(0))].into())
        });
        let taken: Vec<_> = std::iter::from_fn(|| dispatcher.take_remote(at(1))).take(slots).collect();
        (dispatcher, taken)
    }

    #[test]
    fn slow_destinations_have_half_of_the_slots() {
        let (mut dispatcher, taken) = with_slow(20, 8);
        assert_eq!(taken.len(), 8, "no destination is known to be slow yet");
        for (note, destination) in &taken {
            dispatcher.release(*note, destination, at(200), AttemptResult::Failed(at(90)));
            dispatcher.set_attempt_times(*note, [(destination.clone(), at(200))].into());
        }
        let fresh: Vec<_> = std::iter::from_fn(|| dispatcher.take_remote(at(91))).collect();
        assert_eq!(fresh.len(), 12, "destinations without an attempt are not slow");
        fresh.iter().for_each(|(note, destination)| {
            dispatcher.release(*note, destination, at(500), AttemptResult::Failed(at(181)))
        });
        let again: Vec<_> = std::iter::from_fn(|| dispatcher.take_remote(at(999))).collect();
        assert_eq!((again.len(), dispatcher.slow_busy), (4, 4));
        dispatcher.set_attempt_times(key(50), times(&[(domain("quick.test"), 0)]));
        assert_eq!(dispatcher.take_remote(at(999)), Some((key(50), domain("quick.test"))));
        dispatcher.release(again[0].0, &again[0].1, at(0), AttemptResult::NotAttempted);
        assert!(
            dispatcher.take_remote(at(999)).is_some_and(|(_, destination)| dispatcher.is_slow(&destination)),
            "a slot is free"
        );
    }

    #[test]
    fn quick_reply_clears_slow_mark() {
        for ended in [AttemptResult::Final, AttemptResult::Failed(at(301))] {
            let (mut dispatcher, taken) = with_slow(1, 8);
            let (note, destination) = &taken[0];
            dispatcher.release(*note, destination, at(300), AttemptResult::Failed(at(90)));
            assert!(dispatcher.is_slow(destination));
            assert!(dispatcher.take_remote(at(300)).is_some());
            dispatcher.release(*note, destination, at(400), ended);
            assert_eq!((dispatcher.is_slow(destination), dispatcher.slow_busy), (false, 0), "{ended:?}");
        }
    }

    #[test]
    fn long_running_job_marks_its_destination_slow() {
        let (mut dispatcher, taken) = with_slow(4, 4);
        dispatcher.set_attempt_times(key(10), [(domain("slow0.test"), at(0))].into());
        dispatcher.set_attempt_times(key(11), [(domain("quick.test"), at(2))].into());
        assert_eq!(dispatcher.take_remote(at(30)), Some((key(11), domain("quick.test"))));
        assert_eq!(
            (dispatcher.slow_busy, dispatcher.take_remote(at(30))),
            (4, None),
            "hanging destinations use their half"
        );
        taken
            .iter()
            .for_each(|(note, destination)| dispatcher.release(*note, destination, at(0), AttemptResult::Final));
        assert_eq!(dispatcher.slow_busy, 0);
        let mut dispatcher = Dispatcher::new(5, 4);
        dispatcher.set_attempt_times(key(1), times(&[(Destination::SmartHost, 0)]));
        assert!(dispatcher.take_remote(at(1)).is_some());
        dispatcher.mark_slow_destinations(at(900));
        assert!(!dispatcher.is_slow(&Destination::SmartHost), "it is the only destination");
    }

    proptest! {
        #[test]
        fn any_operations_keep_the_dispatcher_consistent(steps in proptest::collection::vec((0..6u8, 0..6u32, 0..3usize, 0..9i64), 0..200)) {
            let destinations = [domain("a.test"), domain("b.test"), Destination::Local];
            let mut dispatcher = Dispatcher::new(2, 4);
            for (operation, note, index, time) in steps {
                match operation {
                    0 => dispatcher.set_attempt_times(key(note), times(&[(destinations[index].clone(), time), (domain("b.test"), time / 2)])),
                    1 => dispatcher.set_attempt_times(key(note), AttemptTimes::new()),
                    2 => drop(dispatcher.take_remote(Timestamp(time)).or_else(|| dispatcher.take_local(Timestamp(time)))),
                    3 => dispatcher.release(key(note), &destinations[index], Timestamp(time), AttemptResult::Final),
                    4 => dispatcher.release(key(note), &destinations[index], Timestamp(time), AttemptResult::Failed(at(60))),
                    _ => dispatcher.mark_slow_destinations(at(time * 5)),
                }
                for destination in &destinations {
                    let queue = dispatcher.queues.get(destination);
                    let busy = dispatcher.taken.keys().filter(|(_, taken)| taken == destination).count();
                    prop_assert_eq!(queue.map_or(0, |queue| queue.busy), busy);
                    let waits = |(key, times): (&QueueKey, &AttemptTimes)| {
                        let time = times.get(destination)?;
                        (!dispatcher.taken.contains_key(&(*key, destination.clone()))).then_some((*time, *key))
                    };
                    let waiting: BTreeSet<_> = dispatcher.planned.iter().filter_map(waits).collect();
                    prop_assert_eq!(queue.map(|queue| &queue.waiting).cloned().unwrap_or_default(), waiting);
                }
                let slow_busy: usize = dispatcher.queues.values().filter(|queue| queue.slow).map(|queue| queue.busy).sum();
                prop_assert_eq!(dispatcher.slow_busy, slow_busy);
                for (first, slow) in [(&dispatcher.first, false), (&dispatcher.first_slow, true)] {
                    let listed = |(destination, queue): (&Destination, &DestinationQueue)| Some((queue.listed_at?, destination.clone()));
                    let expected: BTreeSet<_> = dispatcher.queues.iter().filter(|(_, queue)| queue.slow == slow).filter_map(listed).collect();
                    prop_assert_eq!(first, &expected);
                }
                prop_assert!(dispatcher.young.iter().all(|(since, note, destination)| dispatcher.taken.get(&(*note, destination.clone())) == Some(since)));
                for queue in dispatcher.queues.values().filter(|queue| queue.busy >= 2) {
                    prop_assert!(queue.listed_at.is_none());
                }
            }
        }
    }
}
