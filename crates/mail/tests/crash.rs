//! A mail server on a disk that fails: everything is driven from a seed, over the in-memory engine and its faults.
//!
//! [`simulation`] runs random operations of users and of the router, notes after every one which batch it ended with and what
//! the mail files and the queue then held, stops the world at a random moment, opens what is left of the disk, and compares. Nothing
//! that was acknowledged is missing, nothing is half there, nothing is there twice. The other modules do the same for
//! one kind of trouble each: a full disk, a sync that fails, an import that is interrupted, threads.
//!
//! A failing seed is in the panic's message; `DOUBLET_SEED=n` runs that one alone, `DOUBLET_SOAK=1` runs thousands.

#[path = "crash/content.rs"]
mod content;
#[path = "crash/files.rs"]
mod files;
#[path = "crash/full.rs"]
mod full;
#[path = "crash/generate.rs"]
mod generate;
#[path = "crash/import.rs"]
mod import;
#[path = "crash/queue.rs"]
mod queue;
#[path = "crash/seeds.rs"]
mod seeds;
#[path = "crash/simulation.rs"]
mod simulation;
#[path = "crash/sound.rs"]
mod sound;
#[path = "crash/state.rs"]
mod state;
#[path = "crash/threads.rs"]
mod threads;
#[path = "crash/world.rs"]
mod world;
