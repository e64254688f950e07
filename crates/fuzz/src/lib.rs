//! Fuzzing: every decoder of external bytes, and two ways to run it.
//!
//! - [`targets`]: the table of entry points. Each takes any bytes and panics only when an invariant is violated.
//! - [`mutation`]: generates inputs from seeds, always the same one for the same number. `make check` runs some
//!   thousands of them per target with the stable compiler; `make soak` runs a hundred times as many.
//! - [`records`]: the entry point for stored records of notes.
//! - [`replication`]: the entry point for what other servers send.
//!
//! The folder `fuzz/` of the repository has the same targets for a coverage-guided fuzzer (`cargo fuzz`), which needs
//! the nightly compiler. Seeds are in `seeds/`, in one folder per target; inputs found by a fuzzer are added there.

pub mod mutation;
pub mod records;
pub mod replication;
pub mod targets;
