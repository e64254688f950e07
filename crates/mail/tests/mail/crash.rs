//! Tests of a mail server on a disk that fails. A seed determines everything, and the disk is the in-memory engine with
//! its faults.
//!
//! [`simulation`] runs random operations of users and of the router. After each operation it records the last batch and
//! the contents of the mail files and the queue. It stops the world at a random moment, opens the disk as the crash
//! left it, and compares the state. Nothing acknowledged may be missing, no operation may be half done, and nothing may
//! exist twice. Each of the other modules does the same for one kind of fault: a full disk, a failing sync, an
//! interrupted import, threads.
//!
//! The panic message contains the failing seed. `DOUBLET_SEED=n` runs that seed alone, and `DOUBLET_SOAK=1` runs
//! thousands.

mod content;
mod files;
mod full;
mod generate;
mod import;
mod invariants;
mod queue;
mod seeds;
mod simulation;
mod state;
mod threads;
mod world;
