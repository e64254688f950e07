//! Tests of the name lookup cache: hits and misses, the budget, and every interleaving of a writer and two readers.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::*;

impl MemorySize for u64 {
    fn bytes(&self) -> usize {
        8
    }
}

/// A directory with one name, whose value is the number of its last change.
#[derive(Default)]
struct World {
    visible: AtomicU64,
    generation: AtomicU64,
}

fn cache() -> NameCache<u64> {
    NameCache::new(1 << 20)
}

fn look_up(cache: &NameCache<u64>, world: &World) -> u64 {
    let load = || Ok::<_, ()>(world.visible.load(Ordering::SeqCst));
    cache.get("ann", || world.generation.load(Ordering::SeqCst), load).expect("loading cannot fail here")
}

fn commit(world: &World, value: u64) {
    world.visible.store(value, Ordering::SeqCst);
    world.generation.store(value, Ordering::SeqCst);
}

#[test]
fn second_lookup_does_not_load() {
    let cache = cache();
    let world = World::default();
    commit(&world, 1);
    assert_eq!(look_up(&cache, &world), 1);
    let again = cache.get("ann", || 1, || Err("the database was read"));
    assert_eq!(again, Ok(1));
    let statistics = cache.statistics();
    assert_eq!((statistics.lookups, statistics.hits, statistics.misses), (2, 1, 1));
    assert_eq!((statistics.entries, statistics.bytes), (1, ENTRY_BYTES + 3 + 8));
}

#[test]
fn change_invalidates_the_cached_value() {
    let cache = cache();
    let world = World::default();
    for value in 1..=3 {
        commit(&world, value);
        assert_eq!(look_up(&cache, &world), value);
    }
    let statistics = cache.statistics();
    assert_eq!((statistics.hits, statistics.misses, statistics.invalidations, statistics.entries), (0, 3, 2, 1));
}

#[test]
fn failed_load_is_not_cached() {
    let cache = cache();
    assert_eq!(cache.get("ann", || 1, || Err("down")), Err("down"));
    assert_eq!(cache.get("ann", || 1, || Ok::<_, &str>(7)), Ok(7));
}

#[test]
fn cache_respects_its_budget() {
    let cache = NameCache::<u64>::new(10_000);
    for number in 0..10_000 {
        cache.insert(&format!("name{number}"), Generation::before_snapshot(1), number);
    }
    let statistics = cache.statistics();
    assert!(statistics.bytes <= 10_000 && statistics.entries > 50, "{statistics:?}");
}

#[test]
fn a_budget_of_zero_switches_the_cache_off() {
    let cache = NameCache::new(0);
    let world = World::default();
    assert_eq!((look_up(&cache, &world), look_up(&cache, &world)), (0, 0));
    assert_eq!(cache.statistics().hits, 0);
}

/// The state of a reader in an interleaving.
#[derive(Clone, Default)]
struct Reader {
    step: usize,
    generation: Option<Generation>,
    read: Option<u64>,
    /// The minimum value that the reader must see: the value committed when it began.
    value_min: u64,
}

const READER_STEPS: usize = 4;

impl Reader {
    /// Executes the next step of a lookup. The steps are those of [`NameCache::get`].
    fn advance(&mut self, cache: &NameCache<u64>, world: &World, committed: u64) {
        match self.step {
            0 => {
                self.value_min = committed;
                self.generation = Some(Generation::before_snapshot(world.generation.load(Ordering::SeqCst)));
            }
            1 => self.read = self.generation.and_then(|generation| cache.find("ann", generation)),
            2 => self.read = self.read.or_else(|| Some(world.visible.load(Ordering::SeqCst))),
            _ => cache.insert("ann", self.generation.expect("step 0"), self.read.expect("step 2")),
        }
        self.step += 1;
    }
}

/// Number of steps of the writer. It makes two commits of two steps each: make the value visible, then increase the
/// generation. A commit has returned after its second step.
const WRITER_STEPS: usize = 4;

fn write(world: &World, step: usize, committed: &mut u64) {
    let value = step as u64 / 2 + 1;
    if step.is_multiple_of(2) {
        world.visible.store(value, Ordering::SeqCst);
    } else {
        world.generation.store(value, Ordering::SeqCst);
        *committed = value;
    }
}

/// Plays one schedule, a sequence of actor numbers (0 writes, 1 and 2 read), and checks the values that the readers
/// saw.
fn play(schedule: &[usize]) {
    let cache = cache();
    let world = World::default();
    let mut writer_step = 0;
    let mut committed = 0;
    let mut readers = [Reader::default(), Reader::default()];
    for &actor in schedule {
        if actor == 0 {
            write(&world, writer_step, &mut committed);
            writer_step += 1;
        } else {
            readers[actor - 1].advance(&cache, &world, committed);
        }
    }
    for reader in &readers {
        let read = reader.read.expect("every schedule is complete");
        assert!(
            read >= reader.value_min,
            "stale: read {read}, but {} was committed; schedule {schedule:?}",
            reader.value_min
        );
    }
    assert_eq!(look_up(&cache, &world), 2, "stale after the end; schedule {schedule:?}");
}

/// Calls `each` for every interleaving of actors with the given numbers of remaining steps. Returns the number of
/// interleavings.
fn interleave(left: &mut [usize; 3], schedule: &mut Vec<usize>, each: &mut dyn FnMut(&[usize])) -> usize {
    if left.iter().all(|&steps| steps == 0) {
        each(schedule);
        return 1;
    }
    let mut count = 0;
    for actor in 0..left.len() {
        if left[actor] > 0 {
            left[actor] -= 1;
            schedule.push(actor);
            count += interleave(left, schedule, each);
            schedule.pop();
            left[actor] += 1;
        }
    }
    count
}

#[test]
fn no_interleaving_of_writer_and_readers_returns_stale_values() {
    let count = interleave(&mut [WRITER_STEPS, READER_STEPS, READER_STEPS], &mut Vec::new(), &mut play);
    assert_eq!(count, 34_650, "12! / (4!)³");
}

#[test]
fn concurrent_readers_never_see_stale_values() {
    let cache = cache();
    let world = World::default();
    let committed = Mutex::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let value_min = *committed.lock().expect("no panic");
                    let read = look_up(&cache, &world);
                    assert!(read >= value_min, "read {read}, at least {value_min} was committed");
                }
            });
        }
        for value in 1..=20_000 {
            commit(&world, value);
            *committed.lock().expect("no panic") = value;
        }
        done.store(true, Ordering::SeqCst);
    });
}
