//! Fuzzing: every decoder of bytes from outside, and two ways to feed it.
//!
//! - [`targets`]: the table of entry points. Each takes any bytes, and panics only when a promise is broken.
//! - [`mutation`]: makes inputs from seeds, the same ones for the same number. `make check` runs some thousands of them for each
//!   target with the stable compiler; `make soak` runs a hundred times as many.
//! - [`records`]: the entry point for stored records of notes.
//!
//! The folder `fuzz/` of the repository has the same targets for a coverage-guided fuzzer (`cargo fuzz`), which needs the nightly
//! compiler. Seeds lie in `seeds/`, a folder for each target; what a fuzzer has found goes there too.

pub mod mutation;
pub mod records;
pub mod targets;
