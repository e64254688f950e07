//! Tests of the division of the memory: full sizes, scarce memory, sizes that are set, and ceilings that are set.

use config::{ConfigSources, load};

use super::*;

const GIB: u64 = 1 << 30;

/// Divides the memory of a machine with two processors.
fn plan(memory_bytes: u64, assignments: &[&str]) -> Result<MemoryPlan, MemoryPlanError> {
    let overrides = assignments.iter().map(|text| (*text).to_owned()).collect();
    let config = load(&ConfigSources { overrides, ..ConfigSources::default() }).expect("the assignments are valid");
    MemoryPlan::compute(&config, Machine { memory_bytes, processors: 2 })
}

/// Returns the sizes that the configuration can set: connections, and the others in MiB.
fn sizes(plan: &MemoryPlan) -> [u64; 8] {
    let mib = |size: ByteSize| size.0 / MIB;
    [
        plan.connections_max as u64,
        mib(plan.message_memory),
        mib(plan.store_cache),
        mib(plan.write_buffer),
        mib(plan.blob_cache),
        mib(plan.name_cache),
        mib(plan.indexing_thread),
        mib(plan.view_rebuild),
    ]
}

#[test]
fn memory_that_is_not_scarce_gives_every_part_its_full_size() {
    for memory_bytes in [7 * GIB, 64 * GIB, u64::MAX] {
        let plan = plan(memory_bytes, &[]).expect("no ceiling is set");
        assert_eq!(sizes(&plan), [20_000, 512, 256, 192, 32, 16, 64, 64]);
        assert_eq!((plan.ceiling, plan.total_bytes()), (ByteSize(3_299 * MIB), 3_299 * MIB));
        assert_eq!(plan.waiting_text(), ByteSize(256 * MIB));
        assert!(!plan.exceeds_machine);
    }
}

#[test]
fn parts_shrink_with_the_memory_and_stay_below_the_ceiling() {
    let mut before = [0; 8];
    for half_gibibytes in 1..=14 {
        let memory_bytes = half_gibibytes * (GIB / 2);
        let plan = plan(memory_bytes, &[]).expect("no ceiling is set");
        let total_bytes = plan.total_bytes();
        assert!(total_bytes <= plan.ceiling.0 && total_bytes > plan.ceiling.0 - 2 * MIB, "{plan}");
        assert_eq!(plan.ceiling.0, (memory_bytes / 2).clamp(986 * MIB, 3_299 * MIB), "{plan}");
        assert_eq!(plan.exceeds_machine, memory_bytes / 2 < 986 * MIB);
        let after = sizes(&plan);
        // The cache of the store also gets the rest, which may be larger with less memory.
        let grown = (0..8).all(|part| part == 2 || before[part] <= after[part]);
        assert!(grown, "{before:?} {after:?}");
        before = after;
    }
    assert_eq!(sizes(&plan(GIB, &[]).expect("no ceiling is set")), [1_015, 128, 16, 24, 4, 2, 16, 8]);
}

#[test]
fn sizes_that_are_set_are_used_as_they_are() {
    let set = ["store.cache=1GiB", "limits.connections=500", "full_text.memory=1GiB"];
    let small = plan(2 * GIB, &set).expect("no ceiling is set");
    assert_eq!(sizes(&small), [500, 128, 1_024, 24, 4, 2, 1_024, 8]);
    assert!(small.exceeds_machine, "{small}");
    assert_eq!(small.waiting_text(), ByteSize(256 * MIB));
    let large = plan(64 * GIB, &set).expect("no ceiling is set");
    assert_eq!(sizes(&large), [500, 512, 1_024, 192, 32, 16, 1_024, 64]);
    assert!(!large.exceeds_machine && large.total_bytes() <= large.ceiling.0, "{large}");
    let least = plan(64 * GIB, &["full_text.memory=16MiB"]).expect("no ceiling is set");
    assert_eq!(least.waiting_text(), ByteSize(64 * MIB));
}

#[test]
fn large_ceiling_enlarges_the_cache_of_the_store() {
    let large = plan(64 * GIB, &["server.memory=8GiB"]).expect("it is enough");
    assert_eq!(sizes(&large), [20_000, 512, 256 + 8_192 - 3_299, 192, 32, 16, 64, 64]);
    assert_eq!((large.total_bytes(), large.exceeds_machine), (8 * GIB, false));
    let set = plan(4 * GIB, &["server.memory=8GiB", "store.cache=8MiB"]).expect("it is enough");
    assert_eq!((sizes(&set)[2], set.exceeds_machine), (8, true));
}

#[test]
fn ceiling_below_the_least_sizes_is_refused() {
    let refused = plan(64 * GIB, &["server.memory=985MiB"]).expect_err("it is not enough").to_string();
    let expected = "server.memory: 985MiB is not enough, because these parts need at least 986MiB: connections 32MiB, \
                    messages 128MiB, message copies 384MiB, store cache 16MiB, ";
    assert!(refused.starts_with(expected), "{refused}");
    assert!(plan(64 * GIB, &["server.memory=986MiB"]).is_ok());
    let small = ["server.memory=512MiB", "limits.message_size=1MiB", "server.pool_tasks=2", "server.network_threads=1"];
    let small = plan(64 * GIB, &small).expect("small messages and few threads need little");
    assert!(small.total_bytes() <= 512 * MIB, "{small}");
}

#[test]
fn copies_of_messages_follow_their_size_and_the_threads() {
    let copies = |assignments: &[&str]| {
        let plan = plan(64 * GIB, assignments).expect("no ceiling is set");
        plan.parts().into_iter().find(|(part, _)| *part == "message_copies").map(|(_, bytes)| bytes / MIB)
    };
    assert_eq!(copies(&["limits.message_size=10MiB"]), Some(3 * 5 * 10));
    assert_eq!(copies(&["limits.message_size=10MiB", "server.pool_tasks=20"]), Some(3 * 21 * 10));
    assert_eq!(copies(&["limits.message_size=10MiB", "limits.message_memory=20MiB"]), Some(3 * 20));
}
